//! Event files and runs.

use super::{FileReport, Reading, RunState, StreamReport, VerifyReport, ledger, parts};
use crate::content_error::ContentError;
use crate::event_file::{
    EventDamage, EventEnding, EventFileReader, EventReadError, FileName, FileRecords, Index, RunRecord,
    StoredEvent, StreamName,
};
use crate::id_set::IdSet;
use crate::kind::Kind;
use crate::run::{
    MANIFEST_NAME, Manifest, OpenFile, RunFile, RunLock, RunPlan, RunReadError, checksum_of, is_hdf5,
    read_lists,
};
use bytes::Bytes;
use sheaf_wire::exclusion_record::latest_exclusions;
use sheaf_wire::shift_record::latest;
use sheaf_wire::{ByteCount, Event, EventId, NodeId, SessionId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// Number of events between two progress reports.
const EVENTS_BETWEEN_NEWS: usize = 256;

type Session = Option<(NodeId, SessionId)>;

pub(super) fn verify(
    path: &Path,
    kind: Kind,
    tell: &mut dyn FnMut(Reading),
) -> Result<VerifyReport, ContentError> {
    // First: a run that ends meanwhile has then files that are closed, and not the reverse.
    let is_written = kind == Kind::Run && is_written(path)?;
    let plan = RunPlan::new(path)?;
    let mut check = Check {
        report: VerifyReport::new(path, kind),
        ids: IdSet::default(),
        missing: BTreeMap::new(),
        records: BTreeMap::new(),
        sessions: BTreeMap::new(),
        series: BTreeMap::new(),
        reading: Reading { total: bytes_to_read(&plan), ..Reading::default() },
        tell,
    };
    check.report.state = plan.manifest.as_ref().map(|manifest| match manifest.ended {
        Some(_) => RunState::Closed,
        None if is_written => RunState::InProgress,
        None => RunState::CutOff,
    });
    for file in &plan.files {
        check.file(&plan, file)?;
    }
    if let Some(manifest) = plan.manifest.as_ref().filter(|manifest| manifest.ended.is_some()) {
        let is_here = |node, session| check.sessions.contains_key(&Some((node, session)));
        check.report.elsewhere = parts::elsewhere(manifest, is_here);
    }
    if kind == Kind::Run {
        check.closed_files(path, plan.manifest.as_ref())?;
    }
    if let Some(manifest) = &plan.manifest {
        check.manifest(path, manifest);
    }
    check.report.set_ids(&check.ids);
    check.report.set_missing(&check.missing);
    check.report.source_names = plan.source_names();
    check.set_streams();
    check.report.ok &= check.report.state != Some(RunState::InProgress);
    Ok(check.report)
}

fn is_written(path: &Path) -> Result<bool, ContentError> {
    let holder = RunLock::holder(path);
    let holder = holder.map_err(|error| RunReadError::List { path: path.to_owned(), error })?;
    Ok(holder.is_some())
}

struct Check<'a> {
    report: VerifyReport,
    ids: IdSet,
    missing: BTreeMap<(u32, &'static str), u64>,
    sessions: BTreeMap<Session, Progress>,
    /// State of each session in each stream.
    series: BTreeMap<(Session, StreamName), Series>,
    /// Good run records by number.
    records: BTreeMap<u64, RunRecord>,
    /// Files that were read.
    reading: Reading,
    tell: &'a mut dyn FnMut(Reading),
}

/// State of a session.
#[derive(Default)]
struct Progress {
    /// The numbers of its events, each once although it is in several streams.
    sequences: IdSet,
    /// Number of them that count.
    counted: u64,
    /// Places where its files are damaged: each cost an event, if it was one that counts.
    damaged: u64,
}

impl Progress {
    fn events(&self) -> u64 {
        self.sequences.len() + self.damaged
    }
}

/// State of a session in a stream.
#[derive(Default)]
struct Series {
    next_part: u32,
    last_sequence: Option<u64>,
    events: u64,
    payload_bytes: u64,
}

impl Check<'_> {
    fn file(&mut self, plan: &RunPlan, file: &RunFile) -> Result<(), ContentError> {
        self.header(plan, file);
        if is_hdf5(&file.path) {
            return self.hdf5_file(plan, file);
        }
        let (mut reader, wrong) = EventFileReader::open_damaged(&file.path).map_err(RunReadError::from)?;
        // A file that was just begun may have its header in the memory of its writer.
        let is_new = self.report.state == Some(RunState::InProgress) && reader.file_bytes() == 0;
        if let Some(error) = wrong.filter(|_| !is_new) {
            self.report.problem(&file.path, 0, error.to_string());
        }
        let mut places = Vec::new();
        let mut items = 0;
        while let Some(item) = reader.next() {
            let offset = reader.event_offset();
            if places.len().is_multiple_of(EVENTS_BETWEEN_NEWS) {
                (self.tell)(Reading { done: self.reading.done + ByteCount(offset), ..self.reading });
            }
            match item {
                Ok(stored) => {
                    places.push((stored.event.id, offset));
                    items += u64::from(self.event(plan, file, offset, &stored));
                }
                Err(error) => {
                    self.sessions.entry(file.session).or_default().damaged += 1;
                    places.extend(self.damage(&file.path, error));
                }
            }
        }
        self.ending(plan, file, &mut reader, &places)?;
        let records = reader.records().map_err(RunReadError::from)?;
        self.records(&file.path, records);
        self.has_read(reader.file_bytes());
        self.report.files.push(FileReport {
            path: file.path.clone(),
            bytes: reader.file_bytes(),
            items,
            finished: reader.footer().is_ok(),
        });
        Ok(())
    }

    /// Checks the run records of a file.
    fn records(&mut self, path: &Path, found: FileRecords) {
        for (place, error) in found.damaged {
            if is_hdf5(path) {
                self.report.problem(path, None, format!("run record {place} of the file: {error}"));
            } else {
                self.report.problem(path, place, error.to_string());
            }
        }
        for (number, error) in latest(&found.good).1 {
            self.report.problem(path, None, format!("run record {number}: {error}"));
        }
        for record in found.good {
            let number = record.number;
            let before = self.records.entry(number).or_insert_with(|| record.clone());
            if *before != record {
                let what =
                    format!("run record {number} differs from that of the same number in another place");
                self.report.problem(path, None, what);
            }
        }
        self.report.records = self.records.len() as u64;
    }

    fn has_read(&mut self, bytes: u64) {
        self.reading.done += ByteCount(bytes);
        (self.tell)(self.reading);
    }

    /// The events of an HDF5 file, which has no places in bytes.
    fn hdf5_file(&mut self, plan: &RunPlan, file: &RunFile) -> Result<(), ContentError> {
        let (mut reader, _) = OpenFile::open(&file.path)?;
        let mut items = 0;
        for item in &mut reader {
            match item {
                Ok(stored) => items += u64::from(self.event(plan, file, None, &stored)),
                Err(error) => {
                    self.sessions.entry(file.session).or_default().damaged += 1;
                    self.report.problem(&file.path, None, error.to_string());
                }
            }
        }
        match reader.records() {
            Ok(records) => self.records(&file.path, records),
            Err(error) => self.report.problem(&file.path, None, error.to_string()),
        }
        self.report.files.push(FileReport {
            path: file.path.clone(),
            bytes: reader.file_bytes(),
            items,
            finished: reader.is_finished(),
        });
        Ok(())
    }

    /// Parts of a session follow each other, and all files are of the run that the manifest is of.
    fn header(&mut self, plan: &RunPlan, file: &RunFile) {
        if self.report.kind != Kind::Run {
            return;
        }
        if let Some(manifest) = &plan.manifest
            && let Some(header) = &file.header
            && header.run != manifest.run
        {
            let what = format!("file is of run {}, the manifest is of run {}", header.run, manifest.run);
            self.report.problem(&file.path, 0, what);
        }
        let series = self.series.entry((file.session, file.stream.clone())).or_default();
        let expected = std::mem::replace(&mut series.next_part, file.part.saturating_add(1));
        if file.session.is_some() && file.part != expected {
            let what = format!("file is part {} of its session, part {expected} was expected", file.part);
            self.report.problem(&file.path, 0, what);
        }
    }

    /// Takes note of an event; whether it counts.
    fn event(
        &mut self,
        plan: &RunPlan,
        file: &RunFile,
        offset: impl Into<Option<u64>>,
        stored: &StoredEvent<Bytes>,
    ) -> bool {
        let offset = offset.into();

        let StoredEvent { event, sequence, .. } = stored;
        let progress = self.sessions.entry(file.session).or_default();
        // An export of a whole run has several sessions in one file, and numbers that mean nothing.
        let is_series = !is_hdf5(&file.path) || file.session.is_some();
        let number = if is_series { EventId(*sequence) } else { event.id };
        let is_first = progress.sequences.insert(number);
        let series = self.series.entry((file.session, file.stream.clone())).or_default();
        let before = series.last_sequence.replace(*sequence);
        if let Some(before) = before.filter(|before| is_series && before >= sequence) {
            let what = format!("event {} has the number {sequence} in its session, after {before}", event.id);
            self.report.problem(&file.path, offset, what);
        }
        if plan.counts(file.session, *sequence) == Some(false) {
            self.report.events_void += u64::from(is_first);
            return false;
        }
        progress.counted += u64::from(is_first);
        series.events += 1;
        series.payload_bytes += event.payload_bytes();
        match (self.ids.insert(event.id), is_first) {
            (true, true) => self.new_event(&file.path, offset, event),
            (false, false) => self.report.copies += 1,
            (false, true) => {
                self.report.duplicates += 1;
                let what = format!("event {} occurs twice", event.id);
                self.report.problem(&file.path, offset, what);
            }
            (true, false) => {
                let what = format!("event {} has the number {sequence} of another event", event.id);
                self.report.problem(&file.path, offset, what);
            }
        }
        true
    }

    fn new_event(&mut self, file: &Path, offset: Option<u64>, event: &Event<Bytes>) {
        self.report.events += 1;
        self.report.events_incomplete += u64::from(event.incomplete);
        let disagrees = event.fragments.iter().any(|fragment| fragment.mark.disagrees());
        self.report.events_disagreeing += u64::from(disagrees);
        self.report.fragments += event.fragments.len() as u64;
        self.report.payload_bytes += event.payload_bytes();
        for missing in &event.missing {
            *self.missing.entry((missing.source.0, missing.reason.name())).or_default() += 1;
        }
        if let Some(what) = inconsistency(event) {
            self.report.problem(file, offset, format!("event {}: {what}", event.id));
        }
    }

    /// Reports damage; returns the index entry expected there, if it is known.
    fn damage(&mut self, file: &Path, error: EventReadError) -> Option<(EventId, u64)> {
        match error {
            EventReadError::Io { offset, error, .. } => {
                self.report.problem(file, offset, format!("cannot read on: {error}"));
                None
            }
            EventReadError::Damaged { offset, damage, .. } => {
                self.report.problem(file, offset, damage.to_string());
                match damage {
                    EventDamage::Entries { event, .. } | EventDamage::Payload { event, .. } => {
                        Some((event, offset))
                    }
                    EventDamage::Header { .. } => None,
                }
            }
        }
    }

    /// Verifies the end of a file: index and footer, and whether they match the events.
    fn ending(
        &mut self,
        plan: &RunPlan,
        file: &RunFile,
        reader: &mut EventFileReader<File>,
        places: &[(EventId, u64)],
    ) -> Result<(), ContentError> {
        let path = &file.path;
        let may_be_open = self.report.state == Some(RunState::InProgress) || is_of_the_dead(plan, file);
        if let Some(EventEnding::Unfinished { .. }) = reader.ending()
            && may_be_open
        {
            self.report.files_open += 1;
        } else if let Some(EventEnding::Unfinished { offset, partial_bytes }) = reader.ending() {
            let why = reader.footer().err().map(ToString::to_string).unwrap_or_default();
            let what = format!(
                "file is not closed: {partial_bytes} bytes follow the last whole event, and no footer ({why})"
            );
            self.report.problem(path, offset, what);
        }
        let header_damage = reader.counts().corrupt_headers > 0;
        let index_offset = reader.footer().map_or(0, |footer| footer.index_offset);
        match reader.whole_index().map_err(RunReadError::from)? {
            None => {}
            Some(Err(error)) => self.report.problem(path, index_offset, error.to_string()),
            Some(Ok(_)) if header_damage => {}
            Some(Ok(Index { events, records })) if events == places => {
                let passed = reader.passed_records();
                if records != passed {
                    let what = format!(
                        "index has {} run records and differs from the {} in the file",
                        records.len(),
                        passed.len()
                    );
                    self.report.problem(path, index_offset, what);
                }
            }
            Some(Ok(Index { events: index, .. })) => {
                let at = index.iter().zip(places).take_while(|(a, b)| a == b).count();
                let what = format!(
                    "index has {} events and differs from the {} in the file from number {at} on",
                    index.len(),
                    places.len()
                );
                self.report.problem(path, index_offset, what);
            }
        }
        Ok(())
    }

    /// Compares every file with its description in the manifest or in the list of its session, made when it was closed.
    fn closed_files(&mut self, path: &Path, manifest: Option<&Manifest>) -> Result<(), ContentError> {
        let list_error = |error| RunReadError::List { path: path.to_owned(), error };
        let mut listed = read_lists(path).map_err(list_error)?;
        // For sealed sessions the manifest is authoritative: a list may be older.
        listed.retain(|name, _| {
            let owner = FileName::parse_either(name).map(|name| (name.node, name.session));
            let record = owner.and_then(|(node, session)| manifest?.session(node, session));
            record.is_none_or(|record| !record.sealed)
        });
        let in_manifest = manifest.map_or(&[][..], |manifest| &manifest.files);
        listed.extend(in_manifest.iter().map(|closed| (closed.file.clone(), closed.clone())));
        listed.retain(|name, _| {
            let owner = FileName::parse_either(name).map(|name| (name.node, name.session));
            !manifest.is_some_and(|manifest| self.is_elsewhere(manifest, owner))
        });
        for (name, closed) in listed {
            if name.contains(['/', '\\']) {
                self.report.problem(path, None, format!("`{name}` is not the name of a closed file"));
                continue;
            }
            let file = path.join(&name);
            self.has_read(closed.bytes);
            let problem = match file.metadata() {
                // It was made into HDF5.
                Err(_) if FileName::parse(&name).is_some_and(|name| path.join(name.hdf5()).exists()) => {
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    "the file was closed and is missing".into()
                }
                Err(error) => format!("cannot read the file: {error}"),
                Ok(found) if found.len() != closed.bytes => {
                    format!("the file was closed with {} bytes, it has {}", closed.bytes, found.len())
                }
                Ok(_) => match (closed.crc32c, closed.crc32c.map(|_| checksum_of(&file)).transpose()) {
                    (_, Err(error)) => format!("cannot read the file again: {error}"),
                    (Some(expected), Ok(Some(found))) if expected != found => {
                        format!("the file was closed with the checksum {expected:08x}, it has {found:08x}")
                    }
                    _ => continue,
                },
            };
            self.report.problem(&file, None, problem);
        }
        Ok(())
    }

    /// Returns whether the files of a session are on another host, and none is here.
    fn is_elsewhere(&self, manifest: &Manifest, session: Session) -> bool {
        let of = |(node, _): (NodeId, SessionId)| manifest.elsewhere(node).is_some();
        session.is_some_and(of) && !self.sessions.contains_key(&session)
    }

    /// The contents of each stream, by name.
    fn set_streams(&mut self) {
        let mut streams: BTreeMap<&StreamName, StreamReport> = BTreeMap::new();
        for ((_, name), series) in &self.series {
            let report = streams.entry(name).or_insert_with(|| StreamReport {
                stream: name.to_string(),
                events: 0,
                payload_bytes: 0,
            });
            report.events += series.events;
            report.payload_bytes += series.payload_bytes;
        }
        self.report.streams = streams.into_values().collect();
    }

    /// Compares the manifest with the files.
    fn manifest(&mut self, path: &Path, manifest: &Manifest) {
        match self.report.state {
            // Its processes change it.
            Some(RunState::InProgress) => return,
            Some(RunState::CutOff) => {
                self.report.problem(
                    path,
                    None,
                    "the run was not closed, and no process writes it: its manifest has no end",
                );
                return;
            }
            Some(RunState::Closed) | None => {}
        }
        match Manifest::is_intact(path) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => {
                let what = "the manifest was changed: its checksum is of another text";
                self.report.problem(&path.join(MANIFEST_NAME), None, what);
            }
            Ok(None) => {
                let what = "the manifest has no checksum";
                self.report.problem(&path.join(MANIFEST_NAME), None, what);
            }
            Err(error) => self.report.problem(&path.join(MANIFEST_NAME), None, error.to_string()),
        }
        for what in ledger::problems(&manifest.ledger) {
            self.report.problem(path, None, what);
        }
        for record in &manifest.sessions {
            let session = Some((record.node, record.session));
            if self.is_elsewhere(manifest, session) {
                continue;
            }
            let (found, counted) = self
                .sessions
                .get(&session)
                .map_or((0, 0), |progress| (progress.events(), progress.counted + progress.damaged));
            let name = format!("session {:016x} of {}", record.session.0, record.node);
            let events = record.events();
            if counted < events {
                let what = format!("{name}: {events} events are committed, but {counted} were found");
                self.report.problem(path, None, what);
            } else if record.sealed && found > record.committed {
                let what = format!("{name} is sealed at {} events, but {found} were found", record.committed);
                self.report.problem(path, None, what);
            }
        }
        for session in self.sessions.keys().copied().collect::<Vec<_>>() {
            if let Some((node, id)) = session
                && manifest.session(node, id).is_none()
                && !is_shared(manifest)
            {
                let what = format!("session {:016x} of {node} is not in the manifest", id.0);
                self.report.problem(path, None, what);
            }
        }
        let stored = manifest.ledger.get("stored").and_then(serde_json::Value::as_u64);
        let elsewhere = self.report.elsewhere.iter().fold(0_u64, |sum, part| sum.saturating_add(part.events));
        let known = self.report.events.saturating_add(elsewhere);
        if let Some(stored) = stored
            && stored != known
        {
            let what = format!("the ledger has {stored} events stored, but {known} were found");
            self.report.problem(path, None, what);
        }
        if !self.report.elsewhere.is_empty() {
            // What follows is about all files of the run.
            return;
        }
        for what in ledger::shift_problems(&manifest.ledger, &latest(self.records.values()).0) {
            self.report.problem(path, None, what);
        }
        for what in ledger::exclusion_problems(&manifest.ledger, &latest_exclusions(self.records.values()).0)
        {
            self.report.problem(path, None, what);
        }
        if let Some(what) = ledger::fragments_problem(&manifest.ledger, self.report.fragments) {
            self.report.problem(path, None, what);
        }
    }
}

