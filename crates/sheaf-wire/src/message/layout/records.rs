//! Layout of answers to run records.

use super::layout;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// Answer to a run record, 16 bytes.
    RecordedBytes[16] {
        /// Offset 0: number of the record.
        number: U64,
        /// Offset 8: source id.
        source: U32,
        /// Offset 12: [`RecordAnswer`](crate::run_record::RecordAnswer).
        answer: u8,
        /// Offset 13: zero.
        reserved: [u8; 3],
    }
}
