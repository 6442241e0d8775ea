//! Requests of builders, and the time limit for their sources.
//!
//! A request is handled in three steps. Events without an earlier request, which are nearly all, are marked a
//! range at a time. Any other event is compared with its earlier request; the latest attempt and part wins.
//! If sources are still missing, a time limit begins.

use super::Merger;
use crate::event_range::EventIdRange;
use crate::ledger::Counter;
use crate::readout::slots::{Asked, Filled, SlotKey, SlotState, Taken};
use sheaf_wire::message::{EventRange, PartRequest};
use sheaf_wire::{EventId, MissingReason, Payload, Timestamp};

impl<P: Payload> Merger<P> {
    /// Takes the request of a builder for some sources of events. Sources that this unit does not read are counted, and left out.
    pub(in crate::readout) fn handle_part_request(
        &mut self,
        now: Timestamp,
        builder: u16,
        request: &PartRequest,
    ) {
        let mut inputs: Vec<usize> =
            request.sources.iter().filter_map(|source| self.inputs.index_of(*source)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.len() != request.sources.len() {
            self.books.count(Counter::UnexpectedMessages);
        }
        self.handle_requests(now, builder, &request.ranges, Wanted::Part(request.part, &inputs));
    }

    /// Takes the request of a builder for ranges of events, up to as many events as a request may have. The rest is counted, and left
    /// out: the builder asks again.
    pub(in crate::readout) fn handle_requests(
        &mut self,
        now: Timestamp,
        builder: u16,
        ranges: &[EventRange],
        wanted: Wanted<'_>,
    ) {
        let mut budget = self.config.request_events as u64;
        for range in ranges {
            self.handle_range(now, builder, range, budget, wanted);
            let Some(rest) = budget.checked_sub(u64::from(range.count)) else {
                self.books.count(Counter::UnexpectedMessages);
                return;
            };
            budget = rest;
        }
    }

    /// Takes the request of a builder for the first `most` events of a range. Events that are alike are taken together.
    pub(in crate::readout) fn handle_range(
        &mut self,
        now: Timestamp,
        builder: u16,
        range: &EventRange,
        most: u64,
        wanted: Wanted<'_>,
    ) {
        let asked = Asked { builder, attempt: range.attempt, part: wanted.part() };
        let events = EventIdRange::new(range.first, u64::from(range.count).min(most));
        let mut passed = None;
        let mut rest = events;
        while let Some(event) = rest.first() {
            let mut taken = Taken::default();
            if asked.part == 0 && !self.inputs.some_ended() {
                // The usual case: whole events without an earlier request.
                let are_new = self.released.is_above_all(event) && !self.closed;
                taken = self.slots.ask(rest, asked, are_new);
            }
            if taken.events == 0 {
                passed = passed.max(self.handle_request(now, asked, event, wanted));
                rest.take(1);
                continue;
            }
            let together = rest.take(taken.events);
            if taken.are_ready {
                self.ready.push(builder, together);
            } else {
                self.limit_wait(now, together, 0);
            }
            passed = passed.max(Some(taken.age));
        }
        if let Some(age) = passed {
            self.orphans.pass_over(self.own_time.at(now), age, events, &self.slots);
        }
    }

    /// Handles the request of a builder for one event. Returns the age of the event if this is its first
    /// request.
    fn handle_request(
        &mut self,
        now: Timestamp,
        asked: Asked,
        event: EventId,
        wanted: Wanted<'_>,
    ) -> Option<u64> {
        let key = match self.slots.find(event) {
            Some(key) => key,
            None if self.released.contains(event) || self.closed => {
                self.books.count(Counter::StaleRequests);
                return None;
            }
            None => self.slots.insert(event, 0),
        };
        let slot = self.slots.found_mut(key);
        if slot.asked.is_some_and(|before| asked.is_before(before)) {
            self.books.count(Counter::StaleRequests);
            return None;
        }
        let before = slot.asked.replace(asked);
        let age = slot.age;
        if before.is_some() {
            self.ready.note_heard(asked.builder);
        }
        self.take_request(now, key, asked, before, wanted);
        before.is_none().then_some(age)
    }

    /// Records a builder's request for an event. `before` is the earlier request, if any.
    fn take_request(
        &mut self,
        now: Timestamp,
        key: SlotKey,
        asked: Asked,
        before: Option<Asked>,
        wanted: Wanted<'_>,
    ) {
        let state = self.slots.found(key).state;
        let is_first = before.is_none();
        let has_attempt = before.is_some_and(|before| before.attempt == asked.attempt);
        // A part that was not requested in this attempt before.
        let is_new_part = asked.part > 0 && !(has_attempt && before.is_some_and(|it| it.part == asked.part));
        if let (true, Wanted::Part(part, inputs)) = (is_new_part, wanted) {
            self.slots.want(key, part, !has_attempt, inputs);
        }
        if wanted.is_nothing() {
            self.slots.found_mut(key).state = SlotState::Answered;
        } else {
            match state {
                // Being sent already: if to another builder, the message is composed for the new one.
                SlotState::Ready(builder) if builder == asked.builder && !is_new_part => {}
                SlotState::Answered if !(is_new_part && has_attempt) => {
                    self.books.count(Counter::Resent);
                    self.merge(key);
                }
                SlotState::Ready(_) | SlotState::Merging | SlotState::Answered => self.merge(key),
            }
        }
        if is_first || is_new_part {
            self.wait_for_sources(now, key.event, asked.part);
        }
    }

    /// Answers an event as soon as all requested fragments are present.
    fn merge(&mut self, key: SlotKey) {
        self.slots.found_mut(key).state = SlotState::Merging;
        if self.inputs.some_ended() {
            self.settle_ended(key);
        }
        if let Some(builder) = self.slots.found_mut(key).get_ready() {
            self.ready.push(builder, EventIdRange::one(key.event));
        }
    }

    /// Waits for the sources of a part of an event, if some are awaited.
    pub(super) fn wait_for_sources(&mut self, now: Timestamp, event: EventId, part: u16) {
        if self.slots.is_merging(event, part) {
            self.limit_wait(now, EventIdRange::one(event), part);
        }
    }

    /// Limits the wait for the sources of consecutive events, from now on. Before the run has begun no time runs: sources have not
    /// been asked to send.
    fn limit_wait(&mut self, now: Timestamp, events: EventIdRange, part: u16) {
        if self.has_begun && !events.is_empty() {
            let own = self.own_time.at(now);
            self.inputs.note_request(own, events);
            let at = own + self.config.merge_timeout;
            let count_settled = |events, part| self.slots.count_settled(events, part);
            self.merge_deadlines.push(at, events, part, count_settled);
        }
    }

    /// Settles the sources that have ended, for an event.
    fn settle_ended(&mut self, key: SlotKey) {
        for index in 0..self.inputs.len() {
            if self.inputs.has_ended(index) {
                self.settle(key, index, MissingReason::SourceEnded);
            }
        }
    }

    /// Books that nothing more is awaited from a source for an event, where it is still awaited.
    pub(super) fn settle(&mut self, key: SlotKey, index: usize, reason: MissingReason) {
        if let Filled::Now(Some(builder)) = self.slots.give_up(key, index, reason) {
            self.ready.push(builder, EventIdRange::one(key.event));
        }
    }

    /// Ends the wait for the silent sources of an event. Those that are on their way to the event get the time once more.
    pub(super) fn give_up_waiting(&mut self, now: Timestamp, event: EventId, part: u16) {
        let Some(key) = self.slots.find(event) else {
            return;
        };
        let is_gone = self.joined_late || self.orphans.is_expired(event);
        let wait = self.config.wait_for_required && !is_gone;
        let reason =
            if self.joined_late { MissingReason::ReadoutRestarted } else { MissingReason::SourceSilent };
        let own = self.own_time.at(now);
        let mut some_on_their_way = false;
        for index in 0..self.inputs.len() {
            if !self.slots.is_wanted(key, index) {
                continue;
            }
            if self.inputs.is_on_its_way(index, own, event) {
                some_on_their_way = true;
                continue;
            }
            let is_optional = self.inputs.is_optional(index);
            if is_optional || !wait {
                self.inputs.note_given_up(index, event);
                self.settle(key, index, if is_optional { MissingReason::SourceSilent } else { reason });
            }
        }
        if some_on_their_way {
            if self.inputs.some_held_back_before(event) {
                // The fragments that fill the source's share are older than this event, and the builders have
                // moved on. Unless these are requested or dropped, the source never reaches this event.
                self.orphans.pass_over_all(own, &self.slots);
            }
            self.wait_for_sources(now, event, part);
        }
    }
}

/// Sources of an event that a request is for.
#[derive(Clone, Copy)]
pub(in crate::readout) enum Wanted<'a> {
    /// Every source.
    All,
    /// The part's number, and its inputs in ascending order.
    Part(u16, &'a [usize]),
}

impl Wanted<'_> {
    /// The part's number; 0 for the whole.
    fn part(self) -> u16 {
        match self {
            Self::All => 0,
            Self::Part(part, _) => part,
        }
    }

    /// Returns whether the request only announces that the event is under construction.
    fn is_nothing(self) -> bool {
        matches!(self, Self::Part(_, []))
    }
}
