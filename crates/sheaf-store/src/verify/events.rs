//! Event files and runs.

use super::{FileReport, VerifyError, VerifyReport};
use crate::event_file::{EventDamage, EventEnding, EventFileReader, EventReadError, StoredEvent};
use crate::id_set::IdSet;
use crate::kind::Kind;
use crate::run::{Manifest, RunFile, RunPlan, RunReadError};
use bytes::Bytes;
use sheaf_wire::{Event, EventId, NodeId, SessionId};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

type Session = Option<(NodeId, SessionId)>;

pub(super) fn verify(path: &Path, kind: Kind) -> Result<VerifyReport, VerifyError> {
    let plan = RunPlan::new(path)?;
    let mut check = Check {
        report: VerifyReport::new(path, kind),
        ids: IdSet::default(),
        missing: BTreeMap::new(),
        progress: BTreeMap::new(),
        next_part: BTreeMap::new(),
    };
    for file in &plan.files {
        check.file(&plan, file)?;
    }
    if let Some(manifest) = &plan.manifest {
        check.manifest(path, manifest);
    }
    check.report.set_ids(&check.ids);
    check.report.set_missing(&check.missing);
    Ok(check.report)
}

struct Check {
    report: VerifyReport,
    ids: IdSet,
    missing: BTreeMap<(u32, &'static str), u64>,
    /// Events and damaged places seen of each session.
    progress: BTreeMap<Session, u64>,
    /// The part that comes next in each session.
    next_part: BTreeMap<Session, u32>,
}

impl Check {
    fn file(&mut self, plan: &RunPlan, file: &RunFile) -> Result<(), VerifyError> {
        let (mut reader, wrong) = EventFileReader::open_damaged(&file.path).map_err(RunReadError::from)?;
        if let Some(error) = wrong {
            self.report.problem(&file.path, 0, error.to_string());
        }
        self.header(plan, file, &reader);
        let limit = plan.limit(file.session);
        let mut places = Vec::new();
        let mut items = 0;
        while let Some(item) = reader.next() {
            let seen = self.progress.entry(file.session).or_default();
            *seen += 1;
            let counts = limit.is_none_or(|limit| *seen <= limit);
            let offset = reader.event_offset();
            match item {
                Ok(StoredEvent { event, .. }) => {
                    places.push((event.id, offset));
                    if counts {
                        items += 1;
                        self.event(&file.path, offset, &event);
                    } else {
                        self.report.events_void += 1;
                    }
                }
                Err(error) => places.extend(self.damage(&file.path, error)),
            }
        }
        self.ending(&file.path, &mut reader, &places)?;
        self.report.files.push(FileReport {
            path: file.path.clone(),
            bytes: reader.file_bytes(),
            items,
            finished: reader.footer().is_ok(),
        });
        Ok(())
    }

    /// Parts of a session follow each other, and all files are of the run that the manifest is of.
    fn header(&mut self, plan: &RunPlan, file: &RunFile, reader: &EventFileReader<File>) {
        if self.report.kind != Kind::Run {
            return;
        }
        if let Some(manifest) = &plan.manifest
            && let Some(header) = reader.header()
            && header.run != manifest.run
        {
            let what = format!("file is of run {}, the manifest is of run {}", header.run, manifest.run);
            self.report.problem(&file.path, 0, what);
        }
        let expected = self.next_part.insert(file.session, file.part.saturating_add(1)).unwrap_or(0);
        if file.session.is_some() && file.part != expected {
            let what = format!("file is part {} of its session, part {expected} should come here", file.part);
            self.report.problem(&file.path, 0, what);
        }
    }

    fn event(&mut self, file: &Path, offset: u64, event: &Event<Bytes>) {
        if !self.ids.insert(event.id) {
            self.report.duplicates += 1;
            let what = format!("event {} is there a second time", event.id);
            self.report.problem(file, offset, what);
            return;
        }
        self.report.events += 1;
        self.report.events_incomplete += u64::from(event.incomplete);
        self.report.fragments += event.fragments.len() as u64;
        self.report.payload_bytes += event.payload_bytes();
        for missing in &event.missing {
            *self.missing.entry((missing.source.0, missing.reason.name())).or_default() += 1;
        }
        if let Some(what) = inconsistency(event) {
            self.report.problem(file, offset, format!("event {}: {what}", event.id));
        }
    }

    /// Reports damage; where it is known, says what the index should have there.
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

    /// The end of a file: index and footer, and whether they tell the truth.
    fn ending(
        &mut self,
        path: &Path,
        reader: &mut EventFileReader<File>,
        places: &[(EventId, u64)],
    ) -> Result<(), VerifyError> {
        if let Some(EventEnding::Unfinished { offset, partial_bytes }) = reader.ending() {
            let why = reader.footer().err().map(ToString::to_string).unwrap_or_default();
            let what = format!(
                "file is not closed: {partial_bytes} bytes follow the last whole event, and no footer ({why})"
            );
            self.report.problem(path, offset, what);
        }
        let header_damage = reader.counts().corrupt_headers > 0;
        let index_offset = reader.footer().map_or(0, |footer| footer.index_offset);
        match reader.index().map_err(RunReadError::from)? {
            None => {}
            Some(Err(error)) => self.report.problem(path, index_offset, error.to_string()),
            Some(Ok(index)) if header_damage || index == places => {}
            Some(Ok(index)) => {
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

    /// What the manifest says against what there is.
    fn manifest(&mut self, path: &Path, manifest: &Manifest) {
        if manifest.ended.is_none() {
            self.report.problem(path, None, "the run was not closed: its manifest has no end");
            return;
        }
        for record in &manifest.sessions {
            let session = Some((record.node, record.session));
            let found = self.progress.get(&session).copied().unwrap_or(0);
            let name = format!("session {:016x} of {}", record.session.0, record.node);
            if found < record.committed {
                let what = format!("{name}: {} events are committed, {found} are there", record.committed);
                self.report.problem(path, None, what);
            } else if record.sealed && found > record.committed {
                let what = format!("{name} is sealed at {} events, and {found} are there", record.committed);
                self.report.problem(path, None, what);
            }
        }
        for session in self.progress.keys().copied().collect::<Vec<_>>() {
            if let Some((node, id)) = session
                && manifest.session(node, id).is_none()
            {
                let what = format!("session {:016x} of {node} is not in the manifest", id.0);
                self.report.problem(path, None, what);
            }
        }
        let stored = manifest.ledger.get("stored").and_then(serde_json::Value::as_u64);
        if let Some(stored) = stored
            && stored != self.report.events
        {
            let what =
                format!("the ledger says {stored} events are stored, {} are there", self.report.events);
            self.report.problem(path, None, what);
        }
    }
}

/// What is wrong with an event whose every checksum is right.
fn inconsistency(event: &Event<Bytes>) -> Option<&'static str> {
    let ascending = event.fragments.is_sorted_by(|a, b| a.source < b.source)
        && event.missing.is_sorted_by(|a, b| a.source < b.source);
    let is_there = |source| event.fragments.binary_search_by_key(&source, |fragment| fragment.source).is_ok();
    if !ascending {
        Some("sources are not in ascending order")
    } else if event.missing.iter().any(|missing| is_there(missing.source)) {
        Some("a source has a fragment and is missing")
    } else if event.incomplete && event.missing.is_empty() {
        Some("marked incomplete, and no source is missing")
    } else {
        None
    }
}
