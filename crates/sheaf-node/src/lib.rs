//! Drives the roles of the protocol on real threads.
//!
//! A node is a role, an endpoint of some transport, and what the role needs of the world: sources for a readout unit, a
//! filter and a sink for a builder, triggers and the end of the run for the event manager. Each is an [`Agent`] with a
//! duty cycle: take what has arrived, let the role work, send what it says. A [`worker`] runs one agent or several on
//! one thread and sleeps when none has anything to do.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the time that agents and roles see |
//! | [`worker`] | the duty cycle, spinning and sleeping |
//! | [`outbox`] | from the role's messages to frames, and what a full link could not take |
//! | [`sources`] | sources of a readout unit in the memory that its transport sends from |
//! | [`readout`], [`builder`], [`manager`] | the three agents |
//! | [`preprocessing`] | fragments are processed by workers before they leave a readout unit |
//! | [`reborn`] | a builder that was given up begins a new life |
//! | [`sink`], [`filter`], [`content`] | where built events go, which are wanted, whether they are intact |
//! | [`prescale`] | what of their tags events keep, as in a trigger menu |
//! | [`output`] | an output node: accepted events of builder units in, files out |
//! | [`beside`] | event files written by a thread of their own, for disks that hang |
//! | [`converting`] | a thread that makes other files of closed ones |
//! | [`busy`] | a filter that takes its time, for measurements |
//! | [`farm`] | a builder unit's farm: events to workers, verdicts back |
//! | [`processor`] | a process that joins a farm |
//! | [`judging`] | what every worker does, and its account of its time |
//! | [`step`] | what is decided about the first step of an event, where events are built in steps |
//! | [`trigger`] | triggers at a rate |
//! | [`evolution`] | what ended at each builder unit in each interval |
//! | [`report`] | what a run amounts to: ledger, books of all nodes, latency |
//!
//! The crate knows transports, sources and sinks as traits; which ones are used is decided in the command.

#![forbid(unsafe_code)]

pub mod beside;
pub mod builder;
pub mod busy;
pub mod clock;
pub mod coincidence;
pub mod content;
pub mod converting;
pub mod evolution;
#[cfg(test)]
mod examples;
pub mod farm;
pub mod filter;
mod forwarding;
pub mod judging;
pub mod manager;
pub mod outbox;
pub mod output;
mod parcels;
pub mod preprocessing;
pub mod prescale;
pub mod processor;
pub mod readout;
pub mod reborn;
mod repeats;
pub mod report;
pub mod sink;
pub mod sources;
mod stall;
pub mod step;
mod storing;
pub mod trigger;
mod vigil;
pub mod worker;

pub use clock::Clock;
pub use worker::{Agent, NodeError, Progress};
