//! The index of a segment of a hit spool, and the footer.

use super::{
    FOOTER_MAGIC, FooterBytes, HitInterval, INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_MARKER,
    IndexBlockBytes, IndexBytes, IndexSourceBytes, MAX_BLOCK_HITS, MAX_BLOCK_SOURCES, MAX_INDEX_ENTRIES,
    parse_interval,
};
use crate::SourceId;
use crate::checksum::crc32c;
use crate::file::{FileFormatError, check, check_size, view};
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// A block in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexBlock {
    /// Where it is in the file.
    pub offset: u64,
    /// As in the block.
    pub interval: HitInterval,
    /// Number of its hits.
    pub hits: u32,
    /// Number of its sources.
    pub sources: u32,
}

/// A source in the index: its part in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSource {
    /// The source.
    pub source: SourceId,
    /// Number of blocks with this source.
    pub blocks: u32,
    /// Number of its hits.
    pub hits: u64,
    /// From the begin of its first interval to the end of its last one.
    pub interval: HitInterval,
}

/// Writes the index of a segment and the footer, which follow the blocks at `offset`.
///
/// # Errors
/// [`FileFormatError::TooLarge`] for too many blocks or sources.
pub fn emit_index(
    offset: u64,
    blocks: &[IndexBlock],
    sources: impl ExactSizeIterator<Item = IndexSource>,
) -> Result<Vec<u8>, FileFormatError> {
    check_size("blocks of an index", blocks.len() as u64, MAX_INDEX_ENTRIES.into())?;
    check_size("sources of an index", sources.len() as u64, MAX_INDEX_ENTRIES.into())?;
    let head = IndexBytes {
        marker: U32::new(INDEX_MARKER),
        blocks: U32::new(blocks.len() as u32),
        sources: U32::new(sources.len() as u32),
        reserved: U32::ZERO,
    };
    let mut bytes = head.as_bytes().to_vec();
    for block in blocks {
        let entry = IndexBlockBytes {
            offset: U64::new(block.offset),
            from_ps: U64::new(block.interval.from_ps),
            until_ps: U64::new(block.interval.until_ps),
            hits: U32::new(block.hits),
            sources: U32::new(block.sources),
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    for source in sources {
        let entry = IndexSourceBytes {
            source: U32::new(source.source.0),
            blocks: U32::new(source.blocks),
            hits: U64::new(source.hits),
            from_ps: U64::new(source.interval.from_ps),
            until_ps: U64::new(source.interval.until_ps),
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    let mut footer = FooterBytes {
        magic: FOOTER_MAGIC,
        index_offset: U64::new(offset),
        blocks: head.blocks,
        sources: head.sources,
        index_checksum: U32::new(crc32c(&bytes)),
        footer_checksum: U32::ZERO,
    };
    footer.footer_checksum = U32::new(footer_checksum(&footer));
    bytes.extend_from_slice(footer.as_bytes());
    Ok(bytes)
}

/// The footer of a closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFooter {
    /// Where the index begins.
    pub index_offset: u64,
    blocks: u32,
    sources: u32,
    index_checksum: u32,
}

impl SegmentFooter {
    /// Reads the last [`FOOTER_BYTES`](super::FOOTER_BYTES) of a file.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are not a footer: the segment was not closed, or is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileFormatError> {
        let (footer, _) = view::<FooterBytes>("footer", bytes)?;
        if footer.magic != FOOTER_MAGIC {
            return Err(FileFormatError::WrongMagic { expected: "SHEAFSPX", found: footer.magic });
        }
        check("footer", footer.footer_checksum.get(), footer_checksum(footer))?;
        check_size("blocks of an index", footer.blocks.get().into(), MAX_INDEX_ENTRIES.into())?;
        check_size("sources of an index", footer.sources.get().into(), MAX_INDEX_ENTRIES.into())?;
        Ok(Self {
            index_offset: footer.index_offset.get(),
            blocks: footer.blocks.get(),
            sources: footer.sources.get(),
            index_checksum: footer.index_checksum.get(),
        })
    }

    /// Returns the number of bytes of the index.
    #[must_use]
    pub const fn index_bytes(&self) -> usize {
        INDEX_HEADER_BYTES + (self.blocks as usize + self.sources as usize) * INDEX_ENTRY_BYTES
    }

    /// Reads the index, which is `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if it is damaged or disagrees with the footer.
    pub fn parse_index(&self, bytes: &[u8]) -> Result<(Vec<IndexBlock>, Vec<IndexSource>), FileFormatError> {
        let what = "index";
        let (need, have) = (self.index_bytes() as u64, bytes.len() as u64);
        let truncated = || FileFormatError::Truncated { what, need, have };
        if need != have {
            return Err(truncated());
        }
        check(what, self.index_checksum, crc32c(bytes))?;
        let (head, rest) = view::<IndexBytes>(what, bytes)?;
        if head.marker.get() != INDEX_MARKER {
            return Err(FileFormatError::WrongMarker { what, found: head.marker.get() });
        }
        if (head.blocks.get(), head.sources.get()) != (self.blocks, self.sources) {
            let value = u64::from(head.blocks.get());
            return Err(FileFormatError::BadValue { what, field: "blocks", value });
        }
        let (blocks, rest) = <[IndexBlockBytes]>::ref_from_prefix_with_elems(rest, self.blocks as usize)
            .map_err(|_| truncated())?;
        let sources = <[IndexSourceBytes]>::ref_from_bytes_with_elems(rest, self.sources as usize)
            .map_err(|_| truncated())?;
        let block = |entry: &IndexBlockBytes| {
            check_size("sources of a block", entry.sources.get().into(), MAX_BLOCK_SOURCES.into())?;
            check_size("hits of a block", entry.hits.get().into(), MAX_BLOCK_HITS.into())?;
            Ok(IndexBlock {
                offset: entry.offset.get(),
                interval: parse_interval(what, entry.from_ps, entry.until_ps)?,
                hits: entry.hits.get(),
                sources: entry.sources.get(),
            })
        };
        let source = |entry: &IndexSourceBytes| {
            Ok(IndexSource {
                source: SourceId(entry.source.get()),
                blocks: entry.blocks.get(),
                hits: entry.hits.get(),
                interval: parse_interval(what, entry.from_ps, entry.until_ps)?,
            })
        };
        let blocks = blocks.iter().map(block).collect::<Result<_, FileFormatError>>()?;
        Ok((blocks, sources.iter().map(source).collect::<Result<_, FileFormatError>>()?))
    }
}

fn footer_checksum(footer: &FooterBytes) -> u32 {
    crc32c(&footer.as_bytes()[..offset_of!(FooterBytes, footer_checksum)])
}
