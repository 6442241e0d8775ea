//! Numbers as JSON: whole ones without a fraction, which most contents are.

use serde::de::Error as _;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whole numbers up to here are exact in both forms.
const EXACT: f64 = 9_007_199_254_740_992.0;

struct Value(f64);

impl Serialize for Value {
    #[expect(clippy::cast_possible_truncation, reason = "the number is whole and in range")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value) = *self;
        if value.fract() == 0.0 && value.abs() < EXACT {
            serializer.serialize_i64(value as i64)
        } else {
            serializer.serialize_f64(value)
        }
    }
}

/// Writes a list of numbers.
pub(crate) fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        list.serialize_element(&Value(*value))?;
    }
    list.end()
}

/// Reads a whole number. Some languages write 1000 as `1000.0`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is whole and in range"
)]
pub(crate) fn whole<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: TryFrom<u64>,
    D: Deserializer<'de>,
{
    let number = serde_json::Number::deserialize(deserializer)?;
    let is_whole = |value: &f64| value.fract() == 0.0 && (0.0..u64::MAX as f64).contains(value);
    let value = number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|value| value as u64));
    let value = value.and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| D::Error::custom(format!("{number} is no whole number in the range of this member")))
}

/// Reads a whole number that is there.
pub(crate) fn some_whole<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    whole(deserializer).map(Some)
}
