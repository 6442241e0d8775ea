//! Events and time slices for tests that do not examine their content.

use bytes::Bytes;
use sheaf_time::{Picos, SliceConfig};
use sheaf_wire::{Event, EventId, Fragment, Hit, NumberMark, SourceId, Timestamp, TriggerType};

/// Short time slices with overlaps.
pub(crate) const SLICES: SliceConfig = SliceConfig {
    length: Picos(10_000),
    before: Picos(20),
    after: Picos(100),
    max_items: 10_000,
    max_empty: 10,
};

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

/// Returns a time slice of sources 0, 1, ... with hits at these times, in ps.
pub(crate) fn slice(id: u64, payloads: &[&[u64]]) -> Event<Bytes> {
    let payload = |times: &&[u64]| {
        let hit = |time_ps: &u64| Hit { time_ps: *time_ps, channel: 0, value: 0, extra: 0 }.to_bytes();
        Bytes::from(times.iter().flat_map(hit).collect::<Vec<u8>>())
    };
    let fragment = |(source, times)| Fragment {
        event: EventId(id),
        source: SourceId(source),
        time: Timestamp(id),
        checksum: None,
        processed: false,
        mark: NumberMark::NONE,
        payload: payload(times),
    };
    Event {
        id: EventId(id),
        time: Timestamp(id),
        trigger_type: TriggerType(0),
        attempt: 1,
        incomplete: false,
        fragments: (0..).zip(payloads).map(fragment).collect(),
        missing: Vec::new(),
    }
}
