//! Nodes that agents start: what the configuration needs for them.

use crate::Config;
use crate::check::Checker;
use crate::error::ErrorKind;
use crate::settings::{Node, TransportKind};

impl Config {
    /// Returns whether agents start nodes.
    #[must_use]
    pub fn has_agents(&self) -> bool {
        self.node.iter().any(|node| node.agent.is_some())
    }

    /// Has all nodes started on this host: nodes have no agents any more.
    pub fn without_agents(&mut self) {
        self.node.iter_mut().for_each(|node| node.agent = None);
    }
}

impl Checker<'_> {
    /// Agents share a key with the run, and their nodes find each other over a network.
    pub(crate) fn agents(&mut self) {
        let config = self.config;
        let Some(first) = config.node.iter().position(|node| node.agent.is_some()) else { return };
        let key = format!("node[{first}].agent");
        if config.agents.key_file.is_none() {
            self.fail(
                ErrorKind::Missing,
                &[&key, "agents.key_file"],
                format!("\"{}\" has an agent, but `agents.key_file` is not set", config.node[first].name),
                "write the file with the key that the agents have, such as `key_file = \"agents.key\"` in [agents]",
            );
        }
        let kind = config.transport.kind;
        if matches!(kind, TransportKind::Memory | TransportKind::Shm) {
            self.fail(
                ErrorKind::Conflict,
                &["transport.kind", &key],
                format!("`transport.kind` is \"{kind}\", which does not reach other hosts, but nodes have agents"),
                "write `kind = \"tcp\"`, or \"mixed\" to use shared memory within each host; or run all nodes here with --local",
            );
        }
        // Over raw Ethernet a node is found by its interfaces.
        let needs_address = kind != TransportKind::Ethernet;
        let without = |node: &Node| needs_address && node.address.is_none();
        for (index, node) in config.node.iter().enumerate().filter(|(_, node)| without(node)) {
            let found = format!("node \"{}\" has no address, but nodes have agents", node.name);
            let keys = [format!("node[{index}].address"), format!("node[{index}]")];
            let right = "nodes on several hosts need `address = \"host:port\"`";
            self.fail(ErrorKind::Missing, &[&keys[0], &keys[1]], found, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "[[node]]\nname = \"evm\"\nrole = \"manager\"\naddress = \"daq1:7000\"\n\
        [[node]]\nname = \"ru0\"\nrole = \"readout\"\naddress = \"daq2:7000\"\nagent = \"daq2:7400\"\n\
        [[node]]\nname = \"bu0\"\nrole = \"builder\"\naddress = \"daq1:7001\"\n";

    fn errors(text: &str) -> Vec<String> {
        let text = text.replacen("[[node]]", "[readout]\ncount = 1\n[builder]\ncount = 1\n[[node]]", 1);
        match Config::parse(&text, "test") {
            Ok(_) => Vec::new(),
            Err(errors) => {
                errors.errors().iter().map(|error| format!("{}: {}", error.key, error.found)).collect()
            }
        }
    }

    #[test]
    fn nodes_with_agents_need_a_key_a_network_and_addresses() {
        let good = format!("[transport]\nkind = \"tcp\"\n[agents]\nkey_file = \"agents.key\"\n{NODES}");
        assert_eq!(errors(&good), [""; 0]);
        let no_key = errors(&good.replace("key_file = \"agents.key\"\n", ""));
        assert_eq!(no_key, ["node[1].agent: \"ru0\" has an agent, but `agents.key_file` is not set"]);
        let memory = errors(&good.replace("\"tcp\"", "\"memory\""));
        assert!(memory[0].starts_with("transport.kind: `transport.kind` is \"memory\""), "{memory:?}");
        let nowhere = errors(&good.replace("address = \"daq1:7001\"\n", ""));
        assert_eq!(nowhere, ["node[2].address: node \"bu0\" has no address, but nodes have agents"]);
        let strange = errors(&good.replace("daq2:7400", "daq2"));
        assert!(strange[0].contains("node[1].agent"), "{strange:?}");
    }

    #[test]
    fn a_run_on_one_host_needs_none_of_it() {
        let text = NODES.replacen("[[node]]", "[readout]\ncount = 1\n[builder]\ncount = 1\n[[node]]", 1);
        let path = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(path.path(), text).expect("it is ours");
        let config = Config::load_with(path.path(), Config::without_agents).expect("it is good");
        assert!(config.nodes().expect("they are listed").iter().all(|node| node.agent.is_none()));
    }
}
