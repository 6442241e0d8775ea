//! Sources and nodes that an operator excludes, by number or by name, and which of them can be excluded.

use anyhow::bail;
use sheaf_config::{Config, TriggerMode};
use sheaf_node::Exclusions;
use sheaf_wire::{NodeId, Role, SourceId, SourceNames};
use std::collections::BTreeMap;

/// Sources and nodes of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Excludables {
    /// The readout unit of each source.
    readout_of: BTreeMap<SourceId, NodeId>,
    names: SourceNames,
    nodes: BTreeMap<String, NodeId>,
    /// Source whose fragments are the triggers.
    makes_triggers: Option<SourceId>,
}

/// Why something cannot be excluded, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}; {remedy}")]
pub(crate) struct NotExcludable {
    pub(crate) text: String,
    pub(crate) remedy: &'static str,
}

impl Excludables {
    pub(crate) fn of(config: &Config) -> anyhow::Result<Self> {
        let nodes = config.nodes()?;
        let readouts = nodes.iter().filter(|node| node.id.role == Role::Readout);
        let sources = readouts.flat_map(|node| node.sources.iter().map(|source| (*source, node.id)));
        Ok(Self {
            readout_of: sources.collect(),
            names: config.names.clone(),
            makes_triggers: config.trigger.source.filter(|_| config.trigger.mode == TriggerMode::Source),
            nodes: nodes.into_iter().map(|node| (node.name, node.id)).collect(),
        })
    }

    pub(crate) fn names(&self) -> &SourceNames {
        &self.names
    }

    /// Returns the source of the configuration with this number or name.
    pub(crate) fn find(&self, text: &str) -> Option<SourceId> {
        let source = text.parse().ok().map(SourceId).or_else(|| self.names.find(text))?;
        self.readout_of.contains_key(&source).then_some(source)
    }

    /// Returns the node of the configuration with this name.
    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).copied()
    }

    /// Returns the sources and nodes with these numbers or names. Those that the configuration does not have are left out.
    pub(crate) fn known(&self, texts: &[String]) -> Exclusions {
        let nodes = texts.iter().filter_map(|text| self.find_node(text));
        let no_nodes = texts.iter().filter(|text| self.find_node(text).is_none());
        Exclusions { nodes: nodes.collect(), sources: no_nodes.filter_map(|text| self.find(text)).collect() }
    }

    /// Returns the sources and nodes with these numbers or names, if all of them can be excluded.
    pub(crate) fn select(&self, texts: &[String]) -> anyhow::Result<Exclusions> {
        let is_known = |text: &&String| self.find_node(text).is_some() || self.find(text).is_some();
        if let Some(text) = texts.iter().find(|text| !is_known(text)) {
            bail!(
                "there is no source or node `{text}`; --exclude takes numbers and names of sources, and names of readout units and builder units"
            );
        }
        let exclusions = self.known(texts);
        self.check(&exclusions)?;
        Ok(exclusions)
    }

    /// Checks that a run is possible without these sources and nodes.
    pub(crate) fn check(&self, exclusions: &Exclusions) -> Result<(), NotExcludable> {
        let refuse = |text: String, remedy| Err(NotExcludable { text, remedy });
        let has_part = |node: &NodeId| matches!(node.role, Role::Readout | Role::Builder);
        if let Some(node) = exclusions.nodes.iter().find(|node| !has_part(node)) {
            let name = self.nodes.iter().find(|(_, id)| *id == node).map_or("it", |(name, _)| name);
            return refuse(
                format!("{name} is neither a readout unit nor a builder unit"),
                "exclude readout units, builder units and sources",
            );
        }
        let is_excluded = |source: &SourceId| {
            let readout = self.readout_of.get(source);
            exclusions.sources.contains(source)
                || readout.is_some_and(|readout| exclusions.nodes.contains(readout))
        };
        if let Some(source) = self.makes_triggers.filter(is_excluded) {
            return refuse(
                format!("source {} makes the triggers (`trigger.source`)", self.names.show(source)),
                "stop the run, and configure another source or another kind of trigger",
            );
        }
        if self.readout_of.keys().all(is_excluded) {
            return refuse("no source would be left".to_owned(), "stop the run instead");
        }
        let mut builders = self.nodes.values().filter(|node| node.role == Role::Builder);
        if builders.all(|builder| exclusions.nodes.contains(builder)) {
            return refuse("no builder unit would be left".to_owned(), "stop the run instead");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludables(text: &str) -> Excludables {
        let config = Config::parse(text, "test.toml").expect("a configuration");
        Excludables::of(&config).expect("it has nodes")
    }

    fn refusal(of: &Excludables, texts: &[&str]) -> String {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        of.select(&texts).unwrap_err().to_string()
    }

    #[test]
    fn a_source_is_found_by_its_number_if_it_is_read() {
        let of = excludables("[readout]\ncount = 2\n[source]\ncount = 4\n");
        assert_eq!(of.find("3"), Some(SourceId(3)));
        assert_eq!([of.find("4"), of.find("ecal")], [None, None]);
        assert!(refusal(&of, &["9"]).contains("no source or node `9`"));
    }

    #[test]
    fn a_source_and_a_builder_unit_are_left() {
        let of = excludables("[readout]\ncount = 2\n[source]\ncount = 4\n[builder]\ncount = 2\n");
        let chosen = of.select(&["ru1".to_owned(), "0".to_owned(), "bu0".to_owned()]).unwrap();
        let nodes = [NodeId::readout(1), NodeId::builder(0)].into();
        assert_eq!(chosen, Exclusions { sources: [SourceId(0)].into(), nodes });
        // Sources are dealt out in turn or in blocks; all of them are named.
        for texts in [&["ru0", "ru1"][..], &["0", "1", "2", "3"], &["ru1", "0", "1", "2"]] {
            assert!(refusal(&of, texts).contains("no source would be left"));
        }
        assert!(refusal(&of, &["bu0", "bu1"]).contains("no builder unit would be left"));
        assert!(refusal(&of, &["evm"]).contains("evm is neither"));
    }

    #[test]
    fn the_source_that_makes_the_triggers_stays() {
        let of = excludables(
            "[source]\ncount = 2\n[readout]\ncount = 2\n[trigger]\nmode = \"source\"\nsource = 1\n",
        );
        for text in ["1", "ru1"] {
            assert!(refusal(&of, &[text]).contains("makes the triggers"));
        }
        assert!(of.select(&["0".to_owned()]).is_ok());
    }
}
