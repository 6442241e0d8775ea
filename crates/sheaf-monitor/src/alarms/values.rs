//! Alarms of values from outside. They belong to no run.

use super::alarm;
use crate::state::{Alarm, Severity};
use crate::values::{Level, ValueReport};
use std::collections::BTreeMap;

/// Advice where the configuration has none.
const LOOK: &str = "look at the device; the configuration can say what to do here (`remedy` of the value), and has the limits";

/// Advice about a file.
const LOOK_AT_FILE: &str =
    "look whether the program that writes the file works, and at its host and its file system";

/// Advice about a program.
const LOOK_AT_SENDER: &str = "look whether the program that sends the value works, and what answer it gets";

/// Judges values at consecutive moments.
#[derive(Debug, Default)]
pub(crate) struct ValueAlarms {
    /// When each condition began.
    began: BTreeMap<(&'static str, String), u64>,
}

impl ValueAlarms {
    /// Returns the alarms of values, in the order of their names.
    pub(crate) fn judge(&mut self, time_ms: u64, values: &[ValueReport]) -> Vec<Alarm> {
        let mut began = BTreeMap::new();
        let mut raised = Vec::new();
        for value in values {
            let Some((mut alarm, hold_ms)) = condition(value) else { continue };
            let key = (alarm.code, value.name.clone());
            // The clock may have been set back.
            alarm.since_ms = self.began.get(&key).copied().unwrap_or(time_ms).min(time_ms);
            began.insert(key, alarm.since_ms);
            if time_ms - alarm.since_ms >= hold_ms {
                raised.push(alarm);
            }
        }
        self.began = began;
        raised
    }
}

/// Returns the condition of a value that is one, and how long it must last.
fn condition(value: &ValueReport) -> Option<(Alarm, u64)> {
    let ValueReport { name, alarm: rule, .. } = value;
    let unit = value.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
    let advice = |otherwise: &str| rule.remedy.clone().unwrap_or_else(|| otherwise.to_owned());
    let Some(number) = value.fresh() else {
        // A value that was never known has the time until it would be stale to appear.
        let is_due = value.age_ms.is_some() || value.missing_ms >= value.stale_ms;
        if !rule.stale || !is_due {
            return None;
        }
        let mut text = match (value.age_ms, value.value) {
            (Some(age), Some(last)) => {
                format!("{name} is stale: its last value, {last}{unit}, is {} s old", age / 1_000)
            }
            _ => format!("{name} is unknown: there has been no value for {} s", value.missing_ms / 1_000),
        };
        if let Some(problem) = &value.problem {
            text = format!("{text}; {problem}");
        }
        let remedy = advice(if value.file.is_some() { LOOK_AT_FILE } else { LOOK_AT_SENDER });
        return Some((alarm("value-stale", Severity::Warning, text, Some(name), &remedy), 0));
    };
    let (level, passed) = value.limits.judge(number);
    let (is_below, limit) = passed?;
    let remedy = advice(LOOK);
    let side = if is_below { "below" } else { "above" };
    let text = format!("{name} is {number}{unit}, {side} its limit of {limit}{unit}");
    // An error has its own code, so that an alarm is raised again when a warning becomes an error.
    let alarm = match level {
        Level::Error => alarm("value-error", Severity::Error, text, Some(name), &remedy),
        Level::Good | Level::Warning => alarm("value-warning", Severity::Warning, text, Some(name), &remedy),
    };
    Some((alarm, rule.hold_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{DeclaredValue, Offer, ValueLimits};
    use std::time::Duration;

    fn board() -> crate::values::ValueBook {
        let mut book = crate::values::ValueBook::default();
        let limits = ValueLimits {
            warning_above: Some(1_550.0),
            error_above: Some(1_600.0),
            ..ValueLimits::default()
        };
        let value = DeclaredValue {
            name: "hv-ecal".into(),
            unit: Some("V".into()),
            stale: Duration::from_secs(5),
            stale_alarm: true,
            limits,
            hold: Duration::from_secs(2),
            remedy: Some("call the expert".into()),
            ..DeclaredValue::default()
        };
        let quiet =
            DeclaredValue { name: "quiet".into(), stale: Duration::from_secs(5), ..DeclaredValue::default() };
        book.declare(10_000, 0, vec![value, quiet]);
        book
    }

    #[test]
    fn an_alarm_has_culprit_and_remedy_when_the_value_was_outside_for_long_enough() {
        let (mut book, mut alarms) = (board(), ValueAlarms::default());
        let mut at = |now: u64, value: Option<f64>| {
            if value.is_some() {
                book.take_sent(now, 0, Offer { name: "hv-ecal", value, age: 0, by: None }).unwrap();
            }
            let raised = alarms.judge(now, &book.reports(now));
            raised.into_iter().map(|alarm| (alarm.severity, alarm.text)).collect::<Vec<_>>()
        };
        assert_eq!(at(10_100, Some(1_560.0)), []);
        assert_eq!(at(12_000, Some(1_570.0)), []);
        let warned = at(12_100, Some(1_580.0));
        assert_eq!(warned, [(Severity::Warning, "hv-ecal is 1580 V, above its limit of 1550 V".to_owned())]);
        assert_eq!(at(12_200, Some(1_700.0)), [], "it gets worse, and must last as well");
        let failed = at(14_200, Some(1_700.5));
        assert_eq!(failed, [(Severity::Error, "hv-ecal is 1700.5 V, above its limit of 1600 V".to_owned())]);
        assert_eq!(at(14_300, Some(1_500.0)), []);
        assert_eq!(at(14_400, Some(1_560.0)), [], "it begins anew");
        assert_eq!(at(19_300, None).len(), 1, "it lasts");
        let stale = at(20_000, None);
        assert_eq!(
            stale,
            [(Severity::Warning, "hv-ecal is stale: its last value, 1560 V, is 5 s old".to_owned())]
        );
        assert_eq!(at(20_100, Some(1_500.0)), []);
    }

    #[test]
    fn a_value_that_never_came_is_an_alarm_after_its_time_if_that_is_wished() {
        let (book, mut alarms) = (board(), ValueAlarms::default());
        assert_eq!(alarms.judge(14_999, &book.reports(14_999)), []);
        let raised = alarms.judge(15_000, &book.reports(15_000));
        let named: Vec<_> =
            raised.iter().map(|alarm| (alarm.code, alarm.culprit.as_deref(), &*alarm.remedy)).collect();
        assert_eq!(named, [("value-stale", Some("hv-ecal"), "call the expert")]);
    }
}
