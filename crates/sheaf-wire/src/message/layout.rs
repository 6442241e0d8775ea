//! The byte layout of every message head. All fields are little-endian and unaligned; reserved bytes are zero.

mod fragments;
mod inputs;
mod mirror;
mod orders;
mod records;
mod votes;

pub use fragments::{
    FRAGMENT_HAS_CHECKSUM, FRAGMENT_IS_PROCESSED, FragmentBytes, MissingBytes, SuperFragmentBytes,
};
pub use inputs::InputBytes;
pub use mirror::{MirrorBytes, UnitFragmentBytes, UnitInputBytes};
pub use orders::{ExclusionBytes, ReadoutExclusionBytes, RenumberBytes, RenumberedBytes};
pub use records::RecordedBytes;
pub use votes::{AcceptedBytes, VoteBytes, VotedBytes, VoterBytes};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first two bytes of every message.
pub const MAGIC: [u8; 2] = *b"SF";

/// The version of the messages, and the newest that this program speaks.
pub const VERSION: u8 = 3;

/// The oldest version of the messages that this program speaks. A receiver refuses older ones, and newer ones than [`VERSION`].
pub const OLDEST_VERSION: u8 = 3;

/// Maximum size of a message head: a larger length is refused before anything is allocated.
pub const MAX_HEAD_BYTES: usize = 4 << 20;

/// The kinds of message, with their senders and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// RU to EVM, in the channel: n x [`AnnouncementBytes`].
    Announce = 1,
    /// BU to EVM, in the channel: [`RequestBytes`], n x [`FinishedBytes`], m x [`AbsentReadoutBytes`], k x [`KeptBytes`].
    Request = 2,
    /// EVM to BU, in the channel: n x [`AssignmentBytes`].
    Assign = 3,
    /// EVM to RU, in the channel: n x [`ReleaseBytes`].
    Release = 4,
    /// BU to RU, repeatable: n x [`EventRangeBytes`].
    FragmentRequest = 5,
    /// RU to BU, repeatable: [`SuperFragmentsBytes`], its three lists, then the payload.
    SuperFragments = 6,
    /// RU to EVM, in the channel: [`ReadoutStatusBytes`].
    ReadoutStatus = 7,
    /// EVM to any, in the channel: [`CommandBytes`].
    Command = 8,
    /// Any to EVM, in the channel: n x [`CountBytes`].
    Report = 9,
    /// Any to any: the header alone.
    Acknowledge = 10,
    /// EVM to BU, repeatable: [`FenceBytes`].
    Fence = 11,
    /// EVM to RU, in the channel: n x [`DestinationBytes`].
    Dispatch = 12,
    /// EVM to RU or BU, in the channel; to RU also outside it, repeatable: [`ShapeBytes`].
    Shape = 13,
    /// BU to RU, repeatable: [`PartRequestBytes`], m x [`SourceBytes`], n x [`EventRangeBytes`].
    PartRequest = 14,
    /// BU to output node, in the channel between these two: [`DeliveryBytes`], its three lists, the verdicts on the
    /// events, then the payload.
    Delivery = 15,
    /// Output node to BU, in the channel between these two: [`ReceiptBytes`], n x [`ReceivedBytes`].
    Receipt = 16,
    /// BU to EVM, in the channel: n x [`DisagreementBytes`].
    Disagreements = 17,
    /// EVM to RU, in the channel: [`RenumberBytes`].
    Renumber = 18,
    /// RU to EVM, in the channel: [`RenumberedBytes`].
    Renumbered = 19,
    /// RU to EVM, and EVM to nodes that store events, in the channel: [`RecordBytes`], the name, the content.
    Record = 20,
    /// EVM to RU, in the channel: [`RecordedBytes`].
    Recorded = 21,
    /// BU to RU, repeatable: [`PartRequestBytes`], m x [`SourceBytes`], n x [`EventWindowBytes`].
    WindowRequest = 22,
    /// EVM to RU, in the channel: [`ExclusionBytes`].
    Exclude = 23,
    /// RU to EVM, in the channel: [`ExclusionBytes`].
    Excluded = 24,
    /// EVM to BU, in the channel: [`ReadoutExclusionBytes`].
    ExcludeReadout = 25,
    /// EVM to any, repeatable: [`VoteBytes`], [`AcceptedBytes`] in some steps, n x [`VoterBytes`].
    Vote = 26,
    /// Any to EVM: [`VotedBytes`], [`AcceptedBytes`] in a promise, n x [`VoterBytes`].
    Voted = 27,
    /// Active EVM to standby, in the channel between these two: n x [`InputBytes`], each with its content.
    Inputs = 28,
    /// RU to its mirror, in the channel between these two: n x [`UnitInputBytes`], each with its content, then the payload.
    UnitInputs = 30,
    /// RU or mirror to EVM, and back, repeatable: [`MirrorBytes`].
    Mirror = 31,
}

