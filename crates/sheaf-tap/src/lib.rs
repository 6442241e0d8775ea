//! Consumers: any number of programs join and leave a run in progress, and get a bounded sample of its accepted events.
//!
//! | module | holds |
//! |---|---|
//! | [`door`] | the builder's side: [`door::Door`] opens it, [`door::Feed`] receives every accepted event |
//! | [`client`] | the consumer's side of one door: it blocks, and needs only a socket |
//! | [`taps`] | the doors of all builders of a run, as one sequence of events |
//! | [`address`] | addresses of doors |
//!
//! `sheaf_protocol::sampler` selects the consumers of each event; the byte layouts are in `sheaf_wire::tap`. Over a network both
//! sides prove that they have the key of the run (`sheaf_key::DoorProof`). Local sockets do not need this: the modes of their
//! directories decide who may join. A consumer
//! can do no harm: the builder's thread copies a selected event into bounded queues, and never touches a socket; the
//! door's own thread does. Events that do not fit are not sent, and counted. Visitors that read nothing, send nothing
//! or send invalid data are dropped.

#![forbid(unsafe_code)]

pub mod address;
pub mod client;
pub mod door;
pub mod taps;
