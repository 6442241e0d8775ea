//! The byte layout of the fragment stream: one file per source, for replay and import.
//! `docs/reference/fragment-stream.md` describes how to read and write one.
//!
//! A file is a [`FileHeaderBytes`], the metadata (a JSON object, opaque here), then per fragment a [`RecordBytes`] and
//! the payload, and at the end a [`RecordBytes`] as trailer.

use crate::checksum::crc32c;
pub use crate::file::{FileFormatError, MAX_METADATA_BYTES, MAX_PAYLOAD_BYTES};
use crate::file::{
    check, check_size, check_start, file_header_checksum, metadata_length, metadata_of, metadata_text, view,
};
use crate::message::layout::layout;
use crate::time_base::TimeBaseBytes;
use crate::{EventId, RunNumber, SourceId, TimeBase, Timestamp};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of a fragment stream.
pub const MAGIC: [u8; 8] = *b"SHEAFFS\0";
/// The latest version of the format. A reader refuses later ones.
pub const VERSION: u16 = 2;
/// The version of streams that do not state the unit of their times. Its header is a [`FileHeaderBytes`], that of later ones a [`FileHeader2Bytes`].
pub const VERSION_WITHOUT_TIME_BASE: u16 = 1;
/// The extension of the file's name.
pub const EXTENSION: &str = "sfrag";
/// The first four bytes of a record, `"FRAG"` in the file.
pub const RECORD_MARKER: u32 = u32::from_le_bytes(*b"FRAG");
/// The first four bytes of the trailer, `"FEND"` in the file.
pub const TRAILER_MARKER: u32 = u32::from_le_bytes(*b"FEND");
/// Bytes of the file header of version 1 before the metadata. That of version 2 is longer.
pub const FILE_HEADER_BYTES: usize = size_of::<FileHeaderBytes>();
/// Bytes of a record before its payload, and of the trailer.
pub const RECORD_HEADER_BYTES: usize = size_of::<RecordBytes>();
/// Bit 0 of [`FileHeaderBytes::flags`]: the records have event ids.
pub const FLAG_EVENTS: u16 = 1;
/// Bit 1 of [`FileHeaderBytes::flags`]: the records have times.
pub const FLAG_TIMES: u16 = 2;

layout! {
    /// The start of a fragment stream, 40 bytes; the metadata follows.
    FileHeaderBytes[40] {
        /// Offset 0: `"SHEAFFS\0"`.
        magic: [u8; 8],
        /// Offset 8: [`VERSION_WITHOUT_TIME_BASE`].
        version: U16,
        /// Offset 10: [`FLAG_EVENTS`] and [`FLAG_TIMES`]; at least one is set, other bits are zero.
        flags: U16,
        /// Offset 12: source id.
        source: U32,
        /// Offset 16: run number.
        run: U32,
        /// Offset 20: bytes of the metadata that follows this header.
        metadata_bytes: U32,
        /// Offset 24: zero.
        reserved: [u8; 12],
        /// Offset 36: CRC-32C of this header with this field zero, continued over the metadata.
        checksum: U32,
    }
}

layout! {
    /// The start of a fragment stream of version 2, 48 bytes; the metadata follows. The first 24 bytes are those of version 1.
    FileHeader2Bytes[48] {
        /// Offset 0: as in version 1, with [`VERSION`].
        begin: [u8; 24],
        /// Offset 24: unit and epoch of the times of records, and of the hits of time slices.
        time_base: TimeBaseBytes,
        /// Offset 40: zero.
        reserved: [u8; 4],
        /// Offset 44: CRC-32C of this header with this field zero, continued over the metadata.
        checksum: U32,
    }
}

layout! {
    /// A record's header, or the trailer, 32 bytes.
    RecordBytes[32] {
        /// Offset 0: [`RECORD_MARKER`] or [`TRAILER_MARKER`].
        marker: U32,
        /// Offset 4: payload bytes that follow; trailer: zero.
        length: U32,
        /// Offset 8: event id, zero where the stream has none; trailer: number of records.
        event: U64,
        /// Offset 16: time in units of the stream, zero where the stream has none; trailer: payload bytes of all records.
        time: U64,
        /// Offset 24: CRC-32C of the payload; trailer: zero.
        payload_checksum: U32,
        /// Offset 28: CRC-32C of the 28 bytes before.
        header_checksum: U32,
    }
}

