//! Conversion of closed event files to HDF5 files, one each.
//!
//! An HDF5 file gets its name when it is complete, durable and compared event by event with its event file; only then
//! is the event file removed. So each event is in a readable file at any time, even after a crash. If both files exist,
//! the event file is complete and readers use it.

use super::{Compression, DRAFT_EXTENSION, ExportError, draft_of, failed, move_into_place};
use crate::event_file::{ClosedFile, FileName, Metadata, RunRecord, SessionName, StoredEvent, StreamName};
use crate::hdf5_file::{About, Reader, Writer};
use crate::run::{OpenFile, SessionRecord, checksum_of, session_files};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Converts the closed event file `name` in `directory` to an HDF5 file next to it, and removes the event file.
/// `is_ended` is called now and then and stops the conversion. The list of closed files is not updated: the caller does
/// that.
///
/// # Errors
/// An [`ExportError`]; the event file is then unchanged.
pub fn replace(
    directory: &Path,
    name: &FileName,
    compression: Compression,
    is_ended: &dyn Fn() -> bool,
) -> Result<ClosedFile, ExportError> {
    let source = &directory.join(name.to_string());
    let closed = Conversion { directory, name, source, compression }.make(&|_| true, is_ended)?;
    remove(source)?;
    Ok(closed)
}

/// Result of settling the files of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleReport {
    /// Event files that were made into HDF5 files now.
    pub made: u64,
    /// HDF5 files that had events that do not count, and were made again without them, or removed where nothing was left.
    pub cut: u64,
    /// Events that do not count, in these.
    pub void: u64,
    /// Event files that are damaged and stay, each with its first damage.
    pub damaged: Vec<String>,
}

/// Converts the remaining files of a session that has ended and whose event files are sealed: streams with a
/// compression get HDF5 files with only the events that count. No other process may write these files. Can be repeated
/// after an error.
///
/// # Errors
/// An [`ExportError`]; the files converted so far are valid.
pub fn settle(
    directory: &Path,
    session: SessionName,
    record: &SessionRecord,
    compression: &dyn Fn(&StreamName) -> Option<Compression>,
) -> Result<SettleReport, ExportError> {
    let mut report = SettleReport::default();
    let files = |parse: fn(&str) -> Option<FileName>| {
        session_files(directory, session, parse)
            .map_err(|error| ExportError::Io { path: directory.to_owned(), error })
    };
    for (_, draft) in files(|name| FileName::parse_with(name, DRAFT_EXTENSION))? {
        remove(&draft)?;
    }
    for (name, source) in files(FileName::parse)? {
        let Some(compression) = compression(&name.stream) else { continue };
        let conversion = Conversion { directory, name: &name, source: &source, compression };
        match conversion.make(&|number| record.counts(number), &|| false) {
            Ok(_) => {
                remove(&source)?;
                report.made += 1;
            }
            Err(error @ ExportError::Damaged { .. }) => report.damaged.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let mut of_streams: BTreeMap<String, Vec<Converted>> = BTreeMap::new();
    for (name, path) in files(FileName::parse_hdf5)? {
        // Next to an event file, which is kept because it is damaged, it is a copy.
        if !directory.join(name.to_string()).exists() {
            let files = of_streams.entry(name.stream.as_str().to_owned()).or_default();
            files.push(Converted::read(name, path, record)?);
        }
    }
    for files in of_streams.values() {
        let keep = Converted::files_to_keep(files);
        for (place, file) in files.iter().enumerate().filter(|(_, file)| file.void > 0) {
            report.void += file.void;
            report.cut += 1;
            if place >= keep {
                remove(&file.path)?;
            } else {
                let compression = compression(&file.name.stream).unwrap_or_default();
                let conversion = Conversion { directory, name: &file.name, source: &file.path, compression };
                conversion.make(&|number| record.counts(number), &|| false)?;
            }
        }
    }
    Ok(report)
}

/// An HDF5 file of a session that has ended.
struct Converted {
    name: FileName,
    path: PathBuf,
    events: u64,
    /// Number of its events that do not count.
    void: u64,
    /// Number of its run records. A file begins with those of the file before.
    records: u64,
}

impl Converted {
    fn read(name: FileName, path: PathBuf, record: &SessionRecord) -> Result<Self, ExportError> {
        let reader = Reader::open(&path)?;
        let sequences = reader.sequences()?;
        let void = sequences.iter().filter(|number| !record.counts(**number)).count() as u64;
        let (events, records) = (sequences.len() as u64, reader.number_of_records());
        drop(reader);
        Ok(Self { name, path, events, void, records })
    }

    /// Returns the number of files of a stream up to the last that has something of its own. Those before are kept even if they
    /// become empty, so that no part is missing.
    fn files_to_keep(files: &[Self]) -> usize {
        let (mut keep, mut known) = (0, 0);
        for (place, file) in files.iter().enumerate() {
            if file.void < file.events || file.records > known || file.void == 0 || file.name.part == 0 {
                keep = place + 1;
            }
            known = file.records.max(known);
        }
        keep
    }
}

/// The events of a file, to be put into the HDF5 file of a name.
#[derive(Clone, Copy, Debug)]
struct Conversion<'a> {
    directory: &'a Path,
    name: &'a FileName,
    /// An event file or an HDF5 file.
    source: &'a Path,
    compression: Compression,
}

impl Conversion<'_> {
    /// Makes the HDF5 file of the events whose numbers count.
    fn make(
        &self,
        counts: &dyn Fn(u64) -> bool,
        is_ended: &dyn Fn() -> bool,
    ) -> Result<ClosedFile, ExportError> {
        let Self { directory, name, source, compression } = *self;
        let target = directory.join(name.hdf5());
        let draft = draft_of(&target);
        let work = Work { source, draft: &draft, counts, is_ended };
        let written = work.write(compression).and_then(|()| work.compare());
        let events = move_into_place(&draft, &target, written)?;
        let io_error = |error| ExportError::Io { path: target.clone(), error };
        fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error)?;
        Ok(ClosedFile {
            file: name.hdf5(),
            stream: name.stream.clone(),
            events,
            bytes: target.metadata().map_err(io_error)?.len(),
            crc32c: Some(checksum_of(&target).map_err(io_error)?),
            object: None,
        })
    }
}

