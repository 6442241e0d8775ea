//! Drives the roles of the protocol on real threads.
//!
//! A node is a role, the endpoint of a transport, and the environment of the role: sources for a readout unit, a filter
//! and a sink for a builder, triggers and the end of the run for the event manager. Each is a [`NodeDriver`] with a duty
//! cycle: take what has arrived, let the role work, send its messages. A [`worker`] runs one or more drivers on one
//! thread and sleeps when none has anything to do.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the time of drivers and roles |
//! | [`worker`] | the duty cycle, spinning and sleeping |
//! | [`outbox`] | converts the role's messages to frames, and keeps those that a full link did not take |
//! | [`sources`] | sources of a readout unit in the memory that its transport sends from |
//! | [`polled`] | sources of a library, which the thread of the readout unit polls |
//! | [`polled_trigger`] | triggers of a library, which a thread of their process polls |
//! | [`readout`], [`builder`], [`manager`] | the three drivers |
//! | [`programs`] | programs of the user that feed sources: started, watched and ended |
//! | [`restarts`] | whether and when a process that died is started again |
//! | [`preprocessing`] | workers that process fragments before they leave a readout unit |
//! | [`reborn`] | restarts a fenced builder with a new session |
//! | [`sink`], [`filter`], [`content`] | destination of built events, their selection, and checks of their content |
//! | [`number_check`] | comparison of the event numbers of sources |
//! | [`prescale`] | prescales of tags, as in a trigger menu |
//! | [`output`] | an output node: stores the accepted events of builder units in files |
//! | [`beside`] | event files written by a separate thread, for disks that hang |
//! | [`converting`] | a thread that converts closed files |
//! | [`busy`] | a slow filter, for measurements |
//! | [`farm`] | a builder unit's farm: events to workers, and verdicts back |
//! | [`processor`] | a process that joins a farm |
//! | [`decoder_process`] | decoders of hits in a process |
//! | [`hit_decoder`] | decoders of hits from libraries |
//! | [`judging`] | the loop of every worker, and its account of time |
//! | [`step`] | decisions on the first step of an event, with building in steps |
//! | [`trigger`] | triggers at a rate |
//! | [`trigger_door`] | triggers of a trigger supervisor, over TCP or UDP |
//! | [`trigger_input`] | the event manager's end of the link to a trigger supervisor |
//! | [`evolution`] | events ended at each builder unit in each interval |
//! | [`telemetry`] | metrics of nodes, published for other threads |
//! | [`traces`] | stamps of events, for traces |
//! | [`report`] | result of a run: ledger, accounts of all nodes, latency |
//!
//! The crate knows transports, sources and sinks only as traits; the command selects the implementations.

#![forbid(unsafe_code)]

pub mod beside;
pub mod builder;
pub mod busy;
pub mod busy_signal;
pub mod clock;
pub mod coincidence;
pub mod content;
mod controls;
pub mod converting;
pub mod decoder_process;
pub mod evolution;
#[cfg(test)]
mod examples;
pub mod farm;
pub mod filter;
mod forwarding;
pub mod handover;
pub mod hit_decoder;
pub mod judging;
pub mod link_handover;
pub mod manager;
pub mod number_check;
pub mod outbox;
pub mod output;
mod parcels;
pub mod polled;
pub mod polled_trigger;
pub mod preprocessing;
pub mod prescale;
pub mod processor;
pub mod programs;
pub mod readout;
pub mod reborn;
mod repeats;
pub mod report;
pub mod restarts;
pub mod sink;
pub mod sources;
mod stall;
pub mod step;
mod storing;
mod supervised;
pub mod telemetry;
pub mod traces;
pub mod trigger;
pub mod trigger_door;
pub mod trigger_input;
mod vigil;
pub mod worker;

pub use clock::Clock;
pub use controls::{Exclusions, Recovery, RunControls, Succession, WantedExclusions};
pub use worker::{NodeDriver, NodeError, Progress};
