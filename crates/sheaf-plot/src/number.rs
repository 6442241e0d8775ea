//! Notation of values beside an axis.

use crate::Notation;

/// Prefixes of powers of a thousand, from 10^-12.
const DECIMAL: [&str; 10] = ["p", "n", "µ", "m", "", "k", "M", "G", "T", "P"];
const DECIMAL_ONE: i32 = 4;
/// Prefixes of powers of 1,024.
const BINARY: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/// `value` as it stands beside an axis, with no more digits than it needs.
pub(crate) fn written(value: f64, notation: Notation) -> String {
    match notation {
        Notation::Plain => digits(value),
        Notation::Percent => format!("{} %", digits(value * 100.0)),
        Notation::Si => prefixed(value, 1000.0, &DECIMAL, DECIMAL_ONE),
        Notation::Binary => prefixed(value, 1024.0, &BINARY, 0),
    }
}

fn prefixed(value: f64, base: f64, prefixes: &[&str], one: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let highest = i32::try_from(prefixes.len()).unwrap_or(i32::MAX) - 1 - one;
    // The small surplus keeps 1000 from becoming 1000 of the prefix below by a rounding of the logarithm.
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite f64 is below 400")]
    let power = ((value.abs().ln() / base.ln() + 1e-9).floor() as i32).clamp(-one, highest);
    let prefix = usize::try_from(power + one).ok().and_then(|at| prefixes.get(at)).copied().unwrap_or("");
    let number = digits(value / base.powi(power));
    if prefix.is_empty() { number } else { format!("{number} {prefix}") }
}

/// Formats with at most six digits, without trailing zeros; as a power of ten if that would be long.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-4..1e7).contains(&size) {
        let written = format!("{value:.3e}");
        let (mantissa, power) = written.split_once('e').unwrap_or((&written, "0"));
        return format!("{}e{power}", trimmed(mantissa));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 9")]
    let places = (5.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
    trimmed(&format!("{value:.places$}")).to_owned()
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}
