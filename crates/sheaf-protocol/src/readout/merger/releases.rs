//! Ended events: their held fragments are booked and freed.

use super::Merger;
use crate::event_range::EventIdRange;
use crate::readout::books::{Ending, Fragments};
use crate::readout::slots::Ended;
use sheaf_wire::message::{PARTS_NOT_ASKED, Release};
use sheaf_wire::{DropReason, EventId, Fragment, Outcome, Payload, Timestamp};

impl<P: Payload> Merger<P> {
    /// Starts the timeouts for silent sources, which send from now on. This includes events that builders have already requested. If
    /// the run had begun before this unit joined, all events below `floor` have ended.
    pub(in crate::readout) fn begin(&mut self, now: Timestamp, floor: Option<EventId>) {
        let joined_late = floor.is_some();
        self.floor = floor.unwrap_or(self.floor);
        self.has_begun = true;
        self.joined_late |= joined_late;
        if !joined_late {
            self.inputs.begin_programs();
        }
        for key in self.slots.asked_keys() {
            self.wait_for_sources(now, key.event, self.slots.found(key).part());
        }
    }

    /// Ends all held events, because none of them will be triggered any more in this run. Fragments from the event `next` on are kept for the
    /// next run. Returns false if that was done before.
    pub(in crate::readout) fn close(&mut self, next: Option<EventId>) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.windows.close();
        if let Some(next) = next {
            self.hold_for_next(next);
        }
        for key in self.slots.all_keys() {
            self.end_event(key.event, Ending::dropped(DropReason::NeverTriggered));
        }
        true
    }

    /// Takes the fragments of the next run, which begins with the event `first`, out of the slots and out of the books.
    fn hold_for_next(&mut self, first: EventId) {
        let mut keys = self.slots.all_keys();
        keys.retain(|key| key.event >= first);
        keys.sort_unstable_by_key(|key| key.event);
        let Self { slots, inputs, books, held_for_next, .. } = self;
        for key in keys {
            held_for_next.extend(slots.fragments(key));
            slots.end(key.event, |index, _, payload| {
                inputs.let_go(index, payload.len());
                books.take_back(payload.len() as u64);
            });
        }
    }

    /// Records that all events below `first` are those of an earlier run.
    pub(in crate::readout) fn begin_with(&mut self, first: EventId) {
        self.released.insert(EventIdRange::new(EventId(0), first.0));
    }

    /// Returns the fragments of the next run.
    pub(in crate::readout) fn take_held(&mut self) -> Vec<Fragment<P>> {
        std::mem::take(&mut self.held_for_next)
    }

    /// Books and frees the held fragments of ended events.
    pub(in crate::readout) fn handle_release(&mut self, release: Release) {
        let Release { first, count, outcome, reason, parts } = release;
        let events = EventIdRange::new(first, u64::from(count));
        let ending = Ending { outcome, reason, parts };
        let is_built = matches!(outcome, Outcome::Stored | Outcome::Rejected);
        if reason == Some(DropReason::Excluded) {
            self.released.exclude(events);
        }
        let Self { windows, slots, .. } = self;
        windows.end(events, |event, inputs| slots.awaits_any(event, inputs));
        if self.slots.is_short(count) {
            let mut alike = Alike::default();
            let mut rest = events;
            while let Some(event) = rest.first() {
                let regular = self.forget_asked(rest, &mut alike.asked);
                let (is_all_asked, events) = match regular {
                    0 => (self.forget(event, ending, &mut alike).is_some_and(|it| it.is_all_asked), 1),
                    count => (true, count),
                };
                rest.take(events);
                if is_built && (parts == PARTS_NOT_ASKED || !is_all_asked) {
                    self.released.pass_by(EventIdRange::new(event, events));
                }
            }
            self.book(ending, alike);
        } else {
            // Most of these events never had a fragment here.
            if is_built {
                self.released.pass_by(events);
            }
            for key in self.slots.keys_within(events) {
                self.end_event(key.event, ending);
            }
        }
        self.released.insert(events);
    }

    /// Books and frees the held fragments of an event.
    pub(super) fn end_event(&mut self, event: EventId, ending: Ending) {
        let mut alike = Alike::default();
        self.forget(event, ending, &mut alike);
        self.book(ending, alike);
    }

    /// Frees the fragments of an ended event. They are added to fragments with the same outcome, or booked directly.
    #[inline]
    fn forget(&mut self, event: EventId, ending: Ending, alike: &mut Alike) -> Option<Ended> {
        let Self { slots, inputs, books, discarded, .. } = self;
        slots.end(event, |index, part, payload| {
            let bytes = payload.len();
            inputs.let_go(index, bytes);
            match part {
                Some(0) => alike.asked.add(bytes),
                None => alike.unasked.add(bytes),
                Some(_) => books.end(ending, part, Fragments::one(bytes)),
            }
            if P::IS_COUNTED_ELSEWHERE {
                discarded.push(payload);
            }
        })
    }

    /// Does the same for the first of these events, as long as they were requested as a whole. Returns their
    /// number.
    #[inline]
    fn forget_asked(&mut self, events: EventIdRange, asked: &mut Fragments) -> u64 {
        let Self { slots, inputs, discarded, .. } = self;
        slots.end_asked(events, |index, payload| {
            let bytes = payload.len();
            inputs.let_go(index, bytes);
            asked.add(bytes);
            if P::IS_COUNTED_ELSEWHERE {
                discarded.push(payload);
            }
        })
    }

    fn book(&mut self, ending: Ending, alike: Alike) {
        self.books.end(ending, Some(0), alike.asked);
        self.books.end(ending, None, alike.unasked);
    }
}

/// Fragments of events with the same outcome, which are booked together: those requested as a whole, and
/// those not requested.
#[derive(Default)]
struct Alike {
    asked: Fragments,
    unasked: Fragments,
}
