//! Times of messages: microseconds since 1970, and RFC 3339 in UTC.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};
use std::time::{SystemTime, UNIX_EPOCH};

/// Days from March 1 of the year 0 to 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Days in 400 years.
const ERA_DAYS: u64 = 146_097;

const DAY_US: u64 = 86_400_000_000;

/// Returns the present time.
pub(crate) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a time as `2026-11-27T01:10:20.123456Z`.
pub(crate) fn rfc3339(time_us: u64) -> String {
    let (days, us) = (time_us / DAY_US, time_us % DAY_US);
    // Years begin in March, so that the day of a leap year is its last.
    let shifted = days + DAYS_BEFORE_1970;
    let (era, day) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + u64::from(month <= 2);
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

/// Reads a time in UTC: `2026-11-27T01:10:20.123456Z`, where the fraction, the seconds, the time and the `Z` may be missing.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let date: Vec<u64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month, day] = date[..] else { return None };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let clock: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hour, minute, second) = match clock[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    let fraction = format!("{fraction:0<6}")[..6].parse::<u64>().ok()?;
    let year = year - u64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let (era, of_era) = (year / 400, year % 400);
    let days = era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(DAYS_BEFORE_1970)?;
    Some(days * DAY_US + (hour * 3_600 + minute * 60 + second) * 1_000_000 + fraction)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
pub(super) fn serialize<S: Serializer>(time_us: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*time_us))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no time")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_of_people_are_read() {
        let whole = parse("2026-11-27T01:10:20.123456Z");
        assert_eq!(whole, Some(1_795_741_820_123_456));
        assert_eq!(parse("2026-11-27T01:10:20"), Some(1_795_741_820_000_000));
        assert_eq!(parse("2026-11-27 01:10"), Some(1_795_741_800_000_000));
        assert_eq!(parse("2026-11-27"), Some(1_795_737_600_000_000));
        assert_eq!(
            parse("2024-02-29T23:59:59.5Z").map(rfc3339).as_deref(),
            Some("2024-02-29T23:59:59.500000Z")
        );
        for wrong in ["", "now", "2026-13-01", "2026-11-27T25:00", "2026-11-27T01:10:20+02:00", "1969-12-31"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(time_us in 0..250_000_000_000_000_000_u64) {
            prop_assert_eq!(parse(&rfc3339(time_us)), Some(time_us));
        }
    }
}
