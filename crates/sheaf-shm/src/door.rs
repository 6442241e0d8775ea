//! A door: where processes of this host join a running node without being in its configuration.
//!
//! A node opens a [`Door`] at a path; others [`visit`](Visit::meet) it. They share two rings of records, whose content
//! this module does not interpret, and the node's shared memory, which the guest maps read-only: payload there is named
//! by segment and offset, and is not copied ([`SharedMemory`](crate::SharedMemory)). The socket of a guest stays open
//! during the visit, so that the kernel reports the death of either process to the other.
//!
//! | module | holds |
//! |---|---|
//! | `ring` | records in a ring |
//! | `words` | messages over the socket, and the files that come with them |
//! | `listener` | the door's thread: admits guests, notices their end, wakes the node |
//! | `guest` | a guest, as its host sees it |
//! | `visit` | the guest's side |
//!
//! # Trust
//! A guest runs as the same user as its host. Its writes are checked like those of any peer in shared memory: it can
//! end its own visit and disturb its host's sleep, nothing else. Guests map the node's memory read-only. A guest checks
//! its host in the same way.

mod guest;
mod listener;
mod refusals;
mod ring;
mod visit;
mod words;

pub use guest::{Guest, GuestId};
pub use listener::{Door, DoorError, DoorNews, DoorOptions};
pub use refusals::DoorRefusal;
pub use visit::{Visit, VisitError, Visited};
pub use words::{Hello, MAX_HELLO_BYTES};

pub use ring::SentRecord;
#[doc(hidden)]
pub use ring::fuzz_door_ring;

use crate::socket;

#[cfg(test)]
mod tests;
