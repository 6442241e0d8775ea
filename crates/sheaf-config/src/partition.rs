//! Partitions: the configuration of a part of the system, derived from that of the whole.
//!
//! A part has the nodes that its table names, an event manager of its own, and what concerns its sources. Everything else is that of the whole.

use crate::check::{Checker, check};
use crate::codec::{Codec as _, name};
use crate::error::{ConfigError, ErrorKind};
use crate::files::Files;
use crate::nodes::NodeConfig;
use crate::origins::Origins;
use crate::requirements::matches;
use crate::row_settings::{Setting, Wrong};
use crate::settings::{Building, Check, Partition, Preprocessing};
use crate::suggest::nearest;
use crate::tables::PARTITIONS;
use crate::text::shorten;
use crate::{Config, Purpose};
use sheaf_wire::{NodeId, Role, SourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Keys and tables that a partition cannot set, and why.
const FIXED: &[(&str, &str)] = &[
    ("run.output", "partitions keep their runs in one directory, where they see each other"),
    ("run.number", "the runs of all partitions have numbers of one sequence"),
    ("run.partition", "`--partition` chooses the partition"),
    ("source.map", "names of sources are read with the file"),
    ("source.count", "the sources of a partition are those of its readout units"),
    ("source.ids", "the sources of a partition are those of its readout units"),
    ("readout.count", "the nodes of a partition are in its `nodes`"),
    ("builder.count", "the nodes of a partition are in its `nodes`"),
    ("output.nodes", "the nodes of a partition are in its `nodes`"),
    ("partition.", "a partition has no parts"),
];

/// Nodes and sources of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionParts {
    /// Name of the partition.
    pub name: String,
    /// Names of its readout units, builder units and output nodes.
    pub nodes: Vec<String>,
    /// Its sources, in the order of its readout units.
    pub sources: Vec<SourceId>,
}

