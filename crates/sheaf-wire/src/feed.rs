//! The source protocol: messages between a readout unit and the programs that feed it fragments.
//!
//! A *client* is a program that reads a front end. It connects to the readout unit of its sources, and sends their
//! fragments as far as the readout unit grants room. `docs/reference/source-protocol.md` has the sequence of messages, for
//! authors of clients without this library.
//!
//! A message is a [`HeadBytes`] and a body. Over TCP messages follow one another; in shared memory each is a record.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 hello | client | [`HelloBytes`], n x source id, name |
//! | 2 fragments | client | [`FragmentsBytes`], n x ([`FragmentHeadBytes`], payload) |
//! | 3 end | client | [`EndBytes`] |
//! | 4 decline | client | reason, UTF-8 |
//! | 16 welcome | readout unit | [`WelcomeBytes`], n x [`ProgressBytes`] |
//! | 17 progress | readout unit | n x [`ProgressBytes`] |
//! | 18 phase | readout unit | [`PhaseBytes`] |
//! | 19 refused | readout unit | [`RefusedBytes`], text |
//!
//! The fragments of a source have *sequence numbers*: the first of a run is 0, and each has the next. They are not in the
//! messages one by one, only that of the first. Sequence numbers, not event ids, decide what is a repeat, because a
//! front end may send the same event id twice.

mod codec;
pub mod layout;

pub use codec::{ClientMessage, Fragments, declared_length, first_part, is_fragments, renumber_fragments};
pub use layout::{
    EndBytes, FragmentHeadBytes, FragmentsBytes, HeadBytes, HelloBytes, PhaseBytes, ProgressBytes,
    RefusedBytes, WelcomeBytes,
};

use crate::message::DecodeError;
use crate::{ByteCount, EventId, RunNumber, SessionId, SourceId, Timestamp};

/// The version of the protocol. Each side refuses every other.
pub const VERSION: u32 = 1;

/// Bytes of a message before its body.
pub const HEAD_BYTES: usize = size_of::<HeadBytes>();

/// Bytes of a message of fragments before its first fragment.
pub const FRAGMENTS_HEAD_BYTES: usize = HEAD_BYTES + size_of::<FragmentsBytes>();

/// Bytes before the payload of each fragment.
pub const FRAGMENT_HEAD_BYTES: usize = size_of::<FragmentHeadBytes>();

/// Maximum length of a client's name, in bytes; longer names are cut.
pub const MAX_NAME_BYTES: usize = 64;

/// Maximum length of a reason, in bytes; longer reasons are cut.
pub const MAX_REASON_BYTES: usize = 1024;

/// Maximum number of sources of one client.
pub const MAX_SOURCES: usize = 4096;

/// Maximum length of a message that has no fragments.
pub const MAX_CONTROL_BYTES: usize =
    HEAD_BYTES + size_of::<WelcomeBytes>() + MAX_SOURCES * size_of::<ProgressBytes>();

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Client, first: which sources it feeds.
    Hello = 1,
    /// Client: fragments of one source.
    Fragments = 2,
    /// Client: a source sends nothing more in this run.
    End = 3,
    /// Client, before the run starts: the run must not start.
    Decline = 4,
    /// Readout unit, first: the run, and where each source continues.
    Welcome = 16,
    /// Readout unit: what was accepted, and how much may be sent.
    Progress = 17,
    /// Readout unit: the run has entered another phase.
    Phase = 18,
    /// Readout unit, last: why it closes the connection.
    Refused = 19,
}

impl Kind {
    /// Returns the kind with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Hello,
            2 => Self::Fragments,
            3 => Self::End,
            4 => Self::Decline,
            16 => Self::Welcome,
            17 => Self::Progress,
            18 => Self::Phase,
            19 => Self::Refused,
            _ => return None,
        })
    }
}

/// Phase of a run, as clients see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The run has not started: not all nodes and required sources have joined.
    #[default]
    Waiting = 0,
    /// Fragments are taken.
    Running = 1,
    /// Fragments are not taken now.
    Paused = 2,
    /// The run has ended; nothing that is sent from now on is accepted.
    Ended = 3,
}

impl Phase {
    /// Every phase, in code order.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Running, Self::Paused, Self::Ended];

    fn read(code: u8) -> Result<Self, DecodeError> {
        Self::ALL.get(usize::from(code)).copied().ok_or_else(|| crate::parts::bad("phase", code))
    }
}

