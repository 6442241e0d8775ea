//! Clocks of emulated front ends: from true times to readings of a counter.

use super::FreeRunningError;
use crate::random::{Draws, Purpose};
use crate::timed::FeedConfig;
use sheaf_time::{Moment, Picos};
use sheaf_wire::{ClockDrift, EventId, ExactNanos, SourceId};

/// Picoseconds of a nanosecond.
const NANO_PS: i128 = 1_000;

/// Steps of a drawn drift, from 0 to the limit.
const DRIFT_STEPS: u64 = 1_000;

/// Limits of the clocks that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLimits {
    /// Greatest drift, in either direction.
    pub drift: ClockDrift,
    /// Greatest time before time 0 of the run at which a counter was 0.
    pub offset: Picos,
    /// Least width of a counter, in bits. `None`: all counters have the greatest width.
    pub min_bits: Option<u32>,
}

/// A clock that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnClock {
    /// Drift of the clock.
    pub drift: ClockDrift,
    /// Time at which its counter was 0.
    pub offset: ExactNanos,
    /// Width of its counter.
    pub bits: u32,
}

impl ClockLimits {
    /// Returns the clock of a source in a run with this seed. Counters have at most `max_bits` bits.
    #[must_use]
    pub fn draw(&self, seed: u64, source: SourceId, max_bits: u32) -> DrawnClock {
        let mut draws = Draws::new(seed, source, Purpose::Clock).sequence(EventId(0));
        let steps = i128::from(draws.below(2 * DRIFT_STEPS + 1)) - i128::from(DRIFT_STEPS);
        let drift = self.drift.ratio() * steps / i128::from(DRIFT_STEPS);
        let offset = i64::try_from(draws.below(self.offset.0.saturating_add(1))).unwrap_or(i64::MAX);
        let min_bits = self.min_bits.unwrap_or(max_bits).clamp(1, max_bits.max(1));
        let bits = u64::from(min_bits) + draws.below(u64::from(max_bits.saturating_sub(min_bits)) + 1);
        DrawnClock {
            drift: ClockDrift::from_ratio(drift),
            offset: ExactNanos::from_picos(-offset),
            bits: bits as u32,
        }
    }
}

/// Clock of an emulated front end: the opposite of [`sheaf_time::Clock`].
///
/// The reading at a moment is the number of whole ticks since the offset, exactly. So the moment of the reading is at most a tick before
/// the moment, and never after it.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedClock {
    /// Offset in picoseconds, as a fraction.
    offset: (i128, i128),
    /// Ticks of the clock since its offset are `time * numerator / denominator`, with the time in units of `1 / offset.1` ps.
    numerator: i128,
    denominator: i128,
}

impl EmulatedClock {
    /// Returns the clock that the configuration of a source describes.
    ///
    /// # Errors
    /// [`FreeRunningError::Clock`]: tick, drift and offset have too many digits for exact arithmetic.
    pub fn new(config: &FeedConfig) -> Result<Self, FreeRunningError> {
        let FeedConfig { tick, drift, offset, .. } = *config;
        let clock = || {
            let tick = drift.tick(tick).filter(|tick| *tick > ExactNanos::ZERO)?.ratio();
            let offset = offset.ratio() * NANO_PS;
            let (over, under) = (*offset.numer(), *offset.denom());
            let denominator = tick.numer().checked_mul(NANO_PS)?.checked_mul(under)?;
            let common = gcd(denominator, *tick.denom());
            let clock = Self {
                offset: (over, under),
                numerator: tick.denom() / common,
                denominator: denominator / common,
            };
            // The fixed-point numbers of `FrameClock` need this.
            let step = clock.numerator.checked_mul(under)?;
            let fits = clock.denominator < 1 << 64 && step < 1 << 62 && step >> 16 <= clock.denominator;
            fits.then_some(clock)
        };
        clock().ok_or(FreeRunningError::Clock { tick, drift, offset })
    }

