//! Raw Ethernet: datagrams in frames of a separate EtherType, without IP and without the kernel's protocol stack.
//!
//! An [`EthernetPort`] has one or more *rails*, an interface each. Frames are sent from and received into slots of
//! memory that this process shares with the kernel; their number is configured, and a system call moves many. There are
//! two connections between the slots and the driver:
//!
//! - **AF_XDP** (`xdp`): a program at the interface diverts frames of our type before the kernel processes them; if the
//!   driver supports it, it puts them into the slots itself ("zero copy").
//! - **Packet rings** (`packet`): every driver, every kernel; several nodes may share an interface.
//!
//! Nodes of both kinds can communicate: the frames are the same.
//!
//! Peers are found by their addresses: a node announces its address on every rail when it starts, nodes that know it
//! answer, and every frame contains the address again. Frames for a peer with an unknown address are sent by broadcast,
//! at a low rate, and ask for an answer.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default, and their errors |
//! | `interface` | properties of an interface |
//! | `program` | the two programs that the kernel runs, with their instructions |
//! | `sys` | calls of the operating system |
//! | `region` | memory that is shared with the kernel |
//! | `cursor` | positions in a ring |
//! | `wire` | the trait of both backends |
//! | `xdp` | AF_XDP: queues, their rings and slots |
//! | `packet` | packet rings |
//! | `rail` | an interface, its backend, and the addresses of the peers |
//! | `port` | the port |
//!
//! The layout of frames is `sheaf_wire::ethernet`.
//!
//! # Trust
//! No field of a frame is used before its length, version and checksum were checked, and then only if it is of this
//! run, for this node and from a peer. All other frames are dropped, and counted by reason
//! ([`LinkStats`](sheaf_transport::LinkStats)). Ethernet has no authentication: anyone who can send frames in this
//! network can disturb a run, like anyone who unplugs a cable.

mod cursor;
mod interface;
mod packet;
mod port;
mod program;
mod rail;
mod region;
mod settings;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod wire;
mod xdp;

pub use port::{EthernetPort, RailReport};
pub use settings::{Backend, EthernetError, EthernetOptions, EthernetPeer, EthernetSettings, MAX_RAILS};
