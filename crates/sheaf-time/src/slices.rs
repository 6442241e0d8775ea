//! Time slices: the timeline divided into intervals of equal length, each with its items and optionally those shortly before and
//! after it.

use crate::{Moment, Picos};
use std::collections::VecDeque;
use std::ops::Range;

/// Division of the timeline into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceConfig {
    /// Duration of a slice, not zero. Slice `n` begins at `n * length`.
    pub length: Picos,
    /// Time before a slice that also belongs to it.
    pub before: Picos,
    /// Time after a slice that also belongs to it.
    pub after: Picos,
    /// Maximum number of items in a slice. Further items are dropped and counted.
    pub max_items: usize,
    /// Maximum number of consecutive empty slices that are returned. Further ones are skipped and counted, so that an hour
    /// without data does not yield billions of empty slices.
    pub max_empty: u64,
}

/// An invalid configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The slices have no length.
    #[error("the length of time slices must be greater than zero")]
    NoLength,
    /// The overlaps are so long that an item would be in too many slices.
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

/// Maximum sum of the overlaps of a slice, in lengths of a slice.
pub const MOST_LENGTHS: u64 = 16;

impl SliceConfig {
    /// Checks the configuration.
    ///
    /// # Errors
    /// If the length is zero or the overlaps are too long.
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

    /// Returns the slice that contains a moment, without regard to overlaps.
    #[must_use]
    pub fn number(&self, at: Moment) -> u64 {
        at.0 / self.length.0
    }

    /// Returns the begin of slice `number`, without its overlap.
    #[must_use]
    pub fn begin(&self, number: u64) -> Moment {
        Moment(self.length.times(number).0)
    }

    /// Returns the first and the last slice that contain an item at `at`.
    fn slices_of(&self, at: Moment) -> (u64, u64) {
        // Slice n contains [n * length - before, (n + 1) * length + after).
        let first = if at.0 < self.after.0 { 0 } else { self.number(at - self.after) };
        (first, self.number(at + self.before))
    }

    /// Returns the moments of items that are in slice `number` and in no other. `None`: there are none.
    fn alone(&self, number: u64) -> Option<Range<Moment>> {
        let begin = if number == 0 { Moment::ZERO } else { self.begin(number) + self.after };
        let range = begin..self.begin(number.checked_add(1)?) - self.before;
        (!range.is_empty()).then_some(range)
    }

    /// Returns the end of slice `number` including its overlap.
    fn end(&self, number: u64) -> Moment {
        self.begin(number.saturating_add(1)) + self.after
    }
}

/// The data of one source for one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice<T> {
    /// Number of the slice.
    pub number: u64,
    /// Items in order, including those of the overlaps.
    pub items: Vec<(Moment, T)>,
    /// Number of its items that no earlier slice has.
    pub first_seen: u64,
}

impl<T> Slice<T> {
    /// Returns a slice without items.
    #[must_use]
    pub fn empty(number: u64) -> Self {
        Self { number, items: Vec::new(), first_seen: 0 }
    }
}

/// Counts of slices, and of losses caused by the bounds. Each item is in one of `taken`, `late`, `left_out`
/// and [`Slicer::waiting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlicerStats {
    /// Number of slices returned.
    pub slices: u64,
    /// Number of returned slices that were empty.
    pub empty: u64,
    /// Number of slices skipped because too many consecutive ones were empty.
    pub passed: u64,
    /// Number of items in at least one returned slice.
    pub taken: u64,
    /// Number of items in no slice, because all slices that they belong to had been returned.
    pub late: u64,
    /// Number of items in no slice, because the remaining slices that they belong to were full.
    pub left_out: u64,
    /// Number of places in slices that items lack, because the slice was full or had been returned. It includes those of items that
    /// are in no slice.
    pub places_lacking: u64,
}

/// Divides the items of one source into slices. The first slice is the first that has an item. From there
/// on every slice is returned, including empty ones: that a source has no data is information, too.
#[derive(Clone, Debug)]
pub struct Slicer<T> {
    config: SliceConfig,
    /// Slices from `next` on that have items or are before a slice with items.
    open: VecDeque<Slice<T>>,
    next: Option<u64>,
    /// The slice into which the latest item went, and the moments of items that are in it alone.
    latest: Option<(u64, Range<Moment>)>,
    /// Watermark: later items are at this moment or after it.
    reached: Moment,
    empty_in_a_row: u64,
    stats: SlicerStats,
}

