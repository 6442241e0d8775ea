//! How frames look on a TCP stream. `docs/reference/tcp-framing.md` tells the same with examples.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of every connection, from both sides.
pub const MAGIC: [u8; 8] = *b"SHEAFTCP";

/// The version of the framing.
pub const VERSION: u16 = 1;

/// The greeting, 32 bytes: sent first by the side that called, then by the side that was called. In every version of
/// the framing the first 12 bytes have this meaning, so that versions can refuse each other politely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GreetingBytes {
    /// Offset 0: [`MAGIC`].
    pub magic: [u8; 8],
    /// Offset 8: [`VERSION`].
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

/// What stands before every frame, 8 bytes. Head and payload follow.
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

const _: () = assert!(GREETING_BYTES == 32 && PREFIX_BYTES == 8);
