//! Contents of a segment: from its index, or, if it was not closed, by reading all of it.

use crate::catalog::SegmentContent;
use rustix::fs::{FlockOperation, flock};
use sheaf_store::regular;
use sheaf_wire::checksum::crc32c;
use sheaf_wire::file::FileFormatError;
use sheaf_wire::hit::HIT_BYTES;
use sheaf_wire::spool_file::{
    BLOCK_HEADER_BYTES, BLOCK_MARKER, BLOCK_SOURCE_BYTES, BlockHeader, FOOTER_BYTES, INDEX_MARKER,
    IndexBlock, SEGMENT_HEADER_BYTES, SegmentFooter, SegmentHeader, emit_index,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of bytes read at a time in the search for a block behind damage.
const SEARCH_BYTES: usize = 1 << 20;

/// Reason why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The operating system refused.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The header is not that of a segment.
    #[error("{path} is not a segment of a hit spool: {error}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Description.
        #[source]
        error: FileFormatError,
    },
}

/// Defects of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentDamage {
    /// Whether it has no index: its writer was killed, or its disk was full.
    pub unfinished: bool,
    /// Bytes at its end that are no whole block.
    pub torn_bytes: u64,
    /// Bytes before its end that are in no valid block.
    pub skipped_bytes: u64,
    /// Blocks with hits of a wrong checksum.
    pub damaged_blocks: u64,
}

/// Reads what a segment has.
///
/// # Errors
/// A [`SegmentError`] if it cannot be read, or is no segment.
pub fn read_segment(path: &Path) -> Result<(SegmentContent, SegmentDamage), SegmentError> {
    let io = |error| SegmentError::Io { path: path.to_owned(), error };
    let format = |error| SegmentError::Format { path: path.to_owned(), error };
    let file = regular::open(path).map_err(io)?;
    let size = file.metadata().map_err(io)?.len();
    let mut header = read_at(&file, 0, SEGMENT_HEADER_BYTES).map_err(io)?;
    let metadata = SegmentHeader::metadata_bytes(&header).map_err(format)?;
    if metadata as u64 <= size {
        header.extend(read_at(&file, SEGMENT_HEADER_BYTES as u64, metadata).map_err(io)?);
    }
    let start = header.len() as u64;
    let (header, metadata) = SegmentHeader::parse(&header).map_err(format)?;
    let mut content = SegmentContent::new(header, metadata.to_owned(), start);
    if read_index(&file, size, &mut content).map_err(io)? {
        return Ok((content, SegmentDamage::default()));
    }
    let damage = scan(&file, start..size, &mut content, true).map_err(io)?;
    Ok((content, SegmentDamage { unfinished: true, ..damage }))
}

/// Reads all blocks of a segment, closed or not, and checks all checksums.
///
/// # Errors
/// A [`SegmentError`] if it cannot be read, or is no segment.
pub fn verify_segment(path: &Path) -> Result<(SegmentContent, SegmentDamage), SegmentError> {
    let (mut content, damage) = read_segment(path)?;
    if damage.unfinished {
        return Ok((content, damage));
    }
    let io = |error| SegmentError::Io { path: path.to_owned(), error };
    let file = regular::open(path).map_err(io)?;
    let start = SEGMENT_HEADER_BYTES as u64 + content.metadata.len() as u64;
    let mut found = SegmentContent::new(content.header, String::new(), start);
    let damage = scan(&file, start..content.bytes, &mut found, true).map_err(io)?;
    content.blocks = found.blocks;
    Ok((content, damage))
}

