//! The endpoints of a measurement, over each transport. The only place that knows which there are: a new one is a word
//! in [`Transport`] and a case in [`in_own_process`] and in [`meeting_places`].

#[cfg(feature = "libfabric")]
mod libfabric;
mod udp;

use crate::job::{Assignment, BenchError, Job};
use crate::payload;
use crate::transport::Transport;
use sheaf_shm::{Arena, Lender, ShmEndpoint, ShmOptions, ShmPeer, ShmSettings};
use sheaf_tcp::{PeerAddress, TcpEndpoint, TcpOptions, TcpSettings};
use sheaf_transport::Endpoint;
use sheaf_transport::memory::{MemoryLimits, MemoryNetwork};
use sheaf_wire::{ByteCount, NodeId, RunNumber, SessionId};
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames are a head of eight bytes and the payload.
pub(crate) const HEAD_BYTES: usize = 8;
const LEAST_FRAME: u64 = 16 << 10;
const RUN: RunNumber = RunNumber(1);
const SESSION: SessionId = SessionId(1);

/// An endpoint, and what comes with it.
pub struct Connection {
    /// The endpoint.
    pub endpoint: Box<dyn Endpoint>,
    /// The memory to write payload into, where the transport has its own.
    pub lender: Option<Lender>,
}

impl From<Box<dyn Endpoint>> for Connection {
    fn from(endpoint: Box<dyn Endpoint>) -> Self {
        Self { endpoint, lender: None }
    }
}

/// The endpoints of all nodes of `job`, in the order of [`Job::nodes`], each for a thread of its own.
///
/// # Errors
/// If the transport refuses, or the system has no sockets to give.
pub fn in_one_process(job: &Job) -> Result<Vec<Connection>, BenchError> {
    if job.transport == Transport::Memory {
        return Ok(memory(job)?.into_iter().map(Connection::from).collect());
    }
    let (sockets, addresses) = meeting_places(job)?;
    let senders = (0..job.senders).map(|index| (true, index, None));
    let receivers = (0..job.receivers).zip(sockets).map(|(index, socket)| (false, index, socket));
    let nodes = senders.chain(receivers);
    nodes.map(|(sends, index, socket)| connect(job, sends, index, socket, &addresses)).collect()
}

/// The endpoint of a node with a process of its own. `socket` is the receiver's, see [`meeting_places`].
///
/// # Errors
/// If the transport refuses, or does not leave its process.
pub fn in_own_process(assignment: &Assignment, socket: Option<OwnedFd>) -> Result<Connection, BenchError> {
    let Assignment { job, sends, index, addresses, .. } = assignment;
    connect(job, *sends, *index, socket, addresses)
}

fn connect(
    job: &Job,
    sends: bool,
    index: u16,
    socket: Option<OwnedFd>,
    addresses: &[String],
) -> Result<Connection, BenchError> {
    match job.transport {
        Transport::Memory => {
            Err(failed(job, node(sends, index), "this memory is not shared between processes; use tcp"))
        }
        Transport::Tcp => Ok(tcp(job, sends, index, socket.map(TcpListener::from), addresses)?.into()),
        Transport::Shm => shm(job, sends, index, addresses),
        Transport::Udp => {
            Ok(udp::endpoint(job, sends, index, socket.map(UdpSocket::from), addresses)?.into())
        }
        #[cfg(feature = "libfabric")]
        Transport::LibfabricShm | Transport::LibfabricTcp => {
            Ok(libfabric::endpoint(job, sends, index, socket.map(TcpListener::from), addresses)?.into())
        }
    }
}

