//! Packets of fixed records, described by their fields.
//!
//! A packet is a header and records of one size. A record is a hit or a reading of the card's clock without a hit: a marker, a pulse of a
//! reference, or a reset of the counter. Records of other kinds are counted and skipped.

#[doc(hidden)]
pub mod fuzz;

use super::decode::{CounterBits, DecodeFailure, Decoder, Packet, PacketError, PacketHead, Reading};
use crate::described::field::{ByteOrder, Field, FieldError, Mark, Width};
use sheaf_wire::SourceId;
use sheaf_wire::hit::HIT_BYTES;
use std::sync::Arc;

/// Largest number of records that a packet may have: those of a UDP datagram.
const MOST_BYTES: usize = 65_535;

/// The layout of the packets of a front end. Offsets of `card`, `packet_number` and `base` count from the beginning of the packet,
/// all others from the beginning of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitDescription {
    /// Every packet has all of them.
    pub magic: Vec<Mark>,
    /// Number of the card.
    pub card: CardNumber,
    /// Number of the packet, which rises by one from packet to packet of a card. `None`: lost packets are not noticed.
    pub packet_number: Option<Field>,
    /// Bytes of a packet before its first record.
    pub header_bytes: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Kinds of records. `None`: all are hits.
    pub kinds: Option<RecordKinds>,
    /// Time.
    pub time: TimeFields,
    /// Channel; 0 if `None`.
    pub channel: Option<Field>,
    /// Measured value; 0 if `None`.
    pub value: Option<Field>,
    /// Second measured value; 0 if `None`.
    pub extra: Option<Field>,
}

/// Source of the number of a packet's card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardNumber {
    /// A number in the packet.
    In(Field),
    /// All packets are of this card.
    Always(SourceId),
}

impl CardNumber {
    /// Returns the number in the packet, if the card is one.
    #[must_use]
    pub const fn field(self) -> Option<Field> {
        match self {
            Self::In(field) => Some(field),
            Self::Always(_) => None,
        }
    }
}

/// Kinds of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKinds {
    /// Number of the kind.
    pub field: Field,
    /// Kinds of hits. Empty: all that are in no other list.
    pub hits: Vec<u64>,
    /// Kinds of time markers.
    pub markers: Vec<u64>,
    /// Kinds of pulses of the reference.
    pub pulses: Vec<u64>,
    /// Kinds of resets of the counter. One that is also a kind of pulses is a pulse that resets the counter.
    pub resets: Vec<u64>,
}

/// Reading of the clock, in ticks: `base + (coarse << bits of fine | fine)`, of which as many bits count as the counter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeFields {
    /// Time in the packet to which the times of its records are added.
    pub base: Option<Field>,
    /// Time in the record.
    pub coarse: Field,
    /// Subdivision of `coarse`, of which a tick is one part.
    pub fine: Option<Field>,
}

/// Reason why a layout cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HitDescriptionError {
    /// A field ends behind its record or header.
    #[error("the field {field} ends after {end} bytes, {place} has {bytes}")]
    Beyond {
        /// Name of the field.
        field: &'static str,
        /// End of the field.
        end: usize,
        /// Header or record that it is in.
        place: &'static str,
        /// Size of the header or record.
        bytes: usize,
    },
    /// A field has no number.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field holds larger numbers than a hit.
    #[error("the field {field} has {bits} bits, a hit has {most} for it: mask the others")]
    TooWide {
        /// Name of the field.
        field: &'static str,
        /// Its bits.
        bits: u32,
        /// Bits that a hit has for it.
        most: u32,
    },
    /// A record without bytes, or larger than a packet.
    #[error("a record has {0} bytes; 1 to 65,535 are possible")]
    RecordBytes(usize),
    /// A mark is not in the header.
    #[error("a mark of `magic` ends after {end} bytes, the header has {bytes}")]
    MarkBeyond {
        /// End of the mark.
        end: usize,
        /// Bytes of the header.
        bytes: usize,
    },
}

