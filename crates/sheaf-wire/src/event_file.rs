//! The byte layout of the event file: built events on disk. `docs/reference/event-file.md` describes how to read and
//! write one.
//!
//! A file is a [`FileHeaderBytes`], the metadata (a JSON object, opaque here), the events, and, if the writer closed
//! it, an index and a [`FooterBytes`]. Run records ([`RecordHeaderBytes`]) may be before, between and behind the events. An event is an [`EventHeaderBytes`], its fragment entries ([`FragmentBytes`]),
//! its missing sources ([`MissingBytes`]), the filter's payload, and the payloads of the fragments in the order of the
//! entries.

mod index;
mod record;

use crate::checksum::crc32c;
pub use crate::file::{FileFormatError, MAX_METADATA_BYTES, MAX_PAYLOAD_BYTES};
use crate::file::{
    check, check_size, check_start, file_header_checksum, metadata_length, metadata_of, metadata_text, view,
};
use crate::message::layout::{FRAGMENT_HAS_CHECKSUM, FragmentBytes, MissingBytes, layout};
use crate::message::{PayloadSource, fragment_to_bytes, missing_to_bytes, parse_fragment, parse_missing};
pub use crate::run_record::{MAX_RECORD_BYTES, MAX_RECORD_NAME_BYTES, RecordKind, RunRecord};
use crate::verdict::{MAX_VERDICT_PAYLOAD_BYTES, Tags, Verdict};
use crate::{Event, EventId, NodeId, Payload, RunNumber, SessionId, TimeBase, Timestamp, TriggerType};
use bytes::Bytes;
pub use index::{Footer, emit_index, is_index_start};
pub use record::{RECORD_HEADER_BYTES, RECORD_MARKER, RecordHeader, RecordHeaderBytes};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of an event file.
pub const MAGIC: [u8; 8] = *b"SHEAFEV\0";
/// The latest version of the format. A reader refuses later ones.
pub const VERSION: u16 = 4;
/// The version of files that do not state the unit of their times.
pub const VERSION_WITHOUT_TIME_BASE: u16 = 3;
/// The earliest version that is read. It had no run records.
pub const FIRST_VERSION: u16 = 2;
/// Maximum number of events of one file.
pub const MAX_FILE_EVENTS: u64 = u32::MAX as u64;
/// The extension of the file's name.
pub const EXTENSION: &str = "sheaf";
/// The first four bytes of an event, `"EVNT"` in the file.
pub const EVENT_MARKER: u32 = u32::from_le_bytes(*b"EVNT");
/// The first four bytes of the index, `"INDX"` in the file.
pub const INDEX_MARKER: u32 = u32::from_le_bytes(*b"INDX");
/// The first eight bytes of the footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"SHEAFIX\0";
/// Bytes of the file header before the metadata.
pub const FILE_HEADER_BYTES: usize = size_of::<FileHeaderBytes>();
/// Bytes of an event before its entries.
pub const EVENT_HEADER_BYTES: usize = size_of::<EventHeaderBytes>();
/// Bytes of the index before its entries.
pub const INDEX_HEADER_BYTES: usize = size_of::<IndexHeaderBytes>();
/// Bytes of the footer, the last of the file.
pub const FOOTER_BYTES: usize = size_of::<FooterBytes>();
/// Bit 0 of [`EventHeaderBytes::flags`]: a required source is missing.
pub const FLAG_INCOMPLETE: u32 = 1;

layout! {
    /// The start of an event file, 64 bytes; the metadata follows.
    FileHeaderBytes[64] {
        /// Offset 0: `"SHEAFEV\0"`.
        magic: [u8; 8],
        /// Offset 8: [`VERSION`], or [`VERSION_WITHOUT_TIME_BASE`].
        version: U16,
        /// Offset 10: zero.
        flags: U16,
        /// Offset 12: run number.
        run: U32,
        /// Offset 16: the writing node, role in the top byte, index in the low two.
        node: U32,
        /// Offset 20: which file of the session this is, from 0.
        part: U32,
        /// Offset 24: the writing node's session.
        session: U64,
        /// Offset 32: when the session was opened, ns since 1970-01-01 UTC.
        created: U64,
        /// Offset 40: bytes of the metadata that follows this header.
        metadata_bytes: U32,
        /// Offset 44: unit and epoch of the times of events and fragments, and of the hits of time slices. Before version 4: zero.
        time_base: [u8; 16],
        /// Offset 60: CRC-32C of this header with this field zero, continued over the metadata.
        checksum: U32,
    }
}

