//! Super-fragments that arrive before their event is assigned.
//!
//! If readout units send without a request, their super-fragments and the assignment travel on different links. Early
//! super-fragments are kept up to a bound in bytes and in number. Beyond the bound the lowest event ids are discarded
//! first, because those events were most likely built elsewhere in the meantime. The highest event is kept even if it alone
//! exceeds the bound in bytes: discarding it would cost a timeout for each large event.

use crate::event_range::EventIdRange;
use crate::event_set::EventSet;
use sheaf_wire::{EventId, Fragment, MissingSource, Payload};
use std::collections::BTreeMap;

/// A readout unit's part of an event.
#[derive(Debug)]
pub(super) struct Part<P> {
    pub(super) readout: u16,
    pub(super) fragments: Vec<Fragment<P>>,
    pub(super) missing: Vec<MissingSource>,
}

impl<P: Payload> Part<P> {
    fn bytes(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.payload.len() as u64).sum()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Early<P> {
    parts: BTreeMap<EventId, Vec<Part<P>>>,
    held: u64,
    count: usize,
    max_bytes: u64,
    max_count: usize,
    /// Events that have ended here. Later super-fragments of them are not kept.
    over: EventSet,
}

/// Maximum number of separate ranges of ended events that are remembered. Events in older gaps count as ended.
const OVER_RANGES: usize = 4_096;

impl<P: Payload> Early<P> {
    /// Creates a store for at most `max_count` parts, and for at most `max_bytes` of payload of more than one event.
    pub(super) fn new(max_bytes: u64, max_count: usize) -> Self {
        let over = EventSet::new(OVER_RANGES);
        Self { parts: BTreeMap::new(), held: 0, count: 0, max_bytes, max_count, over }
    }

    /// Returns whether an event may still be assigned to this builder.
    pub(super) fn may_come(&self, event: EventId) -> bool {
        !self.over.contains(event)
    }

    /// Records that an event has ended here.
    #[inline]
    pub(super) fn end(&mut self, event: EventId) {
        self.over.insert(EventIdRange::one(event));
    }

    /// Keeps a part. Returns the number of parts that were discarded for it.
    pub(super) fn keep(&mut self, event: EventId, part: Part<P>) -> u64 {
        self.held += part.bytes();
        self.count += 1;
        self.parts.entry(event).or_default().push(part);
        let mut given_up = 0;
        while (self.held > self.max_bytes && self.parts.len() > 1) || self.count > self.max_count {
            let Some((_, parts)) = self.parts.pop_first() else {
                break;
            };
            given_up += self.take_off(&parts);
        }
        given_up
    }

    /// Takes the parts of an event that was just assigned.
    pub(super) fn take(&mut self, event: EventId) -> Vec<Part<P>> {
        let parts = self.parts.remove(&event).unwrap_or_default();
        self.take_off(&parts);
        parts
    }

    fn take_off(&mut self, parts: &[Part<P>]) -> u64 {
        self.held -= parts.iter().map(Part::bytes).sum::<u64>();
        self.count -= parts.len();
        parts.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::{NumberMark, SourceId, Span, Timestamp};

    fn part(readout: u16, length: u32) -> Part<Span> {
        let fragment = Fragment {
            event: EventId(1),
            source: SourceId(readout.into()),
            time: Timestamp(0),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Span { length, ..Span::default() },
        };
        Part { readout, fragments: vec![fragment], missing: Vec::new() }
    }

    #[test]
    fn one_event_is_kept_although_it_is_larger_than_the_bound() {
        let mut early = Early::new(100, 8);
        assert_eq!(early.keep(EventId(1), part(0, 150)), 0);
        assert_eq!(early.keep(EventId(1), part(1, 150)), 0);
        assert_eq!(early.keep(EventId(2), part(0, 150)), 2, "the parts of the lower event are discarded");
        assert_eq!((early.take(EventId(1)).len(), early.take(EventId(2)).len()), (0, 1));
        assert_eq!((early.held, early.count), (0, 0));
    }

    #[test]
    fn the_number_of_parts_is_bounded_in_one_event() {
        let mut early = Early::new(100, 2);
        let given_up: u64 = (0..3).map(|readout| early.keep(EventId(1), part(readout, 1))).sum();
        assert_eq!((given_up, early.held, early.count), (3, 0, 0));
    }
}
