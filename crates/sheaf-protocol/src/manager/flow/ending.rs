//! Ends of events, and events that are returned unbuilt.
//!
//! A builder's message reports many events, which are usually consecutive and have the same outcome. So common work is done once
//! for a range of such events; only the entry and the size of each event are handled one by one.

use super::{Entry, EventFlow, ManagerEvents, Returned};
use crate::event_range::EventIdRange;
use crate::manager::builders::ReportedEvents;
use crate::manager::{Ended, ManagerEvent};
use sheaf_wire::message::{Finished, Release};
use sheaf_wire::{ByteCount, DropReason, EventId, Outcome, Timestamp};

/// Consecutive events that ended for the same reason and are not booked yet.
struct Run {
    /// First of them.
    first: EventId,
    /// Reason of their end; `None` if they were built. Events that ended for different reasons are not booked together.
    reason: Option<DropReason>,
    /// Number of events in flight before the first of them ended.
    in_flight: usize,
    /// Last events with identical properties. Earlier ones have been reported.
    last: Ended,
}

impl Run {
    /// Begins a range with an event that was removed from the table, which now has `others` events.
    fn begin(ended: Ended, reason: Option<DropReason>, others: usize) -> Self {
        Self { first: ended.first, reason, in_flight: others + 1, last: ended }
    }

    /// Returns whether an event that ended next continues the range.
    fn continues(&self, finished: &Finished) -> bool {
        self.last.first.0.checked_add(u64::from(self.last.count)) == Some(finished.event.0)
            && (self.last.outcome, self.reason) == (finished.outcome, finished.reason)
    }
}

impl EventFlow {
    /// Handles a builder's report of the outcomes of events, in the order in which they ended there.
    pub(super) fn handle_finished(
        &mut self,
        now: Timestamp,
        builder: u16,
        all: &[Finished],
        reports: &mut ManagerEvents,
    ) -> Returned {
        let mut events = ReportedEvents::default();
        let mut result = Returned::default();
        let mut run: Option<Run> = None;
        for finished in all {
            events.stored += u64::from(finished.outcome == Outcome::Stored);
            if finished.outcome == Outcome::GivenBack {
                result.some_ended |= self.book(now, run.take(), reports);
                match self.take_back(now, builder, finished, reports) {
                    Some(ended) => {
                        events.returned += 1;
                        result.some_ended |= ended;
                    }
                    None => result.stale += 1,
                }
                continue;
            }
            let is_current = |entry: &Entry| entry.is_at(builder, finished.attempt);
            let Some(entry) = self.table.remove_if(finished.event, is_current) else {
                result.stale += 1;
                continue;
            };
            (events.returned, events.some_ended) = (events.returned + 1, true);
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
                Some(run) if run.continues(finished) => {
                    if !run.last.join(&ended) {
                        self.report(std::mem::replace(&mut run.last, ended), reports);
                    }
                }
                _ => {
                    let before = run.replace(Run::begin(ended, finished.reason, self.table.len()));
                    result.some_ended |= self.book(now, before, reports);
                }
            }
        }
        result.some_ended |= self.book(now, run, reports);
        self.builders.take_back(now, builder, events);
        result
    }

    /// Takes an event that a builder gives back, if it had it. Returns whether the event has ended because its attempts are exhausted.
    fn take_back(
        &mut self,
        now: Timestamp,
        builder: u16,
        finished: &Finished,
        reports: &mut ManagerEvents,
    ) -> Option<bool> {
        let entry = self.table.get(finished.event)?;
        if !entry.is_at(builder, finished.attempt) {
            return None;
        }
        self.builders.remove_suspect(builder, entry);
        Some(self.try_again(now, finished.event, finished.reason, reports))
    }

    /// Handles an event that is returned unbuilt: it waits for another builder, or its attempts are exhausted. `reason` is `None` if
    /// it was returned to make way for others, which does not count as an attempt. Returns whether its attempts are exhausted and it
    /// has ended.
    pub(super) fn try_again(
        &mut self,
        now: Timestamp,
        event: EventId,
        reason: Option<DropReason>,
        reports: &mut ManagerEvents,
    ) -> bool {
        let Some(entry) = self.table.get_mut(event) else {
            return false;
        };
        entry.assigned = false;
        entry.failures += u16::from(reason.is_some());
        if entry.failures >= self.config.max_attempts || entry.attempt == u16::MAX {
            let reason = reason.unwrap_or(DropReason::BuilderOutOfMemory);
            self.drop_event(now, event, reason, reports);
            true
        } else {
            self.backlog.put_back(event);
            false
        }
    }

    /// Ends an event that no builder has ended.
    pub(super) fn drop_event(
        &mut self,
        now: Timestamp,
        event: EventId,
        reason: DropReason,
        reports: &mut ManagerEvents,
    ) {
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
        self.book(now, Some(Run::begin(ended, Some(reason), self.table.len())), reports);
    }

    /// Books events that were removed from the table. Returns whether there were any.
    fn book(&mut self, now: Timestamp, run: Option<Run>, reports: &mut ManagerEvents) -> bool {
        let Some(Run { first, reason, in_flight, last }) = run else {
            return false;
        };
        let count = u32::try_from(last.first.0 - first.0).map_or(u32::MAX, |before| before + last.count);
        let outcome = last.outcome;
        self.totals.end(outcome, reason, count);
        self.ended.insert(EventIdRange::new(first, u64::from(count)));
        let release = Release { first, count, outcome, reason, parts: 0 };
        self.releases.add(now + self.config.batch_time, release, in_flight);
        self.report(last, reports);
        true
    }

    /// Reports ended events to the driver, and adds up the stored bytes.
    fn report(&mut self, ended: Ended, reports: &mut ManagerEvents) {
        self.totals.add_stored(&ended);
        reports.push_back(ManagerEvent::Ended(ended));
    }
}
