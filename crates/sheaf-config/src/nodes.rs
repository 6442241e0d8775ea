//! Which nodes there are and which sources each reads: as listed, or generated.

use crate::check::Checker;
use crate::error::{ConfigErrors, ErrorKind};
use crate::origins::Origins;
use crate::settings::{MemoryPolicy, Node, Protection, SourceKind, TransportKind, TriggerMode};
use crate::suggest::nearest;
use crate::{Config, Purpose};
use sheaf_wire::{NodeId, Role, RunNumber, SourceId};
use std::collections::{BTreeMap, BTreeSet};

/// A node of the system, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Role and index.
    pub id: NodeId,
    /// The name by which it is started.
    pub name: String,
    /// Listening address, `host:port`, if it is configured.
    pub address: Option<String>,
    /// Address of the agent that starts it; `None` if it is started where the run is.
    pub agent: Option<String>,
    /// Where it listens, too: for further rails.
    pub more_addresses: Vec<String>,
    /// The interfaces that it sends and receives by, for raw Ethernet.
    pub interfaces: Vec<String>,
    /// The sources that it reads, in the order of the configuration; empty but for readout units.
    pub sources: Vec<SourceId>,
    /// The processors that its threads may use: its own, or those of its role; empty: all.
    pub cpu: Vec<usize>,
    /// The real-time priority of its thread, 1 to 99; `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// Which NUMA node's memory its thread takes.
    pub memory: MemoryPolicy,
}

/// Returns the host of `host:port`.
#[must_use]
pub fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

impl Config {
    /// All nodes: the event manager and its standby, the readout units, the builder units, the output nodes, the mirrors, each role in the order of its
    /// index.
    ///
    /// # Errors
    /// If the nodes do not make a system (never after a successful [`Config::validate`] of emulated sources), or if this
    /// is a replay whose readout units do not list their sources: then they come from the directory, and
    /// [`Config::resolve_nodes`] takes them.
    pub fn nodes(&self) -> Result<Vec<NodeConfig>, ConfigErrors> {
        match self.known_sources() {
            Some(sources) => self.resolve_nodes(&sources),
            None => {
                let origins = Origins::none();
                let mut checker = Checker { config: self, origins: &origins, errors: Vec::new() };
                checker.unlisted_sources();
                ConfigErrors::or(checker.errors, Vec::new())
            }
        }
    }

    /// Returns the nodes as [`Config::nodes`] does, with the sources that the caller found in the replay directory.
    ///
    /// The number of generated readout units is at most the number of sources, even if `readout.count` is larger.
    ///
    /// # Errors
    /// If there are no sources; if a source is not in exactly one list of the nodes; if a listed, reference or optional
    /// source is not among `sources`.
    pub fn resolve_nodes(&self, sources: &[SourceId]) -> Result<Vec<NodeConfig>, ConfigErrors> {
        let origins = Origins::none();
        let mut checker = Checker { config: self, origins: &origins, errors: Vec::new() };
        checker.system();
        checker.sources(sources);
        let nodes = if checker.errors.is_empty() { self.assemble(sources) } else { Vec::new() };
        if checker.errors.is_empty() {
            checker.requirements(&nodes);
        }
        ConfigErrors::or(checker.errors, nodes)
    }

    /// Lists `nodes` in the configuration, as `[[node]]` tables, so that a process that is started with it has the
    /// same.
    pub fn set_nodes(&mut self, nodes: &[NodeConfig]) {
        let count = |role| u16::try_from(nodes.iter().filter(|node| node.id.role == role).count());
        self.manager.standby = count(Role::Manager).unwrap_or(1).saturating_sub(1);
        self.readout.count = count(Role::Readout).unwrap_or(u16::MAX);
        self.builder.count = count(Role::Builder).unwrap_or(u16::MAX);
        self.output.nodes = count(Role::Output).unwrap_or(u16::MAX);
        let known: Vec<Option<u16>> = {
            let units = self.node.iter().filter(|node| node.role == Role::Readout);
            units.map(|node| node.feed_index).collect()
        };
        let table = |node: &NodeConfig| Node {
            name: node.name.clone(),
            role: node.id.role,
            address: node.address.clone(),
            agent: node.agent.clone(),
            more_addresses: node.more_addresses.clone(),
            interfaces: node.interfaces.clone(),
            sources: (node.id.role == Role::Readout).then(|| node.sources.clone()),
            cpu: node.cpu.clone(),
            feed_index: known
                .get(usize::from(node.id.index))
                .copied()
                .flatten()
                .filter(|_| node.id.role == Role::Readout),
        };
        self.node = nodes.iter().map(table).collect();
    }

