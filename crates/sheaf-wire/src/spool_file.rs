//! The byte layout of a segment of a hit spool: hits of many sources, in blocks of consecutive times.
//! `docs/reference/spool.md` describes how to read one.
//!
//! A segment is a [`SegmentHeaderBytes`], the metadata (a JSON object, opaque here), then blocks: a [`BlockBytes`], one
//! [`BlockSourceBytes`] for each source, and the hits of these sources in the same order. A closed segment ends with an index
//! (an [`IndexBytes`], an [`IndexBlockBytes`] for each block, an [`IndexSourceBytes`] for each source) and a [`FooterBytes`].

pub mod fuzz;
mod index;

pub use index::{IndexBlock, IndexSource, SegmentFooter, emit_index};

use crate::checksum::{crc32c, crc32c_append};
use crate::file::{FileFormatError, MAX_METADATA_BYTES};
use crate::file::{
    check, check_size, check_start, file_header_checksum, metadata_length, metadata_of, metadata_text, view,
};
use crate::hit::HIT_BYTES;
use crate::interval::HitInterval;
use crate::message::layout::layout;
use crate::{RunNumber, SessionId, SourceId, Timestamp};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of a segment.
pub const MAGIC: [u8; 8] = *b"SHEAFSP\0";
/// The version of the format. A reader refuses every other.
pub const VERSION: u16 = 1;
/// The extension of the file's name.
pub const EXTENSION: &str = "spool";
/// The first four bytes of a block, `"SPBK"` in the file.
pub const BLOCK_MARKER: u32 = u32::from_le_bytes(*b"SPBK");
/// The first four bytes of the index, `"SPIX"` in the file.
pub const INDEX_MARKER: u32 = u32::from_le_bytes(*b"SPIX");
/// The first eight bytes of the footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"SHEAFSPX";
/// Bytes of the segment header before the metadata.
pub const SEGMENT_HEADER_BYTES: usize = size_of::<SegmentHeaderBytes>();
/// Bytes of a block before its sources.
pub const BLOCK_HEADER_BYTES: usize = size_of::<BlockBytes>();
/// Bytes of a source of a block.
pub const BLOCK_SOURCE_BYTES: usize = size_of::<BlockSourceBytes>();
/// Bytes of the index before its blocks.
pub const INDEX_HEADER_BYTES: usize = size_of::<IndexBytes>();
/// Bytes of a block or a source in the index.
pub const INDEX_ENTRY_BYTES: usize = size_of::<IndexBlockBytes>();
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = size_of::<FooterBytes>();
/// Maximum number of sources in a block.
pub const MAX_BLOCK_SOURCES: u32 = 1 << 20;
/// Maximum number of hits in a block.
pub const MAX_BLOCK_HITS: u32 = 1 << 26;
/// Maximum number of blocks, and of sources, in an index.
pub const MAX_INDEX_ENTRIES: u32 = 1 << 24;

layout! {
    /// The start of a segment, 64 bytes; the metadata follows.
    SegmentHeaderBytes[64] {
        /// Offset 0: `"SHEAFSP\0"`.
        magic: [u8; 8],
        /// Offset 8: [`VERSION`].
        version: U16,
        /// Offset 10: zero.
        flags: U16,
        /// Offset 12: run number.
        run: U32,
        /// Offset 16: number of the segment in its spool, ascending.
        number: U64,
        /// Offset 24: session of the recording: its start, ns since 1970. Each session has a timeline of its own.
        session: U64,
        /// Offset 32: when the segment was begun, ns since 1970.
        created: U64,
        /// Offset 40: bytes of the metadata that follows this header.
        metadata_bytes: U32,
        /// Offset 44: zero.
        reserved: [u8; 16],
        /// Offset 60: CRC-32C of this header with this field zero, continued over the metadata.
        checksum: U32,
    }
}

layout! {
    /// The start of a block, 48 bytes; its sources and their hits follow.
    BlockBytes[48] {
        /// Offset 0: [`BLOCK_MARKER`].
        marker: U32,
        /// Offset 4: number of sources that follow.
        sources: U32,
        /// Offset 8: number of hits of all of them.
        hits: U32,
        /// Offset 12: CRC-32C of the sources that follow.
        sources_checksum: U32,
        /// Offset 16: first moment for which the block has hits of some source, ps.
        from_ps: U64,
        /// Offset 24: end of the last such interval, exclusive, ps.
        until_ps: U64,
        /// Offset 32: when the block was made, ns since 1970.
        written: U64,
        /// Offset 40: zero.
        reserved: U32,
        /// Offset 44: CRC-32C of the 44 bytes before.
        header_checksum: U32,
    }
}