    /// Returns the clock during a frame that begins at `begin`. `None`: the result does not fit into 64 bits.
    #[must_use]
    pub fn during(&self, begin: Moment) -> Option<FrameClock> {
        let reset = self.reset().since(begin);
        let ticks = self.scaled(begin + reset)?;
        let (count, rest) = (ticks / self.denominator, (ticks % self.denominator).unsigned_abs());
        let (step, denominator) = (self.step().unsigned_abs(), self.denominator.unsigned_abs());
        Some(FrameClock {
            reset,
            count: u64::try_from(count).ok()?,
            fraction: ((rest << 64) / denominator) as u64,
            rate: (step << 64) / denominator,
            rest,
            step,
            denominator,
        })
    }

    /// Returns the time of a frame in nanoseconds, rounded down, that the source gives if its hits count from it, and the clock during this
    /// frame. `None`: the result does not fit into 64 bits.
    #[must_use]
    pub fn from_fragment(&self, begin: Moment) -> Option<(u64, FrameClock)> {
        let (over, under) = self.offset;
        let nano = NANO_PS.checked_mul(under)?;
        let since_offset = i128::from(begin.0).checked_mul(under)?.checked_sub(over)?;
        // A source has no time before 0.
        let time_ns = u64::try_from(since_offset.div_euclid(nano).max(0)).ok()?;
        let offset = (over.checked_add(nano.checked_mul(i128::from(time_ns))?)?, under);
        Some((time_ns, Self { offset, ..*self }.during(begin)?))
    }

