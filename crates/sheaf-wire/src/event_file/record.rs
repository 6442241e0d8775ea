//! Run records in an event file: information that belongs to a run and to no event.

use super::view;
use crate::checksum::{crc32c, crc32c_append};
use crate::file::{FileFormatError, check, check_size};
use crate::message::layout::layout;
use crate::run_record::{MAX_RECORD_BYTES, MAX_RECORD_NAME_BYTES, RecordKind, RunRecord};
use crate::{SourceId, Timestamp};
use bytes::Bytes;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first four bytes of a run record, `"RECD"` in the file.
pub const RECORD_MARKER: u32 = u32::from_le_bytes(*b"RECD");
/// Bytes of a run record before its name.
pub const RECORD_HEADER_BYTES: usize = size_of::<RecordHeaderBytes>();

layout! {
    /// The start of a run record, 48 bytes; its name and its content follow.
    RecordHeaderBytes[48] {
        /// Offset 0: [`RECORD_MARKER`].
        marker: U32,
        /// Offset 4: [`RecordKind`].
        kind: u8,
        /// Offset 5: zero.
        reserved: [u8; 3],
        /// Offset 8: number that identifies the record in the run.
        number: U64,
        /// Offset 16: time of the record, ns since 1970-01-01 UTC.
        time: U64,
        /// Offset 24: source id.
        source: U32,
        /// Offset 28: bytes of the name.
        name_bytes: U32,
        /// Offset 32: bytes of the content.
        content_bytes: U32,
        /// Offset 36: zero.
        flags: U32,
        /// Offset 40: CRC-32C of the name and the content.
        body_checksum: U32,
        /// Offset 44: CRC-32C of the 44 bytes before.
        header_checksum: U32,
    }
}

impl RunRecord {
    /// Returns the size of the record in a file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (RECORD_HEADER_BYTES + self.name.len() + self.content.len()) as u64
    }

    /// Appends the record as it is in a file to `bytes`.
    ///
    /// # Errors
    /// [`FileFormatError::TooLarge`] if the name or the content exceeds its limit; `bytes` is then unchanged.
    pub fn emit(&self, bytes: &mut Vec<u8>) -> Result<(), FileFormatError> {
        check_size("name of a run record", self.name.len() as u64, MAX_RECORD_NAME_BYTES as u64)?;
        check_size("run record", self.content.len() as u64, MAX_RECORD_BYTES as u64)?;
        let body_checksum = crc32c_append(crc32c(self.name.as_bytes()), &self.content);
        let mut header = RecordHeaderBytes {
            marker: U32::new(RECORD_MARKER),
            kind: self.kind as u8,
            reserved: [0; 3],
            number: U64::new(self.number),
            time: U64::new(self.time.0),
            source: U32::new(self.source.0),
            // Both are below the limits.
            name_bytes: U32::new(self.name.len() as u32),
            content_bytes: U32::new(self.content.len() as u32),
            flags: U32::ZERO,
            body_checksum: U32::new(body_checksum),
            header_checksum: U32::ZERO,
        };
        header.header_checksum = U32::new(header_checksum(&header));
        for part in [header.as_bytes(), self.name.as_bytes(), &self.content] {
            bytes.extend_from_slice(part);
        }
        Ok(())
    }
}

/// The header of a run record, whose name and content follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Number of the record in the run.
    pub number: u64,
    /// The source.
    pub source: SourceId,
    /// Kind of the record.
    pub kind: RecordKind,
    /// Time of the record, since 1970.
    pub time: Timestamp,
    /// Bytes of the name.
    pub name_bytes: u32,
    /// Bytes of the content.
    pub content_bytes: u32,
    /// CRC-32C of the name and the content.
    pub body_checksum: u32,
}

impl RecordHeader {
    /// Reads the first [`RECORD_HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are not the header of a run record.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileFormatError> {
        const WHAT: &str = "record header";
        let (header, _) = view::<RecordHeaderBytes>(WHAT, bytes)?;
        if header.marker.get() != RECORD_MARKER {
            return Err(FileFormatError::WrongMarker { what: "run record", found: header.marker.get() });
        }
        check(WHAT, header.header_checksum.get(), header_checksum(header))?;
        let bad = |field, value: u32| FileFormatError::BadValue { what: WHAT, field, value: value.into() };
        let (name_bytes, content_bytes) = (header.name_bytes.get(), header.content_bytes.get());
        if name_bytes as usize > MAX_RECORD_NAME_BYTES {
            return Err(bad("name_bytes", name_bytes));
        }
        if content_bytes as usize > MAX_RECORD_BYTES {
            return Err(bad("content_bytes", content_bytes));
        }
        if header.flags.get() != 0 {
            return Err(bad("flags", header.flags.get()));
        }
        Ok(Self {
            number: header.number.get(),
            source: SourceId(header.source.get()),
            kind: RecordKind::from_code(header.kind).ok_or_else(|| bad("kind", header.kind.into()))?,
            time: Timestamp(header.time.get()),
            name_bytes,
            content_bytes,
            body_checksum: header.body_checksum.get(),
        })
    }

    /// Returns the number of bytes that follow the header: the name and the content.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.name_bytes as usize + self.content_bytes as usize
    }

    /// Returns the number of bytes of the whole record.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        (RECORD_HEADER_BYTES + self.body_bytes()) as u64
    }

    /// Reads the record from the bytes that follow its header.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are damaged.
    pub fn parse_record(&self, body: &Bytes) -> Result<RunRecord, FileFormatError> {
        if body.len() != self.body_bytes() {
            let (need, have) = (self.body_bytes() as u64, body.len() as u64);
            return Err(FileFormatError::Truncated { what: "run record", need, have });
        }
        check("run record", self.body_checksum, crc32c(body))?;
        let name = body.slice(..self.name_bytes as usize);
        let name = std::str::from_utf8(&name).map_err(|error| FileFormatError::BadValue {
            what: "run record",
            field: "name",
            value: error.valid_up_to() as u64,
        })?;
        Ok(RunRecord {
            number: self.number,
            source: self.source,
            kind: self.kind,
            time: self.time,
            name: name.to_owned(),
            content: body.slice(self.name_bytes as usize..),
        })
    }
}

fn header_checksum(header: &RecordHeaderBytes) -> u32 {
    crc32c(&header.as_bytes()[..offset_of!(RecordHeaderBytes, header_checksum)])
}
