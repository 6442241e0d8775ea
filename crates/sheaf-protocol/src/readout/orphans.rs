//! Events that a fragment opened and nobody asks for.
//!
//! Each event has an age, its place in the order in which first fragments came. When an event is asked for, older ones that are
//! not are passed over, and from then on their time runs: it does not where nothing is asked for, so back-pressure loses nothing.

use super::slots::{EventSlots, SlotKey};
use crate::event_range::EventIdRange;
use crate::event_set::EventSet;
use crate::machine::EventDeadlines;
use sheaf_wire::{EventId, Nanos, Payload, Timestamp};
use std::collections::VecDeque;

/// Number of separate ranges of expired events that a readout unit remembers. For older gaps, too, it does not wait
/// without limit.
const EXPIRED_RANGES: usize = 4096;

/// A shorter queue of events that nobody has asked for is never swept.
const SWEEP_FLOOR: usize = 64;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Orphans {
    /// Time for which a fragment is held that was passed over; no limit if `None`.
    timeout: Option<Nanos>,
    /// Events that nobody has asked for, in the order of their age.
    unasked: VecDeque<EventIdRange>,
    next_age: u64,
    /// Events younger than this have been asked for: older ones that were not are passed over.
    passed: u64,
    /// Events passed over.
    deadlines: EventDeadlines<()>,
    /// Events of which fragments were dropped because nothing asked for them in time.
    expired: EventSet,
}

impl Orphans {
    pub(super) fn new(timeout: Option<Nanos>) -> Self {
        Self {
            timeout,
            unasked: VecDeque::new(),
            next_age: 0,
            passed: 0,
            deadlines: EventDeadlines::new(),
            expired: EventSet::new(EXPIRED_RANGES),
        }
    }

    /// Opens the slot of an event whose first fragment has come.
    #[inline]
    pub(super) fn open<P: Payload>(&mut self, event: EventId, slots: &mut EventSlots<P>) -> SlotKey {
        let key = slots.insert(event, self.next_age);
        self.next_age += 1;
        let new = EventIdRange::one(event);
        if self.timeout.is_some() && !self.unasked.back_mut().is_some_and(|last| last.join(new)) {
            self.unasked.push_back(new);
            if self.unasked.len() > SWEEP_FLOOR + 2 * slots.len() {
                self.sweep(slots);
            }
        }
        key
    }

    /// Forgets events at the heads of ranges that have been asked for or have ended.
    fn sweep<P: Payload>(&mut self, slots: &EventSlots<P>) {
        self.unasked.retain_mut(|range| {
            range.take(slots.count_no_orphans(*range));
            !range.is_empty()
        });
    }

    /// Notes that events were `asked` for, the youngest of which is `age` old: the time of older ones that were not begins to
    /// run.
    pub(super) fn pass_over<P: Payload>(
        &mut self,
        own: Timestamp,
        age: u64,
        asked: EventIdRange,
        slots: &EventSlots<P>,
    ) {
        let Some(timeout) = self.timeout else {
            return;
        };
        self.passed = self.passed.max(age);
        while let Some(oldest) = self.unasked.front_mut() {
            // Mostly just these are the oldest: there is no need to look at each.
            oldest.take(oldest.begins_within(asked));
            let Some(event) = oldest.first() else {
                self.unasked.pop_front();
                continue;
            };
            if let Some(slot) = slots.orphan(event) {
                if slot.age >= self.passed {
                    break;
                }
                let count_over = |events, ()| slots.count_no_orphans(events);
                self.deadlines.push(own + timeout, EventIdRange::one(event), (), count_over);
            }
            oldest.take(1);
        }
    }

    /// Lets the time of all events run that nobody has asked for.
    pub(super) fn pass_over_all<P: Payload>(&mut self, own: Timestamp, slots: &EventSlots<P>) {
        self.pass_over(own, self.next_age, EventIdRange::default(), slots);
    }

    /// The next event whose time is over. It counts as expired.
    pub(super) fn pop_due<P: Payload>(&mut self, own: Timestamp, slots: &EventSlots<P>) -> Option<EventId> {
        let (event, ()) = self.deadlines.pop_due(own, |events, ()| slots.count_no_orphans(events))?;
        self.expired.insert(EventIdRange::one(event));
        Some(event)
    }

    /// The event whose time is over next, and when.
    pub(super) fn peek<P: Payload>(&mut self, slots: &EventSlots<P>) -> Option<(Timestamp, EventId)> {
        let (at, event, ()) = self.deadlines.peek(|events, ()| slots.count_no_orphans(events))?;
        Some((at, event))
    }

    /// Whether fragments of an event were dropped because nothing asked for them in time.
    pub(super) fn is_expired(&self, event: EventId) -> bool {
        self.expired.contains(event)
    }
}
