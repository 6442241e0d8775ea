//! Clock of a source: maps a counter of any width and tick length to the common timeline.

mod pulses;

pub use pulses::{PulseConfig, PulseError};

use self::pulses::Pulses;
use crate::{Moment, Picos, TickScale};
use sheaf_wire::{ClockDrift, ExactNanos};

/// Clock of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockConfig {
    /// Nominal duration of a tick, longer than zero.
    pub tick: ExactNanos,
    /// Drift against the reference of the timeline: the tick is shorter than its nominal duration by this.
    pub drift: ClockDrift,
    /// Number of bits of the counter, 1 to 64. It restarts at zero after its largest value.
    pub bits: u32,
    /// Position on the timeline when the counter is zero for the first time. Compensates cable lengths, and clocks that were not
    /// reset together. Readings before the timeline's zero are refused.
    pub offset: ExactNanos,
}

/// An invalid clock configuration, or a reading that cannot be converted to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// The tick has no length.
    #[error("a clock's tick is {0}; it must be longer than zero")]
    NoTick(ExactNanos),
    /// The number of bits is out of range.
    #[error("a clock's counter has {0} bits; it must have 1 to 64")]
    Width(u32),
    /// The period of the pulses has no length.
    #[error("pulses come every {0}; it must be longer than zero")]
    NoPeriod(ExactNanos),
    /// Tick, drift and offset have no small common denominator.
    #[error(
        "a clock with a tick of {tick}, a drift of {drift} and an offset of {offset} is too fine for exact arithmetic; use numbers with fewer digits"
    )]
    TooFine {
        /// Nominal tick.
        tick: ExactNanos,
        /// Drift.
        drift: ClockDrift,
        /// Offset.
        offset: ExactNanos,
    },
    /// The reading exceeds the range of the counter.
    #[error("reading {reading} does not fit into the clock's {bits} bits")]
    TooLarge {
        /// Value that was read.
        reading: u64,
        /// Number of bits of the counter.
        bits: u32,
    },
    /// The moment is before the timeline's zero, or more than 213 days after it.
    #[error("reading {reading} in lap {lap} is outside the timeline; check the clock's offset")]
    OffTimeline {
        /// Value that was read.
        reading: u64,
        /// Number of roll-overs of the counter.
        lap: u64,
    },
    /// The clock follows pulses, and none has come.
    #[error("reading {0} came before the first pulse")]
    NoPulse(u64),
}

/// Converts readings of a counter, across its roll-overs.
///
/// A reading belongs to the lap that minimises its distance from the latest reading. So the counter may advance by less than half
/// its range between two readings, and readings may be out of order by the same amount. The first reading is in lap 0.
///
/// A moment is exact except for one rounding down to the unit of the timeline ([`TickScale`]): no error accumulates.
///
/// A clock can follow pulses of a reference ([`Self::following`]). Then the pulses set its time and rate: from one pulse to the next, the
/// rate is that between the two pulses before, and after the first pulse the configured one. Readings before the first pulse have no
/// moment.
#[derive(Clone, Debug)]
pub struct Clock {
    bits: u32,
    scale: TickScale,
    /// Latest reading, including its laps.
    latest: Option<u128>,
    /// Ticks at the latest reset of the counter.
    reset: u128,
    /// Whether the clock follows pulses, and none has come. It is looked at for each reading, the pulses are not.
    awaits_pulse: bool,
    pulses: Option<Box<Pulses>>,
}

impl Clock {
    /// Creates a clock that has not been read yet.
    ///
    /// # Errors
    /// [`ClockError::NoTick`], [`ClockError::Width`], [`ClockError::TooFine`].
    pub fn new(config: ClockConfig) -> Result<Self, ClockError> {
        let ClockConfig { tick, drift, bits, offset } = config;
        if tick <= ExactNanos::ZERO {
            return Err(ClockError::NoTick(tick));
        }
        if !(1..=64).contains(&bits) {
            return Err(ClockError::Width(bits));
        }
        let unit = ExactNanos::from_picos(1);
        let scale = drift.tick(tick).and_then(|tick| TickScale::new(tick, offset, unit));
        let scale = scale.ok_or(ClockError::TooFine { tick, drift, offset })?;
        Ok(Self { bits, scale, latest: None, reset: 0, awaits_pulse: false, pulses: None })
    }

