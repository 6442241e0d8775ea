//! The event-building protocol, without any input or output of its own.
//!
//! # The life of an event
//! 1. The [`manager::EventManager`] accepts a trigger: emulated, given by its driver (from a trigger supervisor, see
//!    [`trigger_link`]), or announced by a readout unit that has seen a new event id.
//! 2. Sources push fragments to their [`readout::ReadoutUnit`], which holds them.
//! 3. A [`builder::BuilderUnit`] has asked the event manager for events, in slots and bytes.
//! 4. The event manager assigns it a batch of events.
//! 5. The builder requests its super-fragments from every readout unit, with one message per batch.
//! 6. A readout unit answers as soon as the fragments of all its sources have arrived, or the timeout for silent sources expires.
//! 7. When all answers have arrived, or the timeout expires, the event is built, with a list of missing sources.
//! 8. The driver judges the event, or has it judged by the processors of a [`farm::Dispatcher`]. It stores the event, passes it to
//!    an [`output::OutputUnit`] through its [`output::Sender`], or rejects it, and reports the outcome. The builder returns the
//!    event to the event manager and requests the next.
//! 9. The event manager books the event under exactly one outcome and sends a release to the readout units.
//! 10. The readout units book the fragments and free them.
//!
//! # The contract of a machine
//! Each role has the same verbs: `handle_input(now, message)`, `handle_timeout(now)`, `poll_transmit(now)`,
//! `poll_event()`, `poll_timeout()`. After every call that changes the machine, drain `poll_transmit` and
//! `poll_event`, then arm a timer for `poll_timeout`. Time never goes back. The machines use no clock, socket, thread
//! or random number; the same calls give the same answers, bit for bit. They run on threads and sockets
//! (`sheaf-node`), under injected faults (`sheaf-swarm`) and inside the network simulator.
//!
//! # Fault tolerance
//! Messages between the event manager and the other nodes pass through a [`channel`], which numbers, acknowledges,
//! retransmits and orders them, so that loss, duplication and reordering are hidden. Requests for fragments and their
//! answers are idempotent. The unfinished events of a builder that falls silent or restarts are assigned to others. A
//! readout unit that restarts has lost its fragments, and reports that.

#![forbid(unsafe_code)]

pub mod builder;
pub mod channel;
mod event_range;
mod event_set;
mod event_window;
pub mod farm;
pub mod feed;
pub mod gathering;
pub mod ledger;
pub mod liveness;
pub mod machine;
pub mod manager;
pub mod mirror;
pub mod numbering;
pub mod output;
mod range_set;
pub mod readout;
pub mod sampler;
pub mod standby;
pub mod trigger_link;

pub use machine::{Deadline, Identity, Transmit, Why};
