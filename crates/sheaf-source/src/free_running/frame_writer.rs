//! Frames as bytes: the opposite of [`HitRecords`](crate::timed::HitRecords).

use super::FreeRunningError;
use crate::described::field::{ByteOrder, Field};
use crate::timed::hit_records::NamedField;
use crate::timed::{HitDescription, TimeFields};
use bytes::{BufMut, BytesMut};
use sheaf_wire::SourceId;
use std::sync::Arc;

/// Writes frames of a described layout. The width of the counter is that of the layout, or less.
#[derive(Clone, Debug)]
pub struct FrameWriter {
    layout: Arc<HitDescription>,
    /// Bits of readings that are written.
    mask: u64,
    /// Kinds of hits and of time markers.
    hit_kind: u64,
    marker_kind: Option<u64>,
    /// Kind of pulses, and whether these reset the counter.
    pulse_kind: Option<(u64, bool)>,
    /// Ticks from which the times of the records count: those of `base`.
    base: u64,
    /// The fields of a record, if it is short: writing them one by one takes twice as long.
    packed: Option<PackedRecord>,
}

/// Bytes of the largest record that is put together as one number.
const PACKED_BYTES: usize = size_of::<u128>();

/// A record of at most [`PACKED_BYTES`] as one number, whose first byte is the lowest.
#[derive(Clone, Copy, Debug)]
struct PackedRecord {
    kind: PackedField,
    coarse: PackedField,
    fine: PackedField,
    fine_bits: u32,
    channel: PackedField,
    value: PackedField,
    extra: PackedField,
}

/// Place of a field in such a number. A field without bits adds nothing.
#[derive(Clone, Copy, Debug, Default)]
struct PackedField {
    shift: u32,
    mask: u64,
    /// The number of bits that are dropped once its bytes are reversed, if they are.
    reversed: Option<u32>,
    position: u32,
}

impl PackedRecord {
    /// Returns `None` for a longer record.
    fn new(layout: &HitDescription) -> Option<Self> {
        (layout.record_bytes <= PACKED_BYTES).then_some(())?;
        let kind = layout.kinds.as_ref().map(|kinds| kinds.field);
        Some(Self {
            kind: PackedField::new(kind),
            coarse: PackedField::new(Some(layout.time.coarse)),
            fine: PackedField::new(layout.time.fine),
            fine_bits: layout.time.fine_bits(),
            channel: PackedField::new(layout.channel),
            value: PackedField::new(layout.value),
            extra: PackedField::new(layout.extra),
        })
    }

    #[inline]
    fn record(&self, kind: u64, time: u64, numbers: RecordNumbers) -> u128 {
        let RecordNumbers { channel, value, extra } = numbers;
        self.kind.of(kind)
            | self.coarse.of(time >> self.fine_bits)
            | self.fine.of(time)
            | self.channel.of(channel.into())
            | self.value.of(value.into())
            | self.extra.of(extra.into())
    }
}

impl PackedField {
    fn new(field: Option<Field>) -> Self {
        let Some(field) = field else { return Self::default() };
        let unused = u64::BITS - 8 * field.width.bytes() as u32;
        Self {
            shift: field.shift,
            mask: field.mask & u64::MAX >> unused,
            reversed: (field.order == ByteOrder::Big).then_some(unused),
            position: 8 * field.offset as u32,
        }
    }

    #[inline]
    fn of(&self, number: u64) -> u128 {
        let number = number << self.shift & self.mask;
        u128::from(self.reversed.map_or(number, |unused| number.swap_bytes() >> unused)) << self.position
    }
}

/// Numbers of a record of a hit, besides its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordNumbers {
    /// Channel.
    pub channel: u32,
    /// Measured value.
    pub value: u16,
    /// Second measured value.
    pub extra: u16,
}