/// Reason why there is no such part: the knob of its table, what was found, and the correction.
type NoPart = (&'static str, String, String);

impl Config {
    /// Returns the nodes and sources of each partition, in the order of their names. Those that do not make a system are left out; a
    /// configuration that was validated has none.
    #[must_use]
    pub fn partition_parts(&self) -> Vec<PartitionParts> {
        let parts = self.partitions.iter().filter_map(|(name, table)| {
            let chosen = self.nodes_of(table).ok()?;
            let sources = chosen.iter().flat_map(|node| node.sources.iter().copied()).collect();
            let nodes = chosen.into_iter().filter(|node| node.id.role != Role::Manager);
            Some(PartitionParts { name: name.clone(), nodes: nodes.map(|node| node.name).collect(), sources })
        });
        parts.collect()
    }

    /// Returns the sources of the nodes if this is the configuration of a partition. Recorded data may have others.
    #[must_use]
    pub fn sources_of_partition(&self) -> Option<BTreeSet<SourceId>> {
        self.run.partition.as_ref()?;
        self.listed_sources().map(|sources| sources.into_iter().collect())
    }

    /// Returns the number by which programs find a readout unit: that of its socket, and the distance of its port from that of
    /// `source.feed.listen`.
    #[must_use]
    pub fn feed_index(&self, readout: NodeId) -> u16 {
        let mut units = self.node.iter().filter(|node| node.role == Role::Readout);
        units.nth(readout.index.into()).and_then(|node| node.feed_index).unwrap_or(readout.index)
    }

    /// Returns whether a partition has a setting of its own for a key.
    pub(crate) fn partition_sets(&self, partition: &str, key: &str) -> bool {
        let is_of = |setting: &String| setting.split_once('=').is_some_and(|(own, _)| own.trim() == key);
        self.partitions.get(partition).is_some_and(|table| table.set.iter().any(is_of))
    }

    /// Applies the settings of a partition, as if they were in the file.
    pub(crate) fn apply_partition(
        &mut self,
        partition: &str,
        origins: &mut Origins<'_>,
        files: Files,
    ) -> Vec<ConfigError> {
        let place = format!("{PARTITIONS}.{partition}.set");
        let settings = self.partitions.get(partition).map(|table| table.set.clone()).unwrap_or_default();
        let mut errors = Vec::new();
        for setting in &settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (key, value) = (key.trim(), value.trim());
            let set = check_key(key)
                .and_then(|()| Setting::check_known(self, key))
                .and_then(|()| self.set(key, value, files));
            match set {
                Ok(()) => origins.set_like(key, &place),
                Err(Wrong { kind, found, right }) => {
                    let (key, origin) = (place.clone(), origins.find(&[&place]));
                    errors.push(ConfigError { kind, key, found, right, origin });
                }
            }
        }
        errors
    }

    /// Returns the configuration of a partition, whose settings have been applied, and all that is wrong with it.
    pub(crate) fn part(
        &self,
        partition: &str,
        origins: &Origins<'_>,
        purpose: Purpose<'_>,
    ) -> (Self, Vec<ConfigError>) {
        let table = format!("{PARTITIONS}.{partition}");
        let label = |error: ConfigError| {
            // Nodes have other places than in the file.
            let own = Some(&*error.key).filter(|key| !key.starts_with("node["));
            let places = [&*format!("{table}.nodes"), &*table];
            let keys: Vec<&str> = own.into_iter().chain(places).collect();
            let found = format!("partition `{partition}`: {}", error.found);
            ConfigError { found, origin: origins.find(&keys), ..error }
        };
        match self.derive(partition) {
            Ok(part) => {
                let errors = check(&part, &Origins::none(), purpose);
                (part, errors.into_iter().map(label).collect())
            }
            Err((knob, found, right)) => {
                let (kind, key) = (ErrorKind::Nodes, format!("{table}.{knob}"));
                let origin = origins.find(&[&key, &table]);
                (self.clone(), vec![ConfigError { kind, key, found, right, origin }])
            }
        }
    }

    fn derive(&self, partition: &str) -> Result<Self, NoPart> {
        let Some(table) = self.partitions.get(partition) else {
            return Err(("nodes", self.no_partition(partition), self.known_partitions(partition)));
        };
        let nodes = self
            .nodes_of(table)
            .map_err(|(knob, found, right)| (knob, format!("partition `{partition}`: {found}"), right))?;
        let mut part = self.clone();
        part.run.partition = Some(partition.to_owned());
        part.partitions.clear();
        part.set_nodes(&nodes);
        let units = nodes.iter().filter(|node| node.id.role == Role::Readout);
        let places: Vec<u16> = units.map(|node| node.id.index).collect();
        let of_units = part.node.iter_mut().filter(|node| node.role == Role::Readout);
        for (node, place) in of_units.zip(&places) {
            node.feed_index = Some(self.feed_index(NodeId::readout(*place)));
        }
        (part.source.count, part.source.ids) = (None, Vec::new());
        part.keep_sources(&nodes.iter().flat_map(|node| node.sources.iter().copied()).collect());
        part.keep_requirements(&nodes);
        part.keep_trigger_types(&places);
        Ok(part)
    }

    /// Returns the event manager and the nodes that a table names, with their places in the whole.
    fn nodes_of(&self, table: &Partition) -> Result<Vec<NodeConfig>, NoPart> {
        let Ok(all) = self.nodes() else {
            let found = "the sources of the system are known only from the data".to_owned();
            return Err((
                "nodes",
                found,
                "list the `sources` of each readout unit in its [[node]] table".into(),
            ));
        };
        let is_member = |node: &&NodeConfig| node.id.role != Role::Manager;
        if let Some(stranger) = table
            .nodes
            .iter()
            .find(|pattern| !all.iter().filter(is_member).any(|node| matches(pattern, &node.name)))
        {
            let names = all.iter().filter(is_member).map(|node| node.name.as_str());
            let right = match nearest(stranger, names.clone()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("the nodes are {}", names.take(20).collect::<Vec<_>>().join(", ")),
            };
            let found = match all.iter().any(|node| node.name == *stranger) {
                true => format!("\"{stranger}\" is the event manager, and each partition has one of its own"),
                false => format!("no node is named \"{stranger}\""),
            };
            return Err(("nodes", found, right));
        }
        let is_chosen = |node: &NodeConfig| {
            node.id.role == Role::Manager || table.nodes.iter().any(|pattern| matches(pattern, &node.name))
        };
        let mut chosen: Vec<NodeConfig> = all.into_iter().filter(is_chosen).collect();
        for (role, one) in [(Role::Readout, "readout unit"), (Role::Builder, "builder unit")] {
            if !chosen.iter().any(|node| node.id.role == role) {
                let found = format!("it has no {one}");
                return Err(("nodes", found, format!("add at least one {one} to its `nodes`")));
            }
        }
        let has_agents = chosen.iter().any(|node| node.agent.is_some());
        if let Some(manager) = chosen.iter_mut().find(|node| node.id.role == Role::Manager) {
            if has_agents && table.manager.is_none() {
                let found = "it has nodes with agents, and no address for its event manager".to_owned();
                let right =
                    "write `manager = \"host:port\"` with an address that no other node and partition has";
                return Err(("manager", found, right.to_owned()));
            }
            manager.address = table.manager.clone().or(manager.address.take());
        }
        Ok(chosen)
    }

    /// Leaves out everything that concerns other sources.
    fn keep_sources(&mut self, own: &BTreeSet<SourceId>) {
        let keep = |list: &mut Vec<SourceId>| list.retain(|source| own.contains(source));
        // An empty list may stand for all sources, so that a table whose sources are elsewhere goes.
        let keep_table = |list: &mut Vec<SourceId>| {
            let was_empty = list.is_empty();
            keep(list);
            was_empty || !list.is_empty()
        };
        for list in
            [&mut self.source.optional, &mut self.source.replay.expected, &mut self.source.timed.cards]
        {
            keep(list);
        }
        if !keep_table(&mut self.building.first_step) {
            self.building = Building::default();
        }
        if !keep_table(&mut self.preprocessing.sources) {
            self.preprocessing = Preprocessing::default();
        }
        self.programs.retain(|_, program| keep_table(&mut program.sources));
        self.clocks.retain(|_, clock| keep_table(&mut clock.cards));
        self.groups.retain(|_, group| keep_table(&mut group.sources));
        self.check_fields.retain(|_, field| keep_table(&mut field.sources));
        if self.check_fields.is_empty() {
            self.check = Check::default();
        }
        if self.check.reference.is_some_and(|source| !own.contains(&source)) {
            self.check.reference = None;
        }
        self.names = self.names.of(own.iter().copied());
    }

    /// Leaves out requirements of other nodes.
    fn keep_requirements(&mut self, nodes: &[NodeConfig]) {
        for table in self.require.values_mut() {
            let count = |pattern: &String| {
                nodes
                    .iter()
                    .filter(|node| node.id.role != Role::Manager && matches(pattern, &node.name))
                    .count()
            };
            table.nodes.retain(|pattern| count(pattern) > 0);
            let most: usize = table.nodes.iter().map(count).sum();
            table.least = table.least.min(u32::try_from(most).unwrap_or(u32::MAX));
        }
        self.require.retain(|_, table| !table.nodes.is_empty());
    }

    /// Leaves out types of triggers that other readout units answer. `places` are those of the readout units in the whole.
    fn keep_trigger_types(&mut self, places: &[u16]) {
        let own: BTreeMap<u16, u16> = places.iter().copied().zip(0..).collect();
        self.triggers.retain(|_, class| {
            let of_all = class.readouts.is_empty();
            class.readouts = class.readouts.iter().filter_map(|place| own.get(place).copied()).collect();
            of_all || !class.readouts.is_empty()
        });
    }

    fn no_partition(&self, wanted: &str) -> String {
        match self.partitions.is_empty() {
            true => "the configuration has no partitions".to_owned(),
            false => format!("there is no partition \"{}\"", shorten(wanted)),
        }
    }

    fn known_partitions(&self, wanted: &str) -> String {
        let names = self.partitions.keys().map(String::as_str);
        match nearest(wanted, names.clone()) {
            _ if self.partitions.is_empty() => {
                format!(
                    "write a table [{PARTITIONS}.NAME] for each, with its `nodes`, or leave out --partition"
                )
            }
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("the partitions are {}", names.take(20).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Returns the error of a choice of a partition that is not there.
    pub(crate) fn unknown_partition(
        &self,
        wanted: &str,
        (of_file, origins): (Option<&str>, &Origins<'_>),
    ) -> Option<ConfigError> {
        let origin = origins.find(&["run.partition"]);
        let (kind, key) = (ErrorKind::Unknown, "run.partition".to_owned());
        if self.partitions.contains_key(wanted) {
            return None;
        }
        if let Some(other) = of_file.filter(|_| self.partitions.is_empty()) {
            let found =
                format!("the configuration is that of partition `{other}`, not of `{}`", shorten(wanted));
            let right = format!("use one of the whole system, or `--partition {other}`");
            return Some(ConfigError { kind, key, found, right, origin });
        }
        Some(ConfigError {
            kind,
            key,
            found: self.no_partition(wanted),
            right: self.known_partitions(wanted),
            origin,
        })
    }
}

/// Checks that a partition may set a key.
fn check_key(key: &str) -> Result<(), Wrong> {
    let is_fixed = |fixed: &str| if fixed.ends_with('.') { key.starts_with(fixed) } else { key == fixed };
    let Some((_, why)) = FIXED.iter().find(|(fixed, _)| is_fixed(fixed)) else { return Ok(()) };
    let found = format!("`{}` cannot differ between partitions: {why}", shorten(key));
    Err(Wrong { kind: ErrorKind::Conflict, found, right: "set it for the whole system".into() })
}

impl Checker<'_> {
    /// Each partition is a system of its own, with the settings that it has.
    pub(crate) fn partitions(&mut self) {
        let config = self.config;
        if self.origins.is_broken(PARTITIONS)
            || self.origins.is_broken("node")
            || config.run.partition.is_some()
        {
            return;
        }
        for (partition, table) in &config.partitions {
            let path = format!("{PARTITIONS}.{partition}");
            let nodes = format!("{path}.nodes");
            if !name().accepts(partition) {
                let found = format!("`{}` cannot name a partition", shorten(partition));
                self.fail(ErrorKind::BadValue, &[&path], found, name().expected());
                continue;
            }
            if table.nodes.is_empty() {
                let found = format!("`{nodes}` is not set");
                let right = "name its readout units and builder units, such as `nodes = [\"ru0\", \"bu0\"]`";
                self.fail(ErrorKind::Missing, &[&nodes, &path], found, right);
                continue;
            }
            let (mut whole, mut origins) = (config.clone(), self.origins.clone());
            // Lists of sources in files were read with the file.
            let mut errors = whole.apply_partition(partition, &mut origins, Files::Refuse);
            if errors.is_empty() {
                errors = whole.part(partition, &origins, Purpose::Run).1;
            }
            self.errors.extend(errors.into_iter().filter(|error| !self.origins.is_broken(&error.key)));
        }
    }
}

#[cfg(test)]
mod tests;
