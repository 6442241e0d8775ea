//! Durations that need not be whole nanoseconds, and drifts of clocks: texts with a unit.

use super::{Codec, Refusal, quote};
use sheaf_wire::{ClockDrift, ExactNanos, TimeUnit, UtcTime};
use toml::de::DeValue;

/// The period of a clock, up to a second: a duration or a rate.
pub(crate) fn period() -> Period {
    Period
}

/// A duration of either sign, up to `years` of 365 days.
pub(crate) fn exact_time(years: i64) -> ExactTime {
    ExactTime { years }
}

/// A unit of time.
pub(crate) fn time_unit() -> Unit {
    Unit
}

/// A time of the calendar.
pub(crate) fn utc_time() -> Utc {
    Utc
}

/// Largest drift, 1 %.
const MAX_PPM: i32 = 10_000;

/// The drift of a clock, of either sign, up to [`MAX_PPM`].
pub(crate) fn drift() -> Drift {
    Drift
}

/// See [`period()`].
pub(crate) struct Period;

impl Codec for Period {
    type Value = ExactNanos;

    fn type_name(&self) -> String {
        "time".into()
    }

    fn limits(&self) -> String {
        "a number or a fraction, and `s`, `ms`, `us`, `ns`, `ps` or `fs`: `25 ns`, `1562.5 ps`, `25/16 ns`; or the rate in `Hz`, `kHz`, `MHz` or `GHz`: `40 MHz`, `400/9 MHz`; at most a second".into()
    }

    fn expected(&self) -> String {
        "a period of at most 1 s such as \"25 ns\", \"25/16 ns\" or \"1562.5 ps\", or a rate such as \"40 MHz\" or \"400/9 MHz\"".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<ExactNanos, Refusal> {
        let period = ExactNanos::parse_period(value.as_str().ok_or(Refusal::Type)?);
        period.ok().filter(|period| self.accepts(period)).ok_or(Refusal::Value)
    }

    fn accepts(&self, value: &ExactNanos) -> bool {
        ExactNanos::ZERO < *value && *value <= ExactNanos::from_nanos(1_000_000_000)
    }

    fn write(&self, value: &ExactNanos) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// See [`exact_time`].
pub(crate) struct ExactTime {
    years: i64,
}

impl Codec for ExactTime {
    type Value = ExactNanos;

    fn type_name(&self) -> String {
        "time".into()
    }

    fn limits(&self) -> String {
        format!(
            "a number or a fraction, and `s`, `ms`, `us`, `ns`, `ps` or `fs`: `-350 ns`, `25/16 ns`; at most {} years of 365 days",
            self.years
        )
    }

    fn expected(&self) -> String {
        format!("a time such as \"-350 ns\", \"1562.5 ps\" or \"25/16 ns\", at most {} years", self.years)
    }

    fn read(&self, value: &DeValue<'_>) -> Result<ExactNanos, Refusal> {
        let time = value.as_str().ok_or(Refusal::Type)?.parse();
        time.ok().filter(|time| self.accepts(time)).ok_or(Refusal::Value)
    }

    fn accepts(&self, value: &ExactNanos) -> bool {
        let most = self.years * 365 * 86_400 * 1_000_000_000;
        (ExactNanos::from_nanos(-most)..=ExactNanos::from_nanos(most)).contains(value)
    }

    fn write(&self, value: &ExactNanos) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// See [`drift()`].
pub(crate) struct Drift;

impl Codec for Drift {
    type Value = ClockDrift;

    fn type_name(&self) -> String {
        "drift".into()
    }

    fn limits(&self) -> String {
        format!("a number or a fraction, and `ppm` or `ppb`: `1.5 ppm`, `-3/7 ppb`; at most {MAX_PPM} ppm")
    }

    fn expected(&self) -> String {
        format!("a drift of at most {MAX_PPM} ppm such as \"1.5 ppm\" or \"-20 ppb\"")
    }

    fn read(&self, value: &DeValue<'_>) -> Result<ClockDrift, Refusal> {
        let drift = value.as_str().ok_or(Refusal::Type)?.parse();
        drift.ok().filter(|drift| self.accepts(drift)).ok_or(Refusal::Value)
    }

    fn accepts(&self, value: &ClockDrift) -> bool {
        (ClockDrift::from_ppm(-MAX_PPM)..=ClockDrift::from_ppm(MAX_PPM)).contains(value)
    }

    fn write(&self, value: &ClockDrift) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// See [`time_unit()`].
pub(crate) struct Unit;

impl Codec for Unit {
    type Value = TimeUnit;

    fn type_name(&self) -> String {
        "time".into()
    }

    fn limits(&self) -> String {
        "a number or a fraction, and `s`, `ms`, `us`, `ns`, `ps` or `fs`: `1 ns`, `0.1 ns`, `25/16 ns`; as a reduced fraction of nanoseconds, both of its numbers are below 2^32".into()
    }

    fn expected(&self) -> String {
        "a unit of time such as \"1 ns\", \"0.1 ns\" or \"25/16 ns\", as a fraction of nanoseconds with numbers below 2^32".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<TimeUnit, Refusal> {
        let duration = value.as_str().ok_or(Refusal::Type)?.parse();
        duration.ok().and_then(TimeUnit::new).ok_or(Refusal::Value)
    }

    fn accepts(&self, _: &TimeUnit) -> bool {
        true
    }

    fn write(&self, value: &TimeUnit) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// See [`utc_time()`].
pub(crate) struct Utc;

impl Codec for Utc {
    type Value = UtcTime;

    fn type_name(&self) -> String {
        "UTC time".into()
    }

    fn limits(&self) -> String {
        "a time in UTC from 1678 to 2261, such as `2026-01-01T00:00:00Z`, with at most 9 digits after the seconds".into()
    }

    fn expected(&self) -> String {
        "a time in UTC from 1678 to 2261 such as \"2026-01-01T00:00:00Z\", with at most 9 digits after the seconds".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<UtcTime, Refusal> {
        value.as_str().ok_or(Refusal::Type)?.parse().map_err(|_| Refusal::Value)
    }

    fn accepts(&self, _: &UtcTime) -> bool {
        true
    }

    fn write(&self, value: &UtcTime) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}
