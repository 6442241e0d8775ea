//! Stamps of an output node.

use super::Tracing;
use sheaf_telemetry::stamps::{Stage, StampLabels, Stamper};
use sheaf_wire::{EventId, Timestamp};

/// Stamps of an output node: events that go to files, and events that are durable.
#[derive(Debug)]
pub(crate) struct OutputTrace(Stamper);

impl OutputTrace {
    pub(crate) fn begin(tracing: &Tracing, name: &str) -> Self {
        Self(tracing.hub.add(name, StampLabels::default()))
    }

    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        self.0.begin_round(now.0);
    }

    pub(crate) fn end_round(&mut self) {
        self.0.flush();
    }

    #[inline]
    pub(crate) fn writing(&mut self, event: EventId) {
        self.0.stamp(Stage::Writing, 0, event.0, 1);
    }

    #[inline]
    pub(crate) fn written(&mut self, event: EventId) {
        self.0.stamp(Stage::Written, 0, event.0, 1);
    }
}