/// Reason for which a readout unit closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The client speaks another version of the protocol.
    OtherVersion = 1,
    /// The readout unit does not read this source.
    UnknownSource = 2,
    /// Another client feeds this source.
    SourceTaken = 3,
    /// The source has ended in this run.
    SourceEnded = 4,
    /// The message is invalid, or not allowed at this moment.
    InvalidMessage = 5,
    /// Fragments are missing between the last message and this one.
    SequenceGap = 6,
    /// The client sent more than was granted.
    OverCredit = 7,
    /// A fragment is larger than `max_fragment`.
    TooLarge = 8,
    /// As many clients are connected as the readout unit admits.
    Full = 9,
    /// The run has ended.
    RunEnded = 10,
}

impl Refusal {
    /// Every reason, in code order.
    pub const ALL: [Self; 10] = [
        Self::OtherVersion,
        Self::UnknownSource,
        Self::SourceTaken,
        Self::SourceEnded,
        Self::InvalidMessage,
        Self::SequenceGap,
        Self::OverCredit,
        Self::TooLarge,
        Self::Full,
        Self::RunEnded,
    ];

    /// The name in counters and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherVersion => "other_version",
            Self::UnknownSource => "unknown_source",
            Self::SourceTaken => "source_taken",
            Self::SourceEnded => "source_ended",
            Self::InvalidMessage => "invalid_message",
            Self::SequenceGap => "sequence_gap",
            Self::OverCredit => "over_credit",
            Self::TooLarge => "too_large",
            Self::Full => "full",
            Self::RunEnded => "run_ended",
        }
    }

    /// The index among [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    fn read(code: u8) -> Result<Self, DecodeError> {
        usize::from(code)
            .checked_sub(1)
            .and_then(|index| Self::ALL.get(index).copied())
            .ok_or_else(|| crate::parts::bad("refusal", code))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OtherVersion => {
                "the client speaks another version of the source protocol; use the same release of Sheaf"
            }
            Self::UnknownSource => "this readout unit does not read the source",
            Self::SourceTaken => "another client feeds the source",
            Self::SourceEnded => "the source has ended in this run",
            Self::InvalidMessage => "the client sent an invalid message",
            Self::SequenceGap => "the client left out fragments that it has counted",
            Self::OverCredit => "the client sent more than the readout unit has granted",
            Self::TooLarge => "a fragment is larger than the configuration allows",
            Self::Full => "the readout unit has as many clients as it admits",
            Self::RunEnded => "the run has ended",
        })
    }
}

/// First message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Sources that it feeds, without repeats.
    pub sources: Vec<SourceId>,
    /// Its name, for people.
    pub name: String,
}

/// First message of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The run.
    pub run: RunNumber,
    /// Session of the readout unit.
    pub session: SessionId,
    /// Phase of the run.
    pub phase: Phase,
    /// Maximum payload of a fragment.
    pub max_fragment: ByteCount,
    /// Maximum length of a message of fragments.
    pub max_message: ByteCount,
    /// Progress of the sources of the hello, in its order.
    pub sources: Vec<Progress>,
}

/// Progress of one source in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The source.
    pub source: SourceId,
    /// Number of fragments that the readout unit has received.
    pub received: u64,
    /// Their payload.
    pub received_bytes: ByteCount,
    /// Number of fragments that were accepted: each of them is in the accounts of the run.
    pub accepted: u64,
    /// Event id of the last fragment received.
    pub last_event: Option<EventId>,
    /// Whether the source has ended in this run.
    pub ended: bool,
    /// Number of fragments that the client may send in this run.
    pub fragments_limit: u64,
    /// Payload that the client may send in this run.
    pub bytes_limit: ByteCount,
}

/// Message of a client, but for fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Its sources.
    Hello(Hello),
    /// A source sends nothing more in this run.
    End {
        /// The source.
        source: SourceId,
        /// Number of fragments that it has sent in the run.
        fragments: u64,
    },
    /// The run must not start, and why.
    Decline(String),
}

/// Message of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromReadout {
    /// The run, and where each source continues.
    Welcome(Welcome),
    /// Fragments that were accepted, and credit.
    Progress(Vec<Progress>),
    /// The run has entered this phase.
    Phase(Phase),
    /// The readout unit closes the connection.
    Refused {
        /// Reason.
        refusal: Refusal,
        /// The source in question.
        source: Option<SourceId>,
        /// The reason for people.
        text: String,
    },
}

/// The head of a message of fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentsHead {
    /// The source.
    pub source: SourceId,
    /// Number of fragments.
    pub count: u32,
    /// Sequence number of the first.
    pub first: u64,
}

/// The head of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHead {
    /// The event.
    pub event: EventId,
    /// The source's own time; zero where it has none.
    pub time: Timestamp,
    /// Bytes of the payload.
    pub length: u32,
    /// CRC-32C of the payload, if the client has computed it.
    pub checksum: Option<u32>,
}

#[doc(hidden)]
pub mod fuzz;

#[cfg(test)]
mod tests;
