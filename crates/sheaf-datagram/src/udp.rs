//! Datagrams over UDP: a lossy network that is available everywhere.
//!
//! A rail is a socket with an address of its own. Each datagram begins with 8 bytes ([`framing`]) that identify its
//! sender; if the configuration has the sender's address, the datagram must come from there. Many datagrams are sent
//! and received with one system call.
//!
//! | module | holds |
//! |---|---|
//! | [`framing`] | the byte layout |
//! | `settings` | the knobs, each with its default |
//! | `port` | the port: rounds, sleep |
//! | `outgoing`, `incoming` | datagrams on their way into and out of the kernel |
//! | [`bare`] | packets without any of this, for measurements |
//! | `sys` | the two system calls, with the unsafe code |
//!
//! Deliberately not part of this module: anything about loss. See [`DatagramPort`](crate::DatagramPort).

pub mod bare;
pub mod framing;
mod incoming;
mod outgoing;
mod port;
mod settings;
mod sys;
#[cfg(test)]
mod tests;

pub use port::UdpPort;
pub use settings::{UdpError, UdpOptions, UdpPeer, UdpSettings};