layout! {
    /// The start of an event, 72 bytes; its entries follow.
    EventHeaderBytes[72] {
        /// Offset 0: [`EVENT_MARKER`].
        marker: U32,
        /// Offset 4: [`FLAG_INCOMPLETE`]; other bits are zero.
        flags: U32,
        /// Offset 8: event id.
        event: U64,
        /// Offset 16: trigger time, in units of the file.
        time: U64,
        /// Offset 24: attempt, from 1.
        attempt: U16,
        /// Offset 26: trigger type.
        trigger_type: U16,
        /// Offset 28: how many [`FragmentBytes`] follow.
        fragments: U32,
        /// Offset 32: how many [`MissingBytes`] follow them.
        missing: U32,
        /// Offset 36: bytes of the filter's payload behind those.
        verdict_bytes: U32,
        /// Offset 40: payload bytes of the fragments, which follow that.
        payload_bytes: U64,
        /// Offset 48: the filter's tags, and bit 63 where it gave no verdict.
        tags: U64,
        /// Offset 56: which of the session's accepted events this is, from 0.
        sequence: U64,
        /// Offset 64: CRC-32C of the entries and the filter's payload.
        body_checksum: U32,
        /// Offset 68: CRC-32C of the 68 bytes before.
        header_checksum: U32,
    }
}

layout! {
    /// The start of the index, 16 bytes; its entries follow.
    IndexHeaderBytes[16] {
        /// Offset 0: [`INDEX_MARKER`].
        marker: U32,
        /// Offset 4: how many [`IndexEntryBytes`] of run records follow those of the events.
        records: U32,
        /// Offset 8: how many [`IndexEntryBytes`] of events follow.
        events: U64,
    }
}

layout! {
    /// Position of one event or run record, 16 bytes.
    IndexEntryBytes[16] {
        /// Offset 0: event id, or number of the run record.
        event: U64,
        /// Offset 8: offset of the header in the file.
        offset: U64,
    }
}

layout! {
    /// The end of a closed event file, 32 bytes.
    FooterBytes[32] {
        /// Offset 0: `"SHEAFIX\0"`.
        magic: [u8; 8],
        /// Offset 8: offset of the index header in the file.
        index_offset: U64,
        /// Offset 16: how many events the file has.
        events: U32,
        /// Offset 20: how many run records the file has.
        records: U32,
        /// Offset 24: CRC-32C of the index header and its entries.
        index_checksum: U32,
        /// Offset 28: CRC-32C of the 28 bytes before.
        footer_checksum: U32,
    }
}

/// The metadata of an event file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The run.
    pub run: RunNumber,
    /// The node that wrote it.
    pub node: NodeId,
    /// That node's session.
    pub session: SessionId,
    /// Which file of the session this is, from 0.
    pub part: u32,
    /// When the session was opened, since 1970.
    pub created: Timestamp,
    /// Unit and epoch of times, if the file states them. Otherwise its times are nanoseconds, and those of its hits picoseconds.
    pub time_base: Option<TimeBase>,
}

