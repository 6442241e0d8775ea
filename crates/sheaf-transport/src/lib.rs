//! Transport of messages between nodes.
//!
//! A transport carries opaque [`Frame`]s between [nodes](sheaf_wire::NodeId). It knows nothing of the protocol: not
//! what a frame says, not which nodes have anything to say to each other. Every transport is an [`Endpoint`].
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | the port: [`Endpoint`], [`Frame`], [`Event`], [`SendError`]; the contract that every transport keeps |
//! | [`stats`] | what an endpoint counts |
//! | [`memory`] | nodes of one process: frames move through bounded rings, nothing is copied |
//! | [`tcp`] | nodes anywhere: one connection for each pair of nodes, or several rails |
//! | [`shm`] | processes of one host (Linux): payload is read where it was written |
//! | [`mixed`] | shared memory for peers on this host, TCP for the others |
//! | `libfabric` | libfabric's reliable datagrams: InfiniBand, EFA, Slingshot (feature `libfabric`, Linux) |
//! | [`ethernet`] | datagrams in frames of raw Ethernet: AF_XDP and packet rings (Linux) |
//! | [`datagram`] | the port for networks that lose: raw Ethernet, UDP |
//! | [`udp`] | datagrams over UDP (Linux) |
//! | [`peers`] | from node to place in a list |
//! | `session` | which sessions are plausible |
//! | [`conformance`] | the tests that every transport passes |
//!
//! Deliberately not part of this crate: retransmission (transports here deliver a link's frames in order, whole and
//! once, or report that the link went down), routing, broadcast, encryption, naming and discovery of nodes.

#[cfg(target_os = "linux")]
mod bell;
pub mod conformance;
pub mod datagram;
#[cfg(target_os = "linux")]
pub mod door;
mod doorbell;
#[cfg(test)]
mod doorbell_model;
pub mod endpoint;
#[cfg(target_os = "linux")]
pub mod ethernet;
#[cfg(all(feature = "libfabric", target_os = "linux"))]
pub mod libfabric;
pub mod memory;
#[cfg(target_os = "linux")]
pub mod mixed;
pub mod peers;
mod session;
#[cfg(target_os = "linux")]
pub mod shm;
pub mod stats;
mod sync;
pub mod tcp;
#[cfg(target_os = "linux")]
pub mod udp;

pub use datagram::{Datagram, DatagramPort, DatagramRefused, Dropping};
pub use endpoint::{DownReason, Endpoint, Event, Frame, Refusal, SendError, TlsProblem};
pub use session::{MAX_SESSION_AHEAD, latest_session};
pub use stats::LinkStats;
