//! Pulses of a reference, which a clock follows.

use super::ClockError;
use crate::{Moment, TickScale};
use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, CheckedSub};
use sheaf_wire::{ClockDrift, ExactNanos};

/// Picoseconds of a nanosecond.
const NANO_PS: i128 = 1_000;

/// Ticks by which a pulse may seem early or late, whatever the rate of the clock: it is read in whole ticks, as is the one before it.
const READING_TICKS: i128 = 2;

/// Pulses that come to a clock at multiples of a period, such as those of a GPS receiver each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulseConfig {
    /// Time between pulses, longer than zero.
    pub period: ExactNanos,
    /// Time that a pulse takes to the clock. Pulses come at multiples of the period and this.
    pub delay: ExactNanos,
    /// Largest deviation of the clock's rate from its configured rate, or from that between the two pulses before.
    pub tolerance: ClockDrift,
}

/// Reason why a clock does not follow a pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PulseError {
    /// The reading cannot be converted.
    #[error(transparent)]
    Reading(#[from] ClockError),
    /// The clock has no pulses.
    #[error("a pulse was read, but the clock has no period of pulses")]
    NoPeriod,
    /// It is too far from time 0 for exact arithmetic.
    #[error("a pulse is too far from time 0; check the clock's offset")]
    TooFar,
    /// It is a repetition of an earlier pulse, or came after a later one.
    #[error("the pulse at {0} was read before, or before a later one")]
    NotLater(Moment),
    /// It came at another time than pulses do.
    #[error("a pulse was read at {read}, but pulses come at {due}; check period, tick and tolerance")]
    Unexpected {
        /// When it came by the clock.
        read: Moment,
        /// When the nearest pulse comes.
        due: Moment,
    },
}

/// The pulses that a clock has read.
#[derive(Clone, Debug)]
pub(super) struct Pulses {
    config: PulseConfig,
    /// Tick by the configuration.
    tick: ExactNanos,
    last: Option<LastPulse>,
}

/// When a pulse of the reference comes.
#[derive(Clone, Copy, Debug)]
struct Due {
    number: i128,
    /// Nanoseconds after time 0.
    at: Ratio<i128>,
}

#[derive(Clone, Copy, Debug)]
struct LastPulse {
    number: i128,
    ticks: u128,
}

impl Pulses {
    /// Returns the pulses of a clock with this tick. `None`: the period is not longer than zero.
    pub(super) fn new(config: PulseConfig, tick: ExactNanos) -> Option<Self> {
        (config.period > ExactNanos::ZERO).then_some(Self { config, tick, last: None })
    }

    /// Takes a pulse at this number of ticks, which are `read_ps` after time 0 by the clock so far, or before it. Returns the moment at which
    /// the pulse came, and the clock's rate since the pulse before.
    pub(super) fn pulse(&mut self, ticks: u128, read_ps: i128) -> Result<(Moment, TickScale), PulseError> {
        let Due { number, at } = self.nearest(read_ps).ok_or(PulseError::TooFar)?;
        let moment = |picos: i128| Moment(u64::try_from(picos).unwrap_or(0));
        let due = moment((at * NANO_PS).floor().to_integer());
        let tick = match self.last {
            None => self.tick,
            Some(last) => {
                let tick = self.tick_since(&last, number, ticks).ok_or(PulseError::NotLater(due))?;
                if !self.is_near(&last, number, Ratio::new(read_ps, NANO_PS) - at) {
                    return Err(PulseError::Unexpected { read: moment(read_ps), due });
                }
                tick
            }
        };
        let scale = || {
            let since_zero = tick.ratio().checked_mul(&Ratio::from_integer(i128::try_from(ticks).ok()?))?;
            let offset = ExactNanos::from_ratio(at.checked_sub(&since_zero)?);
            TickScale::new(tick, offset, ExactNanos::from_picos(1))
        };
        let scale = scale().ok_or(PulseError::TooFar)?;
        self.last = Some(LastPulse { number, ticks });
        Ok((due, scale))
    }

    /// Returns the pulse that is nearest to a time. `None`: the numbers are too large.
    fn nearest(&self, read_ps: i128) -> Option<Due> {
        let (period, delay) = (self.config.period.ratio(), self.config.delay.ratio());
        let since = Ratio::new(read_ps, NANO_PS).checked_sub(&delay)?;
        let number = since.checked_div(&period)?.round().to_integer();
        let at = period.checked_mul(&Ratio::from_integer(number))?.checked_add(&delay)?;
        // It is to fit in picoseconds, too.
        at.numer().checked_mul(&NANO_PS)?;
        Some(Due { number, at })
    }

    /// Returns the mean tick since the last pulse. `None`: this pulse is not later.
    fn tick_since(&self, last: &LastPulse, number: i128, ticks: u128) -> Option<ExactNanos> {
        let elapsed = i128::try_from(ticks.checked_sub(last.ticks)?).ok().filter(|ticks| *ticks > 0)?;
        let periods = Some(number - last.number).filter(|periods| *periods > 0)?;
        let since = self.config.period.ratio().checked_mul(&Ratio::from_integer(periods))?;
        since.checked_div(&Ratio::from_integer(elapsed)).map(ExactNanos::from_ratio)
    }

    /// Returns whether a pulse that came by so many nanoseconds too late is one of the reference.
    fn is_near(&self, last: &LastPulse, number: i128, late: Ratio<i128>) -> bool {
        let allowed = || {
            let since = self.config.period.ratio().checked_mul(&Ratio::from_integer(number - last.number))?;
            let of_rate = since.checked_mul(&self.config.tolerance.ratio())?;
            of_rate.checked_add(&self.tick.ratio().checked_mul(&Ratio::from_integer(READING_TICKS))?)
        };
        let late = if late < Ratio::ZERO { -late } else { late };
        allowed().is_some_and(|allowed| late <= allowed)
    }
}
