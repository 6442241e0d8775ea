//! Builders are given events: those that come back, those that wait, and new ones where triggers are free.
//!
//! Mostly nothing has come back, and events go out as consecutive ones. So they are given a run at a time, as long as credit and
//! batch allow.

use super::{Entry, EventFlow, Triggers};
use sheaf_wire::message::Assignment;
use sheaf_wire::{EventId, Timestamp};

/// Where events go, and what each of them takes of the credit there.
#[derive(Clone, Copy)]
struct Target {
    builder: u16,
    charged: u32,
    /// Events may begin there.
    takes_new: bool,
}

impl EventFlow {
    /// Returns the builder whose turn it is. The turn passes on.
    pub(in crate::manager) fn next_in_turn(&mut self) -> u16 {
        self.builders.next_in_turn()
    }

    /// Gives a builder a batch of events, as far as it has credit. There are new ones where triggers are free and the run
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
            self.builders.give(now, builder, charged, batch.len() - before);
        }
        batch
    }

    /// Gives at most so many events of one kind; whether any waited, or came.
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
        // Which of those that came back is next is to be asked before each event.
        self.give_waiting(to, 1, batch) || self.give_new(now, to, 1, batch)
    }

    /// Of the events that came back, the one that this builder is to have next.
    fn next_again(&mut self, now: Timestamp, builder: u16) -> Option<EventId> {
        // Rather another builder than the one that failed, but only if it could take an event now: its credit may
        // depend on this very event, whose fragments stand in the way of others.
        let others_have_credit = self.builders.some_have_credit(|other| other.index != builder);
        let may_go = |entry: &Entry| entry.builder != Some(builder) || !others_have_credit;
        let state = self.builders.get(builder);
        // A suspect that waits for room keeps younger ones from taking it.
        let mut some_wait = false;
        let next = self.backlog.next_returned(|event| {
            self.table.get(event).is_none_or(|entry| {
                let has_room = state.may_take(entry) && !(some_wait && entry.is_suspect());
                some_wait |= !has_room;
                has_room && may_go(entry)
            })
        });
        next.or_else(|| {
            let oldest = self.held_up_by_suspects(now, builder)?;
            self.table.get(oldest).is_some_and(may_go).then_some(oldest)
        })
    }

    /// The oldest event of all, where it waits for room beside the suspects of a builder that ends no event.
    fn held_up_by_suspects(&mut self, now: Timestamp, builder: u16) -> Option<EventId> {
        let first = self.backlog.oldest_returned().filter(|first| Some(*first) == self.backlog.oldest())?;
        let is_stuck = self.builders.get(builder).is_stuck(now, self.config.patience);
        (is_stuck && self.precedence.oldest_assigned(&self.table).is_none_or(|oldest| first < oldest))
            .then_some(first)
    }

    /// Gives events that wait for a builder for the first time.
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

    /// Triggers events and gives them, where triggers are free.
    fn give_new(&mut self, now: Timestamp, to: Target, most: usize, batch: &mut Vec<Assignment>) -> bool {
        // No new ones while those that builders gave back pile up.
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
