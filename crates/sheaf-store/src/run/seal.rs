//! Cuts the files of a session behind the last event that counts.

use super::error::RunReadError;
use super::lists::session_files;
use crate::event_file::{EventFileReader, EventOpenError, EventPlace, EventReadError, FileName, SessionName};
use sheaf_wire::EventId;
use sheaf_wire::event_file::{IndexEntryBytes, RECORD_HEADER_BYTES, RecordHeader, emit_index};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// Reason why a session's files could not be sealed. The work done so far is valid, and sealing can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The operating system refused.
    #[error("cannot seal {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot seal a session: {0}")]
    Open(#[from] EventOpenError),
    /// A file could not be read.
    #[error("cannot seal a session: {0}")]
    Read(#[from] EventReadError),
    /// A file that was made into HDF5 could not be read.
    #[error("cannot seal a session: {0}")]
    Hdf5(#[from] RunReadError),
}

/// Result of sealing a session. An event in several streams counts in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SealReport {
    /// Events that were kept.
    pub events: u64,
    /// Whole events that were cut off: written, not committed, and assigned again elsewhere.
    pub void: u64,
    /// Committed events that are missing after the last one in any stream: the machine died before they were on its
    /// disk.
    pub missing: u64,
    /// Places where the files are damaged; each is taken for one event when events are counted.
    pub damaged: u64,
    /// Bytes that were cut off: void events, the unfinished last one, the index of a file that was cut.
    pub bytes_cut: u64,
    /// Files that were removed, because none of their events counts.
    pub files_removed: u64,
}

/// Cuts the files that `session` wrote in `directory` behind its first `committed` events in the order of their
/// numbers, keeps the run records behind that, removes the files behind that, and closes the last one of each stream with index and footer. Does nothing
/// to files that are that way already. The session must have ended: no one else may write these files.
///
/// # Errors
/// A [`SealError`] that names the file.
pub fn seal_session(directory: &Path, session: SessionName, committed: u64) -> Result<SealReport, SealError> {
    let mut report = SealReport::default();
    let files =
        session_files(directory, session, FileName::parse).map_err(|error| io_error(directory, error))?;
    // Number of run records in the last file of each stream that was kept. A later file begins with these.
    let (mut reached, mut known_records) = read_hdf5(directory, session, committed)?;
    // Files without anything of their own. If a later one of their stream is kept, so are they, so that no part is missing.
    let mut empty: BTreeMap<String, Vec<Cut>> = BTreeMap::new();
    for (name, path) in files {
        let content = read_content(&path, committed)?;
        let events = content.events.len() as u64;
        let keep = content.keep;
        reached = reached.max(content.reached);
        report.events += keep;
        report.void += events - keep;
        report.damaged += content.damaged;
        let stream = name.stream.as_str();
        let known = known_records.entry(stream.to_owned()).or_insert(0);
        let has_new_records = content.number_of_records > *known;
        *known = content.number_of_records.max(*known);
        let is_whole = keep == events && content.closed;
        let has_header = content.has_header;
        let cut = Cut::new(path, content);
        if !has_header && keep == 0 && !is_whole {
            cut.remove(&mut report)?;
        } else if !is_whole && keep == 0 && name.part > 0 && !has_new_records {
            empty.entry(stream.to_owned()).or_default().push(cut);
        } else {
            for before in empty.remove(stream).unwrap_or_default() {
                before.close(&mut report)?;
            }
            if !is_whole {
                cut.close(&mut report)?;
            }
        }
    }
    for cut in empty.into_values().flatten() {
        cut.remove(&mut report)?;
    }
    report.missing = committed.saturating_sub(reached);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| io_error(directory, error))?;
    Ok(report)
}

/// Number of run records by stream.
type KnownRecords = BTreeMap<String, u64>;

/// Returns, of files that were made into HDF5 while the session lasted, one more than the number of the last event that counts, and
/// the number of run records of each stream.
#[cfg(feature = "hdf5")]
fn read_hdf5(
    directory: &Path,
    session: SessionName,
    committed: u64,
) -> Result<(u64, KnownRecords), SealError> {
    let files = session_files(directory, session, FileName::parse_hdf5)
        .map_err(|error| io_error(directory, error))?;
    let (mut reached, mut records) = (0, KnownRecords::new());
    for (name, path) in files {
        let reader = crate::hdf5_file::Reader::open(&path).map_err(RunReadError::from)?;
        let known = records.entry(name.stream.as_str().to_owned()).or_default();
        *known = reader.number_of_records().max(*known);
        let sequences = reader.sequences().map_err(RunReadError::from)?;
        let counted = sequences.into_iter().filter(|sequence| *sequence < committed);
        reached = counted.map(|sequence| sequence + 1).max().unwrap_or(0).max(reached);
    }
    Ok((reached, records))
}

#[cfg(not(feature = "hdf5"))]
#[expect(clippy::unnecessary_wraps, reason = "this build made no such files")]
fn read_hdf5(
    _directory: &Path,
    _session: SessionName,
    _committed: u64,
) -> Result<(u64, KnownRecords), SealError> {
    Ok((0, KnownRecords::new()))
}

