//! Transports over lossy networks: datagrams over UDP and in frames of raw Ethernet, and recovery from loss on top of
//! them.
//!
//! A network is a [`DatagramPort`], which guarantees little. A [`LossyEndpoint`](lossy::LossyEndpoint) combines a port
//! with the links of [`sheaf_recovery`] and a shaper, and is a transport like any other.
//!
//! | module | holds |
//! |---|---|
//! | `port` | the port for lossy networks, and a port that loses datagrams on purpose |
//! | [`udp`] | datagrams over UDP |
//! | [`ethernet`] | datagrams in frames of raw Ethernet: AF_XDP and packet rings |
//! | [`lossy`] | endpoints on lossy networks: recovery on top of a port |
//! | `bell` | wake-up of a thread that sleeps at a port |
//!
//! Deliberately not part of this crate: the content of datagrams (`sheaf_wire::datagram`), and the detection and repair
//! of loss ([`sheaf_recovery`]).

mod bell;
pub mod ethernet;
pub mod lossy;
mod port;
pub mod udp;

pub use port::{Datagram, DatagramPort, DatagramRefused, Dropping};
