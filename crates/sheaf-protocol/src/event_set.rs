//! A bounded memory of event ids that have ended.

use sheaf_wire::EventId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A set of event ids, kept as ranges. When there are too many ranges the lowest two are joined, so that the gap
/// between them counts as ended too: an id that far back is late in any case.
#[derive(Clone, Debug)]
pub struct EventSet {
    /// First id to last id of each range; ranges neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    max_ranges: usize,
    /// No member is greater.
    highest: u64,
}

impl EventSet {
    /// An empty set that remembers at most `max_ranges` separate ranges (at least one).
    #[must_use]
    pub fn new(max_ranges: usize) -> Self {
        Self { ranges: BTreeMap::new(), max_ranges: max_ranges.max(1), highest: 0 }
    }

    /// Whether `event` has ended.
    #[must_use]
    pub fn contains(&self, event: EventId) -> bool {
        // Mostly the question is of new events.
        if event.0 > self.highest {
            return false;
        }
        self.ranges.range(..=event.0).next_back().is_some_and(|(_, last)| event.0 <= *last)
    }

    /// Adds `count` consecutive ids from `first`. A range that would pass the largest id is cut there.
    pub fn insert_range(&mut self, first: EventId, count: u32) {
        if count == 0 {
            return;
        }
        let mut start = first.0;
        let mut end = start.saturating_add(u64::from(count) - 1);
        self.highest = self.highest.max(end);
        // The range that begins at or before the new one, if they touch: it grows in its place, without another search,
        // because most events end one after another.
        let before = self.ranges.range_mut(..=start).next_back();
        if let Some((&before, before_end)) = before
            && before_end.saturating_add(1) >= start
        {
            if *before_end >= end {
                return;
            }
            *before_end = end;
            start = before;
        } else {
            self.ranges.insert(start, end);
        }
        // Then all that begin within it, or right behind.
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        while let Some((&next, &next_end)) = self.ranges.range(behind).next()
            && next <= end.saturating_add(1)
        {
            self.ranges.remove(&next);
            if next_end > end {
                end = next_end;
                self.ranges.insert(start, end);
            }
        }
        while self.ranges.len() > self.max_ranges {
            self.join_lowest();
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

    /// The ranges as first id and last id, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (EventId, EventId)> {
        self.ranges.iter().map(|(first, last)| (EventId(*first), EventId(*last)))
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
                set.insert_range(EventId(first), count);
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
                set.insert_range(EventId(*id), 1);
                prop_assert!(set.ranges().count() <= bound);
            }
            for id in inserts {
                prop_assert!(set.contains(EventId(id)));
            }
        }
    }

    #[test]
    fn the_largest_id_is_in_reach() {
        let mut set = EventSet::new(4);
        set.insert_range(EventId(u64::MAX - 1), 10);
        assert!(set.contains(EventId(u64::MAX)));
        assert!(!set.contains(EventId(u64::MAX - 2)));
    }
}
