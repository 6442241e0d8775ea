//! Places in packets.

use super::{Codec, Refusal, quote};
use std::fmt;
use toml::de::DeValue;

/// Largest offset: that of the last byte of a UDP packet.
const MAX_OFFSET: u32 = 65_535;

/// Most bytes of a mark, and most marks in a list.
const MOST_BYTES: usize = 64;

/// A number in a packet, as the text `"u16le at packet 2 & 0x0fff >> 4"` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its width in bits: 8, 16, 24, 32, 48 or 64.
    pub bits: u32,
    /// Whether its least significant byte is the first.
    pub is_little_endian: bool,
    /// Whether its offset counts from the beginning of the packet, not of the fragment.
    pub is_in_packet: bool,
    /// Bytes before it.
    pub offset: u32,
    /// Bits of it that count; `None`: all.
    pub mask: Option<u64>,
    /// Number of bits by which the masked number is shifted to the right.
    pub shift: u32,
}

impl Field {
    /// Reads the text of a field.
    fn parse(text: &str) -> Option<Self> {
        let spaced = text.replace('&', " & ").replace(">>", " >> ");
        let mut words = spaced.split_whitespace().peekable();
        let width = words.next()?.strip_prefix('u')?;
        let (digits, is_little_endian) = match (width.strip_suffix("le"), width.strip_suffix("be")) {
            (Some(digits), _) => (digits, true),
            (None, big) => (big.unwrap_or(width), false),
        };
        let bits = [8, 16, 24, 32, 48, 64].into_iter().find(|bits| bits.to_string() == digits)?;
        let (is_in_packet, offset) = place(&mut words)?;
        let mut after = |sign| words.next_if_eq(&sign).map(|_| number(words.next()?));
        let (mask, shift) = (after("&"), after(">>"));
        let mask = match mask {
            Some(mask) => Some(mask.filter(|mask| *mask > 0 && u128::from(*mask) < 1 << bits)?),
            None => None,
        };
        let shift = u32::try_from(shift.unwrap_or(Some(0))?).ok().filter(|shift| *shift < bits)?;
        words.next().is_none().then_some(Self { bits, is_little_endian, is_in_packet, offset, mask, shift })
    }
}

/// Reads `at 4` or `at packet 4`.
fn place<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Option<(bool, u32)> {
    words.next_if_eq(&"at")?;
    let is_in_packet = words.next_if_eq(&"packet").is_some();
    let offset = u32::try_from(number(words.next()?)?).ok().filter(|offset| *offset <= MAX_OFFSET)?;
    Some((is_in_packet, offset))
}

/// Reads a number, decimal or hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        _ => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_little_endian { "le" } else { "" };
        let packet = if self.is_in_packet { "packet " } else { "" };
        write!(f, "u{}{order} at {packet}{}", self.bits, self.offset)?;
        if let Some(mask) = self.mask {
            write!(f, " & {mask:#x}")?;
        }
        if self.shift > 0 {
            write!(f, " >> {}", self.shift)?;
        }
        Ok(())
    }
}

/// A field of a packet.
pub(crate) fn field() -> FieldText {
    FieldText
}

/// See [`field()`].
pub(crate) struct FieldText;

impl Codec for FieldText {
    type Value = Field;

    fn type_name(&self) -> String {
        "field".into()
    }

    fn limits(&self) -> String {
        "`u8`, `u16`, `u24`, `u32`, `u48` or `u64`, with `le` if the least significant byte is the first; `at` and the number of bytes before it; optionally `&` and a mask, `>>` and a shift to the right: `u32 at 4`, `u16le at 0 & 0x0fff`. `at packet 4` counts from the beginning of the packet, not of the fragment".into()
    }

    fn expected(&self) -> String {
        "a field such as \"u32 at 4\", \"u16le at 0 & 0x0fff >> 4\" or \"u8 at packet 7\", with 8, 16, 24, 32, 48 or 64 bits".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Field, Refusal> {
        Field::parse(value.as_str().ok_or(Refusal::Type)?).ok_or(Refusal::Value)
    }

    fn accepts(&self, value: &Field) -> bool {
        Field::parse(&value.to_string()) == Some(*value)
    }

    fn write(&self, value: &Field) -> Option<String> {
        Some(quote(&value.to_string()))
    }
}

/// Bytes at a place in a packet, as the text `"564d33 at 4"` describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes of the packet before them.
    pub offset: u32,
}

