//! The datagrams of links that recover from loss: frames of data, reports of arrivals, and the greetings of two nodes.
//!
//! A datagram is a [`HeadBytes`](layout::HeadBytes), the number of bytes of further heads given there, and a body. The
//! heads are covered by a checksum that begins with the [`Key`] of the link, so that datagrams of other sessions of the
//! two nodes, and damaged ones, have no effect. The body (payload, or padding) is protected by the network below.
//! `docs/reference/datagrams.md` has the same as tables; `sheaf_recovery` describes the use of each datagram.

mod codec;
#[doc(hidden)]
pub mod fuzz;
pub mod layout;
mod meeting;
#[cfg(test)]
mod tests;

pub use codec::{DatagramError, Gap, Head, Key, Part, RailReport, Report, View, append_part, begin, seal};
pub use layout::Kind;
pub use meeting::{Credentials, Greeting, GreetingRefusal, Life, Secret, Unproven};

/// Bytes in front of every datagram.
pub const HEAD_BYTES: usize = size_of::<layout::HeadBytes>();

/// Bytes of the head of each part of a message in a datagram.
pub const PART_BYTES: usize = size_of::<layout::PartBytes>();

/// Maximum number of bytes of heads between a datagram's own head and its body.
pub const MAX_HEADS_BYTES: usize = u8::MAX as usize * layout::HEADS_UNIT;

/// Bytes of a whole question or answer without padding.
pub const GREETING_BYTES: usize = HEAD_BYTES + size_of::<layout::GreetingBytes>();

/// Bytes of a whole question or answer of a node that has a key, without padding.
pub const PROVEN_GREETING_BYTES: usize = GREETING_BYTES + size_of::<layout::ProofBytes>();

/// No message is larger, head and payload together: 1 GiB.
pub const MAX_MESSAGE_BYTES: u32 = 1 << 30;

/// No link has more rails.
pub const MAX_RAILS: usize = 64;

/// Minimum datagram size that a port must carry, in bytes.
pub const LEAST_DATAGRAM_BYTES: usize = 256;

const _: () = assert!(PROVEN_GREETING_BYTES <= LEAST_DATAGRAM_BYTES);
