//! Windows of the hits of a source, on request.

use super::store::Chunk;
use super::{HitArchive, HitStore, NotHeld};
use crate::block_writer::BlockWriter;
use crate::{Source, SourceEvent, SourcePoll, SourceStats};
use bytes::Bytes;
use sheaf_buffer::{Block, Memory, Pool};
use sheaf_wire::HitInterval;
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::{ByteCount, EventId, Fragment, MissingReason, Nanos, NumberMark, SourceId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Slices that one poll takes at most, so that a source does not hold the thread of its readout unit.
const SLICES_A_POLL: usize = 64;

/// Time after which hits that an archive is about to write are looked for again.
const LOOK_AGAIN: Nanos = Nanos::from_millis(10);

/// Time after which a request that waits for hits is reported.
const LONG_WAIT: Nanos = Nanos::from_secs(10);

/// Accounts of windows. `kept` hits are in memory at the end, were `archived`, or `deleted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowBooks {
    /// Fragments given, with the hits of one request each.
    pub given: u64,
    /// Hits in these. A hit in two of them counts twice.
    pub hits_given: u64,
    /// Hits that were kept, so that windows could be requested.
    pub hits_kept: u64,
    /// Hits that went from memory to the archive.
    pub hits_archived: u64,
    /// Hits that were deleted to make room in memory, without an archive.
    pub hits_deleted: u64,
    /// Requests for hits that were no longer kept.
    pub expired: u64,
    /// Requests for windows that are not on the timeline.
    pub off_timeline: u64,
    /// Requests for windows that begin after the end of the source.
    pub after_end: u64,
    /// Requests for more hits than a fragment may have.
    pub too_large: u64,
    /// Requests that were cancelled before the hits were complete.
    pub cancelled: u64,
}

impl WindowBooks {
    /// Returns every counter with its name, in a fixed order: for reports and tables.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("windows_given", self.given),
            ("windows_expired", self.expired),
            ("windows_off_timeline", self.off_timeline),
            ("windows_after_end", self.after_end),
            ("windows_too_large", self.too_large),
            ("windows_cancelled", self.cancelled),
            ("hits_given", self.hits_given),
            ("hits_kept", self.hits_kept),
            ("hits_archived", self.hits_archived),
            ("hits_deleted", self.hits_deleted),
        ]
        .into_iter()
    }
}

/// A source whose time slices are kept, and whose fragments are windows of their hits, on request.
///
/// A request waits until the slices have passed the end of its last window. Recorded data are read ahead as far as they fit in memory,
/// and further as requests need them: they have no deadline. Live data replace the oldest ones.
///
/// A request never waits for memory of its fragment: if the pool is in use, the fragment has memory of its own. Builder units limit the number
/// of requests by their credit.
pub struct WindowSource<M: Memory> {
    inner: Box<dyn Source>,
    slice_ps: u64,
    store: HitStore,
    archive: Option<Box<dyn HitArchive>>,
    /// Requests by the end of their last window.
    requests: BTreeMap<(u64, EventId), Vec<HitInterval>>,
    writer: BlockWriter<M>,
    largest_bytes: usize,
    /// A slice of recorded data for which there is no room.
    held_back: Option<Fragment<Bytes>>,
    /// Events for the readout unit.
    events: VecDeque<SourceEvent>,
    /// The first request, since when it is that, and whether it was reported.
    waits: Option<(EventId, Timestamp, bool)>,
    books: WindowBooks,
    stats: SourceStats,
    out_of_memory: bool,
    has_ended: bool,
    stopped: bool,
}

/// Result of a request.
enum Answer {
    Given(Fragment<Bytes>),
    Missing(MissingReason),
    /// The request waits, for this reason.
    Later(SourcePoll),
}

impl<M: Memory> WindowSource<M> {
    /// Keeps the time slices of `source`, which have this length and no overlap, in `memory`. Fragments are written into blocks of `pool`.
    #[must_use]
    pub fn new(
        source: Box<dyn Source>,
        slice: Nanos,
        memory: ByteCount,
        archive: Option<Box<dyn HitArchive>>,
        pool: Pool<M>,
    ) -> Self {
        let largest_bytes = pool.block_bytes();
        Self {
            inner: source,
            slice_ps: slice.0.saturating_mul(1_000),
            store: HitStore::new(usize::try_from(memory.0).unwrap_or(usize::MAX)),
            archive,
            requests: BTreeMap::new(),
            writer: BlockWriter::new(pool),
            largest_bytes,
            held_back: None,
            events: VecDeque::new(),
            waits: None,
            books: WindowBooks::default(),
            stats: SourceStats::default(),
            out_of_memory: false,
            has_ended: false,
            stopped: false,
        }
    }