/// Reads at most so many bytes at a place.
pub(crate) fn read_at(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    let mut have = 0;
    while have < bytes {
        match file.read_at(&mut buffer[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(have);
    Ok(buffer)
}

/// Reads the index of a segment. Returns `false` if there is none, or it is damaged.
fn read_index(file: &File, size: u64, content: &mut SegmentContent) -> io::Result<bool> {
    let Some(at) = size.checked_sub(FOOTER_BYTES as u64) else { return Ok(false) };
    let Ok(footer) = SegmentFooter::parse(&read_at(file, at, FOOTER_BYTES)?) else { return Ok(false) };
    let index_bytes = footer.index_bytes();
    if footer.index_offset.checked_add(index_bytes as u64) != Some(at) {
        return Ok(false);
    }
    let Ok((blocks, sources)) = footer.parse_index(&read_at(file, footer.index_offset, index_bytes)?) else {
        return Ok(false);
    };
    // An index that leads out of the segment is no index.
    let start = content.bytes;
    let is_within = |block: &IndexBlock| {
        let end = block.offset.checked_add(block_bytes(block));
        block.offset >= start && end.is_some_and(|end| end <= footer.index_offset)
    };
    if !blocks.iter().all(is_within) {
        return Ok(false);
    }
    content.interval = blocks.iter().map(|block| block.interval).reduce(|one, other| one.hull(other));
    content.blocks = blocks;
    content.sources = sources.into_iter().map(|part| (part.source, part)).collect();
    content.bytes = footer.index_offset;
    Ok(true)
}

/// Returns the size of a block in the index.
pub(crate) const fn block_bytes(block: &IndexBlock) -> u64 {
    let head = BLOCK_HEADER_BYTES as u64 + block.sources as u64 * BLOCK_SOURCE_BYTES as u64;
    head + block.hits as u64 * HIT_BYTES as u64
}

/// Reads the blocks in a range of a segment. Those with damaged hits are counted, and left out of the content.
fn scan(
    file: &File,
    range: std::ops::Range<u64>,
    content: &mut SegmentContent,
    check_hits: bool,
) -> io::Result<SegmentDamage> {
    let mut damage = SegmentDamage::default();
    let (mut at, mut skipped) = (range.start, 0);
    while at < range.end {
        match read_block(file, at, range.end, check_hits)? {
            ScannedBlock::Good(header, sources) => {
                damage.skipped_bytes += std::mem::take(&mut skipped);
                let entry = IndexBlock {
                    offset: at,
                    interval: header.interval,
                    hits: header.hits,
                    sources: header.sources,
                };
                let parts: Vec<_> =
                    sources.iter().map(|part| (part.source, part.interval, part.hits)).collect();
                content.add(entry, &parts);
                at += header.total_bytes();
                content.bytes = at;
            }
            ScannedBlock::Damaged(bytes) => {
                damage.skipped_bytes += std::mem::take(&mut skipped);
                damage.damaged_blocks += 1;
                at += bytes;
                content.bytes = at;
            }
            // A part of the index that was not finished.
            ScannedBlock::Index if skipped == 0 => break,
            ScannedBlock::Index | ScannedBlock::None => {
                let next = search(file, at + 1, range.end)?;
                skipped += next - at;
                at = next;
            }
        }
    }
    damage.torn_bytes = range.end - content.bytes;
    Ok(damage)
}

enum ScannedBlock {
    Good(BlockHeader, Vec<sheaf_wire::spool_file::BlockSource>),
    /// Its length is known, and its hits or sources are damaged.
    Damaged(u64),
    Index,
    None,
}

fn read_block(file: &File, at: u64, end: u64, check_hits: bool) -> io::Result<ScannedBlock> {
    let head = read_at(file, at, BLOCK_HEADER_BYTES)?;
    if head.starts_with(&INDEX_MARKER.to_le_bytes()) {
        return Ok(ScannedBlock::Index);
    }
    let Ok(header) = BlockHeader::parse(&head) else { return Ok(ScannedBlock::None) };
    if header.total_bytes() > end - at {
        return Ok(ScannedBlock::None);
    }
    let place = at + BLOCK_HEADER_BYTES as u64;
    let Ok(sources) = header.parse_sources(&read_at(file, place, header.sources_bytes())?) else {
        return Ok(ScannedBlock::Damaged(header.total_bytes()));
    };
    if check_hits {
        let hits = read_at(file, place + header.sources_bytes() as u64, header.hits as usize * HIT_BYTES)?;
        let mut rest = &hits[..];
        for source in &sources {
            let Some((own, others)) = rest.split_at_checked(source.hits as usize * HIT_BYTES) else {
                return Ok(ScannedBlock::None);
            };
            if crc32c(own) != source.checksum {
                return Ok(ScannedBlock::Damaged(header.total_bytes()));
            }
            rest = others;
        }
    }
    Ok(ScannedBlock::Good(header, sources))
}

/// Returns the place of the next valid block header, or the end. Each byte is read about once, whatever they are.
fn search(file: &File, mut from: u64, end: u64) -> io::Result<u64> {
    let marker = BLOCK_MARKER.to_le_bytes();
    while end.saturating_sub(from) >= BLOCK_HEADER_BYTES as u64 {
        let wanted = usize::try_from(end - from).unwrap_or(usize::MAX).min(SEARCH_BYTES);
        let bytes = read_at(file, from, wanted)?;
        if bytes.len() < BLOCK_HEADER_BYTES {
            break;
        }
        // A header that begins in the last bytes is found in the next round.
        let places = bytes.len() - BLOCK_HEADER_BYTES + 1;
        let is_block =
            |at: &usize| bytes[*at..].starts_with(&marker) && BlockHeader::parse(&bytes[*at..]).is_ok();
        if let Some(at) = (0..places).find(is_block) {
            return Ok(from + at as u64);
        }
        from += places as u64;
    }
    Ok(end)
}

/// Cuts a segment that was not closed after its last whole block, and writes its index.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn repair(path: &Path, content: &SegmentContent) -> io::Result<u64> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.set_len(content.bytes)?;
    let index = emit_index(
        content.bytes,
        &content.blocks,
        content.sources.values().copied().collect::<Vec<_>>().into_iter(),
    );
    let index = index.map_err(io::Error::other)?;
    file.write_all(&index)?;
    file.sync_data()?;
    Ok(content.bytes + index.len() as u64)
}

/// Name of the file that the process of a spool keeps locked.
pub(crate) const LOCK_NAME: &str = "spool.lock";

/// Locks a spool. `None`: another process has it.
pub(crate) fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(directory.join(LOCK_NAME))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        // A file system without locks is used without.
        Err(rustix::io::Errno::NOLCK | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            Ok(Some(file))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a process is recording into a spool.
#[must_use]
pub fn is_recording(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(LOCK_NAME)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
}
