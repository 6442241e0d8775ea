//! Consumers: any number of programs join and leave a run while it lasts, and get a bounded sample of its accepted
//! events.
//!
//! | module | holds |
//! |---|---|
//! | [`door`] | the builder's side: [`door::Door`] opens it, [`door::Feed`] receives every accepted event |
//! | [`client`] | the consumer's side of one door: it blocks, and needs nothing but a socket |
//! | [`taps`] | the doors of all builders of a run, as one sequence of events |
//! | [`address`] | where a door is |
//! | `key` | the key of the run: both sides prove over a network that they have it |
//!
//! Who gets what is decided in `sheaf_protocol::sampler`, the bytes are in `sheaf_wire::tap`. A consumer can do no
//! harm: the builder's thread copies an event that somebody gets into a bounded queue, and never touches a socket; a
//! thread of the door's own does. What does not fit is not sent, and counted. Who reads nothing, says nothing or talks
//! nonsense is dropped.

#![forbid(unsafe_code)]

pub mod address;
pub mod client;
pub mod door;
mod key;
pub mod taps;
