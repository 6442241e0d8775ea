//! The knobs of a UDP port.

use sheaf_wire::{ByteCount, NodeId};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Identity and peers of a port.
#[derive(Debug)]
pub struct UdpOptions {
    /// The node.
    pub node: NodeId,
    /// A bound socket for each rail.
    pub sockets: Vec<UdpSocket>,
    /// The nodes to talk to.
    pub peers: Vec<UdpPeer>,
    /// The bounds.
    pub settings: UdpSettings,
}

/// A node to talk to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpPeer {
    /// The node.
    pub node: NodeId,
    /// Its addresses, by rail. Empty if unknown: then they are learned from its datagrams.
    pub addresses: Vec<SocketAddr>,
}

/// The bounds of a UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// The MTU of the networks, in bytes: packets are as large, none is ever cut by the kernel. Default 1,500.
    pub mtu_bytes: usize,
    /// The kernel's receive buffer (`SO_RCVBUF`) of each socket, beyond the system's maximum if permitted. `None` keeps
    /// the system's default. Default 4 MiB.
    pub receive_buffer: Option<ByteCount>,
    /// The kernel's send buffer (`SO_SNDBUF`). Default: the system's default.
    pub send_buffer: Option<ByteCount>,
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self { mtu_bytes: 1_500, receive_buffer: Some(ByteCount::mib(4)), send_buffer: None }
    }
}

/// Reason why a port could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// The node is its own peer, or a peer is named twice.
    #[error("{0} is named twice among a node and its peers")]
    NamedTwice(NodeId),
    /// No socket, or more than there can be rails.
    #[error("a UDP port needs 1 to 64 sockets, one for each rail, and was given {0}")]
    WrongSockets(usize),
    /// A peer with addresses, but not for each rail.
    #[error(
        "{node} has {addresses} addresses, and there are {rails} rails; it needs one for each, or none if it calls"
    )]
    WrongAddresses {
        /// The peer.
        node: NodeId,
        /// Number of its addresses.
        addresses: usize,
        /// Number of rails.
        rails: usize,
    },
    /// An MTU that is too small or too large.
    #[error("an MTU of {0} bytes cannot be used; it must be from 576 to 65,535")]
    WrongMtu(usize),
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}
