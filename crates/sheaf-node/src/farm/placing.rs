//! Payload where other processes can read it.
//!
//! Data that sources of this process wrote into an arena, or that came from readout units through shared memory, are in
//! place already. Data that came over a network are on the heap: they are copied, once, into an arena of the farm.

use super::give::GiveError;
use bytes::Bytes;
use sheaf_buffer::{Block, Pool};
use sheaf_shm::door::Guest;
use sheaf_shm::{Arena, Lender, LentBlock, SharedMemory};
use sheaf_wire::farm::PayloadPlace;
use sheaf_wire::{ByteCount, Event};

/// The memory into which payload is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacingOptions {
    /// Payload of all events that the builder unit may have.
    pub memory: ByteCount,
    /// The largest fragment.
    pub max_fragment: ByteCount,
}

/// The size of a block of the arena, unless a fragment is larger.
const BLOCK_BYTES: usize = 1 << 20;

/// Blocks that are not full because events that ended late hold them.
const SPARE_BLOCKS: usize = 16;

/// Sees to it that payload can be read by other processes.
pub(super) struct Placing {
    memory: SharedMemory,
    pool: Pool<Lender>,
    block: Option<LentBlock>,
}

impl Placing {
    pub(super) fn new(name: &str, options: PlacingOptions) -> std::io::Result<Self> {
        let block_bytes = BLOCK_BYTES.max(options.max_fragment.as_usize()).next_multiple_of(4096);
        let blocks = options.memory.as_usize().div_ceil(block_bytes).saturating_mul(2) + SPARE_BLOCKS;
        let bytes = block_bytes.saturating_mul(blocks);
        // That is address space: memory is taken as far as payload is copied.
        let arena = Arena::new(name, ByteCount::from(bytes), false)?;
        let pool = Pool::with_memory(arena.lender(), block_bytes, blocks);
        Ok(Self { memory: SharedMemory::default(), pool, block: None })
    }

    /// Copies the payload of an event that is on the heap. Returns `false` if memory is exhausted: to be repeated when
    /// events have ended.
    pub(super) fn place(&mut self, event: &mut Event<Bytes>) -> bool {
        for fragment in &mut event.fragments {
            let payload = &mut fragment.payload;
            if payload.is_empty() || self.memory.locate(payload).is_some() {
                continue;
            }
            match self.copy(payload) {
                Some(copy) => *payload = copy,
                None => return false,
            }
        }
        true
    }

    fn copy(&mut self, payload: &Bytes) -> Option<Bytes> {
        if self.block.as_ref().is_none_or(|block| block.room() < payload.len()) {
            if let Some(full) = self.block.take() {
                self.pool.give_back(full);
            }
            self.block = self.pool.take().filter(|block| block.room() >= payload.len());
        }
        let block = self.block.as_mut()?;
        block.append(payload);
        Some(block.cut())
    }

    /// Returns the location of a payload, and gives the process access to its memory.
    ///
    /// # Errors
    /// Why the process cannot read it.
    pub(super) fn find(&mut self, payload: &Bytes, guest: &mut Guest) -> Result<PayloadPlace, GiveError> {
        if payload.is_empty() {
            return Ok(PayloadPlace { segment: 0, offset: 0 });
        }
        let Some((segment, at)) = self.memory.locate(payload) else {
            return Err(GiveError::Unreadable);
        };
        let place = PayloadPlace { segment: segment.id, offset: at as u64 };
        if !guest.has(segment.id) {
            let segment = segment.clone();
            guest.share(&segment, &mut self.memory).map_err(GiveError::Share)?;
        }
        Ok(place)
    }
}
