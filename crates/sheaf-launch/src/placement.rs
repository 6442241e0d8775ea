//! Hosts of nodes, and the addresses of nodes there.

use crate::LaunchError;
use sheaf_config::{Config, NodeConfig, host_of};
use sheaf_wire::Role;
use std::fmt::Write as _;

/// Nodes of a system on hosts.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// The configuration with all nodes, their addresses, and their agents.
    pub(crate) config: Config,
    /// Names of the nodes on each host.
    pub(crate) nodes: Vec<Vec<String>>,
    /// Address of the agent of each host. That of the first one is not used.
    pub(crate) agents: Vec<String>,
}

impl Placement {
    /// Places the nodes of a configuration on hosts. Nodes whose addresses are on one host stay together, in the order of the hosts, that of the event
    /// manager first. Without addresses, the nodes of each role are dealt out in turn.
    ///
    /// Addresses on these hosts stay as they are. Other nodes get ports behind `first`, that of the agents. The first host needs no agent: there
    /// is the run.
    pub(crate) fn new(mut config: Config, hosts: &[String], first: u16) -> Result<Self, LaunchError> {
        let mut nodes = config.nodes()?;
        let places = places(&nodes, hosts.len())?;
        let mut placed = vec![Vec::new(); hosts.len()];
        let mut agents: Vec<_> = hosts.iter().map(|host| format!("{host}:{first}")).collect();
        for (node, place) in nodes.iter().zip(&places) {
            if let Some(agent) = node.agent.as_ref().filter(|agent| host_of(agent) == hosts[*place]) {
                agents[*place].clone_from(agent);
            }
        }
        for (index, (node, place)) in nodes.iter_mut().zip(places).enumerate() {
            let port = u16::try_from(usize::from(first) + 1 + index).map_err(|_| {
                LaunchError::Hosts(format!(
                    "there are too many nodes for the ports from {first}: choose a lower first port"
                ))
            })?;
            let own = node.address.take().filter(|address| host_of(address) == hosts[place]);
            node.address = Some(own.unwrap_or_else(|| format!("{}:{port}", hosts[place])));
            node.agent = (place > 0).then(|| agents[place].clone());
            placed[place].push(node.name.clone());
        }
        if let Some(empty) = placed.iter().position(Vec::is_empty) {
            return Err(LaunchError::Hosts(format!(
                "host {empty} of {} would have no node: use fewer hosts, or more nodes",
                hosts.len()
            )));
        }
        config.set_nodes(&nodes);
        config.validate()?;
        Ok(Self { config, nodes: placed, agents })
    }

    /// Returns the configuration as a file. `remark` says what people have to know about it.
    pub(crate) fn text(&self, remark: &str) -> String {
        let mut text = format!("# Made by `sheaf launch`: {remark}.\n");
        let is_empty = |line: &str| ["more_addresses = []", "interfaces = []", "cpu = []"].contains(&line);
        for line in self.config.to_short_toml().lines().filter(|line| !is_empty(line)) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Returns lines for a comment: which host has which nodes.
    pub(crate) fn describe(&self, name: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for (place, nodes) in self.nodes.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "#   {}: {}", name(place), nodes.join(", "));
        }
        text
    }
}

/// Returns the index of the host of each node.
fn places(nodes: &[NodeConfig], hosts: usize) -> Result<Vec<usize>, LaunchError> {
    if let Some(node) = nodes.iter().find(|node| !node.more_addresses.is_empty()) {
        return Err(LaunchError::Hosts(format!(
            "node {} has `more_addresses`, which belong to one host: start an agent on each host, and `sheaf run`",
            node.name
        )));
    }
    let written: Option<Vec<&str>> =
        nodes.iter().map(|node| Some(host_of(node.address.as_deref()?))).collect();
    let Some(written) = written else {
        let place = |node: &NodeConfig| match node.id.role {
            Role::Manager => 0,
            _ => usize::from(node.id.index) % hosts,
        };
        return Ok(nodes.iter().map(place).collect());
    };
    let mut known: Vec<&str> = Vec::new();
    let mut place = |host| {
        known.iter().position(|other| *other == host).unwrap_or_else(|| {
            known.push(host);
            known.len() - 1
        })
    };
    let places: Vec<_> = written.into_iter().map(&mut place).collect();
    match known.len() <= hosts {
        true => Ok(places),
        false => Err(LaunchError::Hosts(format!(
            "the addresses of the nodes are on {} hosts ({}), but there are only {hosts}",
            known.len(),
            known.join(", ")
        ))),
    }
}

/// Returns the hosts that the addresses of a configuration name, that of the event manager first, if all nodes have one.
pub(crate) fn hosts_of(config: &Config) -> Result<Option<Vec<String>>, LaunchError> {
    let mut hosts: Vec<String> = Vec::new();
    for node in config.nodes()? {
        let Some(address) = &node.address else { return Ok(None) };
        if !hosts.iter().any(|host| host == host_of(address)) {
            hosts.push(host_of(address).to_owned());
        }
    }
    Ok(Some(hosts))
}