impl FileHeader {
    /// The file header followed by the metadata, a JSON object as text.
    ///
    /// # Errors
    /// [`FileFormatError::TooLarge`] for metadata beyond [`MAX_METADATA_BYTES`].
    pub fn emit(&self, metadata: &str) -> Result<Vec<u8>, FileFormatError> {
        check_size("metadata", metadata.len() as u64, u64::from(MAX_METADATA_BYTES))?;
        let version = if self.time_base.is_some() { VERSION } else { VERSION_WITHOUT_TIME_BASE };
        let mut time_base = [0; 16];
        if let Some(stated) = self.time_base {
            time_base.copy_from_slice(stated.to_bytes().as_bytes());
        }
        let mut header = FileHeaderBytes {
            magic: MAGIC,
            version: U16::new(version),
            flags: U16::ZERO,
            run: U32::new(self.run.0),
            node: U32::new(self.node.to_code()),
            part: U32::new(self.part),
            session: U64::new(self.session.0),
            created: U64::new(self.created.0),
            metadata_bytes: U32::new(metadata.len() as u32),
            time_base,
            checksum: U32::ZERO,
        };
        header.checksum = U32::new(file_header_checksum(header.as_bytes(), metadata.as_bytes()));
        Ok([header.as_bytes(), metadata.as_bytes()].concat())
    }

    /// Checks the first [`FILE_HEADER_BYTES`] of a file as far as possible and returns the number of bytes of metadata
    /// that follow.
    ///
    /// # Errors
    /// A [`FileFormatError`] if the bytes are not the start of an event file of this version.
    pub fn metadata_bytes(bytes: &[u8]) -> Result<usize, FileFormatError> {
        let (header, _) = view::<FileHeaderBytes>("file header", bytes)?;
        check_start(("SHEAFEV\0", header.magic), header.version.get(), FIRST_VERSION..=VERSION)?;
        metadata_length(header.metadata_bytes.get())
    }

    /// Reads the file header and the metadata from the first bytes of a file.
    ///
    /// # Errors
    /// A [`FileFormatError`] with the defect.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &str), FileFormatError> {
        let length = Self::metadata_bytes(bytes)?;
        let (header, rest) = view::<FileHeaderBytes>("file header", bytes)?;
        let metadata = metadata_of(rest, length)?;
        let computed = file_header_checksum(header.as_bytes(), metadata);
        check("file header", header.checksum.get(), computed)?;
        let bad = |field, value| FileFormatError::BadValue { what: "file header", field, value };
        if header.flags.get() != 0 {
            return Err(bad("flags", u64::from(header.flags.get())));
        }
        let node = header.node.get();
        let parsed = Self {
            run: RunNumber(header.run.get()),
            node: NodeId::from_code(node).ok_or(bad("node", u64::from(node)))?,
            session: SessionId(header.session.get()),
            part: header.part.get(),
            created: Timestamp(header.created.get()),
            time_base: match header.version.get() {
                ..=VERSION_WITHOUT_TIME_BASE => None,
                _ => Some(TimeBase::from_bytes(view("time base", &header.time_base)?.0)?),
            },
        };
        Ok((parsed, metadata_text(metadata)?))
    }
}

/// The size of an event in a file: header, entries, the filter's payload and the fragments' payload.
#[must_use]
pub fn event_bytes<P: Payload>(event: &Event<P>, verdict: &Verdict) -> u64 {
    head_bytes(event, verdict) as u64 + event.payload_bytes()
}

fn head_bytes<P>(event: &Event<P>, verdict: &Verdict) -> usize {
    EVENT_HEADER_BYTES
        + event.fragments.len() * size_of::<FragmentBytes>()
        + event.missing.len() * size_of::<MissingBytes>()
        + verdict.payload.len()
}

/// An accepted event as it is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent<P> {
    /// The event.
    pub event: Event<P>,
    /// Verdict on the event.
    pub verdict: Verdict,
    /// Which of the session's accepted events it is, from 0. An event that goes to several streams has the same number
    /// in all of them.
    pub sequence: u64,
}

