//! Values from outside in records of runs, as text.

use super::compare::ComparedValue;
use sheaf_store::run::ValueRecord;
use std::fmt::Write as _;

/// Digits of a value that are shown.
const DIGITS: i32 = 6;

/// Returns the line of a value in the record of a run, without its heading.
pub(super) fn line(value: &ValueRecord) -> String {
    let ValueRecord { name, first, last, minimum, maximum, mean, readings, unknown_ms, unit } = value;
    let unit = unit.as_deref().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let unknown = *unknown_ms as f64 / 1e3;
    let (Some(first), Some(last), Some(minimum), Some(maximum), Some(mean)) =
        (first, last, minimum, maximum, mean)
    else {
        return format!("{name}  not known");
    };
    let noun = if *readings == 1 { "reading" } else { "readings" };
    let missing = if *unknown_ms == 0 { String::new() } else { format!(", unknown for {unknown:.1} s") };
    let [first, last, minimum, maximum, mean] = [first, last, minimum, maximum, mean].map(|it| digits(*it));
    format!(
        "{name}  {} ({minimum} to {maximum}, first {first}, last {last}), {readings} {noun}{missing}",
        with_unit(&mean, unit)
    )
}

/// Returns the values of two runs side by side.
pub(super) fn comparison(values: &[ComparedValue]) -> String {
    let mut text = String::new();
    if !values.is_empty() {
        text.push_str("\nvalues from outside, mean and range:\n");
    }
    for ComparedValue { name, unit, mean, minimum, maximum } in values {
        let unit = unit.as_deref().unwrap_or_default();
        let shown = |run: usize| match (mean[run], minimum[run], maximum[run]) {
            (Some(mean), Some(minimum), Some(maximum)) => {
                format!("{} ({} to {})", with_unit(&digits(mean), unit), digits(minimum), digits(maximum))
            }
            _ => "-".to_owned(),
        };
        let _ = writeln!(text, "  {name:<24}{:>36}{:>36}{:>12}", shown(0), shown(1), change(*mean));
    }
    text
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// Formats a number with six digits.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-4.0..7.0).contains(&magnitude) {
        return format!("{value:.5e}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 9")]
    let decimals = (f64::from(DIGITS) - 1.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Change in percent, where both runs have a value that is not 0.
pub(super) fn change(values: [Option<f64>; 2]) -> String {
    match values {
        [Some(before), Some(after)] if before != 0.0 => {
            format!("{:+.1} %", 100.0 * (after - before) / before)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let shown: Vec<_> =
            [0.0, 1500.0, 1500.256, -0.031, 1234567.0, 1.5e-9, 9.9e29, 99999.97].map(digits).into();
        assert_eq!(
            shown,
            ["0", "1500", "1500.26", "-0.031", "1234567", "1.50000e-9", "9.90000e29", "100000"]
        );
    }

    #[test]
    fn a_value_that_was_never_known_says_so() {
        let value = ValueRecord {
            name: "hv".into(),
            unit: Some("V".into()),
            first: None,
            last: None,
            minimum: None,
            maximum: None,
            mean: None,
            readings: 0,
            unknown_ms: 5_000,
        };
        assert_eq!(line(&value), "hv  not known");
        let known = ValueRecord {
            first: Some(1.0),
            last: Some(3.0),
            minimum: Some(1.0),
            maximum: Some(4.0),
            mean: Some(2.5),
            readings: 7,
            ..value
        };
        assert_eq!(line(&known), "hv  2.5 V (1 to 4, first 1, last 3), 7 readings, unknown for 5.0 s");
    }
}
