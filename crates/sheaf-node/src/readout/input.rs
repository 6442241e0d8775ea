//! A source of a readout unit, on its way to the role.

use super::mirrored::Guard;
use crate::parcels::Parcels;
use crate::telemetry::SourceWatch;
use crate::traces::ReadoutTrace;
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_source::{Batch, BatchEnd, Source, SourceStats};
use sheaf_wire::message::UnitInput;
use sheaf_wire::{Fragment, Nanos, Span, Timestamp};
use std::collections::VecDeque;

/// Maximum number of fragments taken from one source in a round: enough to share the cost of the round, few enough that
/// they are still in the cache when they are sent.
const FRAGMENTS_PER_ROUND: usize = 64;

/// Interval after which a starved or held-back source is checked again, if nothing else happens first. Memory returned
/// by another process wakes no thread, so this is the longest time that it is unused.
pub(super) const RETRY_SOURCES: Nanos = Nanos::from_millis(1);

/// See the [module](self).
pub(super) struct Input {
    pub(super) source: Box<dyn Source>,
    /// Whether it was told that a run has begun. Where one run follows another, it goes on.
    pub(super) has_started: bool,
    /// Whether the program that feeds it has gone.
    pub(super) is_gone: bool,
    /// Fragments of this run that the unit held at the end of the run before, the oldest first. The source knows that they are accepted.
    pub(super) held: VecDeque<Fragment<Span>>,
    /// Counts of earlier runs.
    pub(super) before: SourceStats,
    /// Latest batch of the source.
    pub(super) batch: Batch,
    /// Number of its fragments that the role has taken.
    pub(super) had: usize,
    /// State of the source after the batch.
    pub(super) then: BatchEnd,
    pub(super) ended: bool,
    /// Whether the role was told to exclude the source.
    pub(super) excluded: bool,
    pub(super) watch: SourceWatch,
    /// Whether the role had no room for the rest of the batch.
    is_refused: bool,
    /// Number of fragments that the role has accepted and the mirror has not confirmed, and the reverse.
    accepted: usize,
    confirmed: usize,
}