struct Work<'a> {
    source: &'a Path,
    draft: &'a Path,
    counts: &'a dyn Fn(u64) -> bool,
    is_ended: &'a dyn Fn() -> bool,
}

impl Work<'_> {
    fn damaged(&self, error: impl ToString) -> ExportError {
        ExportError::Damaged { path: self.source.to_owned(), error: error.to_string() }
    }

    fn open(&self) -> Result<OpenFile, ExportError> {
        let (file, wrong) = OpenFile::open(self.source)?;
        match wrong {
            Some(error) => Err(self.damaged(error)),
            None if file.is_finished() => Ok(file),
            None => Err(self.damaged("it was not closed")),
        }
    }

    /// The events that count, of a file of which each is good.
    fn events(
        &self,
        file: OpenFile,
    ) -> impl Iterator<Item = Result<StoredEvent<Bytes>, ExportError>> + use<'_> {
        let counts = |item: &Result<StoredEvent<Bytes>, _>| {
            item.as_ref().map_or(true, |stored| (self.counts)(stored.sequence))
        };
        file.filter(counts).map(|item| match item {
            _ if (self.is_ended)() => Err(ExportError::Ended { path: self.source.to_owned() }),
            item => item.map_err(|error| self.damaged(error)),
        })
    }

    /// Returns the run records of a file of which each is good.
    fn records(&self, file: &mut OpenFile) -> Result<Vec<RunRecord>, ExportError> {
        let records = file.records()?;
        match records.damaged.first() {
            None => Ok(records.good),
            Some((place, error)) => Err(self.damaged(format_args!("run record at {place}: {error}"))),
        }
    }

    fn write(&self, compression: Compression) -> Result<(), ExportError> {
        // Of a writer that died.
        remove(self.draft)?;
        let mut file = self.open()?;
        let records = self.records(&mut file)?;
        let metadata = file.metadata().to_owned();
        let header = file.header().copied();
        let tags = Metadata::parse(&metadata).tags;
        let (run, time_base) = (header.map(|header| header.run), header.and_then(|header| header.time_base));
        let about = About { header, run, time_base, metadata, tags };
        let mut writer =
            Writer::create(self.draft, &about, compression).map_err(|error| failed(self.draft, &error))?;
        for stored in self.events(file) {
            writer.add(&stored?).map_err(|error| failed(self.draft, &error))?;
        }
        writer.finish(&records).map_err(|error| failed(self.draft, &error))
    }

    /// Compares the written file with the event file, record by record, and returns the number of events.
    fn compare(&self) -> Result<u64, ExportError> {
        let different = |what: String| ExportError::Different {
            path: self.draft.to_owned(),
            source_path: self.source.to_owned(),
            what,
        };
        // Payloads are compared themselves.
        let (mut file, mut made) = (self.open()?, Reader::open(self.draft)?);
        file.check_payloads(false);
        made.check_payloads(false);
        let again = made.records().map_err(|error| different(error.to_string()))?;
        if !again.damaged.is_empty() || again.good != self.records(&mut file)? {
            return Err(different("its run records differ".to_owned()));
        }
        let mut events = 0;
        for stored in self.events(file) {
            let stored = stored?;
            let again = made.next().transpose().map_err(|error| different(error.to_string()))?;
            if again.as_ref() != Some(&stored) {
                return Err(different(format!("event {} differs", stored.event.id)));
            }
            events += 1;
        }
        if made.next().is_some() {
            return Err(different(format!("it has more than {events} events")));
        }
        Ok(events)
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> Result<(), ExportError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ExportError::Io { path: PathBuf::from(path), error })
        }
        _ => Ok(()),
    }
}