impl FrameWriter {
    /// Makes a writer of frames of this layout, for a counter of `bits` bits that starts again, and frames in which readings differ by
    /// less than `span` ticks.
    ///
    /// # Errors
    /// A [`FreeRunningError`]: the layout is no layout, two of its fields share bits, or the counter does not fit into its fields.
    pub fn new(layout: Arc<HitDescription>, bits: u32, span: u64) -> Result<Self, FreeRunningError> {
        layout.check()?;
        check_bits(&layout)?;
        let TimeFields { base, coarse, .. } = layout.time;
        let of_records = coarse.bits() + layout.time.fine_bits();
        if let Some(base) = base {
            if bits != base.bits() {
                return Err(FreeRunningError::Base { bits, base_bits: base.bits() });
            }
            let needed = u64::BITS - span.leading_zeros();
            if needed > of_records {
                let what = "the time of a record after `base`";
                return Err(FreeRunningError::Narrow { what, bits: of_records, needed });
            }
        } else if bits > of_records {
            return Err(FreeRunningError::Narrow { what: "the counter", bits: of_records, needed: bits });
        }
        let kinds = layout.kinds.as_ref();
        let marker_kind = kinds.and_then(|kinds| kinds.markers.first().copied());
        let pulse = kinds.and_then(|kinds| Some((*kinds.pulses.first()?, kinds)));
        let pulse_kind = pulse.map(|(kind, kinds)| (kind, kinds.resets.contains(&kind)));
        // Of several kinds, the first; if all others are hits, the first that is in no list.
        let hit_kind = kinds.map_or(0, |kinds| {
            let is_other = |kind: &u64| {
                [&kinds.markers, &kinds.pulses, &kinds.resets].iter().all(|kinds| !kinds.contains(kind))
            };
            let other = (0..=kinds.field.largest()).find(is_other);
            kinds.hits.first().copied().or(other).unwrap_or(0)
        });
        Ok(Self {
            mask: u64::MAX >> (u64::BITS - bits.clamp(1, 64)),
            hit_kind,
            marker_kind,
            pulse_kind,
            base: 0,
            packed: PackedRecord::new(&layout),
            layout,
        })
    }

    /// Returns whether frames have time markers.
    #[must_use]
    pub fn has_markers(&self) -> bool {
        self.marker_kind.is_some()
    }

    /// Returns whether pulses reset the counter. `None`: frames have no pulses.
    #[must_use]
    pub fn pulse_resets(&self) -> Option<bool> {
        self.pulse_kind.map(|(_, resets)| resets)
    }

    /// Returns the bytes that a frame with so many hits needs while it is written.
    #[must_use]
    pub fn room(&self, hits: usize) -> usize {
        let records = hits + usize::from(self.has_markers());
        self.layout.header_bytes + records * self.layout.record_bytes + PACKED_BYTES
    }

    /// Begins a frame: its header, and a time marker, if it has them. `ticks` are those of the begin of the frame.
    pub fn begin(&mut self, card: SourceId, number: u64, ticks: u64, frame: &mut BytesMut) {
        let layout = &*self.layout;
        frame.put_bytes(0, layout.header_bytes);
        for mark in &layout.magic {
            frame[mark.offset..mark.offset + mark.bytes.len()].copy_from_slice(&mark.bytes);
        }
        let numbers = [
            (layout.card.field(), u64::from(card.0)),
            (layout.packet_number, number),
            (layout.time.base, ticks & self.mask),
        ];
        for (field, number) in numbers {
            put(field, number, frame);
        }
        self.base = if layout.time.base.is_some() { ticks } else { 0 };
        if let Some(kind) = self.marker_kind {
            self.record(kind, ticks, RecordNumbers::default(), frame);
        }
    }

    /// Writes a pulse, if frames have pulses.
    pub fn pulse(&self, ticks: u64, frame: &mut BytesMut) {
        if let Some((kind, _)) = self.pulse_kind {
            self.record(kind, ticks, RecordNumbers::default(), frame);
        }
    }