/// The metadata of a fragment stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHeader {
    /// Whose fragments these are.
    pub source: SourceId,
    /// The run that they were taken in.
    pub run: RunNumber,
    /// Whether the fragments have event ids.
    pub has_events: bool,
    /// Whether the fragments have times.
    pub has_times: bool,
    /// Unit and epoch of times, if the stream states them. Otherwise its times are nanoseconds, and those of its hits picoseconds.
    pub time_base: Option<TimeBase>,
}

impl StreamHeader {
    /// The file header followed by the metadata, a JSON object as text.
    ///
    /// # Errors
    /// [`FileFormatError::TooLarge`] for metadata beyond [`MAX_METADATA_BYTES`], [`FileFormatError::BadValue`] for a
    /// stream with neither event ids nor times.
    pub fn emit(&self, metadata: &str) -> Result<Vec<u8>, FileFormatError> {
        check_size("metadata", metadata.len() as u64, u64::from(MAX_METADATA_BYTES))?;
        let flags = self.flags();
        check_flags(flags)?;
        let version = if self.time_base.is_some() { VERSION } else { VERSION_WITHOUT_TIME_BASE };
        let mut header = FileHeaderBytes {
            magic: MAGIC,
            version: U16::new(version),
            flags: U16::new(flags),
            source: U32::new(self.source.0),
            run: U32::new(self.run.0),
            metadata_bytes: U32::new(metadata.len() as u32),
            reserved: [0; 12],
            checksum: U32::ZERO,
        };
        if let Some(time_base) = self.time_base {
            let mut begin = [0; 24];
            begin.copy_from_slice(&header.as_bytes()[..24]);
            let time_base = time_base.to_bytes();
            let mut header = FileHeader2Bytes { begin, time_base, reserved: [0; 4], checksum: U32::ZERO };
            header.checksum = U32::new(file_header_checksum(header.as_bytes(), metadata.as_bytes()));
            return Ok([header.as_bytes(), metadata.as_bytes()].concat());
        }
        header.checksum = U32::new(file_header_checksum(header.as_bytes(), metadata.as_bytes()));
        Ok([header.as_bytes(), metadata.as_bytes()].concat())
    }

    /// Checks the first [`FILE_HEADER_BYTES`] of a file as far as possible and returns the number of bytes of the header and the
    /// metadata.
    ///
    /// # Errors
    /// A [`FileFormatError`] if the bytes are not the start of a fragment stream of this version.
    pub fn header_bytes(bytes: &[u8]) -> Result<usize, FileFormatError> {
        let (version, metadata) = Self::version_and_metadata_bytes(bytes)?;
        Ok(header_of(version) + metadata)
    }

    fn version_and_metadata_bytes(bytes: &[u8]) -> Result<(u16, usize), FileFormatError> {
        let (header, _) = view::<FileHeaderBytes>("file header", bytes)?;
        let version = header.version.get();
        check_start(("SHEAFFS\0", header.magic), version, VERSION_WITHOUT_TIME_BASE..=VERSION)?;
        Ok((version, metadata_length(header.metadata_bytes.get())?))
    }

