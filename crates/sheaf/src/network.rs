//! Endpoints: for all nodes in this process, and for one node of many.

mod datagrams;

pub(crate) use datagrams::give_udp_addresses;

use crate::plan::Plan;
use anyhow::Context;
use sheaf_config::{NodeConfig, TransportKind};
use sheaf_protocol::Identity;
use sheaf_shm::MAX_NAME_BYTES;
use sheaf_shm::{Arena, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings, Tls, TlsFiles};
use sheaf_transport::Endpoint;
use sheaf_transport::memory::{MemoryLimits, MemoryNetwork};
use sheaf_transport::mixed::MixedEndpoint;
use sheaf_wire::{NodeId, Role};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time between two attempts to take an address that is in use.
const ADDRESS_IN_USE: Duration = Duration::from_millis(50);

/// A node's place in a network, and the memory that it sends from where that is shared.
pub(crate) struct Connection {
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) arena: Option<Arena>,
}

impl Connection {
    /// A place in a network without memory of its own.
    pub(crate) fn new(endpoint: impl Endpoint + 'static) -> Self {
        Self { endpoint: Box::new(endpoint), arena: None }
    }
}

/// A network in memory for all nodes.
pub(crate) fn memory(plan: &Plan) -> anyhow::Result<MemoryNetwork> {
    let transport = &plan.config.transport;
    let limits = MemoryLimits {
        link_frames: transport.queue_frames as usize,
        link_bytes: transport.queue,
        max_frame_bytes: transport.max_frame,
    };
    let nodes: Vec<_> = plan.nodes.iter().map(|node| node.id).collect();
    Ok(MemoryNetwork::new(&nodes, limits)?)
}

/// A socket on any free port of the loopback interface, and its address.
pub(crate) fn loopback_listener() -> anyhow::Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    let address = listener.local_addr().context("a listening socket has an address")?.to_string();
    Ok((listener, address))
}

/// Nodes and their listening sockets, if they have one.
pub(crate) type Listeners = Vec<(NodeId, Option<TcpListener>)>;

/// Returns whether a node has a listening socket.
pub(crate) fn has_listener(plan: &Plan, node: NodeId) -> bool {
    listens(node) && plan.config.transport.kind.meets_over_tcp()
}

/// Makes a listening socket for a node at an address.
pub(crate) fn listener_at(node: &NodeConfig, address: Option<&String>) -> anyhow::Result<TcpListener> {
    let address = address.with_context(|| format!("{} needs an address to listen on", node.name))?;
    TcpListener::bind(address).with_context(|| {
        format!("{} cannot listen on {address}; is it in use, or does it belong to another host?", node.name)
    })
}

/// Makes the sockets of the nodes of this host, at their configured addresses. Waits at most `patience` for addresses that are in use: nodes
/// of an earlier run may be ending.
pub(crate) fn configured_listeners(plan: &Plan, patience: Duration) -> anyhow::Result<Listeners> {
    let until = Instant::now() + patience;
    let is_taken = |error: &anyhow::Error| {
        let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        io.is_some_and(|error| error.kind() == ErrorKind::AddrInUse)
    };
    let listener = |node: &NodeConfig| loop {
        if !has_listener(plan, node.id) {
            return Ok((node.id, None));
        }
        match listener_at(node, node.address.as_ref()) {
            Err(error) if is_taken(&error) && Instant::now() < until => std::thread::sleep(ADDRESS_IN_USE),
            made => return made.map(|listener| (node.id, Some(listener))),
        }
    };
    plan.nodes_here().map(listener).collect()
}

/// Returns whether other nodes connect to a node, so that it needs a listening socket.
pub(crate) fn listens(node: NodeId) -> bool {
    node.role != Role::Builder
}

