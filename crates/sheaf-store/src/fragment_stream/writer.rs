//! Writes a fragment stream.

use sheaf_wire::checksum::crc32c;
use sheaf_wire::stream_file::{FileFormatError, MAX_PAYLOAD_BYTES, RecordHeader, StreamHeader};
use sheaf_wire::{EventId, Fragment, SourceId, Timestamp};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

const BUFFER_BYTES: usize = 256 << 10;

/// Reason why a fragment stream could not be written. Records written before form a readable stream without trailer.
#[derive(Debug, thiserror::Error)]
pub enum StreamWriteError {
    /// The operating system refused.
    #[error("cannot write fragment stream {path}: {error}")]
    Io {
        /// The stream.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The header, the metadata or a fragment do not fit the format.
    #[error("cannot write to fragment stream {path}: {error}")]
    Format {
        /// The stream.
        path: PathBuf,
        /// The value that does not fit.
        #[source]
        error: FileFormatError,
    },
    /// The fragment belongs elsewhere.
    #[error("fragment of source {found} does not belong in fragment stream {path} of source {expected}")]
    WrongSource {
        /// The stream.
        path: PathBuf,
        /// Whose stream it is.
        expected: SourceId,
        /// Whose fragment it is.
        found: SourceId,
    },
    /// An earlier write failed half-way, so that nothing more can follow.
    #[error("fragment stream {path} failed earlier and accepts no more fragments")]
    Failed {
        /// The stream.
        path: PathBuf,
    },
}

/// Contents of a finished stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSummary {
    /// Fragments.
    pub records: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
}

/// Writes a fragment stream, through a buffer of its own.
///
/// A writer that is dropped unfinished leaves a stream without trailer, which readers read and call unfinished.
#[derive(Debug)]
pub struct StreamWriter<W: Write> {
    out: BufWriter<W>,
    path: PathBuf,
    header: StreamHeader,
    summary: StreamSummary,
    failed: bool,
}

impl StreamWriter<File> {
    /// Creates the stream `path`, replacing a file of that name. `metadata` is a JSON object as text that describes
    /// the data freely: detector, origin, units.
    ///
    /// # Errors
    /// [`StreamWriteError::Io`] where the file cannot be created, [`StreamWriteError::Format`] where header or
    /// metadata do not fit.
    pub fn create(path: &Path, header: StreamHeader, metadata: &str) -> Result<Self, StreamWriteError> {
        let file =
            File::create(path).map_err(|error| StreamWriteError::Io { path: path.to_owned(), error })?;
        Self::new(file, path, header, metadata)
    }
}

impl<W: Write> StreamWriter<W> {
    /// Starts a stream in `out`, which errors call `path`.
    ///
    /// # Errors
    /// [`StreamWriteError::Format`] where header or metadata do not fit, [`StreamWriteError::Io`] from `out`.
    pub fn new(
        out: W,
        path: impl Into<PathBuf>,
        header: StreamHeader,
        metadata: &str,
    ) -> Result<Self, StreamWriteError> {
        let mut writer = Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            path: path.into(),
            header,
            summary: StreamSummary::default(),
            failed: false,
        };
        let bytes = header.emit(metadata).map_err(|error| writer.format_error(error))?;
        writer.write(&bytes, &[])?;
        Ok(writer)
    }

    /// Appends a fragment. A missing checksum is computed. The event id or time is written as zero if the stream's
    /// header has none.
    ///
    /// # Errors
    /// A [`StreamWriteError`]; after [`StreamWriteError::Io`] the stream accepts no more fragments.
    pub fn append<P: AsRef<[u8]>>(&mut self, fragment: &Fragment<P>) -> Result<(), StreamWriteError> {
        if fragment.source != self.header.source {
            return Err(StreamWriteError::WrongSource {
                path: self.path.clone(),
                expected: self.header.source,
                found: fragment.source,
            });
        }
        let payload = fragment.payload.as_ref();
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|length| *length <= MAX_PAYLOAD_BYTES)
            .ok_or_else(|| {
                self.format_error(FileFormatError::TooLarge {
                    what: "fragment",
                    bytes: payload.len() as u64,
                    limit: u64::from(MAX_PAYLOAD_BYTES),
                })
            })?;
        let record = RecordHeader::Fragment {
            event: if self.header.has_events { fragment.event } else { EventId(0) },
            time: if self.header.has_times { fragment.time } else { Timestamp::ZERO },
            length,
            payload_checksum: fragment.checksum.unwrap_or_else(|| crc32c(payload)),
        };
        self.write(record.emit().as_bytes(), payload)?;
        self.summary.records += 1;
        self.summary.payload_bytes += u64::from(length);
        Ok(())
    }

    /// Writes the trailer and hands everything to the operating system.
    ///
    /// # Errors
    /// [`StreamWriteError::Io`]; the stream is then unfinished, but readable.
    pub fn finish(mut self) -> Result<StreamSummary, StreamWriteError> {
        let trailer = RecordHeader::Trailer {
            records: self.summary.records,
            payload_bytes: self.summary.payload_bytes,
        };
        self.write(trailer.emit().as_bytes(), &[])?;
        self.out.flush().map_err(|error| StreamWriteError::Io { path: self.path.clone(), error })?;
        Ok(self.summary)
    }

    fn write(&mut self, head: &[u8], payload: &[u8]) -> Result<(), StreamWriteError> {
        if self.failed {
            return Err(StreamWriteError::Failed { path: self.path.clone() });
        }
        let written = self.out.write_all(head).and_then(|()| self.out.write_all(payload));
        written.map_err(|error| {
            self.failed = true;
            StreamWriteError::Io { path: self.path.clone(), error }
        })
    }

    fn format_error(&self, error: FileFormatError) -> StreamWriteError {
        StreamWriteError::Format { path: self.path.clone(), error }
    }
}
