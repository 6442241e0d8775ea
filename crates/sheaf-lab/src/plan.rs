//! The hosts, switches and cables of a scenario. Plain data: nothing is created here.

use sheaf_config::{Lab, LabPlacement, NodeConfig};
use sheaf_wire::{NodeId, Role};
use std::net::Ipv4Addr;

/// Bytes on the wire in addition to those of a packet: head 14, checksum 4, preamble 8, gap 12.
pub const WIRE_OVERHEAD_BYTES: u32 = 38;

/// Bytes of [`WIRE_OVERHEAD_BYTES`] that the kernel does not count as the packet's: all but the head.
pub const UNCOUNTED_BYTES: u32 = 24;

/// A network as it is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The hosts; the event manager's is the first.
    pub hosts: Vec<Host>,
    /// The networks: one for each rail, then that of control, if there is one.
    pub networks: Vec<Network>,
    /// The largest packet, without its Ethernet head, in bytes.
    pub mtu_bytes: u32,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name: `ru3`, or `h3` where nodes share it.
    pub name: String,
    /// The nodes that run on it.
    pub nodes: Vec<NodeId>,
}

/// The purpose of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// Data by this rail.
    Rail(u16),
    /// The event manager's messages.
    Control,
}

/// A network: switches, and a cable from each host to one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Its purpose.
    pub kind: NetworkKind,
    /// Its switches, leaves first.
    pub switches: Vec<Switch>,
    /// Number of switches that hosts connect to.
    pub leaves: usize,
    /// Line rate of the hosts' cables and size of an output buffer; `None`: as fast as the kernel, without loss.
    pub shape: Option<Shape>,
    /// Maximum bytes that wait in a host for its cable.
    pub nic_buffer_bytes: u64,
    /// For each host the switch that it is on.
    pub leaf_of_host: Vec<usize>,
}

/// A line rate and an output buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Bits per second on the wire.
    pub rate_bps: f64,
    /// Capacity of an output, in bytes of packets with their Ethernet heads.
    pub buffer_bytes: u64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Its name: `r0`, or `r0-leaf2`, `r0-spine1`.
    pub name: String,
    /// Its cables to other switches.
    pub trunks: Vec<Trunk>,
}

/// One end of a cable between switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Trunk {
    /// The port's name.
    pub port: String,
    /// The switch at the other end, by its place in the network.
    pub to: usize,
    /// Its line rate and the size of its output buffer.
    pub shape: Option<Shape>,
    /// Whether packets to all hosts, and to unknown ones, go this way: on one tree only, so that they do not circulate.
    pub floods: bool,
}

impl NetworkKind {
    /// The interface of a host that is on this network.
    #[must_use]
    pub fn interface(self) -> String {
        match self {
            Self::Rail(rail) => format!("r{rail}"),
            Self::Control => "ctl".into(),
        }
    }

    /// Its second octet in addresses, and fourth in those of Ethernet.
    fn octet(self) -> u8 {
        match self {
            // There are at most 4 rails.
            Self::Rail(rail) => 80_u8.saturating_add(u8::try_from(rail).unwrap_or(u8::MAX)),
            Self::Control => 79,
        }
    }

    /// The address of host number `host`.
    #[must_use]
    pub fn address(self, host: usize) -> Ipv4Addr {
        let (high, low) = octets(host);
        Ipv4Addr::new(10, self.octet(), high, low)
    }

    /// The Ethernet address of host number `host`: locally administered.
    #[must_use]
    pub fn mac(self, host: usize) -> String {
        let (high, low) = octets(host);
        format!("02:5e:af:{:02x}:{high:02x}:{low:02x}", self.octet())
    }
}

/// Two octets for a host, none of them 0 or 255 at the end.
fn octets(host: usize) -> (u8, u8) {
    let high = u8::try_from(host / 250).unwrap_or(u8::MAX);
    let low = u8::try_from(host % 250 + 1).unwrap_or(u8::MAX);
    (high, low)
}

