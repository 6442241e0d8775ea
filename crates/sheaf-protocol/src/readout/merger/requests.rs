//! Requests of builders, and the time limit for their sources.
//!
//! A request is handled in three steps. Events without an earlier request, which are nearly all, are marked a
//! range at a time. Any other event is compared with its earlier request; the latest attempt and part wins.
//! If sources are still missing, a time limit begins.

use super::Merger;
use crate::event_range::EventIdRange;
use crate::ledger::Counter;
use crate::readout::inputs::Program;
use crate::readout::slots::{Asked, Cell, Filled, SlotKey, SlotState, Taken};
use sheaf_wire::message::{EventRange, EventWindow, PartRequest, WindowRequest};
use sheaf_wire::{EventId, MissingReason, Payload, SourceId, Timestamp};

impl<P: Payload> Merger<P> {
    /// Handles a builder's request for some sources of events. Sources that this unit does not read are counted and ignored.
    pub(in crate::readout) fn handle_part_request(
        &mut self,
        now: Timestamp,
        builder: u16,
        request: &PartRequest,
    ) {
        let inputs = self.find_inputs(&request.sources);
        self.handle_requests(now, builder, &request.ranges, Wanted::Part(request.part, &inputs));
    }

    /// Handles a builder's request for windows of time: like any other request, after which sources that give their hits on request
    /// are asked for them.
    pub(in crate::readout) fn handle_window_request(
        &mut self,
        now: Timestamp,
        builder: u16,
        request: &WindowRequest,
    ) {
        let inputs = self.find_inputs(&request.sources);
        let wanted = if request.part == 0 { Wanted::All } else { Wanted::Part(request.part, &inputs) };
        let groups = request.events.chunk_by(|one, next| one.event == next.event);
        for (count, windows) in groups.enumerate() {
            if count >= self.config.request_events {
                self.books.count(Counter::UnexpectedMessages);
                return;
            }
            let range = EventRange::one(windows[0].event, windows[0].attempt);
            self.handle_range(now, builder, &range, 1, wanted);
            let asked = Asked { builder, attempt: range.attempt, part: wanted.part() };
            self.ask_for_windows(asked, windows, wanted);
        }
    }

    /// Asks sources of an event for their hits, if these were not asked before and the request is the latest one for the event.
    fn ask_for_windows(&mut self, asked: Asked, windows: &[EventWindow], wanted: Wanted<'_>) {
        let event = windows[0].event;
        let Some(key) = self.slots.find(event).filter(|key| self.slots.found(*key).asked == Some(asked))
        else {
            return;
        };
        let mut sources = Vec::new();
        for (index, cell) in self.slots.cells(key).iter().enumerate() {
            if matches!(cell, Cell::Waiting)
                && wanted.has(index)
                && self.inputs.answers_on_request(index)
                && !self.windows.ask(event, index)
            {
                sources.push(self.inputs.id_of(index));
            }
        }
        self.windows.give(event, sources, windows.iter().map(|window| window.window).collect());
    }

