//! Sources that an operator excludes, by number or by name, and which of them can be excluded.

use anyhow::bail;
use sheaf_config::{Config, TriggerMode};
use sheaf_wire::{Role, SourceId, SourceNames};
use std::collections::BTreeSet;

/// Sources of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    all: BTreeSet<SourceId>,
    names: SourceNames,
    /// Source whose fragments are the triggers.
    makes_triggers: Option<SourceId>,
}

/// Why sources cannot be excluded, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}; {remedy}")]
pub(crate) struct NotExcludable {
    pub(crate) text: String,
    pub(crate) remedy: &'static str,
}

impl Sources {
    pub(crate) fn of(config: &Config) -> anyhow::Result<Self> {
        let nodes = config.nodes()?;
        let readouts = nodes.iter().filter(|node| node.id.role == Role::Readout);
        Ok(Self {
            all: readouts.flat_map(|node| node.sources.iter().copied()).collect(),
            names: config.names.clone(),
            makes_triggers: config.trigger.source.filter(|_| config.trigger.mode == TriggerMode::Source),
        })
    }

    pub(crate) fn names(&self) -> &SourceNames {
        &self.names
    }

    /// Returns the source of the configuration with this number or name.
    pub(crate) fn find(&self, text: &str) -> Option<SourceId> {
        let source = text.parse().ok().map(SourceId).or_else(|| self.names.find(text))?;
        self.all.contains(&source).then_some(source)
    }

    /// Returns the sources with these numbers or names, if all of them can be excluded.
    pub(crate) fn select(&self, texts: &[String]) -> anyhow::Result<BTreeSet<SourceId>> {
        let mut excluded = BTreeSet::new();
        for text in texts {
            match self.find(text) {
                Some(source) => excluded.insert(source),
                None => bail!(
                    "there is no source `{text}`; --exclude takes a number or a name of the configuration"
                ),
            };
        }
        self.check(&excluded)?;
        Ok(excluded)
    }

    /// Checks that a run is possible without these sources.
    pub(crate) fn check(&self, excluded: &BTreeSet<SourceId>) -> Result<(), NotExcludable> {
        if let Some(source) = self.makes_triggers.filter(|source| excluded.contains(source)) {
            return Err(NotExcludable {
                text: format!("source {} makes the triggers (`trigger.source`)", self.names.show(source)),
                remedy: "stop the run, and configure another source or another kind of trigger",
            });
        }
        if self.all.is_subset(excluded) {
            return Err(NotExcludable {
                text: "no source would be left".to_owned(),
                remedy: "stop the run instead",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        let config = Config::parse(text, "test.toml").expect("a configuration");
        Sources::of(&config).expect("it has nodes")
    }

    #[test]
    fn a_source_is_found_by_its_number_if_it_is_read() {
        let sources = sources("[readout]\ncount = 2\n[source]\ncount = 4\n");
        assert_eq!(sources.find("3"), Some(SourceId(3)));
        assert_eq!([sources.find("4"), sources.find("ecal")], [None, None]);
        let error = sources.select(&["9".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no source `9`"), "{error}");
    }

    #[test]
    fn a_source_is_left() {
        let sources = sources("[readout]\ncount = 1\n[source]\ncount = 2\n");
        let both = ["0".to_owned(), "1".to_owned()];
        assert_eq!(sources.select(&both[..1]).unwrap(), [SourceId(0)].into());
        assert!(sources.select(&both).unwrap_err().to_string().contains("no source would be left"));
    }

    #[test]
    fn the_source_that_makes_the_triggers_stays() {
        let sources =
            sources("[source]\ncount = 2\n[readout]\ncount = 1\n[trigger]\nmode = \"source\"\nsource = 1\n");
        let error = sources.select(&["1".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("makes the triggers"), "{error}");
        assert!(sources.select(&["0".to_owned()]).is_ok());
    }
}
