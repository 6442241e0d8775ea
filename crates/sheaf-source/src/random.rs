//! Random numbers that need no state: each is a pure function of seed, source, purpose and event.
//!
//! So every node, and code that checks the built events, can compute the behaviour of a source at an event without its
//! history; and enabling one kind of draw changes no other. The mixing function and its increment are those of
//! `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

use crate::ln::ln;
use sheaf_wire::mix::{GOLDEN_GAMMA, mix64, splitmix64};
use sheaf_wire::{EventId, SourceId};

/// Purpose of a random number. Draws for different purposes are independent. The codes determine the meaning of a seed:
/// they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The size of a fragment.
    Size = 1,
    /// Whether the source is silent.
    Silent = 2,
    /// Whether the fragment is handed out twice.
    Duplicate = 3,
    /// Whether the fragment is late.
    Late = 4,
    /// Whether the fragment is too large.
    Oversize = 5,
    /// Hits of noise in a frame.
    Noise = 6,
    /// Flashes in a frame. They are of no source.
    Flash = 7,
    /// Hits of a flash in a source.
    FlashHits = 8,
    /// The clock of a source.
    Clock = 9,
    /// The order of frames.
    FrameOrder = 10,
}

/// The draws of one source for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    key: u64,
}

impl Draws {
    /// The draws that `source` makes for `purpose` in a run with this seed.
    #[must_use]
    pub const fn new(seed: u64, source: SourceId, purpose: Purpose) -> Self {
        // Each number passes the mixing function alone before the next is added: neighbouring seeds, sources and
        // purposes are independent.
        let seeded = mix64(seed.wrapping_add(GOLDEN_GAMMA));
        let sourced = mix64(seeded ^ (source.0 as u64).wrapping_add(GOLDEN_GAMMA));
        Self { key: mix64(sourced ^ purpose as u64) }
    }

    /// The draw at `event`: 64 random bits.
    #[must_use]
    pub const fn bits(&self, event: EventId) -> u64 {
        mix64(self.key ^ mix64(event.0.wrapping_add(GOLDEN_GAMMA)))
    }

    /// The draw at `event` as a number in the open interval (0, 1), of 52 random bits.
    #[must_use]
    pub const fn uniform(&self, event: EventId) -> f64 {
        to_uniform(self.bits(event))
    }

    /// The draws at `event`, where it takes any number of them.
    #[must_use]
    pub const fn sequence(&self, event: EventId) -> DrawSequence {
        DrawSequence { state: self.bits(event) }
    }
}

/// Draws in order: the numbers of `SplitMix64` from one state on.
#[derive(Clone, Debug)]
pub struct DrawSequence {
    state: u64,
}

impl DrawSequence {
    /// Returns the next 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        let bits = splitmix64(self.state);
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        bits
    }

    /// Returns the next draw as a number below `bound`; 0 if that is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns the next draw as the time from one event of a Poisson process to the next, rounded down. Times beyond 63 bits are
    /// reduced to the greatest.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
    pub fn exponential(&mut self, mean: f64) -> u64 {
        // The cast to a signed number needs fewer instructions. The logarithm is not above 0.
        ((-mean * ln(to_uniform(self.bits()))) as i64).cast_unsigned()
    }
}

/// An event that happens with a given probability, to be held against the bits of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// It happens where the draw is below; `None`: always.
    below: Option<u64>,
}

impl Chance {
    /// Never happens.
    pub const NEVER: Self = Self { below: Some(0) };

    /// Happens with `probability`; `None` where that is not in 0 ..= 1.
    #[must_use]
    pub fn new(probability: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&probability) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the product is in 0 .. 2^64; it is rounded down to whole draws"
        )]
        let below = (probability < 1.0).then_some((probability * 18_446_744_073_709_551_616.0) as u64);
        Some(Self { below })
    }

    /// Returns whether it happens, given the bits of a draw.
    #[must_use]
    pub const fn happens(self, bits: u64) -> bool {
        match self.below {
            Some(below) => bits < below,
            None => true,
        }
    }

    /// Returns whether it always happens.
    #[must_use]
    pub fn is_certain(self) -> bool {
        self.below.is_none()
    }

    /// Returns whether it can happen.
    #[must_use]
    pub fn is_possible(self) -> bool {
        self != Self::NEVER
    }
}

