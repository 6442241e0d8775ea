//! Memory for the results of a preprocessor, until builder units have released them.

use bytes::Bytes;
use sheaf_buffer::{Block, Memory, Pool};

/// Memory for the results of one worker, with a bound.
pub trait OutputMemory: Send {
    /// Keeps a payload; `None` while all of the memory is in use.
    fn keep(&mut self, payload: &[u8]) -> Option<Bytes>;
}

/// Makes the memory of a worker.
pub type MemoryMaker = Box<dyn FnMut() -> Box<dyn OutputMemory> + Send>;

/// Results side by side in the blocks of a pool. From where its memory is a transport's, they leave without another copy.
#[derive(Debug)]
pub struct Outputs<M: Memory> {
    pool: Pool<M>,
    block: Option<M::Block>,
}

impl<M: Memory> Outputs<M> {
    /// Results in blocks of `pool`. A block holds the largest fragment.
    #[must_use]
    pub fn new(pool: Pool<M>) -> Self {
        Self { pool, block: None }
    }
}

impl<M: Memory> OutputMemory for Outputs<M> {
    fn keep(&mut self, payload: &[u8]) -> Option<Bytes> {
        if payload.is_empty() {
            return Some(Bytes::new());
        }
        if let Some(full) = self.block.take_if(|block| block.room() < payload.len()) {
            self.pool.give_back(full);
        }
        if self.block.is_none() {
            self.block = self.pool.take();
        }
        let block = self.block.as_mut().filter(|block| block.room() >= payload.len())?;
        block.append(payload);
        Some(block.cut())
    }
}
