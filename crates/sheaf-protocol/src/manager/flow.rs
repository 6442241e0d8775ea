//! The events of a run, from their triggers to their ends: waiting events, the builder of each event, and outcomes.
//!
//! All of this is bookkeeping. The [event manager](super::EventManager) sends the messages and decides when the run begins and ends.
//! It passes its queue of events for the driver to methods that may end events.

mod assigning;
mod ending;

use super::backlog::Backlog;
use super::builders::{BuilderState, Builders, EndedSession};
use super::entry::Entry;
use super::precedence::Precedence;
use super::releases::{ExcludedRange, Releases};
use super::totals::Totals;
use super::{ManagerConfig, ManagerEvent, StoredTotals, Tallies, Triggers};
use crate::event_set::EventSet;
use crate::event_window::EventWindow;
use crate::ledger::Ledger;
use crate::numbering::MOST_IN_FLIGHT;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Announcement, Count, Release, Request};
use sheaf_wire::{DropReason, EventId, SessionId, Timestamp, TriggerType};
use std::collections::VecDeque;

/// Number of separate ranges of ended events that the event manager remembers. Older gaps count as ended.
const ENDED_RANGES: usize = 65_536;

/// The window of events may have more than this many places per event, because builders differ in speed.
const SPREAD: usize = 2;

/// Events for the driver, in order.
pub(super) type ManagerEvents = VecDeque<ManagerEvent>;

/// The events of a session that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostSession {
    pub(super) session: SessionId,
    /// Number of events of the session that are booked as stored.
    pub(super) committed: u64,
    /// Number of events that the session had.
    pub(super) reassigned: usize,
    /// Whether some of these have ended because their attempts are exhausted.
    pub(super) some_ended: bool,
}

/// Result of a builder's message about its events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returned {
    /// Whether some events have ended.
    pub(super) some_ended: bool,
    /// Number of events that the builder no longer has, or not in this attempt.
    pub(super) stale: u64,
}

/// See the [module](self).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EventFlow {
    config: ManagerConfig,
    builders: Builders,
    /// Events that have not ended.
    table: EventWindow<Entry>,
    backlog: Backlog,
    precedence: Precedence,
    next_event: EventId,
    /// From when the times of triggers without an id of their own count.
    zero: Timestamp,
    /// Highest event of an external trigger.
    last_given: Option<EventId>,
    /// The event that was announced last.
    last_announced: Option<EventId>,
    /// Time of the last external trigger.
    last_given_at: Timestamp,
    ended: EventSet,
    releases: Releases,
    totals: Totals,
}

impl EventFlow {
    pub(super) fn new(config: ManagerConfig) -> Self {
        Self {
            builders: Builders::new(config.builders, config.expected_event),
            table: EventWindow::new(0, SPREAD),
            backlog: Backlog::default(),
            precedence: Precedence::default(),
            next_event: config.first_event,
            zero: Timestamp::ZERO,
            last_given: None,
            last_announced: None,
            last_given_at: Timestamp::ZERO,
            ended: EventSet::new(ENDED_RANGES),
            releases: Releases::new(usize::from(config.readouts)),
            totals: Totals::default(),
            config,
        }
    }

    /// Returns the builders and their assignments.
    pub(super) fn builders(&self) -> &Builders {
        &self.builders
    }

    /// Returns the number of events that have not ended.
    pub(super) fn in_flight(&self) -> usize {
        self.table.len()
    }

    /// Returns the oldest event that has not ended.
    pub(super) fn oldest(&self) -> Option<EventId> {
        self.table.iter().map(|(event, _)| event).min()
    }

    /// Returns an event that is not above those in flight, and near the next one if there are none.
    pub(super) fn floor(&self) -> EventId {
        let last = self.last_given.or(self.last_announced);
        let next = last.map_or(self.next_event, |last| EventId(last.0.saturating_add(1)));
        self.oldest().unwrap_or(next)
    }

    /// Returns an event above those in flight, except any that are so far ahead that they have wrong numbers.
    pub(super) fn ceiling(&self) -> EventId {
        let floor = self.floor();
        let in_flight = self.table.iter().map(|(event, _)| event.0);
        let credible = in_flight.filter(|event| event - floor.0 <= MOST_IN_FLIGHT);
        EventId(credible.map(|event| event.saturating_add(1)).fold(floor.0, u64::max))
    }

    /// Returns an event above all that were ever triggered, except any that are so far ahead that they have wrong numbers.
    pub(super) fn above_all(&self) -> EventId {
        let ceiling = self.ceiling();
        let ended = self.ended.ranges().map(|(_, last)| last.0);
        let credible = ended.filter(|last| last.saturating_sub(ceiling.0) <= MOST_IN_FLIGHT);
        EventId(credible.map(|last| last.saturating_add(1)).fold(ceiling.0, u64::max))
    }

    /// Returns the current ledger of all triggers.
    pub(super) fn ledger(&self) -> Ledger {
        self.totals.ledger(self.table.len())
    }

