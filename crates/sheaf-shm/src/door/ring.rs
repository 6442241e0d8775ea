//! Records in a ring: each is its size, its length, and content that is not interpreted here.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | the record's size, a multiple of 32 |
//! | 4 | 4 | the length of its content; 2^32 - 1: no record, the rest of the ring is skipped |
//! | 8 | | the content |
//! A record never crosses the end of the ring. The layout is private to processes of one machine that run the same
//! release: numbers are in the machine's byte order.

use crate::cursor::{Impossible, Taker, Writer};
use crate::segment::{self, Common, PAGE_BYTES};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

const ALIGN: usize = 32;
const PREFIX_BYTES: usize = 8;
const SKIP: u32 = u32::MAX;

/// Offsets of the positions of a link's two rings, and of a guest's counters: each in cache lines of its own.
const WRITTEN: [usize; 2] = [0, 256];
const TAKEN: [usize; 2] = [128, 384];
pub(super) const GAUGES: usize = 512;

/// Which of the two rings of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the host to its guest.
    Down,
    /// From the guest to its host.
    Up,
}

/// Two rings of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rings {
    pub(super) down_bytes: usize,
    pub(super) up_bytes: usize,
}

impl Rings {
    /// Returns whether these sizes are valid for rings.
    pub(super) fn are_sound(self) -> bool {
        let sound = |bytes: usize| bytes.is_power_of_two() && (PAGE_BYTES..=MAX_RING_BYTES).contains(&bytes);
        sound(self.down_bytes) && sound(self.up_bytes)
    }

    /// The size of the link's segment.
    pub(super) fn segment_bytes(self) -> usize {
        PAGE_BYTES + self.down_bytes + self.up_bytes
    }

    fn place(self, way: Way) -> (usize, usize) {
        match way {
            Way::Down => (PAGE_BYTES, self.down_bytes),
            Way::Up => (PAGE_BYTES + self.down_bytes, self.up_bytes),
        }
    }
}

/// No ring is larger.
pub(super) const MAX_RING_BYTES: usize = 64 << 20;

/// The end that writes.
#[derive(Debug)]
pub(super) struct Out {
    at: usize,
    bytes: usize,
    way: Way,
    writer: Writer,
    /// Something was written that the other end was not shown.
    wrote: bool,
    /// Room for content in the record that was begun.
    begun: usize,
}

impl Out {
    pub(super) fn new(rings: Rings, way: Way) -> Self {
        let (at, bytes) = rings.place(way);
        Self { at, bytes, way, writer: Writer::new(bytes as u64), wrote: false, begun: 0 }
    }

    /// The longest content: two records always find room in an empty ring, wherever it stands.
    pub(super) fn longest(&self) -> usize {
        self.bytes / 2 - ALIGN
    }

    /// Writes a record of these parts, one behind the other. `false` if there is no room now, or never will be: content is
    /// at most [`Self::longest`].
    pub(super) fn push(&mut self, common: &Common, parts: &[&[u8]]) -> bool {
        let length = parts.iter().map(|part| part.len()).sum();
        self.write(common, length, parts.iter().copied()).is_some()
    }

    /// As [`Self::push`], with parts of `length` bytes together. Returns the record.
    pub(super) fn write<'a>(
        &mut self,
        common: &Common,
        length: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Option<SentRecord> {
        if !self.begin(common, length) {
            return None;
        }
        let begin = self.next_content();
        let mut at = begin;
        for part in parts {
            common.write(at, part);
            at += part.len();
        }
        assert!(at == begin + length, "the parts have this length together");
        Some(self.finish(common, length))
    }

    /// Begins a record whose content has at most `room` bytes. Returns `false` if there is no room now, or never will be.
    pub(super) fn begin(&mut self, common: &Common, room: usize) -> bool {
        self.begun = 0;
        if room > self.longest() {
            return false;
        }
        let record = record_bytes(room);
        let left = self.bytes - self.writer.place() as usize;
        let skipped = if left < record { left } else { 0 };
        let taken = common.u64(TAKEN[self.way as usize]);
        if !self.writer.has_room(taken, (skipped + record) as u64) {
            return false;
        }
        if skipped > 0 {
            self.prefix(common, skipped, SKIP);
            self.writer.advance(skipped as u64);
        }
        self.begun = room;
        true
    }

