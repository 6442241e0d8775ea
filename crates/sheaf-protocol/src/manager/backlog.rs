//! Events that wait for a builder.

use serde::{Deserialize, Serialize};
use sheaf_wire::EventId;
use std::collections::vec_deque::Drain;
use std::collections::{BTreeSet, VecDeque};

/// See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Backlog {
    /// Events that wait for the first time, ascending.
    queue: VecDeque<EventId>,
    /// Events that wait for another builder.
    again: BTreeSet<EventId>,
}

impl Backlog {
    /// Returns the number of waiting events.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.again.len()
    }

    /// Returns the number of waiting events that were returned by a builder.
    #[inline]
    pub(super) fn returned(&self) -> usize {
        self.again.len()
    }

    /// Returns the oldest waiting event.
    pub(super) fn oldest(&self) -> Option<EventId> {
        let first = self.queue.front().copied();
        self.again.first().copied().into_iter().chain(first).min()
    }

    /// Adds an event that waits for the first time. Usually it is the youngest.
    pub(super) fn push(&mut self, event: EventId) {
        if self.queue.back().is_none_or(|youngest| *youngest < event) {
            self.queue.push_back(event);
        } else {
            self.queue.insert(self.queue.partition_point(|other| *other < event), event);
        }
    }

    /// Adds an event that was returned by a builder.
    pub(super) fn put_back(&mut self, event: EventId) {
        self.again.insert(event);
    }

    /// Returns the oldest returned event that `fits`, unless an older event waits for the first time: all others may depend on the
    /// oldest event.
    pub(super) fn next_returned(&self, mut fits: impl FnMut(EventId) -> bool) -> Option<EventId> {
        let event = self.again.iter().copied().find(|event| fits(*event));
        event.filter(|event| self.queue.front().is_none_or(|other| event < other))
    }

    /// Returns the oldest returned event.
    pub(super) fn oldest_returned(&self) -> Option<EventId> {
        self.again.first().copied()
    }

    /// Removes a returned event.
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
