//! Transport between processes of one host: frames in shared memory, payload read where it was written.
//!
//! Every node has an [`Arena`]: memory that its peers map read-only. A source writes its fragments there, once. A
//! record in a ring of the link carries the head of the message and the location of its payload in the arena. The
//! receiver's [`bytes::Bytes`] point there. When the last one of a frame is dropped, a bit in the link's memory returns
//! the payload to its owner. Payload outside the arena is copied into it. While both nodes are busy there is no system
//! call at all; an idle node sleeps in the kernel and is woken by a peer that has data for it.
//!
//! Nothing has a name in a file system. Segments are `memfd`s, passed over a socket with an abstract name: when a
//! process ends for any reason, the kernel frees its name and all memory that no other process has mapped. The socket
//! of a link stays open as long as the link, so that the kernel also reports the death of a peer.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default |
//! | `segment` | segments: made, sealed, mapped; all copies to and from memory that others may change |
//! | `arena` | the memory from which a node sends, and its blocks |
//! | `shared` | the memory of this process that others may map, by address |
//! | `copies` | blocks of it for payload from elsewhere |
//! | `cursor`, `record` | the ring: positions and records |
//! | `side`, `slots` | state shared by the ends of a link; payload that was sent and is still read |
//! | `link` | one end of a link |
//! | `limbo` | payload of ended links that is still read |
//! | `bell` | waking a node |
//! | `greeting`, `socket`, `dial`, `meeting` | how two nodes connect |
//! | `endpoint` | the endpoint: rounds, sleep, and the port |
//! | [`door`] | where processes of this host join a running node |
//!
//! # Trust
//! A peer runs as the same user and was admitted by name; but it may be broken. Everything it writes into the link is
//! checked before use: positions, sizes, offsets in its arena. It cannot write to this node's arena, and no process can
//! shorten a segment. So a broken peer can only corrupt its own frames, end its own link, and disturb the sleep of its
//! peers.

pub(crate) mod arena;
pub(crate) mod bell;
mod copies;
pub(crate) mod cursor;
#[cfg(test)]
mod cursor_model;
mod dial;
pub mod door;
mod endpoint;
mod fuzz;
mod greeting;
mod limbo;
mod link;
mod meeting;
mod record;
pub(crate) mod segment;
mod settings;
mod shared;
mod side;
mod slots;
pub(crate) mod socket;
mod sync;
#[cfg(test)]
mod tests;

pub use arena::{Arena, Lender, LentBlock};
pub use endpoint::ShmEndpoint;
#[doc(hidden)]
pub use fuzz::{fuzz_shm_ring, fuzz_shm_ring_seed};
pub use settings::{ShmError, ShmOptions, ShmPeer, ShmSettings};
pub use shared::{SharedMemory, SharedSegment};
pub use socket::MAX_NAME_BYTES;
