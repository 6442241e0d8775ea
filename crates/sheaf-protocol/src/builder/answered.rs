//! Set of readout units that have answered for an event.

/// One bit for each readout unit. The bits of units that do not exist are set. The first 64 bits are stored in the set
/// itself. With up to 64 units an answer therefore touches no memory outside its assembly, of which the set is two
/// words.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    first: u64,
    more: Option<Box<More>>,
}

/// Bits of units 64 and higher.
#[derive(Clone, Debug)]
struct More(Vec<u64>);

const WORD: usize = u64::BITS as usize;

/// Returns the bits of units that do not exist, in the word that begins with unit `begin`.
const fn absent(begin: usize, readouts: usize) -> u64 {
    let here = readouts.saturating_sub(begin);
    if here >= WORD { 0 } else { u64::MAX << here }
}

impl Answered {
    /// Creates a set without answers.
    pub(super) fn new(readouts: usize) -> Self {
        let words = readouts.div_ceil(WORD).saturating_sub(1);
        let more = (words > 0).then(|| Box::new(More(vec![0; words])));
        let mut answered = Self { first: 0, more };
        answered.clear(readouts);
        answered
    }

    /// Returns whether a readout unit has answered or does not exist.
    #[inline]
    pub(super) fn contains(&self, readout: usize) -> bool {
        let more = || self.more.as_ref()?.0.get(readout / WORD - 1).copied();
        let word = if readout < WORD { self.first } else { more().unwrap_or(u64::MAX) };
        word & 1 << (readout % WORD) != 0
    }

    /// Adds a readout unit. Returns `false` if it was in the set already or does not exist.
    #[inline]
    pub(super) fn insert(&mut self, readout: usize) -> bool {
        let word = if readout < WORD {
            &mut self.first
        } else if let Some(word) = self.more.as_mut().and_then(|more| more.0.get_mut(readout / WORD - 1)) {
            word
        } else {
            return false;
        };
        let bit = 1 << (readout % WORD);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Passes on each readout unit that has not answered.
    pub(super) fn each_absent(&self, mut absent: impl FnMut(usize)) {
        let more = self.more.iter().flat_map(|more| &more.0);
        for (index, word) in std::iter::once(&self.first).chain(more).enumerate() {
            let mut left = !word;
            while left != 0 {
                absent(index * WORD + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// Clears all answers, for the same number of readout units.
    #[inline]
    pub(super) fn clear(&mut self, readouts: usize) {
        self.first = absent(0, readouts);
        if let Some(more) = &mut self.more {
            for (index, word) in more.0.iter_mut().enumerate() {
                *word = absent((index + 1) * WORD, readouts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(readouts in 1..300_usize, answers in prop::collection::vec(0..300_usize, 0..80)) {
            let mut answered = Answered::new(readouts);
            let mut plain = BTreeSet::new();
            for readout in answers {
                prop_assert_eq!(answered.insert(readout), readout < readouts && plain.insert(readout));
            }
            let all: Vec<usize> = (0..readouts).collect();
            prop_assert!(all.iter().all(|readout| answered.contains(*readout) == plain.contains(readout)));
            let mut absent = Vec::new();
            answered.each_absent(|readout| absent.push(readout));
            let left: Vec<usize> = all.iter().copied().filter(|readout| !plain.contains(readout)).collect();
            prop_assert_eq!(absent, left);
            answered.clear(readouts);
            prop_assert!(!all.iter().any(|readout| answered.contains(*readout)));
            prop_assert!((readouts..readouts + 70).all(|readout| answered.contains(readout)), "units that do not exist count as answered");
        }
    }
}
