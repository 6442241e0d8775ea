//! Settings of a shared-memory endpoint.

use super::copies::RELAY_BLOCKS;
use super::segment::PAGE_BYTES;
use super::socket::MAX_NAME_BYTES;
use super::{Arena, side};
use sheaf_transport::greeting::MAX_FRAME_BYTES;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId};
use std::io;

/// Ring size per frame of a link's queue, in bytes of records.
const RING_BYTES_PER_FRAME: usize = 256;
const MIN_RING_BYTES: usize = 64 << 10;
pub(super) const MAX_RING_BYTES: usize = 16 << 20;

/// A node and its peers.
#[derive(Debug)]
pub struct ShmOptions {
    /// This node.
    pub node: NodeId,
    /// The run; nodes of another are refused.
    pub run: RunNumber,
    /// This life of the node: a later one has a greater number.
    pub session: SessionId,
    /// The name under which others call this node, if any do: at most 80 bytes, one for each node of a host.
    pub name: Option<String>,
    /// The other nodes.
    pub peers: Vec<ShmPeer>,
    /// The memory from which the node sends: at least [`ShmSettings::arena_bytes`], plus the blocks of sources.
    pub arena: Arena,
    /// The knobs.
    pub settings: ShmSettings,
}

/// A peer on the same host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmPeer {
    /// Its node id.
    pub node: NodeId,
    /// The name under which it waits, if this node is the one that calls. Of two nodes exactly one calls.
    pub call: Option<String>,
}

/// The knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmSettings {
    /// The largest frame that is sent or accepted, head and payload together. Default 16 MiB.
    pub max_frame_bytes: ByteCount,
    /// Maximum number of frames that wait for one peer. Default 1,024.
    pub queue_frames: usize,
    /// Maximum number of bytes that wait for one peer. Default 16 MiB.
    pub queue_bytes: ByteCount,
    /// The size of a block of the memory into which payload is copied that lies elsewhere. Default 256 KiB.
    pub block_bytes: ByteCount,
    /// Number of such blocks. Default 256.
    pub blocks: usize,
    /// Timeout of a greeting. Default 5 s.
    pub greeting_timeout: Nanos,
    /// The pause before the first new call; doubles with each up to `retry_max`. Default 20 ms.
    pub retry_min: Nanos,
    /// The longest pause between calls. Default 2 s.
    pub retry_max: Nanos,
}

impl Default for ShmSettings {
    fn default() -> Self {
        Self {
            max_frame_bytes: ByteCount::mib(16),
            queue_frames: 1024,
            queue_bytes: ByteCount::mib(16),
            block_bytes: ByteCount::kib(256),
            blocks: 256,
            greeting_timeout: Nanos::from_secs(5),
            retry_min: Nanos::from_millis(20),
            retry_max: Nanos::from_secs(2),
        }
    }
}

/// Reason why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// The node is its own peer, or a peer is named twice.
    #[error("{0} is named twice among a node and its peers")]
    NamedTwice(NodeId),
    /// A peer calls, and this node has no name to be called by.
    #[error("{0} is expected to connect to this node, which has no name to connect to")]
    NoName(NodeId),
    /// A name that does not fit an address.
    #[error("the name {0:?} does not fit in a socket's address; it must have 1 to 80 bytes and no zero byte")]
    BadName(String),
    /// The name is in use.
    #[error("another process of this user on this host is {0:?} already")]
    NameInUse(String),
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
    /// The arena has not enough left.
    #[error("the arena has {left} bytes left, the transport needs {needed}; enlarge it")]
    ArenaTooSmall {
        /// Memory that is left.
        left: ByteCount,
        /// Memory that is needed.
        needed: ByteCount,
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

impl ShmSettings {
    /// Returns the bytes of an arena that the transport takes. It is address space: memory is used as far as payload
    /// has to be copied.
    #[must_use]
    pub fn arena_bytes(&self) -> ByteCount {
        let pages = |bytes: ByteCount| bytes.0.next_multiple_of(PAGE_BYTES as u64);
        let copies = pages(self.block_bytes).saturating_mul(self.blocks as u64);
        let relay = pages(self.max_frame_bytes).saturating_mul(RELAY_BLOCKS as u64);
        ByteCount(copies.saturating_add(relay))
    }

    pub(super) fn ring_bytes(&self) -> usize {
        let wanted = self.queue_frames.saturating_mul(RING_BYTES_PER_FRAME);
        wanted.clamp(MIN_RING_BYTES, MAX_RING_BYTES).next_power_of_two()
    }

    pub(super) fn link_bytes(&self) -> usize {
        side::link_bytes(self.ring_bytes())
    }

    fn check(&self) -> Result<(), ShmError> {
        let limit = MAX_FRAME_BYTES as u64;
        let rules = [
            (
                "max_frame_bytes",
                self.max_frame_bytes.0,
                (1..=limit).contains(&self.max_frame_bytes.0),
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
                (4096..=limit).contains(&self.block_bytes.0),
                "from 4 KiB to 1 GiB",
            ),
            ("blocks", self.blocks as u64, self.blocks > 0, "at least 1"),
            ("retry_min", self.retry_min.0, self.retry_min > Nanos::ZERO, "more than zero"),
            ("retry_max", self.retry_max.0, self.retry_max >= self.retry_min, "at least `retry_min`"),
        ];
        for (name, value, holds, rule) in rules {
            if !holds {
                return Err(ShmError::BadSetting { name, value, rule });
            }
        }
        Ok(())
    }
}

impl ShmOptions {
    pub(super) fn check(&self) -> Result<(), ShmError> {
        if self.session == SessionId(0) {
            return Err(ShmError::ZeroSession);
        }
        for peer in &self.peers {
            if peer.node == self.node {
                return Err(ShmError::NamedTwice(peer.node));
            }
            if peer.call.is_none() && self.name.is_none() {
                return Err(ShmError::NoName(peer.node));
            }
        }
        let names = self.peers.iter().filter_map(|peer| peer.call.as_ref()).chain(&self.name);
        for name in names {
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
                return Err(ShmError::BadName(name.clone()));
            }
        }
        self.settings.check()?;
        let left = self.arena.bytes() - self.arena.handed_out();
        let needed = self.settings.arena_bytes();
        if left < needed {
            return Err(ShmError::ArenaTooSmall { left, needed });
        }
        Ok(())
    }
}
