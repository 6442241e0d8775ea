//! Bytes to datagrams and back.

use super::layout::{
    FLAG_FIRST, GapBytes, HEADS_UNIT, HeadBytes, Kind, PartBytes, RailReportBytes, ReportBytes, VERSION,
};
use super::{HEAD_BYTES, MAX_HEADS_BYTES, MAX_MESSAGE_BYTES, MAX_RAILS, PART_BYTES};
use crate::Nanos;
use crate::checksum::{crc32c, crc32c_append};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Reason why bytes are not a datagram. The receiver counts it and drops the datagram; its content is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// Fewer bytes than the layout needs.
    #[error("datagram ends after {have} bytes; {need} are needed")]
    Truncated {
        /// Bytes that the layout needs.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// Another version.
    #[error("datagram has version {0}, this node speaks {VERSION}; run the same release on all nodes")]
    WrongVersion(u8),
    /// A field holds a code or a count that has no meaning.
    #[error("datagram field `{field}` has the invalid value {value}")]
    BadValue {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The parts' lengths and the body disagree.
    #[error("datagram has a body of {have} bytes, its parts describe {declared}")]
    WrongBodyLength {
        /// Bytes that the parts describe.
        declared: usize,
        /// Bytes that there are.
        have: usize,
    },
}

/// Common key of the datagrams of one life of a link: a number that both ends compute from both lives, and that no
/// other link is likely to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(pub u64);

impl Key {
    /// The key of questions and answers, which any node may receive.
    pub const OPEN: Self = Self(0);

    fn token(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

/// The head of a datagram, but for lengths and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Kind of the datagram.
    pub kind: Kind,
    /// See [`HeadBytes::number`].
    pub number: u32,
    /// See [`HeadBytes::behind`].
    pub behind: u16,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The lowest 16 bits of the message's number.
    pub message: u16,
    /// Bytes of the whole message.
    pub total: u32,
    /// Offset of the part.
    pub offset: u32,
    /// Bytes of the part.
    pub bytes: u16,
    /// Of the first part: how many bytes of the message are its head.
    pub head_bytes: Option<u32>,
}

/// Arrivals at a node, and its windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Up to which position new messages may begin.
    pub granted: u64,
    /// Time that the youngest of the reported datagrams had waited, in whole microseconds.
    pub waited: Nanos,
    /// By rail.
    pub rails: Vec<RailReport>,
}

/// Arrivals by a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailReport {
    /// The rail.
    pub rail: u8,
    /// The lower half of the number after the last that is spoken of.
    pub end: u32,
    /// Missing numbers below `end`, ascending.
    pub gaps: Vec<Gap>,
}

/// Numbers that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The lower half of the first.
    pub first: u32,
    /// Number of missing datagrams.
    pub count: u32,
}

/// Begins a datagram in `buffer`, which must be empty. Heads are appended to it; then it is [sealed](seal).
pub fn begin(buffer: &mut Vec<u8>, key: Key, head: Head) {
    debug_assert!(buffer.is_empty(), "a datagram starts its buffer");
    let bytes = HeadBytes {
        kind: VERSION << 4 | head.kind as u8,
        heads: 0,
        token: U16::new(key.token()),
        number: U32::new(head.number),
        behind: U16::new(head.behind),
        checksum: U32::ZERO,
    };
    buffer.extend_from_slice(bytes.as_bytes());
}

/// Appends the head of a part to a datagram of data.
pub fn append_part(buffer: &mut Vec<u8>, part: &Part) {
    let bytes = PartBytes {
        message: U16::new(part.message),
        bytes: U16::new(part.bytes),
        total: U32::new(part.total | if part.head_bytes.is_some() { FLAG_FIRST } else { 0 }),
        place: U32::new(part.head_bytes.unwrap_or(part.offset)),
    };
    buffer.extend_from_slice(bytes.as_bytes());
}

