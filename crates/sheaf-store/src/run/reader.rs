//! Reads the events of a run, or of a single event file.

use super::error::RunReadError;
use super::manifest::Manifest;
use super::open_file::{OpenFile, is_hdf5};
use crate::event_file::{
    EXTENSION, EventReadError, FileHeader, FileName, Metadata, RunRecord, StoredEvent, StreamName,
};
use crate::id_set::IdSet;
use bytes::Bytes;
use sheaf_wire::exclusion_record::{ExclusionRecord, latest_exclusions};
use sheaf_wire::shift_record::{ShiftRecord, latest};
use sheaf_wire::{NodeId, SessionId, SourceNames, TimeBase};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Counts of a run's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RunCounts {
    /// Events that count, which were handed out.
    pub events: u64,
    /// Events that do not count: written by a builder that died before it reported them, or by an output node for such a builder.
    pub void: u64,
    /// Skipped events with the id of an earlier one: copies in other streams and, without a manifest that defines which
    /// events count, events of builders that died.
    pub duplicates: u64,
    /// Places where a file is damaged.
    pub damaged: u64,
    /// Files without index and footer.
    pub unfinished_files: u64,
}

/// A file of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunFile {
    pub(crate) path: PathBuf,
    /// Whose file it is, by its header or, where that is damaged, by its name.
    pub(crate) session: Option<(NodeId, SessionId)>,
    pub(crate) stream: StreamName,
    pub(crate) part: u32,
    pub(crate) header: Option<FileHeader>,
    /// The metadata, a JSON object as text.
    pub(crate) metadata: String,
    /// The names of the filter's tags.
    pub(crate) tags: Vec<String>,
}

/// The files of a run, and which of their events count.
#[derive(Debug)]
pub(crate) struct RunPlan {
    pub(crate) manifest: Option<Manifest>,
    /// By node, session, stream and part.
    pub(crate) files: Vec<RunFile>,
}

impl RunPlan {
    /// Plans to read a run directory or a single event file.
    pub(crate) fn new(path: &Path) -> Result<Self, RunReadError> {
        if !path.is_dir() {
            return Ok(Self { manifest: None, files: vec![run_file(path)?] });
        }
        let manifest = Manifest::read(path)?;
        let list_error = |error| RunReadError::List { path: path.to_owned(), error };
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(list_error)? {
            let file = entry.map_err(list_error)?.path();
            if file.extension().is_some_and(|extension| extension == EXTENSION) || is_part_as_hdf5(&file) {
                files.push(run_file(&file)?);
            }
        }
        files.sort_by(|a, b| {
            (a.session, &a.stream, a.part, &a.path).cmp(&(b.session, &b.stream, b.part, &b.path))
        });
        check_time_bases(&files)?;
        Ok(Self { manifest, files })
    }

    /// Returns whether the event with this sequence number in a session counts, if known. The manifest of a run that
    /// has not ended only contains sealed sessions.
    pub(crate) fn counts(&self, session: Option<(NodeId, SessionId)>, sequence: u64) -> Option<bool> {
        let manifest = self.manifest.as_ref()?;
        let record = session.and_then(|(node, session)| manifest.session(node, session));
        match record {
            Some(record) if record.sealed || manifest.ended.is_some() => Some(record.counts(sequence)),
            None if manifest.ended.is_some() => Some(false),
            _ => None,
        }
    }

    /// Returns the names of sources, as the first file that names any has them.
    pub(crate) fn source_names(&self) -> SourceNames {
        let names = self.files.iter().map(|file| Metadata::parse(&file.metadata).source_names);
        names.into_iter().find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// Returns whether the manifest defines for every event whether it counts.
    pub(crate) fn is_final(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.ended.is_some())
    }
}

/// Checks that the times of all files have one meaning.
fn check_time_bases(files: &[RunFile]) -> Result<(), RunReadError> {
    let stated = |file: &RunFile| {
        file.header.map(|header| (file.path.clone(), header.time_base.unwrap_or(TimeBase::NANOSECONDS)))
    };
    let mut bases = files.iter().filter_map(stated);
    let Some((first, first_base)) = bases.next() else { return Ok(()) };
    match bases.find(|(_, base)| *base != first_base) {
        Some((path, base)) => Err(RunReadError::TimeBases { path, base, first, first_base }),
        None => Ok(()),
    }
}