    /// Returns the first `length` bytes of the content of the record that was begun.
    pub(super) fn content<'a>(&self, common: &'a mut Common, length: usize) -> &'a mut [u8] {
        assert!(length <= self.begun, "within the record that was begun");
        common.payload_mut(self.next_content(), length)
    }

    /// Finishes the record that was begun, whose content has `length` bytes.
    pub(super) fn finish(&mut self, common: &Common, length: usize) -> SentRecord {
        assert!(length <= self.begun, "within the record that was begun");
        let record = record_bytes(length);
        // Rings are far smaller than 2^32.
        self.prefix(common, record, length as u32);
        let written = SentRecord { position: self.writer.positions().0, length };
        self.writer.advance(record as u64);
        (self.begun, self.wrote) = (0, true);
        written
    }

    /// Returns the offset of the content of the next record in the segment.
    fn next_content(&self) -> usize {
        self.content_of(SentRecord { position: self.writer.positions().0, length: 0 })
    }

    /// Keeps the records from this one on in the ring, even where the other end has taken them; `None` keeps nothing.
    pub(super) fn keep_from(&mut self, record: Option<SentRecord>) {
        self.writer.keep_from(record.map(|record| record.position));
    }

    /// Returns whether the other end is known to have taken a record.
    pub(super) fn is_taken(&self, record: SentRecord) -> bool {
        record.position < self.writer.positions().1
    }

    /// Copies the content of a record that is kept.
    ///
    /// # Panics
    /// If it is no longer in the ring.
    pub(super) fn copy_of(&self, common: &Common, record: SentRecord) -> Bytes {
        assert!(self.writer.positions().0 - record.position <= self.bytes as u64, "it is in the ring");
        common.copy(self.content_of(record), record.length)
    }

    /// Returns the offset of the content of a record in the segment.
    fn content_of(&self, record: SentRecord) -> usize {
        // The size of a ring is a power of two.
        self.at + (record.position as usize & (self.bytes - 1)) + PREFIX_BYTES
    }

    fn prefix(&self, common: &Common, bytes: usize, length: u32) {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..4].copy_from_slice(&(bytes as u32).to_ne_bytes());
        prefix[4..].copy_from_slice(&length.to_ne_bytes());
        common.write(self.at + self.writer.place() as usize, &prefix);
    }

    /// Publishes written records and returns whether there were any: the other end's bell must then be rung.
    pub(super) fn publish(&mut self, common: &Common) -> bool {
        let wrote = std::mem::take(&mut self.wrote);
        if wrote {
            self.writer.publish(common.u64(WRITTEN[self.way as usize]));
        }
        wrote
    }
}

/// Returns the size of a record whose content has `length` bytes.
fn record_bytes(length: usize) -> usize {
    (PREFIX_BYTES + length).next_multiple_of(ALIGN)
}

/// A record that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentRecord {
    /// Position in the ring, in bytes since it was made.
    position: u64,
    /// Length of the content.
    length: usize,
}

/// A record in a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Offset of the content in the segment.
    pub(super) at: usize,
    /// Length of the content.
    pub(super) length: usize,
    /// Size of the record.
    bytes: usize,
}

/// The end that takes.
#[derive(Debug)]
pub(super) struct In {
    at: usize,
    bytes: usize,
    way: Way,
    taker: Taker,
}

impl In {
    pub(super) fn new(rings: Rings, way: Way) -> Self {
        let (at, bytes) = rings.place(way);
        Self { at, bytes, way, taker: Taker::new(bytes as u64) }
    }

    /// Copies the content of the next record to `content`. Returns `false` if there is none.
    ///
    /// # Errors
    /// If the data are not a record.
    pub(super) fn take(&mut self, common: &Common, content: &mut Vec<u8>) -> Result<bool, Impossible> {
        let Some(record) = self.peek(common)? else { return Ok(false) };
        // Old bytes are overwritten without being cleared first.
        content.resize(record.length, 0);
        common.read(record.at, content);
        self.release(common, record);
        Ok(true)
    }

