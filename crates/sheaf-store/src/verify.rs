//! Checks everything that can be checked in an event file, a run directory, a fragment stream or a directory of
//! fragment streams.

mod events;
mod ledger;
mod parts;
mod streams;

use crate::content_error::ContentError;
use crate::id_set::{IdRange, IdSet};
use crate::inspect::names_by_id;
use crate::kind::Kind;
use serde::Serialize;
use sheaf_wire::{ByteCount, SourceNames};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of gaps and problems that are listed; all are counted.
const MAX_LISTED: usize = 1000;

/// Result of a verification. Gaps, missing sources and disagreeing numbers are facts about the data, not problems: ids may skip
/// values, and an incomplete event is data.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyReport {
    /// Path that was verified.
    pub path: PathBuf,
    /// Kind of its contents.
    pub kind: Kind,
    /// Whether there is no problem and the object is complete; a run in progress is not.
    pub ok: bool,
    /// Whether a run has ended; `None` if unknown: not a run, or without a manifest.
    pub state: Option<RunState>,
    /// Files, in reading order.
    pub files: Vec<FileReport>,
    /// Good events that count; for fragment streams, distinct event ids over all of them.
    pub events: u64,
    /// Number of events marked incomplete; for fragment streams, of ids that some stream lacks.
    pub events_incomplete: u64,
    /// Number of events with fragments whose check values disagree with those of the event.
    pub events_disagreeing: u64,
    /// Good run records, each once although it is in several files.
    pub records: u64,
    /// Good fragments.
    pub fragments: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Events with the id of an earlier one; in a fragment stream, records with the id of an earlier one.
    pub duplicates: u64,
    /// Further copies of good events, in other streams of their session.
    pub copies: u64,
    /// The contents of each stream of accepted events, by name; empty for fragment streams.
    pub streams: Vec<StreamReport>,
    /// Files that are not closed and need not be: a process still writes them, or the session that wrote them died and
    /// all of its events that count are present.
    pub files_open: u64,
    /// Events that do not count, because the builder that wrote them died before it reported them.
    pub events_void: u64,
    /// The parts of a run on other hosts whose files are not in this directory; their events are in no other count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<PartReport>,
    /// The smallest and the largest event id.
    pub ids: Option<IdRange>,
    /// Number of ids between these that do not occur.
    pub ids_absent: u64,
    /// The first 1000 ranges of them.
    pub gaps: Vec<IdRange>,
    /// Which sources are missing in how many events, and why. In a directory of fragment streams: of how many of the
    /// ids that occur anywhere a source has no record (`no_record`).
    pub missing_sources: Vec<MissingReport>,
    /// Names of the sources of the run, by id; absent if they have none.
    #[serde(serialize_with = "names_by_id", skip_serializing_if = "SourceNames::is_empty")]
    pub source_names: SourceNames,
    /// Number of problems.
    pub problems_total: u64,
    /// The first 1000 of them.
    pub problems: Vec<Problem>,
}

/// Whether a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process writes it. Open and unfinished files are not problems.
    InProgress,
    /// It has its books.
    Closed,
    /// Its process has ended and left no books.
    CutOff,
}

/// Progress of reading files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that were read.
    pub done: ByteCount,
    /// Bytes that there are to read: those of closed files twice, once for their events and once for their checksum.
    pub total: ByteCount,
}

/// The contents of one stream of accepted events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamReport {
    /// Its name.
    pub stream: String,
    /// Good events that count.
    pub events: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
}

/// One verified file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its good events or records.
    pub items: u64,
    /// Whether it has its index and footer, or its trailer.
    pub finished: bool,
}

/// A part of a run whose files are on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// The host.
    pub host: String,
    /// Directory of the part there.
    pub directory: PathBuf,
    /// Nodes that wrote the files.
    pub nodes: Vec<String>,
    /// Their events that count.
    pub events: u64,
}

/// Number of times that a source is missing for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingReport {
    /// The source.
    pub source: u32,
    /// The name of the reason.
    pub reason: &'static str,
    /// In how many events.
    pub events: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// In which file, or directory.
    pub file: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: Option<u64>,
    /// Description.
    pub what: String,
}

/// Verifies the content at `path`.
///
/// # Errors
/// A [`ContentError`] if it cannot be read. All problems of readable data are in the report.
pub fn verify(path: &Path) -> Result<VerifyReport, ContentError> {
    verify_with_progress(path, &mut |_| {})
}

/// As [`verify`], with calls of `tell` to report progress; not for fragment streams.
///
/// # Errors
/// As [`verify`].
pub fn verify_with_progress(
    path: &Path,
    tell: &mut dyn FnMut(Reading),
) -> Result<VerifyReport, ContentError> {
    match Kind::of(path)? {
        kind @ (Kind::EventFile | Kind::Run) => events::verify(path, kind, tell),
        kind @ (Kind::FragmentStream | Kind::StreamDirectory) => streams::verify(path, kind),
    }
}

impl VerifyReport {
    fn new(path: &Path, kind: Kind) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            ok: true,
            state: None,
            files: Vec::new(),
            events: 0,
            events_incomplete: 0,
            events_disagreeing: 0,
            records: 0,
            fragments: 0,
            payload_bytes: 0,
            duplicates: 0,
            copies: 0,
            streams: Vec::new(),
            files_open: 0,
            events_void: 0,
            elsewhere: Vec::new(),
            ids: None,
            ids_absent: 0,
            gaps: Vec::new(),
            missing_sources: Vec::new(),
            source_names: SourceNames::default(),
            problems_total: 0,
            problems: Vec::new(),
        }
    }

    fn problem(&mut self, file: &Path, offset: impl Into<Option<u64>>, what: impl Into<String>) {
        self.ok = false;
        self.problems_total += 1;
        if self.problems.len() < MAX_LISTED {
            self.problems.push(Problem { file: file.to_owned(), offset: offset.into(), what: what.into() });
        }
    }

    fn set_ids(&mut self, ids: &IdSet) {
        self.ids = ids.bounds();
        for gap in ids.gaps() {
            self.ids_absent = self.ids_absent.saturating_add(gap.ids());
            if self.gaps.len() < MAX_LISTED {
                self.gaps.push(gap);
            }
        }
    }

    fn set_missing(&mut self, missing: &BTreeMap<(u32, &'static str), u64>) {
        let reports = missing.iter().map(|((source, reason), events)| MissingReport {
            source: *source,
            reason,
            events: *events,
        });
        self.missing_sources = reports.collect();
    }
}

#[cfg(test)]
mod tests;
