//! Durations that are not whole nanoseconds, and drifts of clocks, without rounding.

use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, Signed, Zero};
use std::fmt;
use std::str::FromStr;

/// Nanoseconds of the units that texts may have, as numerator and denominator.
const TIME_UNITS: [(&str, i128, i128); 6] = [
    ("s", 1_000_000_000, 1),
    ("ms", 1_000_000, 1),
    ("us", 1_000, 1),
    ("ns", 1, 1),
    ("ps", 1, 1_000),
    ("fs", 1, 1_000_000),
];

/// Cycles per nanosecond of the units of rates.
const RATE_UNITS: [(&str, i128, i128); 4] =
    [("GHz", 1, 1), ("MHz", 1, 1_000), ("kHz", 1, 1_000_000), ("Hz", 1, 1_000_000_000)];

/// Units of drifts, as parts of 1.
const DRIFT_UNITS: [(&str, i128, i128); 2] = [("ppm", 1, 1_000_000), ("ppb", 1, 1_000_000_000)];

/// Bounds of numerator and denominator of what is read from text, so that later products fit into 128 bits.
const MAX_NUMERATOR: i128 = 1 << 95;
const MAX_DENOMINATOR: i128 = 1 << 63;

/// Most digits after the point that are shown; other numbers are shown as fractions.
const SHOWN_DECIMALS: u32 = 12;

/// A text that is not an exact duration or drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactError {
    /// It is not a duration.
    #[error(
        "must be a number or a fraction with a unit of s, ms, us, ns, ps or fs, such as `25 ns` or `25/16 ns`"
    )]
    Duration,
    /// It is neither a duration nor a rate.
    #[error(
        "must be a number or a fraction with a unit of s to fs or of Hz to GHz, such as `25 ns`, `25/16 ns` or `40 MHz`"
    )]
    Period,
    /// It is not a drift.
    #[error("must be a number or a fraction with the unit ppm or ppb, such as `1.5 ppm`")]
    Drift,
}

/// A duration of any rational number of nanoseconds, of either sign.
///
/// Its text is a number or a fraction and a unit: `25 ns`, `1562.5 ps`, `25/16 ns`, `-0.35 us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExactNanos(Ratio<i128>);

impl ExactNanos {
    /// Zero duration.
    pub const ZERO: Self = Self::from_nanos(0);

    /// Converts whole nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(Ratio::new_raw(nanos as i128, 1))
    }

    /// Converts whole picoseconds.
    #[must_use]
    pub fn from_picos(picos: i64) -> Self {
        Self(Ratio::new(i128::from(picos), 1_000))
    }

    /// Returns the duration of this many nanoseconds.
    #[must_use]
    pub const fn from_ratio(nanos: Ratio<i128>) -> Self {
        Self(nanos)
    }

    /// Returns the number of nanoseconds, reduced.
    #[must_use]
    pub const fn ratio(self) -> Ratio<i128> {
        self.0
    }

    /// Reads the period of a clock: a duration, or a rate in Hz, kHz, MHz or GHz.
    ///
    /// # Errors
    /// [`ExactError::Period`].
    pub fn parse_period(text: &str) -> Result<Self, ExactError> {
        let of_rate = || {
            let rate = quantity(text, &RATE_UNITS)?;
            (!rate.is_zero()).then(|| Self(rate.recip()))
        };
        text.parse().ok().or_else(of_rate).ok_or(ExactError::Period)
    }
}

impl FromStr for ExactNanos {
    type Err = ExactError;

    fn from_str(text: &str) -> Result<Self, ExactError> {
        quantity(text, &TIME_UNITS).map(Self).ok_or(ExactError::Duration)
    }
}

impl fmt::Display for ExactNanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = TIME_UNITS.iter().take_while(|(unit, ..)| *unit != "ps");
        let whole =
            whole.map(|(unit, nanos, _)| (self.0 / nanos, *unit)).find(|(count, _)| count.is_integer());
        let picos =
            (self.0.abs() < Ratio::from(1)).then(|| self.0.checked_mul(&Ratio::from(1_000))).flatten();
        let (count, unit) = match (whole, picos) {
            _ if self.0.is_zero() => (self.0, "ns"),
            (Some(whole), _) => whole,
            (None, Some(picos)) if Shown(picos).decimals().is_some() => (picos, "ps"),
            _ => (self.0, "ns"),
        };
        write!(f, "{} {unit}", Shown(count))
    }
}

