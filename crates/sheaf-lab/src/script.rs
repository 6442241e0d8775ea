//! A plan as commands of iproute2, one batch for each namespace. Nothing runs here.
//!
//! The commands ensure:
//! - one queue for each interface, so that a raw socket on queue 0 sees all packets;
//! - no segmentation by the network card (`gso_max_segs 1`): what passes a port is packets that a cable could carry;
//! - tables contain all addresses from the start: no learning, no address resolution, no flooding of data.

use crate::plan::{Host, Network, Plan, Shape, UNCOUNTED_BYTES};
use std::fmt::Write;

/// The bridge of a switch.
const BRIDGE: &str = "br";

/// Number of packets that may pass at once after a port was idle. With fewer than two, the rate is never reached.
const BURST_PACKETS: u32 = 2;

/// The commands that make a network, in the order in which they must run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Names of namespaces to be made: hosts, then switches.
    pub namespaces: Vec<String>,
    /// For `ip`, by namespace.
    pub ip: Vec<(String, String)>,
    /// For `bridge`, by namespace.
    pub bridge: Vec<(String, String)>,
    /// For `tc`, by namespace.
    pub tc: Vec<(String, String)>,
}

/// The commands for a plan. `namespace` makes the name of a host's or a switch's namespace from its own.
#[must_use]
pub fn script(plan: &Plan, namespace: impl Fn(&str) -> String) -> Script {
    let mut script = Script::default();
    let switches = plan.networks.iter().flat_map(|network| &network.switches);
    let names = plan.hosts.iter().map(|host| &host.name).chain(switches.map(|switch| &switch.name));
    script.namespaces = names.map(|name| namespace(name)).collect();
    for network in &plan.networks {
        for (index, switch) in network.switches.iter().enumerate() {
            let at = namespace(&switch.name);
            script.ip.push((at.clone(), cables(plan, network, index, &namespace)));
            script.bridge.push((at.clone(), forwarding(plan, network, index)));
            script.tc.push((at, outputs(plan, network, index)));
        }
    }
    for index in 0..plan.hosts.len() {
        let at = namespace(&plan.hosts[index].name);
        script.ip.push((at.clone(), interfaces(plan, index)));
        script.tc.push((at, cards(plan)));
    }
    script.bridge.retain(|(_, text)| !text.is_empty());
    script.tc.retain(|(_, text)| !text.is_empty());
    script
}

/// The options of both ends of a cable.
fn end(plan: &Plan) -> String {
    format!("mtu {} numtxqueues 1 numrxqueues 1 gso_max_segs 1", plan.mtu_bytes)
}

/// A switch with its cables. Of a cable between switches the leaf makes both ends, and so comes first.
fn cables(plan: &Plan, network: &Network, switch: usize, namespace: &impl Fn(&str) -> String) -> String {
    let mut text = format!(
        "link add name {BRIDGE} mtu {} type bridge stp_state 0 mcast_snooping 0 ageing_time 0\n\
         link set dev {BRIDGE} addrgenmode none up\n",
        plan.mtu_bytes
    );
    let end = end(plan);
    let interface = network.kind.interface();
    // Writing to a string cannot fail.
    for (index, host) in hosts_of(plan, network, switch) {
        let (at, mac) = (namespace(&host.name), network.kind.mac(index));
        let _ = writeln!(
            text,
            "link add name {port} {end} type veth peer name {interface} netns {at} address {mac} {end}",
            port = host.name
        );
        let _ = writeln!(text, "link set dev {} master {BRIDGE} addrgenmode none up", host.name);
    }
    for trunk in &network.switches[switch].trunks {
        let is_leaf = switch < network.leaves;
        if is_leaf {
            let other = &network.switches[trunk.to];
            let there = other.trunks.iter().find(|back| back.to == switch).map_or("", |back| &back.port);
            let at = namespace(&other.name);
            let _ = writeln!(
                text,
                "link add name {port} {end} type veth peer name {there} netns {at} {end}",
                port = trunk.port
            );
        }
        let _ = writeln!(text, "link set dev {} master {BRIDGE} addrgenmode none up", trunk.port);
    }
    text
}

