//! State of an event that has not ended, at the event manager.

use serde::{Deserialize, Serialize};
use sheaf_wire::message::Assignment;
use sheaf_wire::{EventId, Timestamp, TriggerType};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Time of the event, in the time base of its trigger.
    pub(super) time: Timestamp,
    /// Time at which the event was accepted, on the clock of this machine.
    pub(super) began: Timestamp,
    pub(super) trigger_type: TriggerType,
    /// Number of assignments, including the current one.
    pub(super) attempt: u16,
    /// Number of failed attempts: the builder could not build the event, or died with it as the only possible cause. Returning it to
    /// make way for others does not count.
    pub(super) failures: u16,
    /// Number of builders that died while they had the event, for any reason.
    pub(super) deaths: u8,
    /// Current or last builder.
    pub(super) builder: Option<u16>,
    pub(super) assigned: bool,
}

impl Entry {
    /// Creates the entry of an event that has not been assigned yet.
    pub(super) fn waiting(time: Timestamp, began: Timestamp, trigger_type: TriggerType) -> Self {
        Self { time, began, trigger_type, attempt: 0, failures: 0, deaths: 0, builder: None, assigned: false }
    }

    /// Returns whether a builder has the event in this attempt.
    pub(super) fn is_at(&self, builder: u16, attempt: u16) -> bool {
        self.assigned && self.builder == Some(builder) && self.attempt == attempt
    }

    /// Assigns the event to a builder. Returns the assignment to send.
    pub(super) fn assign_to(&mut self, builder: u16, event: EventId, charged: u32) -> Assignment {
        self.attempt += 1;
        self.builder = Some(builder);
        self.assigned = true;
        let Self { time, trigger_type, attempt, .. } = *self;
        Assignment { event, time, trigger_type, attempt, charged }
    }
}