fn io_error(path: &Path, error: io::Error) -> SealError {
    SealError::Io { path: path.to_owned(), error }
}

/// The contents of a file, in writing order. A damaged place has the id of its event where that is known, or 0.
struct Content {
    events: Vec<(EventId, u64)>,
    /// Number of them that count, from the first.
    keep: u64,
    /// One more than the number in the session of the last that counts.
    reached: u64,
    end: u64,
    /// Numbers and offsets of the run records, of a file that is to be cut.
    records: Vec<(u64, u64)>,
    number_of_records: u64,
    damaged: u64,
    closed: bool,
    has_header: bool,
    file_bytes: u64,
}

fn read_content(path: &Path, committed: u64) -> Result<Content, SealError> {
    let (mut reader, wrong_header) = EventFileReader::open_damaged(path)?;
    let mut content = Content {
        events: Vec::new(),
        keep: 0,
        reached: 0,
        end: reader.offset(),
        records: Vec::new(),
        number_of_records: 0,
        damaged: 0,
        closed: false,
        has_header: wrong_header.is_none(),
        file_bytes: reader.file_bytes(),
    };
    // If all of a closed file counts, the index and the number of its last event are sufficient.
    if let (Some(Ok(index)), Ok(footer)) = (reader.index()?, reader.footer().copied()) {
        let last = index.last().map(|(_, offset)| reader.header_at(*offset)).transpose()?;
        let last = last.map(|header| header.map(|header| header.sequence));
        content.closed = true;
        content.end = footer.index_offset;
        content.number_of_records = footer.records;
        match last {
            None => return Ok(content),
            Some(Some(last)) if last < committed => {
                content.keep = index.len() as u64;
                content.reached = last + 1;
                content.events = index;
                return Ok(content);
            }
            Some(_) => {}
        }
    }
    let scan = reader.scan_in_order()?;
    let counts = |place: &&EventPlace| place.sequence < committed;
    content.keep = scan.places.iter().take_while(counts).count() as u64;
    content.reached = scan.places.iter().take_while(counts).last().map_or(0, |place| place.sequence + 1);
    content.events = scan.places.iter().map(|place| (place.event, place.offset)).collect();
    content.number_of_records = scan.records.len() as u64;
    content.records = scan.records;
    content.damaged = scan.damaged;
    if !content.closed {
        content.end = scan.end;
    }
    Ok(content)
}

/// A file that is cut behind its last event that counts.
struct Cut {
    path: PathBuf,
    /// The events that are kept.
    events: Vec<(EventId, u64)>,
    /// End of these.
    end: u64,
    records: Vec<(u64, u64)>,
    file_bytes: u64,
}

impl Cut {
    fn new(path: PathBuf, mut content: Content) -> Self {
        let end = content.events.get(content.keep as usize).map_or(content.end, |(_, offset)| *offset);
        content.events.truncate(content.keep as usize);
        Self { path, events: content.events, end, records: content.records, file_bytes: content.file_bytes }
    }

    fn close(self, report: &mut SealReport) -> Result<(), SealError> {
        let kept = close_at(&self.path, self.end, &self.events, self.records);
        let kept = kept.map_err(|error| io_error(&self.path, error))?;
        report.bytes_cut += self.file_bytes - self.end - kept;
        Ok(())
    }

    fn remove(self, report: &mut SealReport) -> Result<(), SealError> {
        fs::remove_file(&self.path).map_err(|error| io_error(&self.path, error))?;
        report.files_removed += 1;
        report.bytes_cut += self.file_bytes;
        Ok(())
    }
}

/// Ends the file behind the events before `end`, with the run records behind that and the index. Returns the bytes of these records.
fn close_at(
    path: &Path,
    mut end: u64,
    events: &[(EventId, u64)],
    mut records: Vec<(u64, u64)>,
) -> io::Result<u64> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut moved = Vec::new();
    for (_, offset) in records.iter_mut().filter(|(_, offset)| *offset >= end) {
        let record = read_record(&mut file, *offset)?;
        *offset = end + moved.len() as u64;
        moved.extend(record);
    }
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&moved)?;
    end += moved.len() as u64;
    let events: Vec<_> = events.iter().map(|(id, offset)| IndexEntryBytes::new(*id, *offset)).collect();
    let records: Vec<_> =
        records.iter().map(|(number, offset)| IndexEntryBytes::of_record(*number, *offset)).collect();
    let (header, footer) = emit_index(&events, &records, end);
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&[header.as_bytes(), events.as_bytes(), records.as_bytes(), footer.as_bytes()].concat())?;
    file.sync_all()?;
    Ok(moved.len() as u64)
}

/// Reads the run record at `offset` as it is in the file.
fn read_record(file: &mut File, offset: u64) -> io::Result<Vec<u8>> {
    let mut record = vec![0; RECORD_HEADER_BYTES];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut record)?;
    let header =
        RecordHeader::parse(&record).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    record.resize(RECORD_HEADER_BYTES + header.body_bytes(), 0);
    file.read_exact(&mut record[RECORD_HEADER_BYTES..])?;
    Ok(record)
}
