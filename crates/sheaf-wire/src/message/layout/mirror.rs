//! Layout of the inputs of a mirrored readout unit, and of what decides whether it or its mirror acts.

use super::{FragmentBytes, layout};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// An input of a readout unit.
    UnitInputBytes[16] {
        /// Offset 0: kind of the input.
        kind: u8,
        /// Offset 1: flags of the input.
        flags: u8,
        /// Offset 2: place of the source among those of the unit, by the kind.
        source: U16,
        /// Offset 4: bytes of the content that follows.
        content_bytes: U32,
        /// Offset 8: value of the input, by its kind.
        value: U64,
    }
}

layout! {
    /// A fragment that a readout unit has read.
    UnitFragmentBytes[32] {
        /// Offset 0: the event.
        event: U64,
        /// Offset 8: the fragment.
        fragment: FragmentBytes,
    }
}

layout! {
    /// A step between a readout unit, its mirror and the event manager.
    MirrorBytes[16] {
        /// Offset 0: step.
        step: u8,
        /// Offset 1: zero.
        reserved: [u8; 3],
        /// Offset 4: zero.
        reserved_too: U32,
        /// Offset 8: session of the readout unit.
        session: U64,
    }
}
