//! Arrival of super-fragments: into the event under construction, or kept until the event is assigned.

use super::BuilderUnit;
use super::early::Part;
use crate::ledger::Counter;
use sheaf_wire::message::{Assignment, SuperFragments};
use sheaf_wire::{EventId, Fragment, MissingSource, Payload, SuperFragment, Timestamp};

/// Answer of a readout unit for one event: iterators over parts of the lists in its message. Both must be consumed, so that the
/// lists continue with the next event.
struct Answer<F, M> {
    readout: u16,
    fragments: F,
    missing: M,
}

impl<P, F: Iterator<Item = Fragment<P>>, M: Iterator<Item = MissingSource>> Answer<F, M> {
    fn skip(self) {
        self.fragments.for_each(drop);
        self.missing.for_each(drop);
    }
}

impl<P: Payload> BuilderUnit<P> {
    pub(super) fn handle_super_fragments(&mut self, now: Timestamp, readout: u16, parts: SuperFragments<P>) {
        let mut fragments = parts.fragments.into_iter();
        let mut missing = parts.missing.into_iter();
        for entry in parts.entries {
            for event in entry.events() {
                let answer = Answer {
                    readout,
                    fragments: fragments.by_ref().take(usize::from(entry.fragments)),
                    missing: missing.by_ref().take(usize::from(entry.missing)),
                };
                self.handle_entry(now, event, &entry, answer);
            }
        }
    }

    fn handle_entry(
        &mut self,
        now: Timestamp,
        event: EventId,
        entry: &SuperFragment,
        answer: Answer<impl Iterator<Item = Fragment<P>>, impl Iterator<Item = MissingSource>>,
    ) {
        let known = self.assemblies.place_of(event);
        if let Some(place) = known.filter(|place| self.assemblies.at_place(*place).takes(entry)) {
            self.handle_part(now, place, answer);
        } else if known.is_none() && self.may_be_early(event) {
            let Answer { readout, fragments, missing } = answer;
            let part = Part { readout, fragments: fragments.collect(), missing: missing.collect() };
            self.keep_early(event, part);
        } else {
            self.books.count(Counter::StaleSuperFragments, 1);
            answer.skip();
        }
    }

    /// Adds a readout unit's answer to the event at this place.
    #[inline]
    fn handle_part(
        &mut self,
        now: Timestamp,
        place: u32,
        answer: Answer<impl Iterator<Item = Fragment<P>>, impl Iterator<Item = MissingSource>>,
    ) {
        let assembly = self.assemblies.at_place(place);
        if !assembly.note_answer(answer.readout) {
            self.books.count(Counter::DuplicateSuperFragments, 1);
            answer.skip();
            return;
        }
        let bytes = assembly.add(answer.fragments, answer.missing);
        self.asks.note_answer(answer.readout, assembly, bytes);
        self.held += bytes;
        self.readouts[usize::from(answer.readout)].received += bytes;
        let is_whole = assembly.awaited == 0;
        if self.held > self.config.memory {
            let key = assembly.key(place);
            self.make_room(now, key);
        } else if is_whole {
            let key = assembly.key(place);
            self.complete(now, key);
        }
    }

    /// Returns whether an event that is not assigned to this builder may be assigned to it later.
    fn may_be_early(&self, event: EventId) -> bool {
        !self.closed && self.early.as_ref().is_some_and(|early| early.may_come(event))
    }

    fn keep_early(&mut self, event: EventId, part: Part<P>) {
        if let Some(early) = &mut self.early {
            let given_up = early.keep(event, part);
            self.books.count(Counter::StaleSuperFragments, given_up);
        }
    }

    /// Adds the super-fragments that arrived before these assignments.
    pub(super) fn take_early(&mut self, now: Timestamp, assignments: &[Assignment]) {
        for assignment in assignments {
            let Some(early) = &mut self.early else {
                return;
            };
            for part in early.take(assignment.event) {
                // The previous parts may have completed the event or exceeded the memory.
                if let Some(place) = self.assemblies.place_of(assignment.event) {
                    let Part { readout, fragments, missing } = part;
                    let (fragments, missing) = (fragments.into_iter(), missing.into_iter());
                    self.handle_part(now, place, Answer { readout, fragments, missing });
                } else {
                    self.books.count(Counter::StaleSuperFragments, 1);
                }
            }
        }
    }
}
