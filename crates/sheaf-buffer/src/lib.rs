//! A bounded pool of memory blocks.
//!
//! | item | purpose |
//! |---|---|
//! | [`Pool`] | manages the blocks and reuses free ones |
//! | [`Memory`], [`Block`] | allocation of blocks: on the [`Heap`], or in memory that a transport shares with other processes |
//! | [`prefetch`] | hints to the processor for writing into blocks |
//!
//! Deliberately not part of this crate: sharing memory, mapping files, counting bytes. A pool only manages blocks.
//!
//! A block is written once, front to back, and handed out in slices ([`bytes::Bytes`]) that share it without
//! copying. When the last slice is dropped, on any thread, the block can be written again. So a running system reuses the
//! same memory: fresh pages cost ten times more than warm ones.
//!
//! ```
//! let mut pool = sheaf_buffer::Pool::new(64 << 10, 2);
//! let mut block = pool.take().expect("the pool is new");
//! block.extend_from_slice(b"a fragment");
//! let fragment: bytes::Bytes = block.split().freeze();
//! pool.give_back(block);
//! assert_eq!(&fragment[..], b"a fragment");
//! ```

mod memory;
pub mod prefetch;

pub use memory::{Block, Heap, Memory};

use std::collections::VecDeque;

/// Number of returned blocks that one [`Pool::take`] examines before it allocates or gives up: first the latest ones,
/// then the earliest.
const BLOCKS_TO_TRY: (usize, usize) = (16, 8);

/// A bounded pool of equal blocks. Its memory never exceeds `block_bytes * max_blocks`.
#[derive(Debug)]
pub struct Pool<M: Memory = Heap> {
    memory: M,
    block_bytes: usize,
    max_blocks: usize,
    allocated: usize,
    /// Blocks given back, oldest first. Some may still have live slices.
    returned: VecDeque<M::Block>,
}

impl Pool {
    /// Creates a pool of at most `max_blocks` blocks of `block_bytes` bytes on the heap. Blocks are allocated when first needed.
    #[must_use]
    pub fn new(block_bytes: usize, max_blocks: usize) -> Self {
        Self::with_memory(Heap, block_bytes, max_blocks)
    }
}

impl<M: Memory> Pool<M> {
    /// Creates a pool as [`Pool::new`], with blocks from `memory`, which may limit the pool to fewer than `max_blocks`.
    #[must_use]
    pub fn with_memory(memory: M, block_bytes: usize, max_blocks: usize) -> Self {
        // The bound may be generous, so the initial capacity is that of an ordinary pool.
        let returned = VecDeque::with_capacity(max_blocks.min(1024));
        Self { memory, block_bytes, max_blocks, allocated: 0, returned }
    }

    /// Returns an empty block with room for [`Pool::block_bytes`], or `None` while all blocks are lent out or still have
    /// live slices. This is the caller's back-pressure.
    pub fn take(&mut self) -> Option<M::Block> {
        // The block that was returned last is the most likely to be in the cache. If many blocks are in use, the free ones
        // are among the earliest; several of these are examined, so that one long-lived slice does not hide free blocks
        // behind it.
        let returned = self.returned.len();
        for place in (returned.saturating_sub(BLOCKS_TO_TRY.0)..returned).rev() {
            if self.returned[place].reclaim(self.block_bytes) {
                return self.returned.remove(place);
            }
        }
        for _ in 0..BLOCKS_TO_TRY.1.min(returned.saturating_sub(BLOCKS_TO_TRY.0)) {
            let mut block = self.returned.pop_front()?;
            if block.reclaim(self.block_bytes) {
                return Some(block);
            }
            self.returned.push_back(block);
        }
        if self.allocated < self.max_blocks {
            let block = self.memory.allocate(self.block_bytes)?;
            self.allocated += 1;
            return Some(block);
        }
        None
    }

    /// Gives back a block after its slices were split off.
    pub fn give_back(&mut self, block: M::Block) {
        self.returned.push_back(block);
    }

    /// Returns the size of one block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the amount of memory that the pool currently holds.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.allocated * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_reused_only_after_its_last_slice_is_dropped() {
        let mut pool = Pool::new(1024, 1);
        let mut block = pool.take().unwrap();
        block.extend_from_slice(&[7; 100]);
        let slice = block.split().freeze();
        let address = slice.as_ptr();
        pool.give_back(block);
        assert!(pool.take().is_none(), "the only block has a live slice");
        assert_eq!(&slice[..], &[7; 100]);
        drop(slice);
        let again = pool.take().unwrap();
        assert_eq!(again.as_ptr(), address, "the same memory");
        assert!(again.capacity() >= 1024 && again.is_empty());
        assert_eq!(pool.allocated_bytes(), 1024);
    }

    #[test]
    fn a_long_lived_slice_does_not_hide_free_blocks() {
        let mut pool = Pool::new(64, 3);
        let mut kept = None;
        for round in 0..3 {
            let mut block = pool.take().unwrap();
            block.extend_from_slice(&[round; 8]);
            let slice = block.split().freeze();
            kept.get_or_insert(slice);
            pool.give_back(block);
        }
        for _ in 0..100 {
            let block = pool.take().expect("two of three blocks are free");
            pool.give_back(block);
        }
        assert_eq!(kept.unwrap()[0], 0);
    }
}
