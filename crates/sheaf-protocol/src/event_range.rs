//! Ranges of event ids.

use serde::{Deserialize, Serialize};
use sheaf_wire::EventId;

/// A half-open range of event ids.
///
/// Usually events arrive, are requested, answered and released in consecutive order, so queues of ranges cost next to nothing per
/// event. A range on the wire also has an attempt ([`sheaf_wire::message::EventRange`]) or an outcome
/// ([`sheaf_wire::message::Release`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventIdRange {
    first: u64,
    count: u64,
}

impl EventIdRange {
    /// Creates a range of `count` events from `first` on, limited by the largest id.
    pub(crate) fn new(first: EventId, count: u64) -> Self {
        Self { first: first.0, count: count.min((u64::MAX - first.0).saturating_add(1)) }
    }

    /// Creates a range of one event.
    pub(crate) fn one(event: EventId) -> Self {
        Self { first: event.0, count: 1 }
    }

    /// Returns the number of events.
    #[inline]
    pub(crate) fn len(self) -> u64 {
        self.count
    }

    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Returns the lowest event; `None` for an empty range.
    #[inline]
    pub(crate) fn first(self) -> Option<EventId> {
        (self.count > 0).then_some(EventId(self.first))
    }

    /// Returns the highest event; `None` for an empty range.
    pub(crate) fn last(self) -> Option<EventId> {
        (self.count > 0).then(|| EventId(self.first + (self.count - 1)))
    }

    /// Returns the events in ascending order.
    #[inline]
    pub(crate) fn events(self) -> impl Iterator<Item = EventId> {
        (0..self.count).map(move |offset| EventId(self.first.wrapping_add(offset)))
    }

    /// Returns whether the range contains an event.
    pub(crate) fn has(self, event: EventId) -> bool {
        event.0 >= self.first && event.0 - self.first < self.count
    }

    /// Appends another range if it follows directly. Returns whether it does.
    #[inline]
    pub(crate) fn join(&mut self, next: Self) -> bool {
        // If the range ends with the largest id, the sum wraps to 0, which follows no range.
        let is_next = next.first == self.first.wrapping_add(self.count) && next.first > 0;
        if is_next {
            self.count += next.count;
        }
        is_next
    }

    /// Removes and returns the first `count` events, or all.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) -> Self {
        let count = count.min(self.count);
        let taken = Self { first: self.first, count };
        self.first = self.first.wrapping_add(count);
        self.count -= count;
        taken
    }

    /// Returns the lowest event above another one, if there is one.
    #[inline]
    pub(crate) fn first_above(self, other: Option<EventId>) -> Option<EventId> {
        let skipped = match other {
            None => 0,
            Some(other) => other.0.checked_add(1)?.saturating_sub(self.first),
        };
        (skipped < self.count).then(|| EventId(self.first + skipped))
    }

    /// Returns the number of events, from the first on, that also belong to `other`.
    pub(crate) fn begins_within(self, other: Self) -> u64 {
        let offset = self.first.checked_sub(other.first);
        offset.map_or(0, |offset| other.count.saturating_sub(offset).min(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ids at both ends of the range.
    fn id() -> impl Strategy<Value = u64> {
        prop_oneof![0..12_u64, u64::MAX - 11..=u64::MAX]
    }

    proptest! {
        #[test]
        fn agrees_with_a_list_of_ids(first in id(), count in 0..15_u64, skipped in 0..15_u64, next in id()) {
            let mut range = EventIdRange::new(EventId(first), count);
            let mut plain: Vec<u64> = (0..count).filter_map(|offset| first.checked_add(offset)).collect();
            prop_assert_eq!(range.len(), plain.len() as u64);
            let taken = range.take(skipped);
            let plain_taken: Vec<u64> = plain.drain(..plain.len().min(skipped as usize)).collect();
            prop_assert_eq!(taken.events().map(|event| event.0).collect::<Vec<_>>(), plain_taken);
            if let Some(last) = plain.last().copied() {
                let is_next = last.checked_add(1) == Some(next);
                let more = EventIdRange::new(EventId(next), skipped.max(1));
                prop_assert_eq!(range.join(more), is_next);
                plain.extend(more.events().filter(|_| is_next).map(|event| event.0));
            }
            let above = |event: &u64| *event > next;
            prop_assert_eq!(range.first_above(Some(EventId(next))), plain.iter().copied().find(above).map(EventId));
            prop_assert_eq!(range.first_above(None), range.first());
            prop_assert_eq!(range.is_empty(), plain.is_empty());
            prop_assert_eq!(range.has(EventId(next)), plain.contains(&next));
            prop_assert_eq!(range.first(), plain.first().copied().map(EventId));
            prop_assert_eq!(range.last(), plain.last().copied().map(EventId));
            prop_assert_eq!(range.events().map(|event| event.0).collect::<Vec<_>>(), plain);
        }

        #[test]
        fn shares_the_right_events_with_another(a in id(), b in id(), count_a in 0..15_u64, count_b in 0..15_u64) {
            let (a, b) = (EventIdRange::new(EventId(a), count_a), EventIdRange::new(EventId(b), count_b));
            let shared = a.events().take_while(|event| b.events().any(|other| other == *event)).count();
            prop_assert_eq!(a.begins_within(b), shared as u64);
        }
    }

    #[test]
    fn an_empty_range_joins_only_a_range_that_begins_at_its_start() {
        let mut range = EventIdRange::default();
        assert!(!range.join(EventIdRange::one(EventId(0))) && !range.join(EventIdRange::one(EventId(7))));
        range = EventIdRange::one(EventId(6));
        range.take(1);
        assert!(range.join(EventIdRange::one(EventId(7))));
        assert_eq!(range, EventIdRange::one(EventId(7)));
    }
}
