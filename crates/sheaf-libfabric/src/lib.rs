//! Reliable datagrams of libfabric: the same code over shared memory, TCP, InfiniBand, EFA and Slingshot.
//!
//! The bytes of frames pass through libfabric, as messages into registered buffers that the receiver has posted.
//! Identity, addresses and deaths of peers use a TCP connection between each two nodes, that of [`sheaf_tcp`] with its
//! greetings, retries and time-outs: libfabric's datagrams have no connections and do not report when a peer has gone.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | the knobs, each with its default |
//! | `shim.c`, `sys` | libfabric's interface, most of which is inline, as plain functions |
//! | `port` | these, made safe: operations own their memory until they are complete |
//! | `memory` | the region of buffers |
//! | `wire` | the head of a message; messages over TCP |
//! | `outgoing`, `incoming` | from frames to messages and back, without libfabric |
//! | `link` | a peer and its link |
//! | `traffic` | messages and credit |
//! | `meeting` | how links begin and end |
//! | `endpoint` | the endpoint: rounds, sleep, and the port |
//!
//! # Costs
//! A received frame of more than 1 kB that fits a message is returned where the provider has put it; a smaller one is
//! copied out, and a larger one arrives in several messages and is reassembled. A sent frame is passed to the provider
//! in pieces if the provider takes unregistered memory and that number of pieces (`tcp;ofi_rxm`, `shm`, `net`),
//! otherwise it is copied once into a registered buffer. All these copies are counted.

#![cfg(all(feature = "libfabric", target_os = "linux"))]

mod endpoint;
mod incoming;
mod link;
mod meeting;
mod memory;
mod outgoing;
mod port;
mod settings;
mod sys;
#[cfg(test)]
mod tests;
mod traffic;
mod wire;

pub use endpoint::LibfabricEndpoint;
pub use port::Fault;
pub use settings::{LibfabricError, LibfabricOptions, LibfabricSettings};
