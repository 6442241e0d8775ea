//! The test programs: streams, round trips, the machine's limits, and what is made of their figures.
//!
//! Every transport is measured through its port, [`Endpoint`](sheaf_transport::Endpoint), by the same code: what differs
//! between two curves is the transport. Nodes of a measurement run on threads of one process, or each in a process of
//! its own, started by the command.
//!
//! | module | holds |
//! |---|---|
//! | [`job`] | what the nodes of a measurement do, and what they find |
//! | [`wiring`] | the endpoints of a measurement, over each transport: the only place that knows which there are |
//! | [`node`] | a sender, a receiver, the two sides of a round trip |
//! | [`local`] | a whole measurement on threads of this process |
//! | [`memory`] | what the processors do with memory: copy, read, fill, gather |
//! | [`handover`] | what they can hand each other through memory |
//! | [`store`] | accepted events to a disk, by the writer that a run has, beside plain writes |
//! | [`transport`] | the transports that can be measured |
//! | [`plain`] | a vectored stream over a loopback socket, with nothing around it |
//! | [`cpu`] | which processors there are, how they belong together, and staying on one |
//! | [`fit`] | `time = offset + size / speed`, with a plateau below |
//! | [`statistics`] | median and spread of repetitions |
//! | [`payload`] | payload that is written and read, or not touched |
//!
//! The crate starts no process, reads no command line and prints nothing; and it does not know the protocol: the event
//! builder's own test program runs what `sheaf run` runs, and is in the command.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod fit;
pub mod handover;
pub mod job;
pub mod local;
pub mod memory;
pub mod node;
pub mod payload;
pub mod plain;
pub mod statistics;
pub mod store;
pub mod transport;
pub mod wiring;
