//! Precedence of the oldest event: it never waits for a slot that younger ones hold.
//!
//! A full readout unit accepts nothing more until an event has ended. So all other events may wait for the event with
//! the lowest id. If that event waits for a builder while the others hold every slot, the system would deadlock. Then
//! a builder that may take it is requested to give back its youngest event: of these builders, the one with the
//! youngest of all.

use super::entry::Entry;
use crate::event_window::EventWindow;
use serde::{Deserialize, Serialize};
use sheaf_wire::EventId;

/// Ages of the assigned events.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Precedence {
    /// Youngest event that was ever assigned.
    youngest: Option<EventId>,
    /// Oldest assigned event, valid as long as it is assigned.
    oldest: Option<EventId>,
    /// Builder that was requested to give way and has not answered since.
    giving_way: Option<u16>,
}

impl Precedence {
    /// Records the assignment of events, given the oldest and the youngest of them.
    pub(super) fn note_assigned(&mut self, oldest: EventId, youngest: EventId) {
        self.youngest = self.youngest.max(Some(youngest));
        self.oldest = self.oldest.map(|before| before.min(oldest));
    }

    /// Records a message or the loss of a builder, which ends a request to it to give way.
    pub(super) fn note_reply(&mut self, builder: u16) {
        self.giving_way = self.giving_way.filter(|giving_way| *giving_way != builder);
    }

    /// Returns whether an event that waits may be older than an assigned one, and no builder has been
    /// requested to give way.
    pub(super) fn may_be_overtaken(&self, waiting: EventId) -> bool {
        Some(waiting) <= self.youngest && self.giving_way.is_none()
    }

    /// Returns the oldest assigned event.
    pub(super) fn oldest_assigned(&mut self, table: &EventWindow<Entry>) -> Option<EventId> {
        let is_assigned = |event: &EventId| table.get(*event).is_some_and(|entry| entry.assigned);
        if !self.oldest.as_ref().is_some_and(is_assigned) {
            let assigned = table.iter().filter(|(_, entry)| entry.assigned);
            self.oldest = assigned.map(|(event, _)| event).min();
        }
        self.oldest
    }

    /// Returns the builder that is to give back the youngest assigned event of those builders that `may_give_way`, and marks it as
    /// requested.
    pub(super) fn ask_youngest(
        &mut self,
        table: &EventWindow<Entry>,
        may_give_way: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let assigned = table.iter().filter(|(_, entry)| entry.assigned);
        let builders = assigned.filter_map(|(event, entry)| Some((event, entry.builder?)));
        let (_, builder) = builders.filter(|(_, builder)| may_give_way(*builder)).max()?;
        self.giving_way = Some(builder);
        Some(builder)
    }
}
