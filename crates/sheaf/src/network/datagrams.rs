//! Endpoints that send datagrams and retransmit lost ones.

use super::Connection;
use crate::plan::Plan;
use anyhow::{Context, bail};
use sheaf_config::NodeConfig;
use sheaf_datagram::lossy::{self, LossyOptions, LossySettings};
use sheaf_datagram::udp::{UdpOptions, UdpPeer, UdpPort, UdpSettings};
use sheaf_datagram::{DatagramPort, Dropping};
use sheaf_protocol::Identity;
use sheaf_telemetry::log_as;
use sheaf_wire::{ByteCount, NodeId, Role};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

/// Gives every node an address on loopback for each rail, on ports that are free now.
pub(crate) fn give_udp_addresses(plan: &Plan, nodes: &mut [NodeConfig]) -> anyhow::Result<()> {
    // All are taken before any is given back, so that none is given twice.
    let mut taken = Vec::new();
    for node in nodes {
        let mut addresses = Vec::new();
        for _ in 0..plan.config.transport.rails {
            let socket = UdpSocket::bind("127.0.0.1:0").context("cannot bind a UDP socket on 127.0.0.1")?;
            addresses.push(socket.local_addr().context("a bound socket has an address")?.to_string());
            taken.push(socket);
        }
        node.more_addresses = addresses.split_off(1);
        node.address = addresses.pop();
    }
    Ok(())
}

/// The endpoint of one node, over UDP to `peers`.
pub(super) fn udp(
    plan: &Plan,
    me: &Identity,
    own: &NodeConfig,
    peers: &[&NodeConfig],
) -> anyhow::Result<Connection> {
    let transport = &plan.config.transport;
    let rails = usize::from(transport.rails);
    let peer = |node: &&NodeConfig| -> anyhow::Result<UdpPeer> {
        Ok(UdpPeer { node: node.id, addresses: addresses(node, rails)? })
    };
    let known: Vec<UdpPeer> = peers.iter().map(peer).collect::<anyhow::Result<_>>()?;
    let sockets = addresses(own, rails)?.into_iter().map(|address| {
        UdpSocket::bind(address).with_context(|| {
            format!(
                "{} cannot bind UDP address {address}; is it in use, or does it belong to another host?",
                own.name
            )
        })
    });
    let mut sockets: Vec<UdpSocket> = sockets.collect::<anyhow::Result<_>>()?;
    if sockets.is_empty() {
        // A node without an address: its peers learn it from its datagrams.
        let is_ipv6 = known.iter().flat_map(|peer| &peer.addresses).any(SocketAddr::is_ipv6);
        let any = if is_ipv6 { "[::]:0" } else { "0.0.0.0:0" };
        for _ in 0..rails {
            sockets.push(UdpSocket::bind(any).context("cannot bind a UDP socket")?);
        }
    }
    let defaults = UdpSettings::default();
    let settings = UdpSettings {
        mtu_bytes: transport.mtu as usize,
        receive_buffer: transport.receive_buffer.or(defaults.receive_buffer),
        send_buffer: transport.send_buffer,
    };
    let port = UdpPort::new(UdpOptions { node: me.node, sockets, peers: known, settings })
        .with_context(|| format!("cannot connect {}", me.node))?;
    join(plan, me, Box::new(port), peers)
}

