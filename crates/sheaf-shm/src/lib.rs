//! Between processes of one host: frames in shared memory, payload read where it was written.
//!
//! Every node has an [`Arena`]: memory that its peers map for reading. A source writes its fragments there, once. What
//! travels is a record in a ring of the link: the head of the message, and where in the arena its payload lies. The
//! receiver's [`bytes::Bytes`] point there, and when the last of a frame's is dropped, a bit in the link's memory gives
//! the payload back to its owner. Payload that does not lie in the arena is copied into it. While both nodes are busy
//! there is no system call at all; a node that has nothing to do sleeps in the kernel and is woken by who has something
//! for it.
//!
//! Nothing here has a name in a file system. Segments are `memfd`s, passed on over a socket with an abstract name: when
//! a process ends, however it does, the kernel frees what nobody else has mapped, and its name. The socket of a link
//! stays open as long as the link, so that the kernel also tells when a peer has died.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default |
//! | `segment` | segments: made, sealed, mapped; all copies to and from what others may change |
//! | `arena` | the memory that a node sends from, and its blocks |
//! | `shared` | which memory of this process others may map, by address |
//! | `copies` | blocks of it for payload that lies elsewhere |
//! | `cursor`, `record` | the ring: positions, and what stands in it |
//! | `side`, `slots` | what the ends of a link tell each other; what was sent and is still read |
//! | `link` | one end of a link |
//! | `limbo` | what is still read of links that are over |
//! | `bell` | waking a node |
//! | `greeting`, `socket`, `dial`, `meeting` | how two nodes meet |
//! | `endpoint` | the endpoint: rounds, sleep, and the port |
//! | [`door`] | where processes of this host join a node while it runs |
//!
//! # What is believed of a peer
//! A peer runs for the same user and was let in by name; but it may be broken. What it writes into the link is checked
//! before it is used: positions, sizes, places in its arena. It cannot write to this node's arena, and nobody can make a
//! segment shorter. So a broken peer can make its own frames wrong and its own link end, and can disturb the sleep of
//! its peers; that is all.

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
