//! Transport of messages between nodes.
//!
//! A transport carries opaque [`Frame`]s between [nodes](sheaf_wire::NodeId). It knows neither the content of a frame
//! nor which nodes exchange messages. Every transport is an [`Endpoint`].
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | the port: [`Endpoint`], [`Frame`], [`Event`], [`SendError`]; the contract that every transport keeps |
//! | `refusal` | reasons for refused links: [`Refusal`] |
//! | [`stats`] | counters of an endpoint |
//! | [`memory`] | nodes of one process: frames move through bounded rings, nothing is copied |
//! | [`mixed`] | shared memory for peers on this host, TCP for the others |
//! | `clock` | the [`Clock`] of the nodes and endpoints of a process |
//! | [`peers`] | maps a node to its index in a list |
//! | [`greeting`] | the first bytes of connections |
//! | [`doorbell`] | wakes a sleeping thread |
//! | [`kernel_polls`] | when an endpoint that polls memory asks the kernel for new connections and dead peers |
//! | [`round`] | rounds of polls over the peers of an endpoint |
//! | [`session`] | checks whether sessions are plausible |
//!
//! Transports beyond a process are crates of their own: `sheaf-tcp`, `sheaf-shm`, `sheaf-datagram`, `sheaf-libfabric`. The tests that
//! every transport passes are in `sheaf-conformance`.
//!
//! Deliberately not part of this crate: sockets, retransmission, routing, broadcast, naming and discovery of nodes.

mod clock;
pub mod doorbell;
#[cfg(test)]
mod doorbell_model;
pub mod endpoint;
pub mod greeting;
pub mod kernel_polls;
pub mod memory;
pub mod mixed;
pub mod peers;
mod refusal;
pub mod round;
pub mod session;
pub mod stats;
mod sync;

pub use clock::Clock;
pub use endpoint::{DownReason, Endpoint, Event, Frame, SendError, TimeSlots};
pub use refusal::{Refusal, TlsProblem};
pub use session::{MAX_SESSION_AHEAD, latest_session};
pub use stats::LinkStats;
