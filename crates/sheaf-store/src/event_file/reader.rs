//! Reads an event file: in order and past any damage, or by event id.

mod records;
mod search;

pub(crate) use search::EventPlace;

use super::outcome::{EventCounts, EventDamage, EventEnding, EventOpenError, EventReadError};
use crate::block_reader::{BlockReader, DataFrom, data_of_file};
use crate::regular;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::event_file::{
    EVENT_HEADER_BYTES, EVENT_MARKER, EventHeader, FILE_HEADER_BYTES, FOOTER_BYTES, FileFormatError,
    FileHeader, Footer, INDEX_HEADER_BYTES, IndexEntryBytes, RECORD_HEADER_BYTES, RECORD_MARKER,
    RecordHeader, RunRecord, StoredEvent, is_index_start,
};
use sheaf_wire::{Event, EventId};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

const HEADER: u64 = EVENT_HEADER_BYTES as u64;
const RECORD_HEADER: u64 = RECORD_HEADER_BYTES as u64;

/// Reads an event file: an iterator over events in writing order, whose payloads are slices of large blocks; and
/// random access by event id.
///
/// An `Err` item with [`EventReadError::Damaged`] costs only the event it describes; the iterator continues after it.
#[derive(Debug)]
pub struct EventFileReader<R> {
    blocks: BlockReader<R>,
    path: PathBuf,
    header: Option<FileHeader>,
    metadata: String,
    first_event: u64,
    footer: Result<Footer, FileFormatError>,
    /// Upper bound of the end of the events: the index, or the end of the file.
    limit: u64,
    /// Ids and offsets, ascending; made when first needed.
    directory: Option<Vec<(EventId, u64)>>,
    check_payloads: bool,
    event_offset: u64,
    /// Numbers and offsets of the run records that were passed over since the start or the last rewind.
    passed_records: Vec<(u64, u64)>,
    counts: EventCounts,
    ending: Option<EventEnding>,
    done: bool,
}

impl EventFileReader<File> {
    /// Opens the event file `path`.
    ///
    /// # Errors
    /// An [`EventOpenError`] where it cannot be read or its header is not right.
    pub fn open(path: &Path) -> Result<Self, EventOpenError> {
        Self::whole(Self::start(open(path)?, path.to_owned(), Some(data_of_file))?)
    }

    /// Opens an event file even if its header is damaged, and returns the damage of the header.
    ///
    /// # Errors
    /// [`EventOpenError::Io`] if the file cannot be read.
    pub fn open_damaged(path: &Path) -> Result<(Self, Option<FileFormatError>), EventOpenError> {
        Self::start_damaged(open(path)?, path.to_owned(), Some(data_of_file))
    }
}

fn open(path: &Path) -> Result<File, EventOpenError> {
    regular::open(path).map_err(|error| EventOpenError::Io { path: path.to_owned(), error })
}

impl<R: Read + Seek> EventFileReader<R> {
    /// Reads the event file in `input`, which errors call `path`.
    ///
    /// # Errors
    /// An [`EventOpenError`] where it cannot be read or its header is not right.
    pub fn new(input: R, path: impl Into<PathBuf>) -> Result<Self, EventOpenError> {
        Self::whole(Self::start(input, path.into(), None)?)
    }

    fn whole((reader, wrong): (Self, Option<FileFormatError>)) -> Result<Self, EventOpenError> {
        match wrong {
            None => Ok(reader),
            Some(error) => Err(EventOpenError::Format { path: reader.path, error }),
        }
    }

    /// As [`EventFileReader::open_damaged`], from `input`, which errors call `path`.
    ///
    /// # Errors
    /// [`EventOpenError::Io`] where `input` cannot be read.
    pub fn new_damaged(
        input: R,
        path: impl Into<PathBuf>,
    ) -> Result<(Self, Option<FileFormatError>), EventOpenError> {
        Self::start_damaged(input, path.into(), None)
    }

    fn start_damaged(
        input: R,
        path: PathBuf,
        data_from: Option<DataFrom<R>>,
    ) -> Result<(Self, Option<FileFormatError>), EventOpenError> {
        let (mut reader, wrong) = Self::start(input, path, data_from)?;
        if wrong.is_some() {
            // The content of the header is unknown; events start at the first good event header.
            reader
                .seek_good_header()
                .map_err(|error| EventOpenError::Io { path: reader.path.clone(), error })?;
            reader.first_event = reader.blocks.offset();
            reader.event_offset = reader.first_event;
        }
        Ok((reader, wrong))
    }

