//! The knobs of a TCP endpoint.

use super::framing::MAX_FRAME_BYTES;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::io;
use std::net::TcpListener;

/// Identity, peers and settings of an endpoint.
#[derive(Debug)]
pub struct TcpOptions {
    /// The node.
    pub node: NodeId,
    /// The run that it takes part in; connections of other runs are refused.
    pub run: RunNumber,
    /// This life of the node; not zero, and greater than in any earlier life.
    pub session: SessionId,
    /// Listener for the peers that call this node. `None` if it calls all its peers.
    pub listener: Option<TcpListener>,
    /// The nodes to talk to.
    pub peers: Vec<PeerAddress>,
    /// The bounds and times.
    pub settings: TcpSettings,
}

/// A node to talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The node.
    pub node: NodeId,
    /// Its addresses, as `host:port`, `1.2.3.4:port` or `[::1]:port`; names are resolved at every attempt to connect. A
    /// link of one connection tries them in order; rail `i` of several uses address `i`, counted around. If the peer is
    /// the caller, they are only used for its certificate, which may be for one of these hosts instead of for its own
    /// name.
    pub addresses: Vec<String>,
    /// Whether this node calls the peer. Exactly one of the two must.
    pub initiate: bool,
}

/// The bounds and times of a TCP endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// Maximum size of a frame, head and payload together, at most 1 GiB. A link uses the smaller value of its two
    /// ends. Default 16 MiB.
    pub max_frame_bytes: ByteCount,
    /// Maximum number of frames that wait to be sent to a peer. Default 1,024.
    pub queue_frames: usize,
    /// Maximum number of bytes that wait to be sent to a peer, at least `max_frame_bytes`. Default 16 MiB.
    pub queue_bytes: ByteCount,
    /// The size of the blocks that frames are received into, at least 4 KiB. A received frame keeps its block from being
    /// filled again until it is dropped; a frame larger than a block gets memory of its own. Default 1 MiB.
    pub block_bytes: ByteCount,
    /// Maximum number of blocks, at least the number of connections (peers times rails) and two more. If all are held
    /// by frames that the node has not dropped, reading stops, which the peers feel as back-pressure. So the blocks
    /// should hold about twice the received frames that the node is willing to hold. Blocks are allocated when first
    /// needed. Default 256.
    pub blocks: usize,
    /// Number of connections (rails) of a link, at most 64; the same on all nodes of a system. With one, frames are
    /// sent unchanged. With more they are numbered, kept until they are acknowledged, and put in order again, so that a
    /// link outlives each of its rails. Default 1.
    pub rails: usize,
    /// The kernel's send buffer (`SO_SNDBUF`). `None` lets the kernel adapt it, which is mostly best. Default `None`.
    pub send_buffer: Option<ByteCount>,
    /// The kernel's receive buffer (`SO_RCVBUF`). `None` lets the kernel adapt it. Default `None`.
    pub receive_buffer: Option<ByteCount>,
    /// The kernel's algorithm for congestion control by its name there (`cubic`). `None` leaves the system's. Linux only.
    /// Default `None`.
    pub congestion: Option<&'static str>,
    /// Timeout of an attempt to connect. Default 5 s.
    pub connect_timeout: Nanos,
    /// Timeout of the greeting on a new connection. Default 5 s.
    pub greeting_timeout: Nanos,
    /// The pause before the first new attempt to connect; doubles with each up to `retry_max`. Default 20 ms.
    pub retry_min: Nanos,
    /// The longest pause between attempts to connect. Default 2 s.
    pub retry_max: Nanos,
    /// Time for which a peer may be silent on its connection while another node asks for its place. At least 1 s.
    /// Default 10 s.
    pub dead_peer: Nanos,
    /// Time for which a peer's machine may answer nothing: keep-alive probes of an idle connection, data, or probes of a full receive
    /// buffer. A machine whose processes are stopped or starved answers; one without power does not. At least 1 s. Default 3 s.
    pub silent_machine: Nanos,
    /// Time for which a peer may read nothing of what was sent, although its machine answers: `TCP_USER_TIMEOUT`. So
    /// this bounds how long a process may be stopped. At least `dead_peer`. Default 60 s.
    pub stalled_peer: Nanos,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            max_frame_bytes: ByteCount::mib(16),
            queue_frames: 1024,
            queue_bytes: ByteCount::mib(16),
            block_bytes: ByteCount::mib(1),
            blocks: 256,
            rails: 1,
            send_buffer: None,
            receive_buffer: None,
            congestion: None,
            connect_timeout: Nanos::from_secs(5),
            greeting_timeout: Nanos::from_secs(5),
            retry_min: Nanos::from_millis(20),
            retry_max: Nanos::from_secs(2),
            dead_peer: Nanos::from_secs(10),
            silent_machine: Nanos::from_secs(3),
            stalled_peer: Nanos::from_secs(60),
        }
    }
}

