//! A bounded memory of event ids that have ended.

use crate::event_range::EventIdRange;
use sheaf_wire::EventId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A set of event ids, stored as ranges. When there are too many ranges, the lowest two are joined, so that the gap
/// between them counts as ended, too: such an old id is late in any case.
#[derive(Clone, Debug)]
pub(crate) struct EventSet {
    /// First id to last id of each range; ranges neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    max_ranges: usize,
    /// Greatest member.
    highest: u64,
    /// The range that grew last, in its current form; its end in `ranges` may lag behind. Most events end in order, and this
    /// range grows without a search.
    growing: Option<Growing>,
}

#[derive(Clone, Copy, Debug)]
struct Growing {
    range: EventIdRange,
    /// The range may grow up to the id before this one without touching the next range.
    before: u64,
}

impl Growing {
    fn new(start: u64, end: u64, next: Option<u64>) -> Self {
        let range = EventIdRange::new(EventId(start), (end - start).saturating_add(1));
        Self { range, before: next.unwrap_or(u64::MAX) }
    }
}

impl EventSet {
    /// Creates an empty set that remembers at most `max_ranges` separate ranges (at least 1).
    #[must_use]
    pub(crate) fn new(max_ranges: usize) -> Self {
        Self { ranges: BTreeMap::new(), max_ranges: max_ranges.max(1), highest: 0, growing: None }
    }

    /// Returns whether `event` has ended.
    #[must_use]
    pub(crate) fn contains(&self, event: EventId) -> bool {
        // Most queries are for new events.
        if event.0 > self.highest {
            return false;
        }
        if self.growing.is_some_and(|growing| growing.range.has(event)) {
            return true;
        }
        self.ranges.range(..=event.0).next_back().is_some_and(|(_, last)| event.0 <= *last)
    }

    /// Adds consecutive ids.
    pub(crate) fn insert(&mut self, events: EventIdRange) {
        let (Some(EventId(start)), Some(EventId(end))) = (events.first(), events.last()) else {
            return;
        };
        self.highest = self.highest.max(end);
        if let Some(growing) = &mut self.growing
            && end.saturating_add(1) < growing.before
            && growing.range.join(events)
        {
            return;
        }
        self.settle();
        let grown = self.add(start, end);
        let is_full = self.ranges.len() > self.max_ranges;
        while self.ranges.len() > self.max_ranges {
            self.join_lowest();
        }
        // If the lowest ranges were joined, the range may have changed.
        self.growing = Some(grown).filter(|_| !is_full);
    }

    /// Updates `ranges`.
    fn settle(&mut self) {
        let range = self.growing.take().map(|growing| growing.range);
        if let Some((first, last)) = range.and_then(|range| Some((range.first()?, range.last()?))) {
            self.ranges.insert(first.0, last.0);
        }
    }

    /// Adds a range to `ranges`. Returns the merged range that contains it.
    fn add(&mut self, mut start: u64, mut end: u64) -> Growing {
        // Merges the range that begins at or before the new one, if they touch.
        let before = self.ranges.range_mut(..=start).next_back();
        if let Some((&before, before_end)) = before
            && before_end.saturating_add(1) >= start
        {
            start = before;
            end = end.max(*before_end);
            *before_end = end;
        } else {
            self.ranges.insert(start, end);
        }
        // Merges all ranges that begin within it or directly after it.
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        loop {
            let next = self.ranges.range(behind).next().map(|(next, next_end)| (*next, *next_end));
            let Some((next, next_end)) = next.filter(|(next, _)| *next <= end.saturating_add(1)) else {
                return Growing::new(start, end, next.map(|(next, _)| next));
            };
            self.ranges.remove(&next);
            if next_end > end {
                end = next_end;
                self.ranges.insert(start, end);
            }
        }
    }

    fn join_lowest(&mut self) {
        let Some((lowest, _)) = self.ranges.pop_first() else {
            return;
        };
        if let Some((_, end)) = self.ranges.pop_first() {
            self.ranges.insert(lowest, end);
        }
    }

    /// Returns the ranges as first and last id, ascending.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (EventId, EventId)> {
        let growing = self.growing.map(|growing| growing.range);
        self.ranges.iter().map(move |(first, last)| {
            let (first, last) = (EventId(*first), EventId(*last));
            let grown = growing.filter(|range| range.first() == Some(first)).and_then(EventIdRange::last);
            (first, grown.unwrap_or(last))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(inserts in prop::collection::vec((0..200_u64, 1..20_u32), 0..60)) {
            let mut set = EventSet::new(usize::MAX);
            let mut plain = BTreeSet::new();
            for (first, count) in inserts {
                set.insert(EventIdRange::new(EventId(first), u64::from(count)));
                plain.extend(first..first + u64::from(count));
            }
            for id in 0..240 {
                prop_assert_eq!(set.contains(EventId(id)), plain.contains(&id), "id {}", id);
            }
            let ranges: Vec<_> = set.ranges().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0), "ranges touch: {:?}", ranges);
        }

        #[test]
        fn a_bounded_set_forgets_gaps_never_members(inserts in prop::collection::vec(0..500_u64, 0..80), bound in 1..5_usize) {
            let mut set = EventSet::new(bound);
            for id in &inserts {
                set.insert(EventIdRange::one(EventId(*id)));
                prop_assert!(set.ranges().count() <= bound);
            }
            for id in inserts {
                prop_assert!(set.contains(EventId(id)));
            }
        }
    }

    #[test]
    fn the_largest_id_can_be_added() {
        let mut set = EventSet::new(4);
        set.insert(EventIdRange::new(EventId(u64::MAX - 1), 10));
        assert!(set.contains(EventId(u64::MAX)));
        assert!(!set.contains(EventId(u64::MAX - 2)));
    }
}
