//! The event manager's clock, to which the times of traffic shaping refer.

use super::ReadoutEvent;
use sheaf_shaping::SlotClock;
use sheaf_wire::Timestamp;
use sheaf_wire::message::Shape;

/// The event manager's clock, and the time of its last shaping message by that clock.
#[derive(Debug, Default)]
pub(super) struct ShapeClock {
    slots: SlotClock,
    received_at: Timestamp,
}

impl ShapeClock {
    /// Handles a shaping message. Returns an event for the driver unless the message is older than one
    /// before.
    pub(super) fn note(&mut self, now: Timestamp, shape: Shape) -> Option<ReadoutEvent> {
        self.slots.note(now, shape.clock);
        // A message that the channel retransmits may be older than a tick that arrived outside it.
        if shape.clock < self.received_at {
            return None;
        }
        self.received_at = shape.clock;
        Some(ReadoutEvent::Shape { turning: shape.turning, epoch: self.slots.to_own(shape.epoch) })
    }
}
