//! Sent data that are still read: kept under numbered slots until the receiver gives them back.

use bytes::Bytes;
use std::collections::VecDeque;

/// Maximum number of frames with payload at one receiver. Beyond it, and shortly before, receivers copy.
pub(super) const SLOTS: u32 = 1024;

/// Number of words in a set of slots.
pub(super) const SLOT_WORDS: usize = SLOTS as usize / 64;

/// The frames at one receiver.
#[derive(Debug)]
pub(super) struct Slots {
    kept: Vec<VecDeque<Bytes>>,
    free: [u64; SLOT_WORDS],
    in_use: u32,
}

impl Slots {
    pub(super) fn new() -> Self {
        let kept = (0..SLOTS).map(|_| VecDeque::new()).collect();
        Self { kept, free: [u64::MAX; SLOT_WORDS], in_use: 0 }
    }

    /// Returns the number of free slots.
    pub(super) fn free(&self) -> u32 {
        SLOTS - self.in_use
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// Keeps `payload` in the lowest free slot, so that in a steady state few words are read and changed. Returns
    /// `None`, and takes nothing, if there is no free slot.
    pub(super) fn keep(&mut self, payload: &mut VecDeque<Bytes>) -> Option<u32> {
        let word = self.free.iter().position(|free| *free != 0)?;
        let bit = self.free[word].trailing_zeros();
        self.free[word] &= !(1 << bit);
        self.in_use += 1;
        let slot = word * 64 + bit as usize;
        self.kept[slot] = std::mem::take(payload);
        // Below `SLOTS`.
        Some(slot as u32)
    }

    /// Releases the slots of a word that the receiver has returned. Slots that it never had are ignored.
    pub(super) fn give_back(&mut self, word: usize, slots: u64) {
        let mut slots = slots & !self.free[word];
        self.free[word] |= slots;
        self.in_use -= slots.count_ones();
        while slots != 0 {
            let bit = slots.trailing_zeros() as usize;
            self.kept[word * 64 + bit] = VecDeque::new();
            slots &= slots - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_payload_until_it_is_given_back_once() {
        let mut slots = Slots::new();
        let pieces: Vec<Bytes> = (0..3).map(|value| Bytes::from(vec![value; 10])).collect();
        for (index, piece) in pieces.iter().enumerate() {
            assert_eq!(slots.keep(&mut VecDeque::from([piece.clone()])), Some(index as u32));
        }
        assert!(pieces.iter().all(|piece| !piece.is_unique()));
        slots.give_back(0, 0b010);
        slots.give_back(0, 0b010);
        assert_eq!(pieces.iter().map(Bytes::is_unique).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(slots.free(), SLOTS - 2);
        assert_eq!(slots.keep(&mut VecDeque::new()), Some(1), "the lowest");
    }

    #[test]
    fn slots_that_were_never_lent_cannot_be_given_back() {
        let mut slots = Slots::new();
        slots.give_back(3, u64::MAX);
        assert!(slots.is_empty());
        for expected in 0..SLOTS {
            assert_eq!(slots.keep(&mut VecDeque::new()), Some(expected));
        }
        assert_eq!(slots.keep(&mut VecDeque::new()), None);
        for word in 0..SLOT_WORDS {
            slots.give_back(word, u64::MAX);
        }
        assert!(slots.is_empty());
    }
}
