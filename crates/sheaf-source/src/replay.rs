//! A source that was recorded: a fragment stream, played once or again and again.
//!
//! Every source of a directory is replayed by the same numbers, which are those of all its streams together
//! ([`StreamSet`]), so that the sources stay in step whatever each of them lacks:
//!
//! - **Passes.** Pass `n` adds `n * (highest id - lowest id + 1)` to event ids. To times it adds `n` times the length of the recording
//!   and one mean distance of events.
//! - **Rate division.** Of the events of all sources, in ascending order of id and over all passes, every `division`-th
//!   is kept. By position and not by the id itself: recordings lack ids, some in a regular way (a camera whose every
//!   fourth event was stored), and of such one would keep all or nothing.
//! - **Pace.** A fixed rate counts the events that are kept; the recorded times are those since the first event of all
//!   sources.
//!
//! Damaged records are counted and skipped: their events lack this source.

use crate::pacing::{FragmentTiming, Pace, PaceError, Pacer, Schedule};
use crate::stream_set::{Shift, StreamInfo, StreamSet, Timeline};
use crate::{Source, SourcePoll, SourceStats};
use bytes::Bytes;
use sheaf_store::fragment_stream::{StreamDamage, StreamOpenError, StreamReadError, StreamReader};
use sheaf_wire::{ByteCount, EventId, Fragment, Nanos, SourceId, Timestamp};
use std::fs::File;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of records that one poll skips, so that a high rate division does not hold the thread of the readout
/// unit.
const SKIPPED_RECORDS_PER_POLL: u32 = 64;

/// Replay of a recording. All sources of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayConfig {
    /// Number of passes; `None`: until stopped.
    pub passes: Option<NonZeroU64>,
    /// N: every N-th event is kept.
    pub division: NonZeroU64,
    /// When fragments may go.
    pub pace: Pace,
    /// Whether payloads are compared with their checksums when they are read. A wrong payload is then a missing
    /// fragment; otherwise it is returned with the checksum that it should have.
    pub check_payloads: bool,
}

impl Default for ReplayConfig {
    /// Everything once, at full speed, checked.
    fn default() -> Self {
        Self {
            passes: Some(NonZeroU64::MIN),
            division: NonZeroU64::MIN,
            pace: Pace::default(),
            check_payloads: true,
        }
    }
}

/// Reason why a stream cannot be replayed as configured.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no stream of this source.
    #[error("{directory} has no fragment stream of source {source_id}")]
    UnknownSource {
        /// The source that was asked for.
        source_id: SourceId,
        /// The directory.
        directory: PathBuf,
    },
    /// The stream cannot be opened.
    #[error(transparent)]
    Open(#[from] StreamOpenError),
    /// The pace is wrong.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// The recorded times are required, and the stream has none.
    #[error("{path} has no times to replay it at; replay at full speed or at a fixed rate")]
    NoTimes {
        /// The stream.
        path: PathBuf,
    },
}

/// A source that replays a fragment stream.
#[derive(Debug)]
pub struct ReplaySource {
    reader: StreamReader<File>,
    timeline: Arc<Timeline>,
    config: ReplayConfig,
    pacer: Pacer,
    /// Number of this pass, from zero, and the offset that it adds.
    pass: u64,
    shift: Shift,
    /// Position of the last event read, where the search for the next begins.
    rank: usize,
    /// Earlier events are passed over: they had ended when the readout unit joined the run.
    first: EventId,
    /// Fragment that is due next, kept while it waits.
    next: Option<(Fragment<Bytes>, FragmentTiming)>,
    ended: bool,
    stats: SourceStats,
}

impl StreamSet {
    /// Makes the source that replays the stream of `source`.
    ///
    /// # Errors
    /// If there is no such stream, it cannot be opened again, or it lacks data that the configuration needs.
    pub fn source(&self, source: SourceId, config: &ReplayConfig) -> Result<ReplaySource, ReplayError> {
        let index = self.streams.binary_search_by_key(&source, |stream| stream.source).map_err(|_| {
            ReplayError::UnknownSource { source_id: source, directory: self.directory.clone() }
        })?;
        ReplaySource::open(&self.streams[index], Arc::clone(&self.timeline), config)
    }
}

impl ReplaySource {
    pub(crate) fn open(
        stream: &StreamInfo,
        timeline: Arc<Timeline>,
        config: &ReplayConfig,
    ) -> Result<Self, ReplayError> {
        if matches!(config.pace.schedule, Schedule::Recorded { .. }) && !stream.has_times {
            return Err(ReplayError::NoTimes { path: stream.path.clone() });
        }
        let mut reader = StreamReader::open(&stream.path)?;
        reader.check_payloads(config.check_payloads);
        Ok(Self {
            reader,
            shift: timeline.shift(0),
            timeline,
            config: *config,
            pacer: Pacer::new(&config.pace)?,
            pass: 0,
            rank: 0,
            first: EventId(0),
            next: None,
            ended: false,
            stats: SourceStats::default(),
        })
    }

