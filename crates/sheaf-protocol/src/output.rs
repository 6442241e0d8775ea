//! Output nodes: nodes that store accepted events in place of the builder units.
//!
//! | module | holds |
//! |---|---|
//! | [`sender`] | [`Sender`]: the side of a builder unit: shares accepted events out, keeps each until it is stored |
//! | [`receiver`] | [`OutputUnit`]: the side of the output node: takes events, says which are stored, bounds what it takes |
//! | [`places`] | [`Places`]: which numbers of an output session count |
//!
//! # Stored exactly once
//! An output node numbers the events that it accepts, in the order of its files, from 0 in each of its sessions. A *place* is an
//! output node, one of its sessions, and such a number. An output node tells a builder the place of an event when the event
//! is as durable as configured. The builder says to the event manager that the event is stored, and in the same message at
//! which place. The event manager keeps the set of these places. **An event in a file counts if its place is in the set.**
//!
//! That is all, and it holds whatever dies:
//!
//! - *One place for each event.* An event belongs to one session of a builder at a time; messages of sessions that were given up
//!   are refused. A builder ends an event once. So at most one place of an event ever comes into the set, and exactly one when
//!   the event is booked as stored.
//! - *What counts is there.* A place is told after the event at it is durable, and files are not changed behind the back of a
//!   session. So every place in the set can be read, whether its session lives or not.
//! - *An output node dies, or falls silent.* Its builders know of which events they have no place, and give these to another
//!   output node, or to its next session. A copy may be in the files of the dead session: its place is not in the set, and
//!   never will be, since the builder takes no place from that session any more.
//! - *A builder dies* while its events are with an output node. What it had not returned is built again by another builder, and
//!   stored at another place. The copies of the first are in the files, also in the middle: their places are not in the set.
//!
//! Nobody needs to agree with anybody about who is dead: a builder may give an event to a second output node while the first
//! still writes it. It costs the room of a copy, which readers pass over.

pub mod places;
pub mod receiver;
pub mod sender;

pub use places::{Places, StoragePlace};
pub use receiver::{OutputConfig, OutputEvent, OutputUnit, Ticket};
pub use sender::{Sender, SenderConfig, SenderEvent};

#[cfg(test)]
mod tests;
