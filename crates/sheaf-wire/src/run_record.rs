//! Run records: information that belongs to a run and to no event.

use crate::checksum::{crc32c, crc32c_append};
use crate::codes::codes;
use crate::{SourceId, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum length of the name of a run record in bytes.
pub const MAX_RECORD_NAME_BYTES: usize = 256;

/// Maximum length of the content of a run record in bytes.
pub const MAX_RECORD_BYTES: usize = 16 << 20;

/// Maximum length of the content of a run record in a message in bytes.
pub const MAX_SENT_RECORD_BYTES: usize = 1 << 20;

codes! {
    /// Kind of a run record.
    #[derive(Serialize, Deserialize)]
    RecordKind {
        /// State of a source at the beginning of the run, such as its configuration.
        Begin = 1, "begin";
        /// State of a source at the end of the run.
        End = 2, "end";
        /// A value that was measured or set during the run.
        SlowControl = 3, "slow_control";
        /// A source whose event numbers are off, found by Sheaf itself ([`ShiftRecord`](crate::shift_record::ShiftRecord)).
        Shift = 4, "shift";
        /// A source that an operator has excluded for some events ([`ExclusionRecord`](crate::exclusion_record::ExclusionRecord)).
        Exclusion = 5, "exclusion";
    }
}

impl RecordKind {
    /// Kinds of the records that programs send.
    pub const OF_PROGRAMS: [Self; 3] = [Self::Begin, Self::End, Self::SlowControl];

    /// Returns whether programs send records of this kind.
    #[must_use]
    pub fn is_of_programs(self) -> bool {
        Self::OF_PROGRAMS.contains(&self)
    }
}

/// Information that belongs to a run and to no event. The content is opaque to Sheaf, except that of
/// shifts and exclusions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Identifies the record in the run: copies have the number of their original, other records have other numbers.
    pub number: u64,
    /// The source.
    pub source: SourceId,
    /// Kind of the record.
    pub kind: RecordKind,
    /// Time of the record, since 1970.
    pub time: Timestamp,
    /// Name or type of the content, such as the name of a file. At most [`MAX_RECORD_NAME_BYTES`].
    pub name: String,
    /// The content. At most [`MAX_RECORD_BYTES`].
    pub content: Bytes,
}

impl RunRecord {
    /// Creates a record whose number is derived from the rest of it. So all who create the same record agree on its number without
    /// a message, and a program that is started again does not store the record twice.
    #[must_use]
    pub fn derived(
        source: SourceId,
        kind: RecordKind,
        time: Timestamp,
        name: String,
        content: Bytes,
    ) -> Self {
        let head = [&source.0.to_le_bytes()[..], &[kind as u8], &time.0.to_le_bytes()].concat();
        let head = crc32c_append(crc32c(&head), name.as_bytes());
        let number = u64::from(head) << 32 | u64::from(crc32c(&content));
        Self { number, source, kind, time, name, content }
    }
}

codes! {
    /// Answer to a run record.
    #[derive(Serialize, Deserialize)]
    RecordAnswer {
        /// The event manager has the record; every node that stores events gets it.
        Kept = 0, "kept";
        /// The record is larger than messages between the nodes of the run.
        TooLarge = 1, "too_large";
        /// The run has as many records, or bytes of them, as it may have.
        NoRoom = 2, "no_room";
        /// Another record of the run has this number.
        NumberTaken = 3, "number_taken";
        /// The event files of the run are being closed.
        TooLate = 5, "too_late";
    }
}

impl std::fmt::Display for RecordAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kept => "the run has the record",
            Self::TooLarge => {
                "the record is larger than the messages of this run; divide it, or raise `transport.max_frame_bytes`"
            }
            Self::NoRoom => "the records of this run have reached their limit in number or bytes",
            Self::NumberTaken => "another record of this run has the same number",
            Self::TooLate => {
                "the event files of this run are closed; announce records of the end of a run when you connect (`late_records`)"
            }
        })
    }
}