    /// Reads the file header and the metadata from the first bytes of a file.
    ///
    /// # Errors
    /// A [`FileFormatError`] with the defect.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &str), FileFormatError> {
        let (version, length) = Self::version_and_metadata_bytes(bytes)?;
        let (header, _) = view::<FileHeaderBytes>("file header", bytes)?;
        let (time_base, declared) = match version {
            VERSION_WITHOUT_TIME_BASE => (None, header.checksum.get()),
            _ => {
                let (header, _) = view::<FileHeader2Bytes>("file header", bytes)?;
                (Some(&header.time_base), header.checksum.get())
            }
        };
        let (head, rest) = bytes.split_at(header_of(version));
        let metadata = metadata_of(rest, length)?;
        check("file header", declared, file_header_checksum(head, metadata))?;
        let flags = header.flags.get();
        check_flags(flags)?;
        let parsed = Self {
            source: SourceId(header.source.get()),
            run: RunNumber(header.run.get()),
            has_events: flags & FLAG_EVENTS != 0,
            has_times: flags & FLAG_TIMES != 0,
            time_base: time_base.map(TimeBase::from_bytes).transpose()?,
        };
        Ok((parsed, metadata_text(metadata)?))
    }

    fn flags(&self) -> u16 {
        (if self.has_events { FLAG_EVENTS } else { 0 }) | (if self.has_times { FLAG_TIMES } else { 0 })
    }
}

/// Returns the bytes of a header before its metadata.
fn header_of(version: u16) -> usize {
    if version == VERSION_WITHOUT_TIME_BASE { FILE_HEADER_BYTES } else { size_of::<FileHeader2Bytes>() }
}

fn check_flags(flags: u16) -> Result<(), FileFormatError> {
    if flags == 0 || flags & !(FLAG_EVENTS | FLAG_TIMES) != 0 {
        return Err(FileFormatError::BadValue {
            what: "file header",
            field: "flags",
            value: u64::from(flags),
        });
    }
    Ok(())
}

/// Record between the payloads of a fragment stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordHeader {
    /// A fragment, whose payload follows.
    Fragment {
        /// Event id, zero where the stream has none.
        event: EventId,
        /// Time, zero where the stream has none.
        time: Timestamp,
        /// Payload bytes, at most [`MAX_PAYLOAD_BYTES`].
        length: u32,
        /// CRC-32C of the payload.
        payload_checksum: u32,
    },
    /// The end of a stream whose writer finished.
    Trailer {
        /// Number of records.
        records: u64,
        /// The payload bytes of all of them.
        payload_bytes: u64,
    },
}

impl RecordHeader {
    /// The record's 32 bytes.
    #[must_use]
    pub fn emit(&self) -> RecordBytes {
        let mut bytes = match *self {
            Self::Fragment { event, time, length, payload_checksum } => RecordBytes {
                marker: U32::new(RECORD_MARKER),
                length: U32::new(length),
                event: U64::new(event.0),
                time: U64::new(time.0),
                payload_checksum: U32::new(payload_checksum),
                header_checksum: U32::ZERO,
            },
            Self::Trailer { records, payload_bytes } => RecordBytes {
                marker: U32::new(TRAILER_MARKER),
                length: U32::ZERO,
                event: U64::new(records),
                time: U64::new(payload_bytes),
                payload_checksum: U32::ZERO,
                header_checksum: U32::ZERO,
            },
        };
        bytes.header_checksum = U32::new(record_checksum(&bytes));
        bytes
    }

    /// Reads the first [`RECORD_HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are not a record's header: the reader then searches for the next one.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileFormatError> {
        let (record, _) = view::<RecordBytes>("record header", bytes)?;
        let marker = record.marker.get();
        if marker != RECORD_MARKER && marker != TRAILER_MARKER {
            return Err(FileFormatError::WrongMarker { what: "record", found: marker });
        }
        check("record header", record.header_checksum.get(), record_checksum(record))?;
        if marker == TRAILER_MARKER {
            return Ok(Self::Trailer { records: record.event.get(), payload_bytes: record.time.get() });
        }
        let length = record.length.get();
        check_size("payload", u64::from(length), u64::from(MAX_PAYLOAD_BYTES))?;
        Ok(Self::Fragment {
            event: EventId(record.event.get()),
            time: Timestamp(record.time.get()),
            length,
            payload_checksum: record.payload_checksum.get(),
        })
    }
}

fn record_checksum(record: &RecordBytes) -> u32 {
    crc32c(&record.as_bytes()[..offset_of!(RecordBytes, header_checksum)])
}

#[cfg(test)]
mod tests;
