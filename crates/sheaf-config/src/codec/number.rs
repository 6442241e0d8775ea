//! Integers, sizes and numbers.

use super::{Codec, Refusal};
use sheaf_wire::{ByteCount, ByteRate, EventId, RunNumber, SourceId, Timestamp, TriggerType};
use std::marker::PhantomData;
use toml::de::{DeInteger, DeValue};

/// A TOML integer, in whichever radix it is written.
pub(crate) fn integer(value: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(value.as_str(), value.radix()).ok()
}

/// A number type that a knob may have.
pub(crate) trait Number: Copy {
    /// The value of this number, if the type can hold it.
    fn from_number(number: u64) -> Option<Self>;
    /// The number of this value.
    fn to_number(self) -> u64;
}

macro_rules! plain_numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn from_number(number: u64) -> Option<Self> {
                Self::try_from(number).ok()
            }
            fn to_number(self) -> u64 {
                self as u64
            }
        }
    )*};
}
plain_numbers!(u8, u16, u32, u64, usize);

macro_rules! named_numbers {
    ($($name:ident),*) => {$(
        impl Number for $name {
            fn from_number(number: u64) -> Option<Self> {
                Number::from_number(number).map(Self)
            }
            fn to_number(self) -> u64 {
                self.0.to_number()
            }
        }
    )*};
}
named_numbers!(ByteCount, EventId, RunNumber, SourceId, Timestamp, TriggerType);

/// An integer of at least `minimum` and at most `maximum`, either included.
pub(crate) fn whole<T: Number>(minimum: u64, maximum: u64) -> Whole<T> {
    Whole { minimum, maximum, show: |number| number.to_string(), _type: PhantomData }
}

/// A size in bytes.
pub(crate) fn bytes(minimum: u64, maximum: u64) -> Whole<ByteCount> {
    Whole { minimum, maximum, show: show_bytes, _type: PhantomData }
}

impl Number for ByteRate {
    fn from_number(bits: u64) -> Option<Self> {
        Self::from_bits(bits)
    }
    fn to_number(self) -> u64 {
        self.per_second().saturating_mul(8)
    }
}

/// The rate of a line in bits per second. Whole bytes count.
pub(crate) fn bit_rate(minimum: u64, maximum: u64) -> Whole<ByteRate> {
    whole(minimum, maximum)
}

/// Formats a size as it is written in the file, with binary units in parentheses: `8388608 (8 MiB)`.
pub(crate) fn show_bytes(number: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(shift, _)| number >= 1 << shift && number.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) => format!("{number} ({} {unit})", number >> shift),
        None => number.to_string(),
    }
}

/// See [`whole`] and [`bytes`].
pub(crate) struct Whole<T> {
    minimum: u64,
    maximum: u64,
    show: fn(u64) -> String,
    _type: PhantomData<T>,
}

impl<T: Number> Codec for Whole<T> {
    type Value = T;

    fn type_name(&self) -> String {
        "integer".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", (self.show)(self.minimum), (self.show)(self.maximum))
    }

    fn expected(&self) -> String {
        format!("an integer from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<T, Refusal> {
        let number = value.as_integer().ok_or(Refusal::Type)?;
        let number = integer(number).and_then(|number| u64::try_from(number).ok());
        let value = number.and_then(T::from_number).ok_or(Refusal::Value)?;
        if self.accepts(&value) { Ok(value) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &T) -> bool {
        (self.minimum..=self.maximum).contains(&value.to_number())
    }

    fn write(&self, value: &T) -> Option<String> {
        Some(value.to_number().to_string())
    }
}

/// An integer that may be negative, of at least `minimum` and at most `maximum`, either included.
pub(crate) fn signed(minimum: i64, maximum: i64) -> Signed {
    Signed { minimum, maximum }
}

/// See [`signed`].
pub(crate) struct Signed {
    minimum: i64,
    maximum: i64,
}

impl Codec for Signed {
    type Value = i64;

    fn type_name(&self) -> String {
        "integer".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.minimum, self.maximum)
    }

    fn expected(&self) -> String {
        format!("an integer from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<i64, Refusal> {
        let number = value.as_integer().ok_or(Refusal::Type)?;
        let value = integer(number).and_then(|number| i64::try_from(number).ok()).ok_or(Refusal::Value)?;
        if self.accepts(&value) { Ok(value) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &i64) -> bool {
        (self.minimum..=self.maximum).contains(value)
    }

    fn write(&self, value: &i64) -> Option<String> {
        Some(value.to_string())
    }
}

/// An integer or a decimal number.
pub(super) fn number(value: &DeValue<'_>) -> Result<f64, Refusal> {
    let text = match value {
        DeValue::Integer(digits) => {
            #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
            return integer(digits).map(|number| number as f64).ok_or(Refusal::Value);
        }
        DeValue::Float(digits) => digits.as_str(),
        _ => return Err(Refusal::Type),
    };
    let number: f64 = text.parse().map_err(|_| Refusal::Value)?;
    if number.is_finite() { Ok(number) } else { Err(Refusal::Value) }
}

/// A number of at least `minimum` and at most `maximum`, either included.
pub(crate) fn real(minimum: f64, maximum: f64) -> Real {
    Real { minimum, maximum }
}

/// See [`real`].
pub(crate) struct Real {
    minimum: f64,
    maximum: f64,
}

impl Codec for Real {
    type Value = f64;

    fn type_name(&self) -> String {
        "number".into()
    }

    fn limits(&self) -> String {
        format!("{} to {}", self.minimum, self.maximum)
    }

    fn expected(&self) -> String {
        format!("a number from {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<f64, Refusal> {
        let number = number(value)?;
        if self.accepts(&number) { Ok(number) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &f64) -> bool {
        (self.minimum..=self.maximum).contains(value)
    }

    fn write(&self, value: &f64) -> Option<String> {
        // The debug form has a point or an exponent, and gives the same number when read.
        Some(format!("{value:?}"))
    }
}
