//! Random numbers from one seed.
//!
//! Each part of the simulation has its own generator, so that enabling a fault in one part does not change the others. Only
//! integers are used, so that a run is the same on every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use sheaf_wire::Nanos;
pub use sheaf_wire::mix::splitmix64 as mix;

/// Frequency in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio {
    /// Parts per million.
    pub per_million: u32,
}

impl Ratio {
    /// Never.
    pub const NEVER: Self = Self { per_million: 0 };

    /// Creates a ratio from a percentage.
    #[must_use]
    pub const fn percent(value: u32) -> Self {
        Self { per_million: value * 10_000 }
    }

    /// Creates a ratio from parts per million.
    #[must_use]
    pub const fn per_million(value: u32) -> Self {
        Self { per_million: value }
    }

    /// Returns whether the ratio is above zero.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        self.per_million > 0
    }
}

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// Creates the generator of one part of the simulation. `part` distinguishes the generators of one seed.
    #[must_use]
    pub fn new(seed: u64, part: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(mix(seed) ^ mix(part.wrapping_add(0x5eed))))
    }

    /// Returns a number below `end`, which must be at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        debug_assert!(end > 0, "there is no number below 0");
        let product = u128::from(self.0.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).expect("the product of two 64-bit numbers has 128 bits")
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a duration from `low` to `high`.
    pub fn time_between(&mut self, low: Nanos, high: Nanos) -> Nanos {
        Nanos(self.between(low.0, high.0))
    }

    /// Returns `true` with this probability.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        // A ratio of zero draws no number. This makes fault-free runs cheap; each fault has its own generator, or its own
        // position in the sequence of one.
        ratio.is_possible() && self.below(1_000_000) < u64::from(ratio.per_million)
    }

    /// Returns one of `items`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let index = self.below(items.len() as u64);
        items[usize::try_from(index).expect("the index of a slice")]
    }

    /// Returns an exponentially distributed duration. The logarithm is interpolated between powers of two, in integers; the
    /// mean is correct within a few percent.
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        const LN_2: u128 = 1_488_522_236; // of 2^31
        let bits = self.0.next_u64() | 1;
        let zeros = bits.leading_zeros();
        let fraction = ((bits << zeros) >> 32) & 0x7fff_ffff;
        let log2 = ((u128::from(zeros) + 1) << 31) - u128::from(fraction);
        let scaled = (u128::from(mean.0) * log2 * LN_2) >> 62;
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_durations_have_their_mean_and_their_tail() {
        let mut dice = Dice::new(1, 2);
        let draws: Vec<u64> = (0..100_000).map(|_| dice.exponential(Nanos(10_000)).0).collect();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!((9_800..10_800).contains(&mean), "mean {mean}");
        let beyond_three_means = draws.iter().filter(|value| **value > 30_000).count();
        assert!((4_000..6_500).contains(&beyond_three_means), "5 % lie there, found {beyond_three_means}");
    }

    #[test]
    fn ratios_are_kept() {
        let mut dice = Dice::new(1, 2);
        let hits = (0..100_000).filter(|_| dice.chance(Ratio::percent(20))).count();
        assert!((19_000..21_000).contains(&hits), "{hits}");
        assert!(!dice.chance(Ratio::NEVER));
    }

    #[test]
    fn seeds_and_parts_are_streams_of_their_own() {
        let first = |seed, part| Dice::new(seed, part).below(u64::MAX);
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}