/// Appends an event's header, entries and verdict to `head` and returns the number of payload bytes that must follow. A
/// missing checksum of a fragment is computed: the only time that a payload is read here.
///
/// # Errors
/// [`FileFormatError::TooLarge`] for a fragment beyond [`MAX_PAYLOAD_BYTES`] or a filter's payload beyond
/// [`MAX_VERDICT_PAYLOAD_BYTES`]; `head` is then unchanged.
pub fn emit_event<P: Payload + AsRef<[u8]>>(
    event: &Event<P>,
    verdict: &Verdict,
    sequence: u64,
    head: &mut Vec<u8>,
) -> Result<u64, FileFormatError> {
    for fragment in &event.fragments {
        let bytes = Payload::len(&fragment.payload) as u64;
        check_size("fragment", bytes, u64::from(MAX_PAYLOAD_BYTES))?;
    }
    check_size("filter's payload", verdict.payload.len() as u64, MAX_VERDICT_PAYLOAD_BYTES as u64)?;
    let count = |what, entries: usize| {
        u32::try_from(entries).map_err(|_| FileFormatError::TooLarge {
            what,
            bytes: entries as u64,
            limit: u64::from(u32::MAX),
        })
    };
    let (fragments, missing) =
        (count("fragment list", event.fragments.len())?, count("missing list", event.missing.len())?);
    let payload_bytes = event.payload_bytes();
    let start = head.len();
    let body = start + EVENT_HEADER_BYTES;
    head.reserve(head_bytes(event, verdict));
    head.extend_from_slice(&[0; EVENT_HEADER_BYTES]);
    for fragment in &event.fragments {
        let mut entry = fragment_to_bytes(fragment);
        if fragment.checksum.is_none() {
            entry.checksum = U32::new(crc32c(fragment.payload.as_ref()));
            entry.flags = U32::new(entry.flags.get() | FRAGMENT_HAS_CHECKSUM);
        }
        head.extend_from_slice(entry.as_bytes());
    }
    for missing in &event.missing {
        head.extend_from_slice(missing_to_bytes(missing).as_bytes());
    }
    head.extend_from_slice(&verdict.payload);
    let mut header = EventHeaderBytes {
        marker: U32::new(EVENT_MARKER),
        flags: U32::new(if event.incomplete { FLAG_INCOMPLETE } else { 0 }),
        event: U64::new(event.id.0),
        time: U64::new(event.time.0),
        attempt: U16::new(event.attempt),
        trigger_type: U16::new(event.trigger_type.0),
        fragments: U32::new(fragments),
        missing: U32::new(missing),
        verdict_bytes: U32::new(verdict.payload.len() as u32),
        payload_bytes: U64::new(payload_bytes),
        tags: U64::new(verdict.tags.0),
        sequence: U64::new(sequence),
        body_checksum: U32::new(crc32c(&head[body..])),
        header_checksum: U32::ZERO,
    };
    header.header_checksum = U32::new(event_header_checksum(&header));
    head[start..body].copy_from_slice(header.as_bytes());
    Ok(payload_bytes)
}

/// The header of an event, whose entries and payload follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHeader {
    /// The event's id.
    pub id: EventId,
    /// Time of the trigger.
    pub time: Timestamp,
    /// Type of its trigger.
    pub trigger_type: TriggerType,
    /// Number of the attempt to build it, from 1.
    pub attempt: u16,
    /// Whether a required source is missing.
    pub incomplete: bool,
    /// Number of its fragments.
    pub fragments: u32,
    /// Number of its missing sources.
    pub missing: u32,
    /// Bytes of the filter's payload.
    pub verdict_bytes: u32,
    /// The payload bytes of all fragments.
    pub payload_bytes: u64,
    /// The filter's tags.
    pub tags: Tags,
    /// Which of the session's accepted events it is, from 0.
    pub sequence: u64,
    /// CRC-32C of the entries and the filter's payload.
    pub body_checksum: u32,
}

