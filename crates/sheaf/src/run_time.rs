//! Points in time of a run, as arguments have them: since its time 0, or in UTC.

use sheaf_wire::UtcTime;
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
            return text.parse().map(Self::Utc).map_err(|_| InvalidTime);
        }
        let units = [("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1), ("s", SECOND_PS)];
        let cut = |(unit, factor): (&str, u64)| Some((text.strip_suffix(unit)?, factor));
        let (number, factor) = units.into_iter().find_map(cut).unwrap_or((text, SECOND_PS));
        decimal(number.trim_end(), factor).map(|picos| Self::Run(RunTime(picos))).ok_or(InvalidTime)
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

impl RunTime {
    /// Returns the time of a run whose time 0 is known, if it is not before it, and less than 213 days after it.
    pub(crate) fn of(time: UtcTime, zero: UtcTime) -> Option<Self> {
        let nanos = u64::try_from(i128::from(time.nanos()) - i128::from(zero.nanos())).ok()?;
        nanos.checked_mul(1_000).map(Self)
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
    fn utc_is_converted_to_the_time_of_a_run() {
        let zero: UtcTime = "2026-11-25T22:00:00Z".parse().unwrap();
        let later: UtcTime = "2026-11-25T22:00:01.000000003Z".parse().unwrap();
        assert_eq!(RunTime::of(later, zero), Some(RunTime(1_000_000_003_000)));
        assert_eq!(RunTime::of(zero, later), None);
        assert_eq!("2026-11-25T22:00:00Z".parse(), Ok(TimeArgument::Utc(zero)));
        assert_eq!("2026-11-31T22:00:00Z".parse::<TimeArgument>(), Err(InvalidTime));
    }
}