/// Inserts an item in order of time, after those of the same time.
fn insert<T>(items: &mut Vec<(Moment, T)>, at: Moment, item: T) {
    if items.last().is_none_or(|(last, _)| *last <= at) {
        return items.push((at, item));
    }
    let place = items.partition_point(|(before, _)| *before <= at);
    items.insert(place, (at, item));
}

impl<T: Clone> Slicer<T> {
    /// Creates a slicer.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(config: SliceConfig) -> Result<Self, SliceError> {
        config.check()?;
        Ok(Self {
            config,
            open: VecDeque::new(),
            next: None,
            latest: None,
            reached: Moment::ZERO,
            empty_in_a_row: 0,
            stats: SlicerStats::default(),
        })
    }

    /// Begins with slice `number` instead of the first that has an item, so that several sources begin together. Must be called
    /// before the first item.
    pub fn begin_with(&mut self, number: u64) {
        self.next.get_or_insert(number);
    }

    /// Takes an item. One that is earlier than the watermark takes its place in the slices that have not been returned.
    pub fn push(&mut self, at: Moment, item: T) {
        if let Some(slice) = self.latest_slice(at) {
            insert(&mut slice.items, at, item);
            slice.first_seen += 1;
            self.reached = self.reached.max(at);
            return;
        }
        let (first, last) = self.config.slices_of(at);
        let next = *self.next.get_or_insert(first);
        let most = self.config.max_items;
        let mut is_in_one = false;
        for number in first.max(next)..=last {
            let slice = self.open_slice(number);
            if slice.items.len() < most {
                insert(&mut slice.items, at, item.clone());
                slice.first_seen += u64::from(!is_in_one);
                is_in_one = true;
            } else {
                self.stats.places_lacking += 1;
            }
        }
        if at < self.reached {
            self.stats.places_lacking += next.min(last.saturating_add(1)).saturating_sub(first);
        }
        match is_in_one {
            true => {}
            false if next > last => self.stats.late += 1,
            false => self.stats.left_out += 1,
        }
        self.reached = self.reached.max(at);
        // Where it is in one slice alone, so are most that follow.
        let alone = (first == last && next <= last).then(|| self.config.alone(last)).flatten();
        self.latest = alone.map(|range| (last, range));
    }

    /// Returns the slice into which the previous item went, if an item at `at` is in it alone, and there is room for it.
    #[inline]
    fn latest_slice(&mut self, at: Moment) -> Option<&mut Slice<T>> {
        let (number, range) = self.latest.as_ref()?;
        let slice = self.open.back_mut().filter(|slice| slice.number == *number && range.contains(&at))?;
        (slice.items.len() < self.config.max_items).then_some(slice)
    }

    /// Returns the open slice with this number. The overlaps limit the number of open slices.
    fn open_slice(&mut self, number: u64) -> &mut Slice<T> {
        let place = self.open.partition_point(|slice| slice.number < number);
        if self.open.get(place).is_none_or(|slice| slice.number != number) {
            self.open.insert(place, Slice::empty(number));
        }
        &mut self.open[place]
    }

    /// Declares that no more items before `at` follow.
    pub fn advance(&mut self, at: Moment) {
        self.reached = self.reached.max(at);
    }

    /// Declares that no more items follow.
    pub fn finish(&mut self) {
        self.reached = Moment::MAX;
    }

    /// Returns the next complete slice. After [`Self::finish`], these are all slices with items, and the empty ones between them.
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
        Some(Slice::empty(next))
    }

    /// Returns the slice that follows those that were returned. `None`: it is not known where slices begin.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.next
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
        self.stats.taken += slice.first_seen;
        self.next = Some(next.saturating_add(1));
        Some(slice)
    }

    /// Returns the number of items that are in no returned slice yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.open.iter().map(|slice| slice.first_seen).sum()
    }

    /// Returns the counts of slices, and of losses caused by the bounds.
    #[must_use]
    pub fn stats(&self) -> SlicerStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
