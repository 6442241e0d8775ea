//! Records in a ring: one for each frame, with the head inline and the payload as places in the sender's arena.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | the record's size, a multiple of 32 |
//! | 4 | 4 | flags |
//! | 8 | 4 | the slot under which the sender keeps the payload, or 2^32 - 1 |
//! | 12 | 4 | bytes of the head |
//! | 16 | 4 | number of extents |
//! | 20 | 4 | zero |
//! | 24 | 8 | bytes of the payload |
//! | 32 | 16 each | the extents: offset in the sender's arena, length |
//! | then | | the head, and zeros up to the record's size |
//!
//! A record never runs over the end of the ring: where there is too little left, a record with [`SKIP`] fills it. The
//! layout is private to processes of one machine that run the same release: numbers are in the machine's byte order.

use super::cursor::{Impossible, Taker, Writer};
use super::segment::Common;
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Records begin at multiples of this, so that whatever is left at the ring's end has room for a prefix.
pub(super) const RECORD_ALIGN: usize = 32;

/// Not a record: the rest of the ring is skipped.
const SKIP: u32 = 1;
/// The receiver copies the payload and gives the slot back at once: the sender is short of slots or memory.
const COPY: u32 = 2;
/// The first extent is the head.
const HEAD_IN_EXTENT: u32 = 4;

/// No slot: there is no payload.
const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Prefix {
    bytes: u32,
    flags: u32,
    slot: u32,
    head_bytes: u32,
    extents: u32,
    zero: u32,
    payload_bytes: u64,
}

const PREFIX_BYTES: usize = size_of::<Prefix>();
const _: () = assert!(PREFIX_BYTES == RECORD_ALIGN && size_of::<Extent>() == 16);

/// A part of the sender's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Extent {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

const EXTENT_BYTES: usize = size_of::<Extent>();

/// Range of a ring in a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingPlace {
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// The size of a record.
pub(super) fn record_bytes(head_bytes: usize, extents: usize) -> usize {
    (PREFIX_BYTES + extents * EXTENT_BYTES + head_bytes).next_multiple_of(RECORD_ALIGN)
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    /// Empty where the first extent is the head.
    pub(super) head: &'a [u8],
    pub(super) head_in_extent: bool,
    pub(super) extents: &'a [Extent],
    /// Under which slot the payload is kept.
    pub(super) slot: Option<u32>,
    pub(super) copy: bool,
    pub(super) payload_bytes: u64,
}

/// Returns whether there is room for a record of this size, including bytes skipped at the ring's end.
pub(super) fn has_room(ring: RingPlace, writer: &mut Writer, taken: &AtomicU64, bytes: usize) -> bool {
    let left = ring.bytes - writer.place() as usize;
    let skipped = if left < bytes { left } else { 0 };
    writer.has_room(taken, (skipped + bytes) as u64)
}

/// Writes a record for which there is room; it is seen from the next publication on.
pub(super) fn write(common: &Common, ring: RingPlace, writer: &mut Writer, record: Outgoing<'_>) {
    let bytes = record_bytes(record.head.len(), record.extents.len());
    let left = ring.bytes - writer.place() as usize;
    let prefix = Prefix {
        bytes: left as u32,
        flags: SKIP,
        slot: NO_SLOT,
        head_bytes: 0,
        extents: 0,
        zero: 0,
        payload_bytes: 0,
    };
    if left < bytes {
        common.write(ring.at + writer.place() as usize, prefix.as_bytes());
        writer.advance(left as u64);
    }
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let prefix = Prefix {
        bytes: bytes as u32,
        flags: flag(record.copy, COPY) | flag(record.head_in_extent, HEAD_IN_EXTENT),
        slot: record.slot.unwrap_or(NO_SLOT),
        head_bytes: record.head.len() as u32,
        extents: record.extents.len() as u32,
        payload_bytes: record.payload_bytes,
        ..prefix
    };
    let at = ring.at + writer.place() as usize;
    common.write(at, prefix.as_bytes());
    common.write(at + PREFIX_BYTES, record.extents.as_bytes());
    common.write(at + PREFIX_BYTES + size_of_val(record.extents), record.head);
    writer.advance(bytes as u64);
}

/// A record that was taken, and checked: nothing in it leads out of the sender's arena or beyond the agreed sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    /// The head, where it is in the record.
    pub(super) head: Option<Bytes>,
    /// If it is elsewhere: the range of the head in the sender's arena.
    pub(super) head_extent: Option<Range<usize>>,
    pub(super) slot: Option<u32>,
    pub(super) copy: bool,
    pub(super) payload_bytes: usize,
}