/// Returns whether `caller` opens the connection to `callee`: builders connect to all other roles, readout units and
/// output nodes to the event manager, mirrors to it and to their readout units, and a standby to the event manager.
fn calls(caller: NodeId, callee: NodeId) -> bool {
    match (caller.role, callee.role) {
        (Role::Builder, _) | (Role::Readout | Role::Output | Role::Mirror, Role::Manager) => true,
        (Role::Mirror, Role::Readout) => caller.index == callee.index,
        (Role::Manager, Role::Manager) => caller.index > callee.index,
        _ => false,
    }
}

/// Returns whether two nodes exchange messages.
fn talk(one: NodeId, other: NodeId) -> bool {
    match (one.role, other.role) {
        (Role::Readout | Role::Mirror, Role::Output) | (Role::Output, Role::Readout | Role::Mirror) => false,
        (Role::Readout, Role::Mirror) | (Role::Mirror, Role::Readout) => one.index == other.index,
        (Role::Manager, Role::Manager) => one != other,
        (one, other) => one != other,
    }
}

/// The endpoint of one node of many, which may be in other processes.
pub(crate) fn connect(
    plan: &Plan,
    me: &Identity,
    listener: Option<TcpListener>,
    nodes: &[NodeConfig],
) -> anyhow::Result<Connection> {
    let kind = plan.config.transport.kind;
    let own = nodes.iter().find(|node| node.id == me.node).context("a node is in its own list")?;
    let peers: Vec<_> = nodes.iter().filter(|node| talk(me.node, node.id)).collect();
    match kind {
        TransportKind::Libfabric => return libfabric(plan, me, own, listener, &peers),
        TransportKind::Udp => return datagrams::udp(plan, me, own, &peers),
        TransportKind::Ethernet => return datagrams::ethernet(plan, me, own, &peers),
        TransportKind::Memory | TransportKind::Tcp | TransportKind::Shm | TransportKind::Mixed => {}
    }
    let (near, far): (Vec<_>, Vec<_>) = peers.into_iter().partition(|node| match kind {
        TransportKind::Shm => true,
        TransportKind::Mixed => host(own).is_some() && host(own) == host(node),
        TransportKind::Memory
        | TransportKind::Tcp
        | TransportKind::Libfabric
        | TransportKind::Udp
        | TransportKind::Ethernet => false,
    });
    if far.is_empty() && kind.shares_memory() {
        let (endpoint, arena) = shm(plan, me, own, &near)?;
        return Ok(Connection { endpoint: Box::new(endpoint), arena: Some(arena) });
    }
    let tcp = tcp(plan, me, own, listener, &far)?;
    if near.is_empty() {
        return Ok(Connection::new(tcp));
    }
    let (shm, arena) = shm(plan, me, own, &near)?;
    Ok(Connection {
        endpoint: Box::new(MixedEndpoint::new(Box::new(shm), Box::new(tcp))?),
        arena: Some(arena),
    })
}

/// The host in a node's address.
fn host(node: &NodeConfig) -> Option<&str> {
    node.address.as_deref().map(sheaf_config::host_of)
}

/// Returns the name by which nodes of the same host connect to a node: its address, whose last part is unique. If the
/// run has a key, other processes cannot guess the name and take it.
fn name(plan: &Plan, node: &NodeConfig) -> Option<String> {
    let address = node.address.as_deref()?;
    if let Some(key) = &plan.key {
        return Some(key.secret_name(address));
    }
    // An address is ASCII.
    address.get(address.len().saturating_sub(MAX_NAME_BYTES)..).map(str::to_owned)
}