    /// Answers the requests whose windows are complete, up to the first fragment.
    fn answer(&mut self, now: Timestamp) -> Option<SourcePoll> {
        loop {
            let (&(until_ps, event), _) = self.requests.first_key_value()?;
            if until_ps > self.store.until_ps() && !self.has_ended && until_ps != u64::MAX {
                self.note_wait(event, until_ps, now);
                return None;
            }
            let windows = self.requests.remove(&(until_ps, event))?;
            match self.gather(event, &windows, now) {
                Answer::Given(fragment) => return Some(SourcePoll::Fragment(fragment)),
                Answer::Missing(reason) => self.events.push_back(SourceEvent::Missing { event, reason }),
                Answer::Later(poll) => {
                    self.requests.insert((until_ps, event), windows);
                    return Some(poll);
                }
            }
        }
    }

    /// Reports a request that waits for a long time: triggers and hits may have different clocks.
    fn note_wait(&mut self, event: EventId, until_ps: u64, now: Timestamp) {
        let (since, is_reported) = match self.waits {
            Some((first, since, is_reported)) if first == event => (since, is_reported),
            _ => (now, false),
        };
        let is_due = now.since(since) >= LONG_WAIT && !is_reported;
        self.waits = Some((event, since, is_reported || is_due));
        if is_due {
            let micros = |time_ps: u64| time_ps / 1_000_000;
            self.events.push_back(SourceEvent::Warning(format!(
                "event {event} waits for hits up to {} us after time 0 of the run, and there are hits up to {} us; if it waits on, triggers and \
                 hits have different clocks (`source.timed.zero`), or the source is silent",
                micros(until_ps),
                micros(self.store.until_ps()),
            )));
        }
    }

    /// Gathers the hits of all windows of a request.
    fn gather(&mut self, event: EventId, windows: &[HitInterval], now: Timestamp) -> Answer {
        if windows.contains(&HitInterval::NONE) {
            self.books.off_timeline += 1;
            return Answer::Missing(MissingReason::WindowOffTimeline);
        }
        let windows = join(windows);
        // After the end of a recording there is nothing, but a window that reaches over it has what is before.
        if windows.iter().any(|window| window.from_ps >= self.store.until_ps()) {
            self.books.after_end += 1;
            return Answer::Missing(MissingReason::SourceEnded);
        }
        let old = match self.read_old(&windows, now) {
            Ok(old) => old,
            Err(NotHeld::NotYet) => return Answer::Later(SourcePoll::NotBefore(now + LOOK_AGAIN)),
            Err(NotHeld::Lost) => {
                self.books.expired += 1;
                return Answer::Missing(MissingReason::WindowExpired);
            }
        };
        let recent = || windows.iter().flat_map(|window| self.store.hits_in(*window));
        let bytes = old.len() + recent().map(<[u8]>::len).sum::<usize>();
        if bytes > self.largest_bytes {
            self.books.too_large += 1;
            return Answer::Missing(MissingReason::FragmentRefused);
        }
        let payload = match self.writer.room_for(bytes) {
            Some(block) => {
                block.append(&old);
                recent().for_each(|hits| block.append(hits));
                self.out_of_memory = false;
                self.writer.cut()
            }
            // If each of two units waited for memory with the hits of other events, both would wait for ever.
            None => {
                self.stats.out_of_memory += u64::from(!std::mem::replace(&mut self.out_of_memory, true));
                let mut hits = Vec::with_capacity(bytes);
                hits.extend_from_slice(&old);
                recent().for_each(|part| hits.extend_from_slice(part));
                hits.into()
            }
        };
        self.note_given(bytes);
        let from_ps = windows.first().map_or(0, |window| window.from_ps);
        Answer::Given(Fragment {
            event,
            source: self.inner.id(),
            time: Timestamp(from_ps / 1_000),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        })
    }

