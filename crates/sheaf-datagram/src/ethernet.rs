//! Raw Ethernet: datagrams straight in frames of an own type, without IP and without the kernel's protocol stack.
//!
//! An [`EthernetPort`] has one or several *rails*, an interface each. A frame goes from a slot of memory that this process
//! shares with the kernel, and arrives in one; there are as many as configured, and a system call moves many. There are two
//! ways between the slots and the driver:
//!
//! - **AF_XDP** (`xdp`): a program at the interface takes frames of our type out of the kernel's way before it has made
//!   anything of them; where the driver can, it puts them into the slots itself ("zero copy").
//! - **Packet rings** (`packet`): every driver, every kernel; several nodes may share an interface.
//!
//! Nodes of both kinds understand each other: the frames are the same.
//!
//! Peers are found by their addresses: a node says on every rail where it is when it starts, who knows it answers, and every
//! frame says it again. What is for a peer whose address is not known goes by broadcast, seldom, and asks for an answer.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default; what can be wrong |
//! | `interface` | what is to be known of an interface |
//! | `program` | the two programs that the kernel runs, with their instructions |
//! | `sys` | calls of the operating system |
//! | `region` | memory that is shared with the kernel |
//! | `cursor` | positions in a ring |
//! | `wire` | what both ways have in common |
//! | `xdp` | AF_XDP: queues, their rings and slots |
//! | `packet` | packet rings |
//! | `rail` | an interface, the way through it, where the peers are |
//! | `port` | the port |
//!
//! The layout of frames is `sheaf_wire::ethernet`.
//!
//! # What is believed of others
//! Nothing that a frame says before its length, version and checksum were looked at; then only if it is of this run, for this
//! node and from a peer. Everything else is dropped, and counted by what was wrong with it ([`LinkStats`](sheaf_transport::LinkStats)). Ethernet
//! knows no secrets: who can send frames in this network can disturb a run, as can who unplugs a cable.

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