/// Returns whether this file will never be closed and need not be: a node that died wrote it, in a run whose nodes
/// write their files themselves. Which of its events count is known, and compared with the file.
fn is_of_the_dead(plan: &RunPlan, file: &RunFile) -> bool {
    let Some(manifest) = plan.manifest.as_ref().filter(|manifest| manifest.ended.is_some()) else {
        return false;
    };
    let record = file.session.and_then(|(node, session)| manifest.session(node, session));
    record.map_or_else(|| is_shared(manifest), |record| !record.sealed)
}

/// Returns whether nodes that were started one by one wrote the run: no process seals their files, and sessions unknown
/// to the event manager are in no list. None of their events count.
fn is_shared(manifest: &Manifest) -> bool {
    manifest.sessions.iter().any(|record| !record.sealed)
}

fn bytes_to_read(plan: &RunPlan) -> ByteCount {
    let closed = plan.manifest.iter().flat_map(|manifest| &manifest.files).map(|file| file.bytes);
    let found = plan.files.iter().map(|file| file.path.metadata().map_or(0, |file| file.len()));
    ByteCount(closed.chain(found).fold(0, u64::saturating_add))
}

/// The problem with an event whose every checksum is right.
fn inconsistency(event: &Event<Bytes>) -> Option<&'static str> {
    let ascending = event.fragments.is_sorted_by(|a, b| a.source < b.source)
        && event.missing.is_sorted_by(|a, b| a.source < b.source);
    let is_there = |source| event.fragments.binary_search_by_key(&source, |fragment| fragment.source).is_ok();
    if !ascending {
        Some("sources are not in ascending order")
    } else if event.missing.iter().any(|missing| is_there(missing.source)) {
        Some("a source is listed as missing but has a fragment")
    } else if event.incomplete && event.missing.is_empty() {
        Some("marked incomplete, but no source is missing")
    } else {
        None
    }
}