impl HitDescription {
    /// Returns the layout of hits of Sheaf: no header, and 16 bytes a hit.
    #[must_use]
    pub fn of_sheaf() -> Self {
        const fn field(offset: usize, bits: u32) -> Field {
            let Some(width) = Width::of_bits(bits) else { unreachable!() };
            Field::new(offset, width, ByteOrder::Little)
        }
        Self {
            magic: Vec::new(),
            card: CardNumber::Always(SourceId(0)),
            packet_number: None,
            header_bytes: 0,
            record_bytes: HIT_BYTES,
            kinds: None,
            time: TimeFields { base: None, coarse: field(0, 64), fine: None },
            channel: Some(field(8, 32)),
            value: Some(field(12, 16)),
            extra: Some(field(14, 16)),
        }
    }

    /// Checks that every field is in its header or record, and not larger than its place in a hit.
    ///
    /// # Errors
    /// The first field that cannot be read.
    pub fn check(&self) -> Result<(), HitDescriptionError> {
        if self.record_bytes == 0 || self.record_bytes > MOST_BYTES {
            return Err(HitDescriptionError::RecordBytes(self.record_bytes));
        }
        let (header, record) = (("the header", self.header_bytes), ("a record", self.record_bytes));
        for NamedField { name, field, is_in_header, most } in self.fields() {
            let (place, bytes) = if is_in_header { header } else { record };
            let end = field.range().end;
            if end > bytes {
                return Err(HitDescriptionError::Beyond { field: name, end, place, bytes });
            }
            field.check(name, matches!(name, "packet_number" | "base" | "time" | "fine"))?;
            if field.bits() > most {
                return Err(HitDescriptionError::TooWide { field: name, bits: field.bits(), most });
            }
        }
        let ends = self.magic.iter().map(|mark| mark.offset.saturating_add(mark.bytes.len()));
        match ends.max().filter(|end| *end > self.header_bytes) {
            Some(end) => Err(HitDescriptionError::MarkBeyond { end, bytes: self.header_bytes }),
            None => Ok(()),
        }
    }

    /// Returns the width of the counter.
    #[must_use]
    pub fn counter_bits(&self) -> u32 {
        self.time.bits()
    }

    /// Returns all fields, those of the header first.
    pub(crate) fn fields(&self) -> impl Iterator<Item = NamedField> {
        let kind = self.kinds.as_ref().map(|kinds| kinds.field);
        let fields = [
            ("card", self.card.field(), true, u32::BITS),
            ("packet_number", self.packet_number, true, u64::BITS),
            ("base", self.time.base, true, u64::BITS),
            ("kind", kind, false, u64::BITS),
            ("time", Some(self.time.coarse), false, u64::BITS - self.time.fine_bits()),
            ("fine", self.time.fine, false, u64::BITS - 1),
            ("channel", self.channel, false, u32::BITS),
            ("value", self.value, false, u16::BITS),
            ("extra", self.extra, false, u16::BITS),
        ];
        fields.into_iter().filter_map(|(name, field, is_in_header, most)| {
            field.map(|field| NamedField { name, field, is_in_header, most })
        })
    }
}

/// A field of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedField {
    /// Its key in a configuration.
    pub(crate) name: &'static str,
    pub(crate) field: Field,
    pub(crate) is_in_header: bool,
    /// Largest number of bits.
    most: u32,
}

impl TimeFields {
    pub(crate) fn fine_bits(&self) -> u32 {
        self.fine.map_or(0, |fine| fine.bits())
    }

    /// Returns the width of the counter.
    pub(crate) fn bits(&self) -> u32 {
        self.base.map_or(self.coarse.bits() + self.fine_bits(), |base| base.bits())
    }

    fn base(&self, packet: &[u8]) -> u64 {
        self.base.and_then(|base| base.read(packet)).unwrap_or(0)
    }

    #[inline]
    fn read(&self, base: u64, record: &[u8]) -> Option<u64> {
        let coarse = self.coarse.read(record)?;
        let time = match self.fine {
            Some(fine) => coarse << fine.bits() | fine.read(record)?,
            None => coarse,
        };
        Some(base.wrapping_add(time) & (u64::MAX >> (u64::BITS - self.bits())))
    }
}

