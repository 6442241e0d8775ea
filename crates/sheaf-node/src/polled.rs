//! Sources of a library (`source.kind = "library"`), which the thread of the readout unit polls.
//!
//! A poll gives fragments of all sources of the readout unit. They are copied into the memory of each source; while one source
//! has no memory or too many fragments wait, the library is not polled. What a library says is checked, and what is invalid is
//! counted by name and left out.
//!
//! | module | holds |
//! |---|---|
//! | [`feeder`] | the loop of a process that polls the library instead, and feeds the readout unit |

pub mod feeder;

use sheaf_buffer::{Memory, Pool};
use sheaf_filter::{LibrarySource, PollEnd, PollError};
use sheaf_source::outbox::Outbox;
use sheaf_source::poll_books::PollBooks;
use sheaf_source::{Batch, BatchEnd, Source, SourcePoll, SourceStats};
use sheaf_telemetry::log_as;
use sheaf_wire::times::Times;
use sheaf_wire::{Nanos, SourceId, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of fragments of a source that wait for the readout unit.
const MOST_WAITING: usize = 65_536;

/// Pause after a poll that failed.
const FAILED_PAUSE: Nanos = Nanos::from_millis(100);

/// Returns the sources of a library, each with a pool of its own. Fragments have at most `max_fragment` bytes.
pub(crate) fn sources<M: Memory + 'static>(
    library: LibrarySource,
    sources: &[SourceId],
    max_fragment: usize,
    pool: impl Fn() -> Pool<M>,
) -> Vec<Box<dyn Source>> {
    let outbox = |source: &SourceId| (*source, Outbox::new(*source, pool()));
    let shared = Arc::new(Mutex::new(Polled {
        library,
        max_fragment,
        outboxes: sources.iter().map(outbox).collect(),
        next: None,
        end: PollEnd::More,
        not_before: Timestamp::ZERO,
        has_started: false,
        has_stopped: false,
        books: PollBooks::default(),
        last_error: None,
    }));
    let source = |(index, id): (usize, &SourceId)| -> Box<dyn Source> {
        Box::new(PolledSource { id: *id, is_first: index == 0, polled: shared.clone() })
    };
    sources.iter().enumerate().map(source).collect()
}

/// A library, and the fragments that it has given.
struct Polled<M: Memory> {
    library: LibrarySource,
    max_fragment: usize,
    outboxes: BTreeMap<SourceId, Outbox<M>>,
    /// Place of the first fragment of the last poll that was not copied; `None` if all were.
    next: Option<usize>,
    /// Answer of the last poll.
    end: PollEnd,
    not_before: Timestamp,
    has_started: bool,
    has_stopped: bool,
    books: PollBooks,
    last_error: Option<String>,
}

impl<M: Memory> Polled<M> {
    /// Polls the library if it is time and there is room. Returns how the source that asks goes on if it has nothing then.
    fn work(&mut self, now: Timestamp) -> BatchEnd {
        if !self.copy() {
            return BatchEnd::OutOfMemory;
        }
        if self.end == PollEnd::Ended {
            return BatchEnd::Ended;
        }
        if now < self.not_before {
            return BatchEnd::NotBefore(self.not_before);
        }
        self.books.polls += 1;
        match self.library.poll() {
            Ok(end) => {
                (self.end, self.next) = (end, Some(0));
                if let PollEnd::After(pause) = end {
                    self.not_before = now + pause;
                }
            }
            Err(error) => {
                self.not_before = now + FAILED_PAUSE;
                self.note_failure(&error);
            }
        }
        match (self.copy(), self.end) {
            (false, _) => BatchEnd::OutOfMemory,
            (true, PollEnd::Ended) => BatchEnd::Ended,
            (true, _) => BatchEnd::NotBefore(self.not_before),
        }
    }

    fn note_failure(&mut self, error: &PollError) {
        let count = match error {
            PollError::Failed(_) => &mut self.books.polls_failed,
            PollError::Invalid(_) => &mut self.books.batches_invalid,
        };
        *count += 1;
        if let Some(times) = Times::to_log(*count) {
            log_as!(SOURCE_LIBRARY_FAILED; "the library of `source.library.path` failed: {error}{times}");
        }
        self.last_error = Some(error.to_string());
    }

    /// Copies the fragments of the last poll, as far as there is memory. Returns whether all are copied.
    fn copy(&mut self) -> bool {
        let Self { library, max_fragment, outboxes, next, books, .. } = self;
        let Some(at) = next else { return true };
        while let Some(fragment) = library.fragment(*at) {
            match (outboxes.get_mut(&fragment.source), fragment.payload) {
                (None, _) => books.fragments_unknown_source += 1,
                (Some(_), None) => books.fragments_without_data += 1,
                (Some(_), Some(payload)) if payload.len() > *max_fragment => books.fragments_too_large += 1,
                (Some(outbox), Some(payload)) => {
                    let is_full = outbox.waiting() >= MOST_WAITING;
                    if is_full || !outbox.try_put(fragment.event, fragment.time, payload) {
                        return false;
                    }
                }
            }
            *at += 1;
        }
        *next = None;
        true
    }

    fn start(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.library.start();
        }
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.has_stopped, true) {
            return;
        }
        // Those that were polled and not copied cannot be taken any more.
        let from = self.next.take();
        let not_copied = from.map_or(0, |from| (from..).map_while(|at| self.library.fragment(at)).count());
        let waiting: usize = self.outboxes.values().map(Outbox::waiting).sum();
        self.books.fragments_after_stop = (not_copied + waiting) as u64;
        self.library.stop();
    }
}

/// A source of a library.
struct PolledSource<M: Memory> {
    id: SourceId,
    is_first: bool,
    /// Only the thread of the readout unit locks it.
    polled: Arc<Mutex<Polled<M>>>,
}

impl<M: Memory> PolledSource<M> {
    fn polled(&self) -> MutexGuard<'_, Polled<M>> {
        self.polled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Memory> Source for PolledSource<M> {
    fn id(&self) -> SourceId {
        self.id
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        sheaf_source::poll_one(self, now)
    }

    fn poll_batch(&mut self, now: Timestamp, most: usize, batch: &mut Batch) -> BatchEnd {
        let mut polled = self.polled();
        if polled.has_stopped {
            return BatchEnd::Ended;
        }
        let take = |polled: &mut Polled<M>, batch: &mut Batch| {
            polled.outboxes.get_mut(&self.id).is_some_and(|outbox| outbox.take(most, batch))
        };
        if take(&mut polled, batch) {
            return BatchEnd::More;
        }
        let otherwise = polled.work(now);
        if take(&mut polled, batch) { BatchEnd::More } else { otherwise }
    }

    /// A library is polled only while there is room.
    fn keeps_data(&self) -> bool {
        true
    }

    fn start(&mut self) {
        self.polled().start();
    }

    fn stop(&mut self) {
        self.polled().stop();
    }

    fn stats(&self) -> SourceStats {
        let polled = self.polled();
        let stats = polled.outboxes.get(&self.id).map(|outbox| outbox.stats().clone()).unwrap_or_default();
        let (books, last_error) = match self.is_first {
            true => (Some(polled.books), polled.last_error.clone()),
            false => (None, None),
        };
        SourceStats { polled: books, last_error, ..stats }
    }
}

#[cfg(test)]
mod tests;
