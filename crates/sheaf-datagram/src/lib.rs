//! Transports over networks that lose: datagrams over UDP and in frames of raw Ethernet, and recovery from loss on top of them.
//!
//! A network is a [`DatagramPort`], which promises little. A [`LossyEndpoint`](lossy::LossyEndpoint) joins a port to the links of
//! [`sheaf_recovery`] and to a shaper, and is a transport like any other.
//!
//! | module | holds |
//! |---|---|
//! | `port` | the port for networks that lose, and a port that loses on purpose |
//! | [`udp`] | datagrams over UDP |
//! | [`ethernet`] | datagrams in frames of raw Ethernet: AF_XDP and packet rings |
//! | [`lossy`] | endpoints on networks that lose: recovery joined to a port |
//! | `bell` | wake-up of a thread that sleeps at a port |
//!
//! Deliberately not part of this crate: what a datagram says (`sheaf_wire::datagram`), and how loss is noticed and mended
//! ([`sheaf_recovery`]).

mod bell;
pub mod ethernet;
pub mod lossy;
mod port;
pub mod udp;

pub use port::{Datagram, DatagramPort, DatagramRefused, Dropping};