    /// Reads header and footer; with a bad header, stays at the start of the file.
    fn start(
        input: R,
        path: PathBuf,
        data_from: Option<DataFrom<R>>,
    ) -> Result<(Self, Option<FileFormatError>), EventOpenError> {
        let opened = BlockReader::new(input, data_from).and_then(|mut blocks| {
            let footer = read_footer(&mut blocks)?;
            let header = read_header(&mut blocks)?;
            Ok((blocks, footer, header))
        });
        let (blocks, footer, header) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(EventOpenError::Io { path, error }),
        };
        let (header, metadata, error) = match header {
            Ok((header, metadata)) => (Some(header), metadata, None),
            Err(error) => (None, String::new(), Some(error)),
        };
        let first_event = blocks.offset();
        let footer = footer.and_then(|footer| {
            if footer.index_offset >= first_event {
                Ok(footer)
            } else {
                Err(FileFormatError::BadValue {
                    what: "footer",
                    field: "index_offset",
                    value: footer.index_offset,
                })
            }
        });
        let limit = footer.as_ref().map_or(blocks.len(), |footer| footer.index_offset);
        let reader = Self {
            blocks,
            path,
            header,
            metadata,
            first_event,
            footer,
            limit,
            directory: None,
            check_payloads: true,
            event_offset: first_event,
            passed_records: Vec::new(),
            counts: EventCounts::default(),
            ending: None,
            done: false,
        };
        Ok((reader, error))
    }

    /// The metadata of the file; `None` where its header is damaged.
    pub fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// The metadata, a JSON object as text.
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The file's name, as in errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The footer, or the reason for its absence: the writer did not close the file, or its end is damaged.
    pub fn footer(&self) -> Result<&Footer, &FileFormatError> {
        self.footer.as_ref()
    }

    /// Sets whether payload checksums are verified. The default is to verify them.
    pub fn check_payloads(&mut self, check: bool) {
        self.check_payloads = check;
    }

    /// Returns the counts of the contents read since the start or the last rewind.
    pub fn counts(&self) -> EventCounts {
        self.counts
    }

    /// Returns the end of the file, once it was reached.
    pub fn ending(&self) -> Option<EventEnding> {
        self.ending
    }

    /// Returns the offset of the last returned event or damage in the file.
    pub fn event_offset(&self) -> u64 {
        self.event_offset
    }

    /// Returns the offset at which the next event is expected.
    pub fn offset(&self) -> u64 {
        self.blocks.offset()
    }

    /// The file's size.
    pub fn file_bytes(&self) -> u64 {
        self.blocks.len()
    }

    /// Goes back to the first event and counts anew.
    ///
    /// # Errors
    /// [`EventReadError::Io`] from the input.
    pub fn rewind(&mut self) -> Result<(), EventReadError> {
        self.seek(self.first_event)?;
        self.counts = EventCounts::default();
        self.passed_records.clear();
        self.ending = None;
        self.done = false;
        Ok(())
    }

    /// Returns the index of a closed file: event ids and offsets in writing order. `None` for a file without footer,
    /// `Some(Err)` for a damaged index. Sequential reading continues where it was.
    ///
    /// # Errors
    /// [`EventReadError::Io`] from the input.
    #[expect(
        clippy::type_complexity,
        reason = "three outcomes, each with its own consequence for the caller"
    )]
    pub fn index(&mut self) -> Result<Option<Result<Vec<(EventId, u64)>, FileFormatError>>, EventReadError> {
        Ok(self.whole_index()?.map(|index| index.map(|index| index.events)))
    }

    /// As [`Self::index`], with the run records.
    pub(crate) fn whole_index(&mut self) -> Result<Option<Result<Index, FileFormatError>>, EventReadError> {
        let Ok(footer) = self.footer else {
            return Ok(None);
        };
        let back = self.blocks.offset();
        self.seek(footer.index_offset)?;
        let bytes = footer.index_bytes().unwrap_or(u64::MAX);
        let whole = self.blocks.ensure(bytes).map_err(|error| self.io_error(error))?;
        let window = self.blocks.window();
        let bytes = if whole { &window[..bytes as usize] } else { window };
        let entry = |entry: &IndexEntryBytes| (entry.event.get(), entry.offset.get());
        let index = footer.parse_index(bytes).map(|(events, records)| Index {
            events: events.iter().map(entry).map(|(id, offset)| (EventId(id), offset)).collect(),
            records: records.iter().map(entry).collect(),
        });
        self.seek(back)?;
        Ok(Some(index))
    }

    /// Returns numbers and offsets of the run records that sequential reading has passed.
    pub(crate) fn passed_records(&self) -> &[(u64, u64)] {
        &self.passed_records
    }

    /// Reads the header at the current position without moving, and notes the position; after a damaged one, moves to the
    /// next good one.
    fn step_header(&mut self) -> io::Result<HeaderStep> {
        let from = self.blocks.offset();
        self.event_offset = from;
        let left = self.limit.saturating_sub(from);
        if left == 0 || self.is_end_of_events()? {
            return Ok(HeaderStep::End);
        }
        match self.record_here()? {
            Ok(record) if record.total_bytes() <= left => return Ok(HeaderStep::Record(record)),
            Ok(_) if self.footer.is_err() => return Ok(HeaderStep::End),
            _ => {}
        }
        if self.footer.is_err() && left < HEADER {
            return Ok(HeaderStep::End);
        }
        let error = match self.header_here()? {
            Ok(header) if header.total_bytes() <= left => return Ok(HeaderStep::Event(header)),
            Ok(_) if self.footer.is_err() => return Ok(HeaderStep::End),
            Ok(header) => FileFormatError::BadValue {
                what: "event header",
                field: "payload_bytes",
                value: header.payload_bytes,
            },
            Err(error) => error,
        };
        self.blocks.seek(from + 1)?;
        self.seek_good_header()?;
        Ok(HeaderStep::Damaged(EventDamage::Header { error, skipped: self.blocks.offset() - from }))
    }

    /// In a file without footer the events may be followed by an index whose footer is missing or damaged.
    fn is_end_of_events(&mut self) -> io::Result<bool> {
        let here = self.blocks.remaining();
        Ok(self.footer.is_err()
            && self.blocks.ensure(INDEX_HEADER_BYTES as u64)?
            && is_index_start(self.blocks.window(), here))
    }

    fn header_here(&mut self) -> io::Result<Result<EventHeader, FileFormatError>> {
        self.blocks.ensure(HEADER.min(self.blocks.remaining()))?;
        Ok(EventHeader::parse(self.blocks.window()))
    }

    fn record_here(&mut self) -> io::Result<Result<RecordHeader, FileFormatError>> {
        self.blocks.ensure(RECORD_HEADER.min(self.blocks.remaining()))?;
        Ok(RecordHeader::parse(self.blocks.window()))
    }

    /// Returns whether an event or a run record begins at the current position.
    fn is_good_here(&mut self) -> io::Result<bool> {
        Ok(self.header_here()?.is_ok() || self.record_here()?.is_ok())
    }

    /// Goes to the next header whose checksum is right, or to where the events end.
    fn seek_good_header(&mut self) -> io::Result<()> {
        let markers = [EVENT_MARKER.to_le_bytes(), RECORD_MARKER.to_le_bytes()];
        while self.blocks.find(&markers, self.limit)? {
            if self.is_good_here()? {
                return Ok(());
            }
            self.blocks.seek(self.blocks.offset() + 1)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<Step> {
        let header = loop {
            match self.step_header()? {
                HeaderStep::Event(header) => break header,
                HeaderStep::Record(header) => {
                    self.passed_records.push((header.number, self.event_offset));
                    self.leave_record(&header)?;
                }
                HeaderStep::Damaged(damage) => return Ok(Step::Damaged(damage)),
                HeaderStep::End => return Ok(Step::End),
            }
        };
        if !self.blocks.ensure(header.total_bytes())? {
            // The file has become shorter since it was opened.
            return Ok(Step::End);
        }
        self.blocks.seek(self.event_offset + HEADER)?;
        let body = self.blocks.take(header.body_bytes() as usize);
        let mut payload = self.blocks.take(header.payload_bytes as usize);
        match header.parse_event(&body, &mut payload) {
            Err(error) => {
                self.leave(HEADER)?;
                Ok(Step::Damaged(EventDamage::Entries { event: header.id, error }))
            }
            Ok(event) => match self.check_payloads.then(|| damaged_payload(&event.event)).flatten() {
                None => Ok(Step::Event(event)),
                Some(damage) => {
                    self.leave(HEADER)?;
                    Ok(Step::Damaged(damage))
                }
            },
        }
    }

    /// Moves past a run record.
    fn leave_record(&mut self, header: &RecordHeader) -> io::Result<()> {
        let is_good = self.blocks.ensure(header.total_bytes())? && {
            let whole = &self.blocks.window()[..header.total_bytes() as usize];
            crc32c(&whole[RECORD_HEADER_BYTES..]) == header.body_checksum
        };
        self.blocks.seek(self.event_offset + header.total_bytes())?;
        if is_good { Ok(()) } else { self.leave(RECORD_HEADER) }
    }

    /// Leaves a damaged run record or event, of which `header_bytes` are the header, at its supposed end. If nothing good
    /// follows it, not its content but its length is wrong (bytes were lost or inserted), and the next event is searched
    /// within its supposed content.
    fn leave(&mut self, header_bytes: u64) -> io::Result<()> {
        let behind = self.blocks.offset();
        let in_place = behind >= self.limit || self.is_end_of_events()? || self.is_good_here()?;
        if !in_place {
            self.blocks.seek(self.event_offset + header_bytes)?;
            self.seek_good_header()?;
            if self.blocks.offset() > behind {
                self.blocks.seek(behind)?;
            }
        }
        Ok(())
    }

    fn seek(&mut self, offset: u64) -> Result<(), EventReadError> {
        self.blocks.seek(offset).map_err(|error| self.io_error(error))
    }

    fn io_error(&self, error: io::Error) -> EventReadError {
        EventReadError::Io { path: self.path.clone(), offset: self.blocks.offset(), error }
    }

    fn damaged(&self, damage: EventDamage) -> EventReadError {
        EventReadError::Damaged { path: self.path.clone(), offset: self.event_offset, damage }
    }
}

/// The run records of a file.
#[derive(Clone, Debug, Default)]
pub struct FileRecords {
    /// Undamaged records, in writing order.
    pub good: Vec<RunRecord>,
    /// Offset and defect of each damaged record. In an HDF5 file, the number of the record in its column in place of the offset.
    pub damaged: Vec<(u64, FileFormatError)>,
}

/// The index of a file, in writing order.
#[derive(Debug)]
pub(crate) struct Index {
    /// Ids and offsets of events.
    pub(crate) events: Vec<(EventId, u64)>,
    /// Numbers and offsets of run records.
    pub(crate) records: Vec<(u64, u64)>,
}

enum HeaderStep {
    Event(EventHeader),
    Record(RecordHeader),
    Damaged(EventDamage),
    End,
}

enum Step {
    Event(StoredEvent<Bytes>),
    Damaged(EventDamage),
    End,
}

fn damaged_payload(event: &Event<Bytes>) -> Option<EventDamage> {
    event.fragments.iter().find_map(|fragment| {
        let declared = fragment.checksum?;
        let computed = crc32c(&fragment.payload);
        (declared != computed).then_some(EventDamage::Payload {
            event: event.id,
            source_id: fragment.source,
            error: FileFormatError::WrongChecksum { what: "payload", declared, computed },
        })
    })
}

fn read_footer<R: Read + Seek>(blocks: &mut BlockReader<R>) -> io::Result<Result<Footer, FileFormatError>> {
    let file_bytes = blocks.len();
    blocks.seek(file_bytes.saturating_sub(FOOTER_BYTES as u64))?;
    blocks.ensure(blocks.remaining())?;
    let footer = Footer::parse(blocks.window(), file_bytes);
    blocks.seek(0)?;
    Ok(footer)
}

/// Reads the file header and the metadata, and goes behind them where they are good.
fn read_header<R: Read + Seek>(
    blocks: &mut BlockReader<R>,
) -> io::Result<Result<(FileHeader, String), FileFormatError>> {
    blocks.ensure((FILE_HEADER_BYTES as u64).min(blocks.remaining()))?;
    let metadata_bytes = match FileHeader::metadata_bytes(blocks.window()) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let whole = (FILE_HEADER_BYTES + metadata_bytes) as u64;
    blocks.ensure(whole.min(blocks.remaining()))?;
    let parsed = FileHeader::parse(blocks.window()).map(|(header, metadata)| (header, metadata.to_owned()));
    if parsed.is_ok() {
        blocks.seek(whole)?;
    }
    Ok(parsed)
}

impl<R: Read + Seek> Iterator for EventFileReader<R> {
    type Item = Result<StoredEvent<Bytes>, EventReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.read() {
            Ok(Step::Event(event)) => {
                self.counts.events += 1;
                Some(Ok(event))
            }
            Ok(Step::Damaged(damage)) => {
                match &damage {
                    EventDamage::Header { skipped, .. } => {
                        self.counts.corrupt_headers += 1;
                        self.counts.bytes_skipped += skipped;
                    }
                    EventDamage::Entries { .. } | EventDamage::Payload { .. } => {
                        self.counts.corrupt_events += 1
                    }
                }
                Some(Err(self.damaged(damage)))
            }
            Ok(Step::End) => {
                self.done = true;
                self.ending = Some(if self.footer.is_ok() {
                    EventEnding::Closed
                } else {
                    EventEnding::Unfinished {
                        offset: self.event_offset,
                        partial_bytes: self.blocks.len().saturating_sub(self.event_offset),
                    }
                });
                None
            }
            Err(error) => {
                self.done = true;
                Some(Err(self.io_error(error)))
            }
        }
    }
}