impl Report {
    /// Appends it to a datagram.
    pub fn append(&self, buffer: &mut Vec<u8>) {
        let head = ReportBytes {
            granted: U64::new(self.granted),
            rails: U16::new(u16::try_from(self.rails.len()).unwrap_or(u16::MAX)),
            reserved: U16::ZERO,
            waited: U32::new(u32::try_from(self.waited.0 / 1_000).unwrap_or(u32::MAX)),
        };
        buffer.extend_from_slice(head.as_bytes());
        for rail in &self.rails {
            let head = RailReportBytes {
                rail: rail.rail,
                reserved: 0,
                gaps: U16::new(u16::try_from(rail.gaps.len()).unwrap_or(u16::MAX)),
                end: U32::new(rail.end),
            };
            buffer.extend_from_slice(head.as_bytes());
            for gap in &rail.gaps {
                let gap = GapBytes { first: U32::new(gap.first), count: U32::new(gap.count) };
                buffer.extend_from_slice(gap.as_bytes());
            }
        }
    }

    /// Returns the number of gaps that fit into a report about this number of rails, in a datagram of at most
    /// `datagram_bytes`.
    #[must_use]
    pub fn room_for_gaps(datagram_bytes: usize, rails: usize) -> usize {
        let fixed = size_of::<ReportBytes>() + rails * size_of::<RailReportBytes>();
        let heads = datagram_bytes.saturating_sub(HEAD_BYTES).min(MAX_HEADS_BYTES);
        heads.saturating_sub(fixed) / size_of::<GapBytes>()
    }
}

/// Writes the length of the heads and the checksum into a datagram whose heads are complete; the body may follow.
///
/// # Panics
/// If the heads have more than [`MAX_HEADS_BYTES`]: the sender must check, since the receiver could not distinguish
/// them from the body.
pub fn seal(buffer: &mut [u8], key: Key) {
    let bytes = buffer.len() - HEAD_BYTES;
    debug_assert!(bytes.is_multiple_of(HEADS_UNIT), "every head is a multiple of the unit");
    let heads = u8::try_from(bytes / HEADS_UNIT).expect("a datagram has no more heads than can be said");
    put(buffer, offset_of!(HeadBytes, heads), heads);
    put(buffer, offset_of!(HeadBytes, checksum), U32::ZERO);
    let checksum = crc32c_append(crc32c(&key.0.to_le_bytes()), buffer);
    put(buffer, offset_of!(HeadBytes, checksum), U32::new(checksum));
}

fn put(buffer: &mut [u8], at: usize, value: impl IntoBytes + Immutable) {
    buffer[at..at + value.as_bytes().len()].copy_from_slice(value.as_bytes());
}

/// A datagram whose head was decoded. The rest is trusted only after [`View::is_sealed_with`].
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    head: &'a HeadBytes,
    kind: Kind,
    heads: &'a [u8],
    body: &'a [u8],
}

