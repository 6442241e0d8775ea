//! A set of numbers that is kept as ranges.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A set of numbers, most of them consecutive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RangeSet {
    /// First number to last number of each range; ranges neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
}

/// The range that numbers have become part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grown {
    /// Its first number.
    pub(crate) first: u64,
    /// Its last number.
    pub(crate) last: u64,
    /// First number of the next range.
    pub(crate) next: Option<u64>,
}

impl RangeSet {
    /// Adds the numbers from `first` to `last`.
    pub(crate) fn insert(&mut self, mut first: u64, mut last: u64) -> Grown {
        // The range that begins at or before the new one, if they touch.
        let before = self.ranges.range_mut(..=first).next_back();
        if let Some((&before, before_last)) = before
            && before_last.saturating_add(1) >= first
        {
            first = before;
            last = last.max(*before_last);
            *before_last = last;
        } else {
            self.ranges.insert(first, last);
        }
        // Then all that begin within it, or right behind.
        let behind = (Bound::Excluded(first), Bound::Unbounded);
        loop {
            let next = self.ranges.range(behind).next().map(|(next, next_last)| (*next, *next_last));
            let Some((next, next_last)) = next.filter(|(next, _)| *next <= last.saturating_add(1)) else {
                return Grown { first, last, next: next.map(|(next, _)| next) };
            };
            self.ranges.remove(&next);
            if next_last > last {
                last = next_last;
                self.ranges.insert(first, last);
            }
        }
    }

    /// Sets the end of a range that begins at `first` and touches no other.
    pub(crate) fn extend(&mut self, first: u64, last: u64) {
        self.ranges.insert(first, last);
    }

    /// Joins the lowest two ranges; the numbers between them are in the set from then on.
    pub(crate) fn join_lowest(&mut self) {
        let Some((lowest, _)) = self.ranges.pop_first() else {
            return;
        };
        if let Some((_, last)) = self.ranges.pop_first() {
            self.ranges.insert(lowest, last);
        }
    }

    /// Returns whether a number is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Returns the ranges as first and last number, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    /// Returns the largest number.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    /// Returns the number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(inserts in prop::collection::vec((0..200_u64, 0..20_u64), 0..60)) {
            let (mut set, mut plain) = (RangeSet::default(), BTreeSet::new());
            for (first, more) in inserts {
                let grown = set.insert(first, first + more);
                plain.extend(first..=first + more);
                prop_assert!(grown.first <= first && first + more <= grown.last);
                prop_assert!((grown.first..=grown.last).all(|number| plain.contains(&number)));
                prop_assert_eq!(grown.next, plain.range(grown.last + 1..).next().copied());
            }
            for number in 0..240 {
                prop_assert_eq!(set.contains(number), plain.contains(&number), "number {}", number);
            }
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "ranges touch: {:?}", ranges);
            prop_assert_eq!((set.ranges(), set.largest()), (ranges.len(), plain.last().copied()));
        }
    }
}
