//! Nodes of one process: every ordered pair of nodes has a bounded ring, and frames move through it uncopied.
//!
//! The ring is [`rtrb`]'s: single producer, single consumer, wait-free, each side caching the other's position, so that
//! a frame costs a few nanoseconds and no cache line moves while both sides are busy. This module adds the bound in
//! bytes, the death and return of nodes, and the doorbell.
//!
//! Endpoints attached with the same [`Doorbell`] are driven by one thread: waiting on one of them waits for all.

mod endpoint;
mod link;
#[cfg(test)]
mod tests;

pub use endpoint::MemoryEndpoint;

use crate::doorbell::Bell;
use crate::peers::PeerIndex;
use link::Link;
use sheaf_wire::{ByteCount, NodeId};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

/// The bounds of each link of a memory network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Maximum number of frames in flight on a link, at least 1. The ring takes 64 bytes for each.
    pub link_frames: usize,
    /// Maximum number of bytes in flight on a link; raised to `max_frame_bytes` if it is less.
    pub link_bytes: ByteCount,
    /// The largest frame, head and payload together.
    pub max_frame_bytes: ByteCount,
}

impl Default for MemoryLimits {
    /// 1,024 frames, 64 MiB, frames of at most 16 MiB.
    fn default() -> Self {
        Self { link_frames: 1024, link_bytes: ByteCount::mib(64), max_frame_bytes: ByteCount::mib(16) }
    }
}

/// Reason why a node could not be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The network was made without this node.
    #[error("{0} is not a node of this memory network; name it when the network is made")]
    UnknownNode(NodeId),
    /// Its last endpoint still lives.
    #[error("{0} is attached already; drop its endpoint before its next life")]
    AlreadyAttached(NodeId),
}

/// Reason why a network could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is named twice among the nodes of a memory network")]
pub struct NamedTwice(pub NodeId);

/// A network within one process. Clones speak of the same network.
#[derive(Clone, Debug)]
pub struct MemoryNetwork {
    shared: Arc<Shared>,
}

impl MemoryNetwork {
    /// A network that `nodes` may attach to, with a link between any two of them.
    ///
    /// # Errors
    /// If a node is named twice.
    pub fn new(nodes: &[NodeId], limits: MemoryLimits) -> Result<Self, NamedTwice> {
        let limits = MemoryLimits {
            link_frames: limits.link_frames.max(1),
            link_bytes: limits.link_bytes.max(limits.max_frame_bytes),
            ..limits
        };
        let index = PeerIndex::new(nodes.iter().copied()).map_err(NamedTwice)?;
        Ok(Self {
            shared: Arc::new(Shared {
                nodes: nodes.to_vec(),
                index,
                limits,
                attached: Mutex::new(nodes.iter().map(|_| None).collect()),
            }),
        })
    }

    /// A network with all its endpoints: one list per thread, in the given order, sharing a doorbell.
    ///
    /// # Errors
    /// If a node is named twice.
    pub fn with_threads(
        threads: &[Vec<NodeId>],
        limits: MemoryLimits,
    ) -> Result<(Self, Vec<Vec<MemoryEndpoint>>), NamedTwice> {
        let network = Self::new(&threads.concat(), limits)?;
        let endpoints = threads
            .iter()
            .map(|nodes| {
                let doorbell = Doorbell::new();
                let attach = |node: &NodeId| {
                    let attached = network.attach(*node, &doorbell);
                    attached.expect("the network is new and knows each node once")
                };
                nodes.iter().map(attach).collect()
            })
            .collect();
        Ok((network, endpoints))
    }

    /// Attaches `node`, the first time or after its last endpoint was dropped: links to all attached nodes come up.
    ///
    /// # Errors
    /// If the network does not know the node, or it is attached.
    pub fn attach(&self, node: NodeId, doorbell: &Doorbell) -> Result<MemoryEndpoint, AttachError> {
        let place = self.shared.index.place(node).ok_or(AttachError::UnknownNode(node))?;
        let mut attached = self.shared.lock();
        if attached[place].is_some() {
            return Err(AttachError::AlreadyAttached(node));
        }
        let desk = Arc::new(Desk::new(doorbell.bell.clone()));
        let mut links = Vec::with_capacity(attached.len());
        for other in attached.iter() {
            links.push(other.as_ref().map(|other| {
                let (ours, theirs) = link::pair(&self.shared.limits, &desk.bell, &other.bell);
                other.bring(place, theirs);
                ours
            }));
        }
        attached[place] = Some(desk.clone());
        drop(attached);
        Ok(MemoryEndpoint::new(self.shared.clone(), place, desk, links))
    }
}

/// Doorbell shared by the endpoints of one thread: a peer with frames for one of them rings it.
#[derive(Clone)]
pub struct Doorbell {
    bell: Arc<Bell>,
}

impl Doorbell {
    /// A doorbell for one thread.
    #[must_use]
    pub fn new() -> Self {
        Self { bell: Arc::new(Bell::new()) }
    }
}

impl Default for Doorbell {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").finish_non_exhaustive()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// State that all endpoints of a network share.
#[derive(Debug)]
struct Shared {
    nodes: Vec<NodeId>,
    index: PeerIndex,
    limits: MemoryLimits,
    /// The attached nodes, by their place in `nodes`.
    attached: Mutex<Vec<Option<Arc<Desk>>>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<Desk>>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queue through which nodes that attach later give new links to an attached endpoint.
#[derive(Debug)]
struct Desk {
    bell: Arc<Bell>,
    /// Whether `links` may have entries, so that a poll takes no lock.
    occupied: AtomicBool,
    /// New links, and the place of the node at their other end.
    links: Mutex<Vec<(usize, Link)>>,
}

impl Desk {
    fn new(bell: Arc<Bell>) -> Self {
        Self { bell, occupied: AtomicBool::new(false), links: Mutex::new(Vec::new()) }
    }

    fn bring(&self, place: usize, link: Link) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.push((place, link));
        self.occupied.store(true, Ordering::Release);
        drop(links);
        self.bell.ring();
    }

    fn take(&self) -> Vec<(usize, Link)> {
        if !self.occupied.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        self.occupied.store(false, Ordering::Release);
        std::mem::take(&mut links)
    }
}
