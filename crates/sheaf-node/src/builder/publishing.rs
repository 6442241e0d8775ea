//! Metrics of a builder unit.

use super::BuilderNode;
use super::pipeline::Outlet;
use crate::farm::Farm;
use crate::telemetry::{BufferLimits, BuilderFigures, BuilderSeries, Telemetry};
use sheaf_telemetry::{Hub, SeriesList};
use sheaf_wire::{SourceId, Timestamp};

impl BuilderNode {
    /// Publishes its metrics under this name. `sources` are those of the run, `limits` those of its events.
    #[must_use]
    pub fn publishing(mut self, hub: &Hub, name: &str, sources: &[SourceId], limits: BufferLimits) -> Self {
        let required = sources.iter().copied().filter(|source| self.role.is_required(*source));
        let readouts = self.role.received().len();
        let list = |list: &mut SeriesList| BuilderSeries::list(list, name, required, limits, readouts);
        self.telemetry = Some(Telemetry::begin(hub, name, list));
        self
    }

    /// Publishes its state at `now`.
    pub(super) fn publish_figures(&mut self, now: Timestamp) {
        let Some(Telemetry { publisher, series }) = &mut self.telemetry else { return };
        let outbox = self.outbox.stats();
        let pipeline = &self.pipeline;
        let (unwritten, output_failing, sender) = match &pipeline.outlet {
            Outlet::Here(storing) => (storing.waiting(), storing.is_in_trouble(), None),
            Outlet::There(forwarding) => {
                (forwarding.waiting(), forwarding.is_held_up(), Some(&forwarding.sender))
            }
        };
        series.prepare(now, &self.role);
        let figures = BuilderFigures {
            missing: &self.missing,
            unwritten,
            output_failing,
            quarantined: pipeline.quarantined.0 + pipeline.farm.as_ref().map_or(0, Farm::quarantined),
            bad_events: pipeline.bad_events.0,
            step_failures: self.step_failures.0,
            sender,
            outbox: &outbox,
        };
        publisher.publish(now.0, |to| series.write(to, &self.role, &figures));
    }
}
