//! The layout of a packet.

use super::field::{Field, FieldError, Mark, Origin};
use sheaf_wire::ExactNanos;
use std::ops::Range;

/// Bytes that a length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The payload.
    Payload,
    /// The header and the payload.
    HeaderAndPayload,
    /// The header, the payload and the trailer.
    All,
}

/// Length of a fragment, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The number.
    pub field: Field,
    /// Number of bytes of one unit of it, at least 1.
    pub unit_bytes: u64,
    /// Bytes that it counts.
    pub counted: Counted,
}

/// The layout of the packets of a front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Every packet has all of them.
    pub magic: Vec<Mark>,
    /// A packet with any of them is a keep-alive.
    pub keep_alive: Vec<Mark>,
    /// A packet with fewer bytes is a keep-alive.
    pub keep_alive_below: usize,
    /// A packet with any of them begins a new epoch of the counters. It holds no fragment.
    pub reset: Vec<Mark>,
    /// Bytes at the beginning of a packet, before its first fragment.
    pub packet_header_bytes: usize,
    /// Bytes at the beginning of a fragment, or of a part of one.
    pub header_bytes: usize,
    /// Whether the header belongs to the payload. Of the parts of a fragment, only the first keeps it.
    pub keep_header: bool,
    /// Bytes at the end of a fragment, or of a part of one, that do not belong to the payload.
    pub trailer_bytes: usize,
    /// Event number.
    pub event: Field,
    /// Source id. `None`: there is one source.
    pub source: Option<Field>,
    /// Time, in ticks of the front end's clock.
    pub time: Option<Field>,
    /// Length. `None`: to the end of the packet.
    pub length: Option<Length>,
    /// Number of the packet, which rises by one from packet to packet of a source. Its origin is the packet.
    pub packet_number: Option<Field>,
    /// Index of the part of a fragment, from 0 on.
    pub part: Option<Field>,
    /// A number that is not 0 in the last part of a fragment. `None`: fragments have one part.
    pub last: Option<Field>,
    /// Whether a packet may have more than one fragment.
    pub several: bool,
}

/// Reason why a description cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// A field has no number.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Only a length tells where the next fragment begins.
    #[error("a packet with several fragments needs a length: it tells where the next one begins")]
    SeveralWithoutLength,
    /// Without the last part, no fragment is whole.
    #[error(
        "parts have an index, but nothing tells which is the last; describe the field of the last part, too"
    )]
    PartWithoutLast,
    /// A packet has one number.
    #[error("the packet number must be at an offset in the packet")]
    NumberNotInPacket,
    /// Lengths without unit.
    #[error("the unit of the length is 0 bytes; 1 is for lengths in bytes")]
    NoUnit,
    /// Times cannot be converted.
    #[error(
        "a tick of {0} cannot be converted to the unit of times; it must be longer than zero, with fewer digits"
    )]
    Tick(ExactNanos),
    /// Marks without bytes are in every packet.
    #[error("a mark has no bytes")]
    EmptyMark,
    /// A stream has no boundaries of packets.
    #[error(
        "packets over TCP need a length: describe `length` where a packet has one fragment, otherwise `packet_length`"
    )]
    NoPacketLength,
    /// A mark is not in its packet.
    #[error("`marked_packet_bytes` is {bytes}, but a mark of `keep_alive` or `reset` ends after {end} bytes")]
    MarkBeyondPacket {
        /// Bytes of packets with a mark.
        bytes: usize,
        /// End of the mark.
        end: usize,
    },
}

/// Reason why a packet does not fit its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// A mark is missing.
    #[error("the bytes of `magic` are not there")]
    NoMagic,
    /// It ends within a header or trailer.
    #[error("{found} bytes are fewer than the {needed} of the described fields, header and trailer")]
    TooShort {
        /// Number of bytes found.
        found: usize,
        /// Number of bytes needed.
        needed: usize,
    },
    /// The length is larger than the packet.
    #[error("the length makes {needed} bytes of fragment, but there are {found}")]
    TooLong {
        /// Number of bytes found.
        found: usize,
        /// Number of bytes needed.
        needed: u64,
    },
    /// The length is smaller than what it counts.
    #[error("the length counts {counted} bytes, but header and trailer have {needed}")]
    LengthTooSmall {
        /// Number of bytes that it counts.
        counted: u64,
        /// Number of bytes needed.
        needed: usize,
    },
}

