//! Lists of numbers and ranges.

use super::number::{Number, integer};
use super::{Codec, Refusal};
use std::marker::PhantomData;
use toml::de::DeValue;

/// A list of different numbers from 0 to `maximum`. Ranges are written `"10-19"`, and `"!17"` takes numbers out. One text may have
/// all of it: `"1-454, 70000-70010, !17"`.
pub(crate) fn id_list<T: Number>(maximum: u64) -> IdList<T> {
    IdList { maximum, _type: PhantomData }
}

/// See [`id_list`].
pub(crate) struct IdList<T> {
    maximum: u64,
    _type: PhantomData<T>,
}

/// No list is longer, however it is written. The numbers in it may be larger.
const LONGEST_LIST: u64 = 1 << 16;

/// A piece of a list.
enum Piece {
    /// Adds the numbers from the first to the second.
    Add(u64, u64),
    /// Takes them out.
    Remove(u64, u64),
}

impl<T: Number> IdList<T> {
    /// Reads the pieces of an entry.
    fn pieces(&self, entry: &DeValue<'_>, pieces: &mut Vec<Piece>) -> Result<(), Refusal> {
        match entry {
            DeValue::Integer(number) => {
                let number = integer(number).and_then(|number| u64::try_from(number).ok());
                let number = number.filter(|number| *number <= self.maximum).ok_or(Refusal::Value)?;
                pieces.push(Piece::Add(number, number));
            }
            DeValue::String(text) => {
                for piece in text.split(',') {
                    pieces.push(self.piece(piece.trim()).ok_or(Refusal::Value)?);
                }
            }
            _ => return Err(Refusal::Type),
        }
        Ok(())
    }

    fn piece(&self, text: &str) -> Option<Piece> {
        let (range, removes) = text.strip_prefix('!').map_or((text, false), |range| (range, true));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (plain_number(first)?, plain_number(last)?);
        (first <= last && last <= self.maximum).then_some(())?;
        Some(if removes { Piece::Remove(first, last) } else { Piece::Add(first, last) })
    }
}

/// Returns the numbers of a list in its order. `None`: they are too many, or one that is taken out is not in it.
fn assembled(pieces: &[Piece]) -> Option<Vec<u64>> {
    let mut numbers: Vec<u64> = Vec::new();
    for piece in pieces {
        if let Piece::Add(first, last) = *piece {
            (last - first < LONGEST_LIST - numbers.len() as u64).then_some(())?;
            numbers.extend(first..=last);
        }
    }
    for piece in pieces {
        if let Piece::Remove(first, last) = *piece {
            let before = numbers.len();
            numbers.retain(|number| !(first..=last).contains(number));
            let removed = (before - numbers.len()) as u64;
            (removed == (last - first).saturating_add(1)).then_some(())?;
        }
    }
    Some(numbers)
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
        format!(
            "numbers from 0 to {}, ranges such as `\"10-19\"`, and `\"!17\"` for all but 17; each number at most once, at most {LONGEST_LIST} of \
             them",
            self.maximum
        )
    }

    fn expected(&self) -> String {
        format!(
            "a list like [1, 5, \"10-19\"] or a text like \"1-454, 70000-70010, !17\" of numbers from 0 to {}, each at most once, at most \
             {LONGEST_LIST} of them; what `!` takes out must be in it",
            self.maximum
        )
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Vec<T>, Refusal> {
        let mut pieces = Vec::new();
        match value.as_array() {
            Some(entries) => {
                entries.iter().try_for_each(|entry| self.pieces(entry.get_ref(), &mut pieces))?
            }
            None if value.is_str() => self.pieces(value, &mut pieces)?,
            None => return Err(Refusal::Type),
        }
        let numbers = assembled(&pieces).ok_or(Refusal::Value)?;
        let numbers: Option<Vec<T>> = numbers.into_iter().map(T::from_number).collect();
        numbers.filter(|numbers| self.accepts(numbers)).ok_or(Refusal::Value)
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