    /// Returns the hits of those parts of the windows that are no longer in memory.
    fn read_old(&mut self, windows: &[HitInterval], now: Timestamp) -> Result<Vec<u8>, NotHeld> {
        let old = HitInterval { from_ps: 0, until_ps: self.store.kept_from_ps() };
        let mut hits = Vec::new();
        for part in windows.iter().filter_map(|window| window.common(old)) {
            let archive = self.archive.as_mut().ok_or(NotHeld::Lost)?;
            archive.read(self.inner.id(), part, now, &mut hits)?;
        }
        Ok(hits)
    }

    fn note_given(&mut self, bytes: usize) {
        self.books.given += 1;
        self.books.hits_given += (bytes / HIT_BYTES) as u64;
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(bytes);
    }

    /// Takes the next slice. Returns what the source said instead, if there is none.
    fn take_slice(&mut self, now: Timestamp) -> Result<(), SourcePoll> {
        if self.has_ended {
            return Err(SourcePoll::Idle);
        }
        let slice = match self.held_back.take().map_or_else(|| self.inner.poll(now), SourcePoll::Fragment) {
            SourcePoll::Fragment(slice) => slice,
            SourcePoll::Ended => {
                self.has_ended = true;
                return Ok(());
            }
            nothing => return Err(nothing),
        };
        if self.inner.keeps_data() && self.requests.is_empty() && !self.store.has_room(slice.payload.len()) {
            self.held_back = Some(slice);
            return Err(SourcePoll::Idle);
        }
        self.keep(&slice, now);
        self.inner.handle_accepted(1);
        Ok(())
    }

    fn keep(&mut self, slice: &Fragment<Bytes>, now: Timestamp) {
        let Self { store, archive, books, inner, slice_ps, .. } = self;
        let from_ps = slice.event.0.saturating_mul(*slice_ps);
        let interval = HitInterval { from_ps, until_ps: from_ps.saturating_add(*slice_ps) };
        books.hits_kept += (slice.payload.len() / HIT_BYTES) as u64;
        store.append(interval, &slice.payload, |oldest: &Chunk| {
            let hits = (oldest.hits().len() / HIT_BYTES) as u64;
            match archive {
                Some(archive) => {
                    archive.keep(inner.id(), oldest.interval(), oldest.hits(), now);
                    books.hits_archived += hits;
                }
                None => books.hits_deleted += hits,
            }
        });
    }
}

/// Returns windows in order of time, with those that overlap or touch as one.
fn join(windows: &[HitInterval]) -> Vec<HitInterval> {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<HitInterval> = Vec::with_capacity(sorted.len());
    for window in sorted {
        match joined.last_mut() {
            Some(last) if window.from_ps <= last.until_ps => *last = last.hull(window),
            _ => joined.push(window),
        }
    }
    joined
}

impl<M: Memory> Source for WindowSource<M> {
    fn id(&self) -> SourceId {
        self.inner.id()
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.stopped {
            return SourcePoll::Ended;
        }
        for _ in 0..SLICES_A_POLL {
            if let Some(answer) = self.answer(now) {
                return answer;
            }
            if let Err(nothing) = self.take_slice(now) {
                return nothing;
            }
        }
        SourcePoll::NotBefore(now)
    }

    fn answers_windows(&self) -> bool {
        true
    }

    fn handle_windows(&mut self, event: EventId, windows: &[HitInterval]) {
        let until_ps = windows.iter().map(|window| window.until_ps).max().unwrap_or(0);
        self.requests.insert((until_ps, event), windows.to_vec());
    }

    fn cancel_windows(&mut self, event: EventId) {
        let known = self.requests.len();
        self.requests.retain(|(_, other), _| *other != event);
        self.books.cancelled += (known - self.requests.len()) as u64;
    }

    crate::forward_to_source!(inner);

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front().or_else(|| self.inner.poll_event())
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.inner.prepare_to_sleep() && self.events.is_empty()
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.inner.stop();
    }

    fn stats(&self) -> SourceStats {
        let SourceStats { fragments, bytes, out_of_memory, .. } = self.stats.clone();
        let held_back = self.held_back.as_ref().map_or(0, |slice| slice.payload.len() / HIT_BYTES) as u64;
        let windows = WindowBooks { hits_kept: self.books.hits_kept + held_back, ..self.books };
        SourceStats { fragments, bytes, out_of_memory, windows: Some(windows), ..self.inner.stats() }
    }
}

#[cfg(test)]
mod tests;
