//! The transports that can be measured, and their names.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Transport of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Through memory, between threads of one process.
    #[default]
    Memory,
    /// Over TCP on loopback.
    Tcp,
    /// Through memory that processes share; payload is read where it was written.
    Shm,
    /// Over UDP on loopback, in datagrams of a jumbo frame, with recovery from loss.
    Udp,
    /// Through libfabric's provider `shm`.
    #[cfg(feature = "libfabric")]
    #[serde(rename = "libfabric-shm")]
    LibfabricShm,
    /// Through libfabric's provider `tcp`, on loopback.
    #[cfg(feature = "libfabric")]
    #[serde(rename = "libfabric-tcp")]
    LibfabricTcp,
}

impl Transport {
    /// All that this program was built with.
    pub const ALL: &'static [Self] = &[
        Self::Memory,
        Self::Tcp,
        Self::Shm,
        Self::Udp,
        #[cfg(feature = "libfabric")]
        Self::LibfabricShm,
        #[cfg(feature = "libfabric")]
        Self::LibfabricTcp,
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Udp => "udp",
            #[cfg(feature = "libfabric")]
            Self::LibfabricShm => "libfabric-shm",
            #[cfg(feature = "libfabric")]
            Self::LibfabricTcp => "libfabric-tcp",
        }
    }

    /// Whether it goes from process to process.
    #[must_use]
    pub const fn crosses_processes(self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// Whether the kernel carries the payload, so that a plain socket is what limits it and not memory.
    #[must_use]
    pub const fn uses_sockets(self) -> bool {
        match self {
            Self::Memory | Self::Shm => false,
            Self::Tcp | Self::Udp => true,
            #[cfg(feature = "libfabric")]
            Self::LibfabricShm => false,
            #[cfg(feature = "libfabric")]
            Self::LibfabricTcp => true,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no transport has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownTransport;

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Transport::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "must be one of {}", names.join(", "))
    }
}

impl std::error::Error for UnknownTransport {}

impl FromStr for Transport {
    type Err = UnknownTransport;
    fn from_str(text: &str) -> Result<Self, UnknownTransport> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or(UnknownTransport)
    }
}
