//! Round trips of header, block and index, and refusal of everything else. Whole segments are tested in `sheaf-spool`.

use super::*;
use crate::hit::Hit;
use proptest::prelude::*;

fn interval() -> impl Strategy<Value = HitInterval> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(one, other)| HitInterval { from_ps: one.min(other), until_ps: one.max(other) })
}

proptest! {
    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed(
        run: u32, number: u64, session: u64, metadata in ".{0,20}", bit in any::<prop::sample::Index>(),
    ) {
        let header = SegmentHeader { run: RunNumber(run), number, session: SessionId(session), created: Timestamp(1) };
        let mut bytes = header.emit(&metadata).unwrap();
        prop_assert_eq!(SegmentHeader::parse(&bytes), Ok((header, metadata.as_str())));
        prop_assert!(SegmentHeader::parse(&bytes[..bytes.len() - 1]).is_err());
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(SegmentHeader::parse(&bytes).is_err());
    }

    #[test]
    fn blocks_round_trip_and_every_flipped_bit_of_head_and_sources_is_noticed(
        sources in prop::collection::vec((any::<u32>(), interval(), 0..5_usize), 0..5), bit in any::<prop::sample::Index>(),
    ) {
        let hits = [7; 5 * HIT_BYTES];
        let parts = sources.iter().map(|(source, interval, count)| (SourceId(*source), *interval, &hits[..count * HIT_BYTES]));
        let (header, mut bytes) = emit_block(Timestamp(3), parts.clone(), vec![1; 9]).unwrap();
        prop_assert_eq!(BlockHeader::parse(&bytes), Ok(header));
        prop_assert_eq!(header.total_bytes(), bytes.len() as u64);
        let read = header.parse_sources(&bytes[BLOCK_HEADER_BYTES..]).unwrap();
        let expected: Vec<_> = parts
            .map(|(source, interval, hits)| BlockSource { source, interval, hits: (hits.len() / HIT_BYTES) as u32, checksum: crc32c(hits) })
            .collect();
        prop_assert_eq!(read, expected);
        let bit = bit.index(8 * (BLOCK_HEADER_BYTES + header.sources_bytes()));
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = BlockHeader::parse(&bytes).and_then(|header| header.parse_sources(&bytes[BLOCK_HEADER_BYTES..]));
        prop_assert!(changed.is_err());
    }

    #[test]
    fn indexes_round_trip_and_every_flipped_bit_is_noticed(
        blocks in prop::collection::vec((any::<u64>(), interval(), 0..MAX_BLOCK_HITS, 0..MAX_BLOCK_SOURCES), 0..5),
        sources in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>(), interval()), 0..5),
        bit in any::<prop::sample::Index>(),
    ) {
        let blocks: Vec<_> = blocks
            .into_iter()
            .map(|(offset, interval, hits, sources)| IndexBlock { offset, interval, hits, sources })
            .collect();
        let sources: Vec<_> = sources
            .into_iter()
            .map(|(source, blocks, hits, interval)| IndexSource { source: SourceId(source), blocks, hits, interval })
            .collect();
        let mut bytes = emit_index(99, &blocks, sources.iter().copied()).unwrap();
        let parse = |bytes: &[u8]| {
            let (index, footer) = bytes.split_at(bytes.len() - FOOTER_BYTES);
            let footer = SegmentFooter::parse(footer)?;
            assert_eq!((footer.index_offset, footer.index_bytes()), (99, index.len()));
            footer.parse_index(index)
        };
        prop_assert_eq!(parse(&bytes), Ok((blocks, sources)));
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&bytes).is_err());
    }

    #[test]
    fn the_common_part_of_intervals_has_the_moments_that_both_have(one in interval(), other in interval(), time: u64) {
        let both = one.contains(time) && other.contains(time);
        prop_assert_eq!(one.common(other).is_some_and(|common| common.contains(time)), both);
        if one.contains(time) || other.contains(time) {
            prop_assert!(one.hull(other).contains(time));
        }
    }
}

#[test]
fn seeds_are_read() {
    for (_, bytes) in fuzz::seeds() {
        fuzz::fuzz_spool(&bytes);
    }
    let hit = Hit { time_ps: 1, channel: 2, value: 3, extra: 4 };
    assert_eq!(hit.to_bytes().len(), HIT_BYTES);
}
