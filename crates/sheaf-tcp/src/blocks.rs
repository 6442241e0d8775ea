//! Memory for received bytes.

use bytes::BytesMut;
use sheaf_buffer::Pool;

/// Maximum number of bytes of a read, and the minimum if blocks are large enough. Between 64 KiB and 1 MiB, the size
/// made no difference beyond the machine's noise (`benches/stream.rs`); smaller reads are fairer to the other peers,
/// larger ones save system calls.
pub(super) const READ_BYTES: usize = 256 << 10;

/// Maximum number of partly filled blocks that are kept for further reads; the rest of other blocks stays unused until
/// everything in them is dropped. There is one kept block for each connection that ended a frame while others were
/// within one.
const OPEN_BLOCKS: usize = 64;

/// The receive memory of an endpoint: a bounded pool of blocks, and those of them that are being filled.
///
/// Connections without an unfinished frame fill blocks in turn; a connection with an unfinished frame keeps its
/// block until the frame is whole. So an idle connection holds no memory, and a pool with a block for each peer and
/// two more can never be used up by unfinished frames alone. A block is filled up to the least room for a read before it is
/// left to its frames, however many connections come and go with it: else a node that holds many frames could have each in a
/// block of its own, and stop reading with most of its memory empty.
#[derive(Debug)]
pub struct Blocks {
    pool: Pool,
    /// Blocks with room for a read at least.
    open: Vec<BytesMut>,
    min_room: usize,
    bytes_copied: u64,
}

impl Blocks {
    /// At most `max_blocks` blocks of `block_bytes`, allocated when first needed.
    #[must_use]
    pub fn new(block_bytes: usize, max_blocks: usize) -> Self {
        Self {
            pool: Pool::new(block_bytes, max_blocks),
            open: Vec::new(),
            min_room: (block_bytes / 4).clamp(1, READ_BYTES),
            bytes_copied: 0,
        }
    }

    /// The memory that the blocks take now.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        self.pool.allocated_bytes()
    }

    /// Returns the number of received bytes that were copied: frames handed out as copies, and unfinished frames moved
    /// to a new block.
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
        // The fullest that will do: so blocks become full one after the other.
        let fits = self.open.iter().enumerate().filter(|(_, block)| block.capacity() >= bytes);
        if let Some((place, _)) = fits.min_by_key(|(_, block)| block.capacity()) {
            return Some(self.open.swap_remove(place));
        }
        let whole = self.pool.block_bytes();
        if let Some(place) = self.open.iter_mut().position(|block| block.try_reclaim(whole)) {
            return Some(self.open.swap_remove(place));
        }
        self.pool.take()
    }

    /// Takes back the rest of a connection's block.
    pub(super) fn put(&mut self, mut block: BytesMut) {
        block.clear();
        // If no slice of it lives (all frames were handed out as copies), the block starts anew, and a trickle of
        // small frames stays within the same few cache lines.
        let _ = block.try_reclaim(self.pool.block_bytes());
        if block.capacity() < self.min_room {
            self.pool.give_back(block);
            return;
        }
        self.open.push(block);
        if self.open.len() > OPEN_BLOCKS {
            let fullest = self.open.iter().enumerate().min_by_key(|(_, block)| block.capacity());
            if let Some((place, _)) = fullest {
                self.pool.give_back(self.open.swap_remove(place));
            }
        }
    }
}