impl<'a> View<'a> {
    /// Decodes the head of a datagram.
    ///
    /// # Errors
    /// If it is shorter than its fields require, of another version, or of an unknown kind.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DatagramError> {
        let (head, rest) = HeadBytes::ref_from_prefix(bytes)
            .map_err(|_| DatagramError::Truncated { need: HEAD_BYTES, have: bytes.len() })?;
        if head.kind >> 4 != VERSION {
            return Err(DatagramError::WrongVersion(head.kind >> 4));
        }
        let kind = Kind::from_code(head.kind & 15)
            .ok_or(DatagramError::BadValue { field: "kind", value: (head.kind & 15).into() })?;
        let heads = usize::from(head.heads) * HEADS_UNIT;
        let (heads, body) = rest
            .split_at_checked(heads)
            .ok_or(DatagramError::Truncated { need: HEAD_BYTES + heads, have: bytes.len() })?;
        Ok(Self { head, kind, heads, body })
    }

    /// Its head.
    #[must_use]
    pub fn head(&self) -> Head {
        let HeadBytes { number, behind, .. } = *self.head;
        Head { kind: self.kind, number: number.get(), behind: behind.get() }
    }

    /// Returns whether it claims to belong to the link with this key.
    #[must_use]
    pub fn belongs_to(&self, key: Key) -> bool {
        self.head.token.get() == key.token()
    }

    /// Returns whether it belongs to that link, and its heads are unchanged.
    #[must_use]
    pub fn is_sealed_with(&self, key: Key) -> bool {
        let head = HeadBytes { checksum: U32::ZERO, ..*self.head };
        let checksum = crc32c_append(crc32c(&key.0.to_le_bytes()), head.as_bytes());
        self.belongs_to(key) && crc32c_append(checksum, self.heads) == self.head.checksum.get()
    }

    /// Bytes of the head.
    pub(super) fn start(&self) -> &'a [u8] {
        self.head.as_bytes()
    }

    /// Returns the bytes between the head and the body.
    pub(super) fn heads(&self) -> &'a [u8] {
        self.heads
    }

    /// Returns the bytes after the heads.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The parts of a datagram of data, whose bytes follow each other in the [body](Self::body).
    ///
    /// # Errors
    /// If a part does not lie within its message, or they are not exactly the body.
    pub fn parts(&self) -> Result<impl Iterator<Item = Part> + 'a, DatagramError> {
        let parts = slice::<PartBytes>(self.heads)?;
        let mut declared = 0;
        for part in parts {
            declared += usize::from(check(part)?.bytes);
        }
        if declared != self.body.len() {
            return Err(DatagramError::WrongBodyLength { declared, have: self.body.len() });
        }
        Ok(parts.iter().filter_map(|part| check(part).ok()))
    }

    /// Parses a report.
    ///
    /// # Errors
    /// If its heads are not exactly the rails and gaps that they speak of.
    pub fn report(&self) -> Result<Report, DatagramError> {
        let (head, mut rest) = prefix::<ReportBytes>(self.heads)?;
        let count = usize::from(head.rails.get());
        if count > MAX_RAILS {
            return Err(DatagramError::BadValue { field: "rails", value: count as u64 });
        }
        let mut rails = Vec::with_capacity(count);
        for _ in 0..count {
            let (rail, more) = prefix::<RailReportBytes>(rest)?;
            let bytes = usize::from(rail.gaps.get()) * size_of::<GapBytes>();
            let (gaps, more) = more
                .split_at_checked(bytes)
                .ok_or(DatagramError::Truncated { need: bytes, have: more.len() })?;
            rest = more;
            let gaps = slice::<GapBytes>(gaps)?.iter();
            let gaps = gaps.map(|gap| Gap { first: gap.first.get(), count: gap.count.get() }).collect();
            rails.push(RailReport { rail: rail.rail, end: rail.end.get(), gaps });
        }
        if !rest.is_empty() {
            return Err(DatagramError::BadValue { field: "heads", value: self.heads.len() as u64 });
        }
        let waited = Nanos::from_micros(head.waited.get().into());
        Ok(Report { granted: head.granted.get(), waited, rails })
    }
}

fn check(bytes: &PartBytes) -> Result<Part, DatagramError> {
    let (total, place) = (bytes.total.get() & !FLAG_FIRST, bytes.place.get());
    if total > MAX_MESSAGE_BYTES {
        return Err(DatagramError::BadValue { field: "total", value: total.into() });
    }
    let is_first = bytes.total.get() & FLAG_FIRST != 0;
    // The first part ends at the end of the head, the others begin at an offset: neither is beyond the message.
    if place > total {
        return Err(DatagramError::BadValue { field: "place", value: place.into() });
    }
    let offset = if is_first { 0 } else { place };
    if u32::from(bytes.bytes.get()) > total - offset {
        return Err(DatagramError::BadValue { field: "bytes", value: bytes.bytes.get().into() });
    }
    Ok(Part {
        message: bytes.message.get(),
        total,
        offset,
        bytes: bytes.bytes.get(),
        head_bytes: is_first.then_some(place),
    })
}

pub(super) fn prefix<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
) -> Result<(&T, &[u8]), DatagramError> {
    T::ref_from_prefix(bytes)
        .map_err(|_| DatagramError::Truncated { need: size_of::<T>(), have: bytes.len() })
}

fn slice<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8]) -> Result<&[T], DatagramError> {
    <[T]>::ref_from_bytes(bytes).map_err(|_| DatagramError::Truncated {
        need: bytes.len().next_multiple_of(size_of::<T>()),
        have: bytes.len(),
    })
}

const _: () = assert!(PART_BYTES.is_multiple_of(HEADS_UNIT) && MAX_MESSAGE_BYTES < FLAG_FIRST);
