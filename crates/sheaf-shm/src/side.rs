//! State that one end of a link writes and the other reads, in the link's segment.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | position up to which this end has written its ring |
//! | 128 | 8 | position up to which this end has taken the other's ring |
//! | 136 | 8 | number of frames it has taken |
//! | 144 | 8 | their bytes, head and payload |
//! | 256 | 4 | whether and how this end has ended |
//! | 260 | 4 | whether it waits for room in its ring |
//! | 264 | 4 | whether it waits for payload to be returned |
//! | 384 | 128 | the set of slots of the other end's frames that this end has returned |
//!
//! Each group has two cache lines (the unit of prefetching) of its own. Two sides, then the two rings.

use super::record::RingPlace;
use super::segment::{Common, PAGE_BYTES};
use super::slots::{SLOT_WORDS, Slots};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

const SIDE_BYTES: usize = 512;
const WRITTEN: usize = 0;
const TAKEN: usize = 128;
const TAKEN_FRAMES: usize = 136;
const TAKEN_BYTES: usize = 144;
const END: usize = 256;
const WANTS_ROOM: usize = 260;
const WANTS_MEMORY: usize = 264;
const GIVEN_BACK: usize = 384;

const _: () = assert!(GIVEN_BACK + 8 * SLOT_WORDS <= SIDE_BYTES && 2 * SIDE_BYTES <= PAGE_BYTES);

/// The size of a link's segment with rings of `ring_bytes` each.
pub(super) fn link_bytes(ring_bytes: usize) -> usize {
    PAGE_BYTES + 2 * ring_bytes
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that called.
    Caller,
    /// The one that was called.
    Called,
}

/// State of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Lost,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Called,
            Self::Called => Self::Caller,
        }
    }

    fn base(self) -> usize {
        match self {
            Self::Caller => 0,
            Self::Called => SIDE_BYTES,
        }
    }

    /// The ring that this end writes.
    pub(super) fn ring(self, ring_bytes: usize) -> RingPlace {
        let at = PAGE_BYTES + if self == Self::Caller { 0 } else { ring_bytes };
        RingPlace { at, bytes: ring_bytes }
    }

    pub(super) fn written(self, common: &Common) -> &AtomicU64 {
        common.u64(self.base() + WRITTEN)
    }

    pub(super) fn taken(self, common: &Common) -> &AtomicU64 {
        common.u64(self.base() + TAKEN)
    }

    pub(super) fn taken_frames(self, common: &Common) -> &AtomicU64 {
        common.u64(self.base() + TAKEN_FRAMES)
    }

    pub(super) fn taken_bytes(self, common: &Common) -> &AtomicU64 {
        common.u64(self.base() + TAKEN_BYTES)
    }

    /// Marks this end as ended; to be called once.
    pub(super) fn say_end(self, common: &Common, end: End) {
        let end = if end == End::Closed { 1 } else { 2 };
        common.u32(self.base() + END).store(end, Ordering::Release);
    }

    /// Returns how this end has ended, if it has.
    pub(super) fn end(self, common: &Common) -> Option<End> {
        match common.u32(self.base() + END).load(Ordering::Acquire) {
            0 => None,
            1 => Some(End::Closed),
            _ => Some(End::Lost),
        }
    }

    /// Requests a ring of this end's bell when there is room in its ring, and when payload is returned. Must be
    /// followed by a fence and another check.
    pub(super) fn wish(self, common: &Common) {
        common.u32(self.base() + WANTS_ROOM).store(1, Ordering::Relaxed);
        common.u32(self.base() + WANTS_MEMORY).store(1, Ordering::Relaxed);
    }

    /// Returns whether this end waits for room, and clears the wish.
    pub(super) fn wants_room(self, common: &Common) -> bool {
        take_wish(common.u32(self.base() + WANTS_ROOM))
    }

    /// Returns a slot to the other end, and returns whether that end waits for it.
    pub(super) fn give_back(self, common: &Common, slot: u32) -> bool {
        let word = common.u64(self.base() + GIVEN_BACK + 8 * (slot as usize / 64));
        word.fetch_or(1 << (slot % 64), Ordering::Release);
        take_wish(common.u32(self.other().base() + WANTS_MEMORY))
    }

    /// Takes the slots that this end has given back out of `slots`.
    pub(super) fn collect(self, common: &Common, slots: &mut Slots) {
        for word in 0..SLOT_WORDS {
            let given_back = common.u64(self.base() + GIVEN_BACK + 8 * word);
            if given_back.load(Ordering::Relaxed) != 0 {
                slots.give_back(word, given_back.swap(0, Ordering::Acquire));
            }
        }
    }
}

/// The side that makes room executes a fence between making it and reading the wish, and the side that wishes executes
/// one between setting the wish and checking for room: one of the two is certain to see the other (`doorbell_model.rs`
/// tries it).
fn take_wish(wish: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    wish.load(Ordering::Relaxed) != 0 && wish.swap(0, Ordering::AcqRel) != 0
}
