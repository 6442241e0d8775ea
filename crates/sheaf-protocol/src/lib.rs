//! The event-building protocol, without any input or output of its own.
//!
//! # The life of an event
//! 1. The [`manager::EventManager`] accepts a trigger: emulated, given by its driver, or announced by a readout unit
//!    that has seen a new event id.
//! 2. Sources push fragments to their [`readout::ReadoutUnit`], which holds them.
//! 3. A [`builder::BuilderUnit`] has asked the event manager for events, in slots and bytes.
//! 4. The event manager assigns it a batch of events.
//! 5. The builder asks every readout unit for its part of them, a batch in one message.
//! 6. A readout unit answers as soon as all its sources are in, or its time for silent sources is over.
//! 7. The builder has all answers (or its time is over): the event is built, with a list of what is missing.
//! 8. The driver judges it, or has it judged by the processors of a [`farm::Dispatcher`]; it stores it, or gives it to an
//!    [`output::OutputUnit`] through its [`output::Sender`], or rejects it, and says so; the builder returns it to the event manager and asks for the next.
//! 9. The event manager books the event under exactly one outcome and tells the readout units to release it.
//! 10. The readout units book the fragments and forget them.
//!
//! # The contract of a machine
//! Each role has the same verbs: `handle_input(now, message)`, `handle_timeout(now)`, `poll_transmit(now)`,
//! `poll_event()`, `poll_timeout()`. After every call that changes the machine, drain `poll_transmit` and
//! `poll_event`, then arm a timer for `poll_timeout`. Time never goes back. The machines own no clock, socket, thread
//! or random number; the same calls give the same answers, bit for bit. They run on threads and sockets
//! (`sheaf-node`), under injected faults (`sheaf-swarm`) and inside the network simulator.
//!
//! # What the protocol survives
//! Between the event manager and the others, messages travel in a [`channel`]: numbered, acknowledged, repeated, put
//! in order, so that loss, duplication and reordering do not show. Requests for fragments and their answers can be
//! repeated without harm. A builder that falls silent or restarts loses its unfinished events to others; a readout
//! unit that restarts has lost its fragments, and says so.

#![forbid(unsafe_code)]

pub mod builder;
pub mod channel;
mod event_range;
mod event_set;
mod event_window;
pub mod farm;
pub mod gathering;
pub mod ledger;
pub mod liveness;
pub mod machine;
pub mod manager;
pub mod output;
pub mod readout;
pub mod sampler;

pub use machine::{Deadline, Identity, Transmit, Why};
