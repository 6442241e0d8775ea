//! Events that wait for a builder.

use sheaf_wire::EventId;
use std::collections::vec_deque::Drain;
use std::collections::{BTreeSet, VecDeque};

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    /// Waiting for the first time, ascending.
    queue: VecDeque<EventId>,
    /// Waiting for another builder.
    again: BTreeSet<EventId>,
}

impl Backlog {
    /// Number of events that wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.again.len()
    }

    /// Number of them that have come back from a builder.
    #[inline]
    pub(super) fn returned(&self) -> usize {
        self.again.len()
    }

    /// The oldest event that waits.
    pub(super) fn oldest(&self) -> Option<EventId> {
        let first = self.queue.front().copied();
        self.again.first().copied().into_iter().chain(first).min()
    }

    /// Adds an event that waits for the first time. Mostly it is the youngest.
    pub(super) fn push(&mut self, event: EventId) {
        if self.queue.back().is_none_or(|youngest| *youngest < event) {
            self.queue.push_back(event);
        } else {
            self.queue.insert(self.queue.partition_point(|other| *other < event), event);
        }
    }

    /// Adds an event that has come back from a builder.
    pub(super) fn put_back(&mut self, event: EventId) {
        self.again.insert(event);
    }

    /// The oldest event that has come back and `fits`, unless an older one waits for the first time: that which waits longest may be
    /// what all others wait for.
    pub(super) fn next_returned(&self, mut fits: impl FnMut(EventId) -> bool) -> Option<EventId> {
        let event = self.again.iter().copied().find(|event| fits(*event));
        event.filter(|event| self.queue.front().is_none_or(|other| event < other))
    }

    /// The oldest event that has come back.
    pub(super) fn oldest_returned(&self) -> Option<EventId> {
        self.again.first().copied()
    }

    /// Removes an event that has come back.
    pub(super) fn take_returned(&mut self, event: EventId) {
        self.again.remove(&event);
    }

    /// Removes at most `most` events that wait for the first time.
    #[inline]
    pub(super) fn take_new(&mut self, most: usize) -> Drain<'_, EventId> {
        let count = self.queue.len().min(most);
        self.queue.drain(..count)
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.again.clear();
    }
}
