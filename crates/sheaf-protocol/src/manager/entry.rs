//! State of an event that has not ended, at the event manager.

use sheaf_wire::message::Assignment;
use sheaf_wire::{EventId, Timestamp, TriggerType};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The event's time, in the time base of its trigger.
    pub(super) time: Timestamp,
    /// When it became an event, on the clock of this machine.
    pub(super) began: Timestamp,
    pub(super) trigger_type: TriggerType,
    /// Number of builders that have been given the event, including the present one.
    pub(super) attempt: u16,
    /// Number of those that could not build it, or died of it as far as can be known, without those that gave it back to make way for
    /// others.
    pub(super) failures: u16,
    /// Number of those that died while they had it, for whatever reason.
    pub(super) deaths: u8,
    /// The present builder, or the last.
    pub(super) builder: Option<u16>,
    pub(super) assigned: bool,
}

impl Entry {
    /// An event that no builder has had.
    pub(super) fn waiting(time: Timestamp, began: Timestamp, trigger_type: TriggerType) -> Self {
        Self { time, began, trigger_type, attempt: 0, failures: 0, deaths: 0, builder: None, assigned: false }
    }

    /// Whether a builder has it, in this attempt.
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