    /// The sources that the nodes list, if they do.
    pub(crate) fn listed_sources(&self) -> Option<Vec<SourceId>> {
        let lists: Vec<&Vec<SourceId>> = self.node.iter().filter_map(|node| node.sources.as_ref()).collect();
        (!lists.is_empty()).then(|| lists.into_iter().flatten().copied().collect())
    }

    /// The ids of sources that the configuration numbers: emulated ones, and those that programs feed or the configuration describes.
    pub(crate) fn numbered_sources(&self) -> Vec<SourceId> {
        if let Some(listed) = self.listed_sources() {
            return listed;
        }
        if !self.source.ids.is_empty() {
            return self.source.ids.clone();
        }
        let count = self.source.count.unwrap_or_else(|| u32::from(self.readout.count));
        (0..count).map(SourceId).collect()
    }

    /// Returns the ids of the sources, if the configuration alone determines them.
    fn known_sources(&self) -> Option<Vec<SourceId>> {
        match self.source.kind {
            kind if kind.is_numbered() => Some(self.numbered_sources()),
            SourceKind::Replay => self.listed_sources(),
            _ => {
                let cards = &self.source.timed.cards;
                self.listed_sources().or_else(|| (!cards.is_empty()).then(|| cards.clone()))
            }
        }
    }

    /// Returns the number of emulated sources of the readout unit that has most of them.
    pub(crate) fn most_sources_of_a_readout(&self) -> u64 {
        let listed = self.node.iter().filter_map(|node| Some(node.sources.as_ref()?.len() as u64)).max();
        let readouts = u64::from(self.readout.count).max(1);
        listed.unwrap_or_else(|| (self.numbered_sources().len() as u64).div_ceil(readouts))
    }

    fn assemble(&self, sources: &[SourceId]) -> Vec<NodeConfig> {
        let mut nodes = if self.node.is_empty() { self.generated(sources.len()) } else { self.listed() };
        if self.listed_sources().is_none() {
            share_out(sources, &mut nodes);
        }
        nodes.sort_by_key(|node| node.id);
        self.give_places(&mut nodes);
        nodes
    }

    /// Applies the role's settings in `[affinity]` to each node that has none of its own.
    fn give_places(&self, nodes: &mut [NodeConfig]) {
        let of_roles = &self.affinity;
        for node in nodes {
            let (cpu, priority, memory) = match node.id.role {
                Role::Manager => (&of_roles.manager_cpu, of_roles.manager_priority, of_roles.manager_memory),
                Role::Readout => (&of_roles.readout_cpu, of_roles.readout_priority, of_roles.readout_memory),
                Role::Builder => (&of_roles.builder_cpu, of_roles.builder_priority, of_roles.builder_memory),
                Role::Output => (&of_roles.output_cpu, of_roles.output_priority, of_roles.output_memory),
                Role::Mirror => (&of_roles.readout_cpu, of_roles.readout_priority, of_roles.readout_memory),
            };
            if node.cpu.is_empty() {
                node.cpu.clone_from(cpu);
            }
            (node.priority, node.memory) = (priority, memory);
        }
    }

    /// Returns the number of mirrors of so many readout units.
    fn mirrors(&self, readouts: u16) -> u16 {
        if self.readout.protect == Protection::Mirror { readouts } else { 0 }
    }

    fn generated(&self, sources: usize) -> Vec<NodeConfig> {
        let readouts = u16::try_from(sources).map_or(self.readout.count, |most| self.readout.count.min(most));
        let ids = (0..=self.manager.standby)
            .map(NodeId::manager)
            .chain((0..readouts).map(NodeId::readout))
            .chain((0..self.builder.count).map(NodeId::builder))
            .chain((0..self.output.nodes).map(NodeId::output))
            .chain((0..self.mirrors(readouts)).map(NodeId::mirror));
        let node = |id: NodeId| NodeConfig {
            id,
            name: id.to_string(),
            address: None,
            agent: None,
            more_addresses: Vec::new(),
            interfaces: Vec::new(),
            sources: Vec::new(),
            cpu: Vec::new(),
            priority: None,
            memory: MemoryPolicy::System,
        };
        ids.map(node).collect()
    }

