//! Payload that is written and read, or not touched.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sheaf_buffer::{Block, Heap, Memory, Pool};
use sheaf_wire::checksum::word_sum;
use std::fmt;

/// Use of payload by the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// The sender writes every byte once, the receiver reads every byte once: data that comes from a detector and goes
    /// to a filter.
    #[default]
    WriteRead,
    /// Neither: what moving a message costs by itself. A transport that copies still copies.
    Descriptor,
}

/// Bytes that a writer fills before it returns to the start: more than a core's first-level cache and less than its
/// second-level cache, because a well-tuned system keeps its data in flight there.
const CYCLE_BYTES: usize = 1 << 20;
/// The least number of blocks, so that one can be written while others are under way.
const BLOCKS: usize = 8;
const LEAST_BLOCK: usize = 16 << 10;

const fn block_bytes(bytes: usize) -> usize {
    let block = if CYCLE_BYTES / BLOCKS > bytes { CYCLE_BYTES / BLOCKS } else { bytes };
    if block > LEAST_BLOCK { block } else { LEAST_BLOCK }
}

/// Returns the bytes of messages of `bytes` bytes that a link may hold. The bound is such that a full link stops a
/// sender before lack of memory does: a link wakes its sender when it has room again, memory does not.
#[must_use]
pub const fn under_way(bytes: usize) -> usize {
    block_bytes(bytes) * BLOCKS / 2
}

/// Returns the bytes that a writer of messages of `bytes` bytes fills before it returns to the start.
pub(crate) const fn cycle_bytes(bytes: usize) -> usize {
    if CYCLE_BYTES > bytes { CYCLE_BYTES } else { bytes }
}

/// Returns the bytes of memory that a writer of messages of `bytes` bytes needs.
pub(crate) const fn writer_bytes(bytes: usize) -> usize {
    block_bytes(bytes) * BLOCKS
}

/// Cuts messages from the blocks of a pool.
trait Cut: fmt::Debug + Send {
    fn cut(&mut self, value: u8, bytes: usize) -> Option<Bytes>;
}

#[derive(Debug)]
struct Cutter<M: Memory> {
    pool: Pool<M>,
    block: Option<M::Block>,
}

impl<M: Memory> Cut for Cutter<M> {
    fn cut(&mut self, value: u8, bytes: usize) -> Option<Bytes> {
        if self.block.as_ref().is_none_or(|block| block.room() < bytes) {
            if let Some(full) = self.block.take() {
                self.pool.give_back(full);
            }
            self.block = self.pool.take();
        }
        let block = self.block.as_mut()?;
        block.append_fill(value, bytes);
        Some(block.cut())
    }
}

/// Makes messages of one size.
#[derive(Debug)]
pub struct Writer {
    bytes: usize,
    cutter: Box<dyn Cut>,
    /// The message that is sent again and again where nothing is written.
    ready: Option<Bytes>,
    value: u8,
}

impl Writer {
    /// For messages of `bytes` bytes, in memory of the process.
    #[must_use]
    pub fn new(bytes: usize, used: Use) -> Self {
        Self::with_memory(Heap, bytes, used)
    }

    /// The same in memory that a transport shares with other processes, so that nothing has to be copied into it.
    #[must_use]
    pub fn with_memory<M: Memory + 'static>(memory: M, bytes: usize, used: Use) -> Self
    where
        M::Block: 'static,
    {
        let pool = Pool::with_memory(memory, block_bytes(bytes), BLOCKS);
        let mut cutter = Cutter { pool, block: None };
        let ready = if used == Use::Descriptor { cutter.cut(0xa5, bytes) } else { None };
        Self { bytes, cutter: Box::new(cutter), ready, value: 0 }
    }

    /// The next message's payload; `None` while all memory is under way.
    pub fn next_payload(&mut self) -> Option<Bytes> {
        if let Some(ready) = &self.ready {
            return Some(ready.clone());
        }
        let payload = self.cutter.cut(self.value, self.bytes)?;
        self.value = self.value.wrapping_add(1);
        Some(payload)
    }
}

/// Reads payload as a receiver does. The compiler cannot optimize the unused sum away.
pub fn take(payload: &[u8], used: Use) {
    if used == Use::WriteRead {
        std::hint::black_box(word_sum(payload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_comes_back() {
        for bytes in [0, 1, 2048, 1 << 20] {
            let mut writer = Writer::new(bytes, Use::WriteRead);
            let mut under_way = Vec::new();
            while under_way.len() < 1 << 16 {
                let Some(payload) = writer.next_payload() else { break };
                assert_eq!(payload.len(), bytes);
                under_way.push(payload);
            }
            assert!(bytes == 0 || under_way.len() * bytes <= BLOCKS * (CYCLE_BYTES / BLOCKS).max(bytes));
            under_way.clear();
            assert!(writer.next_payload().is_some(), "{bytes}");
        }
    }
}
