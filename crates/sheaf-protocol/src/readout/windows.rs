//! Windows of time that builders have requested of sources that give their hits on request.
//!
//! Such a source keeps hits until somebody requests a window of them. The unit passes each request to its driver, once for each event and
//! source, and the source gives the hits as the fragment of the event. If the event ends first, the request is cancelled.

use crate::event_range::EventIdRange;
use sheaf_wire::HitInterval;
use sheaf_wire::{EventId, SourceId};
use std::collections::{BTreeMap, VecDeque};

/// Order for sources that give their hits on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowOrder {
    /// Give the hits of all `windows` together as the fragment of an event.
    Give {
        /// The event.
        event: EventId,
        /// The sources, all of which give hits on request.
        sources: Vec<SourceId>,
        /// The windows, at least one. [`HitInterval::NONE`] is not on the timeline.
        windows: Vec<HitInterval>,
    },
    /// Cancel the request: the event has ended.
    Cancel(EventId),
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// Events with the indices of the sources that were asked to give their hits.
    asked: BTreeMap<EventId, Vec<usize>>,
    orders: VecDeque<WindowOrder>,
}

impl Windows {
    /// Returns whether a source was asked for its hits of an event, and records that it is.
    pub(super) fn ask(&mut self, event: EventId, index: usize) -> bool {
        let asked = self.asked.entry(event).or_default();
        let is_new = !asked.contains(&index);
        if is_new {
            asked.push(index);
        }
        !is_new
    }

    pub(super) fn give(&mut self, event: EventId, sources: Vec<SourceId>, windows: Vec<HitInterval>) {
        if !sources.is_empty() {
            self.orders.push_back(WindowOrder::Give { event, sources, windows });
        }
    }

    /// Ends events. `awaits` returns whether one of these sources has not given its fragment of the event.
    pub(super) fn end(&mut self, events: EventIdRange, awaits: impl Fn(EventId, &[usize]) -> bool) {
        if self.asked.is_empty() {
            return;
        }
        while let Some(first) = events.first()
            && let Some((&event, _)) = self.asked.range(first..).next()
            && events.has(event)
            && let Some(sources) = self.asked.remove(&event)
        {
            if awaits(event, &sources) {
                self.orders.push_back(WindowOrder::Cancel(event));
            }
        }
    }

    /// Ends all events: the sources are stopped.
    pub(super) fn close(&mut self) {
        (self.asked, self.orders) = Default::default();
    }

    pub(super) fn poll(&mut self) -> Option<WindowOrder> {
        self.orders.pop_front()
    }
}
