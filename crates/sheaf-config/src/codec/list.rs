//! Lists of numbers and ranges.

use super::number::{Number, integer};
use super::{Codec, Refusal};
use sheaf_wire::SourceId;
use std::marker::PhantomData;
use toml::de::DeValue;

/// A list of different numbers from 0 to `maximum`. Ranges are written `"10-19"`, and `"!17"` takes numbers out. One text may have
/// all of it: `"1-454, 70000-70010, !17"`.
pub(crate) fn id_list<T: Number>(maximum: u64) -> IdList<T> {
    IdList { maximum, of_sources: false, _type: PhantomData }
}

/// A list of sources: as [`id_list`], and the reader of the file replaces names of sources and `@FILE`.
pub(crate) fn source_list() -> IdList<SourceId> {
    IdList { maximum: MAX_SOURCE, of_sources: true, _type: PhantomData }
}

/// The greatest id of a source.
const MAX_SOURCE: u64 = u32::MAX as u64;

/// See [`id_list`] and [`source_list`].
pub(crate) struct IdList<T> {
    maximum: u64,
    of_sources: bool,
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
        let (first, last) = id_range(range).filter(|(_, last)| *last <= self.maximum)?;
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

/// Reads a number, or the first and the last of a range such as `10-19`.
pub(crate) fn id_range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (plain_number(first)?, plain_number(last)?);
    (first <= last).then_some((first, last))
}

/// A number of nothing but digits, or of `0x` and hexadecimal digits; blanks around it allowed.
fn plain_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    // A sign is no digit, but would be read.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// The id of a source: a number, or a name that the reader of the file replaces by it.
pub(crate) fn source_id() -> SourceNumber {
    SourceNumber
}

/// See [`source_id`].
pub(crate) struct SourceNumber;

impl Codec for SourceNumber {
    type Value = SourceId;

    fn type_name(&self) -> String {
        "integer or name".into()
    }

    fn limits(&self) -> String {
        format!("0 to {MAX_SOURCE}, or the name of a source")
    }

    fn expected(&self) -> String {
        format!("a number from {}", self.limits())
    }

    fn names_sources(&self) -> bool {
        true
    }

    fn read(&self, value: &DeValue<'_>) -> Result<SourceId, Refusal> {
        let number = match value {
            DeValue::Integer(number) => integer(number).and_then(|number| u64::try_from(number).ok()),
            DeValue::String(text) => plain_number(text),
            _ => return Err(Refusal::Type),
        };
        number.and_then(SourceId::from_number).ok_or(Refusal::Value)
    }

    fn accepts(&self, _value: &SourceId) -> bool {
        true
    }

    fn write(&self, value: &SourceId) -> Option<String> {
        Some(value.to_string())
    }
}

impl<T: Number> Codec for IdList<T> {
    type Value = Vec<T>;

    fn type_name(&self) -> String {
        "list".into()
    }

    fn limits(&self) -> String {
        let names = if self.of_sources {
            ", names of sources, and `\"@FILE\"` for a file with one of these a line"
        } else {
            ""
        };
        format!(
            "numbers from 0 to {}, ranges such as `\"10-19\"`, and `\"!17\"` for all but 17{names}; each number at most once, at most \
             {LONGEST_LIST} of them",
            self.maximum
        )
    }

    fn expected(&self) -> String {
        let (list, numbers) = match self.of_sources {
            true => (r#"[1, 0x2100, "10-19", "NAME", "@FILE"]"#, "sources"),
            false => (r#"[1, 5, "10-19"]"#, "numbers"),
        };
        format!(
            "a list like {list} or a text like \"1-454, 70000-70010, !17\" of {numbers} from 0 to {}, each at most once, at most \
             {LONGEST_LIST} of them; what `!` takes out must be in it",
            self.maximum
        )
    }

    fn names_sources(&self) -> bool {
        self.of_sources
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
