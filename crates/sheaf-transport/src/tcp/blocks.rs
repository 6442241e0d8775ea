//! Where received bytes go.

use bytes::BytesMut;
use sheaf_buffer::Pool;

/// A read asks for at most this much, and for at least this much where blocks are large enough. Between 64 KiB and 1 MiB the
/// size made no difference that could be told from the machine's noise (`benches/stream.rs`); smaller turns are
/// fairer to the other peers, larger ones save system calls.
pub(super) const READ_BYTES: usize = 256 << 10;

/// The receive memory of an endpoint: a bounded pool of blocks, and the block that is being filled.
///
/// Connections without an unfinished frame fill one block in turn; a connection with an unfinished frame keeps the
/// block until the frame is whole. So an idle connection holds no memory, and a pool with a block for each peer and
/// two more can never be used up by unfinished frames alone.
#[derive(Debug)]
pub struct Blocks {
    pool: Pool,
    current: Option<BytesMut>,
    min_room: usize,
    bytes_copied: u64,
}

impl Blocks {
    /// At most `max_blocks` blocks of `block_bytes`, allocated when first needed.
    #[must_use]
    pub fn new(block_bytes: usize, max_blocks: usize) -> Self {
        Self {
            pool: Pool::new(block_bytes, max_blocks),
            current: None,
            min_room: (block_bytes / 4).clamp(1, READ_BYTES),
            bytes_copied: 0,
        }
    }

    /// The memory that the blocks take now.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.pool.allocated_bytes()
    }

    /// How many received bytes were copied: frames handed out as copies, and unfinished frames moved to a new block.
    #[must_use]
    pub fn bytes_copied(&self) -> u64 {
        self.bytes_copied
    }

    pub(super) fn note_copy(&mut self, bytes: usize) {
        self.bytes_copied += bytes as u64;
    }

    /// The least room with which a read is worth its system call.
    pub(super) fn min_room(&self) -> usize {
        self.min_room
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.pool.block_bytes()
    }

    /// An empty block with room for `bytes`, at most [`Blocks::block_bytes`]; `None` if all memory is in use.
    pub(super) fn take(&mut self, bytes: usize) -> Option<BytesMut> {
        if let Some(mut block) = self.current.take() {
            if block.capacity() >= bytes || block.try_reclaim(self.pool.block_bytes()) {
                return Some(block);
            }
            self.pool.give_back(block);
        }
        self.pool.take()
    }

    /// Takes back what a connection has left of a block.
    pub(super) fn put(&mut self, mut block: BytesMut) {
        block.clear();
        if self.current.is_some() {
            self.pool.give_back(block);
            return;
        }
        // If no slice of it lives (all frames were handed out as copies), the block starts anew, and a trickle of
        // small frames stays within the same few cache lines.
        let _ = block.try_reclaim(self.pool.block_bytes());
        self.current = Some(block);
    }
}
