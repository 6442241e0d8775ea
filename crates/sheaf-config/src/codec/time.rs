//! Times, to the nanosecond.

use super::number::number;
use super::{Codec, Refusal};
use sheaf_wire::Nanos;
use toml::de::DeValue;

/// A time in seconds, as an integer or a decimal number.
pub(crate) fn seconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time { minimum, maximum, digits: 9 }
}

/// A time in milliseconds, as an integer or a decimal number.
pub(crate) fn milliseconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time { minimum, maximum, digits: 6 }
}

/// A time in microseconds, as an integer or a decimal number.
pub(crate) fn microseconds(minimum: Nanos, maximum: Nanos) -> Time {
    Time { minimum, maximum, digits: 3 }
}

/// Codec of [`seconds`], [`milliseconds`] and [`microseconds`]. Plain decimal digits are read exactly, to the nanosecond:
/// a 64-bit floating-point number would lose the last nanoseconds of a run of 30 days.
pub(crate) struct Time {
    minimum: Nanos,
    maximum: Nanos,
    /// Number of decimal digits from the unit to a nanosecond.
    digits: usize,
}

impl Time {
    /// The time in the file's unit, exactly, without needless zeros.
    fn show(&self, time: Nanos) -> String {
        let unit = 10_u64.pow(u32::try_from(self.digits).unwrap_or(0));
        let text = format!("{}.{:0digits$}", time.0 / unit, time.0 % unit, digits = self.digits);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Time {
    /// Parses plain decimal digits, to the nanosecond; `None` for other notations and for finer values.
    fn exact(&self, text: &str) -> Option<u64> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) || fraction.len() > self.digits {
            return None;
        }
        format!("{whole}{fraction:0<digits$}", digits = self.digits).parse().ok()
    }

    /// The time that a number means, to about 16 digits.
    fn rounded(&self, number: f64) -> Nanos {
        let nanos = number * 10_f64.powi(i32::try_from(self.digits).unwrap_or(0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; a cast saturates, and what saturates is beyond the limits"
        )]
        Nanos(nanos.round() as u64)
    }
}

impl Codec for Time {
    type Value = Nanos;

    fn type_name(&self) -> String {
        "number".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.show(self.minimum), self.show(self.maximum))
    }

    fn expected(&self) -> String {
        let unit = match self.digits {
            9 => "seconds",
            6 => "milliseconds",
            _ => "microseconds",
        };
        format!("a number of {unit} from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Nanos, Refusal> {
        let number = number(value)?;
        let text = match value {
            DeValue::Float(digits) => digits.as_str(),
            DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str(),
            _ => "",
        };
        let time = match self.exact(text) {
            Some(nanos) => Nanos(nanos),
            None if number.is_sign_negative() && number != 0.0 => return Err(Refusal::Value),
            None => self.rounded(number),
        };
        if self.accepts(&time) { Ok(time) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &Nanos) -> bool {
        (self.minimum..=self.maximum).contains(value)
    }

    fn write(&self, value: &Nanos) -> Option<String> {
        Some(self.show(*value))
    }
}