impl Kind {
    /// The kind with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Announce,
            2 => Self::Request,
            3 => Self::Assign,
            4 => Self::Release,
            5 => Self::FragmentRequest,
            6 => Self::SuperFragments,
            7 => Self::ReadoutStatus,
            8 => Self::Command,
            9 => Self::Report,
            10 => Self::Acknowledge,
            11 => Self::Fence,
            12 => Self::Dispatch,
            13 => Self::Shape,
            14 => Self::PartRequest,
            15 => Self::Delivery,
            16 => Self::Receipt,
            17 => Self::Disagreements,
            18 => Self::Renumber,
            19 => Self::Renumbered,
            20 => Self::Record,
            21 => Self::Recorded,
            22 => Self::WindowRequest,
            23 => Self::Exclude,
            24 => Self::Excluded,
            25 => Self::ExcludeReadout,
            26 => Self::Vote,
            27 => Self::Voted,
            28 => Self::Inputs,
            30 => Self::UnitInputs,
            31 => Self::Mirror,
            _ => return None,
        })
    }
}

macro_rules! layout {
    ($(#[$meta:meta])* $name:ident[$size:literal] { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        const _: () = assert!(size_of::<$name>() == $size);
    };
}
pub(crate) use layout;

layout! {
    /// The head of every message, 56 bytes.
    HeaderBytes[64] {
        /// Offset 0: `"SF"`.
        magic: [u8; 2],
        /// Offset 2: [`VERSION`].
        version: u8,
        /// Offset 3: [`Kind`].
        kind: u8,
        /// Offset 4: bytes of the head, this header included.
        head_bytes: U32,
        /// Offset 8: bytes of the payload that follows the head.
        payload_bytes: U32,
        /// Offset 12: CRC-32C of the whole head with this field zero.
        checksum: U32,
        /// Offset 16: run number.
        run: U32,
        /// Offset 20: sender, role in the top byte, index in the low two.
        sender: U32,
        /// Offset 24: the sender's session.
        session: U64,
        /// Offset 32: number in the channel, 0 outside it.
        sequence: U64,
        /// Offset 40: the receiver's channel has been received up to here.
        acknowledged: U64,
        /// Offset 48: the receiver's session that `acknowledged` speaks of.
        acknowledged_session: U64,
        /// Offset 56: term of the event manager, 0 without a standby.
        term: U64,
    }
}

layout! {
    /// An announced event, 16 bytes.
    AnnouncementBytes[16] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: the source's time, ns.
        time: U64,
    }
}

layout! {
    /// Request of a builder, 24 bytes; its finished events, absent readout units and kept events follow.
    RequestBytes[24] {
        /// Offset 0: events.
        slots: U32,
        /// Offset 4: how many [`FinishedBytes`].
        finished: U32,
        /// Offset 8: bytes.
        bytes: U64,
        /// Offset 16: how many [`AbsentReadoutBytes`].
        absent: U32,
        /// Offset 20: bit 0, the output is behind; bit 1, [`KeptBytes`] follow, up to the end; bit 2, the filter judges events;
        /// bit 3, the output writes events (not both of the two); other bits are zero.
        flags: U32,
    }
}

layout! {
    /// A readout unit that had no part in a finished event, 16 bytes.
    AbsentReadoutBytes[16] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: the readout unit's index.
        readout: U16,
        /// Offset 10: of how many parts the event has its answer.
        parts: U16,
        /// Offset 12: zero.
        reserved: U32,
    }
}

layout! {
    /// Stored events among those that ended, as places in an output node's files, 24 bytes.
    KeptBytes[24] {
        /// Offset 0: the output node's session.
        session: U64,
        /// Offset 8: the number of the first in that session.
        first: U64,
        /// Offset 16: how many consecutive numbers, at least 1.
        count: U32,
        /// Offset 20: the output node's index.
        output: U16,
        /// Offset 22: zero.
        reserved: U16,
    }
}

