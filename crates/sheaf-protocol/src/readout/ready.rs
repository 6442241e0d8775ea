//! Events that are ready to go, by the builder that they go to.

use super::slots::SlotKey;
use std::collections::VecDeque;

/// One queue for each builder that has asked for something. Builders are served in turn.
#[derive(Debug, Default)]
pub(super) struct Ready {
    queues: Vec<VecDeque<SlotKey>>,
    /// Entries in all queues together.
    entries: usize,
    /// Whose turn it is.
    turn: usize,
}

impl Ready {
    pub(super) fn push(&mut self, builder: u16, key: SlotKey) {
        let builder = usize::from(builder);
        if builder >= self.queues.len() {
            self.queues.resize_with(builder + 1, VecDeque::new);
        }
        self.queues[builder].push_back(key);
        self.entries += 1;
    }

    /// The next builder for which there is something; the turn passes on.
    pub(super) fn next_builder(&mut self) -> Option<u16> {
        if self.entries == 0 {
            return None;
        }
        let builders = self.queues.len();
        let mut in_turn = (self.turn..builders).chain(0..self.turn.min(builders));
        let builder = in_turn.find(|builder| !self.queues[*builder].is_empty())?;
        self.turn = builder + 1;
        u16::try_from(builder).ok()
    }

    /// How many entries the builder's queue has.
    pub(super) fn len(&self, builder: u16) -> usize {
        self.queues.get(usize::from(builder)).map_or(0, VecDeque::len)
    }

    pub(super) fn first(&self, builder: u16) -> Option<SlotKey> {
        self.queues.get(usize::from(builder))?.front().copied()
    }

    pub(super) fn pop(&mut self, builder: u16) {
        if let Some(queue) = self.queues.get_mut(usize::from(builder)) {
            self.entries -= usize::from(queue.pop_front().is_some());
        }
    }
}
