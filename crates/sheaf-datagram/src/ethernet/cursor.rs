//! Positions in a ring that is shared with the kernel: free-running 32-bit counts, each written by one side only.
//!
//! A position is the number of entries passed since the ring was made, and wraps; its index is the position modulo the
//! ring's size, a power of two. The other side's position is read again only when the cached value is used up, so that
//! its cache line stays where it is. Entries written before [`Producer::publish`] are visible after
//! [`Consumer::available`] returns them, and entries read before [`Consumer::give_back`] are not overwritten earlier.

use std::sync::atomic::{AtomicU32, Ordering};

/// The side that puts entries in.
#[derive(Debug)]
pub(super) struct Producer {
    size: u32,
    position: u32,
    known_consumed: u32,
}

impl Producer {
    /// For a ring of `size` entries, a power of two, in which both positions are `position`.
    pub(super) fn new(size: u32, position: u32) -> Self {
        assert!(size.is_power_of_two(), "a ring has a power of two of entries, not {size}");
        Self { size, position, known_consumed: position }
    }

    /// Returns whether there is room for `entries` more.
    pub(super) fn has_room(&mut self, consumed: &AtomicU32, entries: u32) -> bool {
        if self.room() < entries {
            self.look(consumed);
        }
        self.room() >= entries
    }

    /// Returns the number of published entries that the other side has not taken yet.
    pub(super) fn pending(&mut self, consumed: &AtomicU32) -> u32 {
        self.look(consumed);
        self.position.wrapping_sub(self.known_consumed)
    }

    fn look(&mut self, consumed: &AtomicU32) {
        let seen = consumed.load(Ordering::Acquire);
        // A position that the other side cannot have is no news.
        if self.position.wrapping_sub(seen) <= self.size {
            self.known_consumed = seen;
        }
    }

    fn room(&self) -> u32 {
        self.size - self.position.wrapping_sub(self.known_consumed)
    }

    /// The place of the next entry, which is passed over; there must be room. Not yet seen by the other side.
    pub(super) fn next_place(&mut self) -> usize {
        debug_assert!(self.room() > 0);
        let place = self.position & (self.size - 1);
        self.position = self.position.wrapping_add(1);
        place as usize
    }

    /// Lets the other side see all entries that were passed over.
    pub(super) fn publish(&self, produced: &AtomicU32) {
        produced.store(self.position, Ordering::Release);
    }
}

/// The side that takes entries out.
#[derive(Debug)]
pub(super) struct Consumer {
    size: u32,
    position: u32,
    known_produced: u32,
}

impl Consumer {
    /// For a ring of `size` entries, a power of two, in which both positions are `position`.
    pub(super) fn new(size: u32, position: u32) -> Self {
        assert!(size.is_power_of_two(), "a ring has a power of two of entries, not {size}");
        Self { size, position, known_produced: position }
    }

    /// Returns the number of entries that can be taken.
    pub(super) fn available(&mut self, produced: &AtomicU32) -> u32 {
        if self.known_produced == self.position {
            let seen = produced.load(Ordering::Acquire);
            if seen.wrapping_sub(self.position) <= self.size {
                self.known_produced = seen;
            }
        }
        self.known_produced.wrapping_sub(self.position)
    }

    /// The place of the next entry, which is taken; there must be one. The other side does not use the place yet.
    pub(super) fn next_place(&mut self) -> usize {
        debug_assert!(self.known_produced != self.position);
        let place = self.position & (self.size - 1);
        self.position = self.position.wrapping_add(1);
        place as usize
    }

    /// Lets the other side use the places of all entries that were taken.
    pub(super) fn give_back(&self, consumed: &AtomicU32) {
        consumed.store(self.position, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Step of this side of a ring, or of the other.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put(u32),
        Take(u32),
        /// An impossible position, temporarily.
        Nonsense(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u32..20).prop_map(Step::Put),
            4 => (0_u32..20).prop_map(Step::Take),
            1 => any::<u32>().prop_map(Step::Nonsense),
        ]
    }

    proptest! {
        #[test]
        fn entries_come_out_once_in_order_and_none_is_overwritten_before_it_was_given_back(
            size_log in 0_u32..6,
            start in prop_oneof![Just(0), Just(u32::MAX - 7), any::<u32>()],
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let size = 1 << size_log;
            let (produced, consumed) = (AtomicU32::new(start), AtomicU32::new(start));
            let (mut producer, mut consumer) = (Producer::new(size, start), Consumer::new(size, start));
            let mut entries = vec![None; size as usize];
            let (mut put, mut taken) = (0_u64, 0_u64);
            for step in steps {
                match step {
                    Step::Put(wanted) => {
                        let free = u64::from(size) - (put - taken);
                        prop_assert_eq!(producer.has_room(&consumed, wanted), u64::from(wanted) <= free);
                        for _ in 0..u64::from(wanted).min(free) {
                            let place = producer.next_place();
                            prop_assert_eq!(entries[place].replace(put), None, "the place is free");
                            put += 1;
                        }
                        producer.publish(&produced);
                        prop_assert_eq!(u64::from(producer.pending(&consumed)), put - taken);
                    }
                    Step::Take(wanted) => {
                        for _ in 0..wanted {
                            if consumer.available(&produced) == 0 {
                                prop_assert_eq!(put, taken, "nothing is there only when all was taken");
                                break;
                            }
                            let place = consumer.next_place();
                            prop_assert_eq!(entries[place].take(), Some(taken));
                            taken += 1;
                        }
                        consumer.give_back(&consumed);
                    }
                    Step::Nonsense(offset) => {
                        let right = consumed.load(Ordering::Relaxed);
                        let wrong = right.wrapping_add(offset);
                        if producer.position.wrapping_sub(wrong) > size {
                            consumed.store(wrong, Ordering::Relaxed);
                            let room = producer.has_room(&consumed, size);
                            prop_assert!(!room || put == taken);
                            consumed.store(right, Ordering::Relaxed);
                        }
                    }
                }
            }
        }
    }
}
