//! Triggers at a rate.

use rand::RngExt;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Timestamp};

/// When triggers happen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum TriggerRate {
    /// At equal distances.
    Fixed {
        /// Triggers a second.
        rate_hz: f64,
    },
    /// At random, independent of each other: a Poisson process.
    Poisson {
        /// Triggers a second, on average.
        rate_hz: f64,
        /// The same seed gives the same times.
        seed: u64,
    },
}

/// Makes the times of triggers.
#[derive(Debug, Serialize, Deserialize)]
pub struct TriggerClock {
    rate: TriggerRate,
    start: Timestamp,
    made: u64,
    next: Timestamp,
    random: Pcg64Mcg,
}

impl TriggerClock {
    /// Triggers from `start` on.
    #[must_use]
    pub fn new(rate: TriggerRate, start: Timestamp) -> Self {
        let seed = match rate {
            TriggerRate::Fixed { .. } => 0,
            TriggerRate::Poisson { seed, .. } => seed,
        };
        let mut clock = Self { rate, start, made: 0, next: start, random: Pcg64Mcg::seed_from_u64(seed) };
        clock.advance();
        clock
    }

    /// The time of the next trigger.
    #[must_use]
    pub fn next(&self) -> Timestamp {
        self.next
    }

    /// The time of a trigger that is due at `now`, if there is one.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let due = (self.next <= now).then_some(self.next)?;
        self.advance();
        Some(due)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a time of a run in nanoseconds is positive, and exact enough to the microsecond for years"
    )]
    fn advance(&mut self) {
        self.made += 1;
        self.next = match self.rate {
            // From the start, not from the last, so that rounding does not add up.
            TriggerRate::Fixed { rate_hz } => self.start + Nanos((self.made as f64 * 1e9 / rate_hz) as u64),
            TriggerRate::Poisson { rate_hz, .. } => {
                let uniform: f64 = self.random.random();
                self.next + Nanos((-(1.0 - uniform).ln() * 1e9 / rate_hz) as u64)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: TriggerRate, seconds: u64) -> Vec<u64> {
        let mut clock = TriggerClock::new(rate, Timestamp(1_000));
        let end = Timestamp(1_000) + Nanos::from_secs(seconds);
        std::iter::from_fn(|| clock.pop_due(end)).map(|time| time.0).collect()
    }

    #[test]
    fn fixed_triggers_do_not_drift() {
        let times = times(TriggerRate::Fixed { rate_hz: 3.0 }, 1_000);
        assert_eq!(times.len(), 3_000);
        assert_eq!(times[2_999], 1_000 + 1_000_000_000_000);
    }

    #[test]
    fn poisson_triggers_have_the_rate_and_spread_of_a_poisson_process() {
        let rate = TriggerRate::Poisson { rate_hz: 1_000.0, seed: 7 };
        let all = times(rate, 100);
        // 100,000 expected, with a standard deviation of 316: 5 of them.
        assert!(all.len().abs_diff(100_000) < 1_600, "{}", all.len());
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * 1e-9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "an exponential's deviation is its mean");
        assert_eq!(all, times(rate, 100), "the same seed, the same times");
    }
}
