//! Settings of an Ethernet port, and the reasons why it could not be made.

use sheaf_wire::ethernet::{ETHERTYPE, LEAST_ETHERTYPE, MacAddress};
use sheaf_wire::{Nanos, NodeId, RunNumber};
use std::fmt;
use std::io;

/// Identity and peers of a port.
#[derive(Clone, Debug)]
pub struct EthernetOptions {
    /// The node.
    pub node: NodeId,
    /// The run; frames of another are dropped and counted.
    pub run: RunNumber,
    /// The interfaces, one for each rail, in an order that is the same on all nodes. They are resolved in the network
    /// namespace of the calling thread.
    pub interfaces: Vec<String>,
    /// The nodes to talk to.
    pub peers: Vec<EthernetPeer>,
    /// The knobs.
    pub settings: EthernetSettings,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetPeer {
    /// Its node id.
    pub node: NodeId,
    /// The addresses of its interfaces, one for each rail. Empty: they are learned from its frames.
    pub addresses: Vec<MacAddress>,
}

/// Path of frames between the kernel and this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// AF_XDP where the driver has it without copies, else packet rings.
    #[default]
    Auto,
    /// AF_XDP: without copies where the driver can, else with one.
    Xdp,
    /// Rings of a packet socket: every driver, one copy of received frames.
    Packet,
}

/// The knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetSettings {
    /// Path of frames between the kernel and this program. Default: [`Backend::Auto`].
    pub backend: Backend,
    /// The type of the frames, at least 0x0600; the same on all nodes. Default: 0x88b5.
    pub ethertype: u16,
    /// Number of an interface's receive queues that AF_XDP takes, from queue 0; 0: all. Default: 0.
    pub queues: u32,
    /// Number of frames of the largest size that fit each way, for each rail and queue: a power of two from 16 to
    /// 32,768. Default: 1,024.
    pub frame_slots: u32,
    /// Time for which a wait polls without sleeping. Default: 0.
    pub busy_poll: Nanos,
    /// Size of the largest datagram, with the port's head, that must fit a frame; `None`: limited by the smallest MTU
    /// of the interfaces. Default: `None`.
    pub mtu: Option<usize>,
}

impl Default for EthernetSettings {
    fn default() -> Self {
        Self {
            backend: Backend::default(),
            ethertype: ETHERTYPE,
            queues: 0,
            frame_slots: 1024,
            busy_poll: Nanos::ZERO,
            mtu: None,
        }
    }
}

/// The most rails of a port.
pub const MAX_RAILS: usize = 16;

const FRAME_SLOTS: std::ops::RangeInclusive<u32> = 16..=32_768;

/// Below this no datagram of use fits a frame; IPv4 asks for as much.
const LEAST_MTU: usize = 576;