/// Bounds of a record's values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) arena_bytes: usize,
    pub(super) max_frame_bytes: usize,
    pub(super) slots: u32,
}

/// A ring as the end sees it that takes its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intake<'a> {
    pub(super) common: &'a Common,
    pub(super) ring: RingPlace,
    /// Position of the other end.
    pub(super) written: &'a AtomicU64,
    /// Position of this end, as the other one sees it.
    pub(super) taken: &'a AtomicU64,
}

/// Takes the next record, if there is one; the extents of its payload are added to `payload`.
///
/// # Errors
/// If the data are not a record, or violate its bounds.
pub(super) fn take(
    intake: Intake<'_>,
    taker: &mut Taker,
    bounds: Bounds,
    payload: &mut Vec<Extent>,
) -> Result<Option<Incoming>, Impossible> {
    let Intake { common, ring, written, taken } = intake;
    loop {
        let available = taker.available(written)? as usize;
        if available == 0 {
            return Ok(None);
        }
        let place = taker.place() as usize;
        // Positions of a peer that breaks the rules may lie anywhere.
        if !place.is_multiple_of(RECORD_ALIGN) || available < PREFIX_BYTES {
            return Err(Impossible);
        }
        let mut prefix = [0; PREFIX_BYTES];
        common.read(ring.at + place, &mut prefix);
        let prefix = Prefix::read_from_bytes(&prefix).map_err(|_| Impossible)?;
        let bytes = prefix.bytes as usize;
        let whole = bytes >= PREFIX_BYTES && bytes.is_multiple_of(RECORD_ALIGN);
        if !whole || bytes > available || bytes > ring.bytes - place {
            return Err(Impossible);
        }
        let record = if prefix.flags == SKIP {
            None
        } else {
            Some(read(common, ring.at + place + PREFIX_BYTES, &prefix, bounds, payload)?)
        };
        taker.give_back(taken, bytes as u64);
        if record.is_some() {
            return Ok(record);
        }
    }
}

fn read(
    common: &Common,
    at: usize,
    prefix: &Prefix,
    bounds: Bounds,
    payload: &mut Vec<Extent>,
) -> Result<Incoming, Impossible> {
    let (extents, head_bytes) = (prefix.extents as usize, prefix.head_bytes as usize);
    let most = prefix.bytes as usize - PREFIX_BYTES;
    let needed = extents.checked_mul(EXTENT_BYTES).and_then(|extents| extents.checked_add(head_bytes));
    let known = prefix.flags & !(COPY | HEAD_IN_EXTENT) == 0;
    if !known || needed.is_none_or(|needed| needed > most) {
        return Err(Impossible);
    }
    payload.clear();
    payload.resize(extents, Extent { at: 0, bytes: 0 });
    common.read(at, payload.as_mut_bytes());
    let mut total = 0_u64;
    for extent in payload.iter() {
        let end = extent.at.checked_add(extent.bytes).ok_or(Impossible)?;
        total = total.checked_add(extent.bytes).ok_or(Impossible)?;
        if end > bounds.arena_bytes as u64 {
            return Err(Impossible);
        }
    }
    let head_in_extent = prefix.flags & HEAD_IN_EXTENT != 0;
    let head_extent = if head_in_extent {
        if payload.is_empty() {
            return Err(Impossible);
        }
        let extent = payload.remove(0);
        Some(extent.at as usize..(extent.at + extent.bytes) as usize)
    } else {
        None
    };
    let slot = (prefix.slot != NO_SLOT).then_some(prefix.slot);
    let head_total = head_bytes as u64 + head_extent.as_ref().map_or(0, |head| head.len() as u64);
    let frame_bytes = prefix.payload_bytes.checked_add(head_total).ok_or(Impossible)?;
    let in_head = head_extent.as_ref().map_or(0, |head| head.len() as u64);
    let right = total.checked_sub(in_head) == Some(prefix.payload_bytes)
        && frame_bytes <= bounds.max_frame_bytes as u64
        && slot.is_none_or(|slot| slot < bounds.slots)
        && (slot.is_some() || extents == 0)
        && !(head_in_extent && head_bytes > 0);
    if !right {
        return Err(Impossible);
    }
    let head = (!head_in_extent).then(|| common.copy(at + extents * EXTENT_BYTES, head_bytes));
    let payload_bytes = prefix.payload_bytes as usize;
    Ok(Incoming { head, head_extent, slot, copy: prefix.flags & COPY != 0, payload_bytes })
}
