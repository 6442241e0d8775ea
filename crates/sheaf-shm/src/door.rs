//! A door: where processes of this host join a node while it runs, without a place in the configuration.
//!
//! A node opens a [`Door`] at a path; others [`visit`](Visit::meet) it. What then lies between the two are two rings of
//! records in shared memory, whose content this module does not know, and the node's shared memory, which the guest maps for
//! reading: payload that lies there is named by segment and offset, and is not copied ([`SharedMemory`](crate::SharedMemory)).
//! The socket of a guest stays open as long as it stays, so that the kernel tells each when the other has died.
//!
//! | module | holds |
//! |---|---|
//! | `ring` | records in a ring |
//! | `words` | what the two say over the socket, and which files come with it |
//! | `listener` | the door's thread: lets guests in, notices their end, wakes the node |
//! | `guest` | a guest, as its host sees it |
//! | `visit` | the guest's side |
//!
//! # What is believed of whom
//! A guest runs for the same user as its host. What it writes is checked like what any peer writes into shared memory: it
//! can end its own visit and disturb its host's sleep, no more. Guests map the node's memory for reading only. A guest
//! believes its host no more than that.

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

#[doc(hidden)]
pub use ring::fuzz_door_ring;

use crate::socket;

#[cfg(test)]
mod tests;