impl Input {
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        Self {
            source,
            has_started: false,
            is_gone: false,
            held: VecDeque::new(),
            before: SourceStats::default(),
            batch: Batch::default(),
            had: 0,
            then: BatchEnd::More,
            ended: false,
            excluded: false,
            watch: SourceWatch::NEW,
            is_refused: false,
            accepted: 0,
            confirmed: 0,
        }
    }

    /// Passes the source's fragments to the role. Returns their number, whether there may be more at once, and when to check again.
    pub(super) fn take(
        &mut self,
        role: &mut ReadoutUnit<Span>,
        (parcels, mut guard): (&mut Parcels, Option<(&mut Guard, u16)>),
        (now, mut trace): (Timestamp, Option<(&mut ReadoutTrace, usize)>),
    ) -> (usize, bool, Timestamp) {
        // Data that wait are not taken to be dropped: the source goes on where it was, or else it would run away from the others.
        if self.excluded && self.source.keeps_data() {
            return (0, false, Timestamp::MAX);
        }
        let mut taken = self.take_held(now, role);
        if !self.held.is_empty() {
            return (taken, taken > 0, now + RETRY_SOURCES);
        }
        if self.ended {
            return (taken, taken > 0, Timestamp::MAX);
        }
        while taken < FRAGMENTS_PER_ROUND {
            if self.had == self.batch.fragments.len() {
                if guard.as_ref().is_some_and(|(guard, _)| !guard.has_room()) {
                    return (taken, taken > 0, now + RETRY_SOURCES);
                }
                let guard = guard.as_mut().map(|(guard, source)| (&mut **guard, *source));
                if !self.refill((parcels, guard), now, FRAGMENTS_PER_ROUND - taken) {
                    break;
                }
            }
            if self.is_refused && guard.as_ref().is_some_and(|(guard, _)| !guard.may_retry()) {
                return (taken, taken > 0, now + RETRY_SOURCES);
            }
            if let Some((guard, source)) = &mut guard {
                guard.take(|| UnitInput::Offer { source: *source });
            }
            let given = role.handle_fragments(now, self.rest());
            if let Some((trace, source)) = &mut trace {
                trace.arrived(*source, &self.rest()[..given]);
            }
            self.note_accepted(given, guard.is_some());
            self.had += given;
            self.watch.note(given);
            taken += given;
            self.is_refused = self.had < self.batch.fragments.len();
            if self.is_refused {
                return (taken, taken > 0, now + RETRY_SOURCES);
            }
        }
        match self.then {
            BatchEnd::More => (taken, true, now),
            BatchEnd::NotBefore(at) => (taken, taken > 0, at),
            BatchEnd::Idle => (taken, taken > 0, Timestamp::MAX),
            BatchEnd::OutOfMemory => (taken, taken > 0, now + RETRY_SOURCES),
            BatchEnd::Ended => {
                self.ended = true;
                if let Some((guard, source)) = &mut guard {
                    guard.take(|| UnitInput::SourceEnd { source: *source });
                }
                role.handle_source_end(now, self.source.id());
                (taken, true, Timestamp::MAX)
            }
        }
    }

    /// Begins a run that follows another one: its role has to know what became of the source before.
    pub(super) fn go_on(&mut self, role: &mut ReadoutUnit<Span>, now: Timestamp) {
        self.before = self.source.stats();
        self.excluded = false;
        self.wake();
        let source = self.source.id();
        if self.is_gone {
            role.handle_source_gone(now, source, true);
        }
        if self.ended && self.held.is_empty() {
            role.handle_source_end(now, source);
        }
    }

    /// Passes fragments to the role that the unit held at the end of the run before, as far as there is room. Returns their number.
    pub(super) fn take_held(&mut self, now: Timestamp, role: &mut ReadoutUnit<Span>) -> usize {
        let mut taken = 0;
        while let Some(fragment) = self.held.front()
            && role.handle_fragment(now, fragment.clone()).is_ok()
        {
            self.held.pop_front();
            taken += 1;
        }
        if taken > 0 {
            self.watch.note(taken);
            if self.ended && self.held.is_empty() {
                role.handle_source_end(now, self.source.id());
            }
        }
        taken
    }

    /// Returns the counts of the source in this run.
    pub(super) fn stats(&self) -> SourceStats {
        self.source.stats().since(&self.before)
    }

    /// Polls the source in this round, even if it has said that it has nothing before a later time.
    pub(super) fn wake(&mut self) {
        if matches!(self.then, BatchEnd::NotBefore(_)) {
            self.then = BatchEnd::More;
        }
    }

    /// The fragments that the role has not had.
    pub(super) fn rest(&self) -> &[Fragment<Span>] {
        &self.batch.fragments[self.had..]
    }

    /// Asks the source for its next batch. False if it has nothing now.
    pub(super) fn refill(
        &mut self,
        (parcels, guard): (&mut Parcels, Option<(&mut Guard, u16)>),
        now: Timestamp,
        most: usize,
    ) -> bool {
        match self.then {
            BatchEnd::NotBefore(at) if at > now => return false,
            BatchEnd::Ended => return false,
            BatchEnd::More | BatchEnd::OutOfMemory | BatchEnd::Idle | BatchEnd::NotBefore(_) => {}
        }
        let batch = &mut self.batch;
        batch.fragments.clear();
        self.had = 0;
        self.then = self.source.poll_batch(now, most, batch);
        let payload = std::mem::take(&mut batch.payload);
        if batch.fragments.is_empty() {
            return false;
        }
        // Each fragment is also kept until the mirror has it.
        let holders = 1 + usize::from(guard.is_some());
        let parcel = parcels.keep(payload, batch.fragments.len() * holders);
        for fragment in &mut batch.fragments {
            fragment.payload.parcel = parcel;
        }
        if let Some((guard, source)) = guard {
            guard.take_fragments(source, &batch.fragments);
        }
        true
    }

    /// Tells the source that the role has accepted fragments, once the mirror has them as well.
    fn note_accepted(&mut self, given: usize, has_mirror: bool) {
        if has_mirror {
            self.accepted += given;
            self.tell_accepted();
        } else {
            self.source.handle_accepted(given);
        }
    }

    /// Records that the mirror has the next fragments that were read.
    pub(super) fn note_confirmed(&mut self, fragments: usize) {
        self.confirmed += fragments;
        self.tell_accepted();
    }

    fn tell_accepted(&mut self) {
        let both = self.accepted.min(self.confirmed);
        if both > 0 {
            self.accepted -= both;
            self.confirmed -= both;
            self.source.handle_accepted(both);
        }
    }

    /// Adds fragments that the readout unit of this mirror has read.
    pub(super) fn append(&mut self, fragments: Vec<Fragment<Span>>) {
        self.batch.fragments.drain(..std::mem::take(&mut self.had));
        self.batch.fragments.extend(fragments);
    }
}
