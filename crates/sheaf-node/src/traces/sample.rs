//! Events that are always traced.

use sheaf_wire::{EventId, RunNumber};

/// Events that are always traced: one of each block of consecutive ids, which follows from the run and the block. So all nodes agree
/// about them, and nothing has to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    run: RunNumber,
    every: u64,
}

impl Sample {
    /// Makes a sample of one in `every` events; none if that is 0.
    #[must_use]
    pub const fn new(run: RunNumber, every: u64) -> Self {
        Self { run, every }
    }

    /// Returns whether an event is in the sample.
    #[must_use]
    pub fn has(&self, event: EventId) -> bool {
        event.0.checked_div(self.every).is_some_and(|block| self.of_block(block) == Some(event.0))
    }

    /// Passes the events of a range that are in the sample to `take`.
    #[inline]
    pub(crate) fn each_within(&self, first: EventId, count: u32, mut take: impl FnMut(EventId)) {
        if self.every == 0 {
            return;
        }
        let last = first.0.saturating_add(u64::from(count).saturating_sub(1));
        for block in first.0 / self.every..=last / self.every {
            if let Some(event) = self.of_block(block)
                && (first.0..=last).contains(&event)
            {
                take(EventId(event));
            }
        }
    }

    /// Returns the event of a block, whose last part has none if ids end there.
    fn of_block(&self, block: u64) -> Option<u64> {
        (block * self.every).checked_add(mix(u64::from(self.run.0) << 32 ^ block) % self.every)
    }
}

/// Mixes the bits of a number (the finaliser of `SplitMix64`).
const fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_block_is_in_the_sample_whatever_ranges_are_asked_for() {
        for every in [1, 2, 7, 1000] {
            let sample = Sample::new(RunNumber(5), every);
            let whole: Vec<_> = (0..10_000).map(EventId).filter(|event| sample.has(*event)).collect();
            assert_eq!(whole.len() as u64, 10_000_u64.div_ceil(every));
            let mut parts = Vec::new();
            let mut first = 0;
            for count in 1.. {
                if first + count > 10_000 {
                    break;
                }
                sample.each_within(EventId(first), u32::try_from(count).unwrap(), |event| parts.push(event));
                first += count;
            }
            assert_eq!(parts, whole[..parts.len()]);
            assert!(whole[parts.len()..].iter().all(|event| event.0 >= first));
        }
    }

    #[test]
    fn runs_have_other_samples_and_no_sample_is_possible() {
        let of = |run| {
            let sample = Sample::new(RunNumber(run), 1000);
            (0..100_000).filter(|event| sample.has(EventId(*event))).collect::<Vec<_>>()
        };
        assert_ne!(of(1), of(2));
        assert!(!Sample::new(RunNumber(1), 0).has(EventId(0)));
        let mut last = Vec::new();
        Sample::new(RunNumber(1), 1).each_within(EventId(u64::MAX), 1, |event| last.push(event));
        assert_eq!(last, [EventId(u64::MAX)]);
    }
}
