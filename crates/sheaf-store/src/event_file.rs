//! Event files: built events, one sequence of files per session of a builder.
//!
//! The format is described in `docs/reference/event-file.md`.

mod closed;
mod metadata;
mod name;
mod options;
mod outcome;
mod part;
mod pending;
mod reader;
mod storage;
mod uploads;
mod write_error;
mod writer;

pub use closed::ClosedFile;
pub use metadata::Metadata;
pub use name::{FileName, SessionName, StreamName, WrongStreamName};
pub(crate) use name::{HDF5_EXTENSION, parse_node};
pub use options::{FlushPolicy, WriterOptions};
pub use outcome::{EventCounts, EventDamage, EventEnding, EventOpenError, EventReadError};
pub use reader::{EventFileReader, FileRecords};
pub(crate) use reader::{EventPlace, Index};
pub use sheaf_wire::event_file::{
    EXTENSION, FileFormatError, FileHeader, RecordKind, RunRecord, StoredEvent,
};
pub use storage::{Directory, DirectoryFile, PartFile, Storage};
pub use write_error::EventWriteError;
pub use writer::{EventFileWriter, WriterCounts};

#[cfg(test)]
mod tests;