    /// Returns the next record, which stays in the ring until it is [released](Self::release).
    ///
    /// # Errors
    /// If the data are not a record.
    pub(super) fn peek(&mut self, common: &Common) -> Result<Option<Record>, Impossible> {
        loop {
            let available = self.taker.available(common.u64(WRITTEN[self.way as usize]))? as usize;
            if available == 0 {
                return Ok(None);
            }
            let place = self.taker.place() as usize;
            if !place.is_multiple_of(ALIGN) || available < PREFIX_BYTES {
                return Err(Impossible);
            }
            let mut prefix = [0; PREFIX_BYTES];
            common.read(self.at + place, &mut prefix);
            let [a, b, c, d, e, f, g, h] = prefix;
            let (record, length) =
                (u32::from_ne_bytes([a, b, c, d]) as usize, u32::from_ne_bytes([e, f, g, h]));
            let whole = record >= PREFIX_BYTES && record.is_multiple_of(ALIGN);
            if !whole || record > available || record > self.bytes - place {
                return Err(Impossible);
            }
            if length != SKIP {
                let length = length as usize;
                if length > record - PREFIX_BYTES {
                    return Err(Impossible);
                }
                return Ok(Some(Record { at: self.at + place + PREFIX_BYTES, length, bytes: record }));
            }
            self.taker.give_back(common.u64(TAKEN[self.way as usize]), record as u64);
        }
    }

    /// Returns the memory of a record to the other end.
    pub(super) fn release(&mut self, common: &Common, record: Record) {
        self.taker.give_back(common.u64(TAKEN[self.way as usize]), record.bytes as u64);
    }
}

/// Writes `bytes` into a ring in place of a guest: the first 8 are its written position, the rest is in the ring. Takes
/// records until there are none, or one is refused.
///
/// # Panics
/// If a record is longer than the ring, if taking one makes no progress, or if memory is exhausted.
pub fn fuzz_door_ring(bytes: &[u8]) {
    let rings = Rings { down_bytes: PAGE_BYTES, up_bytes: PAGE_BYTES };
    let (written, content) = bytes.split_at(bytes.len().min(8));
    let mut position = [0; 8];
    position[..written.len()].copy_from_slice(written);
    let file = segment::create("sheaf.fuzz", rings.segment_bytes()).expect("a few pages");
    let common = Common::new(&file, rings.segment_bytes()).expect("a few pages");
    let (at, size) = rings.place(Way::Up);
    common.write(at, &content[..content.len().min(size)]);
    // Only the lower part of the number: most others are refused at once.
    let position = u64::from_le_bytes(position) % (2 * size as u64);
    common.u64(WRITTEN[Way::Up as usize]).store(position, Ordering::Relaxed);
    let mut ring = In::new(rings, Way::Up);
    let (mut record, mut before) = (Vec::new(), 0);
    let taken: &AtomicU64 = common.u64(TAKEN[Way::Up as usize]);
    while let Ok(true) = ring.take(&common, &mut record) {
        let now = taken.load(Ordering::Relaxed);
        assert!(now > before && now <= position, "every record moves on, within what is there");
        assert!(record.len() <= size, "and is no longer than the ring");
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_kept_stays_in_the_ring_until_it_is_given_up() {
        let rings = Rings { down_bytes: PAGE_BYTES, up_bytes: PAGE_BYTES };
        let file = segment::create("sheaf.test", rings.segment_bytes()).expect("a few pages");
        let common = Common::new(&file, rings.segment_bytes()).expect("a few pages");
        let (mut out, mut into) = (Out::new(rings, Way::Up), In::new(rings, Way::Up));
        let mut taken = Vec::new();
        for value in 0..100_u8 {
            let content = [value; 500];
            let parts = || [&content[..200], &content[200..]].into_iter();
            let kept = out.write(&common, 500, parts()).expect("the ring is empty");
            out.keep_from(Some(kept));
            let mut others = 0;
            while out.write(&common, 500, [&[0xff; 500][..]].into_iter()).is_some() {
                out.publish(&common);
                while into.take(&common, &mut taken).expect("records are good") {}
                others += 1;
            }
            assert!((5..8).contains(&others), "the ring holds {others} others");
            assert!(out.is_taken(kept));
            assert_eq!(out.copy_of(&common, kept), content[..]);
            out.keep_from(None);
        }
    }
}
