//! Events for tests.

use bytes::Bytes;
use sheaf_wire::{Event, EventId, Fragment, NumberMark, SourceId, Timestamp, TriggerType};

/// An event with these payloads, of the sources 0, 1, ...
pub(crate) fn event(id: u64, payloads: &[Vec<u8>]) -> Event<Bytes> {
    let fragment = |(source, payload): (u32, &Vec<u8>)| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id.wrapping_mul(1000).wrapping_add(u64::from(source))),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: Bytes::copy_from_slice(payload),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id.wrapping_mul(1000)),
        trigger_type: TriggerType(1),
        attempt: 1,
        incomplete: false,
        fragments: (0..).zip(payloads).map(fragment).collect(),
        missing: Vec::new(),
    }
}
