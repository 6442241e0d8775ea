//! Points in time of a run, as arguments have them: since its time 0, or in UTC.

use std::fmt;
use std::str::FromStr;

/// Picoseconds of a second.
const SECOND_PS: u64 = 1_000_000_000_000;

/// A point in time as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeArgument {
    /// Since the run's time 0.
    Run(RunTime),
    /// UTC.
    Utc(UtcTime),
}

/// Time since a run's time 0, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunTime(pub(crate) u64);

/// UTC: nanoseconds since 1970, without leap seconds, and picoseconds of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UtcTime {
    nanos: u64,
    picos: u16,
}

/// Reason for which the text of a time is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be seconds since the run's time 0, such as 12.5 or 300us, with up to 12 decimals, or UTC, such as \
     2026-11-25T22:56:15.25Z"
)]
pub(crate) struct InvalidTime;

impl FromStr for TimeArgument {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        if text.contains('T') {
            return text.parse().map(Self::Utc);
        }
        let units = [("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1), ("s", SECOND_PS)];
        let cut = |(unit, factor): (&str, u64)| Some((text.strip_suffix(unit)?, factor));
        let (number, factor) = units.into_iter().find_map(cut).unwrap_or((text, SECOND_PS));
        decimal(number.trim_end(), factor).map(|picos| Self::Run(RunTime(picos))).ok_or(InvalidTime)
    }
}

impl FromStr for UtcTime {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        parse_utc(text).ok_or(InvalidTime)
    }
}

/// Reads a decimal number exactly, in units of a `factor`-th.
fn decimal(text: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 12 {
        return None;
    }
    let mut parts = 0;
    let mut unit = u128::from(factor);
    for digit in fraction.bytes() {
        let value = u128::from(digit - b'0');
        if value > 0 && unit % 10 != 0 {
            return None;
        }
        unit /= 10;
        parts += value * unit;
    }
    u64::try_from(whole.parse::<u128>().ok()?.checked_mul(factor.into())?.checked_add(parts)?).ok()
}

fn parse_utc(text: &str) -> Option<UtcTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-');
    let mut number = |digits: usize| {
        let word = date.next().filter(|word| word.len() == digits)?;
        word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse::<u64>().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let is_over = date.next().is_none();
    if !is_over || year < 1970 || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let mut time = time.split(':');
    let mut below = |limit: u64| {
        let word = time.next().filter(|word| word.len() == 2)?;
        word.parse::<u64>().ok().filter(|value| *value < limit)
    };
    let (hour, minute) = (below(24)?, below(60)?);
    let seconds = decimal(time.next()?, SECOND_PS).filter(|picos| *picos < 60 * SECOND_PS)?;
    if time.next().is_some() {
        return None;
    }
    let years: u64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    let minutes = ((years + months + day - 1) * 24 + hour) * 60 + minute;
    let nanos = minutes.checked_mul(60_000_000_000)?.checked_add(seconds / 1_000)?;
    Some(UtcTime { nanos, picos: (seconds % 1_000) as u16 })
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl UtcTime {
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self { nanos, picos: 0 }
    }

    /// Returns the nanoseconds since 1970, if they are a whole number.
    pub(crate) fn whole_nanos(self) -> Option<u64> {
        (self.picos == 0).then_some(self.nanos)
    }

    /// Returns the time since another one, if it is later and the difference is less than 213 days.
    pub(crate) fn since(self, zero: Self) -> Option<RunTime> {
        let picos = |time: Self| u128::from(time.nanos) * 1_000 + u128::from(time.picos);
        u64::try_from(picos(self).checked_sub(picos(zero))?).ok().map(RunTime)
    }
}

impl fmt::Display for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / SECOND_PS, self.0 % SECOND_PS);
        let digits = format!("{parts:012}");
        let digits = digits.trim_end_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        write!(f, "{whole}.{digits} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_that_is_printed_is_read_back_exactly(picos: u64) {
            let text = RunTime(picos).to_string();
            prop_assert_eq!(text.replace(' ', "").parse(), Ok(TimeArgument::Run(RunTime(picos))));
            prop_assert_eq!(text.parse(), Ok(TimeArgument::Run(RunTime(picos))));
        }

        #[test]
        fn any_text_is_a_time_or_refused(text in "[0-9TZ:.smunp-]{0,30}") {
            let _ = text.parse::<TimeArgument>();
        }
    }

    #[test]
    fn times_have_units() {
        for (text, picos) in [
            ("0", 0),
            ("12.5", 12_500_000_000_000),
            ("1.000000000001", 1_000_000_000_001),
            ("300us", 300_000_000),
            ("22.5ns", 22_500),
            ("7ps", 7),
        ] {
            assert_eq!(text.parse(), Ok(TimeArgument::Run(RunTime(picos))), "{text}");
        }
        for text in ["", "s", "-1", "1.0000000000001", "0.5ps", "1e3", "99999999999", "1 h", ".5"] {
            assert_eq!(text.parse::<TimeArgument>(), Err(InvalidTime), "{text}");
        }
    }

    #[test]
    fn utc_is_read_with_leap_years_and_invalid_dates_are_refused() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696_000_000_000),
            ("2026-11-25T22:56:15.25Z", 1_795_647_375_250_000_000),
        ] {
            let parsed: UtcTime = text.parse().unwrap();
            assert_eq!((parsed.nanos, parsed.picos), (nanos, 0), "{text}");
        }
        for text in [
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-1-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
        ] {
            assert_eq!(text.parse::<UtcTime>(), Err(InvalidTime), "{text}");
        }
    }

    #[test]
    fn utc_is_converted_to_the_time_of_a_run() {
        let zero: UtcTime = "2026-11-25T22:00:00Z".parse().unwrap();
        let later: UtcTime = "2026-11-25T22:00:01.000000000003Z".parse().unwrap();
        assert_eq!(later.since(zero), Some(RunTime(1_000_000_000_003)));
        assert_eq!(zero.since(later), None);
    }
}
