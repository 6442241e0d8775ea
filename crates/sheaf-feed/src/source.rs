//! The sources that the thread of a readout unit polls.

use crate::feed::Feed;
use sheaf_buffer::Memory;
use sheaf_source::{Batch, BatchEnd, Source, SourceEvent, SourcePoll, SourceStats};
use sheaf_wire::feed::Phase;
use sheaf_wire::message::Recorded;
use sheaf_wire::{SourceId, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A source that a program of the user feeds.
#[derive(Debug)]
pub(crate) struct FedSource<M: Memory> {
    id: SourceId,
    index: usize,
    /// Shared with the other sources of the readout unit, which are on the same thread: never contended.
    feed: Arc<Mutex<Feed<M>>>,
}

impl<M: Memory> FedSource<M> {
    pub(crate) fn new(id: SourceId, index: usize, feed: Arc<Mutex<Feed<M>>>) -> Self {
        Self { id, index, feed }
    }

    fn feed(&self) -> MutexGuard<'_, Feed<M>> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Memory> Source for FedSource<M> {
    fn id(&self) -> SourceId {
        self.id
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        sheaf_source::poll_one(self, now)
    }

    fn poll_batch(&mut self, now: Timestamp, most: usize, batch: &mut Batch) -> BatchEnd {
        let mut feed = self.feed();
        feed.work(now);
        if feed.queue(self.index).take(most, batch) {
            BatchEnd::More
        } else if feed.has_ended(self.id) {
            BatchEnd::Ended
        } else if feed.queue(self.index).lacks_memory() {
            BatchEnd::OutOfMemory
        } else {
            BatchEnd::Idle
        }
    }

    /// A client has room for a limited amount, and waits.
    fn keeps_data(&self) -> bool {
        true
    }

    fn is_ready(&mut self) -> bool {
        self.feed().is_ready(self.index)
    }

    fn is_fed(&mut self) -> bool {
        self.feed().is_fed(self.index)
    }

    fn start(&mut self) {
        // All sources of the unit start together; the first tells the clients.
        self.feed().start();
    }

    fn handle_pause(&mut self, paused: bool) {
        self.feed().pause(paused);
    }

    fn handle_accepted(&mut self, fragments: usize) {
        if fragments > 0 {
            self.feed().handle_accepted(self.index, fragments);
        }
    }

    fn handle_recorded(&mut self, answer: Recorded) {
        self.feed().handle_recorded(answer);
    }

    fn is_recording(&mut self) -> bool {
        self.feed().is_recording()
    }

    fn poll_event(&mut self) -> Option<SourceEvent> {
        self.feed().queue(self.index).poll_event()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        // All sources of the unit are asked; the first exchanges messages for all.
        self.index > 0 || self.feed().prepare_to_sleep()
    }

    fn stop(&mut self) {
        self.feed().enter(Phase::Ended);
    }

    fn stats(&self) -> SourceStats {
        let mut feed = self.feed();
        let mut stats = feed.queue(self.index).stats().clone();
        if self.index == 0 {
            // Most refused programs have no source.
            stats.refused = feed.refused().collect();
        }
        stats
    }
}
