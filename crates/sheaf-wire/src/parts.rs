//! Parts of messages of the small protocols: checked reads of bodies, lists and texts.

use crate::message::DecodeError;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Returns the error for a field with this value.
pub(crate) fn bad(field: &'static str, value: impl Into<u64>) -> DecodeError {
    DecodeError::BadValue { field, value: value.into() }
}

/// Returns a length as the field of a message. Lists and texts are bounded, so that it fits.
pub(crate) fn count(length: usize) -> U32 {
    U32::new(u32::try_from(length).unwrap_or(u32::MAX))
}

/// Returns the start of a text, of at most `most` bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Reads a text of at most `most` bytes.
pub(crate) fn text(field: &'static str, bytes: &[u8], most: usize) -> Result<String, DecodeError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= most);
    text.map(str::to_owned).ok_or_else(|| bad(field, bytes.len() as u64))
}

/// Reads a value that is all of the bytes.
pub(crate) fn whole<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
) -> Result<&T, DecodeError> {
    let (value, rest) = split::<T>(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::TrailingBytes(rest.len())) }
}

/// Reads a value, and returns the bytes behind it.
pub(crate) fn split<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
) -> Result<(&T, &[u8]), DecodeError> {
    T::ref_from_prefix(bytes).map_err(|_| DecodeError::Truncated { need: size_of::<T>(), have: bytes.len() })
}

/// Reads `count` values, and returns the bytes behind them.
pub(crate) fn split_list<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
    count: u32,
) -> Result<(&[T], &[u8]), DecodeError> {
    <[T]>::ref_from_prefix_with_elems(bytes, count as usize).map_err(|_| DecodeError::Truncated {
        need: (count as usize).saturating_mul(size_of::<T>()),
        have: bytes.len(),
    })
}
