//! Reads events back out of columns: a few of each at a time, so that memory is bounded by a block and the largest event.

use super::read_column::Column;
use super::records::RecordColumns;
use super::writer::time_column;
use super::{FORMAT, ReadError, ReadFault, Result5, VERSION};
use crate::event_file::{FileHeader, FileRecords, StoredEvent, parse_node};
use bytes::Bytes;
use hdf5_metno::File;
use hdf5_metno::types::VarLenUnicode;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::{
    Event, EventId, Fragment, MissingReason, MissingSource, NumberMark, RunNumber, SessionId, SourceId, Tags,
    TimeBase, TimeUnit, Timestamp, TriggerType, UtcTime, Verdict,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Number of events that are read at a time, without their payloads.
const BLOCK_EVENTS: usize = 256;

/// Number of payload bytes that are read at a time, or those of one event if it has more.
const BLOCK_BYTES: u64 = 4 << 20;

struct Columns {
    id: Column,
    time: Column,
    trigger_type: Column,
    attempt: Column,
    incomplete: Column,
    tags: Column,
    sequence: Column,
    fragment_offsets: Column,
    missing_offsets: Column,
    verdict_offsets: Column,
    verdicts: Column,
    source: Column,
    fragment_time: Column,
    checksum: Column,
    /// Files of releases before have none.
    processed: Option<Column>,
    mark: Option<Column>,
    payload_offsets: Column,
    payloads: Column,
    missing_source: Column,
    missing_reason: Column,
}

impl Columns {
    fn open(file: &File) -> Result5<Self> {
        let column = |name: &str| Column::open(file, name);
        let time = time_column(time_base(file));
        Ok(Self {
            id: column("events/id")?,
            time: column(&format!("events/{time}"))?,
            trigger_type: column("events/trigger_type")?,
            attempt: column("events/attempt")?,
            incomplete: column("events/incomplete")?,
            tags: column("events/tags")?,
            sequence: column("events/sequence")?,
            fragment_offsets: column("events/fragment_offsets")?,
            missing_offsets: column("events/missing_offsets")?,
            verdict_offsets: column("events/verdict_offsets")?,
            verdicts: column("events/verdicts")?,
            source: column("fragments/source")?,
            fragment_time: column(&format!("fragments/{time}"))?,
            checksum: column("fragments/crc32c")?,
            processed: column("fragments/processed").ok(),
            mark: column("fragments/number_mark").ok(),
            payload_offsets: column("fragments/payload_offsets")?,
            payloads: column("fragments/payloads")?,
            missing_source: column("missing/source")?,
            missing_reason: column("missing/reason")?,
        })
    }
}

/// A block of events, without payload.
#[derive(Default)]
struct Block {
    /// Which events of the file.
    events: Range<u64>,
    id: Vec<u64>,
    time: Vec<u64>,
    trigger_type: Vec<u16>,
    attempt: Vec<u16>,
    incomplete: Vec<u8>,
    tags: Vec<u64>,
    sequence: Vec<u64>,
    fragment_offsets: Vec<u64>,
    missing_offsets: Vec<u64>,
    verdict_offsets: Vec<u64>,
    verdicts: Bytes,
    source: Vec<u32>,
    fragment_time: Vec<u64>,
    checksum: Vec<u32>,
    processed: Vec<u8>,
    mark: Vec<u32>,
    payload_offsets: Vec<u64>,
    missing_source: Vec<u32>,
    missing_reason: Vec<u8>,
}

/// The first and the last of a list of offsets, as a range.
fn span(offsets: &[u64]) -> Range<u64> {
    offsets.first().copied().unwrap_or(0)..offsets.last().copied().unwrap_or(0)
}

impl Block {
    fn read(columns: &Columns, events: Range<u64>) -> Result<Self, ReadFault> {
        let range = || events.clone();
        let fragment_offsets = columns.fragment_offsets.offsets(range(), columns.source.len())?;
        let missing_offsets = columns.missing_offsets.offsets(range(), columns.missing_source.len())?;
        let verdict_offsets = columns.verdict_offsets.offsets(range(), columns.verdicts.len())?;
        let (fragments, missing) = (span(&fragment_offsets), span(&missing_offsets));
        let processed =
            columns.processed.as_ref().map(|column| column.read(fragments.clone())).transpose()?;
        let mark = columns.mark.as_ref().map(|column| column.read(fragments.clone())).transpose()?;
        Ok(Self {
            id: columns.id.read(range())?,
            time: columns.time.read(range())?,
            trigger_type: columns.trigger_type.read(range())?,
            attempt: columns.attempt.read(range())?,
            incomplete: columns.incomplete.read(range())?,
            tags: columns.tags.read(range())?,
            sequence: columns.sequence.read(range())?,
            verdicts: columns.verdicts.read(span(&verdict_offsets))?.into(),
            source: columns.source.read(fragments.clone())?,
            fragment_time: columns.fragment_time.read(fragments.clone())?,
            checksum: columns.checksum.read(fragments.clone())?,
            processed: processed.unwrap_or_default(),
            mark: mark.unwrap_or_default(),
            payload_offsets: columns.payload_offsets.offsets(fragments, columns.payloads.len())?,
            missing_source: columns.missing_source.read(missing.clone())?,
            missing_reason: columns.missing_reason.read(missing)?,
            fragment_offsets,
            missing_offsets,
            verdict_offsets,
            events,
        })
    }

    /// The things of the `at`-th event of the block, as places in the block's lists.
    fn of(offsets: &[u64], at: usize) -> Range<usize> {
        let first = offsets[0];
        (offsets[at] - first) as usize..(offsets[at + 1] - first) as usize
    }

    /// Returns the range of the payloads of the `at`-th event in the column.
    fn payload_of(&self, at: usize) -> Range<u64> {
        let fragments = Self::of(&self.fragment_offsets, at);
        self.payload_offsets[fragments.start]..self.payload_offsets[fragments.end]
    }
}

/// Reads the events of an HDF5 file in order. An `Err` item costs only the event it describes, if the iterator
/// continues.
pub(crate) struct Reader {
    path: PathBuf,
    columns: Columns,
    records: Option<RecordColumns>,
    header: Option<FileHeader>,
    metadata: String,
    next: u64,
    block: Block,
    /// Payload, and where it starts in the column.
    payload: (u64, Bytes),
    check_payloads: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_columns(path).map_err(|error| ReadError { path: path.to_owned(), error })
    }

    fn open_columns(path: &Path) -> Result<Self, ReadFault> {
        crate::regular::open(path)?;
        let file = File::open(path)?;
        let format = text(&file, "format");
        let version = file.attr("version").and_then(|attribute| attribute.read_scalar::<u32>());
        match version {
            Ok(VERSION) if format.as_deref() == Some(FORMAT) => {}
            Ok(other) if format.as_deref() == Some(FORMAT) => return Err(ReadFault::Version(other)),
            _ => return Err(ReadFault::Format),
        }
        let columns = Columns::open(&file)?;
        let records = RecordColumns::open(&file)?;
        Ok(Self {
            path: path.to_owned(),
            header: header(&file),
            metadata: text(&file, "metadata").unwrap_or_default(),
            columns,
            records,
            next: 0,
            block: Block::default(),
            payload: (0, Bytes::new()),
            check_payloads: true,
        })
    }

    /// Whose file it is, where it was made of a single event file.
    pub(crate) fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// The metadata, a JSON object as text.
    pub(crate) fn metadata(&self) -> &str {
        &self.metadata
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> u64 {
        self.columns.id.len()
    }

    /// The numbers of its events in their sessions.
    pub(crate) fn sequences(&self) -> Result<Vec<u64>, ReadError> {
        self.columns.sequence.read(0..self.events()).map_err(|error| self.wrong(error))
    }

    /// Returns the number of run records.
    pub(crate) fn number_of_records(&self) -> u64 {
        self.records.as_ref().map_or(0, RecordColumns::len)
    }

    /// Returns the run records of the file, without reading events.
    pub(crate) fn records(&self) -> Result<FileRecords, ReadError> {
        let records = self.records.as_ref().map_or(Ok(FileRecords::default()), RecordColumns::read);
        records.map_err(|error| self.wrong(error))
    }

    /// Sets whether payload checksums are verified. The default is to verify them.
    pub(crate) fn check_payloads(&mut self, check: bool) {
        self.check_payloads = check;
    }

    fn wrong(&self, error: ReadFault) -> ReadError {
        ReadError { path: self.path.clone(), error }
    }

    /// Reads the next event, whose place in the block is `at`.
    fn read(&mut self, at: usize) -> Result<StoredEvent<Bytes>, ReadFault> {
        let span = self.block.payload_of(at);
        let (start, window) = &self.payload;
        if span.start < *start || span.end > start + window.len() as u64 {
            let last = self.block.payload_offsets.last().copied().unwrap_or(span.end);
            let end = span.end.max(last.min(span.start.saturating_add(BLOCK_BYTES)));
            let bytes: Vec<u8> = self.columns.payloads.read(span.start..end)?;
            self.payload = (span.start, bytes.into());
        }
        let Block { id, time, .. } = &self.block;
        let block = &self.block;
        let id = EventId(id[at]);
        let fragments = Block::of(&block.fragment_offsets, at);
        let fragments = fragments.map(|place| self.fragment(id, place)).collect::<Result<_, _>>()?;
        let missing = Block::of(&block.missing_offsets, at).map(|place| {
            let code = block.missing_reason[place];
            let reason = MissingReason::from_code(code).ok_or(ReadFault::Reason { event: id, code })?;
            Ok::<_, ReadFault>(MissingSource { source: SourceId(block.missing_source[place]), reason })
        });
        let event = Event {
            id,
            time: Timestamp(time[at]),
            trigger_type: TriggerType(block.trigger_type[at]),
            attempt: block.attempt[at],
            incomplete: block.incomplete[at] != 0,
            fragments,
            missing: missing.collect::<Result<_, _>>()?,
        };
        let verdict = block.verdicts.slice(Block::of(&block.verdict_offsets, at));
        let verdict = Verdict::accept().with_tags(Tags(block.tags[at])).with_payload(verdict);
        Ok(StoredEvent { event, verdict, sequence: block.sequence[at] })
    }

    fn fragment(&self, event: EventId, place: usize) -> Result<Fragment<Bytes>, ReadFault> {
        let block = &self.block;
        let (start, window) = &self.payload;
        let from = (block.payload_offsets[place] - start) as usize;
        let to = (block.payload_offsets[place + 1] - start) as usize;
        let payload = window.slice(from..to);
        let (source, checksum) = (SourceId(block.source[place]), block.checksum[place]);
        if self.check_payloads {
            let computed = crc32c(&payload);
            if computed != checksum {
                return Err(ReadFault::Checksum { event, source_id: source, stored: checksum, computed });
            }
        }
        Ok(Fragment {
            event,
            source,
            time: Timestamp(block.fragment_time[place]),
            checksum: Some(checksum),
            processed: block.processed.get(place).is_some_and(|processed| *processed != 0),
            mark: block.mark.get(place).and_then(|mark| NumberMark::from_flags(*mark)).unwrap_or_default(),
            payload,
        })
    }
}

impl Iterator for Reader {
    type Item = Result<StoredEvent<Bytes>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.events() {
            return None;
        }
        if !self.block.events.contains(&self.next) {
            let end = self.events().min(self.next + BLOCK_EVENTS as u64);
            match Block::read(&self.columns, self.next..end) {
                Ok(block) => self.block = block,
                Err(error) => {
                    // Where events begin and end is not known any more.
                    self.next = self.events();
                    return Some(Err(self.wrong(error)));
                }
            }
        }
        let at = (self.next - self.block.events.start) as usize;
        self.next += 1;
        Some(self.read(at).map_err(|error| self.wrong(error)))
    }
}

