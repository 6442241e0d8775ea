//! Instants, durations and sizes. Own integer types, so that a role needs no operating system to hold a time and a
//! run log prints the same everywhere.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A duration in nanoseconds. Arithmetic saturates: a deadline of [`Nanos::MAX`] is "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A duration of zero.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// `value` microseconds.
    #[must_use]
    pub const fn from_micros(value: u64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// `value` milliseconds.
    #[must_use]
    pub const fn from_millis(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000))
    }

    /// `value` seconds.
    #[must_use]
    pub const fn from_secs(value: u64) -> Self {
        Self(value.saturating_mul(1_000_000_000))
    }

    /// The duration in seconds, for display and rates.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is quoted to a few digits")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The same duration in the standard library's type.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{}.{:03} us", self.0 / 1_000, self.0 % 1_000),
            1_000_000..1_000_000_000 => write!(f, "{}.{:03} ms", self.0 / 1_000_000, self.0 / 1_000 % 1_000),
            _ => write!(f, "{}.{:03} s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000),
        }
    }
}

/// An instant: nanoseconds since an origin that the driver of a role chooses. On real nodes the origin is the Unix
/// epoch; under simulation it is the start of the simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than any instant of a run.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time since `earlier`; zero if this instant is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<Nanos> for Timestamp {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Timestamp {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `value` KiB (1,024 bytes each).
    #[must_use]
    pub const fn kib(value: u64) -> Self {
        Self(value.saturating_mul(1 << 10))
    }

    /// `value` MiB (1,048,576 bytes each).
    #[must_use]
    pub const fn mib(value: u64) -> Self {
        Self(value.saturating_mul(1 << 20))
    }

    /// The size as a `usize`, saturating on 32-bit machines.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<usize> for ByteCount {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    /// Own accounting never goes below zero: in a debug build that is a bug and stops.
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "byte accounting below zero: {self} - {other}");
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for ByteCount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// A rate of a line or a port, in bytes per second. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(std::num::NonZeroU64);

impl ByteRate {
    /// `value` bytes per second; `None` for zero, which is no rate.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match std::num::NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// A line of `value` bits per second, rounded down to whole bytes.
    #[must_use]
    pub const fn from_bits(value: u64) -> Option<Self> {
        Self::new(value / 8)
    }

    /// Bytes per second.
    #[must_use]
    pub const fn per_second(self) -> u64 {
        self.0.get()
    }

    /// Returns the rate of `lines` such lines together. No line counts as one.
    #[must_use]
    pub fn times(self, lines: usize) -> Self {
        let lines = std::num::NonZeroU64::new(lines as u64).unwrap_or(std::num::NonZeroU64::MIN);
        Self(self.0.saturating_mul(lines))
    }

    /// Returns the time that the line takes for `bytes`, rounded up.
    #[must_use]
    pub fn time_for(self, bytes: ByteCount) -> Nanos {
        let nanos = (u128::from(bytes.0) * 1_000_000_000).div_ceil(u128::from(self.0.get()));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the number of whole bytes that the line carries in `span`.
    #[must_use]
    pub fn bytes_in(self, span: Nanos) -> ByteCount {
        let bytes = u128::from(span.0) * u128::from(self.0.get()) / 1_000_000_000;
        ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B/s", self.0)
    }
}
