//! The entry point of the fuzz target for data that a peer writes into a link's memory.

use super::cursor::{Taker, Writer};
use super::record::{self, Bounds, Extent, Intake, Outgoing};
use super::segment::{self, Common};
use super::side::{Side, link_bytes};
use super::slots::SLOTS;
use std::sync::atomic::{AtomicU64, Ordering};

const RING_BYTES: usize = 1024;
const BOUNDS: Bounds = Bounds { arena_bytes: 1 << 16, max_frame_bytes: 1 << 14, slots: SLOTS };

/// Writes `bytes` into a ring in place of a peer: the first 8 are its written position, the rest is in the ring. Takes
/// records until there are none, or one is refused, and checks that none refers to memory outside its bounds.
///
/// # Panics
/// If one does, or if memory is exhausted.
pub fn fuzz_shm_ring(bytes: &[u8]) {
    let (written, content) = bytes.split_at(bytes.len().min(8));
    let mut position = [0; 8];
    position[..written.len()].copy_from_slice(written);
    let size = link_bytes(RING_BYTES);
    let file = segment::create("sheaf.fuzz", size).expect("a few pages");
    let common = Common::new(&file, size).expect("a few pages");
    let ring = Side::Caller.ring(RING_BYTES);
    common.write(ring.at, &content[..content.len().min(RING_BYTES)]);
    // Only the lower part of the number: most others are refused at once.
    let written = AtomicU64::new(u64::from_le_bytes(position) % (2 * RING_BYTES as u64));
    let taken = AtomicU64::new(0);
    let mut taker = Taker::new(RING_BYTES as u64);
    let mut payload = Vec::new();
    let mut before = 0;
    while let Ok(Some(record)) = record::take(
        Intake { common: &common, ring, written: &written, taken: &taken },
        &mut taker,
        BOUNDS,
        &mut payload,
    ) {
        let now = taken.load(Ordering::Relaxed);
        assert!(
            now > before && now <= written.load(Ordering::Relaxed),
            "every record moves on, within what is there"
        );
        before = now;
        let in_arena = |extent: &Extent| extent.at + extent.bytes <= BOUNDS.arena_bytes as u64;
        assert!(payload.iter().all(in_arena));
        assert_eq!(payload.iter().map(|extent| extent.bytes).sum::<u64>(), record.payload_bytes as u64);
        let head = record.head.as_ref().map_or(0, bytes::Bytes::len)
            + record.head_extent.as_ref().map_or(0, ExactSizeIterator::len);
        assert!(head + record.payload_bytes <= BOUNDS.max_frame_bytes);
        assert!(record.head.is_some() != record.head_extent.is_some());
        assert!(record.head_extent.as_ref().is_none_or(|range| range.end <= BOUNDS.arena_bytes));
        assert!(record.slot.is_some_and(|slot| slot < SLOTS) || payload.is_empty());
    }
}

/// Returns an input for [`fuzz_shm_ring`] as a correct peer would write it: records with heads of these sizes and
/// numbers of payload extents, as far as the ring has room.
///
/// # Panics
/// If memory is exhausted.
/// If the machine has no memory.
#[must_use]
pub fn fuzz_shm_ring_seed(records: &[(usize, u64)]) -> Vec<u8> {
    let size = link_bytes(RING_BYTES);
    let file = segment::create("sheaf.fuzz", size).expect("a few pages");
    let common = Common::new(&file, size).expect("a few pages");
    let ring = Side::Caller.ring(RING_BYTES);
    let mut writer = Writer::new(RING_BYTES as u64);
    let (written, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    for (index, (head, extents)) in records.iter().enumerate() {
        let extents: Vec<Extent> =
            (0..*extents).map(|at| Extent { at: at * 5000, bytes: 400 + at }).collect();
        if !record::has_room(ring, &mut writer, &taken, record::record_bytes(*head, extents.len())) {
            break;
        }
        let outgoing = Outgoing {
            head: &vec![b'h'; *head],
            head_in_extent: *head == 0 && !extents.is_empty(),
            payload_bytes: extents.iter().skip(usize::from(*head == 0)).map(|extent| extent.bytes).sum(),
            slot: (!extents.is_empty()).then_some(index as u32),
            copy: index % 2 == 1,
            extents: &extents,
        };
        record::write(&common, ring, &mut writer, outgoing);
        writer.publish(&written);
    }
    let mut seed = written.load(Ordering::Relaxed).to_le_bytes().to_vec();
    seed.extend_from_slice(&common.copy(ring.at, RING_BYTES));
    seed
}
