//! Records through a ring.

use super::super::cursor::{Taker, Writer};
use super::super::fuzz::fuzz_shm_ring;
use super::super::record::{self, Bounds, Extent, Intake, Outgoing};
use super::super::segment::{self, Common};
use super::super::side::{Side, link_bytes};
use super::super::slots::SLOTS;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;

const RING_BYTES: usize = 4096;
const BOUNDS: Bounds = Bounds { arena_bytes: 1 << 20, max_frame_bytes: 1 << 20, slots: SLOTS };

#[derive(Clone, Debug)]
struct Given {
    head: Vec<u8>,
    extents: Vec<Extent>,
    slot: Option<u32>,
    copy: bool,
}

fn given() -> impl Strategy<Value = Given> {
    let extent = (0..1_u64 << 19, 1..1_u64 << 14).prop_map(|(at, bytes)| Extent { at, bytes });
    let extents = prop::collection::vec(extent, 0..8);
    (prop::collection::vec(any::<u8>(), 0..300), extents, 0..SLOTS, any::<bool>()).prop_map(
        |(head, extents, slot, copy)| {
            let slot = (!extents.is_empty()).then_some(slot);
            Given { head, extents, slot, copy }
        },
    )
}

proptest! {
    /// For any order of calls, records come out as they went in, in order, and a full ring refuses.
    #[test]
    fn records_come_out_as_they_went_in(records in prop::collection::vec((given(), 0..4_usize), 1..60)) {
        let size = link_bytes(RING_BYTES);
        let common = Common::new(segment::create("sheaf.test", size).unwrap(), size).unwrap();
        let (side, ring) = (Side::Caller, Side::Caller.ring(RING_BYTES));
        let (written, taken) = (side.written(&common), side.other().taken(&common));
        let (mut writer, mut taker) = (Writer::new(RING_BYTES as u64), Taker::new(RING_BYTES as u64));
        let mut inside: VecDeque<Given> = VecDeque::new();
        let mut payload = Vec::new();
        let mut take = |inside: &mut VecDeque<Given>| {
            let intake = Intake { common: &common, ring, written, taken };
            let found = record::take(intake, &mut taker, BOUNDS, &mut payload).unwrap();
            let expected = inside.pop_front();
            assert_eq!(found.is_some(), expected.is_some());
            let (Some(found), Some(expected)) = (found, expected) else { return false };
            assert_eq!(found.head, Some(Bytes::from(expected.head)));
            assert_eq!(payload, expected.extents);
            assert_eq!((found.slot, found.copy), (expected.slot, expected.copy));
            true
        };
        for (given, takes) in records {
            let bytes = record::record_bytes(given.head.len(), given.extents.len());
            while !record::has_room(ring, &mut writer, taken, bytes) {
                prop_assert!(take(&mut inside), "a ring without records has room for one of an eighth of it");
            }
            let outgoing = Outgoing {
                head: &given.head,
                head_in_extent: false,
                extents: &given.extents,
                slot: given.slot,
                copy: given.copy,
                payload_bytes: given.extents.iter().map(|extent| extent.bytes).sum(),
            };
            record::write(&common, ring, &mut writer, outgoing);
            writer.publish(written);
            inside.push_back(given);
            for _ in 0..takes {
                take(&mut inside);
            }
        }
        while take(&mut inside) {}
        prop_assert!(inside.is_empty());
    }

    #[test]
    fn no_content_of_a_ring_leads_out_of_bounds(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_shm_ring(&bytes);
    }

    /// As above, from records that are nearly right.
    #[test]
    fn no_small_damage_of_a_ring_leads_out_of_bounds(
        sizes in prop::collection::vec((0..4_u32, 0..120_u32, any::<u32>(), 0..2_u32), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut ring = Vec::new();
        for (extents, head, slot, flag) in sizes {
            let bytes = record::record_bytes(head as usize, extents as usize);
            let at = ring.len();
            for word in [bytes as u32, 2 * flag, slot % (2 * SLOTS), head, extents, 0] {
                ring.extend(word.to_ne_bytes());
            }
            ring.extend((u64::from(extents) * 100).to_ne_bytes());
            for extent in 0..extents {
                ring.extend((u64::from(extent) * 30_000).to_ne_bytes());
                ring.extend(100_u64.to_ne_bytes());
            }
            ring.resize(at + bytes, 0x55);
        }
        let mut bytes = (ring.len() as u64).to_le_bytes().to_vec();
        bytes.append(&mut ring);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz_shm_ring(&bytes);
    }
}
