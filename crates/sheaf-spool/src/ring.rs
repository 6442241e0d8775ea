//! Decisions of a ring of segments: when to begin, close and delete one. No I/O.

use std::collections::VecDeque;

/// Limits of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Maximum number of bytes of all segments.
    pub keep_bytes: u64,
    /// Number of bytes beyond which a segment is closed.
    pub segment_bytes: u64,
}

/// Next step towards an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStep {
    /// Delete this segment, then report [`Ring::deleted`].
    Delete(u64),
    /// Close the open segment, then report [`Ring::closed`].
    Close,
    /// Begin this segment, then report [`Ring::begun`].
    Begin(u64),
    /// Append to the open segment, then report [`Ring::appended`].
    Append,
    /// The whole ring has less room.
    TooLarge,
}

/// A bounded ring of segments, of which the last may be open.
///
/// Whoever appends asks for the [next step](Self::next), takes it, reports it, and asks again until the step is
/// [`RingStep::Append`].
#[derive(Clone, Debug)]
pub struct Ring {
    limits: RingLimits,
    /// Number and size of closed segments, the oldest first.
    closed: VecDeque<(u64, u64)>,
    /// Number and size of the open one.
    open: Option<(u64, u64)>,
    next: u64,
}

impl Ring {
    /// Begins with the closed segments that there are, with their sizes, in order of their numbers.
    #[must_use]
    pub fn new(limits: RingLimits, closed: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let closed: VecDeque<_> = closed.into_iter().collect();
        let next = closed.back().map_or(1, |(number, _)| number + 1);
        Self { limits, closed, open: None, next }
    }

    /// Returns the number of bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|(_, bytes)| bytes).sum();
        closed + self.open.map_or(0, |(_, bytes)| bytes)
    }

    /// Returns the next step before `bytes` can be appended. `begin_bytes` is the size of a segment without content.
    #[must_use]
    pub fn next(&self, bytes: u64, begin_bytes: u64) -> RingStep {
        if begin_bytes.saturating_add(bytes) > self.limits.keep_bytes {
            return RingStep::TooLarge;
        }
        match self.open {
            Some((_, size)) if size > begin_bytes && size + bytes > self.limits.segment_bytes => {
                RingStep::Close
            }
            Some(_) => self.make_room(bytes, RingStep::Append),
            None => self.make_room(bytes + begin_bytes, RingStep::Begin(self.next)),
        }
    }

    /// Returns the oldest closed segment, which is deleted if the disk has no room for the ring.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.closed.front().map(|(number, _)| *number)
    }

    fn make_room(&self, bytes: u64, then: RingStep) -> RingStep {
        if self.bytes() + bytes <= self.limits.keep_bytes {
            return then;
        }
        match self.oldest() {
            Some(oldest) => RingStep::Delete(oldest),
            // Only the open segment is left, and it is full.
            None => RingStep::Close,
        }
    }

    /// Records that a segment was deleted.
    pub fn deleted(&mut self, number: u64) {
        self.closed.retain(|(closed, _)| *closed != number);
    }

    /// Records that the open segment was closed, with its final size.
    pub fn closed(&mut self, bytes: u64) {
        if let Some((number, _)) = self.open.take() {
            self.closed.push_back((number, bytes));
        }
    }

    /// Records that a segment was begun.
    pub fn begun(&mut self, bytes: u64) {
        self.open = Some((self.next, bytes));
        self.next += 1;
    }

    /// Records that bytes were appended.
    pub fn appended(&mut self, bytes: u64) {
        if let Some((_, size)) = &mut self.open {
            *size += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEGIN: u64 = 10;

    proptest! {
        #[test]
        fn a_ring_never_exceeds_its_bound_and_deletes_the_oldest_only_for_room(
            keep_bytes in 50..500_u64, segment_bytes in 20..100_u64, appends in prop::collection::vec(1..60_u64, 1..200),
            held in prop::collection::vec(10..200_u64, 0..4),
        ) {
            let held: Vec<_> = held.into_iter().enumerate().map(|(index, bytes)| (index as u64 + 5, bytes)).collect();
            let mut ring = Ring::new(RingLimits { keep_bytes, segment_bytes }, held.iter().copied());
            let mut files: VecDeque<(u64, u64)> = held.into();
            for bytes in appends {
                for step in 0.. {
                    prop_assert!(step < 50, "it comes to an end");
                    match ring.next(bytes, BEGIN) {
                        RingStep::Delete(number) => {
                            let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
                            prop_assert!(total + bytes + BEGIN > keep_bytes, "deleted without need");
                            prop_assert_eq!(files.pop_front().map(|(number, _)| number), Some(number));
                            ring.deleted(number);
                        }
                        RingStep::Close => ring.closed(files.back().unwrap().1),
                        RingStep::Begin(number) => {
                            prop_assert!(files.back().is_none_or(|(last, _)| *last < number));
                            files.push_back((number, BEGIN));
                            ring.begun(BEGIN);
                        }
                        RingStep::Append => {
                            files.back_mut().unwrap().1 += bytes;
                            ring.appended(bytes);
                            break;
                        }
                        RingStep::TooLarge => {
                            prop_assert!(bytes + BEGIN > keep_bytes);
                            break;
                        }
                    }
                }
                let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(ring.bytes(), total);
                let grown = ring.open.is_some();
                prop_assert!(!grown || total <= keep_bytes, "{} of {}", total, keep_bytes);
            }
        }
    }
}