fn text(file: &File, name: &str) -> Option<String> {
    let value = file.attr(name).ok()?.read_scalar::<VarLenUnicode>().ok()?;
    Some(value.as_str().to_owned())
}

/// Returns unit and epoch of times, if the attributes state them.
fn time_base(file: &File) -> Option<TimeBase> {
    let number = |name: &str| u32::try_from(file.attr(name).ok()?.read_scalar::<u64>().ok()?).ok();
    let unit = TimeUnit::from_fraction(number("time_unit_numerator")?, number("time_unit_denominator")?)?;
    let epoch = file.attr("epoch_ns").ok().and_then(|epoch| epoch.read_scalar::<i64>().ok());
    Some(TimeBase { unit, epoch: epoch.map(UtcTime::from_nanos) })
}

/// Whose file it is, by its attributes.
fn header(file: &File) -> Option<FileHeader> {
    let number = |name: &str| file.attr(name).ok()?.read_scalar::<u64>().ok();
    Some(FileHeader {
        run: RunNumber(file.attr("run").ok()?.read_scalar::<u32>().ok()?),
        node: parse_node(&text(file, "node")?)?,
        session: SessionId(number("session")?),
        part: u32::try_from(number("part")?).ok()?,
        created: Timestamp(number("created_ns")?),
        time_base: time_base(file),
    })
}