layout! {
    /// A source of a block, 32 bytes: its hits in an interval are all in the block.
    BlockSourceBytes[32] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: number of its hits.
        hits: U32,
        /// Offset 8: begin of the interval, ps.
        from_ps: U64,
        /// Offset 16: end of the interval, exclusive, ps.
        until_ps: U64,
        /// Offset 24: CRC-32C of its hits.
        checksum: U32,
        /// Offset 28: zero.
        reserved: U32,
    }
}

layout! {
    /// The start of the index, 16 bytes.
    IndexBytes[16] {
        /// Offset 0: [`INDEX_MARKER`].
        marker: U32,
        /// Offset 4: number of blocks.
        blocks: U32,
        /// Offset 8: number of sources.
        sources: U32,
        /// Offset 12: zero.
        reserved: U32,
    }
}

layout! {
    /// A block in the index, 32 bytes.
    IndexBlockBytes[32] {
        /// Offset 0: where it is in the file.
        offset: U64,
        /// Offset 8: as in the block.
        from_ps: U64,
        /// Offset 16: as in the block.
        until_ps: U64,
        /// Offset 24: as in the block.
        hits: U32,
        /// Offset 28: as in the block.
        sources: U32,
    }
}

layout! {
    /// A source in the index, 32 bytes: its part in the segment.
    IndexSourceBytes[32] {
        /// Offset 0: source id.
        source: U32,
        /// Offset 4: number of blocks with this source.
        blocks: U32,
        /// Offset 8: number of its hits.
        hits: U64,
        /// Offset 16: begin of its first interval, ps.
        from_ps: U64,
        /// Offset 24: end of its last interval, exclusive, ps.
        until_ps: U64,
    }
}

layout! {
    /// The end of a closed segment, 32 bytes.
    FooterBytes[32] {
        /// Offset 0: `"SHEAFSPX"`.
        magic: [u8; 8],
        /// Offset 8: where the index begins.
        index_offset: U64,
        /// Offset 16: number of blocks in the index.
        blocks: U32,
        /// Offset 20: number of sources in the index.
        sources: U32,
        /// Offset 24: CRC-32C of the index.
        index_checksum: U32,
        /// Offset 28: CRC-32C of the 28 bytes before.
        footer_checksum: U32,
    }
}

/// Reads an interval whose end is not before its begin.
fn parse_interval(what: &'static str, from_ps: U64, until_ps: U64) -> Result<HitInterval, FileFormatError> {
    let interval = HitInterval { from_ps: from_ps.get(), until_ps: until_ps.get() };
    if interval.from_ps > interval.until_ps {
        return Err(FileFormatError::BadValue { what, field: "until_ps", value: interval.until_ps });
    }
    Ok(interval)
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The run.
    pub run: RunNumber,
    /// Number of the segment in its spool.
    pub number: u64,
    /// Session of the recording.
    pub session: SessionId,
    /// When it was begun, since 1970.
    pub created: Timestamp,
}

impl SegmentHeader {
    /// The segment header followed by the metadata, a JSON object as text.
    ///
    /// # Errors
    /// [`FileFormatError::TooLarge`] for metadata beyond [`MAX_METADATA_BYTES`].
    pub fn emit(&self, metadata: &str) -> Result<Vec<u8>, FileFormatError> {
        check_size("metadata", metadata.len() as u64, u64::from(MAX_METADATA_BYTES))?;
        let mut header = SegmentHeaderBytes {
            magic: MAGIC,
            version: U16::new(VERSION),
            flags: U16::ZERO,
            run: U32::new(self.run.0),
            number: U64::new(self.number),
            session: U64::new(self.session.0),
            created: U64::new(self.created.0),
            metadata_bytes: U32::new(metadata.len() as u32),
            reserved: [0; 16],
            checksum: U32::ZERO,
        };
        header.checksum = U32::new(file_header_checksum(header.as_bytes(), metadata.as_bytes()));
        Ok([header.as_bytes(), metadata.as_bytes()].concat())
    }