/// The middle of one of 2^52 equal intervals of (0, 1), which the top bits choose: never 0, never 1.
#[expect(clippy::cast_precision_loss, reason = "52 bits and a half fit a double exactly")]
const fn to_uniform(bits: u64) -> f64 {
    const STEP: f64 = 1.0 / 4_503_599_627_370_496.0;
    ((bits >> 12) as f64 + 0.5) * STEP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixing_function_is_that_of_splitmix64() {
        // The first outputs of the reference implementation for the seed 1234567.
        let outputs = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        for (index, output) in outputs.into_iter().enumerate() {
            let state = GOLDEN_GAMMA.wrapping_mul(index as u64 + 1).wrapping_add(1_234_567);
            assert_eq!(mix64(state), output);
        }
    }

    #[test]
    fn uniform_numbers_stay_strictly_between_zero_and_one() {
        assert!(to_uniform(0) > 0.0);
        assert!(to_uniform(u64::MAX) < 1.0);
        assert!((to_uniform(1 << 63) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn draws_of_different_seeds_sources_purposes_and_events_do_not_correlate() {
        const EVENTS: u64 = 20_000;
        let base = Draws::new(1, SourceId(1), Purpose::Size);
        let others = [
            Draws::new(2, SourceId(1), Purpose::Size),
            Draws::new(1, SourceId(2), Purpose::Size),
            Draws::new(1, SourceId(1), Purpose::Silent),
            // The sum of seed and source is the same: they must not be interchangeable.
            Draws::new(0, SourceId(2), Purpose::Size),
        ];
        let correlation = |other: &dyn Fn(u64) -> f64| {
            let sum: f64 =
                (0..EVENTS).map(|event| (base.uniform(EventId(event)) - 0.5) * (other(event) - 0.5)).sum();
            sum * 12.0 / EVENTS as f64
        };
        // The correlation of independent draws has a standard deviation of 1/sqrt(20,000) = 0.007.
        for other in others {
            let value = correlation(&|event| other.uniform(EventId(event)));
            assert!(value.abs() < 0.035, "{value}");
        }
        let neighbour = correlation(&|event| base.uniform(EventId(event + 1)));
        assert!(neighbour.abs() < 0.035, "{neighbour}");
    }

    #[test]
    fn sequences_have_the_mean_that_was_asked_for_and_stay_below_their_bound() {
        const DRAWS: u64 = 100_000;
        let mut sequence = Draws::new(3, SourceId(1), Purpose::Noise).sequence(EventId(5));
        let mean = |sum: u64| sum as f64 / DRAWS as f64;
        let exponential = mean((0..DRAWS).map(|_| sequence.exponential(1e6)).sum());
        // The standard deviation of the mean is 1e6 / sqrt(100,000) = 3,162, and that of the uniform numbers a 1.7th of it.
        assert!((exponential - 1e6).abs() < 16_000.0, "{exponential}");
        let draws: Vec<u64> = (0..DRAWS).map(|_| sequence.below(1_000_000)).collect();
        assert!(draws.iter().all(|draw| *draw < 1_000_000));
        let uniform = mean(draws.iter().sum());
        assert!((uniform - 5e5).abs() < 5_000.0, "{uniform}");
        assert_eq!((sequence.below(0), sequence.below(1)), (0, 0));
        assert_eq!(sequence.exponential(f64::INFINITY), u64::MAX >> 1);
    }

    #[test]
    fn a_chance_happens_as_often_as_it_says() {
        const EVENTS: u32 = 100_000;
        let draws = Draws::new(7, SourceId(3), Purpose::Late);
        for probability in [0.0, 0.001, 0.3, 1.0] {
            let chance = Chance::new(probability).unwrap();
            let happened = (0..EVENTS)
                .filter(|event| chance.happens(draws.bits(EventId(u64::from(*event)))))
                .count() as f64;
            let expected = probability * f64::from(EVENTS);
            let deviation = (expected * (1.0 - probability)).sqrt();
            assert!((happened - expected).abs() <= 5.0 * deviation, "{probability}: {happened}");
        }
        assert_eq!(Chance::new(-0.1), None);
        assert_eq!(Chance::new(1.1), None);
        assert_eq!(Chance::new(f64::NAN), None);
    }
}
