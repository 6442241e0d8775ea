//! Events end, or come back unbuilt.
//!
//! A builder's message tells of many events, and mostly they follow on one another and ended alike. So what is the same for all of
//! them is done once for a run of such events; only what each has of its own, its entry and its size, is looked at one by one.

use super::{Ended, Entry, EventManager, ManagerEvent, Phase};
use crate::ledger::Counter;
use sheaf_wire::message::{Finished, Release};
use sheaf_wire::{ByteCount, DropReason, EventId, Outcome, Timestamp};

/// Consecutive events that ended for one reason and are not booked yet.
#[derive(Clone, Copy)]
struct Run {
    first: EventId,
    count: u32,
    outcome: Outcome,
    reason: Option<DropReason>,
    fragments: u64,
    bytes: ByteCount,
    incomplete: u64,
}

impl Run {
    /// One event, of which nothing was built as far as is known.
    fn of_one(first: EventId, outcome: Outcome, reason: Option<DropReason>) -> Self {
        Self { first, count: 1, outcome, reason, fragments: 0, bytes: ByteCount::ZERO, incomplete: 0 }
    }

    /// Takes an event in that ended next, if it goes on with these.
    fn join(&mut self, finished: &Finished) -> bool {
        let goes_on = self.first.0.checked_add(u64::from(self.count)) == Some(finished.event.0)
            && (self.outcome, self.reason) == (finished.outcome, finished.reason);
        if goes_on {
            self.count += 1;
            self.add(finished);
        }
        goes_on
    }

    fn add(&mut self, finished: &Finished) {
        self.fragments += u64::from(finished.fragments);
        self.bytes += finished.bytes;
        self.incomplete += u64::from(finished.incomplete);
    }
}

impl<P: Clone> EventManager<P> {
    /// A builder says what became of events, in the order in which they ended there.
    pub(super) fn handle_finished(&mut self, now: Timestamp, builder: u16, all: &[Finished]) {
        let (mut stored, mut returned) = (0, 0);
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
            returned += 1;
            self.learn_size(finished.bytes);
            if !run.as_mut().is_some_and(|run| run.join(finished)) {
                self.book(now, run.take());
                let begun = run.insert(Run::of_one(finished.event, finished.outcome, finished.reason));
                begun.add(finished);
            }
            self.tell(Ended {
                first: finished.event,
                count: 1,
                outcome: finished.outcome,
                builder: Some(builder),
                latency: now.since(entry.began),
                bytes: finished.bytes,
                fragments: finished.fragments,
                incomplete: finished.incomplete,
            });
        }
        self.book(now, run);
        let state = &mut self.builders[usize::from(builder)];
        // The order of a session's output is the order of these words, whatever became of the event meanwhile.
        state.committed += stored;
        state.outstanding -= returned;
    }

    /// A builder gives an event back; whether it had it.
    fn take_back(&mut self, now: Timestamp, builder: u16, finished: &Finished) -> bool {
        let entry = self.table.get(finished.event);
        let is_current = entry.is_some_and(|entry| entry.is_at(builder, finished.attempt));
        if is_current {
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
            self.again.insert(event);
        }
    }

    /// Ends an event that no builder has ended.
    pub(super) fn drop_event(&mut self, now: Timestamp, event: EventId, reason: DropReason) {
        let Some(entry) = self.table.remove(event) else {
            return;
        };
        self.book(now, Some(Run::of_one(event, Outcome::Dropped, Some(reason))));
        self.tell(Ended {
            first: event,
            count: 1,
            outcome: Outcome::Dropped,
            builder: None,
            latency: now.since(entry.began),
            bytes: ByteCount::ZERO,
            fragments: 0,
            incomplete: false,
        });
    }

    /// Books events that were taken out of the table, the last of all that were.
    fn book(&mut self, now: Timestamp, run: Option<Run>) {
        let Some(Run { first, count, outcome, reason, fragments, bytes, incomplete }) = run else {
            return;
        };
        if let Phase::Draining { until } = &mut self.phase
            && *until > now
        {
            // As long as events end, the others may yet.
            *until = now + self.config.stop_timeout;
        }
        match (outcome, reason) {
            (Outcome::Stored, _) => {
                self.ledger.stored += u64::from(count);
                self.stored_fragments += fragments;
                self.stored_bytes += bytes.0;
                self.incomplete += incomplete;
            }
            (Outcome::Rejected, _) => self.ledger.rejected += u64::from(count),
            (_, reason) => self.ledger.drop_for(reason.unwrap_or(DropReason::Stopped), u64::from(count)),
        }
        self.ended.insert_range(first, count);
        let in_flight = self.table.len() + count as usize;
        let release = Release { first, count, outcome, reason, parts: 0 };
        self.releases.add(now + self.config.batch_time, release, in_flight);
    }

    /// Tells the driver of an event that has ended.
    fn tell(&mut self, ended: Ended) {
        if let Some(ManagerEvent::Ended(last)) = self.events.back_mut()
            && last.join(&ended)
        {
            return;
        }
        self.events.push_back(ManagerEvent::Ended(ended));
    }

    /// A running mean over about 16 events, enough to follow a change of conditions.
    fn learn_size(&mut self, bytes: ByteCount) {
        let mean = self.mean_event.unwrap_or(bytes.0);
        self.mean_event = Some(mean - mean / 16 + bytes.0 / 16);
    }
}