    /// Checks the first [`SEGMENT_HEADER_BYTES`] of a file as far as possible and returns the number of bytes of metadata that
    /// follow.
    ///
    /// # Errors
    /// A [`FileFormatError`] if the bytes are not the start of a segment of this version.
    pub fn metadata_bytes(bytes: &[u8]) -> Result<usize, FileFormatError> {
        let (header, _) = view::<SegmentHeaderBytes>("segment header", bytes)?;
        check_start(("SHEAFSP\0", header.magic), header.version.get(), VERSION..=VERSION)?;
        metadata_length(header.metadata_bytes.get())
    }

    /// Reads the segment header and the metadata from the first bytes of a file.
    ///
    /// # Errors
    /// A [`FileFormatError`] with the defect.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &str), FileFormatError> {
        let length = Self::metadata_bytes(bytes)?;
        let (header, rest) = view::<SegmentHeaderBytes>("segment header", bytes)?;
        let metadata = metadata_of(rest, length)?;
        let computed = file_header_checksum(header.as_bytes(), metadata);
        check("segment header", header.checksum.get(), computed)?;
        if header.flags.get() != 0 {
            let value = u64::from(header.flags.get());
            return Err(FileFormatError::BadValue { what: "segment header", field: "flags", value });
        }
        let parsed = Self {
            run: RunNumber(header.run.get()),
            number: header.number.get(),
            session: SessionId(header.session.get()),
            created: Timestamp(header.created.get()),
        };
        Ok((parsed, metadata_text(metadata)?))
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Number of its sources.
    pub sources: u32,
    /// Number of its hits.
    pub hits: u32,
    /// CRC-32C of its sources.
    pub sources_checksum: u32,
    /// From the begin of the first interval of a source to the end of the last one.
    pub interval: HitInterval,
    /// When it was made, since 1970.
    pub written: Timestamp,
}

impl BlockHeader {
    /// The block's first bytes.
    #[must_use]
    pub fn emit(&self) -> BlockBytes {
        let mut bytes = BlockBytes {
            marker: U32::new(BLOCK_MARKER),
            sources: U32::new(self.sources),
            hits: U32::new(self.hits),
            sources_checksum: U32::new(self.sources_checksum),
            from_ps: U64::new(self.interval.from_ps),
            until_ps: U64::new(self.interval.until_ps),
            written: U64::new(self.written.0),
            reserved: U32::ZERO,
            header_checksum: U32::ZERO,
        };
        bytes.header_checksum = U32::new(block_checksum(&bytes));
        bytes
    }

    /// Reads the first [`BLOCK_HEADER_BYTES`] of `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are not a block's header: the reader then searches for the next one.
    pub fn parse(bytes: &[u8]) -> Result<Self, FileFormatError> {
        let (block, _) = view::<BlockBytes>("block header", bytes)?;
        if block.marker.get() != BLOCK_MARKER {
            return Err(FileFormatError::WrongMarker { what: "block", found: block.marker.get() });
        }
        check("block header", block.header_checksum.get(), block_checksum(block))?;
        check_size("sources of a block", block.sources.get().into(), MAX_BLOCK_SOURCES.into())?;
        check_size("hits of a block", block.hits.get().into(), MAX_BLOCK_HITS.into())?;
        Ok(Self {
            sources: block.sources.get(),
            hits: block.hits.get(),
            sources_checksum: block.sources_checksum.get(),
            interval: parse_interval("block header", block.from_ps, block.until_ps)?,
            written: Timestamp(block.written.get()),
        })
    }

    /// Returns the number of bytes of the sources that follow the header.
    #[must_use]
    pub const fn sources_bytes(&self) -> usize {
        self.sources as usize * BLOCK_SOURCE_BYTES
    }