/// Returns whether an HDF5 file is the conversion of an event file that no longer exists. If both exist, the event file
/// belongs to the run. HDF5 files of other names are exports.
fn is_part_as_hdf5(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse_either);
    is_hdf5(path) && name.is_some_and(|name| !path.with_file_name(name.to_string()).exists())
}

fn run_file(path: &Path) -> Result<RunFile, RunReadError> {
    let (reader, _) = OpenFile::open(path)?;
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse_either);
    let (session, part) = match (reader.header(), &name) {
        (Some(header), _) => (Some((header.node, header.session)), header.part),
        (None, Some(name)) => (Some((name.node, name.session)), name.part),
        (None, None) => (None, 0),
    };
    let stream = stream_of(name.as_ref(), reader.metadata());
    let tags = Metadata::parse(reader.metadata()).tags;
    let (header, metadata) = (reader.header().copied(), reader.metadata().to_owned());
    Ok(RunFile { path: path.to_owned(), session, stream, part, header, metadata, tags })
}

/// Reads the events that count in a run directory or a single event file: an iterator, file by file in the order of
/// builder, session, stream and part. An event that is in several streams is returned once.
///
/// With the manifest of a run that has ended, only the committed events of each session count. Without it, all events
/// count, and the first of several with the same id is used. `Err` items cost only what they describe; the iterator
/// continues after them.
#[derive(Debug)]
pub struct RunReader {
    plan: RunPlan,
    next_file: usize,
    current: Option<OpenFile>,
    /// The number in the session that the next event has if none is missing.
    next_sequence: u64,
    /// Ids that were returned, if duplicates are detected.
    seen: Option<IdSet>,
    check_payloads: bool,
    counts: RunCounts,
}

impl RunReader {
    /// Opens a run directory or a single event file.
    ///
    /// # Errors
    /// A [`RunReadError`] if the directory, its manifest or one of its files cannot be read at all.
    pub fn open(path: &Path) -> Result<Self, RunReadError> {
        let plan = RunPlan::new(path)?;
        let streams: BTreeSet<_> = plan.files.iter().map(|file| &file.stream).collect();
        let seen = (!plan.is_final() || streams.len() > 1).then(IdSet::default);
        Ok(Self {
            plan,
            next_file: 0,
            current: None,
            next_sequence: 0,
            seen,
            check_payloads: true,
            counts: RunCounts::default(),
        })
    }

