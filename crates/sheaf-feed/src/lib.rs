//! Sources of the kind `feed`: programs of the user give their fragments to a readout unit.
//!
//! | module | holds |
//! |---|---|
//! | [`setup`] | [`FeedSetup`]: the side of a readout unit, from its configuration to its sources |
//! | `feed` | its clients, and their messages |
//! | `connection` | the connection to a client: rings in shared memory, or a link over a network |
//! | `network` | the thread that carries frames of clients of other hosts |
//! | `queue` | fragments of one source between their arrival and their acceptance |
//! | `source` | the sources that the thread of the readout unit polls |
//! | [`environment`] | what a program that a run has started finds in its environment |
//! | [`client`] | [`SourceClient`]: the side of a program that feeds sources |
//!
//! The rules are those of [`sheaf_protocol::feed`]; this crate moves the bytes. On the same host they move through rings in
//! shared memory, which the thread of the readout unit reads itself: no other thread and no system call is between a client and
//! its readout unit while both are awake.
//!
//! # Trust
//! Messages of a client are copied to memory of the readout unit before they are checked. A client can end its own connection and
//! its own sources, and nothing else.

#![forbid(unsafe_code)]

pub mod client;
mod connection;
pub mod environment;
mod feed;
mod network;
mod queue;
pub mod setup;
mod source;

pub use client::{ClientOptions, FeedError, SourceClient, SourceRecord};
pub use environment::EnvironmentError;
pub use network::ListenError;
pub use setup::{FeedSetup, OpenError, window_of};

#[cfg(test)]
mod tests;