layout! {
    /// A finished event, 32 bytes.
    FinishedBytes[32] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: payload bytes.
        bytes: U64,
        /// Offset 16: fragments.
        fragments: U32,
        /// Offset 20: missing sources.
        missing: U32,
        /// Offset 24: attempt.
        attempt: U16,
        /// Offset 26: `Outcome`.
        outcome: u8,
        /// Offset 27: `DropReason`, or 0.
        reason: u8,
        /// Offset 28: bit 0: a required source is missing. Other bits are zero.
        flags: U32,
    }
}

layout! {
    /// An assigned event, 24 bytes.
    AssignmentBytes[24] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: trigger time, ns.
        time: U64,
        /// Offset 16: byte credit taken.
        charged: U32,
        /// Offset 20: attempt, from 1.
        attempt: U16,
        /// Offset 22: trigger type.
        trigger_type: U16,
    }
}

layout! {
    /// A range of ended events, 16 bytes.
    ReleaseBytes[16] {
        /// Offset 0: first event id.
        first: U64,
        /// Offset 8: how many consecutive ids, at least 1.
        count: U32,
        /// Offset 12: `Outcome`.
        outcome: u8,
        /// Offset 13: `DropReason`, or 0.
        reason: u8,
        /// Offset 14: number of parts of the events that were built of this unit's requested sources; 0 for all of
        /// them.
        parts: U16,
    }
}

layout! {
    /// A range of requested events, 16 bytes.
    EventRangeBytes[16] {
        /// Offset 0: first event id.
        first: U64,
        /// Offset 8: how many consecutive ids, at least 1.
        count: U32,
        /// Offset 12: attempt.
        attempt: U16,
        /// Offset 14: zero.
        reserved: U16,
    }
}

layout! {
    /// Requested events, 8 bytes; the sources, and the ranges of events or the events with their windows, follow.
    PartRequestBytes[8] {
        /// Offset 0: which part of the events, from 1. In requests for windows 0 for whole events, whose sources are not listed.
        part: U16,
        /// Offset 2: zero.
        reserved: U16,
        /// Offset 4: how many [`SourceBytes`].
        sources: U32,
    }
}

layout! {
    /// A requested event with its window, 32 bytes.
    EventWindowBytes[32] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: first moment, in picoseconds since time 0 of the run.
        from_ps: U64,
        /// Offset 16: end, exclusive; not before the first moment. Both are 2^64 - 1 if the window is not on the timeline.
        until_ps: U64,
        /// Offset 24: attempt.
        attempt: U16,
        /// Offset 26: zero.
        reserved: [u8; 6],
    }
}

layout! {
    /// A source that is asked for, 4 bytes.
    SourceBytes[4] {
        /// Offset 0: source id.
        source: U32,
    }
}

layout! {
    /// The sizes of the three lists that follow, 16 bytes.
    SuperFragmentsBytes[16] {
        /// Offset 0: how many [`SuperFragmentBytes`].
        entries: U32,
        /// Offset 4: how many [`FragmentBytes`].
        fragments: U32,
        /// Offset 8: how many [`MissingBytes`].
        missing: U32,
        /// Offset 12: zero.
        reserved: U32,
    }
}

layout! {
    /// A readout unit's state, 40 bytes.
    ReadoutStatusBytes[40] {
        /// Offset 0: sources.
        sources: U32,
        /// Offset 4: sources that have ended.
        sources_ended: U32,
        /// Offset 8: events held.
        buffered_events: U32,
        /// Offset 12: bit 0: busy; bit 1: processing; bit 2: waiting for the programs that feed its sources; bit 3:
        /// one of these declines the start; bit 4: all events are announced before the next run.
        flags: U32,
        /// Offset 16: payload bytes held.
        buffered_bytes: U64,
        /// Offset 24: highest event for which there is room.
        room_until: U64,
        /// Offset 32: number of events for which there is room when nothing is held.
        room_events: U32,
        /// Offset 36: zero.
        reserved: U32,
    }
}

layout! {
    /// A command, 16 bytes.
    CommandBytes[16] {
        /// Offset 0: `Command`.
        command: u8,
        /// Offset 1: zero.
        reserved: [u8; 7],
        /// Offset 8: of `Join` an event below which all have ended, of `HandOver` the first event of the next run, otherwise 0.
        event: U64,
    }
}

