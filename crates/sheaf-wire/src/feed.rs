//! The source protocol: messages between a readout unit and the programs that feed it fragments.
//!
//! A *client* is a program that reads a front end. It connects to the readout unit of its sources and sends their
//! fragments within the credit that the readout unit grants. `docs/reference/source-protocol.md` has the sequence of
//! messages, for authors of clients without this library.
//!
//! A message is a [`HeadBytes`] and a body. Over TCP messages follow one another; in shared memory each is a record.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 hello | client | [`HelloBytes`], n x source id, name |
//! | 2 fragments | client | [`FragmentsBytes`], n x ([`FragmentHeadBytes`], payload) |
//! | 3 end | client | [`EndBytes`] |
//! | 4 decline | client | reason, UTF-8 |
//! | 5 record | client | [`RecordBytes`], name, content |
//! | 16 welcome | readout unit | [`WelcomeBytes`], n x [`ProgressBytes`] |
//! | 17 progress | readout unit | n x [`ProgressBytes`] |
//! | 18 phase | readout unit | [`PhaseBytes`] |
//! | 19 refused | readout unit | [`RefusedBytes`], text |
//! | 20 recorded | readout unit | [`RecordedBytes`](crate::message::layout::RecordedBytes) |
//!
//! The fragments of a source have consecutive *sequence numbers*, from 0 in each run. A message contains only the number
//! of its first fragment. Repeats are detected by sequence number and not by event id, because a front end may send the
//! same event id twice.

mod codec;
pub mod layout;

pub use crate::parts::HeadBytes;
pub use codec::{ClientMessage, Fragments, declared_length, first_part, is_fragments, renumber_fragments};
pub use layout::{
    EndBytes, FragmentHeadBytes, FragmentsBytes, HelloBytes, PhaseBytes, ProgressBytes, RefusedBytes,
    WelcomeBytes,
};

use crate::codes::codes;
use crate::message::Recorded;
use crate::message::layout::RecordBytes;
use crate::run_record::{MAX_RECORD_NAME_BYTES, MAX_SENT_RECORD_BYTES, RunRecord};
use crate::{ByteCount, EventId, RunNumber, SessionId, SourceId, Timestamp};
use std::sync::Arc;

/// Version of the protocol. Each side refuses all others.
pub const VERSION: u32 = 1;

/// Bytes of a message before its body.
pub const HEAD_BYTES: usize = crate::parts::HEAD_BYTES;

/// Bytes of a message of fragments before its first fragment.
pub const FRAGMENTS_HEAD_BYTES: usize = HEAD_BYTES + size_of::<FragmentsBytes>();

/// Bytes before the payload of each fragment.
pub const FRAGMENT_HEAD_BYTES: usize = size_of::<FragmentHeadBytes>();

/// Maximum length of a client's name in bytes. Longer names are truncated.
pub const MAX_NAME_BYTES: usize = 64;

/// Maximum length of a reason in bytes. Longer reasons are truncated.
pub const MAX_REASON_BYTES: usize = 1024;

/// Maximum number of sources of one client.
pub const MAX_SOURCES: usize = 4096;

/// Maximum length of a message with a run record.
pub const MAX_RECORD_MESSAGE_BYTES: usize =
    HEAD_BYTES + size_of::<RecordBytes>() + MAX_RECORD_NAME_BYTES + MAX_SENT_RECORD_BYTES;

/// Maximum length of a message without fragments or a run record.
pub const MAX_CONTROL_BYTES: usize =
    HEAD_BYTES + size_of::<WelcomeBytes>() + MAX_SOURCES * size_of::<ProgressBytes>();

