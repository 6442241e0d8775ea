//! Events with fragments but without a request.
//!
//! Each event has an age: its position in the order of first fragments. When an event is requested, older
//! events without a request are passed over, and their time limit begins. Without any request no time limit
//! begins, so that back-pressure loses nothing.

use super::slots::{EventSlots, SlotKey};
use crate::event_range::EventIdRange;
use crate::event_set::EventSet;
use crate::machine::EventDeadlines;
use crate::numbering::MOST_IN_FLIGHT;
use sheaf_wire::{EventId, Nanos, Payload, Timestamp};
use std::collections::VecDeque;

/// Number of separate ranges of expired events that a readout unit remembers. For older gaps, too, it does not wait
/// without limit.
const EXPIRED_RANGES: usize = 4096;

/// Minimum length of the queue of events without a request before it is swept.
const SWEEP_FLOOR: usize = 64;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Orphans {
    /// Time for which a fragment that was passed over is held; no limit if `None`.
    timeout: Option<Nanos>,
    /// Events without a request, in the order of their age.
    unasked: VecDeque<EventIdRange>,
    next_age: u64,
    /// Age of the youngest requested event. Older events without a request have been passed over.
    passed: u64,
    /// Deadlines of events that were passed over.
    deadlines: EventDeadlines<()>,
    /// Events with fragments that were dropped because no request arrived in time.
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

    /// Opens the slot of an event whose first fragment has arrived.
    pub(super) fn open<P: Payload>(&mut self, event: EventId, slots: &mut EventSlots<P>) -> SlotKey {
        let key = self.open_slot(event, slots);
        self.note_opened(EventIdRange::one(event), slots);
        key
    }

    /// Does the same for the first events of a range, which [`Self::note_opened`] completes.
    #[inline]
    pub(super) fn open_slot<P: Payload>(&mut self, event: EventId, slots: &mut EventSlots<P>) -> SlotKey {
        let key = slots.insert(event, self.next_age);
        self.next_age += 1;
        key
    }

    /// Records that the slots of these events were opened.
    pub(super) fn note_opened<P: Payload>(&mut self, events: EventIdRange, slots: &EventSlots<P>) {
        if self.timeout.is_none() || events.is_empty() {
            return;
        }
        if !self.unasked.back_mut().is_some_and(|last| last.join(events)) {
            self.unasked.push_back(events);
            if self.unasked.len() > SWEEP_FLOOR + 2 * slots.len() {
                self.sweep(slots);
            }
        }
    }

    /// Removes events from the heads of ranges that have been requested or have ended.
    fn sweep<P: Payload>(&mut self, slots: &EventSlots<P>) {
        self.unasked.retain_mut(|range| {
            range.take(slots.count_no_orphans(*range));
            !range.is_empty()
        });
    }

    /// Records a request for the events `asked`, of which the youngest has this `age`. The time limit of older events without a
    /// request begins.
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
            // Usually exactly these are the oldest, so they need not be examined one by one.
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

    /// Begins the time limit of all events without a request.
    pub(super) fn pass_over_all<P: Payload>(&mut self, own: Timestamp, slots: &EventSlots<P>) {
        self.pass_over(own, self.next_age, EventIdRange::default(), slots);
    }

    /// Begins the time limit of events without a request that are too far above an event which is still awaited to be in flight with it.
    pub(super) fn pass_over_far<P: Payload>(
        &mut self,
        own: Timestamp,
        awaited: EventId,
        slots: &EventSlots<P>,
    ) {
        let Some(timeout) = self.timeout else {
            return;
        };
        let Self { unasked, deadlines, .. } = self;
        unasked.retain(|events| {
            let is_far =
                events.first().is_some_and(|first| first.0.saturating_sub(awaited.0) > MOST_IN_FLIGHT);
            if is_far {
                deadlines.push(own + timeout, *events, (), |events, ()| slots.count_no_orphans(events));
            }
            !is_far
        });
    }

    /// Returns the next event whose time limit has expired, and marks it as expired.
    pub(super) fn pop_due<P: Payload>(&mut self, own: Timestamp, slots: &EventSlots<P>) -> Option<EventId> {
        let (event, ()) = self.deadlines.pop_due(own, |events, ()| slots.count_no_orphans(events))?;
        self.expired.insert(EventIdRange::one(event));
        Some(event)
    }

    /// Returns the event that expires next, and when.
    pub(super) fn peek<P: Payload>(&mut self, slots: &EventSlots<P>) -> Option<(Timestamp, EventId)> {
        let (at, event, ()) = self.deadlines.peek(|events, ()| slots.count_no_orphans(events))?;
        Some((at, event))
    }

    /// Returns whether fragments of an event were dropped because no request arrived in time.
    pub(super) fn is_expired(&self, event: EventId) -> bool {
        self.expired.contains(event)
    }
}
