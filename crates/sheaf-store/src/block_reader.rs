//! Reads a file in large blocks and hands out counted slices of them, so that a record is copied once, from the
//! page cache.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Small enough to stay in a core's second-level cache between the read and the checksum, and large enough that the
/// cost of a system call is negligible compared with the copy.
const BLOCK_BYTES: usize = 256 << 10;

/// Number of blocks kept for reuse. Beyond that, a block is freed with its last slice: a reader must not fail because
/// its consumer keeps fragments. Bounding those is up to the consumer.
const BLOCKS_KEPT: usize = 16;

/// Number of kept blocks that are examined before a new one is allocated.
const BLOCKS_TO_TRY: usize = 4;

/// Returns the first place from the given one on at which an input has data that was written, and not a hole; `None` where there is
/// none, or that is not known. It may move the input.
pub(crate) type DataFrom<R> = fn(&R, u64) -> Option<u64>;

/// Returns the offset of the next data in a sparse file: a file of terabytes takes no longer than its data.
pub(crate) fn data_of_file(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // Nothing but a hole up to the end.
        Err(rustix::io::Errno::NXIO) => Some(u64::MAX),
        Err(_) => None,
    }
}

/// A position in a file, and a window of bytes from there on.
#[derive(Debug)]
pub(crate) struct BlockReader<R> {
    input: R,
    data_from: Option<DataFrom<R>>,
    /// The file's size when it was opened: bytes appended later are not read.
    len: u64,
    /// Offset of `window` in the file. The input is positioned at its end.
    offset: u64,
    window: Bytes,
    /// Whole blocks, oldest first. A block without other handles can be overwritten. Blocks stay initialised, so that
    /// reading into them needs neither `unsafe` nor zeroing.
    blocks: VecDeque<Bytes>,
}

impl<R: Read + Seek> BlockReader<R> {
    /// Starts at the beginning of `input`, whose holes `data_from` knows.
    pub(crate) fn new(mut input: R, data_from: Option<DataFrom<R>>) -> io::Result<Self> {
        let len = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let (window, blocks) = (Bytes::new(), VecDeque::with_capacity(BLOCKS_KEPT));
        Ok(Self { input, data_from, len, offset: 0, window, blocks })
    }

    /// The file's size.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The current position in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes from the current position to the end of the file.
    pub(crate) fn remaining(&self) -> u64 {
        self.len.saturating_sub(self.offset)
    }

    /// Makes the window at least `bytes` long; returns `false` if the file ends before. Never allocates more than a
    /// block or the rest of the file.
    pub(crate) fn ensure(&mut self, bytes: u64) -> io::Result<bool> {
        if self.window.len() as u64 >= bytes {
            return Ok(true);
        }
        if bytes > self.remaining() {
            return Ok(false);
        }
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        self.refill(bytes)?;
        Ok(self.window.len() >= bytes)
    }

    fn refill(&mut self, need: usize) -> io::Result<()> {
        let kept = std::mem::take(&mut self.window);
        let mut block = self.block(need);
        block[..kept.len()].copy_from_slice(&kept);
        let mut filled = kept.len();
        drop(kept);
        let wanted = block.len().min(usize::try_from(self.remaining()).unwrap_or(usize::MAX));
        let mut result = Ok(());
        while filled < wanted {
            match self.input.read(&mut block[filled..wanted]) {
                Ok(0) => {
                    // The file has become shorter since it was opened.
                    self.len = self.offset + filled as u64;
                    break;
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let block = block.freeze();
        self.window = block.slice(..filled);
        if block.len() == BLOCK_BYTES {
            if self.blocks.len() == BLOCKS_KEPT {
                self.blocks.pop_front();
            }
            self.blocks.push_back(block);
        }
        result
    }

    /// An initialised block of at least `need` bytes with arbitrary content.
    fn block(&mut self, need: usize) -> BytesMut {
        if need > BLOCK_BYTES {
            return BytesMut::zeroed(need);
        }
        for _ in 0..BLOCKS_TO_TRY.min(self.blocks.len()) {
            let Some(block) = self.blocks.pop_front() else {
                break;
            };
            match block.try_into_mut() {
                Ok(block) => return block,
                Err(block) => self.blocks.push_back(block),
            }
        }
        BytesMut::zeroed(BLOCK_BYTES)
    }

    /// Bytes in memory from the current position on: at least as many as were last ensured.
    pub(crate) fn window(&self) -> &[u8] {
        &self.window
    }

    /// Takes the next `bytes` bytes, which must be ensured, without copying them.
    pub(crate) fn take(&mut self, bytes: usize) -> Bytes {
        self.offset += bytes as u64;
        self.window.split_to(bytes)
    }

    /// Goes to `offset`, without I/O where that is in the window.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        let ahead = offset.checked_sub(self.offset).and_then(|ahead| usize::try_from(ahead).ok());
        match ahead {
            Some(ahead) if ahead <= self.window.len() => {
                let _ = self.window.split_to(ahead);
            }
            _ => {
                self.window = Bytes::new();
                self.input.seek(SeekFrom::Start(offset))?;
            }
        }
        self.offset = offset;
        Ok(())
    }

    /// Moves to the next occurrence of one of `markers` at or after the current position and before `limit`; if there
    /// is none, moves to `limit` and returns `false`.
    pub(crate) fn find(&mut self, markers: &[[u8; 4]], limit: u64) -> io::Result<bool> {
        loop {
            let left = limit.saturating_sub(self.offset);
            if left < 4 || !self.ensure(4)? {
                self.seek(limit.min(self.len).max(self.offset))?;
                return Ok(false);
            }
            let window = &self.window[..self.window.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let found = window.windows(4).position(|bytes| markers.iter().any(|marker| marker == bytes));
            match found {
                Some(ahead) => {
                    self.seek(self.offset + ahead as u64)?;
                    return Ok(true);
                }
                // The last three bytes may be the start of a marker that continues in the next block.
                None if window.iter().all(|byte| *byte == 0) => self.skip_hole(limit)?,
                None => self.seek(self.offset + window.len() as u64 - 3)?,
            }
        }
    }

    /// Skips the window, which contains only zeros, and the hole that it may be part of.
    fn skip_hole(&mut self, limit: u64) -> io::Result<()> {
        let behind = self.offset + self.window.len() as u64;
        let Some(data) = self.data_from.and_then(|data_from| data_from(&self.input, behind)) else {
            return self.seek(behind);
        };
        let place = data.clamp(behind, limit.min(self.len).max(behind));
        self.window = Bytes::new();
        self.input.seek(SeekFrom::Start(place))?;
        self.offset = place;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