impl PacketError {
    /// Names of all kinds, in the order of [`PacketError::index`].
    pub const NAMES: [&'static str; 4] = ["no_magic", "too_short", "too_long", "length_too_small"];

    /// Returns the index of the kind of error, for counters.
    #[must_use]
    pub const fn index(&self) -> usize {
        match self {
            Self::NoMagic => 0,
            Self::TooShort { .. } => 1,
            Self::TooLong { .. } => 2,
            Self::LengthTooSmall { .. } => 3,
        }
    }

    /// Returns the name of the kind of error.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// It says only that the front end is alive.
    KeepAlive,
    /// The counters begin anew.
    Reset,
    /// It has fragments.
    Data,
}

/// A fragment in a packet, or a part of one. Numbers are as the packet shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Event number.
    pub event: u64,
    /// Source, if it is described.
    pub source: Option<u64>,
    /// Time in ticks, if it is described.
    pub time: Option<u64>,
    /// Index of the part, if it is described.
    pub part: Option<u64>,
    /// Whether it is the last part; always where fragments have one part.
    pub is_last: bool,
    /// All its bytes in the packet.
    pub span: Range<usize>,
    /// The bytes of its payload in the packet.
    pub payload: Range<usize>,
}

impl Description {
    /// Returns a description of packets with one fragment each: an event number, and the payload from its end on.
    #[must_use]
    pub fn of_event(event: Field) -> Self {
        Self {
            magic: Vec::new(),
            keep_alive: Vec::new(),
            keep_alive_below: 0,
            reset: Vec::new(),
            packet_header_bytes: 0,
            header_bytes: event.range().end,
            keep_header: false,
            trailer_bytes: 0,
            event,
            source: None,
            time: None,
            length: None,
            packet_number: None,
            part: None,
            last: None,
            several: false,
        }
    }

