//! Reads a fragment stream, past any damage.

use crate::block_reader::{BlockReader, DataFrom, data_of_file};
use crate::regular;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::stream_file::{
    FILE_HEADER_BYTES, FileFormatError, RECORD_HEADER_BYTES, RECORD_MARKER, RecordHeader, StreamHeader,
    TRAILER_MARKER,
};
use sheaf_wire::{EventId, Fragment, NumberMark, RunNumber, SourceId};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

const HEADER: u64 = RECORD_HEADER_BYTES as u64;

/// Why a fragment stream cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StreamOpenError {
    /// The operating system refused.
    #[error("cannot open fragment stream {path}: {error}")]
    Io {
        /// The stream.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The file does not start as a fragment stream of this version.
    #[error("{path} is not a readable fragment stream: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        error: FileFormatError,
    },
}

/// A problem at one position of a fragment stream. Reading continues after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamDamage {
    /// A record's header is damaged; reading continues at the next good header, if there is one.
    #[error("{error}; {skipped} bytes skipped to the next record")]
    Header {
        /// The problem with the header.
        #[source]
        error: FileFormatError,
        /// Bytes without a good header.
        skipped: u64,
    },
    /// A payload is damaged; its record is skipped.
    #[error("payload of {bytes} bytes of event {event}: {error}")]
    Payload {
        /// The record's event id.
        event: EventId,
        /// The record's payload bytes.
        bytes: u32,
        /// The problem with the payload.
        #[source]
        error: FileFormatError,
    },
    /// The trailer was read and counts other records than there are.
    #[error(
        "trailer counts {declared} records with {declared_bytes} payload bytes, \
         it has {found} with {found_bytes}"
    )]
    Trailer {
        /// Records that the trailer counts.
        declared: u64,
        /// Payload bytes that the trailer counts.
        declared_bytes: u64,
        /// Records that were found, those with damaged payload included.
        found: u64,
        /// Their payload bytes.
        found_bytes: u64,
    },
    /// Something follows the trailer.
    #[error("{0} bytes follow the trailer")]
    BytesAfterTrailer(u64),
}

/// An error while reading a fragment stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamReadError {
    /// The operating system refused; nothing more is read.
    #[error("cannot read fragment stream {path} at byte {offset}: {error}")]
    Io {
        /// The stream.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A part is damaged; reading continues after it.
    #[error("fragment stream {path} is damaged at byte {offset}: {damage}")]
    Damaged {
        /// The stream.
        path: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The damage.
        #[source]
        damage: StreamDamage,
    },
}

/// Counts of the contents read since the start or the last [`StreamReader::rewind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Good records, which were handed out.
    pub records: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Places where a record's header was damaged.
    pub corrupt_headers: u64,
    /// Records that were skipped because their payload was damaged.
    pub corrupt_payloads: u64,
    /// The payload bytes of those.
    pub corrupt_payload_bytes: u64,
    /// Bytes that belong to no record.
    pub bytes_skipped: u64,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a trailer: the writer finished.
    Trailer,
    /// Without a trailer: the writer did not finish, or the end is cut off. Everything read before is good.
    Unfinished {
        /// End of the last whole record.
        offset: u64,
        /// Bytes of a record that is not whole.
        partial_bytes: u64,
    },
}

/// Reads a fragment stream in order: an iterator over fragments, whose payloads are slices of large blocks.
///
/// An `Err` item with [`StreamReadError::Damaged`] costs only the record it describes; the iterator continues after it.
/// In a stream without event ids or times, these fields are zero.
#[derive(Debug)]
pub struct StreamReader<R> {
    blocks: BlockReader<R>,
    path: PathBuf,
    header: StreamHeader,
    metadata: String,
    first_record: u64,
    check_payloads: bool,
    record_offset: u64,
    counts: StreamCounts,
    ending: Option<Ending>,
    done: bool,
}

impl StreamReader<File> {
    /// Opens the stream `path`.
    ///
    /// # Errors
    /// A [`StreamOpenError`] where it cannot be read or its header is not right.
    pub fn open(path: &Path) -> Result<Self, StreamOpenError> {
        Self::whole(Self::start(open(path)?, path.to_owned(), SourceId(0), Some(data_of_file))?)
    }

    /// Opens a stream of `source` even if its header is damaged, and returns the damage of the header.
    ///
    /// # Errors
    /// [`StreamOpenError::Io`] if the file cannot be read.
    pub fn open_damaged(
        path: &Path,
        source: SourceId,
    ) -> Result<(Self, Option<FileFormatError>), StreamOpenError> {
        Self::start_damaged(open(path)?, path.to_owned(), source, Some(data_of_file))
    }
}

fn open(path: &Path) -> Result<File, StreamOpenError> {
    regular::open(path).map_err(|error| StreamOpenError::Io { path: path.to_owned(), error })
}

