//! Fragments written one after another into the blocks of a pool.

use bytes::Bytes;
use sheaf_buffer::{Block, Memory, Pool};

/// Cuts fragments from pool blocks. A fragment never spans two blocks: the rest at the end of one is unused until the
/// block is used again.
#[derive(Debug)]
pub struct BlockWriter<M: Memory> {
    pool: Pool<M>,
    block: Option<M::Block>,
}

impl<M: Memory> BlockWriter<M> {
    /// Returns a writer into the blocks of `pool`.
    #[must_use]
    pub fn new(pool: Pool<M>) -> Self {
        Self { pool, block: None }
    }

    /// Returns a block with room for `bytes` more bytes, which must not exceed the pool's block size; `None` while the
    /// pool has no free block. Appended bytes become a fragment with [`BlockWriter::cut`].
    pub fn room_for(&mut self, bytes: usize) -> Option<&mut M::Block> {
        debug_assert!(bytes <= self.pool.block_bytes(), "{bytes} bytes never fit a block");
        if self.block.as_ref().is_none_or(|block| block.room() < bytes) {
            if let Some(full) = self.block.take() {
                self.pool.give_back(full);
            }
            self.block = self.pool.take();
        }
        self.block.as_mut()
    }

    /// Returns whether `bytes` more bytes fit into the present block, so that they follow the bytes appended since the
    /// last cut.
    #[must_use]
    pub fn continues_for(&self, bytes: usize) -> bool {
        self.block.as_ref().is_some_and(|block| block.room() >= bytes)
    }

    /// Returns the bytes appended since the last cut.
    pub fn cut(&mut self) -> Bytes {
        match &mut self.block {
            Some(block) if block.appended() > 0 => block.cut(),
            // A fragment without bytes holds no block.
            _ => Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn fragments_keep_their_bytes_and_memory_its_bound(
            sizes in prop::collection::vec(0..=512_usize, 1..300), in_use in 0..12_usize,
        ) {
            let mut writer = BlockWriter::new(Pool::new(512, 4));
            let mut living: VecDeque<(u8, Bytes)> = VecDeque::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let value = (index % 251) as u8;
                while writer.room_for(size).is_none() {
                    // Only living fragments can be the reason that nothing is free.
                    prop_assert!(living.pop_front().is_some());
                }
                let block = writer.room_for(size).unwrap();
                block.resize(size, value);
                living.push_back((value, writer.cut()));
                while living.len() > in_use {
                    living.pop_front();
                }
                for (value, fragment) in &living {
                    prop_assert!(fragment.iter().all(|byte| byte == value));
                }
                prop_assert!(writer.pool.allocated_bytes() <= 4 * 512);
            }
        }
    }
}