/// Reads the packets of a described front end. Each packet is complete in itself.
#[derive(Clone, Debug)]
pub struct HitRecords {
    layout: Arc<HitDescription>,
}

impl HitRecords {
    /// Returns a decoder of hits of Sheaf, as time slices hold them: 16 bytes each, with times in picoseconds.
    #[must_use]
    pub fn of_sheaf() -> Self {
        Self { layout: Arc::new(HitDescription::of_sheaf()) }
    }

    /// Returns the layout of the packets.
    #[must_use]
    pub fn layout(&self) -> &Arc<HitDescription> {
        &self.layout
    }

    /// Returns a decoder of packets of this layout.
    ///
    /// # Errors
    /// A [`HitDescriptionError`].
    pub fn new(layout: Arc<HitDescription>) -> Result<Self, HitDescriptionError> {
        layout.check()?;
        Ok(Self { layout })
    }

    #[inline]
    fn record(&self, base: u64, record: &[u8]) -> Option<Reading> {
        let layout = &*self.layout;
        let kind = match &layout.kinds {
            Some(kinds) => kinds.of(record)?,
            None => Kind::Hit,
        };
        let number = |field: Option<Field>| field.and_then(|field| field.read(record)).unwrap_or(0);
        Some(match kind {
            Kind::Other => Reading::Other,
            Kind::Marker => Reading::Marker { time: layout.time.read(base, record)? },
            Kind::Pulse { resets } => Reading::Pulse { time: layout.time.read(base, record)?, resets },
            Kind::Reset => Reading::Reset { time: layout.time.read(base, record)? },
            // The layout was checked: the numbers fit.
            Kind::Hit => Reading::Hit {
                time: layout.time.read(base, record)?,
                channel: number(layout.channel) as u32,
                value: number(layout.value) as u16,
                extra: number(layout.extra) as u16,
            },
        })
    }
}

enum Kind {
    Hit,
    Marker,
    Pulse { resets: bool },
    Reset,
    Other,
}

impl RecordKinds {
    fn of(&self, record: &[u8]) -> Option<Kind> {
        let kind = self.field.read(record)?;
        Some(if self.markers.contains(&kind) {
            Kind::Marker
        } else if self.pulses.contains(&kind) {
            Kind::Pulse { resets: self.resets.contains(&kind) }
        } else if self.resets.contains(&kind) {
            Kind::Reset
        } else if self.hits.is_empty() || self.hits.contains(&kind) {
            Kind::Hit
        } else {
            Kind::Other
        })
    }
}

impl Decoder for HitRecords {
    fn head(&self, packet: &[u8]) -> Result<PacketHead, PacketError> {
        let layout = &*self.layout;
        if packet.len() < layout.header_bytes {
            return Err(PacketError::TooShort { bytes: packet.len(), needed: layout.header_bytes });
        }
        if !layout.magic.iter().all(|mark| mark.is_in(packet)) {
            return Err(PacketError::Foreign);
        }
        let card = match layout.card {
            CardNumber::Always(card) => card,
            CardNumber::In(field) => {
                let number = field.read(packet).and_then(|number| u32::try_from(number).ok());
                SourceId(number.ok_or(PacketError::Foreign)?)
            }
        };
        let number = layout.packet_number.and_then(|field| field.read(packet)).unwrap_or(0);
        Ok(PacketHead { card, number })
    }

    fn read(&mut self, packet: &Packet<'_>, take: &mut dyn FnMut(Reading)) -> Result<(), DecodeFailure> {
        let base = self.layout.time.base(packet.bytes);
        let mut records = packet
            .bytes
            .get(self.layout.header_bytes..)
            .unwrap_or_default()
            .chunks_exact(self.layout.record_bytes);
        records.by_ref().filter_map(|record| self.record(base, record)).for_each(&mut *take);
        if !records.remainder().is_empty() {
            take(Reading::Remainder);
        }
        Ok(())
    }

    fn counter_bits(&self) -> CounterBits {
        let packet = self.layout.packet_number.map_or(0, |field| field.bits());
        CounterBits { time: self.layout.time.bits(), packet }
    }
}

#[cfg(test)]
mod tests;
