//! Fragments, super-fragments, and missing sources.

use super::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// One super-fragment, or those of consecutive events that have as many fragments and missing sources each; 24 bytes.
    SuperFragmentBytes[24] {
        /// Offset 0: event id, the first.
        event: U64,
        /// Offset 8: number of consecutive ids, at least 1; exactly 1 if both counts that follow are 0.
        count: U32,
        /// Offset 12: each event's fragments in the list of fragments.
        fragments: U16,
        /// Offset 14: each event's missing sources in the list of missing sources.
        missing: U16,
        /// Offset 16: the attempt of the request, where that named sources; else 0.
        attempt: U16,
        /// Offset 18: the part that was asked for; 0 for the whole.
        part: U16,
        /// Offset 20: zero.
        reserved: U32,
    }
}

layout! {
    /// One fragment, 24 bytes; its bytes are in the payload. The event file uses the same layout.
    FragmentBytes[24] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: payload bytes.
        length: U32,
        /// Offset 8: the source's time, ns.
        time: U64,
        /// Offset 16: CRC-32C of the payload, 0 where bit 0 of the flags is clear.
        checksum: U32,
        /// Offset 20: bit 0: the checksum is present; bit 1: processed in the readout unit; bits 8 to 31:
        /// [`NumberMark`](crate::NumberMark), whose bit 8 says that the event number disagrees, and bit 9 that it was changed, with a
        /// signed number in bits 10 to 31. Other bits are zero.
        flags: U32,
    }
}

/// Bit 0 of [`FragmentBytes::flags`].
pub const FRAGMENT_HAS_CHECKSUM: u32 = 1;

/// Bit 1 of [`FragmentBytes::flags`].
pub const FRAGMENT_IS_PROCESSED: u32 = 2;

layout! {
    /// One missing source, 8 bytes. The event file uses the same layout.
    MissingBytes[8] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: `MissingReason`.
        reason: u8,
        /// Offset 5: zero.
        reserved: [u8; 3],
    }
}