    /// Writes hits, at most `most`: ticks and the other numbers of each.
    #[inline]
    pub fn hits(&self, hits: impl Iterator<Item = (u64, RecordNumbers)>, most: usize, frame: &mut BytesMut) {
        let Some(packed) = &self.packed else {
            return hits.for_each(|(ticks, numbers)| self.record(self.hit_kind, ticks, numbers, frame));
        };
        // Each write is of 16 bytes, of which the next one overwrites those that are too many.
        let mut at = frame.len();
        frame.resize(at + most * self.layout.record_bytes + PACKED_BYTES, 0);
        for (ticks, numbers) in hits.take(most) {
            let record = packed.record(self.hit_kind, self.time(ticks), numbers);
            frame[at..at + PACKED_BYTES].copy_from_slice(&record.to_le_bytes());
            at += self.layout.record_bytes;
        }
        frame.truncate(at);
    }

    #[inline]
    fn time(&self, ticks: u64) -> u64 {
        ticks.wrapping_sub(self.base) & self.mask
    }

    fn record(&self, kind: u64, ticks: u64, numbers: RecordNumbers, frame: &mut BytesMut) {
        let layout = &*self.layout;
        let begin = frame.len();
        frame.put_bytes(0, layout.record_bytes);
        let record = &mut frame[begin..];
        let time = self.time(ticks);
        let fine_bits = layout.time.fine_bits();
        put(Some(layout.time.coarse), time >> fine_bits, record);
        put(layout.time.fine, time, record);
        put(layout.kinds.as_ref().map(|kinds| kinds.field), kind, record);
        put(layout.channel, numbers.channel.into(), record);
        put(layout.value, numbers.value.into(), record);
        put(layout.extra, numbers.extra.into(), record);
    }
}

/// Writes a number where it has a field. The layout was checked: the field is in the bytes.
#[inline]
fn put(field: Option<Field>, number: u64, bytes: &mut [u8]) {
    if let Some(field) = field {
        field.write(number, bytes);
    }
}

/// Returns the largest channel, value and second value of records of a layout such that all smaller ones fit, too; 0 for those that it does
/// not have.
#[must_use]
pub fn largest_numbers(layout: &HitDescription) -> RecordNumbers {
    let largest = |field: Option<Field>| {
        let ones = field.map_or(0, |field| field.largest().trailing_ones());
        u64::MAX.checked_shr(u64::BITS - ones).unwrap_or(0)
    };
    RecordNumbers {
        channel: largest(layout.channel) as u32,
        value: largest(layout.value) as u16,
        extra: largest(layout.extra) as u16,
    }
}

/// Checks that no two fields, and no field and mark, share a bit.
fn check_bits(layout: &HitDescription) -> Result<(), FreeRunningError> {
    let mut taken: Vec<(&'static str, bool, Vec<u8>)> = Vec::new();
    let mut take = |name, is_in_header, bits: Vec<u8>| {
        let shares = |(_, in_header, other): &&(&str, bool, Vec<u8>)| {
            *in_header == is_in_header && other.iter().zip(&bits).any(|(one, other)| one & other != 0)
        };
        if let Some((one, ..)) = taken.iter().find(shares) {
            return Err(FreeRunningError::SharedBits { one, other: name });
        }
        taken.push((name, is_in_header, bits));
        Ok(())
    };
    for mark in &layout.magic {
        let mut bits = vec![0; layout.header_bytes];
        bits[mark.offset..mark.offset + mark.bytes.len()].fill(0xff);
        // Marks may share bytes with each other.
        if let Err(error @ FreeRunningError::SharedBits { one, .. }) = take("magic", true, bits)
            && one != "magic"
        {
            return Err(error);
        }
    }
    for NamedField { name, field, is_in_header, .. } in layout.fields() {
        let mut bits = vec![0; if is_in_header { layout.header_bytes } else { layout.record_bytes }];
        put(Some(field), u64::MAX >> field.shift, &mut bits);
        take(name, is_in_header, bits)?;
    }
    Ok(())
}