/// The endpoint of one node, through memory that it shares with `peers`.
fn shm(
    plan: &Plan,
    me: &Identity,
    own: &NodeConfig,
    peers: &[&NodeConfig],
) -> anyhow::Result<(ShmEndpoint, Arena)> {
    let settings = shm_settings(plan);
    let reader = plan.reader(own);
    let bytes = settings.arena_bytes() + plan.source_bytes(reader) + plan.result_bytes(own);
    let arena =
        Arena::new(&format!("sheaf.run{}.{}", me.run, me.node), bytes, plan.config.transport.huge_pages)
            .with_context(|| format!("cannot make {bytes} of shared memory for {}", me.node))?;
    let peer = |node: &&NodeConfig| {
        let call = if calls(me.node, node.id) { name(plan, node) } else { None };
        ShmPeer { node: node.id, call }
    };
    let options = ShmOptions {
        node: me.node,
        run: me.run,
        session: me.session,
        name: if listens(me.node) { name(plan, own) } else { None },
        peers: peers.iter().map(peer).collect(),
        arena: arena.clone(),
        settings,
    };
    let endpoint = ShmEndpoint::new(options).with_context(|| format!("cannot connect {}", me.node))?;
    Ok((endpoint, arena))
}

fn shm_settings(plan: &Plan) -> ShmSettings {
    let transport = &plan.config.transport;
    ShmSettings {
        max_frame_bytes: transport.max_frame,
        queue_frames: transport.queue_frames as usize,
        queue_bytes: transport.queue,
        block_bytes: transport.block,
        blocks: usize::try_from(transport.shared.0 / transport.block.0.max(1)).unwrap_or(usize::MAX).max(1),
        greeting_timeout: transport.connect_timeout,
        retry_min: transport.retry_min,
        retry_max: transport.retry_max,
    }
}

/// The certificates of the configuration, ready for use.
pub(crate) fn tls(plan: &Plan) -> anyhow::Result<Option<Tls>> {
    let files = plan.config.transport.tls.files().map(tls_files);
    files.map(|files| Tls::load(&files)).transpose().context("`transport.tls` cannot be used")
}

pub(crate) fn tls_files(files: [&PathBuf; 3]) -> TlsFiles {
    files.map(PathBuf::clone).into()
}

/// The endpoint of one node, over TCP to `nodes`.
fn tcp(
    plan: &Plan,
    me: &Identity,
    own: &NodeConfig,
    listener: Option<TcpListener>,
    nodes: &[&NodeConfig],
) -> anyhow::Result<TcpEndpoint> {
    let peer = |node: &&NodeConfig| PeerAddress {
        node: node.id,
        addresses: node.address.iter().chain(&node.more_addresses).cloned().collect(),
        initiate: calls(me.node, node.id),
    };
    let peers: Vec<_> = nodes.iter().map(peer).collect();
    let settings = settings(plan, peers.len());
    let options = TcpOptions { node: me.node, run: me.run, session: me.session, listener, peers, settings };
    let mut endpoint = TcpEndpoint::new(options).with_context(|| format!("cannot connect {}", me.node))?;
    if let Some(tls) = tls(plan)? {
        endpoint.secure(tls);
    }
    plan.key.iter().for_each(|key| endpoint.authenticate(key.clone()));
    nodes.iter().for_each(|node| endpoint.also_named(node.id, &node.name));
    for address in own.more_addresses.iter().filter(|_| listens(me.node)) {
        let listener = TcpListener::bind(address).with_context(|| {
            format!(
                "{} cannot listen on {address}; is it in use, or does it belong to another host?",
                me.node
            )
        })?;
        endpoint.listen_too(listener)?;
    }
    Ok(endpoint)
}