impl Mark {
    /// Reads the text of a mark.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().peekable();
        let digits = words.next()?;
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if !is_hex || pairs.is_empty() || pairs.len() > MOST_BYTES || !rest.is_empty() {
            return None;
        }
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes = pairs.iter().map(byte).collect::<Option<_>>()?;
        let (_, offset) = place(&mut words)?;
        words.next().is_none().then_some(Self { bytes, offset })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, " at {}", self.offset)
    }
}

/// Marks in a packet.
pub(crate) fn mark_list() -> MarkList {
    MarkList
}

/// See [`mark_list`].
pub(crate) struct MarkList;

impl Codec for MarkList {
    type Value = Vec<Mark>;

    fn type_name(&self) -> String {
        "list".into()
    }

    fn limits(&self) -> String {
        format!(
            "at most {MOST_BYTES}; each 1 to {MOST_BYTES} bytes in hexadecimal, `at`, and the number of bytes of the packet before them: `564d33 at 4`"
        )
    }

    fn expected(&self) -> String {
        "a list of bytes and their places, such as [\"564d33 at 4\"]: bytes in hexadecimal, `at`, and the number of bytes before them".into()
    }

    fn read(&self, value: &DeValue<'_>) -> Result<Vec<Mark>, Refusal> {
        let entries = value.as_array().ok_or(Refusal::Type)?;
        let mark = |text: &str| Mark::parse(text).ok_or(Refusal::Value);
        let marks: Vec<Mark> = entries
            .iter()
            .map(|entry| mark(entry.get_ref().as_str().ok_or(Refusal::Type)?))
            .collect::<Result<_, _>>()?;
        if marks.len() <= MOST_BYTES { Ok(marks) } else { Err(Refusal::Value) }
    }

    fn accepts(&self, value: &Vec<Mark>) -> bool {
        value.len() <= MOST_BYTES
            && value.iter().all(|mark| Mark::parse(&mark.to_string()).as_ref() == Some(mark))
    }

    fn write(&self, value: &Vec<Mark>) -> Option<String> {
        Some(format!(
            "[{}]",
            value.iter().map(|mark| quote(&mark.to_string())).collect::<Vec<_>>().join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let of = |bits, offset| Field {
            bits,
            is_little_endian: false,
            is_in_packet: false,
            offset,
            mask: None,
            shift: 0,
        };
        let cases = [
            ("u32 at 4", of(32, 4)),
            ("u24be at 0x10", of(24, 16)),
            ("  u8  at packet 7 ", Field { is_in_packet: true, ..of(8, 7) }),
            (
                "u16le at 0&0x0ff0>>4",
                Field { is_little_endian: true, mask: Some(0xff0), shift: 4, ..of(16, 0) },
            ),
            ("u64 at 8 >> 20", Field { shift: 20, ..of(64, 8) }),
            ("u64 at 8 & 0xffffffffffffffff", Field { mask: Some(u64::MAX), ..of(64, 8) }),
        ];
        for (text, wanted) in cases {
            let read = Field::parse(text);
            assert_eq!(read, Some(wanted), "{text}");
            assert_eq!(Field::parse(&wanted.to_string()), read, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_fields_are_refused() {
        let wrong = [
            "",
            "u32",
            "u32 at",
            "u31 at 0",
            "i32 at 0",
            "u32 4",
            "u32 at -1",
            "u32 at 65536",
            "u32 at 0 &",
            "u8 at 0 & 0x100",
            "u8 at 0 & 0",
            "u8 at 0 >> 8",
            "u8 at 0 >> 1 & 1",
            "u8 at 0 1",
            "u032 at 0",
            "u32 at packet",
            "u8 at 0x+1",
        ];
        for text in wrong {
            assert_eq!(Field::parse(text), None, "{text}");
        }
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        let mark = Mark { bytes: b"VM3".to_vec(), offset: 4 };
        for text in ["564d33 at 4", "0x564D33 at 0x4", "564d33 at packet 4"] {
            assert_eq!(Mark::parse(text).as_ref(), Some(&mark), "{text}");
        }
        assert_eq!(mark.to_string(), "564d33 at 4");
        for text in ["", "at 4", "564d3 at 4", "VM3 at 4", "56", "56 at", "56 at 0 7"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
    }
}
