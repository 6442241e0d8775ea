//! Framing on a TCP stream. `docs/reference/tcp-framing.md` describes the same with examples.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of every connection, from both sides.
pub const MAGIC: [u8; 8] = *b"SHEAFTCP";

/// The version of the framing of a link with one connection.
pub const VERSION: u16 = 1;

/// The version of the framing of a link with several connections (rails): a longer greeting, and numbered frames.
pub const RAILS_VERSION: u16 = 2;

/// Set in the version of a greeting where the two sides prove to each other that they have the key of the run: a nonce of 32 bytes
/// follows the greeting, a proof of 32 bytes the nonce of the side that was called, and the caller sends its proof behind
/// the answer.
pub const KEYED: u16 = 0x100;

/// The greeting, 32 bytes: sent first by the side that called, then by the side that was called. In every version of
/// the framing the first 12 bytes have this meaning, so that versions can refuse each other politely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GreetingBytes {
    /// Offset 0: [`MAGIC`].
    pub magic: [u8; 8],
    /// Offset 8: [`VERSION`] or [`RAILS_VERSION`], with [`KEYED`] where there is a key.
    pub version: U16,
    /// Offset 10: 0, or why the sender refuses the connection; it is closed after that.
    pub refusal: U16,
    /// Offset 12: the sender's node code.
    pub node: U32,
    /// Offset 16: the run that the sender takes part in.
    pub run: U32,
    /// Offset 20: the largest frame that the sender takes, head and payload together, in bytes.
    pub max_frame_bytes: U32,
    /// Offset 24: the sender's session.
    pub session: U64,
}

/// The size of a greeting.
pub const GREETING_BYTES: usize = size_of::<GreetingBytes>();

/// Continuation of the greeting in [`RAILS_VERSION`], 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RailBytes {
    /// Offset 32: which of the link's connections this is, from 0.
    pub rail: U16,
    /// Offset 34: how many connections a link has.
    pub rails: U16,
    /// Offset 36: which link this is of those that the two sessions have had, counted by the calling side.
    pub link: U32,
    /// Offset 40: how many frames the sender of the greeting holds that it cannot hand out yet.
    pub window_frames: U32,
    /// Offset 44: zero.
    pub reserved: U32,
    /// Offset 48: how many bytes of them.
    pub window_bytes: U64,
}

/// The size of a greeting with the part about rails.
pub const RAIL_GREETING_BYTES: usize = GREETING_BYTES + size_of::<RailBytes>();

/// The number that stands where a frame's number would, before the number of an acknowledgement. In
/// [`RAILS_VERSION`] each head begins with a number of 8 bytes.
pub const ACKNOWLEDGEMENT: u64 = u64::MAX;

/// The number that says that all frames of the sender are acknowledged and no more will come: it closes the link in good
/// order. Acknowledgements may follow.
pub const FAREWELL: u64 = u64::MAX - 1;

/// The size of a frame's number.
pub const NUMBER_BYTES: usize = size_of::<U64>();

/// Prefix of every frame, 8 bytes. Head and payload follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PrefixBytes {
    /// Offset 0: bytes of the head.
    pub head_bytes: U32,
    /// Offset 4: bytes of the payload.
    pub payload_bytes: U32,
}

/// The size of a prefix.
pub const PREFIX_BYTES: usize = size_of::<PrefixBytes>();

/// The prefix that says that nothing follows: the sender closes the link in good order.
pub const GOODBYE: PrefixBytes = PrefixBytes { head_bytes: U32::MAX_VALUE, payload_bytes: U32::MAX_VALUE };

/// No limit for the size of a frame may be larger: sums of two lengths stay far from overflow, and the goodbye is
/// never a frame.
pub const MAX_FRAME_BYTES: usize = 1 << 30;

const _: () = assert!(GREETING_BYTES == 32 && RAIL_GREETING_BYTES == 56 && PREFIX_BYTES == 8);
