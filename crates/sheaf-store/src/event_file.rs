//! Event files: built events, one sequence of files per session of a builder.
//!
//! The format is described in `docs/reference/event-file.md`.

mod name;
mod outcome;
mod pending;
mod reader;
mod storage;
mod writer;

pub use name::FileName;
pub(crate) use name::parse_node;
pub use outcome::{EventCounts, EventDamage, EventEnding, EventOpenError, EventReadError};
pub use reader::EventFileReader;
pub use sheaf_wire::event_file::{EXTENSION, FileFormatError, FileHeader, StoredEvent};
pub use storage::{Directory, PartFile, Storage};
pub use writer::{EventFileWriter, EventWriteError, FlushPolicy, WriterCounts, WriterOptions};

#[cfg(test)]
mod tests;
