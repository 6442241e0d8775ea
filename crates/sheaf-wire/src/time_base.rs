//! Unit and zero of the times in a file.

use crate::exact::ExactNanos;
use crate::file::FileFormatError;
use crate::message::layout::layout;
use crate::units::Timestamp;
use num_rational::Ratio;
use std::fmt;
use std::str::FromStr;
use zerocopy::little_endian::{I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Value of [`TimeBaseBytes::epoch`] if the epoch is unknown.
pub const UNKNOWN_EPOCH: i64 = i64::MIN;

layout! {
    /// Unit and epoch of times, 16 bytes.
    TimeBaseBytes[16] {
        /// Offset 0: numerator of the unit, in nanoseconds; not zero.
        numerator: U32,
        /// Offset 4: its denominator; not zero. The fraction is reduced.
        denominator: U32,
        /// Offset 8: time 0 in nanoseconds since 1970-01-01 UTC, without leap seconds; [`UNKNOWN_EPOCH`] if it is unknown.
        epoch: I64,
    }
}

/// A unit of time: a fraction of nanoseconds, both of whose numbers have 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeUnit {
    numerator: u32,
    denominator: u32,
}

impl TimeUnit {
    /// One nanosecond.
    pub const NANOSECOND: Self = Self { numerator: 1, denominator: 1 };

    /// Returns the unit of this duration. `None`: it is not longer than zero, or its numbers exceed 32 bits.
    #[must_use]
    pub fn new(duration: ExactNanos) -> Option<Self> {
        let ratio = duration.ratio();
        let numerator = u32::try_from(*ratio.numer()).ok().filter(|numerator| *numerator > 0)?;
        Some(Self { numerator, denominator: u32::try_from(*ratio.denom()).ok()? })
    }

    /// Returns the unit of a fraction of nanoseconds. `None`: a number is zero.
    #[must_use]
    pub fn from_fraction(numerator: u32, denominator: u32) -> Option<Self> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let (numerator, denominator) = Ratio::new(numerator, denominator).into_raw();
        Some(Self { numerator, denominator })
    }

    /// Returns the duration of the unit.
    #[must_use]
    pub fn duration(self) -> ExactNanos {
        ExactNanos::from_ratio(Ratio::new_raw(i128::from(self.numerator), i128::from(self.denominator)))
    }

    /// Returns numerator and denominator of the number of nanoseconds, reduced.
    #[must_use]
    pub const fn fraction(self) -> (u32, u32) {
        (self.numerator, self.denominator)
    }

    /// Returns a number of units as whole nanoseconds, rounded down; 2^64 - 1 if they are more.
    #[must_use]
    pub fn nanos(self, units: u64) -> u64 {
        let nanos = u128::from(units) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Returns a number of units as whole picoseconds, rounded down. The number must be less than 2^80 from zero.
    #[must_use]
    pub fn picos(self, units: i128) -> i128 {
        (units * i128::from(self.numerator) * 1_000).div_euclid(i128::from(self.denominator))
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.duration().fmt(f)
    }
}

/// Meaning of the times of a file: time `t` is `t` units after the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeBase {
    /// The unit.
    pub unit: TimeUnit,
    /// Time 0, if it is known.
    pub epoch: Option<UtcTime>,
}

impl TimeBase {
    /// Nanoseconds since an unknown time: the meaning of times if a file does not state another one.
    pub const NANOSECONDS: Self = Self { unit: TimeUnit::NANOSECOND, epoch: None };