/// The endpoint of one node, over raw Ethernet to `peers`.
pub(super) fn ethernet(
    plan: &Plan,
    me: &Identity,
    own: &NodeConfig,
    peers: &[&NodeConfig],
) -> anyhow::Result<Connection> {
    use sheaf_config::EthernetBackend;
    use sheaf_datagram::ethernet::{
        Backend, EthernetOptions, EthernetPeer, EthernetPort, EthernetSettings, RailReport,
    };

    let transport = &plan.config.transport;
    let rails = usize::from(transport.rails);
    if own.interfaces.len() != rails {
        bail!(
            "{} has {} interfaces, but `transport.rails` is {rails}; over raw Ethernet every node is listed as `[[node]]`, with \
             one interface for each rail, like `interfaces = [\"eth1\"]`",
            own.name,
            own.interfaces.len()
        );
    }
    let settings = EthernetSettings {
        backend: match transport.ethernet {
            EthernetBackend::Auto => Backend::Auto,
            EthernetBackend::Xdp => Backend::Xdp,
            EthernetBackend::Packet => Backend::Packet,
        },
        ethertype: transport.ethertype,
        queues: transport.queues,
        frame_slots: transport.frame_slots.next_power_of_two(),
        busy_poll: transport.busy_poll,
        mtu: Some(transport.mtu as usize),
    };
    let peer = |node: &&NodeConfig| EthernetPeer { node: node.id, addresses: Vec::new() };
    let port = EthernetPort::new(EthernetOptions {
        node: me.node,
        run: me.run,
        interfaces: own.interfaces.clone(),
        peers: peers.iter().map(peer).collect(),
        settings,
    })
    .with_context(|| format!("cannot connect {}", me.node))?;
    for RailReport { interface, address, mtu, way, reason } in port.rail_reports() {
        log_as!(
            NETWORK_WAY, node = own.name;
            "{}: {interface} ({address}, MTU {mtu}) through {way}: {reason}", own.name
        );
    }
    join(plan, me, Box::new(port), peers)
}

/// Recovery, and the loss that was asked for, over a port.
fn join(
    plan: &Plan,
    me: &Identity,
    mut port: Box<dyn DatagramPort>,
    peers: &[&NodeConfig],
) -> anyhow::Result<Connection> {
    let transport = &plan.config.transport;
    let unit = ByteCount::from(port.max_datagram_bytes() + port.wire_overhead_bytes());
    let shaper = match me.node.role {
        Role::Readout => plan.readout_shaper(unit, port.rails()),
        Role::Builder | Role::Manager | Role::Output | Role::Mirror => plan.shaper(unit, port.rails()),
    };
    // Slots are of builders in their order; the other nodes follow.
    let mut nodes: Vec<NodeId> = peers.iter().map(|node| node.id).collect();
    nodes.sort_by_key(|node| (node.role != Role::Builder, *node));
    let options = LossyOptions {
        key: plan.key.clone(),
        identity: *me,
        settings: settings(plan, nodes.len()),
        peers: nodes,
        shaper,
        place: usize::from(me.node.index),
    };
    if transport.inject_loss > 0.0 {
        let seed = transport.inject_seed ^ u64::from(me.node.to_code()) << 32;
        port = Box::new(Dropping::new(port, transport.inject_loss, seed));
    }
    let endpoint = lossy::over(port, options).with_context(|| format!("cannot connect {}", me.node))?;
    Ok(Connection { endpoint, arena: None })
}

fn settings(plan: &Plan, peers: usize) -> LossySettings {
    let transport = &plan.config.transport;
    let blocks = usize::try_from(transport.receive.0 / transport.block.0.max(1)).unwrap_or(usize::MAX);
    LossySettings {
        max_frame_bytes: transport.max_frame,
        queue_frames: transport.queue_frames.min(16_384) as usize,
        queue_bytes: transport.queue,
        // Messages that were sent and not taken are bounded together with those that are held.
        window_bytes: ByteCount(transport.receive.0 / peers.max(1) as u64),
        flight_bytes: transport.flight,
        block_bytes: transport.block,
        blocks: blocks.max(1),
        probe_min: transport.probe,
        report_after: transport.report,
        retry_min: transport.retry_min,
        retry_max: transport.retry_max,
        // With datagrams, no kernel reports whether the process of a silent peer still exists.
        dead_peer: transport.dead_peer.max(plan.patience().silence),
        rival: transport.dead_peer,
    }
}

/// The addresses of a node, one for each rail; none where it has none.
fn addresses(node: &NodeConfig, rails: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let resolve = |address: &String| {
        let mut found = address.to_socket_addrs().with_context(|| format!("cannot resolve {address}"))?;
        found.next().with_context(|| format!("cannot resolve {address}"))
    };
    let written: Vec<&String> = node.address.iter().chain(&node.more_addresses).collect();
    if !written.is_empty() && written.len() != rails {
        bail!(
            "{} has {} addresses, but `transport.rails` is {rails}; over UDP a node has one for each rail: \
             `address`, then `more_addresses`",
            node.name,
            written.len()
        );
    }
    written.into_iter().map(resolve).collect()
}
