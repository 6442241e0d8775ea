//! Which readout units have answered for an event.

/// A bit for each readout unit. Those of the first 64 lie in the set itself: where there are no more units, an answer touches no
/// memory beside its assembly.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    first: u64,
    more: Vec<u64>,
}

const WORD: usize = u64::BITS as usize;

impl Answered {
    /// Nobody has answered, of so many.
    pub(super) fn new(readouts: usize) -> Self {
        Self { first: 0, more: vec![0; readouts.div_ceil(WORD).saturating_sub(1)] }
    }

    #[inline]
    pub(super) fn contains(&self, readout: usize) -> bool {
        let word = if readout < WORD { self.first } else { self.more[readout / WORD - 1] };
        word & 1 << (readout % WORD) != 0
    }

    /// Adds a readout unit. False if it was there.
    #[inline]
    pub(super) fn insert(&mut self, readout: usize) -> bool {
        let word = if readout < WORD { &mut self.first } else { &mut self.more[readout / WORD - 1] };
        let bit = 1 << (readout % WORD);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Nobody has answered.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.set_all(0);
    }

    /// All have.
    pub(super) fn fill(&mut self) {
        self.set_all(u64::MAX);
    }

    #[inline]
    fn set_all(&mut self, word: u64) {
        self.first = word;
        if !self.more.is_empty() {
            self.more.fill(word);
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
            for readout in answers.into_iter().filter(|readout| *readout < readouts) {
                prop_assert_eq!(answered.insert(readout), plain.insert(readout));
            }
            let all: Vec<usize> = (0..readouts).collect();
            prop_assert!(all.iter().all(|readout| answered.contains(*readout) == plain.contains(readout)));
            answered.fill();
            prop_assert!(all.iter().all(|readout| answered.contains(*readout)));
            answered.clear();
            prop_assert!(!all.iter().any(|readout| answered.contains(*readout)));
        }
    }
}
