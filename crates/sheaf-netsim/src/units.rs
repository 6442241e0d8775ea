//! Simulated time and link rates.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant or a span of simulated time in picoseconds: fine enough for one byte on a 400 Gbit/s link (20 ps), and
/// 2^64 of them are 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The start of a run, or a duration of zero.
    pub const ZERO: Self = Self(0);
    /// Later than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// `value` nanoseconds.
    #[must_use]
    pub const fn from_nanos(value: u64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// `value` microseconds.
    #[must_use]
    pub const fn from_micros(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000))
    }

    /// The span from `earlier`; zero where it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// In seconds, for rates and reports.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "reports quote a few digits")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ps", self.0),
            1_000..1_000_000 => write!(f, "{}.{:03} ns", self.0 / 1_000, self.0 % 1_000),
            1_000_000..1_000_000_000 => write!(f, "{}.{:03} us", self.0 / 1_000_000, self.0 / 1_000 % 1_000),
            _ => write!(f, "{}.{:03} ms", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000),
        }
    }
}

/// Rate at which a link moves data: bits per second of payload and everything that travels with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// `value` Gbit/s.
    #[must_use]
    pub const fn from_gigabits(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000_000))
    }

    /// Returns the time for which `bytes` occupy the link, to the next picosecond.
    ///
    /// # Panics
    /// Never for a positive rate; a rate of zero is refused by [`crate::scenario`].
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Picos {
        let picos = (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(self.0.max(1)));
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Bytes per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "reports quote a few digits")]
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }
}
