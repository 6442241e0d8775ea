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
    /// The range that grew last, as it is now; in `ranges` its end may lag behind. Most events end one after another,
    /// and a range here grows without a search.
    growing: Option<Growing>,
}

#[derive(Clone, Copy, Debug)]
struct Growing {
    first: u64,
    last: u64,
    /// The range may grow up to the id before this one without touching the next range.
    before: u64,
}

impl EventSet {
    /// An empty set that remembers at most `max_ranges` separate ranges (at least one).
    #[must_use]
    pub fn new(max_ranges: usize) -> Self {
        Self { ranges: BTreeMap::new(), max_ranges: max_ranges.max(1), highest: 0, growing: None }
    }

    /// Whether `event` has ended.
    #[must_use]
    pub fn contains(&self, event: EventId) -> bool {
        // Mostly the question is of new events.
        if event.0 > self.highest {
            return false;
        }
        if self.growing.is_some_and(|growing| (growing.first..=growing.last).contains(&event.0)) {
            return true;
        }
        self.ranges.range(..=event.0).next_back().is_some_and(|(_, last)| event.0 <= *last)
    }

    /// Adds `count` consecutive ids from `first`. A range that would pass the largest id is cut there.
    pub fn insert_range(&mut self, first: EventId, count: u32) {
        if count == 0 {
            return;
        }
        let end = first.0.saturating_add(u64::from(count) - 1);
        self.highest = self.highest.max(end);
        if let Some(growing) = &mut self.growing
            && growing.last.checked_add(1) == Some(first.0)
            && end.saturating_add(1) < growing.before
        {
            growing.last = end;
            return;
        }
        self.settle();
        let range = self.insert(first.0, end);
        while self.ranges.len() > self.max_ranges {
            self.join_lowest();
        }
        self.growing = self.ranges.get_key_value(&range).map(|(first, last)| {
            let next = self.ranges.range((Bound::Excluded(range), Bound::Unbounded)).next();
            Growing { first: *first, last: *last, before: next.map_or(u64::MAX, |(next, _)| *next) }
        });
    }

    /// Brings `ranges` up to date.
    fn settle(&mut self) {
        if let Some(growing) = self.growing.take() {
            self.ranges.insert(growing.first, growing.last);
        }
    }

    /// Adds a range to `ranges`; the first id of the range that it has become part of.
    fn insert(&mut self, mut start: u64, mut end: u64) -> u64 {
        // The range that begins at or before the new one, if they touch.
        let before = self.ranges.range_mut(..=start).next_back();
        if let Some((&before, before_end)) = before
            && before_end.saturating_add(1) >= start
        {
            if *before_end >= end {
                return before;
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
        start
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
        let growing = self.growing;
        self.ranges.iter().map(move |(first, last)| {
            let last =
                growing.filter(|growing| growing.first == *first).map_or(*last, |growing| growing.last);
            (EventId(*first), EventId(last))
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
