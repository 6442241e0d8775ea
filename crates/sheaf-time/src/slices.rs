//! Time slices: the timeline cut into pieces of one length, each with what was seen in it and, on request, some of what was
//! seen just before and after.

use crate::{Moment, Picos};
use std::collections::VecDeque;

/// Division of the timeline into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceConfig {
    /// Duration of a slice, not zero. Slice `n` begins at `n` times this.
    pub length: Picos,
    /// Time before a slice that also belongs to it.
    pub before: Picos,
    /// Time after a slice that also belongs to it.
    pub after: Picos,
    /// Maximum number of items in a slice; further items are left out and counted.
    pub max_items: usize,
    /// Maximum number of consecutive slices without items that are given. Further empty slices are skipped and counted:
    /// an hour without a source is not billions of empty slices.
    pub max_empty: u64,
}

/// Why a configuration cuts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// Slices of no length.
    #[error("time slices have no length; give them one")]
    NoLength,
    /// Overlaps so long that an item is in more slices than make sense.
    #[error(
        "an overlap of {before} before and {after} after is more than {MOST_LENGTHS} slices of {length}; make the slices longer or the overlaps shorter"
    )]
    Overlap {
        /// The overlap before.
        before: Picos,
        /// The overlap after.
        after: Picos,
        /// The length of a slice.
        length: Picos,
    },
}

/// The overlaps of a slice are together at most so many lengths.
pub const MOST_LENGTHS: u64 = 16;

impl SliceConfig {
    /// # Errors
    /// Why it cuts nothing.
    pub fn check(&self) -> Result<(), SliceError> {
        let Self { length, before, after, .. } = *self;
        if length == Picos::ZERO {
            return Err(SliceError::NoLength);
        }
        if before + after > length.times(MOST_LENGTHS) {
            return Err(SliceError::Overlap { before, after, length });
        }
        Ok(())
    }

    /// The slice that a moment is in, overlaps aside.
    #[must_use]
    pub fn number(&self, at: Moment) -> u64 {
        at.0 / self.length.0
    }

    /// Where slice `number` begins, overlaps aside.
    #[must_use]
    pub fn begin(&self, number: u64) -> Moment {
        Moment(self.length.times(number).0)
    }

    /// The first and the last slice that an item at `at` is in.
    fn slices_of(&self, at: Moment) -> (u64, u64) {
        // Slice n holds [n * length - before, (n + 1) * length + after).
        let first = if at.0 < self.after.0 { 0 } else { self.number(at - self.after) };
        (first, self.number(at + self.before))
    }

    /// The moment from which on nothing belongs to slice `number` any more.
    fn end(&self, number: u64) -> Moment {
        self.begin(number.saturating_add(1)) + self.after
    }
}

/// The data of one source for one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<T> {
    /// Which slice.
    pub number: u64,
    /// Items in order, including those of the overlaps.
    pub items: Vec<(Moment, T)>,
}

/// Counts of slices, and of the cost of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlicerStats {
    /// Slices given.
    pub slices: u64,
    /// Of them, empty.
    pub empty: u64,
    /// Slices passed over, because too many in a row are empty.
    pub passed: u64,
    /// Items left out of a full slice.
    pub left_out: u64,
}

/// Cuts the items of one source, which come in order, into slices. The first slice is the first that has an item; from
/// there on every slice is given, the empty ones too: that a source saw nothing is an answer.
#[derive(Clone, Debug)]
pub struct Slicer<T> {
    config: SliceConfig,
    /// Slices that have items or are before one that has, from `next` on.
    open: VecDeque<Slice<T>>,
    next: Option<u64>,
    /// Everything that comes is at this moment or later.
    reached: Moment,
    empty_in_a_row: u64,
    stats: SlicerStats,
}

impl<T: Clone> Slicer<T> {
    /// A slicer that saw nothing yet.
    ///
    /// # Errors
    /// Why the configuration cuts nothing.
    pub fn new(config: SliceConfig) -> Result<Self, SliceError> {
        config.check()?;
        Ok(Self {
            config,
            open: VecDeque::new(),
            next: None,
            reached: Moment::ZERO,
            empty_in_a_row: 0,
            stats: SlicerStats::default(),
        })
    }

    /// Begins with slice `number` instead of the first that has an item, so that several sources begin together. Only
    /// before the first item.
    pub fn begin_with(&mut self, number: u64) {
        self.next.get_or_insert(number);
    }

    /// Takes an item that is not before the one before.
    pub fn push(&mut self, at: Moment, item: T) {
        debug_assert!(at >= self.reached, "items come in order");
        self.reached = at;
        let (first, last) = self.config.slices_of(at);
        let next = *self.next.get_or_insert(first);
        let most = self.config.max_items;
        for number in first.max(next)..=last {
            let slice = self.open_slice(number);
            if slice.items.len() < most {
                slice.items.push((at, item.clone()));
            } else {
                self.stats.left_out += 1;
            }
        }
    }

    /// The open slice of this number. At most a few lengths of overlap lie between the first open slice and the last.
    fn open_slice(&mut self, number: u64) -> &mut Slice<T> {
        let place = self.open.partition_point(|slice| slice.number < number);
        if self.open.get(place).is_none_or(|slice| slice.number != number) {
            self.open.insert(place, Slice { number, items: Vec::new() });
        }
        &mut self.open[place]
    }

    /// Nothing comes before `at` any more.
    pub fn advance(&mut self, at: Moment) {
        self.reached = self.reached.max(at);
    }

    /// Nothing more comes at all.
    pub fn finish(&mut self) {
        self.reached = Moment::MAX;
    }

    /// The next slice that is whole. After [`Self::finish`] that are all with items, and the empty ones between them.
    pub fn poll(&mut self) -> Option<Slice<T>> {
        let next = self.next?;
        if let Some(slice) = self.open.front()
            && slice.number == next
        {
            return self.is_whole(next).then(|| self.give_front(next)).flatten();
        }
        let (limit, in_sight) = match self.open.front() {
            Some(slice) => (slice.number, true),
            None if self.reached == Moment::MAX => return None,
            None => (self.first_not_whole(), false),
        };
        if next >= limit || (!in_sight && !self.is_whole(next)) {
            return None;
        }
        if self.empty_in_a_row >= self.config.max_empty {
            self.stats.passed += limit - next;
            self.next = Some(limit);
            return if in_sight { self.poll() } else { None };
        }
        self.empty_in_a_row += 1;
        self.stats.empty += 1;
        self.stats.slices += 1;
        self.next = Some(next.saturating_add(1));
        Some(Slice { number: next, items: Vec::new() })
    }

    fn is_whole(&self, number: u64) -> bool {
        self.reached == Moment::MAX || self.reached >= self.config.end(number)
    }

    fn first_not_whole(&self) -> u64 {
        let Some(since) = self.reached.0.checked_sub(self.config.after.0) else { return 0 };
        since / self.config.length.0
    }

    fn give_front(&mut self, next: u64) -> Option<Slice<T>> {
        let slice = self.open.pop_front()?;
        self.empty_in_a_row = 0;
        self.stats.slices += 1;
        self.next = Some(next.saturating_add(1));
        Some(slice)
    }

    /// Returns the counts of slices, and of the cost of the bounds.
    #[must_use]
    pub fn stats(&self) -> SlicerStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
