//! Events end, or come back unbuilt.
//!
//! A builder's message tells of many events, and mostly they follow on one another and ended alike. So what is the same for all of
//! them is done once for a run of such events; only what each has of its own, its entry and its size, is looked at one by one.

use super::{Ended, Entry, EventManager, ManagerEvent};
use crate::event_range::EventIdRange;
use crate::ledger::Counter;
use sheaf_wire::message::{Finished, Release};
use sheaf_wire::{ByteCount, DropReason, EventId, Outcome, Timestamp};

/// Consecutive events that ended for one reason and are not booked yet.
struct Run {
    first: EventId,
    reason: Option<DropReason>,
    /// Number of events in flight before the first of them ended.
    in_flight: usize,
    /// The last of them, as far as they are alike in everything; those before were told.
    last: Ended,
}

impl Run {
    /// With an event that was taken out of the table, which has so many now.
    fn begin(ended: Ended, reason: Option<DropReason>, others: usize) -> Self {
        Self { first: ended.first, reason, in_flight: others + 1, last: ended }
    }

    /// Whether an event that ended next goes on with these.
    fn goes_on(&self, finished: &Finished) -> bool {
        self.last.first.0.checked_add(u64::from(self.last.count)) == Some(finished.event.0)
            && (self.last.outcome, self.reason) == (finished.outcome, finished.reason)
    }
}

impl<P: Clone> EventManager<P> {
    /// A builder says what became of events, in the order in which they ended there.
    pub(super) fn handle_finished(&mut self, now: Timestamp, builder: u16, all: &[Finished]) {
        let (mut stored, mut returned, mut some_ended) = (0, 0, false);
        let mut run: Option<Run> = None;
        for finished in all {
            stored += u64::from(finished.outcome == Outcome::Stored);
            if finished.outcome == Outcome::GivenBack {
                self.book(now, run.take());
                returned += usize::from(self.take_back(now, builder, finished));
                continue;
            }
            let is_current = |entry: &Entry| entry.is_at(builder, finished.attempt);
            let Some(entry) = self.table.remove_if(finished.event, is_current) else {
                self.counters.count(Counter::StaleMessages, 1);
                continue;
            };
            (returned, some_ended) = (returned + 1, true);
            self.builders.remove_suspect(builder, &entry);
            self.builders.learn_size(finished.bytes);
            let ended = Ended {
                first: finished.event,
                count: 1,
                outcome: finished.outcome,
                builder: Some(builder),
                latency: now.since(entry.began),
                bytes: finished.bytes,
                fragments: finished.fragments,
                incomplete: finished.incomplete,
            };
            match &mut run {
                Some(run) if run.goes_on(finished) => {
                    if !run.last.join(&ended) {
                        self.tell(std::mem::replace(&mut run.last, ended));
                    }
                }
                _ => self.book(now, run.replace(Run::begin(ended, finished.reason, self.table.len()))),
            }
        }
        self.book(now, run);
        self.builders.take_back(now, builder, returned, stored, some_ended);
    }

    /// A builder gives an event back; whether it had it.
    fn take_back(&mut self, now: Timestamp, builder: u16, finished: &Finished) -> bool {
        let entry = self.table.get(finished.event);
        let entry = entry.filter(|entry| entry.is_at(builder, finished.attempt));
        let is_current = entry.is_some();
        if let Some(entry) = entry {
            self.builders.remove_suspect(builder, entry);
            self.try_again(now, finished.event, finished.reason);
        } else {
            self.counters.count(Counter::StaleMessages, 1);
        }
        is_current
    }

    /// An event comes back unbuilt: it goes to another builder, or it had its chances. There is no reason where it made way for
    /// others; that takes no chance from it.
    pub(super) fn try_again(&mut self, now: Timestamp, event: EventId, reason: Option<DropReason>) {
        let Some(entry) = self.table.get_mut(event) else {
            return;
        };
        entry.assigned = false;
        entry.failures += u16::from(reason.is_some());
        if entry.failures >= self.config.max_attempts || entry.attempt == u16::MAX {
            let reason = reason.unwrap_or(DropReason::BuilderOutOfMemory);
            self.drop_event(now, event, reason);
        } else {
            self.backlog.put_back(event);
        }
    }

    /// Ends an event that no builder has ended.
    pub(super) fn drop_event(&mut self, now: Timestamp, event: EventId, reason: DropReason) {
        let Some(entry) = self.table.remove(event) else {
            return;
        };
        let ended = Ended {
            first: event,
            count: 1,
            outcome: Outcome::Dropped,
            builder: None,
            latency: now.since(entry.began),
            bytes: ByteCount::ZERO,
            fragments: 0,
            incomplete: false,
        };
        self.book(now, Some(Run::begin(ended, Some(reason), self.table.len())));
    }

    /// Books events that were taken out of the table.
    fn book(&mut self, now: Timestamp, run: Option<Run>) {
        let Some(Run { first, reason, in_flight, last }) = run else {
            return;
        };
        // As long as events end, the others may yet.
        self.phase.prolong_draining(now);
        let count = u32::try_from(last.first.0 - first.0).map_or(u32::MAX, |before| before + last.count);
        let outcome = last.outcome;
        self.totals.end(outcome, reason, count);
        self.ended.insert(EventIdRange::new(first, u64::from(count)));
        let release = Release { first, count, outcome, reason, parts: 0 };
        self.releases.add(now + self.config.batch_time, release, in_flight);
        self.tell(last);
    }

    /// Tells the driver of events that have ended, and adds up what is stored.
    fn tell(&mut self, ended: Ended) {
        self.totals.add_stored(&ended);
        self.events.push_back(ManagerEvent::Ended(ended));
    }
}
