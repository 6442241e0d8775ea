//! A directory of fragment streams, one per source, as one recording.
//!
//! Opening reads every stream once, from end to end: the common event ids and times of the sources are needed to keep
//! them in step, and damage is found before the run instead of during it. It costs the time to read the files and eight
//! bytes of memory per event.

use crate::pacing::FragmentTiming;
use sheaf_store::fragment_stream::{
    EXTENSION, Ending, StreamCounts, StreamHeader, StreamOpenError, StreamReadError, StreamReader,
};
use sheaf_wire::{EventId, Nanos, RunNumber, SourceId, TimeBase, TimeUnit, Timestamp};
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reason why a directory cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum OpenDirectoryError {
    /// The operating system refused.
    #[error("cannot read directory {path}: {error}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// There is nothing to replay.
    #[error(
        "{path} has no fragment streams (files named *.{EXTENSION}); `sheaf import` writes such directories"
    )]
    NoStreams {
        /// The directory.
        path: PathBuf,
    },
    /// A stream cannot be opened.
    #[error(transparent)]
    Open(#[from] StreamOpenError),
    /// A stream cannot be read. Damage is no reason: it is counted in [`StreamInfo::counts`].
    #[error(transparent)]
    Read(#[from] StreamReadError),
    /// Two streams are from one source.
    #[error("{first} and {second} are both from source {source_id}; a directory has one stream per source")]
    DuplicateSource {
        /// The source of both.
        source_id: SourceId,
        /// One stream.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The streams are of different runs.
    #[error("{path} is of run {run}, {first} of run {first_run}; a directory has streams of one run")]
    DifferentRuns {
        /// The first stream, by source id, of another run than `first`.
        path: PathBuf,
        /// Its run.
        run: RunNumber,
        /// The stream with the lowest source id.
        first: PathBuf,
        /// Its run.
        first_run: RunNumber,
    },
    /// The times of two streams have different meanings.
    #[error(
        "times in {path} are {base}, those in {first} are {first_base}; the streams of a directory have one time base: convert the \
         times of one of them"
    )]
    DifferentTimeBases {
        /// A stream.
        path: PathBuf,
        /// Unit and epoch of its times.
        base: TimeBase,
        /// The stream with the lowest source id.
        first: PathBuf,
        /// Unit and epoch of its times.
        first_base: TimeBase,
    },
    /// A stream has only times, not the event ids of its fragments.
    #[error(
        "{path} has times but no event ids; if its fragments hold hits, build them by time (`source.build_by = \"time\"`), \
         otherwise give them event ids when importing them"
    )]
    NoEventIds {
        /// The stream.
        path: PathBuf,
    },
    /// A stream has only event ids, not the times of its fragments.
    #[error(
        "{path} has no times, and hits count from the time of their fragment (`source.timed.times = \"fragment\"`)"
    )]
    NoTimes {
        /// The stream.
        path: PathBuf,
    },
}

/// Contents of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// The file.
    pub path: PathBuf,
    /// The source that it was recorded from.
    pub source: SourceId,
    /// Whether its fragments have times.
    pub has_times: bool,
    /// Whether its fragments have event ids.
    pub has_events: bool,
    /// Its good records, and the damaged ones.
    pub counts: StreamCounts,
    /// End of the stream; `None` only if reading stopped before.
    pub ending: Option<Ending>,
}

/// All streams of a directory.
#[derive(Clone, Debug)]
pub struct StreamSet {
    pub(crate) directory: PathBuf,
    pub(crate) run: RunNumber,
    pub(crate) time_base: Option<TimeBase>,
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) timeline: Arc<Timeline>,
}

/// Opens all fragment streams in `directory`.
///
/// # Errors
/// If there is none, one cannot be read, or they do not belong together.
pub fn open_directory(directory: &Path) -> Result<StreamSet, OpenDirectoryError> {
    let mut files = Vec::new();
    for path in stream_files(directory)? {
        // Opened only for its header: a camera has more modules than a process may have files open.
        let header = *StreamReader::open(&path)?.header();
        files.push(StreamFile { path, header });
    }
    files.sort_by_key(|file| file.header.source);
    let run = check_headers(&files, directory)?;
    let time_base = check_time_bases(&files)?;
    let unit = time_base.map_or(TimeUnit::NANOSECOND, |base| base.unit);
    let mut timeline = Timeline { unit, ..Timeline::default() };
    let mut streams = Vec::with_capacity(files.len());
    for file in &files {
        streams.push(scan(StreamReader::open(&file.path)?, &mut timeline)?);
    }
    Ok(StreamSet { directory: directory.to_owned(), run, time_base, streams, timeline: Arc::new(timeline) })
}

