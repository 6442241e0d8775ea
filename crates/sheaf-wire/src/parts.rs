//! Code shared by the protocols of sources, triggers and consumers: message heads, and checked reads of bodies,
//! lists and texts.

use crate::message::layout::layout;
use crate::message::{DecodeError, split};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

layout! {
    /// The head of a message, 8 bytes.
    HeadBytes[8] {
        /// Offset 0: bytes of the message, including this head.
        length: U32,
        /// Offset 4: kind of the message.
        kind: u8,
        /// Offset 5: zero.
        reserved: [u8; 3],
    }
}

/// Bytes of a message before its body.
pub(crate) const HEAD_BYTES: usize = size_of::<HeadBytes>();

impl HeadBytes {
    pub(crate) fn new(kind: u8, length: U32) -> Self {
        Self { length, kind, reserved: [0; 3] }
    }
}

/// Returns a message whose body consists of `parts`. Lists and texts are bounded, so that the length fits its field.
pub(crate) fn compose(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = HEAD_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(HeadBytes::new(kind, count(length)).as_bytes());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    message
}

/// Returns the code of the kind and the available part of the body of a message that must have `have` bytes.
pub(crate) fn open(message: &[u8], have: usize) -> Result<(u8, &[u8]), DecodeError> {
    let (head, body) = split::<HeadBytes>(message)?;
    let declared = head.length.get() as usize;
    if declared != have {
        return Err(DecodeError::WrongHeadLength { declared, have });
    }
    Ok((head.kind, body))
}

/// Returns the code of the kind and the length of a message, which must have at most `most` bytes.
pub(crate) fn declared(head: &[u8; HEAD_BYTES], most: usize) -> Result<(u8, usize), DecodeError> {
    let bytes: HeadBytes = zerocopy::transmute!(*head);
    let length = bytes.length.get() as usize;
    if !(HEAD_BYTES..=most).contains(&length) {
        return Err(bad("length", bytes.length.get()));
    }
    Ok((bytes.kind, length))
}

/// Returns the value of a field with this code.
pub(crate) fn coded<T>(
    field: &'static str,
    code: u8,
    from_code: impl Fn(u8) -> Option<T>,
) -> Result<T, DecodeError> {
    from_code(code).ok_or_else(|| bad(field, code))
}

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

/// Reads a list that is all of the bytes.
pub(crate) fn list<'a, T: FromBytes + Immutable + KnownLayout + Unaligned>(
    field: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [T], DecodeError> {
    <[T]>::ref_from_bytes(bytes).map_err(|_| bad(field, bytes.len() as u64))
}

/// Reads a value that is all of the bytes.
pub(crate) fn whole<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
) -> Result<&T, DecodeError> {
    let (value, rest) = split::<T>(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::TrailingBytes(rest.len())) }
}
