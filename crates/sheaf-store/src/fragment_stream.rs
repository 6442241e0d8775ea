//! Fragment streams: one file per source, written by importers and recorders, read for replay.
//!
//! The format is described in `docs/reference/fragment-stream.md`.

mod reader;
mod writer;

pub use reader::{Ending, StreamCounts, StreamDamage, StreamOpenError, StreamReadError, StreamReader};
pub use sheaf_wire::stream_file::{EXTENSION, FileFormatError, StreamHeader};
pub use writer::{StreamSummary, StreamWriteError, StreamWriter};

use sheaf_wire::SourceId;

/// The conventional name of a source's stream.
#[must_use]
pub fn file_name(source: SourceId) -> String {
    format!("source-{source}.{EXTENSION}")
}

#[cfg(test)]
mod tests;