fn stream_files(directory: &Path) -> Result<Vec<PathBuf>, OpenDirectoryError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(directory)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    let mut paths = list().map_err(|error| OpenDirectoryError::List { path: directory.to_owned(), error })?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    // The order of a directory is the file system's; errors are to name the same file everywhere.
    paths.sort();
    Ok(paths)
}

struct StreamFile {
    path: PathBuf,
    header: StreamHeader,
}

/// Checks that the streams, in ascending order of source id, belong together, and returns their run.
fn check_headers(files: &[StreamFile], directory: &Path) -> Result<RunNumber, OpenDirectoryError> {
    let Some(first) = files.first() else {
        return Err(OpenDirectoryError::NoStreams { path: directory.to_owned() });
    };
    for StreamFile { path, header } in files {
        if header.run != first.header.run {
            return Err(OpenDirectoryError::DifferentRuns {
                path: path.clone(),
                run: header.run,
                first: first.path.clone(),
                first_run: first.header.run,
            });
        }
    }
    for pair in files.windows(2) {
        if pair[0].header.source == pair[1].header.source {
            return Err(OpenDirectoryError::DuplicateSource {
                source_id: pair[0].header.source,
                first: pair[0].path.clone(),
                second: pair[1].path.clone(),
            });
        }
    }
    Ok(first.header.run)
}

/// Checks that the times of all streams have one meaning, and returns it if a stream states it.
fn check_time_bases(files: &[StreamFile]) -> Result<Option<TimeBase>, OpenDirectoryError> {
    let meaning = |file: &StreamFile| file.header.time_base.unwrap_or(TimeBase::NANOSECONDS);
    let Some(first) = files.first() else { return Ok(None) };
    if let Some(other) = files.iter().find(|file| meaning(file) != meaning(first)) {
        return Err(OpenDirectoryError::DifferentTimeBases {
            path: other.path.clone(),
            base: meaning(other),
            first: first.path.clone(),
            first_base: meaning(first),
        });
    }
    Ok(files.iter().find_map(|file| file.header.time_base))
}

