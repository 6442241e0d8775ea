//! Memory for frames that arrive in parts.

use bytes::{Bytes, BytesMut};
use sheaf_buffer::Pool;

/// Frames up to this size get memory of their own: one that is kept for long does not hold a block.
const SMALL_BYTES: usize = 256;

/// The memory: a bounded pool of blocks, and the block that frames are begun in.
#[derive(Debug)]
pub(super) struct Shelf {
    pool: Pool,
    current: Option<BytesMut>,
    /// The last frame that needed a block did not get one.
    is_starved: bool,
    starvations: u64,
    bytes_begun: u64,
}

/// A frame that is being put together.
#[derive(Debug)]
pub(super) struct Parts {
    /// Bytes from the start of the message, with zeros in place of missing ones.
    bytes: BytesMut,
}

impl Shelf {
    pub(super) fn new(block_bytes: usize, blocks: usize) -> Self {
        let pool = Pool::new(block_bytes, blocks);
        Self { pool, current: None, is_starved: false, starvations: 0, bytes_begun: 0 }
    }

    /// Allocates memory for a frame of `bytes` bytes.
    pub(super) fn begin(&mut self, bytes: usize) -> Parts {
        self.bytes_begun += bytes as u64;
        if bytes <= SMALL_BYTES || bytes > self.pool.block_bytes() {
            return Parts { bytes: BytesMut::with_capacity(bytes) };
        }
        if !self.make_room(bytes) {
            self.starvations += u64::from(!self.is_starved);
            self.is_starved = true;
            return Parts { bytes: BytesMut::with_capacity(bytes) };
        }
        let Some(block) = &mut self.current else { return Parts { bytes: BytesMut::with_capacity(bytes) } };
        let rest = block.split_off(bytes);
        Parts { bytes: std::mem::replace(block, rest) }
    }

    /// Makes sure that the present block has room.
    fn make_room(&mut self, bytes: usize) -> bool {
        let has_room = |block: &BytesMut| block.capacity() >= bytes;
        if !self.current.as_ref().is_some_and(has_room) {
            if let Some(block) = self.current.take() {
                self.pool.give_back(block);
            }
            self.current = self.pool.take();
        }
        self.current.as_ref().is_some_and(has_room)
    }

    /// Returns whether a frame did not get a block, and none was free since.
    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Returns whether there is a free block.
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.make_room(self.pool.block_bytes());
        self.is_starved &= !has_room;
        has_room
    }

    /// Returns the number of times that all blocks were in use when one was needed.
    pub(super) fn starvations(&self) -> u64 {
        self.starvations
    }

    /// Bytes that were copied from a port's memory.
    pub(super) fn bytes_copied(&self) -> u64 {
        self.bytes_begun
    }
}

impl Parts {
    /// Copies bytes to their place.
    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) {
        if self.bytes.len() <= offset {
            // Mostly parts come in order, and nothing is filled up.
            self.bytes.resize(offset, 0);
            self.bytes.extend_from_slice(bytes);
            return;
        }
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    /// The frame.
    pub(super) fn finish(self) -> Bytes {
        self.bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_share_blocks_and_a_block_is_used_again_when_all_are_dropped() {
        let mut shelf = Shelf::new(4096, 2);
        for round in 0..100_u8 {
            let mut frames: Vec<Parts> = (0..4).map(|_| shelf.begin(1000)).collect();
            for frame in &mut frames {
                frame.put(500, &[round; 500]);
                frame.put(0, &[round; 500]);
            }
            for frame in frames {
                assert_eq!(frame.finish(), [round; 1000].as_slice());
            }
        }
        assert_eq!(shelf.starvations(), 0);
        assert!(shelf.pool.allocated_bytes() <= 2 * 4096);
    }

    #[test]
    fn without_a_block_a_frame_gets_memory_of_its_own_and_that_is_told() {
        let mut shelf = Shelf::new(4096, 1);
        let mut held = shelf.begin(4096);
        held.put(0, &[1; 4096]);
        assert!(!shelf.is_starved());
        let mut other = shelf.begin(3000);
        other.put(0, &[2; 3000]);
        assert!(shelf.is_starved() && !shelf.has_room());
        assert_eq!(other.finish(), [2; 3000].as_slice());
        drop(held.finish());
        assert!(shelf.has_room() && !shelf.is_starved());
        assert_eq!(shelf.starvations(), 1);
    }

    #[test]
    fn small_and_very_large_frames_take_no_block() {
        let mut shelf = Shelf::new(4096, 1);
        for bytes in [0, 1, 256, 4097, 100_000] {
            let mut frame = shelf.begin(bytes);
            frame.put(0, &vec![3; bytes]);
            assert_eq!(frame.finish(), vec![3; bytes]);
        }
        assert_eq!(shelf.pool.allocated_bytes(), 0);
    }
}
