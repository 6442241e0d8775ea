//! A bounded memory of event ids that have ended.

use crate::event_range::EventIdRange;
use crate::range_set::{Grown, RangeSet};
use serde::{Deserialize, Serialize};
use sheaf_wire::EventId;

/// A set of event ids, stored as ranges. When there are too many ranges, the lowest two are joined, so that the gap
/// between them counts as ended, too: such an old id is late in any case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EventSet {
    ranges: RangeSet,
    max_ranges: usize,
    /// Greatest member.
    highest: u64,
    /// The range that grew last, in its current form; its end in `ranges` may lag behind. Most events end in order, and this
    /// range grows without a search.
    growing: Option<Growing>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Growing {
    range: EventIdRange,
    /// The range may grow up to the id before this one without touching the next range.
    before: u64,
}

impl Growing {
    fn new(Grown { first, last, next }: Grown) -> Self {
        let range = EventIdRange::new(EventId(first), (last - first).saturating_add(1));
        Self { range, before: next.unwrap_or(u64::MAX) }
    }
}

impl EventSet {
    /// Creates an empty set that remembers at most `max_ranges` separate ranges (at least 1).
    #[must_use]
    pub(crate) fn new(max_ranges: usize) -> Self {
        Self { ranges: RangeSet::default(), max_ranges: max_ranges.max(1), highest: 0, growing: None }
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
        self.ranges.contains(event.0)
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
        let grown = Growing::new(self.ranges.insert(start, end));
        let is_full = self.ranges.ranges() > self.max_ranges;
        while self.ranges.ranges() > self.max_ranges {
            self.ranges.join_lowest();
        }
        // If the lowest ranges were joined, the range may have changed.
        self.growing = Some(grown).filter(|_| !is_full);
    }

    /// Updates `ranges`.
    fn settle(&mut self) {
        let range = self.growing.take().map(|growing| growing.range);
        if let Some((first, last)) = range.and_then(|range| Some((range.first()?, range.last()?))) {
            self.ranges.extend(first.0, last.0);
        }
    }

    /// Returns the ranges as first and last id, ascending.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (EventId, EventId)> {
        let growing = self.growing.map(|growing| growing.range);
        self.ranges.iter().map(move |(first, last)| {
            let (first, last) = (EventId(first), EventId(last));
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