    fn listed(&self) -> Vec<NodeConfig> {
        let mut next: BTreeMap<Role, u16> = BTreeMap::new();
        let node = |table: &Node| {
            let index = next.entry(table.role).or_default();
            let id = NodeId { role: table.role, index: *index };
            *index += 1;
            NodeConfig {
                id,
                name: table.name.clone(),
                address: table.address.clone(),
                agent: table.agent.clone(),
                more_addresses: table.more_addresses.clone(),
                interfaces: table.interfaces.clone(),
                sources: table.sources.clone().unwrap_or_default(),
                cpu: table.cpu.clone(),
                priority: None,
                memory: MemoryPolicy::System,
            }
        };
        self.node.iter().map(node).collect()
    }
}

/// Gives each readout unit a contiguous block of the sources; sizes differ by one at most.
fn share_out(sources: &[SourceId], nodes: &mut [NodeConfig]) {
    let readouts = nodes.iter().filter(|node| node.id.role == Role::Readout).count();
    let mut rest = sources;
    let units = nodes.iter_mut().filter(|node| node.id.role == Role::Readout);
    for (index, unit) in units.enumerate() {
        let (mine, others) = rest.split_at(rest.len().div_ceil(readouts - index));
        unit.sources = mine.to_vec();
        rest = others;
    }
}

