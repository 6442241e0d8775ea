//! Metadata of an event file that readers need.

use super::name::StreamName;
use serde::Deserialize;

/// The metadata keys that Sheaf's writers write, as far as they are present and valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Software that made the run, with its version.
    pub software: Option<String>,
    /// The stream of accepted events that the file is of.
    pub stream: Option<StreamName>,
    /// The names of the filter's tags, in the order of their bits.
    pub tags: Vec<String>,
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
        }
        let Ok(keys) = serde_json::from_str::<Keys>(text) else { return Self::default() };
        Self {
            software: keys.software.as_str().map(str::to_owned),
            stream: keys.stream.as_str().and_then(|stream| stream.parse().ok()),
            tags: serde_json::from_value(keys.tags).unwrap_or_default(),
        }
    }
}
