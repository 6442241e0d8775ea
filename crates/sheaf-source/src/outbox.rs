//! Fragments of one source between their arrival and the readout unit.

use crate::batch::length_u32;
use crate::block_writer::BlockWriter;
use crate::{Batch, SourceStats};
use sheaf_buffer::{Block, Memory, Pool};
use sheaf_wire::{ByteCount, EventId, Fragment, NumberMark, SourceId, Span, Timestamp};
use std::collections::VecDeque;

/// Lists that are kept for later use.
const SPARE_LISTS: usize = 16;

/// Writes the fragments of a source into blocks, and returns them in batches.
#[derive(Debug)]
pub struct Outbox<M: Memory> {
    id: SourceId,
    writer: BlockWriter<M>,
    /// Fragments that the writer has not cut.
    open: Vec<Fragment<Span>>,
    batches: VecDeque<Batch>,
    /// Fragments of the first batch that were returned.
    had: usize,
    spare: Vec<Vec<Fragment<Span>>>,
    lacks_memory: bool,
    no_memory: u64,
    after_stop: u64,
    stats: SourceStats,
}

impl<M: Memory> Outbox<M> {
    /// Returns an empty outbox of a source, which writes into the blocks of `pool`.
    #[must_use]
    pub fn new(id: SourceId, pool: Pool<M>) -> Self {
        Self {
            id,
            writer: BlockWriter::new(pool),
            open: Vec::new(),
            batches: VecDeque::new(),
            had: 0,
            spare: Vec::new(),
            lacks_memory: false,
            no_memory: 0,
            after_stop: 0,
            stats: SourceStats::default(),
        }
    }

    /// Takes a copy of a fragment, or counts that there is no memory for it: a detector does not wait.
    pub(crate) fn put(&mut self, event: EventId, time: Timestamp, payload: &[u8]) {
        self.no_memory += u64::from(!self.try_put(event, time, payload));
    }

    /// Takes a copy of a fragment, which must fit into a block. Returns whether there was memory for it.
    pub fn try_put(&mut self, event: EventId, time: Timestamp, payload: &[u8]) -> bool {
        let bytes = payload.len();
        if !self.writer.continues_for(bytes) {
            self.seal();
        }
        let Some(block) = self.writer.room_for(bytes) else {
            self.stats.out_of_memory += u64::from(!std::mem::replace(&mut self.lacks_memory, true));
            return false;
        };
        self.lacks_memory = false;
        let offset = length_u32(block.appended());
        block.append(payload);
        self.open.push(Fragment {
            event,
            source: self.id,
            time,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Span { parcel: 0, offset, length: length_u32(bytes) },
        });
        true
    }

    /// Returns whether there was no memory for the last fragment.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    /// Number of fragments that were not returned.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let waiting: usize = self.batches.iter().map(|batch| batch.fragments.len()).sum();
        waiting - self.had + self.open.len()
    }

    /// Moves at most `most` fragments to `batch`, which is empty. Returns whether there were any.
    pub fn take(&mut self, most: usize, batch: &mut Batch) -> bool {
        if self.batches.is_empty() {
            self.seal();
        }
        let Some(first) = self.batches.front() else { return false };
        let some = &first.fragments[self.had..];
        let some = &some[..some.len().min(most)];
        batch.payload = first.payload.clone();
        batch.fragments.extend_from_slice(some);
        self.stats.fragments += some.len() as u64;
        self.stats.bytes += ByteCount(some.iter().map(|one| u64::from(one.payload.length)).sum());
        self.had += some.len();
        if self.had == first.fragments.len() {
            self.had = 0;
            if let Some(Batch { mut fragments, .. }) = self.batches.pop_front()
                && self.spare.len() < SPARE_LISTS
            {
                fragments.clear();
                self.spare.push(fragments);
            }
        }
        true
    }

    /// Counts a fragment that came too late for the run.
    pub(crate) fn count_after_stop(&mut self) {
        self.after_stop += 1;
    }

    /// Returns the numbers of fragments without memory, and of those that were not taken before the end.
    pub(crate) fn dropped(&self) -> (u64, u64) {
        (self.no_memory, self.after_stop + self.waiting() as u64)
    }

    /// Counters of fragments that were returned.
    #[must_use]
    pub fn stats(&self) -> &SourceStats {
        &self.stats
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let fragments = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
            self.batches.push_back(Batch { payload: self.writer.cut(), fragments });
        }
    }
}