/// Relative deviation of the rate of a clock from its nominal rate. With +1 ppm, the clock counts 1,000,001 ticks in the time of
/// 1,000,000.
///
/// Its text is a number or a fraction, and `ppm` or `ppb`: `1.5 ppm`, `-3/7 ppb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockDrift(Ratio<i128>);

impl ClockDrift {
    /// No drift.
    pub const ZERO: Self = Self(Ratio::new_raw(0, 1));

    /// Returns the drift of this many parts per million.
    #[must_use]
    pub fn from_ppm(ppm: i32) -> Self {
        Self(Ratio::new(i128::from(ppm), 1_000_000))
    }

    /// Returns the drift of this many parts of 1.
    #[must_use]
    pub const fn from_ratio(parts: Ratio<i128>) -> Self {
        Self(parts)
    }

    /// Returns the drift as parts of 1, reduced.
    #[must_use]
    pub const fn ratio(self) -> Ratio<i128> {
        self.0
    }

    /// Returns the duration of a tick of a clock with this drift, whose nominal tick is given. `None`: the clock stands still or
    /// goes backwards, or the result does not fit into fractions of 128 bits.
    #[must_use]
    pub fn tick(self, nominal: ExactNanos) -> Option<ExactNanos> {
        let rate = self.0.checked_add(&Ratio::from(1)).filter(Signed::is_positive)?;
        nominal.0.checked_div(&rate).map(ExactNanos)
    }
}

impl FromStr for ClockDrift {
    type Err = ExactError;

    fn from_str(text: &str) -> Result<Self, ExactError> {
        quantity(text, &DRIFT_UNITS).map(Self).ok_or(ExactError::Drift)
    }
}

impl fmt::Display for ClockDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.checked_mul(&Ratio::from(1_000_000)) {
            Some(ppm) => write!(f, "{} ppm", Shown(ppm)),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A number as decimal digits, or as a fraction if these do not end soon.
struct Shown(Ratio<i128>);

impl Shown {
    /// Returns the number without its point, and how many digits are after the point. `None`: there are too many.
    fn decimals(&self) -> Option<(i128, u32)> {
        (0..=SHOWN_DECIMALS).find_map(|digits| {
            let scaled = self.0.checked_mul(&Ratio::from(10_i128.pow(digits)))?;
            scaled.is_integer().then(|| (scaled.to_integer(), digits))
        })
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scaled, digits)) = self.decimals() else { return write!(f, "{}", self.0) };
        let (sign, scaled, unit) =
            (if scaled < 0 { "-" } else { "" }, scaled.unsigned_abs(), 10_u128.pow(digits));
        write!(f, "{sign}{}", scaled / unit)?;
        if digits > 0 {
            write!(f, ".{:0width$}", scaled % unit, width = digits as usize)?;
        }
        Ok(())
    }
}

/// Reads a number or a fraction with one of these units.
fn quantity(text: &str, units: &[(&str, i128, i128)]) -> Option<Ratio<i128>> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic())?);
    let &(_, numerator, denominator) = units.iter().find(|(name, ..)| *name == unit)?;
    let number = match number.split_once('/') {
        None => decimal(number.trim(), true)?,
        Some((over, under)) => {
            let under = decimal(under.trim(), false)?;
            decimal(over.trim(), true)?.checked_div(&(!under.is_zero()).then_some(under)?)?
        }
    };
    let quantity = number.checked_mul(&Ratio::new(numerator, denominator))?;
    let is_bounded = quantity.numer().abs() <= MAX_NUMERATOR && *quantity.denom() <= MAX_DENOMINATOR;
    is_bounded.then_some(quantity)
}

/// Reads decimal digits, with or without a point. Underscores may separate digits.
fn decimal(text: &str, may_have_sign: bool) -> Option<Ratio<i128>> {
    let (is_negative, digits) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) if may_have_sign => (true, rest),
        (_, Some(rest)) if may_have_sign => (false, rest),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_written = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let has_digit = |digits: &str| digits.bytes().any(|byte| byte.is_ascii_digit());
    if !is_written(whole) || !is_written(fraction) || !has_digit(whole) {
        return None;
    }
    if digits.contains('.') && !has_digit(fraction) {
        return None;
    }
    let fraction: String = fraction.chars().filter(char::is_ascii_digit).collect();
    let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let unit = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(Ratio::new(if is_negative { -number } else { number }, unit))
}

#[cfg(test)]
mod tests;
