//! The body of the fuzz target for the parts of a segment of a hit spool.

use super::{
    BLOCK_HEADER_BYTES, BlockBytes, BlockHeader, BlockSource, FOOTER_BYTES, FooterBytes, HitInterval,
    IndexBlock, IndexSource, SegmentFooter, SegmentHeader, SegmentHeaderBytes, emit_block, emit_index,
};
use crate::checksum::crc32c;
use crate::file::file_header_checksum;
use crate::hit::Hit;
use crate::{RunNumber, SessionId, SourceId, Timestamp};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// Parses `bytes` as each part of a segment: header, block, and index with footer. Checksums are corrected first if the last
/// byte is odd. A parsed part must be the same after encoding.
///
/// # Panics
/// If the parser violates its contract.
pub fn fuzz_spool(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.last().is_some_and(|last| last % 2 == 1) {
        seal(&mut bytes);
    }
    match SegmentHeader::parse(&bytes) {
        Ok((header, metadata)) => {
            let again = header.emit(metadata).expect("metadata that was read is not too large");
            assert_eq!(SegmentHeader::parse(&again), Ok((header, metadata)));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(header) = BlockHeader::parse(&bytes) {
        let again = header.emit();
        assert_eq!(BlockHeader::parse(again.as_bytes()), Ok(header));
        if let Ok(sources) = header.parse_sources(&bytes[BLOCK_HEADER_BYTES..]) {
            let hits: u64 = sources.iter().map(|source: &BlockSource| u64::from(source.hits)).sum();
            assert_eq!(hits, u64::from(header.hits), "the hits of a block are those of its sources");
        }
    }
    let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let Ok(footer) = SegmentFooter::parse(&bytes[at..]) else { return };
    let Some(index) = at.checked_sub(footer.index_bytes()) else { return };
    if let Ok((blocks, sources)) = footer.parse_index(&bytes[index..at]) {
        let again = emit_index(footer.index_offset, &blocks, sources.iter().copied()).expect("not too many");
        let (read, last) = again.split_at(again.len() - FOOTER_BYTES);
        let parsed = SegmentFooter::parse(last).and_then(|footer| footer.parse_index(read));
        assert_eq!(parsed, Ok((blocks, sources)));
    }
}

/// Makes the checksums of all parts right, as far as they are there.
fn seal(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(FOOTER_BYTES) {
        let blocks = u32::from_le_bytes([bytes[at + 16], bytes[at + 17], bytes[at + 18], bytes[at + 19]]);
        let sources = u32::from_le_bytes([bytes[at + 20], bytes[at + 21], bytes[at + 22], bytes[at + 23]]);
        let index = super::INDEX_HEADER_BYTES as u64
            + (u64::from(blocks) + u64::from(sources)) * super::INDEX_ENTRY_BYTES as u64;
        if let Some(start) = usize::try_from(index).ok().and_then(|index| at.checked_sub(index)) {
            let checksum = crc32c(&bytes[start..at]).to_le_bytes();
            bytes[at + offset_of!(FooterBytes, index_checksum)..][..4].copy_from_slice(&checksum);
        }
        let covered = offset_of!(FooterBytes, footer_checksum);
        let checksum = crc32c(&bytes[at..at + covered]).to_le_bytes();
        bytes[at + covered..][..4].copy_from_slice(&checksum);
    }
    if bytes.len() >= BLOCK_HEADER_BYTES && bytes.starts_with(b"SPBK") {
        let sources = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        let end = BLOCK_HEADER_BYTES.saturating_add(sources.saturating_mul(super::BLOCK_SOURCE_BYTES));
        if let Some(table) = bytes.get(BLOCK_HEADER_BYTES..end) {
            let checksum = crc32c(table).to_le_bytes();
            bytes[offset_of!(BlockBytes, sources_checksum)..][..4].copy_from_slice(&checksum);
        }
        let covered = offset_of!(BlockBytes, header_checksum);
        let checksum = crc32c(&bytes[..covered]).to_le_bytes();
        bytes[covered..][..4].copy_from_slice(&checksum);
    } else if bytes.starts_with(&super::MAGIC) && bytes.len() >= super::SEGMENT_HEADER_BYTES {
        let (header, metadata) = bytes.split_at_mut(super::SEGMENT_HEADER_BYTES);
        let at = offset_of!(SegmentHeaderBytes, metadata_bytes);
        let length =
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        let checksum = file_header_checksum(header, &metadata[..length.min(metadata.len())]).to_le_bytes();
        header[offset_of!(SegmentHeaderBytes, checksum)..].copy_from_slice(&checksum);
    }
}

/// Some parts, for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let header =
        SegmentHeader { run: RunNumber(3), number: 7, session: SessionId(9), created: Timestamp(11) };
    let hit = |time_ps| Hit { time_ps, channel: 1, value: 2, extra: 3 }.to_bytes();
    let interval = HitInterval { from_ps: 0, until_ps: 1_000 };
    let hits = [hit(5), hit(700)].concat();
    let parts = [(SourceId(1), interval, &hits[..]), (SourceId(4), interval, &[][..])];
    let (_, block) = emit_block(Timestamp(12), parts.into_iter(), Vec::new())
        .unwrap_or_else(|error| unreachable!("{error}"));
    let entry = IndexBlock { offset: 66, interval, hits: 2, sources: 2 };
    let source = IndexSource { source: SourceId(1), blocks: 1, hits: 2, interval };
    let index = emit_index(66 + block.len() as u64, &[entry], [source].into_iter())
        .unwrap_or_else(|error| unreachable!("{error}"));
    let header = header.emit("{}").unwrap_or_default();
    vec![
        ("segment".to_owned(), [&header[..], &block, &index].concat()),
        ("torn".to_owned(), block[..block.len() - 20].to_vec()),
        ("header".to_owned(), header),
        ("block".to_owned(), block),
        ("index".to_owned(), index),
    ]
}
