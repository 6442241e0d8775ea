//! The byte layout of the source protocol: every struct is a field table.

use crate::message::layout::layout;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// First message of a client, 16 bytes; `sources` source ids of 4 bytes and the name follow.
    HelloBytes[16] {
        /// Offset 0: [`VERSION`](super::VERSION).
        version: U32,
        /// Offset 4: number of sources.
        sources: U32,
        /// Offset 8: bytes of the name, UTF-8.
        name_bytes: U32,
        /// Offset 12: bit 0: run records may follow after the end of the run. Other bits are zero.
        flags: U32,
    }
}

layout! {
    /// Fragments of one source, 16 bytes; each follows as a [`FragmentHeadBytes`] and its payload, without gaps.
    FragmentsBytes[16] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: number of fragments, at least 1.
        count: U32,
        /// Offset 8: sequence number of the first.
        first: U64,
    }
}

layout! {
    /// The head of a fragment, 32 bytes.
    FragmentHeadBytes[32] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: the source's own time, ns; zero where it has none.
        time: U64,
        /// Offset 16: bytes of the payload, which follows.
        length: U32,
        /// Offset 20: CRC-32C of the payload, zero where bit 0 of the flags is clear.
        checksum: U32,
        /// Offset 24: bit 0: the checksum is present. Other bits are zero.
        flags: U32,
        /// Offset 28: zero.
        reserved: U32,
    }
}

layout! {
    /// End of a source, 16 bytes.
    EndBytes[16] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: zero.
        reserved: U32,
        /// Offset 8: number of fragments that it has sent in the run.
        fragments: U64,
    }
}

layout! {
    /// First message of a readout unit, 32 bytes; a [`ProgressBytes`] follows for each source of the hello, in its order.
    WelcomeBytes[32] {
        /// Offset 0: [`VERSION`](super::VERSION).
        version: U32,
        /// Offset 4: run number.
        run: U32,
        /// Offset 8: session of the readout unit. Another session than before has forgotten the fragments that it held.
        session: U64,
        /// Offset 16: maximum payload of a fragment, in bytes.
        max_fragment: U32,
        /// Offset 20: maximum length of a message of fragments, in bytes.
        max_message: U32,
        /// Offset 24: number of sources.
        sources: U32,
        /// Offset 28: [`Phase`](super::Phase).
        phase: u8,
        /// Offset 29: zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// Progress of one source in this run, 56 bytes. A client may send the fragments with sequence numbers below
    /// `fragments_limit`, while the sum of their payloads in this run does not exceed `bytes_limit`.
    ProgressBytes[56] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: bit 0: `last_event` is present; bit 1: the source has ended. Other bits are zero.
        flags: U32,
        /// Offset 8: number of fragments that the readout unit has received.
        received: U64,
        /// Offset 16: their payload, in bytes.
        received_bytes: U64,
        /// Offset 24: number of fragments that were accepted: each of them is in the accounts of the run.
        accepted: U64,
        /// Offset 32: event id of the last fragment received.
        last_event: U64,
        /// Offset 40: number of fragments that the client may send in this run.
        fragments_limit: U64,
        /// Offset 48: payload that the client may send in this run, in bytes.
        bytes_limit: U64,
    }
}

layout! {
    /// Phase of the run, 8 bytes.
    PhaseBytes[8] {
        /// Offset 0: [`Phase`](super::Phase).
        phase: u8,
        /// Offset 1: zero.
        reserved: [u8; 7],
    }
}

layout! {
    /// Reason for which the readout unit closes the connection, 8 bytes; a text follows, UTF-8.
    RefusedBytes[8] {
        /// Offset 0: [`Refusal`](super::Refusal).
        refusal: u8,
        /// Offset 1: zero.
        reserved: [u8; 3],
        /// Offset 4: the source in question, or zero.
        source: U32,
    }
}

/// Bit 0 of [`FragmentHeadBytes::flags`].
pub const HAS_CHECKSUM: u32 = 1;

/// Bit 0 of [`HelloBytes::flags`].
pub const HAS_LATE_RECORDS: u32 = 1;

/// Bit 0 of [`ProgressBytes::flags`].
pub const HAS_LAST_EVENT: u32 = 1;

/// Bit 1 of [`ProgressBytes::flags`].
pub const HAS_ENDED: u32 = 2;
