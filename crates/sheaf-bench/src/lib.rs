//! The test programs: streams, round trips, the machine's limits, and the evaluation of the results.
//!
//! The same code measures every transport through its port, [`Endpoint`](sheaf_transport::Endpoint), so that two curves
//! differ only in the transport. Nodes of a measurement run on threads of one process, or in separate processes that the
//! command starts.
//!
//! | module | holds |
//! |---|---|
//! | [`job`] | tasks and results of the nodes of a measurement |
//! | [`wiring`] | the endpoints of a measurement, over each transport: the only module with the list of transports |
//! | [`node`] | a sender, a receiver, the two sides of a round trip |
//! | [`local`] | a whole measurement on threads of this process |
//! | [`memory`] | memory bandwidth of the processors: copy, read, fill, gather |
//! | [`handover`] | throughput between two processors through memory |
//! | [`feed`] | a program that feeds a readout unit, and a readout unit that only counts |
//! | [`packets`] | described packets over UDP, and a bare loop that receives them |
//! | [`store`] | accepted events to a disk, with the writer of a run and with plain writes |
//! | [`transport`] | the transports that can be measured |
//! | [`plain`] | a vectored stream over a plain loopback socket |
//! | [`cpu`] | the processors, their topology, and pinning |
//! | [`fit`] | `time = offset + size / speed`, with a plateau below |
//! | [`statistics`] | median and spread of repetitions |
//! | [`payload`] | payload that is written and read, or not touched |
//!
//! The crate starts no process, reads no command line and prints nothing. It does not know the protocol: the test program
//! of the event builder is part of the command, and runs the same code as `sheaf run`.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod feed;
pub mod fit;
pub mod handover;
pub mod job;
pub mod local;
pub mod memory;
pub mod node;
pub mod packets;
pub mod payload;
pub mod plain;
pub mod statistics;
pub mod store;
pub mod transport;
pub mod wiring;
