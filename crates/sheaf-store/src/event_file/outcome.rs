//! Results of reading an event file.

use sheaf_wire::event_file::FileFormatError;
use sheaf_wire::{EventId, SourceId};
use std::io;
use std::path::PathBuf;

/// Why an event file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EventOpenError {
    /// The operating system refused.
    #[error("cannot open event file {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The file does not start as an event file of this version.
    #[error("{path} is not a readable event file: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        error: FileFormatError,
    },
}

/// A problem at one position of an event file. Reading continues after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventDamage {
    /// An event's header is damaged; reading continues at the next good header, if there is one.
    #[error("{error}; {skipped} bytes skipped to the next event")]
    Header {
        /// The problem with the header.
        #[source]
        error: FileFormatError,
        /// Bytes without a good header.
        skipped: u64,
    },
    /// The entries of an event are damaged; the event is skipped.
    #[error("event {event}: {error}")]
    Entries {
        /// The event.
        event: EventId,
        /// The problem with its entries.
        #[source]
        error: FileFormatError,
    },
    /// The payload of a fragment is damaged; the event is skipped.
    #[error("event {event}, source {source_id}: {error}")]
    Payload {
        /// The event.
        event: EventId,
        /// The first of its sources whose payload is damaged.
        source_id: SourceId,
        /// The problem with the payload.
        #[source]
        error: FileFormatError,
    },
}

/// An error while reading an event file.
#[derive(Debug, thiserror::Error)]
pub enum EventReadError {
    /// The operating system refused; nothing more is read.
    #[error("cannot read event file {path} at byte {offset}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A part is damaged; reading continues after it.
    #[error("event file {path} is damaged at byte {offset}: {damage}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The damage.
        #[source]
        damage: EventDamage,
    },
}

/// Counts of the contents read since the start or the last [`rewind`](super::EventFileReader::rewind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Good events, which were handed out.
    pub events: u64,
    /// Places where an event's header was damaged.
    pub corrupt_headers: u64,
    /// Events that were skipped because their entries or payload were damaged.
    pub corrupt_events: u64,
    /// Bytes that belong to no event.
    pub bytes_skipped: u64,
}

/// End of an event file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventEnding {
    /// With index and footer: the writer closed it.
    Closed,
    /// Without footer: the writer did not close it, or the end is cut off or damaged. Everything read before is good.
    Unfinished {
        /// End of the last whole event.
        offset: u64,
        /// Bytes behind that: a part of an event or of an index.
        partial_bytes: u64,
    },
}