/// Reads a stream to its end and enters its events into the timeline.
fn scan(mut reader: StreamReader<File>, timeline: &mut Timeline) -> Result<StreamInfo, StreamReadError> {
    let StreamHeader { has_times, has_events, .. } = *reader.header();
    let mut ids = Vec::new();
    for record in &mut reader {
        match record {
            Ok(fragment) => {
                ids.push(fragment.event);
                if has_times {
                    timeline.add_time(fragment.time);
                }
            }
            Err(StreamReadError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    timeline.add_ids(ids);
    Ok(StreamInfo {
        path: reader.path().to_owned(),
        source: reader.header().source,
        has_times,
        has_events,
        counts: reader.counts(),
        ending: reader.ending(),
    })
}

impl StreamSet {
    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The run that was recorded.
    #[must_use]
    pub fn run(&self) -> RunNumber {
        self.run
    }

    /// Returns unit and epoch of the times of all streams, if they state them.
    #[must_use]
    pub fn time_base(&self) -> Option<TimeBase> {
        self.time_base
    }

    /// The streams, in ascending order of source id.
    #[must_use]
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Returns whether there is a stream of a source.
    #[must_use]
    pub fn has(&self, source: SourceId) -> bool {
        self.streams.binary_search_by_key(&source, |stream| stream.source).is_ok()
    }

    /// The lowest and the highest event id of all sources; `None` where no stream has a record.
    #[must_use]
    pub fn event_ids(&self) -> Option<RangeInclusive<EventId>> {
        self.timeline.event_ids()
    }

    /// Returns the earliest time of all sources. `None` where no fragment has a time.
    #[must_use]
    pub fn earliest(&self) -> Option<Timestamp> {
        self.timeline.times.map(|(first, _)| first)
    }

    /// Checks that the fragments of every stream have event ids, so that events can be built by number.
    ///
    /// # Errors
    /// [`OpenDirectoryError::NoEventIds`].
    pub fn require_event_ids(&self) -> Result<(), OpenDirectoryError> {
        match self.streams.iter().find(|stream| !stream.has_events) {
            Some(stream) => Err(OpenDirectoryError::NoEventIds { path: stream.path.clone() }),
            None => Ok(()),
        }
    }

    /// Checks that the fragments of every stream have times.
    ///
    /// # Errors
    /// [`OpenDirectoryError::NoTimes`].
    pub fn require_times(&self) -> Result<(), OpenDirectoryError> {
        match self.streams.iter().find(|stream| !stream.has_times) {
            Some(stream) => Err(OpenDirectoryError::NoTimes { path: stream.path.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the number of different event ids.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.timeline.ids.len() as u64
    }
}

/// Times and numbers that all sources of a recording share.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Unit of all times.
    unit: TimeUnit,
    /// The event ids of all sources: ascending, each once.
    ids: Vec<EventId>,
    /// The earliest and the latest time of all sources.
    times: Option<(Timestamp, Timestamp)>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { unit: TimeUnit::NANOSECOND, ids: Vec::new(), times: None }
    }
}

impl Timeline {
    fn add_ids(&mut self, mut ids: Vec<EventId>) {
        // Mostly the sources have the same events: where nothing is new, nothing is merged.
        ids.retain(|id| self.ids.binary_search(id).is_err());
        if !ids.is_empty() {
            self.ids.append(&mut ids);
            self.ids.sort_unstable();
            self.ids.dedup();
        }
    }

    fn add_time(&mut self, time: Timestamp) {
        let (first, last) = self.times.get_or_insert((time, time));
        *first = time.min(*first);
        *last = time.max(*last);
    }

    fn event_ids(&self) -> Option<RangeInclusive<EventId>> {
        Some(*self.ids.first()?..=*self.ids.last()?)
    }

    /// The position of `event` among the ids of all sources. `hint` is the position before, by which events in order
    /// are found at once.
    pub(crate) fn rank(&self, event: EventId, hint: usize) -> usize {
        match [hint, hint + 1].into_iter().find(|rank| self.ids.get(*rank) == Some(&event)) {
            Some(rank) => rank,
            // A file that was changed since it was opened may have an unknown id: it is inserted in order.
            None => self.ids.partition_point(|id| *id < event),
        }
    }

    /// Returns the number of passes of which all events are below `event`.
    pub(crate) fn passes_below(&self, event: EventId) -> u64 {
        let Some(ids) = self.event_ids() else { return 0 };
        let (first, last) = (ids.start().0, ids.end().0);
        match event.0.checked_sub(last).and_then(|above| above.checked_sub(1)) {
            Some(above) => above / (last - first).saturating_add(1) + 1,
            None => 0,
        }
    }

    /// Returns the distance of pass `pass`, counted from zero, from the recording.
    pub(crate) fn shift(&self, pass: u64) -> Shift {
        let id_span = self.event_ids().map_or(0, |ids| u128::from(ids.end().0 - ids.start().0) + 1);
        let events = self.ids.len() as u64;
        let time_span = self.times.map_or(0, |(first, last)| {
            let span = last.since(first).0;
            // The time from the last event of a pass to the first of the next is the average time between events: the
            // rate stays constant at the boundary.
            span.saturating_add(span / events.saturating_sub(1).max(1)).max(1)
        });
        Shift {
            id: u64::try_from(id_span * u128::from(pass)).ok(),
            time: time_span.saturating_mul(pass),
            position: events.saturating_mul(pass),
        }
    }

    /// The place in the run of the event at `rank`, recorded at `time`, in a pass that is shifted by `shift`.
    pub(crate) fn place(&self, rank: usize, time: Timestamp, shift: &Shift) -> FragmentTiming {
        let first = self.times.map_or(Timestamp::ZERO, |(first, _)| first);
        FragmentTiming {
            position: shift.position.saturating_add(rank as u64),
            elapsed: Nanos(self.unit.nanos(time.since(first).0.saturating_add(shift.time))),
        }
    }
}

/// Values that are added to the numbers of a recording, so that the next pass continues where the previous one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Offset of event ids; `None` if no ids are left.
    pub(crate) id: Option<u64>,
    /// Offset of times, in their unit.
    pub(crate) time: u64,
    pub(crate) position: u64,
}