impl Checker<'_> {
    /// The nodes make a system, and every source is read.
    pub(crate) fn nodes(&mut self, purpose: Purpose<'_>) {
        if self.origins.is_broken("node") {
            return;
        }
        let before = self.errors.len();
        self.system();
        if let Some(sources) = self.config.known_sources()
            && self.errors.len() == before
        {
            self.sources(&sources);
            if self.errors.len() == before {
                self.requirements(&self.config.assemble(&sources));
            }
        }
        if let Purpose::Node(name) = purpose {
            self.reaches_other_processes();
            self.startable(name);
        }
    }

    /// Names, roles and numbers of the listed nodes.
    fn system(&mut self) {
        let config = self.config;
        if config.node.is_empty() {
            return;
        }
        self.unique("name", |node| vec![&node.name]);
        self.unique("address", |node| node.address.iter().chain(&node.more_addresses).collect());
        self.used_addresses();
        self.used_interfaces();
        let count = |role| config.node.iter().filter(|node| node.role == role).count();
        let (managers, wanted) = (count(Role::Manager), 1 + usize::from(config.manager.standby));
        if managers != wanted {
            let nodes = config.node.iter().enumerate().filter(|(_, node)| node.role == Role::Manager);
            let key = format!("node[{}].role", nodes.skip(1).map(|(index, _)| index).next().unwrap_or(0));
            let found = format!("there are {managers} nodes with the role \"manager\"");
            let right = match wanted {
                1 => "there must be exactly one event manager; set `manager.standby = 1` for a second one",
                _ => "`manager.standby` is 1: there must be exactly two, the second one is the standby",
            };
            self.fail(ErrorKind::Nodes, &[&key, "manager.standby"], found, right);
        }
        let roles = [
            (Role::Readout, "readout", "readout.count", config.readout.count),
            (Role::Builder, "builder", "builder.count", config.builder.count),
            (Role::Output, "output", "output.nodes", config.output.nodes),
        ];
        self.mirrors_of_units(count(Role::Mirror));
        for (role, word, key, wanted) in roles {
            let listed = count(role);
            if listed == 0 && role != Role::Output {
                let found = format!("there is no node with the role \"{word}\"");
                self.fail(ErrorKind::Nodes, &["node[0]"], found, "there must be at least one");
            } else if listed != usize::from(wanted) {
                let found = format!(
                    "`{key}` is {wanted}, but the number of nodes with the role \"{word}\" is {listed}"
                );
                let right = "remove the count, or make the two agree";
                self.fail(ErrorKind::Nodes, &[key], found, right);
            }
        }
        self.source_lists();
    }

    /// Checks that there is a mirror for each readout unit, or none.
    fn mirrors_of_units(&mut self, mirrors: usize) {
        let wanted = self.config.mirrors(self.config.readout.count);
        if mirrors == usize::from(wanted) {
            return;
        }
        let found = format!("the number of nodes with the role \"mirror\" is {mirrors}");
        let right = match wanted {
            0 => "remove them, or set `readout.protect = \"mirror\"`".to_owned(),
            _ => format!("there must be one for each readout unit, {wanted}, in the same order"),
        };
        self.fail(ErrorKind::Nodes, &["readout.protect", "node[0].role"], found, right);
    }

    /// No two nodes with the same `what`.
    fn unique(&mut self, what: &str, values: fn(&Node) -> Vec<&String>) {
        let config = self.config;
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in config.node.iter().enumerate() {
            for text in values(node) {
                let Some(first) = seen.insert(text, index) else { continue };
                let key = format!("node[{index}].{what}");
                let found = format!("node[{first}] and node[{index}] have the same {what}, \"{text}\"");
                self.fail(ErrorKind::Nodes, &[&key], found, format!("each node needs its own {what}"));
            }
        }
    }

    /// No address that no rail goes to.
    fn used_addresses(&mut self) {
        let rails = usize::from(self.config.transport.rails);
        let config = self.config;
        for (index, node) in config.node.iter().enumerate() {
            let addresses = usize::from(node.address.is_some()) + node.more_addresses.len();
            if node.more_addresses.is_empty() || addresses <= rails {
                continue;
            }
            let key = format!("node[{index}].more_addresses");
            let found =
                format!("\"{}\" has {addresses} addresses, but `transport.rails` is {rails}", node.name);
            let right = format!("set `rails = {addresses}` to use each address as a rail");
            self.fail(ErrorKind::Conflict, &[&key, "transport.rails"], found, right);
        }
    }

    /// An interface for each rail, where interfaces are used.
    fn used_interfaces(&mut self) {
        let config = self.config;
        if config.transport.kind != TransportKind::Ethernet {
            return;
        }
        let rails = usize::from(config.transport.rails);
        for (index, node) in config.node.iter().enumerate() {
            let interfaces = node.interfaces.len();
            if interfaces == rails {
                continue;
            }
            let (key, path) = (format!("node[{index}].interfaces"), format!("node[{index}]"));
            let found =
                format!("\"{}\" has {interfaces} interfaces, but `transport.rails` is {rails}", node.name);
            let right =
                "over raw Ethernet a node has one interface for each rail, like `interfaces = [\"eth1\"]`";
            self.fail(ErrorKind::Conflict, &[&key, &path, "transport.rails"], found, right);
        }
    }

    /// Whether the right nodes have lists of sources.
    fn source_lists(&mut self) {
        let config = self.config;
        let some_list = config.listed_sources().is_some();
        for (index, node) in config.node.iter().enumerate() {
            let key = format!("node[{index}].sources");
            let path = format!("node[{index}]");
            let name = &node.name;
            match (node.role, &node.sources) {
                (Role::Readout, None) if some_list => {
                    let found = format!("readout unit \"{name}\" has no list of sources, but others have");
                    let right = "give `sources` to every readout unit or to none";
                    self.fail(ErrorKind::Sources, &[&key, &path], found, right);
                }
                (Role::Readout, Some(sources)) if sources.is_empty() => {
                    let found = format!("readout unit \"{name}\" reads no source");
                    self.fail(ErrorKind::Sources, &[&key], found, "a readout unit needs at least one source");
                }
                (Role::Manager | Role::Builder | Role::Output | Role::Mirror, Some(_)) => {
                    let found = format!("\"{name}\" has a list of sources, but is not a readout unit");
                    self.fail(ErrorKind::Sources, &[&key], found, "only readout units have `sources`");
                }
                _ => {}
            }
        }
    }

    /// Checks that every source of `sources` is on exactly one readout unit, and that no other source is mentioned.
    fn sources(&mut self, sources: &[SourceId]) {
        let existing: BTreeSet<SourceId> = sources.iter().copied().collect();
        if self.config.listed_sources().is_some() {
            self.listed_once(&existing);
        } else {
            self.enough_to_share(existing.len());
        }
        if let (TriggerMode::Source, Some(reference)) = (self.config.trigger.mode, self.config.trigger.source)
            && !existing.contains(&reference)
        {
            let found = format!("the reference source {reference} does not exist");
            self.fail(ErrorKind::Sources, &["trigger.source", "source.count"], found, known(&existing));
        }
        if let Some(payloads) = self.config.trigger.network.payload_source
            && !existing.contains(&payloads)
        {
            let keys = ["trigger.network.payload_source", "source.count"];
            let found = format!("source {payloads}, for the payloads of triggers, does not exist");
            self.fail(ErrorKind::Sources, &keys, found, known(&existing));
        }
        if let Some(stranger) = self.config.source.optional.iter().find(|id| !existing.contains(id)) {
            let found = format!("the optional source {stranger} does not exist");
            self.fail(ErrorKind::Sources, &["source.optional", "source.count"], found, known(&existing));
        }
    }

    fn listed_once(&mut self, existing: &BTreeSet<SourceId>) {
        let config = self.config;
        let mut reader: BTreeMap<SourceId, &str> = BTreeMap::new();
        for (index, node) in config.node.iter().enumerate() {
            let key = format!("node[{index}].sources");
            let list = node.sources.as_deref().unwrap_or_default();
            // One message per list: further ones would repeat it.
            if let Some((id, other)) = list.iter().find_map(|id| Some((id, *reader.get(id)?))) {
                let found = format!("source {id} is read by \"{other}\" and by \"{}\"", node.name);
                self.fail(
                    ErrorKind::Sources,
                    &[&key],
                    found,
                    "a source must be read by exactly one readout unit",
                );
            }
            if let Some(id) = list.iter().find(|id| !existing.contains(id)) {
                let found = format!("\"{}\" reads source {id}, which does not exist", node.name);
                self.fail(ErrorKind::Sources, &[&key], found, known(existing));
            }
            reader.extend(list.iter().map(|id| (*id, node.name.as_str())));
        }
        if let Some(id) = existing.iter().find(|id| !reader.contains_key(id)) {
            let found = format!("source {id} is read by no readout unit");
            self.fail(
                ErrorKind::Sources,
                &["node[0].sources"],
                found,
                "add it to the `sources` of a readout unit",
            );
        }
        let listed = reader.len() as u64;
        if config.source.kind.is_numbered()
            && let Some(count) = config.source.count
            && u64::from(count) != listed
        {
            let found = format!("`source.count` is {count}, but the readout units list {listed} sources");
            let right = "remove the count, or make the two agree";
            self.fail(ErrorKind::Sources, &["source.count"], found, right);
        }
    }

    /// A source for each readout unit.
    fn enough_to_share(&mut self, sources: usize) {
        let readouts = usize::from(self.config.readout.count);
        let source = &self.config.source;
        let may_be_fewer = (source.has_own_ids() || source.is_windowed()) && self.config.node.is_empty();
        let needed = if may_be_fewer { 1 } else { readouts };
        if sources < needed {
            let found = format!("there are fewer sources, {sources}, than readout units, {readouts}");
            let right = "a readout unit needs at least one source; with `source.count = 0` each has one";
            self.fail(ErrorKind::Sources, &["source.count", "readout.count"], found, right);
        }
    }

    /// Checks the settings that `sheaf node CONFIG NAME` needs.
    fn startable(&mut self, name: &str) {
        let config = self.config;
        if config.run.number == RunNumber(0) {
            let found = "`run.number` is 0: each node would choose its own".to_owned();
            self.fail(ErrorKind::Nodes, &["run.number"], found, "set the number of the run, 1 or more");
        }
        if config.node.is_empty() {
            let found = "there are no [[node]] tables".to_owned();
            let right = "list the nodes that are started one by one, each with name, role and address";
            self.fail(ErrorKind::Nodes, &["node"], found, right);
            return;
        }
        let names = config.node.iter().map(|node| node.name.as_str());
        if !names.clone().any(|known| known == name) {
            let right = match nearest(name, names.clone()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("the nodes are {}", names.take(20).collect::<Vec<_>>().join(", ")),
            };
            let found = format!("there is no node \"{}\"", crate::text::shorten(name));
            self.fail(ErrorKind::Nodes, &["node"], found, right);
        }
        // Over raw Ethernet a node is found by its interfaces.
        let needs_address = config.transport.kind != TransportKind::Ethernet;
        let without = |node: &Node| needs_address && node.address.is_none();
        for (index, node) in config.node.iter().enumerate().filter(|(_, node)| without(node)) {
            let found = format!("node \"{}\" has no address", node.name);
            let keys = [format!("node[{index}].address"), format!("node[{index}]")];
            let right = "nodes started one by one need `address = \"host:port\"`";
            self.fail(ErrorKind::Missing, &[&keys[0], &keys[1]], found, right);
        }
        let kind = config.source.kind;
        if !kind.is_numbered() && config.listed_sources().is_none() {
            self.unlisted_sources();
        }
    }

    /// Sources that are known only from the data.
    fn unlisted_sources(&mut self) {
        self.fail(
            ErrorKind::Sources,
            &["source.kind"],
            "the sources are known only to the nodes that read the data".into(),
            "list the `sources` of each readout unit",
        );
    }
}

/// "there are 4 sources, from 0 to 3".
fn known(sources: &BTreeSet<SourceId>) -> String {
    match (sources.first(), sources.last()) {
        (Some(first), Some(last)) if first < last => {
            format!("there are {} sources, from {first} to {last}", sources.len())
        }
        (Some(only), _) => format!("the only source is {only}"),
        _ => "there are no sources".into(),
    }
}
