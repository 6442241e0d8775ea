//! Metadata of an event file that readers need.

use super::name::StreamName;
use serde::Deserialize;
use sheaf_wire::{SourceId, SourceNames};

/// The metadata keys that Sheaf's writers write, as far as they are present and valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Software that made the run, with its version.
    pub software: Option<String>,
    /// The stream of accepted events that the file is of.
    pub stream: Option<StreamName>,
    /// The names of the filter's tags, in the order of their bits.
    pub tags: Vec<String>,
    /// Names of sources.
    pub source_names: SourceNames,
}

impl Metadata {
    /// Reads metadata, a JSON object as text. Missing or invalid entries are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Keys {
            #[serde(default)]
            software: serde_json::Value,
            #[serde(default)]
            stream: serde_json::Value,
            #[serde(default)]
            tags: serde_json::Value,
            #[serde(default)]
            source_names: serde_json::Value,
        }
        let Ok(keys) = serde_json::from_str::<Keys>(text) else { return Self::default() };
        Self {
            software: keys.software.as_str().map(str::to_owned),
            stream: keys.stream.as_str().and_then(|stream| stream.parse().ok()),
            tags: serde_json::from_value(keys.tags).unwrap_or_default(),
            source_names: source_names(&keys.source_names),
        }
    }
}

/// Reads an object with names by the ids of their sources. A name that is too long, or of two sources, is left out.
fn source_names(value: &serde_json::Value) -> SourceNames {
    let mut names = SourceNames::default();
    for (source, name) in value.as_object().into_iter().flatten() {
        if let (Ok(source), Some(name)) = (source.parse().map(SourceId), name.as_str()) {
            // Metadata may be damaged or of another program: what is not a name is not shown.
            let _ = names.insert(source, name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_are_read_and_what_is_no_name_is_left_out() {
        let text =
            r#"{"source_names":{"7":"left","8":"left","9":9,"x":"y","10":"a\u0007","808432835":"DU3-DOM7"}}"#;
        let names = Metadata::parse(text).source_names;
        let found: Vec<_> = names.iter().map(|(source, name)| (source.0, name)).collect();
        assert_eq!(found, [(7, "left"), (808_432_835, "DU3-DOM7")]);
        for text in [r#"{"source_names":["left"]}"#, r#"{"source_names":null}"#, "{}", "no JSON"] {
            assert!(Metadata::parse(text).source_names.is_empty(), "{text}");
        }
    }
}