    /// Creates a clock that follows pulses. The configured offset decides which pulse the first one is, and so needs to be right within
    /// half a period.
    ///
    /// # Errors
    /// As [`Self::new`], and [`ClockError::NoPeriod`].
    pub fn following(config: ClockConfig, pulses: PulseConfig) -> Result<Self, ClockError> {
        let clock = Self::new(config)?;
        // The clock could be made, so that its tick is a number.
        let tick = config.drift.tick(config.tick).unwrap_or(config.tick);
        let pulses = Pulses::new(pulses, tick).ok_or(ClockError::NoPeriod(pulses.period))?;
        Ok(Self { awaits_pulse: true, pulses: Some(Box::new(pulses)), ..clock })
    }

    /// Returns the moment of a reading.
    ///
    /// # Errors
    /// [`ClockError::TooLarge`] and [`ClockError::OffTimeline`], which leave the clock unchanged. [`ClockError::NoPulse`].
    pub fn read(&mut self, reading: u64) -> Result<Moment, ClockError> {
        let ticks = self.ticks(reading)?;
        if self.awaits_pulse {
            self.come_to(ticks);
            return Err(ClockError::NoPulse(reading));
        }
        let moment = self.moment(ticks, reading)?;
        self.come_to(ticks);
        Ok(moment)
    }

    /// Follows a pulse, at which the counter had this reading. Returns the moment at which the pulse came, or time 0 if it came before.
    ///
    /// # Errors
    /// A [`PulseError`]. Time and rate of the clock remain as they are.
    pub fn pulse(&mut self, reading: u64) -> Result<Moment, PulseError> {
        let ticks = self.ticks(reading)?;
        // The clock may be before time 0 until it follows pulses.
        let read_ps = self.scale.signed(ticks).ok_or(PulseError::TooFar)?;
        let (moment, scale) = self.pulses.as_mut().ok_or(PulseError::NoPeriod)?.pulse(ticks, read_ps)?;
        self.scale = scale;
        self.awaits_pulse = false;
        self.come_to(ticks);
        Ok(moment)
    }

    /// Restarts the counter at 0. `reading` is its last reading before that.
    ///
    /// # Errors
    /// [`ClockError::TooLarge`]. The clock is unchanged.
    pub fn reset(&mut self, reading: u64) -> Result<(), ClockError> {
        let ticks = self.ticks(reading)?;
        self.reset = ticks;
        self.latest = Some(ticks);
        Ok(())
    }

    /// Returns the ticks of a reading, including those before resets and roll-overs.
    #[inline]
    fn ticks(&self, reading: u64) -> Result<u128, ClockError> {
        let range = 1_u128 << self.bits;
        if u128::from(reading) >= range {
            return Err(ClockError::TooLarge { reading, bits: self.bits });
        }
        let ticks = self.reset + u128::from(reading);
        Ok(self.latest.map_or(ticks, |latest| nearest(latest, ticks, range)))
    }

    #[inline]
    fn moment(&self, ticks: u128, reading: u64) -> Result<Moment, ClockError> {
        let off_timeline = || {
            let lap = u64::try_from((ticks - self.reset.min(ticks)) >> self.bits).unwrap_or(u64::MAX);
            ClockError::OffTimeline { reading, lap }
        };
        self.scale.at(ticks).map(Moment).ok_or_else(off_timeline)
    }

    #[inline]
    fn come_to(&mut self, ticks: u128) {
        self.latest = Some(self.latest.map_or(ticks, |latest| latest.max(ticks)));
    }

    /// Returns the moment of `ticks` ticks after `origin`, a time since the timeline's zero without the offset. `None`: it is outside
    /// the timeline. The clock is not read, and remains unchanged.
    #[must_use]
    pub fn after(&self, origin: Picos, ticks: u64) -> Option<Moment> {
        self.scale.since(origin.0, u128::from(ticks)).map(Moment)
    }
}

/// Returns the number that is `reading` modulo `range`, a power of two, and nearest to `latest`; the later one if two are equally near.
fn nearest(latest: u128, reading: u128, range: u128) -> u128 {
    // The range is a power of two: a mask takes the place of a division, which costs more than all the rest of a reading.
    let ahead = reading.wrapping_sub(latest) & (range - 1);
    let behind = range - ahead;
    if ahead > behind && latest >= behind { latest - behind } else { latest + ahead }
}

#[cfg(test)]
mod tests;