    /// Returns the indices of sources in ascending order. Sources that this unit does not read are counted and left out.
    fn find_inputs(&mut self, sources: &[SourceId]) -> Vec<usize> {
        let mut inputs: Vec<usize> =
            sources.iter().filter_map(|source| self.inputs.index_of(*source)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        if inputs.len() != sources.len() {
            self.books.count(Counter::UnexpectedMessages);
        }
        inputs
    }

    /// Handles a builder's request for ranges of events, up to the maximum number of events of a request. The rest is counted and
    /// ignored; the builder repeats the request.
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

    /// Handles a builder's request for the first `most` events of a range. Events in the same state are handled together.
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
            self.ready.note_request(asked.builder);
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
        // Whether this part was not requested before in this attempt.
        let is_new_part = asked.part > 0 && !(has_attempt && before.is_some_and(|it| it.part == asked.part));
        if let (true, Wanted::Part(part, inputs)) = (is_new_part, wanted) {
            self.slots.want(key, part, !has_attempt, inputs);
        }
        if wanted.is_nothing() {
            self.slots.found_mut(key).state = SlotState::Answered;
        } else {
            match state {
                // Queued already. If it was queued for another builder, the answer goes to the new one.
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

    /// Starts the timeout for the sources of consecutive events. No timeout runs before the run has begun, because sources have not
    /// been asked to send yet.
    fn limit_wait(&mut self, now: Timestamp, events: EventIdRange, part: u16) {
        if self.has_begun && !events.is_empty() {
            let own = self.own_time.at(now);
            self.inputs.note_request(own, events);
            let at = own + self.config.merge_timeout;
            let count_settled = |events, part| self.slots.count_settled(events, part);
            self.merge_deadlines.push(at, events, part, count_settled);
        }
    }

    /// Settles the sources of an event that have ended.
    fn settle_ended(&mut self, key: SlotKey) {
        for index in 0..self.inputs.len() {
            if self.inputs.has_ended(index) {
                self.settle(key, index, self.reason_of_end(index, key.event));
            }
        }
    }

    /// Settles a source of an event as missing, if it is still awaited.
    pub(super) fn settle(&mut self, key: SlotKey, index: usize, reason: MissingReason) {
        if let Filled::Now(Some(builder)) = self.slots.give_up(key, index, reason) {
            self.ready.push(builder, EventIdRange::one(key.event));
        }
    }

    /// Returns whether a source delivers events that had ended before this unit joined the run: it has begun anew with the unit, and may never reach
    /// the run.
    fn is_left_behind(&self, index: usize) -> bool {
        self.joined_late && self.inputs.delivered(index).highest.is_some_and(|highest| highest < self.floor)
    }

    /// Ends the wait for the silent sources of an event. The timeout is restarted for sources that are behind but sending, and for those
    /// that the event waits for without limit.
    pub(super) fn give_up_waiting(&mut self, now: Timestamp, event: EventId, part: u16) {
        let Some(key) = self.slots.find(event) else {
            return;
        };
        let is_gone = self.joined_late || self.orphans.is_expired(event);
        let waits = self.config.wait_for_required && !is_gone;
        let own = self.own_time.at(now);
        let (mut some_on_their_way, mut some_awaited, mut some_beyond) = (false, false, false);
        for index in 0..self.inputs.len() {
            // A source that was given up for this event is not given up again: it would count as awaited only since then.
            if !self.slots.is_wanted(key, index) || !matches!(self.slots.cells(key)[index], Cell::Waiting) {
                continue;
            }
            if self.inputs.is_on_its_way(index, own, event) && !self.is_left_behind(index) {
                some_on_their_way = true;
                continue;
            }
            some_beyond |= self.inputs.is_held_back_after(index, event);
            if waits && !self.inputs.is_optional(index) && !self.inputs.is_excluded(index) {
                some_awaited = true;
            } else {
                self.inputs.note_given_up(index, event);
                self.settle(key, index, self.reason_of_silence(index, event));
            }
        }
        if some_on_their_way && self.inputs.some_held_back_before(event) {
            // The fragments that fill the source's share are older than this event, and the builders have
            // moved on. Unless these are requested or dropped, the source never reaches this event.
            self.orphans.pass_over_all(own, &self.slots);
        }
        if some_beyond {
            // Wrong numbers may fill the source's share. All further fragments of the source are behind them, and no builder asks for
            // these events.
            self.orphans.pass_over_far(own, event, &self.slots);
        }
        if some_on_their_way || some_awaited {
            self.wait_for_sources(now, event, part);
        }
    }

    /// Returns the reason for which a source that is given up is missing in an event.
    fn reason_of_silence(&self, index: usize, event: EventId) -> MissingReason {
        match self.inputs.program(index) {
            Program::Gone => MissingReason::SourceGone,
            Program::Back if !self.joined_late => MissingReason::SourceGone,
            Program::Here if !self.joined_late && self.inputs.has_skipped(index, event) => {
                MissingReason::SourceSkipped
            }
            Program::Here if self.inputs.is_optional(index) => MissingReason::SourceSilent,
            Program::Back | Program::Here if self.joined_late => MissingReason::ReadoutRestarted,
            Program::Back | Program::Here => MissingReason::SourceSilent,
        }
    }
}

/// Sources of an event that are requested.
#[derive(Clone, Copy)]
pub(in crate::readout) enum Wanted<'a> {
    /// Every source.
    All,
    /// Number of the part, and its inputs in ascending order.
    Part(u16, &'a [usize]),
}

impl Wanted<'_> {
    /// Returns the number of the part; 0 for the whole event.
    fn part(self) -> u16 {
        match self {
            Self::All => 0,
            Self::Part(part, _) => part,
        }
    }

    /// Returns whether a source is requested.
    fn has(self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Part(_, inputs) => inputs.binary_search(&index).is_ok(),
        }
    }

    /// Returns whether the request only announces that the event is under construction.
    fn is_nothing(self) -> bool {
        matches!(self, Self::Part(_, []))
    }
}