    /// Returns the number of bytes of the whole block.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        (BLOCK_HEADER_BYTES + self.sources_bytes()) as u64 + self.hits as u64 * HIT_BYTES as u64
    }

    /// Reads the block's sources, which are the first [`Self::sources_bytes`] of `bytes`.
    ///
    /// # Errors
    /// A [`FileFormatError`] if they are damaged or disagree with the header.
    pub fn parse_sources(&self, bytes: &[u8]) -> Result<Vec<BlockSource>, FileFormatError> {
        let what = "sources of a block";
        let (need, have) = (self.sources_bytes() as u64, bytes.len() as u64);
        let bytes = bytes.get(..self.sources_bytes());
        let bytes = bytes.ok_or(FileFormatError::Truncated { what, need, have })?;
        check(what, self.sources_checksum, crc32c(bytes))?;
        let entries = <[BlockSourceBytes]>::ref_from_bytes(bytes);
        let entries = entries.map_err(|_| FileFormatError::Truncated { what, need, have })?;
        let mut sources = Vec::with_capacity(entries.len());
        let mut hits = 0_u64;
        for entry in entries {
            let interval = parse_interval(what, entry.from_ps, entry.until_ps)?;
            hits += u64::from(entry.hits.get());
            if interval.hull(self.interval) != self.interval {
                return Err(FileFormatError::BadValue { what, field: "from_ps", value: interval.from_ps });
            }
            sources.push(BlockSource {
                source: SourceId(entry.source.get()),
                hits: entry.hits.get(),
                interval,
                checksum: entry.checksum.get(),
            });
        }
        if hits != u64::from(self.hits) {
            return Err(FileFormatError::BadValue { what, field: "hits", value: hits });
        }
        Ok(sources)
    }
}

fn block_checksum(block: &BlockBytes) -> u32 {
    crc32c(&block.as_bytes()[..offset_of!(BlockBytes, header_checksum)])
}

/// A source of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSource {
    /// The source.
    pub source: SourceId,
    /// Number of its hits in the block.
    pub hits: u32,
    /// Interval whose hits are all in the block.
    pub interval: HitInterval,
    /// CRC-32C of the hits.
    pub checksum: u32,
}

impl BlockSource {
    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> BlockSourceBytes {
        BlockSourceBytes {
            source: U32::new(self.source.0),
            hits: U32::new(self.hits),
            from_ps: U64::new(self.interval.from_ps),
            until_ps: U64::new(self.interval.until_ps),
            checksum: U32::new(self.checksum),
            reserved: U32::ZERO,
        }
    }
}

/// Makes a block of sources and their hits, each a whole number of hits in order of time. The memory of `buffer` is used again; its
/// content is replaced.
///
/// # Errors
/// [`FileFormatError::TooLarge`] for too many sources or hits.
pub fn emit_block<'a>(
    written: Timestamp,
    sources: impl Iterator<Item = (SourceId, HitInterval, &'a [u8])> + Clone,
    buffer: Vec<u8>,
) -> Result<(BlockHeader, Vec<u8>), FileFormatError> {
    let count = sources.clone().count();
    let payload: usize = sources.clone().map(|(_, _, hits)| hits.len()).sum();
    check_size("sources of a block", count as u64, MAX_BLOCK_SOURCES.into())?;
    check_size("hits of a block", (payload / HIT_BYTES) as u64, MAX_BLOCK_HITS.into())?;
    let mut bytes = buffer;
    bytes.clear();
    bytes.reserve(BLOCK_HEADER_BYTES + count * BLOCK_SOURCE_BYTES + payload);
    bytes.resize(BLOCK_HEADER_BYTES, 0);
    let mut interval: Option<HitInterval> = None;
    for (source, of_source, hits) in sources.clone() {
        interval = Some(interval.map_or(of_source, |interval| interval.hull(of_source)));
        let hits_count = (hits.len() / HIT_BYTES) as u32;
        let entry = BlockSource { source, hits: hits_count, interval: of_source, checksum: crc32c(hits) };
        bytes.extend_from_slice(entry.emit().as_bytes());
    }
    let header = BlockHeader {
        sources: count as u32,
        hits: (payload / HIT_BYTES) as u32,
        sources_checksum: crc32c_append(0, &bytes[BLOCK_HEADER_BYTES..]),
        interval: interval.unwrap_or(HitInterval { from_ps: 0, until_ps: 0 }),
        written,
    };
    bytes[..BLOCK_HEADER_BYTES].copy_from_slice(header.emit().as_bytes());
    for (_, _, hits) in sources {
        bytes.extend_from_slice(hits);
    }
    Ok((header, bytes))
}

#[cfg(test)]
mod tests;
