//! Fragments of one source between their arrival and their acceptance.

use sheaf_buffer::{Block, Memory, Pool};
use sheaf_protocol::feed::Admission;
use sheaf_source::block_writer::BlockWriter;
use sheaf_source::{Batch, SourceEvent, SourceStats};
use sheaf_wire::feed::{FragmentHead, Fragments, Refusal};
use sheaf_wire::message::DecodeError;
use sheaf_wire::{ByteCount, EventId, Fragment, NumberMark, SourceId, Span};
use std::collections::VecDeque;

/// Fragments of one source that were received and not accepted.
#[derive(Debug)]
pub(crate) struct Queue<M: Memory> {
    id: SourceId,
    writer: BlockWriter<M>,
    /// Received and not returned to the readout unit.
    batches: VecDeque<Batch>,
    /// Number of fragments of the first batch that were returned.
    had: usize,
    /// Payload sizes of the fragments that were returned and not accepted.
    returned: VecDeque<u32>,
    /// Lists to use again.
    spare: Vec<Vec<Fragment<Span>>>,
    events: VecDeque<SourceEvent>,
    /// Run records, of which there is one at a time.
    records: VecDeque<SourceEvent>,
    lacks_memory: bool,
    stats: SourceStats,
}

/// Outcome of a message of fragments.
#[derive(Debug)]
pub(crate) enum Received {
    /// There is no memory for it now.
    NoMemory,
    /// It is invalid.
    Refused(Refusal),
    /// All its fragments were received before.
    Nothing,
    /// They wait for the readout unit.
    Stored { fragments: u64, bytes: ByteCount, last_event: EventId },
}

/// Fragments of a message, one after another.
pub(crate) trait FragmentSource {
    /// Returns the next fragment, or `None` after the last.
    ///
    /// # Errors
    /// If its head is invalid, its payload is not complete, or bytes follow the last one.
    fn next_fragment(&mut self) -> Result<Option<(FragmentHead, &[u8])>, DecodeError>;
}

impl FragmentSource for Fragments<'_> {
    fn next_fragment(&mut self) -> Result<Option<(FragmentHead, &[u8])>, DecodeError> {
        Fragments::next_fragment(self)
    }
}

/// Number of lists that are kept for later use.
const SPARE_LISTS: usize = 64;

impl<M: Memory> Queue<M> {
    pub(crate) fn new(id: SourceId, pool: Pool<M>) -> Self {
        Self {
            id,
            writer: BlockWriter::new(pool),
            batches: VecDeque::new(),
            had: 0,
            returned: VecDeque::new(),
            spare: Vec::new(),
            // No program is there yet.
            events: [SourceEvent::Gone].into(),
            records: VecDeque::new(),
            lacks_memory: false,
            stats: SourceStats::default(),
        }
    }

    pub(crate) fn id(&self) -> SourceId {
        self.id
    }

    /// Stores the fragments of a message with `payload` bytes of payloads, but for the repeated ones.
    pub(crate) fn receive(
        &mut self,
        payload: usize,
        admission: Admission,
        max_fragment: ByteCount,
        mut fragments: impl FragmentSource,
    ) -> Received {
        let Some(block) = self.writer.room_for(payload) else {
            self.stats.out_of_memory += u64::from(!std::mem::replace(&mut self.lacks_memory, true));
            return Received::NoMemory;
        };
        self.lacks_memory = false;
        let mut list = self.spare.pop().unwrap_or_default();
        let (mut bytes, mut passed) = (0_u64, 0);
        let refusal = loop {
            let (head, payload) = match fragments.next_fragment() {
                Ok(Some(fragment)) => fragment,
                Ok(None) => break None,
                Err(_) => break Some(Refusal::InvalidMessage),
            };
            if u64::from(head.length) > max_fragment.0 {
                break Some(Refusal::TooLarge);
            }
            if passed < admission.repeated {
                passed += 1;
                continue;
            }
            let offset = block.appended() as u64;
            block.append(payload);
            bytes += u64::from(head.length);
            // A block is far smaller than 4 GiB.
            let span = Span { parcel: 0, offset: offset as u32, length: head.length };
            list.push(Fragment {
                event: head.event,
                source: self.id,
                time: head.time,
                checksum: head.checksum,
                processed: false,
                mark: NumberMark::NONE,
                payload: span,
            });
        };
        let payload = self.writer.cut();
        let refusal = refusal.or((bytes > admission.room.0).then_some(Refusal::OverCredit));
        if let Some(refusal) = refusal {
            self.recycle(list);
            return Received::Refused(refusal);
        }
        let Some(last) = list.last().map(|fragment| fragment.event) else {
            self.recycle(list);
            return Received::Nothing;
        };
        let fragments = list.len() as u64;
        self.stats.fragments += fragments;
        self.stats.bytes.0 += bytes;
        self.batches.push_back(Batch { payload, fragments: list });
        Received::Stored { fragments, bytes: ByteCount(bytes), last_event: last }
    }

    /// Moves at most `most` fragments to `batch`. Returns whether there were any.
    pub(crate) fn take(&mut self, most: usize, batch: &mut Batch) -> bool {
        let Some(first) = self.batches.front() else { return false };
        let some = &first.fragments[self.had..];
        let some = &some[..some.len().min(most)];
        batch.payload = first.payload.clone();
        batch.fragments.extend_from_slice(some);
        self.returned.extend(some.iter().map(|fragment| fragment.payload.length));
        self.had += some.len();
        if self.had == first.fragments.len() {
            self.had = 0;
            if let Some(first) = self.batches.pop_front() {
                self.recycle(first.fragments);
            }
        }
        true
    }

    /// Takes note that the first `fragments` of those that were returned are accepted. Returns their payload.
    pub(crate) fn accept(&mut self, fragments: usize) -> ByteCount {
        ByteCount(self.returned.drain(..fragments).map(u64::from).sum())
    }

    /// Returns whether there was no memory for the last message.
    pub(crate) fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    pub(crate) fn stats(&self) -> &SourceStats {
        &self.stats
    }

    /// Returns the next event. A program that has gone is not missed before its last fragment was accepted. A run record does not wait
    /// for fragments, which are not accepted any longer after the end of the run.
    pub(crate) fn poll_event(&mut self) -> Option<SourceEvent> {
        if let Some(record) = self.records.pop_front() {
            return Some(record);
        }
        if self.batches.is_empty() && self.returned.is_empty() { self.events.pop_front() } else { None }
    }

    pub(crate) fn note(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Record(_) => self.records.push_back(event),
            _ => self.events.push_back(event),
        }
    }

    fn recycle(&mut self, mut list: Vec<Fragment<Span>>) {
        if self.spare.len() < SPARE_LISTS {
            list.clear();
            self.spare.push(list);
        }
    }
}