    /// Returns the next kept fragment, or the reason why there is none now.
    fn read(&mut self, now: Timestamp) -> Result<(Fragment<Bytes>, FragmentTiming), SourcePoll> {
        for _ in 0..SKIPPED_RECORDS_PER_POLL {
            match self.reader.next() {
                Some(Ok(fragment)) => match self.renumber(fragment) {
                    Some(Kept::Yes(fragment, place)) if fragment.event < self.first => {
                        self.pacer.begin_at(place);
                    }
                    Some(Kept::Yes(fragment, place)) => return Ok((fragment, place)),
                    Some(Kept::No) => self.stats.divided += 1,
                    // Event ids have run out.
                    None => return Err(self.end()),
                },
                Some(Err(error)) => {
                    self.note(&error);
                    if matches!(error, StreamReadError::Io { .. }) {
                        return Err(self.end());
                    }
                }
                None => {
                    if !self.begin_pass() {
                        return Err(self.end());
                    }
                }
            }
        }
        Err(SourcePoll::NotBefore(now))
    }

    fn renumber(&mut self, fragment: Fragment<Bytes>) -> Option<Kept> {
        self.rank = self.timeline.rank(fragment.event, self.rank);
        let mut place = self.timeline.place(self.rank, fragment.time, &self.shift);
        let event = EventId(fragment.event.0.checked_add(self.shift.id?)?);
        if !place.position.is_multiple_of(self.config.division.get()) {
            return Some(Kept::No);
        }
        place.position /= self.config.division;
        let time = if self.reader.header().has_times {
            fragment.time + Nanos(self.shift.time)
        } else {
            fragment.time
        };
        let payload = if self.config.division == NonZeroU64::MIN {
            fragment.payload
        } else {
            // The payload is a slice of a large block; alone in it, it would hold the memory of all that was skipped.
            Bytes::copy_from_slice(&fragment.payload)
        };
        let fragment = Fragment { event, time, payload, ..fragment };
        Some(Kept::Yes(fragment, place))
    }

    /// Goes back to the start of the stream, if there is another pass and anything to read in it.
    fn begin_pass(&mut self) -> bool {
        let is_last = self.config.passes.is_some_and(|passes| self.pass + 1 >= passes.get());
        if is_last || self.reader.counts().records == 0 {
            return false;
        }
        self.pass += 1;
        self.shift = self.timeline.shift(self.pass);
        self.rank = 0;
        match self.reader.rewind() {
            Ok(()) => true,
            Err(error) => {
                self.note(&error);
                false
            }
        }
    }

    fn note(&mut self, error: &StreamReadError) {
        self.stats.last_error = Some(error.to_string());
        match error {
            StreamReadError::Io { .. } => self.stats.read_errors += 1,
            StreamReadError::Damaged { damage, .. } => match damage {
                StreamDamage::Header { .. } => self.stats.corrupt_headers += 1,
                StreamDamage::Payload { .. } => self.stats.corrupt_payloads += 1,
                // No record is lost: the number of existing records is correct.
                StreamDamage::Trailer { .. } | StreamDamage::BytesAfterTrailer(_) => {}
            },
        }
    }

    fn end(&mut self) -> SourcePoll {
        self.ended = true;
        self.next = None;
        SourcePoll::Ended
    }
}

/// A source that a recording should have and lacks. It ends at once.
#[derive(Clone, Copy, Debug)]
pub struct AbsentSource(pub SourceId);

impl Source for AbsentSource {
    fn id(&self) -> SourceId {
        self.0
    }

    fn keeps_data(&self) -> bool {
        true
    }

    fn poll(&mut self, _now: Timestamp) -> SourcePoll {
        SourcePoll::Ended
    }

    fn stop(&mut self) {}

    fn stats(&self) -> SourceStats {
        SourceStats::default()
    }
}

enum Kept {
    Yes(Fragment<Bytes>, FragmentTiming),
    No,
}

impl Source for ReplaySource {
    fn id(&self) -> SourceId {
        self.reader.header().source
    }

    fn keeps_data(&self) -> bool {
        true
    }

    fn skip_to(&mut self, event: EventId) {
        self.first = event;
        let last = self.config.passes.map_or(u64::MAX, |passes| passes.get() - 1);
        self.pass = self.timeline.passes_below(event).min(last);
        self.shift = self.timeline.shift(self.pass);
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.ended {
            return SourcePoll::Ended;
        }
        let (fragment, place) = match self.next.take().map_or_else(|| self.read(now), Ok) {
            Ok(next) => next,
            Err(nothing) => return nothing,
        };
        if let Err(ready) = self.pacer.admit(now, place) {
            self.next = Some((fragment, place));
            return SourcePoll::NotBefore(ready);
        }
        self.pacer.sent(now, place);
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(fragment.payload.len());
        SourcePoll::Fragment(fragment)
    }

    fn stop(&mut self) {
        self.end();
    }

    fn stats(&self) -> SourceStats {
        SourceStats { max_lag: self.pacer.max_lag(), ..self.stats.clone() }
    }
}

#[cfg(test)]
mod tests;
