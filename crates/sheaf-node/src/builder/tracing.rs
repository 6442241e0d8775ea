//! Stamps of a builder unit's events.

use super::BuilderNode;
use crate::traces::{BuilderTrace, Tracing};
use sheaf_protocol::builder::Decision;
use sheaf_telemetry::stamps::StampLabels;
use sheaf_wire::EventId;

impl BuilderNode {
    /// Stamps its events under this name. `readouts` are the names of the readout units.
    #[must_use]
    pub fn traced(mut self, tracing: &Tracing, name: &str, readouts: Vec<String>) -> Self {
        let labels = StampLabels { readouts, ..StampLabels::default() };
        self.trace = Some(BuilderTrace::begin(tracing, name, labels));
        self
    }

    /// Stamps an event that is rejected or dropped.
    #[inline]
    pub(super) fn trace_decision(&mut self, event: EventId, decision: Decision) {
        if let Some(trace) = &mut self.trace {
            trace.decided(event);
            if let Decision::Dropped(reason) = decision {
                trace.dropped(event, reason);
            }
        }
    }

    /// Makes a remark about the last event, about which the filter had no verdict.
    #[cold]
    pub(super) fn note_quarantine(&mut self, event: EventId) {
        self.pipeline.is_quarantined = false;
        if let Some(trace) = &mut self.trace {
            trace.quarantined(event);
        }
    }
}
