//! The index and the footer that close an event file.

use super::{
    FOOTER_BYTES, FOOTER_MAGIC, FileFormatError, FooterBytes, INDEX_HEADER_BYTES, INDEX_MARKER,
    IndexEntryBytes, IndexHeaderBytes,
};
use crate::EventId;
use crate::checksum::{crc32c, crc32c_append};
use crate::file::{check, view};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

impl IndexEntryBytes {
    /// The entry of an event at `offset`.
    #[must_use]
    pub fn new(event: EventId, offset: u64) -> Self {
        Self { event: U64::new(event.0), offset: U64::new(offset) }
    }

    /// The entry of the run record `number` at `offset`.
    #[must_use]
    pub fn of_record(number: u64, offset: u64) -> Self {
        Self { event: U64::new(number), offset: U64::new(offset) }
    }
}

/// The index and the footer that close a file whose events end at `index_offset`. The entries themselves are written
/// between the two: those of the events, then those of the run records.
///
/// # Panics
/// If there are more than [`MAX_FILE_EVENTS`](super::MAX_FILE_EVENTS) events, or as many run records.
#[must_use]
pub fn emit_index(
    events: &[IndexEntryBytes],
    records: &[IndexEntryBytes],
    index_offset: u64,
) -> (IndexHeaderBytes, FooterBytes) {
    let count = |entries: &[IndexEntryBytes]| {
        U32::new(u32::try_from(entries.len()).expect("writers begin another file before"))
    };
    let header = IndexHeaderBytes {
        marker: U32::new(INDEX_MARKER),
        records: count(records),
        events: U64::new(events.len() as u64),
    };
    let entries = crc32c_append(crc32c(header.as_bytes()), events.as_bytes());
    let mut footer = FooterBytes {
        magic: FOOTER_MAGIC,
        index_offset: U64::new(index_offset),
        events: count(events),
        records: count(records),
        index_checksum: U32::new(crc32c_append(entries, records.as_bytes())),
        footer_checksum: U32::ZERO,
    };
    footer.footer_checksum = U32::new(footer_checksum(&footer));
    (header, footer)
}

/// Position of the index of a closed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Offset of the index header: the end of the events.
    pub index_offset: u64,
    /// Number of events in the file.
    pub events: u64,
    /// Number of run records in the file.
    pub records: u64,
    /// CRC-32C of the index.
    pub index_checksum: u32,
}

impl Footer {
    /// Reads the last [`FOOTER_BYTES`] of a file of `file_bytes` bytes.
    ///
    /// # Errors
    /// A [`FileFormatError`] where they are not the footer of a file of that size: the file is then read by scanning.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, FileFormatError> {
        let (footer, _) = view::<FooterBytes>("footer", bytes)?;
        if footer.magic != FOOTER_MAGIC {
            return Err(FileFormatError::WrongMagic { expected: "SHEAFIX\0", found: footer.magic });
        }
        check("footer", footer.footer_checksum.get(), footer_checksum(footer))?;
        let parsed = Self {
            index_offset: footer.index_offset.get(),
            events: footer.events.get().into(),
            records: footer.records.get().into(),
            index_checksum: footer.index_checksum.get(),
        };
        let end = parsed
            .index_bytes()
            .and_then(|index| index.checked_add(parsed.index_offset))
            .and_then(|end| end.checked_add(FOOTER_BYTES as u64));
        if end != Some(file_bytes) {
            return Err(FileFormatError::BadValue {
                what: "footer",
                field: "index_offset",
                value: parsed.index_offset,
            });
        }
        Ok(parsed)
    }

    /// Bytes of the index, header and entries; `None` for a count that no file can have.
    #[must_use]
    pub fn index_bytes(&self) -> Option<u64> {
        let entries = self.events.checked_add(self.records)?;
        entries.checked_mul(size_of::<IndexEntryBytes>() as u64)?.checked_add(INDEX_HEADER_BYTES as u64)
    }

    /// Reads the index: event ids and the offsets of their headers, in writing order; and numbers and offsets of run
    /// records.
    ///
    /// # Errors
    /// A [`FileFormatError`] where the index is damaged: events are then found by scanning.
    pub fn parse_index<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<(&'a [IndexEntryBytes], &'a [IndexEntryBytes]), FileFormatError> {
        check("index", self.index_checksum, crc32c(bytes))?;
        let (header, rest) = view::<IndexHeaderBytes>("index", bytes)?;
        if header.marker.get() != INDEX_MARKER {
            return Err(FileFormatError::WrongMarker { what: "index", found: header.marker.get() });
        }
        let entries = <[IndexEntryBytes]>::ref_from_bytes(rest).map_err(|_| FileFormatError::Truncated {
            what: "index",
            need: self.index_bytes().unwrap_or(u64::MAX),
            have: bytes.len() as u64,
        })?;
        let bad = |field, value| FileFormatError::BadValue { what: "index", field, value };
        let records = u64::from(header.records.get());
        if records != self.records {
            return Err(bad("records", records));
        }
        if header.events.get() != self.events || entries.len() as u64 != self.events + self.records {
            return Err(bad("events", header.events.get()));
        }
        Ok(entries.split_at(self.events as usize))
    }
}

fn footer_checksum(footer: &FooterBytes) -> u32 {
    crc32c(&footer.as_bytes()[..offset_of!(FooterBytes, footer_checksum)])
}

/// Returns whether `bytes`, at a position where an event might start, are an index that ends at most `remaining` bytes
/// later: the end of the events of a file that was being closed when its writer died, or that lost its footer.
#[must_use]
pub fn is_index_start(bytes: &[u8], remaining: u64) -> bool {
    let Ok((header, _)) = view::<IndexHeaderBytes>("index", bytes) else {
        return false;
    };
    let whole = header
        .events
        .get()
        .saturating_add(header.records.get().into())
        .saturating_mul(size_of::<IndexEntryBytes>() as u64)
        .saturating_add((INDEX_HEADER_BYTES + FOOTER_BYTES) as u64);
    header.marker.get() == INDEX_MARKER && whole >= remaining
}