    /// Returns all fields with their names in the configuration.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Field)> {
        let all = [
            ("packet_number", self.packet_number),
            ("event", Some(self.event)),
            ("source", self.source),
            ("time", self.time),
            ("length", self.length.map(|length| length.field)),
            ("part", self.part),
            ("last", self.last),
        ];
        all.into_iter().filter_map(|(name, field)| Some((name, field?)))
    }

    /// Checks that the description can be used.
    ///
    /// # Errors
    /// A [`DescriptionError`].
    pub fn check(&self) -> Result<(), DescriptionError> {
        for (field, described) in self.fields() {
            described.check(field, field != "last")?;
        }
        if self.several && self.length.is_none() {
            return Err(DescriptionError::SeveralWithoutLength);
        }
        if self.part.is_some() && self.last.is_none() {
            return Err(DescriptionError::PartWithoutLast);
        }
        if self.packet_number.is_some_and(|number| number.origin != Origin::Packet) {
            return Err(DescriptionError::NumberNotInPacket);
        }
        if self.length.is_some_and(|length| length.unit_bytes == 0) {
            return Err(DescriptionError::NoUnit);
        }
        let mut marks = self.magic.iter().chain(&self.keep_alive).chain(&self.reset);
        if marks.any(|mark| mark.bytes.is_empty()) {
            return Err(DescriptionError::EmptyMark);
        }
        Ok(())
    }

    /// Returns the kind of a packet.
    ///
    /// # Errors
    /// If it has not all of `magic`.
    pub fn kind(&self, packet: &[u8]) -> Result<PacketKind, PacketError> {
        let has_any = |marks: &[Mark]| marks.iter().any(|mark| mark.is_in(packet));
        if packet.len() < self.keep_alive_below || has_any(&self.keep_alive) {
            return Ok(PacketKind::KeepAlive);
        }
        if has_any(&self.reset) {
            return Ok(PacketKind::Reset);
        }
        if !self.magic.iter().all(|mark| mark.is_in(packet)) {
            return Err(PacketError::NoMagic);
        }
        Ok(PacketKind::Data)
    }

    /// Returns the fragments, or parts of fragments, of a packet of data.
    #[must_use]
    pub fn pieces<'a>(&'a self, packet: &'a [u8]) -> Pieces<'a> {
        Pieces { description: self, packet, at: self.packet_header_bytes, is_done: false }
    }

    /// Reads the piece that begins at `at`.
    ///
    /// # Errors
    /// If it does not fit the packet.
    fn piece(&self, packet: &[u8], at: usize) -> Result<Piece, PacketError> {
        let around = self.header_bytes.saturating_add(self.trailer_bytes);
        let needed = at.saturating_add(around);
        let too_short = |needed| PacketError::TooShort { found: packet.len(), needed };
        let rest = packet.get(at..).filter(|rest| rest.len() >= around).ok_or_else(|| too_short(needed))?;
        let in_rest =
            |field: Field, bytes| read(field, packet, bytes).ok_or_else(|| too_short(end(field, at)));
        let bytes = match self.length {
            None => rest.len(),
            Some(length) => self.span_of(length, in_rest(length.field, rest)?, rest.len())?,
        };
        // A field is within its own fragment, not in the next.
        let own = &rest[..bytes];
        let number = |field| in_rest(field, own);
        let maybe = |field: Option<Field>| field.map(number).transpose();
        let part = maybe(self.part)?;
        let keeps_header = self.keep_header && part.unwrap_or_default() == 0;
        let begin = at + if keeps_header { 0 } else { self.header_bytes };
        Ok(Piece {
            event: number(self.event)?,
            source: maybe(self.source)?,
            time: maybe(self.time)?,
            part,
            is_last: maybe(self.last)?.is_none_or(|last| last != 0),
            span: at..at + bytes,
            payload: begin..at + bytes - self.trailer_bytes,
        })
    }

    /// Returns the bytes of a piece with this length, of the `found` that are left.
    pub(super) fn span_of(&self, length: Length, shown: u64, found: usize) -> Result<usize, PacketError> {
        let counted = shown.saturating_mul(length.unit_bytes);
        let (header, trailer) = (self.header_bytes, self.trailer_bytes);
        let (least, more) = match length.counted {
            Counted::Payload => (0, header.saturating_add(trailer)),
            Counted::HeaderAndPayload => (header, trailer),
            Counted::All => (header.saturating_add(trailer), 0),
        };
        // A piece without bytes would be followed by itself.
        let needed = counted.saturating_add(more as u64);
        if counted < least as u64 || needed == 0 {
            return Err(PacketError::LengthTooSmall { counted, needed: least.max(1) });
        }
        usize::try_from(needed)
            .ok()
            .filter(|bytes| *bytes <= found)
            .ok_or(PacketError::TooLong { found, needed })
    }
}

/// Reads a field; `own` are the bytes of the fragment.
fn read(field: Field, packet: &[u8], own: &[u8]) -> Option<u64> {
    field.read(match field.origin {
        Origin::Packet => packet,
        Origin::Fragment => own,
    })
}

/// Returns the end of a field in the packet, where the fragment begins at `at`.
fn end(field: Field, at: usize) -> usize {
    let end = field.range().end;
    if field.origin == Origin::Fragment { end.saturating_add(at) } else { end }
}

/// The pieces of a packet, in order. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    description: &'a Description,
    packet: &'a [u8],
    at: usize,
    is_done: bool,
}

impl Pieces<'_> {
    /// Returns the number of bytes after the last piece. They are padding, unless the description is wrong.
    #[must_use]
    pub fn rest(&self) -> usize {
        self.packet.len().saturating_sub(self.at)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let piece = self.description.piece(self.packet, self.at);
        match &piece {
            Ok(piece) => {
                self.at = piece.span.end;
                self.is_done = !self.description.several || self.at == self.packet.len();
            }
            Err(_) => self.is_done = true,
        }
        Some(piece)
    }
}
