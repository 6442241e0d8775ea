//! The oldest event goes first: it never waits for a place that younger ones hold.
//!
//! A readout unit that is full takes nothing more until an event has ended. So the event with the lowest id can be what
//! all others wait for, and if it waits for a builder while these hold every place, nothing moves. Then the builder with
//! the youngest event is told to give that back.

use super::EventManager;
use sheaf_wire::message::{Body, Command};
use sheaf_wire::{EventId, NodeId, Timestamp};

/// Ages of the assigned events.
#[derive(Debug, Default)]
pub(super) struct Precedence {
    /// The youngest event that was ever assigned.
    youngest: Option<EventId>,
    /// No assigned event is older, as long as this one is assigned.
    oldest: Option<EventId>,
    /// A builder that was told to give way and has not spoken since.
    told: Option<u16>,
}

impl Precedence {
    /// Events are assigned, of which these are the oldest and the youngest.
    pub(super) fn note_assigned(&mut self, oldest: EventId, youngest: EventId) {
        self.youngest = self.youngest.max(Some(youngest));
        self.oldest = self.oldest.map(|before| before.min(oldest));
    }

    /// A builder speaks, or is lost.
    pub(super) fn note_news(&mut self, builder: u16) {
        self.told = self.told.filter(|told| *told != builder);
    }
}

impl<P: Clone> EventManager<P> {
    /// If the oldest event of all waits for a builder and none has credit, the youngest makes way.
    pub(super) fn make_way(&mut self, now: Timestamp) {
        let Some(waiting) = self.backlog.oldest() else {
            return;
        };
        if Some(waiting) > self.precedence.youngest || self.precedence.told.is_some() {
            return;
        }
        let may_be_given = self.builders.some_have_credit(|_| true);
        if may_be_given
            || self.waits_for_suspects(now, waiting)
            || self.oldest_assigned().is_none_or(|oldest| oldest < waiting)
        {
            return;
        }
        let assigned = self.table.iter().filter(|(_, entry)| entry.assigned);
        if let Some((_, entry)) = assigned.max_by_key(|(event, _)| *event)
            && let Some(builder) = entry.builder
        {
            self.precedence.told = Some(builder);
            self.peers.push(NodeId::builder(builder), Body::Command(Command::GiveWay));
        }
    }

    pub(super) fn oldest_assigned(&mut self) -> Option<EventId> {
        let is_assigned = |event: &EventId| self.table.get(*event).is_some_and(|entry| entry.assigned);
        if !self.precedence.oldest.as_ref().is_some_and(is_assigned) {
            let assigned = self.table.iter().filter(|(_, entry)| entry.assigned);
            self.precedence.oldest = assigned.map(|(event, _)| event).min();
        }
        self.precedence.oldest
    }
}
