//! A compact set of event ids: about half a byte per id where ids are dense, 24 bytes where they are not.

use sheaf_wire::EventId;
use std::collections::{BTreeMap, btree_map};

/// A set of event ids, in order.
#[derive(Clone, Debug, Default)]
pub struct IdSet {
    /// By the upper bits of ids: a bit for each of the 64 ids that share them.
    words: BTreeMap<u64, u64>,
    len: u64,
}

/// A range of ids, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct IdRange {
    /// The first id.
    pub first: u64,
    /// The last id.
    pub last: u64,
}

impl IdRange {
    /// Returns the number of ids in the range; saturates for all 2^64.
    #[must_use]
    pub const fn ids(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Widens a range so that it contains this id.
    pub(crate) fn widen(range: &mut Option<Self>, id: u64) {
        let Self { first, last } = range.unwrap_or(Self { first: id, last: id });
        *range = Some(Self { first: first.min(id), last: last.max(id) });
    }
}

impl IdSet {
    /// Adds `id`; returns `false` if it was already present.
    pub fn insert(&mut self, id: EventId) -> bool {
        let word = self.words.entry(id.0 >> 6).or_default();
        let bit = 1 << (id.0 & 63);
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(new);
        new
    }

    /// Adds all ids of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, bits) in &other.words {
            let word = self.words.entry(*key).or_default();
            self.len += u64::from((bits & !*word).count_ones());
            *word |= bits;
        }
    }

    /// Removes all ids that `other` lacks.
    pub fn retain_common(&mut self, other: &Self) {
        self.words.retain(|key, bits| {
            *bits &= other.words.get(key).copied().unwrap_or(0);
            *bits != 0
        });
        self.len = self.words.values().map(|bits| u64::from(bits.count_ones())).sum();
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The smallest and the largest id.
    #[must_use]
    pub fn bounds(&self) -> Option<IdRange> {
        let (first, first_bits) = self.words.first_key_value()?;
        let (last, last_bits) = self.words.last_key_value()?;
        Some(IdRange {
            first: (first << 6) + u64::from(first_bits.trailing_zeros()),
            last: (last << 6) + 63 - u64::from(last_bits.leading_zeros()),
        })
    }

    /// The ranges of consecutive ids, ascending.
    pub fn runs(&self) -> impl Iterator<Item = IdRange> + '_ {
        Runs { words: self.words.iter(), base: 0, bits: 0, open: None }
    }

    /// The ranges of ids that are not there between the smallest and the largest, ascending.
    pub fn gaps(&self) -> impl Iterator<Item = IdRange> + '_ {
        let mut before: Option<IdRange> = None;
        self.runs().filter_map(move |run| {
            let gap = before.map(|before| IdRange { first: before.last + 1, last: run.first - 1 });
            before = Some(run);
            gap
        })
    }
}

struct Runs<'a> {
    words: btree_map::Iter<'a, u64, u64>,
    base: u64,
    bits: u64,
    open: Option<IdRange>,
}

impl Iterator for Runs<'_> {
    type Item = IdRange;

    fn next(&mut self) -> Option<IdRange> {
        loop {
            if self.bits == 0 {
                let Some((key, bits)) = self.words.next() else {
                    return self.open.take();
                };
                (self.base, self.bits) = (key << 6, *bits);
            }
            let from = self.bits.trailing_zeros();
            let ids = (self.bits >> from).trailing_ones();
            self.bits &= u64::MAX.checked_shl(from + ids).unwrap_or(0);
            let first = self.base + u64::from(from);
            let last = first + u64::from(ids - 1);
            match &mut self.open {
                Some(open) if open.last + 1 == first => open.last = last,
                open => {
                    if let Some(done) = open.replace(IdRange { first, last }) {
                        return Some(done);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
