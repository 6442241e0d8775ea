//! The byte layout of datagrams. All fields are little-endian and unaligned; reserved bytes are zero.

use crate::message::layout::layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of the datagrams, the upper half of the first byte. A receiver drops and counts every other.
pub const VERSION: u8 = 2;

/// The first bytes of a greeting.
pub const MAGIC: [u8; 4] = *b"SFDG";

/// Flag in [`PartBytes::total`]: the part is the beginning of its message, and `place` has the bytes of the message's head.
pub const FLAG_FIRST: u32 = 1 << 31;

/// Unit of [`HeadBytes::heads`]: the size of every head is a multiple of this number of bytes.
pub const HEADS_UNIT: usize = 4;

/// The kinds of datagram, the lower half of the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// n x [`PartBytes`], then the parts' bytes. Without parts it only asks for a report.
    Data = 1,
    /// [`ReportBytes`], and for each rail [`RailReportBytes`] with its [`GapBytes`].
    Report = 2,
    /// [`GreetingBytes`], then padding: are you there, and do datagrams of this size reach you?
    Question = 3,
    /// [`GreetingBytes`]: the sender's identity, and the number of bytes of the question that arrived.
    Answer = 4,
    /// Nothing more comes: all that was sent is reported received.
    Farewell = 5,
    /// The farewell has arrived.
    FarewellReceived = 6,
}

impl Kind {
    /// The kind with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Data,
            2 => Self::Report,
            3 => Self::Question,
            4 => Self::Answer,
            5 => Self::Farewell,
            6 => Self::FarewellReceived,
            _ => return None,
        })
    }
}

layout! {
    /// The head of every datagram, 14 bytes.
    HeadBytes[14] {
        /// Offset 0: [`VERSION`] in the upper four bits, [`Kind`] in the lower four.
        kind: u8,
        /// Offset 1: bytes of the heads that follow, in units of [`HEADS_UNIT`].
        heads: u8,
        /// Offset 2: the lowest 16 bits of the link's key; 0 in questions and answers.
        token: U16,
        /// Offset 4: data: the lower half of its number on the rail of its arrival; a question, and its answer: the
        /// question's number; an acknowledged farewell: 1 if the sender's own is to follow, else 0.
        number: U32,
        /// Offset 8: data: all numbers more than this below `number` are settled, received or repeated elsewhere; else 0.
        behind: U16,
        /// Offset 10: CRC-32C of the link's key (8 bytes), then of this head with zeros here, then of the heads that
        /// follow.
        checksum: U32,
    }
}

layout! {
    /// A part of a message, 12 bytes.
    PartBytes[12] {
        /// Offset 0: the lowest 16 bits of the message's number on the link.
        message: U16,
        /// Offset 2: bytes of the part.
        bytes: U16,
        /// Offset 4: bytes of the whole message, head and payload, at most 2^30; and [`FLAG_FIRST`], or not.
        total: U32,
        /// Offset 8: where in the message the part begins; with [`FLAG_FIRST`] it begins at 0, and this is how many bytes of
        /// the message are its head.
        place: U32,
    }
}

layout! {
    /// Arrivals at a node, and its windows, 16 bytes; its rails follow.
    ReportBytes[16] {
        /// Offset 0: up to which position the sender of messages may begin new ones.
        granted: U64,
        /// Offset 8: how many [`RailReportBytes`] follow.
        rails: U16,
        /// Offset 10: zero.
        reserved: U16,
        /// Offset 12: number of microseconds for which the youngest of the reported datagrams had waited for this
        /// report.
        waited: U32,
    }
}

layout! {
    /// Arrivals by a rail, 8 bytes; its gaps follow, in ascending order.
    RailReportBytes[8] {
        /// Offset 0: the rail.
        rail: u8,
        /// Offset 1: zero.
        reserved: u8,
        /// Offset 2: how many [`GapBytes`] follow.
        gaps: U16,
        /// Offset 4: the lower half of the number that follows the last one that is spoken of: all below arrived, but for
        /// the gaps.
        end: U32,
    }
}

layout! {
    /// Numbers that are missing, 8 bytes.
    GapBytes[8] {
        /// Offset 0: the lower half of the first.
        first: U32,
        /// Offset 4: how many, at least 1.
        count: U32,
    }
}

layout! {
    /// Identities of the two nodes, 64 bytes.
    GreetingBytes[64] {
        /// Offset 0: `"SFDG"`.
        magic: [u8; 4],
        /// Offset 4: the sender's node code.
        node: U32,
        /// Offset 8: the run that the sender takes part in.
        run: U32,
        /// Offset 12: how many lives the link had in the sender's session, this one included.
        life: U32,
        /// Offset 16: the sender's session.
        session: U64,
        /// Offset 24: the receiver's session that an answer is for; 0 in a question.
        to_session: U64,
        /// Offset 32: the receiver's life that an answer is for; 0 in a question.
        to_life: U32,
        /// Offset 36: the largest datagram of the sender's rails, in bytes.
        datagram_bytes: U32,
        /// Offset 40: the largest message that the sender takes, in bytes.
        message_bytes: U32,
        /// Offset 44: how many bytes of datagrams may be on the way to the sender.
        flight_bytes: U32,
        /// Offset 48: the position up to which the receiver may begin messages before the first report.
        granted: U64,
        /// Offset 56: an answer: bytes of the question as it arrived; 0 in a question.
        question_bytes: U32,
        /// Offset 60: how many rails the sender has.
        rails: U16,
        /// Offset 62: 0, or why the sender of an answer refuses the link.
        refusal: U16,
    }
}

layout! {
    /// Behind a greeting of a node that has a key: proof of it, 96 bytes.
    ProofBytes[96] {
        /// Offset 0: the sender's nonce, one for each life.
        nonce: [u8; 32],
        /// Offset 32: the last known nonce of the receiver; zeros if none. An answer: that of the question.
        echo: [u8; 32],
        /// Offset 64: HMAC-SHA256 of the datagram up to here, and of its receiver.
        proof: [u8; 32],
    }
}
