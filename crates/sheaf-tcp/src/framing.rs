//! Framing on a TCP stream, behind the greeting that all connections begin with. `docs/reference/tcp-framing.md` describes the same with examples.

pub use sheaf_transport::greeting::{GREETING_BYTES, GreetingBytes, KEYED, MAGIC, MAX_FRAME_BYTES, VERSION};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of the framing of a link with several connections (rails): a longer greeting, and numbered frames.
pub const RAILS_VERSION: u16 = 2;

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

/// The number with which the sender acknowledges all of the peer's frames and announces that no more follow: it closes
/// the link in good order. Acknowledgements may follow.
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

/// The prefix that announces the end: the sender closes the link in good order.
pub const GOODBYE: PrefixBytes = PrefixBytes { head_bytes: U32::MAX_VALUE, payload_bytes: U32::MAX_VALUE };

const _: () = assert!(RAIL_GREETING_BYTES == 56 && PREFIX_BYTES == 8);
