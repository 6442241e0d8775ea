//! Random choices determined by a seed.

/// A generator of random numbers (SplitMix64), with the same sequence on every machine.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// Creates the generator of the case `name` for this seed. Cases do not share numbers, so that each can be repeated alone.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let mut dice = Self(seed);
        for byte in name.bytes() {
            dice.0 = dice.next() ^ u64::from(byte);
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a number from `low` to `high` with uniform order of magnitude, so that short and long times are equally frequent.
    pub(super) fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (mut low, mut high) = (low.max(1), high.max(1));
        // Bisects the interval geometrically. Ten steps are fine enough for the duration of a fault.
        for _ in 0..10 {
            let middle = low.saturating_mul(high).isqrt().clamp(low, high);
            if self.below(2) == 0 {
                high = middle;
            } else {
                low = middle;
            }
        }
        self.between(low, high)
    }

    /// Returns one of these items. The list must not be empty.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let index = self.below(items.len() as u64);
        items[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns random bytes.
    pub(super) fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_name_decide_every_choice() {
        let draw = |seed, name| {
            let mut dice = Dice::new(seed, name);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "kill-builder"), draw(1, "kill-builder"));
        assert_ne!(draw(1, "kill-builder"), draw(2, "kill-builder"));
        assert_ne!(draw(1, "kill-builder"), draw(1, "kill-output"));
    }

    #[test]
    fn magnitudes_stay_within_their_bounds_and_reach_every_decade() {
        let mut dice = Dice::new(7, "magnitude");
        let drawn: Vec<u64> = (0..1000).map(|_| dice.magnitude(1, 60_000)).collect();
        assert!(drawn.iter().all(|ms| (1..=60_000).contains(ms)));
        for decade in [1, 10, 100, 1_000, 10_000] {
            assert!(drawn.iter().any(|ms| (decade..decade * 10).contains(ms)), "none from {decade}");
        }
    }
}