/// Reason why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    /// The node is its own peer, or a peer is named twice.
    #[error("{0} is named twice among a node and its peers")]
    NamedTwice(NodeId),
    /// A peer that is to be called has no address.
    #[error("{0} is to be connected to and has no address; give at least one as host:port")]
    NoAddress(NodeId),
    /// A peer calls, and there is nothing to answer with.
    #[error("{0} is expected to connect to this node, which has no listener")]
    NoListener(NodeId),
    /// A session of zero.
    #[error("session 0 means \"none seen\"; sessions count from 1")]
    ZeroSession,
    /// A setting that cannot work.
    #[error("`{name}` is {value}; it must be {rule}")]
    BadSetting {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Rule that the value breaks.
        rule: &'static str,
    },
    /// Fewer blocks than connections.
    #[error("{blocks} receive blocks are not enough for {connections} connections; at least {} are needed", .connections + 2)]
    TooFewBlocks {
        /// Blocks that there would be.
        blocks: usize,
        /// Connections to peers that there are: one for each peer and rail.
        connections: usize,
    },
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The least block: a few greetings' and small frames' worth, so that a block is never all bookkeeping.
const MIN_BLOCK_BYTES: u64 = 4 << 10;

/// No link has more connections.
const MAX_RAILS: usize = 64;

impl TcpOptions {
    pub(super) fn check(&self) -> Result<(), TcpError> {
        if self.session == SessionId(0) {
            return Err(TcpError::ZeroSession);
        }
        for peer in &self.peers {
            if peer.node == self.node {
                return Err(TcpError::NamedTwice(peer.node));
            }
            if peer.initiate && peer.addresses.is_empty() {
                return Err(TcpError::NoAddress(peer.node));
            }
            if !peer.initiate && self.listener.is_none() {
                return Err(TcpError::NoListener(peer.node));
            }
        }
        self.settings.check()?;
        let (blocks, connections) = (self.settings.blocks, self.peers.len() * self.settings.rails);
        if blocks < connections + 2 {
            return Err(TcpError::TooFewBlocks { blocks, connections });
        }
        Ok(())
    }
}

impl TcpSettings {
    fn check(&self) -> Result<(), TcpError> {
        let rules = [
            (
                "max_frame_bytes",
                self.max_frame_bytes.0,
                (1..=MAX_FRAME_BYTES as u64).contains(&self.max_frame_bytes.0),
                "from 1 byte to 1 GiB",
            ),
            ("queue_frames", self.queue_frames as u64, self.queue_frames > 0, "at least 1"),
            (
                "queue_bytes",
                self.queue_bytes.0,
                self.queue_bytes >= self.max_frame_bytes,
                "at least `max_frame_bytes`",
            ),
            (
                "block_bytes",
                self.block_bytes.0,
                (MIN_BLOCK_BYTES..=MAX_FRAME_BYTES as u64).contains(&self.block_bytes.0),
                "from 4 KiB to 1 GiB",
            ),
            ("rails", self.rails as u64, (1..=MAX_RAILS).contains(&self.rails), "from 1 to 64"),
            ("retry_min", self.retry_min.0, self.retry_min > Nanos::ZERO, "more than zero"),
            ("retry_max", self.retry_max.0, self.retry_max >= self.retry_min, "at least `retry_min`"),
            ("dead_peer", self.dead_peer.0, self.dead_peer >= Nanos::from_secs(1), "at least 1 s"),
            (
                "silent_machine",
                self.silent_machine.0,
                self.silent_machine >= Nanos::from_secs(1),
                "at least 1 s",
            ),
        ];
        for (name, value, holds, rule) in rules {
            if !holds {
                return Err(TcpError::BadSetting { name, value, rule });
            }
        }
        Ok(())
    }
}
