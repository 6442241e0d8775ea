//! Queue of future events.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan 1990): it relies on simulated time never going back. An event is in
//! the bucket of the highest bit in which its time differs from the present; only the lowest bucket is ever searched,
//! and an event only moves to lower buckets. Events of the same instant are always in the same bucket and keep their
//! order, so that they come out in the order in which they went in: the tie rule of all engines, at no cost.

use crate::units::Picos;

/// 64 bits of time, and one bucket for the present.
const BUCKETS: usize = 65;

/// A queue of events, sorted by time; those of one instant in the order in which they were pushed.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    buckets: Vec<Vec<(Picos, E)>>,
    /// Bit *b* is set where bucket *b + 1* has something in it.
    filled: u64,
    /// Number of events of bucket 0 taken so far.
    taken: usize,
    now: Picos,
    len: usize,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); BUCKETS], filled: 0, taken: 0, now: Picos::ZERO, len: 0 }
    }
}

impl<E: Copy> EventQueue<E> {
    /// The time of the last event that was taken.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no event is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `event` will happen at `at`; or now, behind all others of this instant, where that is over.
    #[inline]
    pub fn push(&mut self, at: Picos, event: E) {
        let at = at.max(self.now);
        let bucket = Self::bucket(at, self.now);
        self.buckets[bucket].push((at, event));
        if bucket > 0 {
            self.filled |= 1 << (bucket - 1);
        }
        self.len += 1;
    }

    /// The next event and when it happens.
    #[inline]
    pub fn pop(&mut self) -> Option<(Picos, E)> {
        if self.taken == self.buckets[0].len() && !self.advance() {
            return None;
        }
        let event = self.buckets[0][self.taken];
        self.taken += 1;
        self.len -= 1;
        Some(event)
    }

    /// Advances to the next instant with an event.
    fn advance(&mut self) -> bool {
        self.buckets[0].clear();
        self.taken = 0;
        if self.filled == 0 {
            return false;
        }
        let lowest = self.filled.trailing_zeros() as usize + 1;
        self.filled &= self.filled - 1;
        let mut moving = std::mem::take(&mut self.buckets[lowest]);
        self.now =
            moving.iter().map(|&(at, _)| at).min().expect("a bucket that is marked as filled has an event");
        for &(at, event) in &moving {
            let bucket = Self::bucket(at, self.now);
            self.buckets[bucket].push((at, event));
            if bucket > 0 {
                self.filled |= 1 << (bucket - 1);
            }
        }
        moving.clear();
        self.buckets[lowest] = moving;
        true
    }

    #[inline]
    fn bucket(at: Picos, now: Picos) -> usize {
        (u64::BITS - (at.0 ^ now.0).leading_zeros()) as usize
    }
}

#[cfg(test)]
mod tests;