/// The endpoint of one node, through libfabric to `peers`.
#[cfg(feature = "libfabric")]
fn libfabric(
    plan: &Plan,
    me: &Identity,
    own: &NodeConfig,
    listener: Option<TcpListener>,
    peers: &[&NodeConfig],
) -> anyhow::Result<Connection> {
    use sheaf_libfabric::{LibfabricEndpoint, LibfabricOptions, LibfabricSettings};

    let transport = &plan.config.transport;
    let peer = |node: &&NodeConfig| PeerAddress {
        node: node.id,
        addresses: node.address.iter().cloned().collect(),
        initiate: calls(me.node, node.id),
    };
    let provider = transport.provider;
    let options = LibfabricOptions {
        node: me.node,
        run: me.run,
        session: me.session,
        listener,
        peers: peers.iter().map(peer).collect(),
        provider: provider.to_string(),
        source: if provider.has_ip_addresses() { local_address(own, peers)? } else { None },
        settings: LibfabricSettings {
            max_frame_bytes: transport.max_frame,
            queue_frames: transport.queue_frames as usize,
            queue_bytes: transport.queue,
            receive_bytes: transport.receive,
            connect_timeout: transport.connect_timeout,
            retry_min: transport.retry_min,
            retry_max: transport.retry_max,
            dead_peer: transport.dead_peer,
            ..LibfabricSettings::default()
        },
    };
    let mut endpoint =
        LibfabricEndpoint::new(options).with_context(|| format!("cannot connect {}", me.node))?;
    plan.key.iter().for_each(|key| endpoint.authenticate(key.clone()));
    Ok(Connection::new(endpoint))
}

/// Refuses libfabric in a build without it.
#[cfg(not(feature = "libfabric"))]
fn libfabric(
    _: &Plan,
    _: &Identity,
    _: &NodeConfig,
    _: Option<TcpListener>,
    _: &[&NodeConfig],
) -> anyhow::Result<Connection> {
    anyhow::bail!(
        "`transport.kind` is \"libfabric\", and this sheaf was built without libfabric; build it with \
         `cargo build --release --features libfabric`, or choose another kind"
    )
}

/// The address of this host that a node's messages go through: its own where it has one, else that from which its first
/// peer is reached.
#[cfg(feature = "libfabric")]
fn local_address(own: &NodeConfig, peers: &[&NodeConfig]) -> anyhow::Result<Option<String>> {
    use std::net::{ToSocketAddrs, UdpSocket};

    let resolve = |address: &str| -> anyhow::Result<Option<std::net::SocketAddr>> {
        let mut found = address.to_socket_addrs().with_context(|| format!("cannot resolve {address}"))?;
        Ok(found.next())
    };
    if let Some(address) = &own.address {
        let own = resolve(address)?.map(|address| address.ip());
        // "Any interface" names none: then the first peer decides.
        if let Some(ip) = own.filter(|ip| !ip.is_unspecified()) {
            return Ok(Some(ip.to_string()));
        }
    }
    let Some(peer) = peers.iter().find_map(|peer| peer.address.as_deref()) else { return Ok(None) };
    let Some(peer) = resolve(peer)? else { return Ok(None) };
    // Connecting a datagram socket sends nothing: it asks the kernel for the way.
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let way = UdpSocket::bind(any).and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
    Ok(Some(way.with_context(|| format!("there is no way to {peer}"))?.ip().to_string()))
}

fn settings(plan: &Plan, peers: usize) -> TcpSettings {
    let transport = &plan.config.transport;
    let blocks = usize::try_from(transport.receive.0 / transport.block.0.max(1)).unwrap_or(usize::MAX);
    TcpSettings {
        max_frame_bytes: transport.max_frame,
        queue_frames: transport.queue_frames as usize,
        queue_bytes: transport.queue,
        block_bytes: transport.block,
        // The configuration asks for a block for each rail and two more; the number of peers follows from the nodes.
        blocks: blocks.max(peers * usize::from(transport.rails) + 2),
        rails: usize::from(transport.rails),
        send_buffer: transport.send_buffer,
        receive_buffer: transport.receive_buffer,
        congestion: transport.congestion.kernel_name(),
        connect_timeout: transport.connect_timeout,
        greeting_timeout: transport.connect_timeout,
        retry_min: transport.retry_min,
        retry_max: transport.retry_max,
        dead_peer: transport.dead_peer,
        silent_machine: plan.silent_machine(),
        stalled_peer: transport.dead_peer.max(plan.patience().silence),
    }
}
