//! Run control, as state machines without I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`controller`] | takes commands of operators, and directs one run at a time |
//! | [`runner`] | the end of the link in the process of a run |
//! | [`link`] | the messages between the two |
//! | [`request`] | commands, and why they are refused |
//! | [`operation`] | the course of a command |
//! | [`record`] | the commands of a run, for its record |
//! | [`lock`] | the lock of one operator |
//! | [`fault`] | faults of the system, with remedies |
//! | [`limits`] | time limits |
//! | [`means`] | means by which a run is ended |
//! | [`sequence`] | a table of runs, one after the other |
//! | [`silence`] | suppresses the notices of alarms for a time |
//! | [`saved`] | state that a controller keeps on disk, so that a later one goes on |
//! | [`view`] | the state of run control as people see it |
//!
//! A controller *directs*: it sends the run what it wants as a whole, never a step, and the run reports its state as a whole. So a message
//! that is lost, late or repeated does no harm, and a controller that returns after its death only has to listen. The reasons are in
//! decision 0066.

#![forbid(unsafe_code)]

pub mod controller;
pub mod fault;
pub mod limits;
pub mod link;
pub mod lock;
pub mod means;
pub mod operation;
pub mod record;
pub mod request;
pub mod runner;
pub mod saved;
pub mod sequence;
pub mod silence;
pub mod view;

pub use controller::{Controller, Effect};
pub use limits::Limits;
pub use link::{Excludable, Exclusions, NextRun, Order, RefusedOrder, Report, RunResult, RunState, Wish};
pub use record::{CommandLog, RunCommand};
pub use request::{Command, Operator, Refusal, RefusalCode, Request, Role};
pub use runner::{Runner, Steer};
pub use sequence::{Sequence, SequenceAction, SequenceRequest, SequenceState};
pub use silence::{Silence, SilenceRequest};
