//! Allocation of the blocks of a pool.

use crate::prefetch;
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt::Debug;

/// An allocator of blocks.
pub trait Memory: Debug + Send {
    /// Type of its blocks.
    type Block: Block;

    /// Allocates a block with room for `bytes`, or returns `None` if there is no more memory.
    fn allocate(&mut self, bytes: usize) -> Option<Self::Block>;
}

/// A block of memory that is written front to back and handed out in slices.
pub trait Block: Debug + Send {
    /// Number of bytes that can still be appended.
    fn room(&self) -> usize;

    /// Number of bytes appended since the last [`Block::cut`].
    fn appended(&self) -> usize;

    /// Appends `bytes`, at most [`Block::room`].
    ///
    /// # Panics
    /// May panic if there is less room.
    fn append(&mut self, bytes: &[u8]);

    /// Appends `value` `length` times, at most [`Block::room`].
    ///
    /// # Panics
    /// May panic if there is less room.
    fn append_fill(&mut self, value: u8, length: usize);

    /// Splits off the bytes appended since the last cut. They share the block's memory.
    fn cut(&mut self) -> Bytes;

    /// Discards the contents and makes all of the block available again, with room for at least `bytes`. Returns `false` if a slice
    /// of it is still alive; the call can then be repeated later.
    fn reclaim(&mut self, bytes: usize) -> bool;
}

/// Blocks on the heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Memory for Heap {
    type Block = BytesMut;

    fn allocate(&mut self, bytes: usize) -> Option<BytesMut> {
        Some(BytesMut::with_capacity(bytes))
    }
}

#[inline]
fn expect_another(block: &mut BytesMut, written: usize) {
    let room = block.spare_capacity_mut();
    prefetch::expect_another(written, room.as_ptr().cast(), room.len());
}

/// A block on the heap grows if more is appended than there is room.
impl Block for BytesMut {
    fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    fn appended(&self) -> usize {
        self.len()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
        expect_another(self, bytes.len());
    }

    fn append_fill(&mut self, value: u8, length: usize) {
        self.put_bytes(value, length);
        expect_another(self, length);
    }

    fn cut(&mut self) -> Bytes {
        self.split().freeze()
    }

    fn reclaim(&mut self, bytes: usize) -> bool {
        self.clear();
        self.try_reclaim(bytes)
    }
}