layout! {
    /// One count, 16 bytes.
    CountBytes[16] {
        /// Offset 0: which count.
        code: U16,
        /// Offset 2: `DropReason`, or 0.
        reason: U16,
        /// Offset 4: zero.
        reserved: U32,
        /// Offset 8: how many.
        value: U64,
    }
}

layout! {
    /// A fence, 8 bytes.
    FenceBytes[8] {
        /// Offset 0: the session that was given up.
        session: U64,
    }
}

layout! {
    /// A range of events and their builder, 16 bytes.
    DestinationBytes[16] {
        /// Offset 0: first event id.
        first: U64,
        /// Offset 8: how many consecutive ids, at least 1.
        count: U32,
        /// Offset 12: attempt.
        attempt: U16,
        /// Offset 14: the builder's index.
        builder: U16,
    }
}

layout! {
    /// Traffic shaping, 24 bytes.
    ShapeBytes[24] {
        /// Offset 0: epoch of the slots, ns.
        epoch: U64,
        /// Offset 8: the event manager's clock, ns.
        clock: U64,
        /// Offset 16: bit 0: the barrel shifter turns. Other bits are zero.
        flags: U32,
        /// Offset 20: zero.
        reserved: U32,
    }
}

layout! {
    /// The sizes of the following lists, 16 bytes.
    DeliveryBytes[16] {
        /// Offset 0: how many [`DeliveredBytes`].
        entries: U32,
        /// Offset 4: how many [`FragmentBytes`].
        fragments: U32,
        /// Offset 8: how many [`MissingBytes`].
        missing: U32,
        /// Offset 12: bytes of the verdicts on the events, after these lists, in the order of the entries.
        said: U32,
    }
}

layout! {
    /// An accepted event, or a part of one, 48 bytes.
    DeliveredBytes[48] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: trigger time, ns.
        time: U64,
        /// Offset 16: tags.
        tags: U64,
        /// Offset 24: its fragments in the list of fragments.
        fragments: U32,
        /// Offset 28: its missing sources in the list of missing sources.
        missing: U32,
        /// Offset 32: bytes of its verdict.
        said: U32,
        /// Offset 36: trigger type.
        trigger_type: U16,
        /// Offset 38: attempt.
        attempt: U16,
        /// Offset 40: bit 0: a required source is missing; bit 1: the next message has more of this event. Other bits are zero.
        flags: U32,
        /// Offset 44: zero.
        reserved: U32,
    }
}

layout! {
    /// Further events that an output node takes, 24 bytes; the fates of events follow.
    ReceiptBytes[24] {
        /// Offset 0: number of events that it takes, from the first of this pair of sessions.
        events: U64,
        /// Offset 8: number of bytes of events that it takes, from the first.
        bytes: U64,
        /// Offset 16: how many [`ReceivedBytes`].
        entries: U32,
        /// Offset 20: bit 0: its disk holds it up. Other bits are zero.
        flags: U32,
    }
}

layout! {
    /// Consecutive events of a builder that have consecutive places in the files, or none, 24 bytes.
    ReceivedBytes[24] {
        /// Offset 0: the number of the first between these two sessions, from 0.
        first: U64,
        /// Offset 8: its number in the output node's session; 0 where bit 0 of the flags is set.
        place: U64,
        /// Offset 16: how many, at least 1.
        count: U32,
        /// Offset 20: bit 0: no stream takes them. Other bits are zero.
        flags: U32,
    }
}

layout! {
    /// A fragment whose check value disagrees with that of its event, 32 bytes.
    DisagreementBytes[32] {
        /// Offset 0: event id.
        event: U64,
        /// Offset 8: check value of the fragment.
        value: U64,
        /// Offset 16: check value of the event.
        reference: U64,
        /// Offset 24: source id.
        source: U32,
        /// Offset 28: which of the quantities that are checked.
        quantity: U16,
        /// Offset 30: zero.
        reserved: U16,
    }
}

layout! {
    /// A run record, 32 bytes; its name and its content follow.
    RecordBytes[32] {
        /// Offset 0: number that identifies the record in the run.
        number: U64,
        /// Offset 8: time of the record, ns since 1970-01-01 UTC.
        time: U64,
        /// Offset 16: source id.
        source: U32,
        /// Offset 20: bytes of the name, UTF-8.
        name_bytes: U32,
        /// Offset 24: bytes of the content.
        content_bytes: U32,
        /// Offset 28: [`RecordKind`](crate::run_record::RecordKind).
        kind: u8,
        /// Offset 29: zero.
        reserved: [u8; 3],
    }
}