codes! {
    /// Kind of a message.
    Kind {
        /// Client, first: the sources that it feeds.
        Hello = 1, "hello";
        /// Client: fragments of one source.
        Fragments = 2, "fragments";
        /// Client: a source sends nothing more in this run.
        End = 3, "end";
        /// Client, before the run starts: the run must not start.
        Decline = 4, "decline";
        /// Client: a run record of one source.
        Record = 5, "record";
        /// Readout unit, first: the run, and the position at which each source continues.
        Welcome = 16, "welcome";
        /// Readout unit: accepted fragments, and credit.
        Progress = 17, "progress";
        /// Readout unit: the run has entered another phase.
        Phase = 18, "phase";
        /// Readout unit, last: reason for which it closes the connection.
        Refused = 19, "refused";
        /// Readout unit: answer to a run record.
        Recorded = 20, "recorded";
    }
}

codes! {
    /// Phase of a run, as clients see it.
    #[derive(Default)]
    Phase {
        /// The run has not started: not all nodes and required sources have joined.
        #[default]
        Waiting = 0, "waiting";
        /// Fragments are taken.
        Running = 1, "running";
        /// The run takes no triggers until it is running again. Reserved: no readout unit sends it yet.
        Paused = 2, "paused";
        /// The run has ended. Fragments that are sent from now on are not accepted.
        Ended = 3, "ended";
    }
}

codes! {
    /// Reason for which a readout unit closes a connection.
    Refusal {
        /// The client uses another version of the protocol.
        OtherVersion = 1, "other_version";
        /// The readout unit does not read this source.
        UnknownSource = 2, "unknown_source";
        /// Another client feeds this source.
        SourceTaken = 3, "source_taken";
        /// The source has ended in this run.
        SourceEnded = 4, "source_ended";
        /// The message is invalid, or not allowed at this moment.
        InvalidMessage = 5, "invalid_message";
        /// Fragments are missing between the last message and this one.
        SequenceGap = 6, "sequence_gap";
        /// The client has exceeded its credit.
        OverCredit = 7, "over_credit";
        /// A fragment is larger than `max_fragment`.
        TooLarge = 8, "too_large";
        /// The maximum number of clients is connected.
        Full = 9, "full";
        /// The run has ended.
        RunEnded = 10, "run_ended";
    }
}

impl Refusal {
    /// Returns the index in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize - 1
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OtherVersion => {
                "the client uses another version of the source protocol; use the same release of Sheaf"
            }
            Self::UnknownSource => "this readout unit does not read the source",
            Self::SourceTaken => "another client feeds the source",
            Self::SourceEnded => "the source has ended in this run",
            Self::InvalidMessage => "the client sent an invalid message",
            Self::SequenceGap => "the client has skipped sequence numbers",
            Self::OverCredit => "the client has exceeded its credit",
            Self::TooLarge => "a fragment is larger than the configuration allows",
            Self::Full => "the maximum number of clients is connected to the readout unit",
            Self::RunEnded => "the run has ended",
        })
    }
}

/// First message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Sources of the client, without repeats.
    pub sources: Vec<SourceId>,
    /// Name of the client.
    pub name: String,
    /// Whether it sends run records after the end of the run. The readout unit waits for them, until the client leaves.
    pub late_records: bool,
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
    /// Number of accepted fragments. Each of them is in the books of the run.
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

/// Message of a client without fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// Sources and name of the client.
    Hello(Hello),
    /// A source sends nothing more in this run.
    End {
        /// The source.
        source: SourceId,
        /// Number of fragments that it has sent in the run.
        fragments: u64,
    },
    /// The run must not start, for this reason.
    Decline(String),
    /// A run record of one source. Repeated on the next connection until it is answered.
    Record(Arc<RunRecord>),
}

/// Message of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromReadout {
    /// The run, and the position at which each source continues.
    Welcome(Welcome),
    /// Accepted fragments, and credit.
    Progress(Vec<Progress>),
    /// The run has entered this phase.
    Phase(Phase),
    /// The readout unit closes the connection.
    Refused {
        /// Reason.
        refusal: Refusal,
        /// The source in question.
        source: Option<SourceId>,
        /// Reason as a text.
        text: String,
    },
    /// Answer to a run record.
    Recorded(Recorded),
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
    /// The source's own time. Zero if it has none.
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