/// Returns the commands that assign hosts to the ports of a switch.
fn forwarding(plan: &Plan, network: &Network, switch: usize) -> String {
    let mut text = String::new();
    for (_, host) in hosts_of(plan, network, switch) {
        let _ = writeln!(text, "link set dev {} learning off", host.name);
    }
    for trunk in &network.switches[switch].trunks {
        let flood = if trunk.floods { "on" } else { "off" };
        let _ = writeln!(
            text,
            "link set dev {} learning off flood {flood} mcast_flood {flood} bcast_flood {flood}",
            trunk.port
        );
    }
    for index in 0..plan.hosts.len() {
        let (mac, port) = (network.kind.mac(index), network.port_to(switch, index, &plan.hosts));
        let _ = writeln!(text, "fdb add {mac} dev {port} master static");
    }
    text
}

/// The line rate and the buffer of each output of a switch.
fn outputs(plan: &Plan, network: &Network, switch: usize) -> String {
    let mut text = String::new();
    if let Some(shape) = network.shape {
        for (_, host) in hosts_of(plan, network, switch) {
            text.push_str(&shaped(plan, &host.name, shape));
        }
    }
    for trunk in &network.switches[switch].trunks {
        if let Some(shape) = trunk.shape {
            text.push_str(&shaped(plan, &trunk.port, shape));
        }
    }
    text
}

/// The interfaces of a host, and where the others are.
fn interfaces(plan: &Plan, host: usize) -> String {
    let mut text = String::from("link set dev lo up\n");
    for network in &plan.networks {
        let interface = network.kind.interface();
        let address = network.kind.address(host);
        let _ = writeln!(text, "link set dev {interface} addrgenmode none");
        let _ = writeln!(text, "addr add {address}/16 brd + dev {interface}");
        let _ = writeln!(text, "link set dev {interface} up");
        for other in (0..plan.hosts.len()).filter(|other| *other != host) {
            let (address, mac) = (network.kind.address(other), network.kind.mac(other));
            let _ = writeln!(text, "neigh add {address} lladdr {mac} dev {interface} nud permanent");
        }
    }
    text
}

/// The network cards of a host: they send no faster than their cables.
fn cards(plan: &Plan) -> String {
    let card = |network: &Network| {
        let shape = Shape { buffer_bytes: network.nic_buffer_bytes, ..network.shape? };
        Some(shaped(plan, &network.kind.interface(), shape))
    };
    plan.networks.iter().filter_map(card).collect()
}

/// Gives an interface a line rate and a buffer.
fn shaped(plan: &Plan, interface: &str, shape: Shape) -> String {
    format!("qdisc add dev {interface} root {}\n", bucket(plan.mtu_bytes, shape))
}

/// Changes the line rate of an interface that has one.
#[must_use]
pub fn reshaped(mtu_bytes: u32, interface: &str, shape: Shape) -> String {
    format!("qdisc change dev {interface} root {}\n", bucket(mtu_bytes, shape))
}

/// A token bucket that counts bytes as a cable does.
fn bucket(mtu_bytes: u32, shape: Shape) -> String {
    let burst = BURST_PACKETS * (mtu_bytes + crate::plan::WIRE_OVERHEAD_BYTES);
    format!(
        "tbf rate {:.0}bit burst {burst} limit {} overhead {UNCOUNTED_BYTES}",
        shape.rate_bps, shape.buffer_bytes
    )
}

fn hosts_of<'a>(
    plan: &'a Plan,
    network: &'a Network,
    switch: usize,
) -> impl Iterator<Item = (usize, &'a Host)> {
    plan.hosts.iter().enumerate().filter(move |(index, _)| network.leaf_of_host[*index] == switch)
}

#[cfg(test)]
mod tests;
