//! Cells of sources that are excluded, or included again.

use super::{Cell, EventSlots, Exclusions, SlotKey};
use sheaf_wire::{EventId, MissingReason, Payload};

impl<P: Payload> EventSlots<P> {
    pub(in crate::readout) fn exclusions(&self) -> &Exclusions {
        &self.exclusions
    }

    pub(in crate::readout) fn exclusions_mut(&mut self) -> &mut Exclusions {
        &mut self.exclusions
    }

    /// Excludes a source from the events of all slots that are opened from now on, beginning with `first`.
    pub(in crate::readout) fn exclude(&mut self, source: usize, first: EventId) {
        self.exclusions.begin(source, first);
    }

    /// Ends the exclusion of a source for the slots that are opened from now on, from `event` on, or from its own first event on if that
    /// is higher. Returns the first event with the source.
    pub(in crate::readout) fn include(&mut self, source: usize, event: EventId) -> EventId {
        self.exclusions.end(source, event)
    }

    /// Settles the excluded sources of an event whose slot has just been opened.
    #[cold]
    pub(super) fn settle_excluded(&mut self, key: SlotKey) {
        let Self { sources, slots, cells, exclusions, .. } = self;
        let first = key.first_cell(sources.len());
        exclusions.settle(key.event, &mut cells[first..first + sources.len()]);
        let missing = exclusions.count(key.event);
        let slot = slots.at_mut(key.place);
        slot.unsettled -= u32::from(missing);
        slot.missing += missing;
    }

    /// Returns the highest event that was answered or is about to be, of those that have a slot.
    pub(in crate::readout) fn highest_answered(&self) -> Option<EventId> {
        let answered = self.slots.iter().filter(|(_, slot)| slot.is_answered());
        answered.map(|(event, _)| event).max()
    }

    /// Returns the highest event up to `most` that was answered or is about to be, or that was requested and has a fragment of the
    /// source, of those that have a slot. If it gives `on_request`, requested events count without a fragment.
    pub(in crate::readout) fn highest_of(
        &self,
        source: usize,
        most: EventId,
        on_request: bool,
    ) -> Option<EventId> {
        let is_here = |place: usize| matches!(self.cells[place * self.sources.len() + source], Cell::Here(_));
        let places = self.slots.places_where(|event, _| event <= most);
        let passed = places.filter(|(_, place)| {
            let slot = self.slots.at(*place);
            slot.is_answered() || (slot.is_asked() && (on_request || is_here(*place)))
        });
        passed.map(|(event, _)| event).max()
    }

    /// Takes the fragment of a source out of an event without a request, where the source is missing as excluded from now on.
    pub(in crate::readout) fn take_back(&mut self, key: SlotKey, source: usize) -> Option<P> {
        if self.found(key).is_asked() {
            return None;
        }
        let cell = &mut self.cells[key.first_cell(self.sources.len()) + source];
        if !matches!(cell, Cell::Here(_)) {
            return None;
        }
        let payload = cell.empty()?;
        *cell = Cell::Missing(MissingReason::Excluded);
        let slot = self.found_mut(key);
        slot.bytes -= payload.len() as u64;
        slot.missing += 1;
        Some(payload)
    }

    /// Has a source that was given up in an event which is not answered be missing there as excluded. Returns whether it was given up.
    pub(in crate::readout) fn give_up_anew(&mut self, key: SlotKey, source: usize) -> bool {
        let is_answered = self.found(key).is_answered();
        match &mut self.cells[key.first_cell(self.sources.len()) + source] {
            Cell::Missing(reason) if !is_answered => {
                *reason = MissingReason::Excluded;
                true
            }
            _ => false,
        }
    }

    /// Has an event wait again for a source that was missing there as excluded, if it has not been answered. Returns whether it waits.
    pub(in crate::readout) fn await_again(&mut self, key: SlotKey, source: usize) -> bool {
        let place = key.first_cell(self.sources.len()) + source;
        if self.found(key).is_answered()
            || !matches!(self.cells[place], Cell::Missing(MissingReason::Excluded))
        {
            return false;
        }
        self.cells[place] = Cell::Waiting;
        let is_wanted =
            self.parts.get(place).is_some_and(|part| *part > 0 && *part == self.found(key).part());
        let slot = self.found_mut(key);
        slot.missing -= 1;
        slot.unsettled += 1;
        slot.wanted += u32::from(is_wanted);
        true
    }
}
