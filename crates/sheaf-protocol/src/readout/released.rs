//! Ended events that a readout unit remembers.

use crate::event_range::EventIdRange;
use crate::event_set::EventSet;
use sheaf_wire::EventId;

/// Number of separate ranges of released events that a readout unit remembers. Older gaps count as released.
const RANGES: usize = 4096;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Released {
    all: EventSet,
    /// Highest released event. Nearly all arriving fragments are of higher events.
    highest: Option<EventId>,
    /// Released events that were not requested completely.
    passed_by: EventSet,
    /// Released events from which this unit is excluded.
    excluded: EventSet,
}

impl Released {
    pub(super) fn new() -> Self {
        Self {
            all: EventSet::new(RANGES),
            highest: None,
            passed_by: EventSet::new(RANGES),
            excluded: EventSet::new(RANGES),
        }
    }

    pub(super) fn contains(&self, event: EventId) -> bool {
        self.all.contains(event)
    }

    /// Returns whether an event is above all released ones, so that it is not released itself.
    #[inline]
    pub(super) fn is_above_all(&self, event: EventId) -> bool {
        Some(event) > self.highest
    }

    /// Returns the highest released event.
    pub(super) fn highest(&self) -> Option<EventId> {
        self.highest
    }

    /// Returns the highest released event that is not above `most`.
    pub(super) fn highest_up_to(&self, most: EventId) -> Option<EventId> {
        let below = self.all.ranges().filter(|(first, _)| *first <= most);
        below.map(|(_, last)| last.min(most)).max()
    }

    /// Returns whether an event was released without being requested completely.
    pub(super) fn is_passed_by(&self, event: EventId) -> bool {
        self.passed_by.contains(event)
    }

    pub(super) fn insert(&mut self, events: EventIdRange) {
        self.all.insert(events);
        self.highest = self.highest.max(events.last());
    }

    /// Returns whether an event was built without this unit, because it is excluded.
    pub(super) fn is_excluded(&self, event: EventId) -> bool {
        self.excluded.contains(event)
    }

    /// Records that released events were built without this unit, because it is excluded.
    pub(super) fn exclude(&mut self, events: EventIdRange) {
        self.excluded.insert(events);
    }

    /// Records that released events were not requested completely.
    pub(super) fn pass_by(&mut self, events: EventIdRange) {
        self.passed_by.insert(events);
    }
}
