//! Pacing: when fragments are due.
//!
//! A pacer never reads a clock: it gets the time and returns whether a fragment is due. The due time of a fragment
//! follows only from its place in the run (its event's position, or its recorded time), not from when the previous one
//! was taken. So all sources of a run stay in step whatever each of them leaves out, and the load is an *open loop*:
//! after back-pressure, a source is behind its schedule and catches up at full speed, as a detector's buffers would.
//! [`Pacer::max_lag`] returns the largest delay.

use sheaf_wire::{Nanos, Timestamp};

/// The schedule of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Schedule {
    /// As fast as fragments are taken.
    #[default]
    FullSpeed,
    /// A fixed number of events per second, evenly spaced.
    FixedRate {
        /// Events per second, above zero.
        events_per_second: f64,
    },
    /// At the recorded times.
    Recorded {
        /// 2 is twice as fast as recorded; above zero.
        speed: f64,
    },
}

/// A schedule, and a pause between fragments on top of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// When an event is due.
    pub schedule: Schedule,
    /// Minimum time after the source's previous fragment: a front end that needs time to be read out.
    pub pause: Nanos,
}

/// Reason why a [`Pace`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PaceError {
    /// The rate is not a positive number.
    #[error("rate of {events_per_second} events per second must be a number above 0")]
    BadRate {
        /// The configured rate.
        events_per_second: f64,
    },
    /// The speed is not a positive number.
    #[error("speed factor {speed} must be a number above 0")]
    BadSpeed {
        /// The configured factor.
        speed: f64,
    },
}

/// Position and time of a fragment in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentTiming {
    /// The position of its event in the run, counted from zero over the events of all sources.
    pub position: u64,
    /// Time from the run's first event to its recording.
    pub elapsed: Nanos,
}

/// Applies a [`Pace`] to one source.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Nanoseconds per event, or per recorded nanosecond.
    clock: Clock,
    pause: Nanos,
    /// When the source was first asked.
    start: Option<Timestamp>,
    /// Place that is due then.
    origin: FragmentTiming,
    not_before: Timestamp,
    max_lag: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    FullSpeed,
    PerEvent { period_ns: f64 },
    Recorded { stretch: f64 },
}

impl Pacer {
    /// Checks a pace. The schedule begins when the first fragment is requested.
    ///
    /// # Errors
    /// If the rate or the speed is not a positive number.
    pub fn new(pace: &Pace) -> Result<Self, PaceError> {
        let clock = match pace.schedule {
            Schedule::FullSpeed => Clock::FullSpeed,
            Schedule::FixedRate { events_per_second } if is_positive(events_per_second) => {
                Clock::PerEvent { period_ns: 1e9 / events_per_second }
            }
            Schedule::FixedRate { events_per_second } => {
                return Err(PaceError::BadRate { events_per_second });
            }
            Schedule::Recorded { speed } if is_positive(speed) => Clock::Recorded { stretch: 1.0 / speed },
            Schedule::Recorded { speed } => return Err(PaceError::BadSpeed { speed }),
        };
        Ok(Self {
            clock,
            pause: pace.pause,
            start: None,
            origin: FragmentTiming { position: 0, elapsed: Nanos::ZERO },
            not_before: Timestamp::ZERO,
            max_lag: Nanos::ZERO,
        })
    }

    /// Begins the schedule at this place instead of the first one. Has no effect once a fragment was requested.
    pub fn begin_at(&mut self, origin: FragmentTiming) {
        self.origin = origin;
    }

    /// Returns whether every fragment is due at once.
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(self.clock, Clock::FullSpeed) && self.pause == Nanos::ZERO
    }

    /// Checks whether the fragment at `place` is due.
    ///
    /// # Errors
    /// The time at which it is due.
    pub fn admit(&mut self, now: Timestamp, place: FragmentTiming) -> Result<(), Timestamp> {
        let due = self.due(now, place).max(self.not_before);
        if now < due { Err(due) } else { Ok(()) }
    }

    /// Notes that the fragment at `place` went now.
    pub fn sent(&mut self, now: Timestamp, place: FragmentTiming) {
        if !matches!(self.clock, Clock::FullSpeed) {
            self.max_lag = self.max_lag.max(now.since(self.due(now, place)));
        }
        if self.pause > Nanos::ZERO {
            self.not_before = now + self.pause;
        }
    }

    /// The longest that a fragment went after its schedule, by whatever cause; zero at full speed.
    #[must_use]
    pub fn max_lag(&self) -> Nanos {
        self.max_lag
    }

    #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 ns, which is 104 days")]
    fn due(&mut self, now: Timestamp, place: FragmentTiming) -> Timestamp {
        let start = *self.start.get_or_insert(now);
        let after_start = match self.clock {
            Clock::FullSpeed => return Timestamp::ZERO,
            Clock::PerEvent { period_ns } => {
                place.position.saturating_sub(self.origin.position) as f64 * period_ns
            }
            Clock::Recorded { stretch } => {
                place.elapsed.0.saturating_sub(self.origin.elapsed.0) as f64 * stretch
            }
        };
        start + to_nanos(after_start)
    }
}

fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; a cast from a double saturates"
)]
fn to_nanos(nanos: f64) -> Nanos {
    Nanos(nanos as u64)
}

#[cfg(test)]
mod tests;
