//! Requirements of a configuration on a host.

use sheaf_config::{Config, EthernetBackend, NodeConfig, OutputKind, TransportKind};
use sheaf_machine::CpuList;
use sheaf_machine::doctor::{Ethernet, EthernetWay, Output, Wanted};
use sheaf_wire::Role;
use std::net::{IpAddr, ToSocketAddrs};

/// Returns the needs of a configuration. Without one, those of the embedded default: files to write and nothing else.
pub(super) fn of(config: Option<&Config>) -> anyhow::Result<Wanted> {
    let Some(config) = config else {
        return Ok(Wanted { output: output(&Config::default()), ..Wanted::default() });
    };
    let nodes = nodes(config)?;
    // Agents start the others on their hosts.
    let here: Vec<NodeConfig> = nodes.iter().filter(|node| node.agent.is_none()).cloned().collect();
    let transport = &config.transport;
    Ok(Wanted {
        configured: true,
        threads: threads(&here),
        priority: here.iter().filter_map(|node| node.priority).max(),
        addresses: nodes.iter().flat_map(addresses).collect(),
        memory_bytes: here.iter().map(|node| memory_bytes(config, node)).sum(),
        huge_pages: transport.huge_pages,
        sockets: sockets(config, &nodes),
        send_buffer_bytes: transport.send_buffer.map(|bytes| bytes.0),
        receive_buffer_bytes: transport.receive_buffer.map(|bytes| bytes.0),
        ethernet: ethernet(config, &nodes),
        output: output(config),
    })
}

/// Returns all nodes. The sources of a replay are only known after reading its directory, the nodes without it.
pub(super) fn nodes(config: &Config) -> anyhow::Result<Vec<NodeConfig>> {
    Ok(config.nodes().or_else(|_| config.resolve_nodes(&stand_ins(config)))?)
}

/// A source for each readout unit.
fn stand_ins(config: &Config) -> Vec<sheaf_wire::SourceId> {
    (0..u32::from(config.readout.count)).map(sheaf_wire::SourceId).collect()
}

fn output(config: &Config) -> Option<Output> {
    let is_file = config.output.kind == OutputKind::File;
    is_file.then(|| Output { directory: config.run.output.clone() })
}

fn ethernet(config: &Config, nodes: &[NodeConfig]) -> Option<Ethernet> {
    let transport = &config.transport;
    let mut interfaces: Vec<String> = nodes.iter().flat_map(|node| node.interfaces.iter().cloned()).collect();
    interfaces.sort_unstable();
    interfaces.dedup();
    (transport.kind == TransportKind::Ethernet).then_some(Ethernet {
        interfaces,
        mtu_bytes: transport.mtu.into(),
        way: match transport.ethernet {
            EthernetBackend::Auto => EthernetWay::Auto,
            EthernetBackend::Xdp => EthernetWay::Xdp,
            EthernetBackend::Packet => EthernetWay::Packet,
        },
    })
}

/// The processors of each role: of all its nodes together; empty where one of them may use all.
fn threads(nodes: &[NodeConfig]) -> Vec<(String, CpuList)> {
    let roles = [
        (Role::Manager, "event manager"),
        (Role::Readout, "readout units"),
        (Role::Builder, "builder units"),
        (Role::Output, "output nodes"),
        (Role::Mirror, "mirrors"),
    ];
    let of_role = |(role, name): (Role, &str)| {
        let own: Vec<&NodeConfig> = nodes.iter().filter(|node| node.id.role == role).collect();
        let anywhere = own.iter().any(|node| node.cpu.is_empty());
        let cpus = own.iter().flat_map(|node| node.cpu.iter().copied());
        (name.to_owned(), if anywhere { CpuList::default() } else { cpus.collect() })
    };
    roles.into_iter().map(of_role).collect()
}

/// The addresses behind a node's `host:port`.
fn addresses(node: &NodeConfig) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for address in node.address.iter().chain(&node.more_addresses) {
        match address.to_socket_addrs() {
            Ok(addresses) => found.extend(addresses.map(|address| address.ip())),
            Err(error) => log::warn!("{}: cannot resolve {address}: {error}", node.name),
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The payload that a node may hold at most, as ARCHITECTURE.md counts it.
fn memory_bytes(config: &Config, node: &NodeConfig) -> u64 {
    let received = match config.transport.kind {
        TransportKind::Tcp
        | TransportKind::Mixed
        | TransportKind::Libfabric
        | TransportKind::Udp
        | TransportKind::Ethernet => config.transport.receive.0,
        TransportKind::Memory | TransportKind::Shm => 0,
    };
    let of_role = match node.id.role {
        Role::Manager => 0,
        Role::Readout => config.source.memory.0.saturating_mul(node.sources.len() as u64),
        Role::Builder => config.builder.memory.0,
        Role::Output => config.output.window.0.saturating_mul(u64::from(config.builder.count)),
        // Copies of what its readout unit holds.
        Role::Mirror => config.readout.buffer.0.saturating_mul(2),
    };
    received.saturating_add(of_role)
}

/// As many addresses a node may listen at.
const MOST_ADDRESSES: u64 = 16;

/// The sockets of the node with most of them: one for each peer, and those that listen.
fn sockets(config: &Config, nodes: &[NodeConfig]) -> u64 {
    if config.transport.kind == TransportKind::Memory {
        return 0;
    }
    let count = |role| nodes.iter().filter(|node| node.id.role == role).count() as u64;
    let nodes = count(Role::Readout) + count(Role::Builder) + count(Role::Output) + count(Role::Mirror);
    nodes * u64::from(config.transport.rails) + 1 + MOST_ADDRESSES
}