    /// Returns a time of the system, in nanoseconds since 1970, as a time of this base, rounded down: units since the epoch, or since
    /// 1970 if the epoch is unknown. 0 before the epoch, and 2^64 - 1 if there are more units.
    #[must_use]
    pub fn at_system_time(self, now: Timestamp) -> Timestamp {
        let epoch = self.epoch.map_or(0, |epoch| i128::from(epoch.nanos));
        let since = u128::try_from(i128::from(now.0) - epoch).unwrap_or(0);
        let units = since * u128::from(self.unit.denominator) / u128::from(self.unit.numerator);
        Timestamp(u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// Returns the bytes of a file header.
    #[must_use]
    pub fn to_bytes(self) -> TimeBaseBytes {
        TimeBaseBytes {
            numerator: U32::new(self.unit.numerator),
            denominator: U32::new(self.unit.denominator),
            epoch: I64::new(self.epoch.map_or(UNKNOWN_EPOCH, |epoch| epoch.nanos)),
        }
    }

    /// Reads the bytes of a file header.
    ///
    /// # Errors
    /// [`FileFormatError::BadValue`] for a unit that is zero or not reduced.
    pub fn from_bytes(bytes: &TimeBaseBytes) -> Result<Self, FileFormatError> {
        let (numerator, denominator) = (bytes.numerator.get(), bytes.denominator.get());
        let bad = |field, value: u32| FileFormatError::BadValue {
            what: "file header",
            field,
            value: u64::from(value),
        };
        if numerator == 0 {
            return Err(bad("numerator of the time unit", numerator));
        }
        if denominator == 0 || *Ratio::new(numerator, denominator).denom() != denominator {
            return Err(bad("denominator of the time unit", denominator));
        }
        let epoch = Some(bytes.epoch.get()).filter(|nanos| *nanos != UNKNOWN_EPOCH);
        Ok(Self { unit: TimeUnit { numerator, denominator }, epoch: epoch.map(UtcTime::from_nanos) })
    }
}

impl fmt::Display for TimeBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            Some(epoch) => write!(f, "{} since {epoch}", self.unit),
            None => write!(f, "{} since an unknown time", self.unit),
        }
    }
}

/// A point in time, to the nanosecond. Days have 86,400 s, as those of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime {
    /// Nanoseconds since 1970, not [`UNKNOWN_EPOCH`].
    nanos: i64,
}

const SECOND_NS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

impl UtcTime {
    /// Returns the time this long after 1970.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos: if nanos == UNKNOWN_EPOCH { UNKNOWN_EPOCH + 1 } else { nanos } }
    }

    /// Returns the time since 1970.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.nanos
    }
}

/// A text that is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a time in UTC from 1678 to 2261, such as `2026-01-01T00:00:00Z`, with at most 9 digits after the seconds"
)]
pub struct NotUtcTime;

impl FromStr for UtcTime {
    type Err = NotUtcTime;

    fn from_str(text: &str) -> Result<Self, NotUtcTime> {
        parse_utc(text).map(|nanos| Self { nanos }).ok_or(NotUtcTime)
    }
}

fn parse_utc(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_time = hour < 24 && minute < 60 && second < 60 && (1678..=2261).contains(&year);
    let days = days_since_1970(year, month, day);
    // A date that does not exist, such as February 30, has the days of another one.
    if !is_time || date_of(days) != (year, month, day) || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let nanos: i64 = fraction
        .bytes()
        .all(|digit| digit.is_ascii_digit())
        .then(|| format!("{fraction:0<9}"))?
        .parse()
        .ok()?;
    let seconds = days * DAY_SECONDS + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(SECOND_NS)?.checked_add(nanos)
}

/// Reads numbers of so many digits with a separator between them.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut found = [0; 3];
    let mut parts = text.split(separator);
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts
            .next()
            .filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Days of 400 years of the Gregorian calendar, and days from March 1 of year 0 to 1970.
const ERA_DAYS: i64 = 146_097;
const DAYS_TO_1970: i64 = 719_468;

/// Returns the days from 1970 to a date. Years begin in March here, so that a leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * ERA_DAYS + year * 365 + year / 4 - year / 100 + day_of_year - DAYS_TO_1970
}

/// Returns year, month and day of a number of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.nanos.div_euclid(SECOND_NS), self.nanos.rem_euclid(SECOND_NS));
        let (year, month, day) = date_of(seconds.div_euclid(DAY_SECONDS));
        let second = seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if nanos > 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

#[cfg(test)]
pub(crate) mod tests;
