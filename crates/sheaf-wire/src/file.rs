//! Common parts of the file formats: errors, limits, and the file header's checksum, which covers the header and
//! the metadata behind it.

use crate::checksum::{crc32c, crc32c_append};
use crate::message::DecodeError;
use std::ops::RangeInclusive;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Maximum size of a file's metadata: a larger length is refused before anything is allocated.
pub const MAX_METADATA_BYTES: u32 = 16 << 20;

/// The payload of one fragment is never longer.
pub const MAX_PAYLOAD_BYTES: u32 = 1 << 30;

/// Reason why bytes are not a part of a fragment stream or of an event file, or cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFormatError {
    /// Fewer bytes than the layout needs.
    #[error("{what} ends after {have} bytes; {need} are needed")]
    Truncated {
        /// Which part of the file.
        what: &'static str,
        /// Bytes that the layout needs.
        need: u64,
        /// Bytes that there are.
        have: u64,
    },
    /// Not this kind of file.
    #[error("file starts with {found:02x?}, not with the magic {expected:?}")]
    WrongMagic {
        /// Bytes that the file should start with.
        expected: &'static str,
        /// Bytes that it starts with.
        found: [u8; 8],
    },
    /// Another version of the format.
    #[error(
        "file has format version {found}, this release reads {versions}; read it with {other} release of sheaf",
        versions = versions(*oldest, *newest),
        other = if found > newest { "a later" } else { "an earlier" }
    )]
    WrongVersion {
        /// The version in the header.
        found: u16,
        /// The oldest version that is understood.
        oldest: u16,
        /// The newest version that is understood.
        newest: u16,
    },
    /// Not the start of a record.
    #[error("{what} starts with the marker {found:08x}")]
    WrongMarker {
        /// Element that is expected there.
        what: &'static str,
        /// Value that was found.
        found: u32,
    },
    /// Damaged bytes.
    #[error("checksum of {what} is {computed:08x}, the file says {declared:08x}")]
    WrongChecksum {
        /// Which part of the file.
        what: &'static str,
        /// The checksum in the file.
        declared: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A field holds a code or a count that has no meaning.
    #[error("field `{field}` of {what} has the invalid value {value}")]
    BadValue {
        /// Which part of the file.
        what: &'static str,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Larger than the format allows.
    #[error("{what} has {bytes} bytes, at most {limit} are allowed")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size.
        limit: u64,
    },
    /// The metadata is not text.
    #[error("metadata is not UTF-8: valid up to byte {0}")]
    MetadataNotUtf8(usize),
}

impl FileFormatError {
    /// The same error in a part of an event file that has the layout of a message's entry.
    pub(crate) fn from_entry(what: &'static str, error: DecodeError) -> Self {
        match error {
            DecodeError::BadValue { field, value } => Self::BadValue { what, field, value },
            DecodeError::WrongPayloadLength { declared, have } => {
                Self::Truncated { what: "payload", need: declared, have }
            }
            DecodeError::Truncated { need, have } => {
                Self::Truncated { what, need: need as u64, have: have as u64 }
            }
            // An entry of fixed size has no other way to be wrong.
            _ => Self::BadValue { what, field: "entry", value: 0 },
        }
    }
}

/// Borrows the layout `T` at the start of `bytes`.
pub(crate) fn view<'a, T: FromBytes + Immutable + KnownLayout + Unaligned>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<(&'a T, &'a [u8]), FileFormatError> {
    T::ref_from_prefix(bytes).map_err(|_| FileFormatError::Truncated {
        what,
        need: size_of::<T>() as u64,
        have: bytes.len() as u64,
    })
}

/// The checksum of a file header, whose last four bytes are the checksum field, and of the metadata.
pub(crate) fn file_header_checksum(header: &[u8], metadata: &[u8]) -> u32 {
    let without_field = &header[..header.len() - 4];
    crc32c_append(crc32c_append(crc32c(without_field), &[0; 4]), metadata)
}

/// Refuses `bytes` whose checksum is not the declared one.
pub(crate) fn check(what: &'static str, declared: u32, computed: u32) -> Result<(), FileFormatError> {
    if declared == computed {
        Ok(())
    } else {
        Err(FileFormatError::WrongChecksum { what, declared, computed })
    }
}

/// Refuses a size above `limit`.
pub(crate) fn check_size(what: &'static str, bytes: u64, limit: u64) -> Result<(), FileFormatError> {
    if bytes <= limit { Ok(()) } else { Err(FileFormatError::TooLarge { what, bytes, limit }) }
}

/// Refuses a file of another kind, or of a version that this release does not read.
pub(crate) fn check_start(
    (magic, found): (&'static str, [u8; 8]),
    version: u16,
    read: RangeInclusive<u16>,
) -> Result<(), FileFormatError> {
    if found != *magic.as_bytes() {
        return Err(FileFormatError::WrongMagic { expected: magic, found });
    }
    if !read.contains(&version) {
        return Err(FileFormatError::WrongVersion {
            found: version,
            oldest: *read.start(),
            newest: *read.end(),
        });
    }
    Ok(())
}

/// Returns a range of versions in words.
fn versions(oldest: u16, newest: u16) -> String {
    if oldest == newest { format!("version {newest}") } else { format!("versions {oldest} to {newest}") }
}

/// Returns the length of a file's metadata.
pub(crate) fn metadata_length(bytes: u32) -> Result<usize, FileFormatError> {
    check_size("metadata", u64::from(bytes), u64::from(MAX_METADATA_BYTES))?;
    Ok(bytes as usize)
}

/// Returns the metadata at the start of the bytes behind a header.
pub(crate) fn metadata_of(rest: &[u8], length: usize) -> Result<&[u8], FileFormatError> {
    let truncated =
        FileFormatError::Truncated { what: "metadata", need: length as u64, have: rest.len() as u64 };
    rest.get(..length).ok_or(truncated)
}

/// The metadata as text.
pub(crate) fn metadata_text(bytes: &[u8]) -> Result<&str, FileFormatError> {
    std::str::from_utf8(bytes).map_err(|error| FileFormatError::MetadataNotUtf8(error.valid_up_to()))
}
