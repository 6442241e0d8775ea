//! Events that have ended: what is held of them is booked and forgotten.

use super::Merger;
use crate::event_range::EventIdRange;
use crate::readout::books::{Ending, Fragments};
use crate::readout::slots::Ended;
use sheaf_wire::message::{PARTS_NOT_ASKED, Release};
use sheaf_wire::{DropReason, EventId, Outcome, Payload, Timestamp};

impl<P: Payload> Merger<P> {
    /// Lets the time for silent sources run: they send from now on. Builders may have asked already; their events' time begins
    /// here. Where the unit `joined_late`, the run was under way before.
    pub(in crate::readout) fn begin(&mut self, now: Timestamp, joined_late: bool) {
        self.has_begun = true;
        self.joined_late |= joined_late;
        for key in self.slots.asked_keys() {
            self.wait_for_sources(now, key.event, self.slots.found(key).part());
        }
    }

    /// Ends all events that are held: none of them will be triggered. Returns false if that was done before.
    pub(in crate::readout) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        for key in self.slots.all_keys() {
            self.end_event(key.event, Ending::dropped(DropReason::NeverTriggered));
        }
        true
    }

    /// Books what is held of events that have ended, and forgets it.
    pub(in crate::readout) fn handle_release(&mut self, release: Release) {
        let Release { first, count, outcome, reason, parts } = release;
        let events = EventIdRange::new(first, u64::from(count));
        let ending = Ending { outcome, reason, parts };
        let is_built = matches!(outcome, Outcome::Stored | Outcome::Rejected);
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
            // Of most of these events nothing was ever here.
            if is_built {
                self.released.pass_by(events);
            }
            for key in self.slots.keys_within(events) {
                self.end_event(key.event, ending);
            }
        }
        self.released.insert(events);
    }

    /// Books what is held of an event, and forgets it.
    pub(super) fn end_event(&mut self, event: EventId, ending: Ending) {
        let mut alike = Alike::default();
        self.forget(event, ending, &mut alike);
        self.book(ending, alike);
    }

    /// Forgets an event that has ended. What is held of it is added to what is alike, or else booked.
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
