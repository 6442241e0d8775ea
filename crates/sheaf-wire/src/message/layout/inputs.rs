//! Layout of the inputs of the event manager.

use super::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// An input of the event manager.
    InputBytes[16] {
        /// Offset 0: kind of the input.
        kind: u8,
        /// Offset 1: flags of the input.
        flags: u8,
        /// Offset 2: zero.
        reserved: U16,
        /// Offset 4: bytes of the content that follows.
        content_bytes: U32,
        /// Offset 8: value of the input, by its kind.
        value: U64,
    }
}