/// Where the receivers of processes wait: their sockets, where the transport has some, and their addresses.
///
/// # Errors
/// If the system has no sockets to give.
pub fn meeting_places(job: &Job) -> Result<(Vec<Option<OwnedFd>>, Vec<String>), BenchError> {
    let receivers = 0..job.receivers;
    if !meets_at_a_socket(job.transport) {
        return Ok((receivers.map(|_| None).collect(), shm_names(job)));
    }
    let bind = |_| -> std::io::Result<(Option<OwnedFd>, String)> {
        if job.transport == Transport::Udp {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let address = socket.local_addr()?.to_string();
            return Ok((Some(socket.into()), address));
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        Ok((Some(listener.into()), address))
    };
    let made: std::io::Result<(Vec<_>, Vec<_>)> = receivers.map(bind).collect();
    made.map_err(|source| BenchError::System { what: "open a socket on 127.0.0.1", source })
}

/// Whether a receiver of this transport is given a socket.
#[must_use]
pub const fn meets_at_a_socket(transport: Transport) -> bool {
    !matches!(transport, Transport::Memory | Transport::Shm)
}

fn failed(job: &Job, node: NodeId, cause: impl fmt::Display) -> BenchError {
    BenchError::Endpoint { node, transport: job.transport, cause: cause.to_string() }
}

/// A name for each receiver that no other measurement of this host has.
fn shm_names(job: &Job) -> Vec<String> {
    static MEASUREMENTS: AtomicU32 = AtomicU32::new(0);
    let number = MEASUREMENTS.fetch_add(1, Ordering::Relaxed);
    (0..job.receivers).map(|index| format!("sheaf-bench.{}.{number}.{index}", std::process::id())).collect()
}

/// Senders call receivers, as over TCP.
fn shm(job: &Job, sends: bool, index: u16, names: &[String]) -> Result<Connection, BenchError> {
    let node = node(sends, index);
    let settings = ShmSettings {
        max_frame_bytes: max_frame(job),
        queue_bytes: queue(job),
        // Only heads are copied, and a few.
        block_bytes: max_frame(job),
        blocks: 4,
        ..ShmSettings::default()
    };
    let bytes = settings.arena_bytes() + ByteCount(2 * payload::writer_bytes(job.length()) as u64);
    let arena =
        Arena::new(&format!("sheaf.bench.{node}"), bytes, false).map_err(|error| failed(job, node, error))?;
    let peers = if sends {
        let called = |(node, name): (NodeId, &String)| ShmPeer { node, call: Some(name.clone()) };
        job.receiver_nodes().zip(names).map(called).collect()
    } else {
        job.sender_nodes().map(|node| ShmPeer { node, call: None }).collect()
    };
    let name = names.get(usize::from(index)).filter(|_| !sends).cloned();
    let lender = Some(arena.lender());
    let options = ShmOptions { node, run: RUN, session: SESSION, name, peers, arena, settings };
    let endpoint = ShmEndpoint::new(options).map_err(|error| failed(job, node, error))?;
    Ok(Connection { endpoint: Box::new(endpoint), lender })
}

/// A sender or a receiver.
pub(crate) const fn node(sends: bool, index: u16) -> NodeId {
    if sends { NodeId::readout(index) } else { NodeId::builder(index) }
}

fn max_frame(job: &Job) -> ByteCount {
    ByteCount((job.bytes + HEAD_BYTES as u64).max(LEAST_FRAME))
}

/// Returns the bytes that one link may hold: a sender's memory is shared by all of its links.
fn queue(job: &Job) -> ByteCount {
    let all = payload::under_way(job.length()) as u64;
    ByteCount(all / u64::from(job.receivers.max(1))).max(max_frame(job))
}

fn memory(job: &Job) -> Result<Vec<Box<dyn Endpoint>>, BenchError> {
    let threads: Vec<_> = job.nodes().into_iter().map(|node| vec![node]).collect();
    let limits =
        MemoryLimits { max_frame_bytes: max_frame(job), link_bytes: queue(job), ..MemoryLimits::default() };
    let (_, endpoints) =
        MemoryNetwork::with_threads(&threads, limits).map_err(|cause| failed(job, cause.0, cause))?;
    Ok(endpoints.into_iter().flatten().map(|endpoint| Box::new(endpoint) as Box<dyn Endpoint>).collect())
}

/// Senders call receivers.
fn tcp_peers(job: &Job, sends: bool, addresses: &[String]) -> Vec<PeerAddress> {
    if sends {
        let called = |(node, address): (NodeId, &String)| PeerAddress {
            node,
            addresses: vec![address.clone()],
            initiate: true,
        };
        job.receiver_nodes().zip(addresses).map(called).collect()
    } else {
        let calls = |node| PeerAddress { node, addresses: Vec::new(), initiate: false };
        job.sender_nodes().map(calls).collect()
    }
}

fn tcp(
    job: &Job,
    sends: bool,
    index: u16,
    listener: Option<TcpListener>,
    addresses: &[String],
) -> Result<Box<dyn Endpoint>, BenchError> {
    let peers = tcp_peers(job, sends, addresses);
    let max_frame_bytes = max_frame(job);
    let defaults = TcpSettings::default();
    let settings = TcpSettings {
        max_frame_bytes,
        queue_bytes: queue(job),
        blocks: defaults.blocks.max(peers.len() + 2),
        ..defaults
    };
    let node = node(sends, index);
    let options = TcpOptions { node, run: RUN, session: SESSION, listener, peers, settings };
    Ok(Box::new(TcpEndpoint::new(options).map_err(|error| failed(job, node, error))?))
}