impl Plan {
    /// Returns the network for these nodes. `with_control`: whether the transport can have a network for control.
    #[must_use]
    pub fn new(lab: &Lab, nodes: &[NodeConfig], with_control: bool) -> Self {
        let hosts = hosts(lab, nodes);
        let rate_bps = lab.rate_mbps * 1e6;
        let shape = Shape { rate_bps, buffer_bytes: lab.port_buffer.0 };
        let mut networks: Vec<Network> =
            (0..lab.rails).map(|rail| network(NetworkKind::Rail(rail), lab, hosts.len(), shape)).collect();
        if lab.control_network && with_control {
            networks.push(Network {
                kind: NetworkKind::Control,
                switches: vec![Switch { name: NetworkKind::Control.interface(), trunks: Vec::new() }],
                leaves: 1,
                shape: None,
                nic_buffer_bytes: lab.nic_buffer.0,
                leaf_of_host: vec![0; hosts.len()],
            });
        }
        Self { hosts, networks, mtu_bytes: lab.mtu }
    }

    /// The host of a node, by its place.
    #[must_use]
    pub fn host_of(&self, node: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.nodes.contains(&node))
    }

    /// The networks of data.
    pub fn rails(&self) -> impl Iterator<Item = &Network> {
        self.networks.iter().filter(|network| matches!(network.kind, NetworkKind::Rail(_)))
    }

    /// The network of control, if there is one of its own.
    #[must_use]
    pub fn control(&self) -> Option<&Network> {
        self.networks.iter().find(|network| network.kind == NetworkKind::Control)
    }
}

fn hosts(lab: &Lab, nodes: &[NodeConfig]) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for node in nodes {
        let name = match (lab.placement, node.id.role) {
            (LabPlacement::Paired, Role::Readout | Role::Builder) => format!("h{}", node.id.index),
            _ => node.name.clone(),
        };
        match hosts.iter_mut().find(|host| host.name == name) {
            Some(host) => host.nodes.push(node.id),
            None => hosts.push(Host { name, nodes: vec![node.id] }),
        }
    }
    hosts.sort_by_key(|host| host.nodes.first().copied());
    hosts
}

fn network(kind: NetworkKind, lab: &Lab, hosts: usize, shape: Shape) -> Network {
    let (leaves, spines) = (usize::from(lab.leaves), usize::from(lab.spines));
    let name = kind.interface();
    // The event manager is the first host: dealt out in turn, readout and builder units mix on every leaf.
    let leaf_of_host = (0..hosts).map(|host| host % leaves).collect();
    let base = Network {
        kind,
        switches: Vec::new(),
        leaves,
        shape: Some(shape),
        nic_buffer_bytes: lab.nic_buffer.0,
        leaf_of_host,
    };
    if leaves == 1 {
        return Network { switches: vec![Switch { name, trunks: Vec::new() }], ..base };
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of hosts are small")]
    let full = shape.rate_bps * hosts.div_ceil(leaves) as f64 / spines as f64;
    let uplink = Shape { rate_bps: lab.uplink_mbps.map_or(full, |rate| rate * 1e6), ..shape };
    let trunk =
        |port: String, to: usize, spine: usize| Trunk { port, to, shape: Some(uplink), floods: spine == 0 };
    let leaf = |leaf: usize| Switch {
        name: format!("{name}-leaf{leaf}"),
        trunks: (0..spines).map(|spine| trunk(format!("up{spine}"), leaves + spine, spine)).collect(),
    };
    let spine = |spine: usize| Switch {
        name: format!("{name}-spine{spine}"),
        trunks: (0..leaves).map(|leaf| trunk(format!("down{leaf}"), leaf, spine)).collect(),
    };
    Network { switches: (0..leaves).map(leaf).chain((0..spines).map(spine)).collect(), ..base }
}

impl Network {
    /// The port of switch `switch` by which host `host` is reached: the host's own, or a trunk.
    #[must_use]
    pub fn port_to<'a>(&'a self, switch: usize, host: usize, hosts: &'a [Host]) -> &'a str {
        let leaf = self.leaf_of_host[host];
        if switch == leaf {
            return &hosts[host].name;
        }
        let trunks = &self.switches[switch].trunks;
        let spines = (self.switches.len() - self.leaves).max(1);
        let is_spine = switch >= self.leaves;
        let next = if is_spine { leaf } else { self.leaves + host % spines };
        trunks.iter().find(|trunk| trunk.to == next).map_or("", |trunk| &trunk.port)
    }
}

#[cfg(test)]
mod tests;
