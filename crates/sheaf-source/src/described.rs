//! Sources that no program was written for: their packets are described, and read by the description.
//!
//! | module | holds |
//! |---|---|
//! | [`field`] | numbers and marks in a packet: where they are, and how they are read |
//! | [`description`] | a packet's layout, and its division into fragments or parts of fragments |
//! | [`rollover`] | counters of any width, as numbers of 64 bits |
//! | [`order`] | packets that wait for those before them |
//! | [`parts`] | fragments over several packets |
//! | [`decoder`] | packets in, fragments out, with accounts of both |
//! | [`deframer`] | packets in a stream of bytes |
//! | [`live`] | sources whose packets arrive at a UDP socket or by TCP connections |
//! | [`connections`] | TCP connections with front ends |
//! | [`fuzz`] | the body of the fuzz target |
//!
//! All but [`live`] and [`connections`] is sans-IO: bytes and times go in, fragments and counts come out. Packets come from a network: whatever
//! they contain, they are decoded or counted by a name, and take no more memory than [`decoder::Limits`] allow.

pub mod connections;
pub mod decoder;
pub mod deframer;
pub mod description;
pub mod field;
pub mod fuzz;
mod kernel_drops;
pub mod live;
pub mod order;
pub mod parts;
pub mod rollover;

pub use connections::ConnectionSettings;
pub use decoder::{Decoder, Described, Limits, StreamBooks};
pub use deframer::{Deframer, PacketEnding, PacketLength};
pub use description::{Counted, Description, DescriptionError, Length, PacketError, PacketKind, Piece};
pub use field::{ByteOrder, Field, Mark, Origin, Width};
pub use live::{Listen, ListenError, PacketPath, StreamSource};

#[cfg(test)]
mod tests;
