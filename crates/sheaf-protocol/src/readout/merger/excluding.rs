//! Exclusion of sources by an operator, and their return.
//!
//! An exclusion begins above every event that was answered, or requested when the fragment of the source was there. So in each event from
//! there on the source is missing for this one reason, and the first event is exact. Fragments of later events that are held are dropped:
//! a source may be far ahead of the triggers. Events below wait for the source as before, but not without limit.
//!
//! An exclusion ends at the first fragment that the source delivers after the order, or above the events that were answered until then and
//! the fragments that were dropped: an order to include a source that is still silent costs nothing.

use super::Merger;
use crate::ledger::Counter;
use crate::numbering::MOST_IN_FLIGHT;
use crate::readout::reports::Reports;
use sheaf_wire::message::Exclusion;
use sheaf_wire::{DropReason, EventId, Fragment, MissingReason, Payload, SourceId, Timestamp};

impl<P: Payload> Merger<P> {
    /// Returns whether a source is excluded.
    pub(in crate::readout) fn is_excluded(&self, source: SourceId) -> bool {
        self.inputs.index_of(source).is_some_and(|index| self.slots.exclusions().lasts(index))
    }

    /// Returns whether each source is behind what others wait for, in the order of the configuration.
    pub(in crate::readout) fn behind(&self) -> impl Iterator<Item = bool> {
        let due = self.inputs.due();
        (0..self.inputs.len()).map(move |index| self.inputs.is_behind(index, due))
    }

    /// Follows an order of the event manager. Returns the answer, unless it follows with the next fragment of the source.
    pub(in crate::readout) fn handle_exclusion(
        &mut self,
        now: Timestamp,
        order: Exclusion,
    ) -> Option<Exclusion> {
        let Some(index) = self.inputs.index_of(order.source) else {
            self.books.count(Counter::UnexpectedMessages);
            return None;
        };
        if order.excluded {
            let event = self.exclude(index, order.event);
            return Some(Exclusion { event, ..order });
        }
        if !self.slots.exclusions_mut().let_return(index, order.event) {
            self.books.count(Counter::UnexpectedMessages);
            return None;
        }
        // These deliver nothing by themselves.
        let comes_back = !self.inputs.has_ended(index) && !self.inputs.answers_on_request(index);
        (!comes_back).then(|| self.include(now, index, order.event))
    }

    /// Includes a source that has ended before it delivered anything again. Returns the answer.
    pub(in crate::readout) fn end_return(&mut self, now: Timestamp, source: SourceId) -> Option<Exclusion> {
        let index = self.inputs.index_of(source)?;
        let earliest = self.slots.exclusions().returning(index)?;
        let after_all = self.first_after(index, EventId(0), u64::MAX);
        Some(self.include(now, index, earliest.max(after_all)))
    }

    /// Excludes a source from an event on, which is not before `earliest`. Returns that event.
    fn exclude(&mut self, index: usize, earliest: EventId) -> EventId {
        if let Some(first) = self.slots.exclusions_mut().prolong(index) {
            return first;
        }
        let first = self.first_after(index, earliest, MOST_IN_FLIGHT);
        self.slots.exclude(index, first);
        // These may have been refused, and are not delivered again.
        let delivered = self.inputs.delivered(index);
        for event in [delivered.highest_near, delivered.highest].into_iter().flatten() {
            self.slots.exclusions_mut().note_dropped(index, event);
        }
        self.inputs.note_excluded(index, true);
        for key in self.slots.all_keys().into_iter().filter(|key| key.event >= first) {
            if let Some(payload) = self.slots.take_back(key, index) {
                self.forget_excluded(index, key.event, payload);
            } else if !self.slots.give_up_anew(key, index) {
                self.settle(key, index, MissingReason::Excluded);
            }
        }
        first
    }

    /// Includes a source again, not before `earliest`. Returns the answer.
    fn include(&mut self, now: Timestamp, index: usize, earliest: EventId) -> Exclusion {
        let event = self.slots.include(index, self.first_after(index, earliest, MOST_IN_FLIGHT));
        self.inputs.note_excluded(index, false);
        for key in self.slots.all_keys() {
            if key.event >= event && self.slots.await_again(key, index) {
                let slot = self.slots.found(key);
                if slot.is_asked() {
                    self.wait_for_sources(now, key.event, slot.part());
                }
            }
        }
        if self.inputs.has_ended(index) {
            self.settle_end(index);
        }
        Exclusion { source: self.inputs.id_of(index), excluded: false, event }
    }

    /// Drops a fragment that is held for an event from which its source is excluded.
    fn forget_excluded(&mut self, index: usize, event: EventId, payload: P) {
        self.inputs.let_go(index, payload.len());
        self.books.drop_one(DropReason::Excluded);
        self.slots.exclusions_mut().note_dropped(index, event);
        if P::IS_COUNTED_ELSEWHERE {
            self.discarded.push(payload);
        }
    }

    /// Returns the first event that is not below `earliest`, and above every event that was answered, or requested when the source had
    /// delivered it, except those that are more than `reach` above `earliest`.
    fn first_after(&self, index: usize, earliest: EventId, reach: u64) -> EventId {
        let most = EventId(earliest.0.saturating_add(reach));
        // Windows are not asked for again, so an event that was requested counts as answered by a source that gives on request.
        let held = self.slots.highest_of(index, most, self.inputs.answers_on_request(index));
        let passed = held.max(self.released.highest_up_to(most));
        let passed = passed.map(|event| EventId(event.0.saturating_add(1)));
        // Fragments of an exclusion were dropped, and the first one after it may not have found room yet.
        let before = self.slots.exclusions().passed(index);
        passed.into_iter().chain(before).fold(earliest, EventId::max)
    }

    /// Takes a fragment of a source that is or was excluded, if it belongs to no event. Otherwise returns it. The answer to the order to
    /// include the source is reported at its first fragment.
    pub(super) fn take_excluded(
        &mut self,
        now: Timestamp,
        index: usize,
        fragment: Fragment<P>,
        reports: &mut Reports,
    ) -> Option<Fragment<P>> {
        let excludes = |merger: &Self| merger.slots.exclusions().has(index, fragment.event);
        if excludes(self)
            && let Some(earliest) = self.slots.exclusions().returning(index)
            && self.is_credible(fragment.event)
        {
            reports.excluded(self.include(now, index, fragment.event.max(earliest)));
        }
        if !excludes(self) {
            return Some(fragment);
        }
        self.slots.exclusions_mut().note_dropped(index, fragment.event);
        if self.inputs.note(index, self.own_time.at(now), fragment.event) {
            self.books.count(Counter::OutOfOrder);
        }
        self.books.receive(1, fragment.payload.len() as u64);
        self.drop_fragment(fragment, DropReason::Excluded);
        None
    }

    /// Returns whether an event is not far ahead of all others.
    fn is_credible(&self, event: EventId) -> bool {
        let others = [self.released.highest(), self.slots.highest_answered()];
        let highest = others.into_iter().flatten().max();
        highest.is_none_or(|highest| event.0 <= highest.0.saturating_add(MOST_IN_FLIGHT))
    }
}