impl EventHeader {
    /// Reads the first [`EVENT_HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are not an event's header: the reader then searches for the next one.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileFormatError> {
        let (header, _) = view::<EventHeaderBytes>("event header", bytes)?;
        if header.marker.get() != EVENT_MARKER {
            return Err(FileFormatError::WrongMarker { what: "event", found: header.marker.get() });
        }
        let computed = event_header_checksum(header);
        check("event header", header.header_checksum.get(), computed)?;
        let bad = |field, value| FileFormatError::BadValue { what: "event header", field, value };
        let flags = header.flags.get();
        if flags & !FLAG_INCOMPLETE != 0 {
            return Err(bad("flags", u64::from(flags)));
        }
        let verdict_bytes = header.verdict_bytes.get();
        if verdict_bytes as usize > MAX_VERDICT_PAYLOAD_BYTES {
            return Err(bad("verdict_bytes", u64::from(verdict_bytes)));
        }
        Ok(Self {
            id: EventId(header.event.get()),
            time: Timestamp(header.time.get()),
            trigger_type: TriggerType(header.trigger_type.get()),
            attempt: header.attempt.get(),
            incomplete: flags & FLAG_INCOMPLETE != 0,
            fragments: header.fragments.get(),
            missing: header.missing.get(),
            verdict_bytes,
            payload_bytes: header.payload_bytes.get(),
            tags: Tags(header.tags.get()),
            sequence: header.sequence.get(),
            body_checksum: header.body_checksum.get(),
        })
    }

    /// Returns the number of bytes that follow the header and are covered by [`EventHeader::body_checksum`]: entries
    /// and the filter's payload.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        u64::from(self.fragments) * size_of::<FragmentBytes>() as u64
            + u64::from(self.missing) * size_of::<MissingBytes>() as u64
            + u64::from(self.verdict_bytes)
    }

    /// Bytes of the whole event: header, entries and all payload.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        (EVENT_HEADER_BYTES as u64 + self.body_bytes()).saturating_add(self.payload_bytes)
    }

    /// Reads the event from its body and its payload. Payload checksums are not verified here: each is in
    /// [`crate::Fragment::checksum`] of its fragment.
    ///
    /// # Errors
    /// A [`FileFormatError`] if the body is damaged or disagrees with the header or the payload.
    pub fn parse_event<P: Payload>(
        &self,
        body: &Bytes,
        payload: &mut impl PayloadSource<P>,
    ) -> Result<StoredEvent<P>, FileFormatError> {
        let truncated = || FileFormatError::Truncated {
            what: "entries",
            need: self.body_bytes(),
            have: body.len() as u64,
        };
        if body.len() as u64 != self.body_bytes() {
            return Err(truncated());
        }
        check("entries", self.body_checksum, crc32c(body))?;
        let (entries, verdict) = body.split_at(body.len() - self.verdict_bytes as usize);
        let (fragments, rest) =
            <[FragmentBytes]>::ref_from_prefix_with_elems(entries, self.fragments as usize)
                .map_err(|_| truncated())?;
        let missing = <[MissingBytes]>::ref_from_bytes(rest).map_err(|_| truncated())?;
        let described: u64 = fragments.iter().map(|entry| u64::from(entry.length.get())).sum();
        if described != self.payload_bytes || described != payload.total() {
            return Err(FileFormatError::BadValue {
                what: "event header",
                field: "payload_bytes",
                value: self.payload_bytes,
            });
        }
        let fragments = fragments
            .iter()
            .map(|entry| {
                if entry.flags.get() & FRAGMENT_HAS_CHECKSUM == 0 {
                    return Err(FileFormatError::BadValue {
                        what: "fragment entry",
                        field: "flags",
                        value: u64::from(entry.flags.get()),
                    });
                }
                parse_fragment(self.id, entry, payload)
                    .map_err(|error| FileFormatError::from_entry("fragment entry", error))
            })
            .collect::<Result<_, _>>()?;
        let missing = missing
            .iter()
            .map(|entry| {
                parse_missing(entry).map_err(|error| FileFormatError::from_entry("missing entry", error))
            })
            .collect::<Result<_, _>>()?;
        let event = Event {
            id: self.id,
            time: self.time,
            trigger_type: self.trigger_type,
            attempt: self.attempt,
            incomplete: self.incomplete,
            fragments,
            missing,
        };
        let verdict = Verdict { accepted: true, tags: self.tags, payload: body.slice_ref(verdict) };
        Ok(StoredEvent { event, verdict, sequence: self.sequence })
    }
}

fn event_header_checksum(header: &EventHeaderBytes) -> u32 {
    crc32c(&header.as_bytes()[..offset_of!(EventHeaderBytes, header_checksum)])
}

#[cfg(test)]
mod tests;