    /// Passes the ledger to `line`, without allocation.
    pub(super) fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.totals.each_count(self.table.len(), line);
    }

    /// Returns totals of the events booked as stored.
    pub(super) fn stored(&self) -> StoredTotals {
        self.totals.stored()
    }

    /// Returns the counters that change during the run.
    pub(super) fn tallies(&self, vetoed: u64) -> Tallies {
        self.totals.tallies(self.table.len(), vetoed)
    }

    /// Returns whether the run has all its events.
    pub(super) fn is_full(&self) -> bool {
        self.config.max_events.is_some_and(|limit| self.totals.received() >= limit)
    }

    /// Returns whether the maximum number of events is waiting.
    pub(super) fn is_queue_full(&self) -> bool {
        self.backlog.len() >= self.config.queue_events
    }

    // Events begin.

    /// Accepts a trigger: the next event waits for a builder.
    pub(super) fn accept_next(&mut self, time: Timestamp, kind: TriggerType) -> EventId {
        let event = self.next_event;
        self.next_event = EventId(event.0 + 1);
        self.accept(event, Timestamp(time.0.saturating_sub(self.zero.0)), time, kind);
        self.backlog.push(event);
        event
    }

    /// Counts the times of triggers without an id of their own from `zero` on.
    pub(super) fn count_times_from(&mut self, zero: Timestamp) {
        self.zero = zero;
    }

    /// Returns the number of events for which the queue has room.
    pub(super) fn queue_room(&self) -> u64 {
        self.config.queue_events.saturating_sub(self.backlog.len()) as u64
    }

    /// Returns the number of triggers that the queue takes. Events that a builder unit returned use its room, but not that of triggers
    /// in flight: the number of returned events is limited by the slots of the builder units.
    pub(super) fn queue_accepts(&self) -> u64 {
        let new = self.backlog.len() - self.backlog.returned();
        self.config.queue_events.saturating_sub(new) as u64
    }

    /// Returns the highest event of an external trigger.
    pub(super) fn last_given(&self) -> Option<EventId> {
        self.last_given
    }

    /// Returns the time of the last external trigger.
    pub(super) fn last_given_at(&self) -> Timestamp {
        self.last_given_at
    }

    /// Accepts a trigger with an id of its own. Returns `false` if the event exists, or has ended.
    pub(super) fn accept_given(
        &mut self,
        now: Timestamp,
        event: EventId,
        time: Timestamp,
        kind: TriggerType,
    ) -> bool {
        if self.table.get(event).is_some() || self.ended.contains(event) {
            return false;
        }
        self.accept(event, time, now, kind);
        self.backlog.push(event);
        self.last_given = self.last_given.max(Some(event));
        self.last_given_at = now;
        true
    }

    /// Accepts announced events that are new, up to the maximum number of the run.
    pub(super) fn accept_announced(&mut self, now: Timestamp, announcements: &[Announcement]) {
        for announcement in announcements {
            if self.is_full() {
                return;
            }
            self.accept_one_announced(now, *announcement);
        }
    }

    /// Accepts announced events that are new and below `next`, whatever the maximum number of the run. Returns whether there were any.
    pub(super) fn accept_announced_below(
        &mut self,
        now: Timestamp,
        announcements: &[Announcement],
        next: EventId,
    ) -> bool {
        let below = announcements.iter().filter(|announcement| announcement.event < next);
        below.fold(false, |some, announcement| some | self.accept_one_announced(now, *announcement))
    }

    fn accept_one_announced(&mut self, now: Timestamp, Announcement { event, time }: Announcement) -> bool {
        if self.table.get(event).is_some() || self.ended.contains(event) {
            return false;
        }
        self.accept(event, time, now, self.config.trigger_type);
        self.last_announced = Some(event);
        self.backlog.push(event);
        true
    }

    fn accept(&mut self, event: EventId, time: Timestamp, began: Timestamp, trigger_type: TriggerType) {
        self.totals.receive(1);
        let trigger_type = self.config.trigger_mix.of(event).unwrap_or(trigger_type);
        self.table.insert(event, Entry::waiting(time, began, trigger_type));
    }

    // Sessions and messages of builders.

    /// Begins a builder's session. The previous one has ended.
    pub(super) fn begin_session(&mut self, builder: u16, session: SessionId) {
        self.builders.begin_session(builder, session);
    }

    /// Records that an operator has excluded a builder, or has included it again.
    pub(super) fn set_aside(&mut self, builder: u16, excluded: bool) {
        self.builders.set_aside(builder, excluded);
    }

    /// Records that a builder has reported its books.
    pub(super) fn note_report(&mut self, builder: u16) {
        self.builders.note_report(builder);
    }

    /// Handles a builder's request: its credit, and the outcomes of events.
    pub(super) fn handle_request(
        &mut self,
        now: Timestamp,
        builder: u16,
        request: &Request,
        reports: &mut ManagerEvents,
    ) -> Returned {
        self.precedence.note_reply(builder);
        self.builders.note_request(builder, request);
        for absent in &request.absent {
            let entry = self.table.get(absent.event);
            if entry.is_some_and(|entry| entry.assigned && entry.builder == Some(builder)) {
                self.releases.note_absent(absent);
            }
        }
        self.handle_finished(now, builder, &request.finished, reports)
    }

    /// Ends a builder's session. Events that it has returned count; the others wait for another builder. If it `has_died`, its
    /// events become suspects.
    pub(super) fn end_session(
        &mut self,
        now: Timestamp,
        builder: u16,
        has_died: bool,
        reports: &mut ManagerEvents,
    ) -> Option<LostSession> {
        let EndedSession { session, committed } = self.builders.end_session(builder)?;
        self.precedence.note_reply(builder);
        let lost = self.events_where(|entry| entry.assigned && entry.builder == Some(builder));
        let reassigned = lost.len();
        let cause = if has_died { self.suspect(&lost) } else { None };
        let mut some_ended = false;
        for event in lost {
            let reason = (cause == Some(event)).then_some(DropReason::BuilderLost);
            some_ended |= self.try_again(now, event, reason, reports);
        }
        Some(LostSession { session, committed, reassigned, some_ended })
    }

    /// Ends all events that have not ended.
    pub(super) fn drop_everything(
        &mut self,
        now: Timestamp,
        reason: DropReason,
        reports: &mut ManagerEvents,
    ) {
        for event in self.events_where(|_| true) {
            self.drop_event(now, event, reason, reports);
        }
        self.backlog.clear();
    }

    /// Returns the events whose entries satisfy `wanted`, ascending.
    fn events_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<EventId> {
        let wanted = |(event, entry): (EventId, &Entry)| wanted(entry).then_some(event);
        let mut events: Vec<_> = self.table.iter().filter_map(wanted).collect();
        events.sort_unstable();
        events
    }

    // Precedence of the oldest event.

    /// If the oldest event of all waits for a builder and none has credit, a younger one must be given back, where the oldest may then go.
    /// Returns the builder to which the request is sent.
    pub(super) fn make_way(&mut self, now: Timestamp) -> Option<u16> {
        let waiting = self.backlog.oldest().filter(|waiting| self.precedence.may_be_overtaken(*waiting))?;
        let entry = self.table.get(waiting)?;
        // A builder that has suspects and makes progress may not take another one: it would only be assigned its own event again.
        let may_take =
            |builder: &BuilderState| builder.may_take(entry) || builder.is_stuck(now, self.config.patience);
        let may_give_way = |builder: u16| {
            let state = self.builders.get(builder);
            state.outstanding() > 0 && self.builders.takes_events(state) && may_take(state)
        };
        let stays = self.builders.some_have_credit(|_| true)
            || !self.builders.iter().any(|(node, _)| may_give_way(node.index))
            || self.precedence.oldest_assigned(&self.table).is_none_or(|oldest| oldest < waiting);
        if stays { None } else { self.precedence.ask_youngest(&self.table, may_give_way) }
    }

    /// Handles the death of a builder unit with these events. Returns the event that is the cause, if it can be determined.
    fn suspect(&mut self, events: &[EventId]) -> Option<EventId> {
        let is_suspect = |event: &&EventId| self.table.get(**event).is_some_and(Entry::is_suspect);
        let mut suspects = events.iter().filter(is_suspect);
        let cause = match (events, suspects.next(), suspects.next()) {
            ([only], ..) => Some(*only),
            (_, Some(suspect), None) => Some(*suspect),
            _ => None,
        };
        for event in events {
            if let Some(entry) = self.table.get_mut(*event) {
                entry.deaths = entry.deaths.saturating_add(1);
            }
        }
        cause
    }

    // Releases for readout units.

    /// Returns when the next batch of releases is due.
    pub(super) fn releases_due_at(&self) -> Option<Timestamp> {
        self.releases.due_at()
    }

    /// Closes a batch that is due, or to which no event in flight can be added.
    pub(super) fn close_releases(&mut self, now: Timestamp) {
        if self.table.is_empty() {
            self.releases.flush();
        }
        self.releases.close_batch(now);
    }

    /// Makes all pending releases due at once.
    pub(super) fn flush_releases(&mut self) {
        self.releases.flush();
    }

    /// Records the events from which a readout unit is excluded, as far as they have not ended.
    pub(super) fn exclude_readout(&mut self, readout: u16, ranges: &[ExcludedRange]) {
        let assigned = self.table.iter().filter(|(_, entry)| entry.assigned).map(|(event, _)| event);
        self.releases.exclude(readout, ranges, assigned);
    }

    /// Returns whether there are releases to send to a readout unit.
    pub(super) fn has_releases(&self, readout: usize) -> bool {
        self.releases.has_pending(readout)
    }

    /// Returns the next releases to send to a readout unit.
    pub(super) fn take_releases(&mut self, readout: usize) -> Vec<Release> {
        self.releases.take(readout, &self.ended)
    }

    /// Queues the releases of all ended events for a readout unit that has restarted.
    pub(super) fn queue_history(&mut self, readout: usize) {
        self.releases.replace_with_history(readout, &self.ended);
    }
}