    /// Returns the first moment that the source can tell: that of its offset or, if its clock has run since before time 0, that of the
    /// first tick.
    #[must_use]
    pub fn reset(&self) -> Moment {
        let (over, under) = self.offset;
        let picos = match self.scaled(Moment::ZERO) {
            Some(ticks @ 0..) if ticks % self.denominator == 0 => 0,
            Some(ticks @ 0..) => ceil(self.denominator - ticks % self.denominator, self.step()),
            _ => ceil(over, under),
        };
        Moment(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Returns the ticks since the offset times the denominator; below zero before it. `None`: they do not fit.
    fn scaled(&self, moment: Moment) -> Option<i128> {
        let (over, under) = self.offset;
        let since = i128::from(moment.0).checked_mul(under)?.checked_sub(over)?;
        since.checked_mul(self.numerator)
    }

    /// Returns the ticks of a picosecond times the denominator.
    fn step(&self) -> i128 {
        self.numerator * self.offset.1
    }

    /// Returns the time after which a counter of this width starts again. The greatest time, if it is longer than that.
    #[must_use]
    pub fn lap(&self, bits: u32) -> Picos {
        let (step, ticks) = (self.step(), 1_i128 << bits.min(64));
        let whole = (self.denominator / step).checked_mul(ticks);
        let rest = (self.denominator % step).checked_mul(ticks).map(|rest| rest / step);
        let lap = whole.zip(rest).and_then(|(whole, rest)| u64::try_from(whole.checked_add(rest)?).ok());
        Picos(lap.unwrap_or(u64::MAX))
    }
}

/// Returns the quotient, rounded up, of a number and a positive one.
fn ceil(one: i128, other: i128) -> i128 {
    -(-one).div_euclid(other)
}

fn gcd(one: i128, other: i128) -> i128 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Clock of an emulated front end during a frame: readings for less than 2^42 ps.
#[derive(Clone, Copy, Debug)]
pub struct FrameClock {
    /// Time from the begin of the frame to the reset of the clock; zero if it was reset before.
    pub reset: Picos,
    /// Ticks at the begin or the reset: the whole ones, and their fraction times 2^64.
    count: u64,
    fraction: u64,
    /// Ticks a picosecond, times 2^64.
    rate: u128,
    /// The fraction of the ticks at the begin, and the ticks a picosecond, over the denominator.
    rest: u128,
    step: u128,
    denominator: u128,
}

impl FrameClock {
    /// Returns the ticks that the clock has counted, at a time after the begin of the frame. Times before the reset give the ticks of the
    /// reset.
    #[inline]
    #[must_use]
    pub fn ticks(&self, after_begin: Picos) -> u64 {
        let time = after_begin.0.saturating_sub(self.reset.0);
        let ticks = u128::from(self.fraction) + u128::from(time) * self.rate;
        let count = self.count.wrapping_add((ticks >> 64) as u64);
        // Fraction and rate were rounded down: the exact sum is greater by less than this.
        let is_exact = (ticks as u64).checked_add(time + 1).is_some();
        if is_exact { count } else { self.exactly(time) }
    }

    #[cold]
    fn exactly(&self, time: u64) -> u64 {
        let ticks = (self.rest + u128::from(time) * self.step) / self.denominator;
        self.count.wrapping_add(ticks as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_time::{Clock, ClockConfig};

    fn config(tick: ExactNanos, drift: ClockDrift, offset: ExactNanos) -> FeedConfig {
        FeedConfig { tick, drift, offset, ..crate::free_running::tests::feed(SourceId(0)) }
    }

    proptest! {
        #[test]
        fn the_moment_of_a_reading_is_less_than_a_tick_before_the_moment_that_was_read(
            (numerator, denominator) in (1..200_000_i64, 1..1_000_i64),
            ppm in -500..500_i32,
            offset_ps in -2_000_000_000_000..2_000_000_000_000_i64,
            begin in prop_oneof![0..10_000_000_u64, 0..1_000_000_000_000_000_000_u64],
            times in prop::collection::vec(0..2_000_000_000_000_u64, 1..50),
        ) {
            let tick: ExactNanos = format!("{numerator}/{denominator} ns").parse().unwrap();
            let (drift, offset) = (ClockDrift::from_ppm(ppm), ExactNanos::from_picos(offset_ps));
            let emulated = EmulatedClock::new(&config(tick, drift, offset)).unwrap();
            let tick_ps = numerator as f64 / denominator as f64 * 1e3 / (1.0 + f64::from(ppm) * 1e-6);
            let frame = emulated.during(Moment(begin)).unwrap();
            for time in times {
                let reading = frame.ticks(Picos(time));
                if time < frame.reset.0 {
                    prop_assert!(((begin + time) as f64) < tick_ps.max(offset_ps as f64) + 1.0);
                    continue;
                }
                // A clock that has not been read takes any reading of its width for the first lap.
                let mut clock = Clock::new(ClockConfig { tick, drift, bits: 64, offset }).unwrap();
                let moment = clock.read(reading).unwrap();
                let late = (begin + time).checked_sub(moment.0);
                prop_assert!(late.is_some_and(|late| (late as f64) < tick_ps * (1.0 + 1e-9) + 1.0), "{late:?}");
                prop_assert_eq!(reading, frame.exactly(time - frame.reset.0));
            }
        }
    }

    #[test]
    fn a_lap_is_the_time_of_all_readings() {
        let clock = |tick: &str, ppm| {
            let config = config(tick.parse().unwrap(), ClockDrift::from_ppm(ppm), ExactNanos::ZERO);
            EmulatedClock::new(&config).unwrap()
        };
        assert_eq!(clock("25/16 ns", 0).lap(4), Picos(25_000));
        assert_eq!(clock("10 ns", -500_000).lap(10), Picos(20_000 << 10));
        assert_eq!(clock("1 s", 0).lap(64), Picos(u64::MAX));
    }

    #[test]
    fn drawn_clocks_are_within_their_limits_and_those_of_the_seed() {
        let limits =
            ClockLimits { drift: ClockDrift::from_ppm(20), offset: Picos(5_000_000), min_bits: Some(30) };
        let drawn: Vec<_> = (0..200).map(|source| limits.draw(7, SourceId(source), 40)).collect();
        for clock in &drawn {
            assert!((ClockDrift::from_ppm(-20)..=ClockDrift::from_ppm(20)).contains(&clock.drift));
            assert!((ExactNanos::from_nanos(-5_000)..=ExactNanos::ZERO).contains(&clock.offset));
            assert!((30..=40).contains(&clock.bits));
        }
        assert!((30..=40).all(|bits| drawn.iter().any(|clock| clock.bits == bits)));
        assert_eq!(drawn[5], limits.draw(7, SourceId(5), 40));
        assert_ne!(drawn[5], limits.draw(8, SourceId(5), 40));
        let fixed = ClockLimits { drift: ClockDrift::ZERO, offset: Picos::ZERO, min_bits: None };
        let none = DrawnClock { drift: ClockDrift::ZERO, offset: ExactNanos::ZERO, bits: 32 };
        assert_eq!(fixed.draw(7, SourceId(5), 32), none);
    }
}
