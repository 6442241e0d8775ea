//! Reads an event file: in order and past any damage, or by event id.

use super::outcome::{EventCounts, EventDamage, EventEnding, EventOpenError, EventReadError};
use crate::block_reader::{BlockReader, DataFrom, data_of_file};
use crate::regular;
use bytes::Bytes;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::event_file::{
    EVENT_HEADER_BYTES, EVENT_MARKER, EventHeader, FILE_HEADER_BYTES, FOOTER_BYTES, FileFormatError,
    FileHeader, Footer, INDEX_HEADER_BYTES, StoredEvent, is_index_start,
};
use sheaf_wire::{Event, EventId};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

const HEADER: u64 = EVENT_HEADER_BYTES as u64;

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
        self.ending = None;
        self.done = false;
        Ok(())
    }

    /// Returns the index of a closed file: event ids and offsets in writing order. `None` for a file without footer,
    /// `Some(Err)` for a damaged index. Sequential reading continues where it was.
    ///
    /// # Errors
    /// [`EventReadError::Io`] from the input.
    /// [`EventReadError::Io`] from the input.
    #[expect(
        clippy::type_complexity,
        reason = "three outcomes, each with its own consequence for the caller"
    )]
    pub fn index(&mut self) -> Result<Option<Result<Vec<(EventId, u64)>, FileFormatError>>, EventReadError> {
        let Ok(footer) = self.footer else {
            return Ok(None);
        };
        let back = self.blocks.offset();
        self.seek(footer.index_offset)?;
        let bytes = footer.index_bytes().unwrap_or(u64::MAX);
        let whole = self.blocks.ensure(bytes).map_err(|error| self.io_error(error))?;
        let window = self.blocks.window();
        let bytes = if whole { &window[..bytes as usize] } else { window };
        let index = footer.parse_index(bytes).map(|entries| {
            entries.iter().map(|entry| (EventId(entry.event.get()), entry.offset.get())).collect()
        });
        self.seek(back)?;
        Ok(Some(index))
    }

    /// Returns the event `id`, wherever it is in the file; the first, if several have that id. It uses the index, or a
    /// list made by scanning the file if there is no index or the index is wrong. Sequential reading continues where it
    /// was.
    ///
    /// # Errors
    /// An [`EventReadError`] if the event is damaged or the input fails.
    pub fn find(&mut self, id: EventId) -> Result<Option<StoredEvent<Bytes>>, EventReadError> {
        let back = (self.blocks.offset(), self.event_offset, self.counts);
        let found = self.look_up(id);
        (self.event_offset, self.counts) = (back.1, back.2);
        self.seek(back.0)?;
        found
    }

    fn look_up(&mut self, id: EventId) -> Result<Option<StoredEvent<Bytes>>, EventReadError> {
        let mut scanned = false;
        if self.directory.is_none() {
            self.directory = Some(match self.index()? {
                Some(Ok(index)) => sorted(index),
                _ => {
                    scanned = true;
                    self.scan()?
                }
            });
        }
        loop {
            let directory = self.directory.as_deref().unwrap_or_default();
            let at = directory.partition_point(|(other, _)| *other < id);
            let offset = directory.get(at).filter(|(other, _)| *other == id).map(|(_, offset)| *offset);
            let Some(offset) = offset else { return Ok(None) };
            self.seek(offset)?;
            match self.read().map_err(|error| self.io_error(error))? {
                Step::Event(event) if event.event.id == id && self.event_offset == offset => {
                    return Ok(Some(event));
                }
                Step::Damaged(
                    damage @ (EventDamage::Entries { event, .. } | EventDamage::Payload { event, .. }),
                ) if event == id => {
                    return Err(self.damaged(damage));
                }
                _ if scanned => return Ok(None),
                // The index is wrong; the file itself is scanned.
                _ => {
                    self.directory = Some(self.scan()?);
                    scanned = true;
                }
            }
        }
    }

    /// Ids and offsets of all events whose headers are good, ascending.
    fn scan(&mut self) -> Result<Vec<(EventId, u64)>, EventReadError> {
        let places = self.scan_places(false)?.places;
        Ok(sorted(places.iter().map(|place| (place.event, place.offset)).collect()))
    }

    /// Returns the header of the event at `offset`, if there is one. Sequential reading continues where it was.
    pub(crate) fn header_at(&mut self, offset: u64) -> Result<Option<EventHeader>, EventReadError> {
        let back = self.blocks.offset();
        self.seek(offset)?;
        let header = self.header_here().map_err(|error| self.io_error(error))?;
        self.seek(back)?;
        Ok(header.ok())
    }

    /// Scans the positions of the events by their headers alone, in writing order. A damaged part counts as an event
    /// without id, with the sequence number after the previous one. Sequential reading continues where it was.
    pub(crate) fn scan_in_order(&mut self) -> Result<Scan, EventReadError> {
        let back = self.blocks.offset();
        let scan = self.scan_places(true)?;
        self.seek(back)?;
        Ok(scan)
    }

    fn scan_places(&mut self, with_damage: bool) -> Result<Scan, EventReadError> {
        let mut scan = Scan::default();
        self.seek(self.first_event)?;
        loop {
            let offset = self.blocks.offset();
            match self.step_header().map_err(|error| self.io_error(error))? {
                HeaderStep::Event(header) => {
                    scan.places.push(Place { event: header.id, offset, sequence: header.sequence });
                    self.seek(offset + header.total_bytes())?;
                }
                HeaderStep::Damaged(_) => {
                    scan.damaged += 1;
                    if with_damage {
                        let sequence = scan.places.last().map_or(0, |place| place.sequence.saturating_add(1));
                        scan.places.push(Place { event: EventId(0), offset, sequence });
                    }
                }
                HeaderStep::End => {
                    scan.end = offset;
                    return Ok(scan);
                }
            }
        }
    }

    /// Reads the header at the current position without moving; after a damaged one, moves to the next good one.
    fn step_header(&mut self) -> io::Result<HeaderStep> {
        let from = self.blocks.offset();
        let left = self.limit.saturating_sub(from);
        let at_end = left == 0 || (self.footer.is_err() && left < HEADER);
        if at_end || self.is_end_of_events()? {
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

    /// Goes to the next header whose checksum is right, or to where the events end.
    fn seek_good_header(&mut self) -> io::Result<()> {
        while self.blocks.find(&[EVENT_MARKER.to_le_bytes()], self.limit)? {
            if self.header_here()?.is_ok() {
                return Ok(());
            }
            self.blocks.seek(self.blocks.offset() + 1)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<Step> {
        self.event_offset = self.blocks.offset();
        let header = match self.step_header()? {
            HeaderStep::Event(header) => header,
            HeaderStep::Damaged(damage) => return Ok(Step::Damaged(damage)),
            HeaderStep::End => return Ok(Step::End),
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
                self.leave_damaged_event()?;
                Ok(Step::Damaged(EventDamage::Entries { event: header.id, error }))
            }
            Ok(event) => match self.check_payloads.then(|| damaged_payload(&event.event)).flatten() {
                None => Ok(Step::Event(event)),
                Some(damage) => {
                    self.leave_damaged_event()?;
                    Ok(Step::Damaged(damage))
                }
            },
        }
    }

    /// Moves past a damaged event. If nothing good follows it, not its content but its length is wrong (bytes were lost
    /// or inserted), and the next event is searched within its supposed content.
    fn leave_damaged_event(&mut self) -> io::Result<()> {
        let behind = self.blocks.offset();
        let in_place = behind >= self.limit || self.is_end_of_events()? || self.header_here()?.is_ok();
        if !in_place {
            self.blocks.seek(self.event_offset + HEADER)?;
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

/// Position of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) event: EventId,
    pub(crate) offset: u64,
    /// Its number in the session.
    pub(crate) sequence: u64,
}

/// Positions of the events of a file.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) places: Vec<Place>,
    /// End of the last whole event.
    pub(crate) end: u64,
    /// Places without a good header.
    pub(crate) damaged: u64,
}

enum HeaderStep {
    Event(EventHeader),
    Damaged(EventDamage),
    End,
}

enum Step {
    Event(StoredEvent<Bytes>),
    Damaged(EventDamage),
    End,
}

fn sorted(mut list: Vec<(EventId, u64)>) -> Vec<(EventId, u64)> {
    list.sort_unstable();
    list
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