/// Reason why a port could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EthernetError {
    /// No rail, or too many.
    #[error("{0} interfaces are listed for a node; it must be 1 to {MAX_RAILS}, one for each rail")]
    BadRails(usize),
    /// An interface twice.
    #[error("interface \"{0}\" is listed twice; each rail needs one of its own")]
    InterfaceTwice(String),
    /// The node is its own peer, or a peer is named twice.
    #[error("{0} is named twice among a node and its peers")]
    NamedTwice(NodeId),
    /// The addresses of a peer are not one for each rail.
    #[error(
        "{node} has {addresses} addresses, and there are {rails} rails; list one for each, or none to have them learned"
    )]
    BadAddresses {
        /// The peer.
        node: NodeId,
        /// Number of listed addresses.
        addresses: usize,
        /// Number of rails.
        rails: usize,
    },
    /// A setting that cannot work.
    #[error("`{name}` is {value}; it must be {rule}")]
    BadSetting {
        /// Which.
        name: &'static str,
        /// Its value.
        value: u64,
        /// Rule that the value breaks.
        rule: &'static str,
    },
    /// There is no such interface.
    #[error("there is no interface \"{name}\" here; there are {known}")]
    NoInterface {
        /// Its name.
        name: String,
        /// The names of those that there are.
        known: String,
    },
    /// The interface is not switched on.
    #[error("interface \"{name}\" is down; `ip link set {name} up` switches it on")]
    Down {
        /// Its name.
        name: String,
    },
    /// The interface carries something else.
    #[error("interface \"{name}\" is not an Ethernet interface")]
    NotEthernet {
        /// Its name.
        name: String,
    },
    /// The interface takes only smaller frames than configured.
    #[error(
        "interface \"{name}\" has an MTU of {mtu}, and {wanted} is configured; `ip link set {name} mtu {wanted}` on every node \
         and switch of that network, or configure {mtu}"
    )]
    MtuTooSmall {
        /// Its name.
        name: String,
        /// MTU of the interface.
        mtu: usize,
        /// MTU of the configuration.
        wanted: usize,
    },
    /// The interface takes only frames that are useless.
    #[error("interface \"{name}\" has an MTU of {mtu}; it must be {LEAST_MTU} or more")]
    MtuUseless {
        /// Its name.
        name: String,
        /// MTU of the interface.
        mtu: usize,
    },
    /// A question about an interface was not answered.
    #[error("could not {what} interface \"{name}\"")]
    Interface {
        /// Operation that failed.
        what: &'static str,
        /// Its name.
        name: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The process may not.
    #[error(
        "no permission to {what} of interface \"{name}\"; run as root, or give the program the capabilities once: `setcap \
         {capabilities}+ep PROGRAM`"
    )]
    NoPermission {
        /// Operation that failed.
        what: &'static str,
        /// The interface.
        name: String,
        /// Capabilities that it needs.
        capabilities: &'static str,
    },
    /// A queue, or the place for a program, is taken.
    #[error(
        "{what} of interface \"{name}\" is in use by another program (or another node: AF_XDP gives each queue to one); give \
         each node an interface of its own, or set `transport.ethernet = \"packet\"` for all that share this one"
    )]
    InUse {
        /// Resource that is in use.
        what: String,
        /// The interface.
        name: String,
    },
    /// Locked memory is limited.
    #[error(
        "the limit of locked memory is too small for {bytes} bytes of frame slots; raise it (`ulimit -l unlimited`, \
         `LimitMEMLOCK=infinity`), or lower `transport.frame_slots`"
    )]
    LockedMemory {
        /// Number of bytes requested.
        bytes: usize,
    },
    /// This kernel, or this driver, cannot do it.
    #[error("interface \"{name}\" cannot be used with AF_XDP: {why}")]
    NotSupported {
        /// The interface.
        name: String,
        /// Missing requirement.
        why: &'static str,
    },
    /// The operating system refused something else.
    #[error("could not {what} of interface \"{name}\"")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The interface.
        name: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl EthernetOptions {
    pub(super) fn check(&self) -> Result<(), EthernetError> {
        let rails = self.interfaces.len();
        if !(1..=MAX_RAILS).contains(&rails) {
            return Err(EthernetError::BadRails(rails));
        }
        for (place, name) in self.interfaces.iter().enumerate() {
            if self.interfaces[..place].contains(name) {
                return Err(EthernetError::InterfaceTwice(name.clone()));
            }
        }
        for peer in &self.peers {
            let addresses = peer.addresses.len();
            if addresses != 0 && addresses != rails {
                return Err(EthernetError::BadAddresses { node: peer.node, addresses, rails });
            }
            if peer.node == self.node {
                return Err(EthernetError::NamedTwice(peer.node));
            }
        }
        self.settings.check()
    }
}

impl EthernetSettings {
    fn check(&self) -> Result<(), EthernetError> {
        let slots = self.frame_slots;
        let rules = [
            ("ethertype", u64::from(self.ethertype), self.ethertype >= LEAST_ETHERTYPE, "at least 0x0600"),
            (
                "frame_slots",
                slots.into(),
                FRAME_SLOTS.contains(&slots) && slots.is_power_of_two(),
                "a power of two from 16 to 32,768",
            ),
        ];
        for (name, value, holds, rule) in rules {
            if !holds {
                return Err(EthernetError::BadSetting { name, value, rule });
            }
        }
        Ok(())
    }

    /// The MTU to use on an interface that has `mtu`.
    pub(super) fn usable_mtu(&self, name: &str, mtu: usize) -> Result<usize, EthernetError> {
        let name = || name.to_owned();
        match self.mtu {
            Some(wanted) if wanted > mtu => Err(EthernetError::MtuTooSmall { name: name(), mtu, wanted }),
            _ if mtu < LEAST_MTU => Err(EthernetError::MtuUseless { name: name(), mtu }),
            Some(wanted) if wanted < LEAST_MTU => {
                Err(EthernetError::BadSetting { name: "mtu", value: wanted as u64, rule: "at least 576" })
            }
            // The head's length has 16 bits.
            wanted => Ok(wanted.unwrap_or(mtu).min(usize::from(u16::MAX))),
        }
    }
}

impl fmt::Display for Backend {
    /// As in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Xdp => "xdp",
            Self::Packet => "packet",
        })
    }
}
