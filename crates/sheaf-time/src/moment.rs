//! The common timeline.

use std::fmt;
use std::ops::{Add, Sub};

/// A duration in picoseconds. Ticks of detector clocks are often not whole nanoseconds: 44.44 MHz corresponds to 22.5 ns.
/// Arithmetic saturates; the maximum is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// Zero duration.
    pub const ZERO: Self = Self(0);

    /// Converts nanoseconds.
    #[must_use]
    pub const fn from_nanos(value: u64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// Returns whole nanoseconds, rounded down.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns `count` times this duration.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Picos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ps @ 0..1_000 => write!(f, "{ps} ps"),
            ps @ 1_000..1_000_000 => write!(f, "{}.{:03} ns", ps / 1_000, ps % 1_000),
            ps @ 1_000_000..1_000_000_000 => write!(f, "{}.{:03} us", ps / 1_000_000, ps / 1_000 % 1_000),
            ps => write!(f, "{}.{:03} ms", ps / 1_000_000_000, ps / 1_000_000 % 1_000),
        }
    }
}

/// A point on the timeline that all sources share: picoseconds since the reset of the sources' clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Begin of the timeline.
    pub const ZERO: Self = Self(0);
    /// Latest possible moment.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time since `earlier`; zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Picos> for Moment {
    type Output = Self;
    fn add(self, duration: Picos) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Sub<Picos> for Moment {
    type Output = Self;
    fn sub(self, duration: Picos) -> Self {
        Self(self.0.saturating_sub(duration.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Picos(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_in_the_unit_that_fits() {
        let printed: Vec<_> =
            [7, 22_500, 1_500_000, 2_000_000_000_000].map(|ps| Picos(ps).to_string()).into();
        assert_eq!(printed, ["7 ps", "22.500 ns", "1.500 us", "2000.000 ms"]);
    }

    #[test]
    fn a_moment_is_printed_as_the_duration_since_the_beginning_and_nanoseconds_are_whole() {
        assert_eq!(Moment(22_500).to_string(), "22.500 ns");
        assert_eq!([999, 1_000, 2_999].map(|ps| Picos(ps).as_nanos()), [0, 1, 2]);
    }

    #[test]
    fn arithmetic_saturates_at_the_ends_of_the_timeline() {
        assert_eq!(Moment::MAX + Picos(1), Moment::MAX);
        assert_eq!(Moment(3) - Picos(4), Moment::ZERO);
        assert_eq!(Moment(3).since(Moment(4)), Picos::ZERO);
    }
}