impl<R: Read + Seek> StreamReader<R> {
    /// Reads the stream in `input`, which errors call `path`.
    ///
    /// # Errors
    /// A [`StreamOpenError`] where it cannot be read or its header is not right.
    pub fn new(input: R, path: impl Into<PathBuf>) -> Result<Self, StreamOpenError> {
        Self::whole(Self::start(input, path.into(), SourceId(0), None)?)
    }

    fn whole((reader, wrong): (Self, Option<FileFormatError>)) -> Result<Self, StreamOpenError> {
        match wrong {
            None => Ok(reader),
            Some(error) => Err(StreamOpenError::Format { path: reader.path, error }),
        }
    }

    /// As [`StreamReader::open_damaged`], from `input`, which errors call `path`.
    ///
    /// # Errors
    /// [`StreamOpenError::Io`] where `input` cannot be read.
    pub fn new_damaged(
        input: R,
        path: impl Into<PathBuf>,
        source: SourceId,
    ) -> Result<(Self, Option<FileFormatError>), StreamOpenError> {
        Self::start_damaged(input, path.into(), source, None)
    }

    fn start_damaged(
        input: R,
        path: PathBuf,
        source: SourceId,
        data_from: Option<DataFrom<R>>,
    ) -> Result<(Self, Option<FileFormatError>), StreamOpenError> {
        let (mut reader, wrong) = Self::start(input, path, source, data_from)?;
        if wrong.is_some() {
            // The content of the header is unknown; records start at the first good record header.
            reader
                .seek_good_header()
                .map_err(|error| StreamOpenError::Io { path: reader.path.clone(), error })?;
            reader.first_record = reader.blocks.offset();
        }
        Ok((reader, wrong))
    }

