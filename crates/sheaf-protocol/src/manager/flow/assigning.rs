//! Assignment of events to builders: returned events, waiting events, and new ones if triggers are free.
//!
//! Usually no events have been returned, and consecutive events are assigned. So they are assigned a range at a time, within the
//! limits of credit and batch.

use super::{Entry, EventFlow, Triggers};
use sheaf_wire::message::Assignment;
use sheaf_wire::{EventId, Timestamp};

/// The builder that receives events, and the credit that each event consumes.
#[derive(Clone, Copy)]
struct Target {
    builder: u16,
    charged: u32,
    /// Whether new events may be assigned to it.
    takes_new: bool,
}

impl EventFlow {
    /// Returns the builder whose turn it is. The turn passes on.
    pub(in crate::manager) fn next_in_turn(&mut self) -> u16 {
        self.builders.next_in_turn()
    }

    /// Assigns a batch of events to a builder, limited by its credit. It includes new events if triggers are free and the run
    /// `is_running`.
    pub(in crate::manager) fn next_batch(
        &mut self,
        now: Timestamp,
        builder: u16,
        is_running: bool,
    ) -> Vec<Assignment> {
        let mut batch = Vec::new();
        while batch.len() < self.config.batch_events {
            let Some((charged, events)) = self.builders.offer_many(builder) else {
                break;
            };
            let room = self.config.batch_events - batch.len();
            let most = usize::try_from(events).map_or(room, |events| events.min(room));
            let before = batch.len();
            if !self.give(now, Target { builder, charged, takes_new: is_running }, most, &mut batch) {
                break;
            }
            self.releases.note_assigned(&batch[before..]);
            self.builders.give(now, builder, charged, batch.len() - before);
        }
        batch
    }

    /// Assigns at most `most` events of one kind. Returns whether there were any.
    fn give(&mut self, now: Timestamp, to: Target, most: usize, batch: &mut Vec<Assignment>) -> bool {
        if self.backlog.returned() == 0 {
            return self.give_waiting(to, most, batch) || self.give_new(now, to, most, batch);
        }
        if let Some(event) = self.next_again(now, to.builder) {
            self.backlog.take_returned(event);
            if let Some(entry) = self.table.get_mut(event) {
                self.builders.add_suspect(to.builder, entry);
                batch.push(entry.assign_to(to.builder, event, to.charged));
                self.precedence.note_assigned(event, event);
            }
            return true;
        }
        // The choice among returned events must be made again for each event.
        self.give_waiting(to, 1, batch) || self.give_new(now, to, 1, batch)
    }

    /// Returns the returned event that this builder is to get next.
    fn next_again(&mut self, now: Timestamp, builder: u16) -> Option<EventId> {
        // Another builder than the one that failed is preferred, but only if it could take an event now: its credit may
        // depend on this very event, whose fragments block others.
        let others_have_credit = self.builders.some_have_credit(|other| other.index != builder);
        let may_go = |entry: &Entry| entry.builder != Some(builder) || !others_have_credit;
        // Before all younger ones: the place may be that of one that made way for it.
        let oldest = self.held_up_by_suspects(now, builder);
        if oldest.and_then(|oldest| self.table.get(oldest)).is_some_and(may_go) {
            return oldest;
        }
        let state = self.builders.get(builder);
        // A suspect that waits for room prevents younger ones from taking it.
        let mut some_wait = false;
        self.backlog.next_returned(|event| {
            self.table.get(event).is_none_or(|entry| {
                let has_room = state.may_take(entry) && !(some_wait && entry.is_suspect());
                some_wait |= !has_room;
                has_room && may_go(entry)
            })
        })
    }

    /// Returns the oldest event of all, if it waits for the suspects of a builder that makes no progress.
    fn held_up_by_suspects(&mut self, now: Timestamp, builder: u16) -> Option<EventId> {
        let first = self.backlog.oldest_returned().filter(|first| Some(*first) == self.backlog.oldest())?;
        let is_stuck = self.builders.get(builder).is_stuck(now, self.config.patience);
        (is_stuck && self.precedence.oldest_assigned(&self.table).is_none_or(|oldest| first < oldest))
            .then_some(first)
    }

    /// Assigns events that wait for a builder for the first time.
    fn give_waiting(&mut self, to: Target, most: usize, batch: &mut Vec<Assignment>) -> bool {
        let before = batch.len();
        let events = self.backlog.take_new(most);
        let count = events.len();
        batch.reserve(count);
        for event in events {
            if let Some(entry) = self.table.get_mut(event) {
                batch.push(entry.assign_to(to.builder, event, to.charged));
            }
        }
        if let [oldest, ..] = &batch[before..]
            && let Some(youngest) = batch.last()
        {
            self.precedence.note_assigned(oldest.event, youngest.event);
        }
        count > 0
    }

    /// Triggers events and assigns them, if triggers are free.
    fn give_new(&mut self, now: Timestamp, to: Target, most: usize, batch: &mut Vec<Assignment>) -> bool {
        // No new events while returned events accumulate.
        let free = self.config.triggers == Triggers::Free
            && to.takes_new
            && (self.backlog.returned() == 0 || self.backlog.returned() < self.config.queue_events);
        let left =
            self.config.max_events.map_or(u64::MAX, |limit| limit.saturating_sub(self.totals.received()));
        let count = left.min(most as u64);
        if !free || count == 0 {
            return false;
        }
        let (first, end) = (self.next_event, EventId(self.next_event.0 + count));
        self.totals.receive(count);
        self.next_event = end;
        batch.extend((first.0..end.0).map(EventId).map(|event| {
            let kind = self.config.trigger_mix.of(event).unwrap_or(self.config.trigger_type);
            let mut entry = Entry::waiting(now, now, kind);
            let assignment = entry.assign_to(to.builder, event, to.charged);
            self.table.insert(event, entry);
            assignment
        }));
        self.precedence.note_assigned(first, EventId(end.0 - 1));
        true
    }
}
