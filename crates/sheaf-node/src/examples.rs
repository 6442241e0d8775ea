//! An event for tests that do not examine its content.

use bytes::Bytes;
use sheaf_wire::{Event, EventId, Timestamp, TriggerType};

/// An event without a fragment.
pub(crate) fn event(id: u64) -> Event<Bytes> {
    Event {
        id: EventId(id),
        time: Timestamp(0),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: Vec::new(),
        missing: Vec::new(),
    }
}
