//! Lists of numbers and ranges.

use super::number::{Number, integer};
use super::{Codec, Refusal};
use std::marker::PhantomData;
use toml::de::DeValue;

/// A list of different numbers from 0 to `maximum`; ranges are written `"10-19"`.
pub(crate) fn id_list<T: Number>(maximum: u64) -> IdList<T> {
    IdList { maximum, _type: PhantomData }
}

/// See [`id_list`].
pub(crate) struct IdList<T> {
    maximum: u64,
    _type: PhantomData<T>,
}

/// No list is longer, however it is written: identifiers have 16 bits.
const LONGEST_LIST: u64 = 1 << 16;

impl<T: Number> IdList<T> {
    /// The first and the last number of an entry.
    fn range(&self, entry: &DeValue<'_>) -> Result<(u64, u64), Refusal> {
        let (first, last) = match entry {
            DeValue::Integer(number) => {
                let number = integer(number).and_then(|number| u64::try_from(number).ok());
                (number, number)
            }
            DeValue::String(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                (plain_number(first), plain_number(last))
            }
            _ => return Err(Refusal::Type),
        };
        match (first, last) {
            (Some(first), Some(last)) if first <= last && last <= self.maximum => Ok((first, last)),
            _ => Err(Refusal::Value),
        }
    }
}

/// A number of nothing but digits, blanks around it allowed.
fn plain_number(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

impl<T: Number> Codec for IdList<T> {
    type Value = Vec<T>;

    fn type_name(&self) -> String {
        "list".into()
    }

    fn limits(&self) -> String {
        format!("numbers from 0 to {}, each at most once, at most {LONGEST_LIST} of them", self.maximum)
    }

    fn expected(&self) -> String {
        format!("a list like [1, 5, \"10-19\"] of {}", self.limits())
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Vec<T>, Refusal> {
        let mut numbers = Vec::new();
        for entry in value.as_array().ok_or(Refusal::Type)? {
            let (first, last) = self.range(entry.get_ref())?;
            if last - first >= LONGEST_LIST - numbers.len() as u64 {
                return Err(Refusal::Value);
            }
            for number in first..=last {
                numbers.push(T::from_number(number).ok_or(Refusal::Value)?);
            }
        }
        if self.accepts(&numbers) { Ok(numbers) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &Vec<T>) -> bool {
        let mut numbers: Vec<u64> = value.iter().map(|number| number.to_number()).collect();
        numbers.sort_unstable();
        let different = numbers.windows(2).all(|pair| pair[0] != pair[1]);
        let in_range = numbers.last().is_none_or(|last| *last <= self.maximum);
        different && in_range && numbers.len() as u64 <= LONGEST_LIST
    }

    fn write(&self, value: &Vec<T>) -> Option<String> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in value.iter().map(|number| number.to_number()) {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let entries = ranges.iter().map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("\"{first}-{last}\""),
        });
        Some(format!("[{}]", entries.collect::<Vec<_>>().join(", ")))
    }
}