    /// The manifest, where there is one.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        self.plan.manifest.as_ref()
    }

    /// Sets whether payload checksums are verified. The default is to verify them.
    pub fn check_payloads(&mut self, check: bool) {
        self.check_payloads = check;
    }

    /// Reads the events of this stream alone. To be called before the first event is read.
    #[must_use]
    pub fn only(mut self, stream: &StreamName) -> Self {
        self.plan.files.retain(|file| file.stream == *stream);
        self
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> RunCounts {
        self.counts
    }

    /// The files of the run, in reading order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.plan.files.iter().map(|file| file.path.as_path())
    }

    /// The names of the filter's tags, in the order of their bits, as the run's first file that names any has them.
    #[must_use]
    pub fn tag_names(&self) -> &[String] {
        let names = self.plan.files.iter().map(|file| &file.tags[..]);
        names.into_iter().find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// Returns the names of sources, as the run's first file that names any has them.
    #[must_use]
    pub fn source_names(&self) -> SourceNames {
        self.plan.source_names()
    }

    /// The header of the first file that has a good one.
    #[must_use]
    pub fn first_header(&self) -> Option<&FileHeader> {
        self.plan.files.iter().find_map(|file| file.header.as_ref())
    }

    /// Returns unit and epoch of the times of the run, if its first file with a good header states them.
    #[must_use]
    pub fn time_base(&self) -> Option<TimeBase> {
        self.first_header()?.time_base
    }

    /// The metadata of that file, a JSON object as text.
    #[must_use]
    pub fn first_metadata(&self) -> &str {
        let mut files = self.plan.files.iter();
        files.find(|file| file.header.is_some()).map_or("{}", |file| &file.metadata)
    }

    /// The header of the file that is read now.
    #[must_use]
    pub fn file_header(&self) -> Option<&FileHeader> {
        self.current.as_ref()?.header()
    }

    /// Opens the next file; `None` after the last.
    fn open_next(&mut self) -> Option<Result<(), RunReadError>> {
        let file = self.plan.files.get(self.next_file)?;
        self.next_file += 1;
        let (mut reader, wrong) = match OpenFile::open(&file.path) {
            Ok(opened) => opened,
            Err(error) => return Some(Err(error)),
        };
        reader.check_payloads(self.check_payloads);
        if file.part == 0 {
            self.next_sequence = 0;
        }
        self.current = Some(reader);
        Some(match wrong {
            None => Ok(()),
            Some(error) => {
                self.counts.damaged += 1;
                let path = file.path.clone();
                Err(RunReadError::Header { path, error })
            }
        })
    }

    /// Returns the run records, each once, by time. Events are not read.
    ///
    /// # Errors
    /// A [`RunReadError`] if a file cannot be read. Damaged records are left out if another file has them.
    pub fn records(&self) -> Result<Vec<RunRecord>, RunReadError> {
        let mut records = BTreeMap::new();
        for file in &self.plan.files {
            for record in OpenFile::open(&file.path)?.0.records()?.good {
                records.entry(record.number).or_insert(record);
            }
        }
        let mut records: Vec<RunRecord> = records.into_values().collect();
        records.sort_by(|a, b| (a.time, a.source, &a.name).cmp(&(b.time, b.source, &b.name)));
        Ok(records)
    }

    /// Returns the shifts of sources, in the order in which they were found. Events are not read.
    ///
    /// # Errors
    /// A [`RunReadError`] if a file cannot be read. Damaged records are left out.
    pub fn shifts(&self) -> Result<Vec<ShiftRecord>, RunReadError> {
        Ok(latest(&self.records()?).0)
    }

    /// Returns the exclusions of sources, in the order in which they began. Events are not read.
    ///
    /// # Errors
    /// A [`RunReadError`] if a file cannot be read. Damaged records are left out.
    pub fn exclusions(&self) -> Result<Vec<ExclusionRecord>, RunReadError> {
        Ok(latest_exclusions(&self.records()?).0)
    }

    /// Returns whether an event with this sequence number in the current session counts. A damaged part, whose number
    /// is unknown, has the number after the last.
    fn is_counted(&mut self, sequence: Option<u64>) -> bool {
        let sequence = sequence.unwrap_or(self.next_sequence);
        self.next_sequence = sequence.saturating_add(1);
        let session = self.next_file.checked_sub(1).and_then(|file| self.plan.files[file].session);
        self.plan.counts(session, sequence).unwrap_or(true)
    }

    /// Returns the item of the current file to hand out, if any.
    fn sift(
        &mut self,
        item: Result<StoredEvent<Bytes>, RunReadError>,
    ) -> Option<Result<StoredEvent<Bytes>, RunReadError>> {
        let counts = self.is_counted(item.as_ref().ok().map(|event| event.sequence));
        match item {
            Err(error @ RunReadError::Read(EventReadError::Io { .. })) => return Some(Err(error)),
            _ if !counts => self.counts.void += 1,
            Ok(event) if self.seen.as_mut().is_none_or(|seen| seen.insert(event.event.id)) => {
                self.counts.events += 1;
                return Some(Ok(event));
            }
            Ok(_) => self.counts.duplicates += 1,
            Err(error) => {
                self.counts.damaged += 1;
                return Some(Err(error));
            }
        }
        None
    }
}

impl Iterator for RunReader {
    type Item = Result<StoredEvent<Bytes>, RunReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.current.as_mut().map(Iterator::next) {
                Some(Some(item)) => {
                    if let Some(sifted) = self.sift(item) {
                        return Some(sifted);
                    }
                }
                Some(None) => {
                    let finished = self.current.take().is_none_or(|reader| reader.is_finished());
                    self.counts.unfinished_files += u64::from(!finished);
                }
                None => {
                    if let Err(error) = self.open_next()? {
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

/// The stream of a file: by its name, or by its metadata where it has another name, or `default`.
pub(crate) fn stream_of(name: Option<&FileName>, metadata: &str) -> StreamName {
    match name {
        Some(name) => name.stream.clone(),
        None => Metadata::parse(metadata).stream.unwrap_or_default(),
    }
}
