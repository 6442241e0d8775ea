//! Output nodes: nodes that store accepted events in place of the builder units.
//!
//! | module | contents |
//! |---|---|
//! | [`sender`] | [`Sender`]: the side of a builder unit: distributes accepted events, keeps each until it is stored |
//! | [`receiver`] | [`OutputUnit`]: the side of the output node: accepts a bounded number of events, reports stored ones |
//! | [`places`] | [`Places`]: the event numbers of an output session that count |
//!
//! # Stored exactly once
//! An output node numbers the events that it accepts, in the order of its files, from 0 in each of its sessions. A *place* is an
//! output node, one of its sessions, and such a number. An output node reports the place of an event to the builder when the
//! event is as durable as configured. The builder reports to the event manager, in one message, that the event is stored and at
//! which place. The event manager keeps the set of these places. **An event in a file counts if its place is in the set.**
//!
//! This is sufficient for any failure:
//!
//! - *One place for each event.* An event belongs to one session of a builder at a time; messages of sessions that were given up
//!   are refused. A builder ends an event once. So at most one place of an event is ever added to the set, and exactly one if
//!   the event is booked as stored.
//! - *Events that count are readable.* A place is reported after its event is durable, and a session's files are not modified by
//!   others. So every place in the set can be read, even if its session has ended.
//! - *An output node dies or falls silent.* Its builders know the events whose place is not known, and send these to another
//!   output node, or to its next session. The files of the dead session may contain a copy. Its place is never added to the set,
//!   because the builder accepts no more places from that session.
//! - *A builder dies* while an output node has its events. Those that it had not returned are built again by another builder and
//!   stored at other places. The first copies remain in the files, but their places are not in the set.
//!
//! The nodes need not agree on which of them are dead: a builder may send an event to a second output node while the first still
//! writes it. The cost is the space for a copy, which readers skip.

pub mod places;
pub mod receiver;
pub mod sender;

pub use places::{Places, StoragePlace};
pub use receiver::{OutputConfig, OutputEvent, OutputUnit, Ticket};
pub use sender::{Sender, SenderConfig, SenderEvent};

#[cfg(test)]
mod tests;
