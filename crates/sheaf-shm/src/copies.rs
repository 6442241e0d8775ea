//! Memory for payload that lies elsewhere: it is copied into the arena to be sent.

use super::arena::{Arena, Lender, LentBlock};
use bytes::Bytes;
use sheaf_buffer::{Block, Pool};

/// Number of blocks of the relay: one is filled while the frames in the other are taken.
pub(super) const RELAY_BLOCKS: usize = 2;

/// Blocks of the arena that payload is copied into.
///
/// Most of it is for payload that the receiver may keep without limit. When receivers have kept so much that nothing is
/// left, the *relay* is used: a receiver copies payload from there at once, so that the block is free again after the
/// receiver's next poll. So a node that needs more data before it releases what it has does not bring the system to a
/// halt. The relay's blocks hold the largest frame.
#[derive(Debug)]
pub(super) struct Copies {
    lent: Supply,
    relay: Supply,
}

/// Payload that was copied into the arena.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) bytes: Bytes,
    /// Whether the receiver has to copy it.
    pub(super) relayed: bool,
}

#[derive(Debug)]
struct Supply {
    pool: Pool<Lender>,
    block: Option<LentBlock>,
}

impl Supply {
    fn room_for(&mut self, bytes: usize) -> Option<&mut LentBlock> {
        if bytes > self.pool.block_bytes() {
            return None;
        }
        if self.block.as_ref().is_none_or(|block| block.room() < bytes) {
            if let Some(full) = self.block.take() {
                self.pool.give_back(full);
            }
            self.block = self.pool.take();
        }
        self.block.as_mut()
    }
}

impl Copies {
    /// At most `blocks` blocks of `block_bytes`, and a relay for frames of `max_frame_bytes`.
    pub(super) fn new(arena: &Arena, block_bytes: usize, blocks: usize, max_frame_bytes: usize) -> Self {
        let supply =
            |bytes, blocks| Supply { pool: Pool::with_memory(arena.lender(), bytes, blocks), block: None };
        Self { lent: supply(block_bytes, blocks), relay: supply(max_frame_bytes.max(1), RELAY_BLOCKS) }
    }

    /// Copies pieces, `bytes` bytes in all, one behind the other. `None` if there is no memory now.
    pub(super) fn copy<'a>(
        &mut self,
        bytes: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Copied> {
        let (block, relayed) = match self.lent.room_for(bytes) {
            Some(block) => (block, false),
            None => (self.relay.room_for(bytes)?, true),
        };
        for piece in pieces {
            block.append(piece);
        }
        Some(Copied { bytes: block.cut(), relayed })
    }
}