    /// Reads the header; with a bad one, stays at the start of the file.
    fn start(
        input: R,
        path: PathBuf,
        source: SourceId,
        data_from: Option<DataFrom<R>>,
    ) -> Result<(Self, Option<FileFormatError>), StreamOpenError> {
        let opened = BlockReader::new(input, data_from).and_then(|mut blocks| {
            let header = read_header(&mut blocks)?;
            Ok((blocks, header))
        });
        let (blocks, header) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(StreamOpenError::Io { path, error }),
        };
        let unknown =
            StreamHeader { source, run: RunNumber(0), has_events: true, has_times: true, time_base: None };
        let (header, metadata, error) = match header {
            Ok((header, metadata)) => (header, metadata, None),
            Err(error) => (unknown, String::new(), Some(error)),
        };
        let reader = Self {
            path,
            header,
            metadata,
            first_record: blocks.offset(),
            blocks,
            check_payloads: true,
            record_offset: 0,
            counts: StreamCounts::default(),
            ending: None,
            done: false,
        };
        Ok((reader, error))
    }

    /// The metadata of the stream.
    pub fn header(&self) -> &StreamHeader {
        &self.header
    }

    /// The metadata, a JSON object as text.
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The stream's name, as in errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets whether payload checksums are verified. The default is to verify them; a rate test whose consumers verify
    /// them may save the time.
    pub fn check_payloads(&mut self, check: bool) {
        self.check_payloads = check;
    }

    /// Returns the counts of the contents read since the start or the last rewind.
    pub fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// Returns the end of the stream, once it was reached.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Returns the offset of the last returned record in the file.
    pub fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// The file's size.
    pub fn file_bytes(&self) -> u64 {
        self.blocks.len()
    }

    /// Goes back to the first record and counts anew.
    ///
    /// # Errors
    /// [`StreamReadError::Io`] from the input.
    pub fn rewind(&mut self) -> Result<(), StreamReadError> {
        self.blocks.seek(self.first_record).map_err(|error| self.io_error(error))?;
        self.counts = StreamCounts::default();
        self.ending = None;
        self.done = false;
        Ok(())
    }

    fn read(&mut self) -> io::Result<Option<Result<Fragment<Bytes>, StreamDamage>>> {
        self.record_offset = self.blocks.offset();
        if !self.blocks.ensure(HEADER)? {
            return Ok(self.end_unfinished());
        }
        match RecordHeader::parse(self.blocks.window()) {
            Ok(RecordHeader::Fragment { event, time, length, payload_checksum }) => {
                if !self.blocks.ensure(HEADER + u64::from(length))? {
                    return Ok(self.end_unfinished());
                }
                self.blocks.seek(self.record_offset + HEADER)?;
                let payload = self.blocks.take(length as usize);
                if self.check_payloads {
                    let computed = crc32c(&payload);
                    if computed != payload_checksum {
                        let error = FileFormatError::WrongChecksum {
                            what: "payload",
                            declared: payload_checksum,
                            computed,
                        };
                        return self.skip_payload(event, length, error).map(|damage| Some(Err(damage)));
                    }
                }
                self.counts.records += 1;
                self.counts.payload_bytes += u64::from(length);
                Ok(Some(Ok(Fragment {
                    event,
                    source: self.header.source,
                    time,
                    checksum: Some(payload_checksum),
                    processed: false,
                    mark: NumberMark::NONE,
                    payload,
                })))
            }
            Ok(RecordHeader::Trailer { records, payload_bytes }) => {
                self.blocks.seek(self.record_offset + HEADER)?;
                self.ending = Some(Ending::Trailer);
                self.done = true;
                Ok(self.check_trailer(records, payload_bytes).map(Err))
            }
            Err(error) => {
                self.counts.corrupt_headers += 1;
                let from = self.record_offset;
                self.blocks.seek(from + 1)?;
                self.seek_good_header()?;
                let skipped = self.blocks.offset() - from;
                self.counts.bytes_skipped += skipped;
                Ok(Some(Err(StreamDamage::Header { error, skipped })))
            }
        }
    }

    /// Goes to the next header whose checksum is right, or to the end of the file.
    fn seek_good_header(&mut self) -> io::Result<()> {
        let markers = [RECORD_MARKER.to_le_bytes(), TRAILER_MARKER.to_le_bytes()];
        while self.blocks.find(&markers, u64::MAX)? {
            if self.blocks.ensure(HEADER)? && RecordHeader::parse(self.blocks.window()).is_ok() {
                return Ok(());
            }
            self.blocks.seek(self.blocks.offset() + 1)?;
        }
        Ok(())
    }

    /// Skips a damaged payload. If nothing good follows it, not its content but its length is wrong (bytes were lost or
    /// inserted), and the next record is searched within the supposed payload.
    fn skip_payload(
        &mut self,
        event: EventId,
        bytes: u32,
        error: FileFormatError,
    ) -> io::Result<StreamDamage> {
        self.counts.corrupt_payloads += 1;
        self.counts.corrupt_payload_bytes += u64::from(bytes);
        let at_end = self.blocks.remaining() == 0;
        let in_place =
            at_end || (self.blocks.ensure(HEADER)? && RecordHeader::parse(self.blocks.window()).is_ok());
        if !in_place {
            let behind = self.blocks.offset();
            self.blocks.seek(self.record_offset + HEADER)?;
            self.seek_good_header()?;
            if self.blocks.offset() > behind {
                self.blocks.seek(behind)?;
            }
        }
        Ok(StreamDamage::Payload { event, bytes, error })
    }

    fn end_unfinished<T>(&mut self) -> Option<T> {
        self.done = true;
        self.ending =
            Some(Ending::Unfinished { offset: self.record_offset, partial_bytes: self.blocks.remaining() });
        None
    }

    fn check_trailer(&self, declared: u64, declared_bytes: u64) -> Option<StreamDamage> {
        let found = self.counts.records + self.counts.corrupt_payloads;
        let found_bytes = self.counts.payload_bytes + self.counts.corrupt_payload_bytes;
        if (declared, declared_bytes) != (found, found_bytes) {
            return Some(StreamDamage::Trailer { declared, declared_bytes, found, found_bytes });
        }
        match self.blocks.remaining() {
            0 => None,
            bytes => Some(StreamDamage::BytesAfterTrailer(bytes)),
        }
    }

    fn io_error(&self, error: io::Error) -> StreamReadError {
        StreamReadError::Io { path: self.path.clone(), offset: self.blocks.offset(), error }
    }
}

/// Reads the file header and the metadata, and goes behind them where they are good.
fn read_header<R: Read + Seek>(
    blocks: &mut BlockReader<R>,
) -> io::Result<Result<(StreamHeader, String), FileFormatError>> {
    blocks.ensure((FILE_HEADER_BYTES as u64).min(blocks.remaining()))?;
    let whole = match StreamHeader::header_bytes(blocks.window()) {
        Ok(bytes) => bytes as u64,
        Err(error) => return Ok(Err(error)),
    };
    blocks.ensure(whole.min(blocks.remaining()))?;
    let parsed = StreamHeader::parse(blocks.window()).map(|(header, metadata)| (header, metadata.to_owned()));
    if parsed.is_ok() {
        blocks.seek(whole)?;
    }
    Ok(parsed)
}

impl<R: Read + Seek> Iterator for StreamReader<R> {
    type Item = Result<Fragment<Bytes>, StreamReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.read() {
            Ok(None) => None,
            Ok(Some(Ok(fragment))) => Some(Ok(fragment)),
            Ok(Some(Err(damage))) => Some(Err(StreamReadError::Damaged {
                path: self.path.clone(),
                offset: self.record_offset,
                damage,
            })),
            Err(error) => {
                self.done = true;
                Some(Err(self.io_error(error)))
            }
        }
    }
}
