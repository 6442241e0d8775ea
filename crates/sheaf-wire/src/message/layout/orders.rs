//! Orders to readout units about one source, and their answers.

use super::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// Exclusion of a source, or its end: as an order and as the answer, 16 bytes.
    ExclusionBytes[16] {
        /// Offset 0: in an order the first event without the source if an earlier session of the unit has answered, otherwise 0; in an
        /// answer the first event without the source, or with it again.
        event: U64,
        /// Offset 8: source id.
        source: U32,
        /// Offset 12: 1 if the source is excluded, otherwise 0.
        excluded: u8,
        /// Offset 13: zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// Exclusion of a readout unit, or its end, 16 bytes.
    ReadoutExclusionBytes[16] {
        /// Offset 0: the first event without the readout unit, or with it again.
        event: U64,
        /// Offset 8: index of the readout unit.
        readout: U16,
        /// Offset 10: 1 if the readout unit is excluded, otherwise 0.
        excluded: u8,
        /// Offset 11: zero.
        reserved: [u8; 5],
    }
}

layout! {
    /// Order to renumber the fragments of a source, 16 bytes.
    RenumberBytes[16] {
        /// Offset 0: signed number that is added to the event id of each further fragment, in addition to earlier ones; not 0.
        shift: U64,
        /// Offset 8: source id.
        source: U32,
        /// Offset 12: zero.
        reserved: U32,
    }
}

layout! {
    /// Answer to the order, when the first fragment with another number is there, 24 bytes.
    RenumberedBytes[24] {
        /// Offset 0: event id of the first renumbered fragment.
        first: U64,
        /// Offset 8: the signed number of the order; not 0.
        shift: U64,
        /// Offset 16: source id.
        source: U32,
        /// Offset 20: zero.
        reserved: U32,
    }
}
