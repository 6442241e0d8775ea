//! Metrics of an output node.

use super::BufferLimits;
use super::counts::CountSeries;
use super::shared::{BufferSeries, MessageSeries};
use crate::outbox::OutboxStats;
use bytes::Bytes;
use sheaf_protocol::output::OutputUnit;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{SeriesId, SeriesList, catalog};

/// The driver's own account of an output node, beside that of the role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputFigures<'a> {
    /// Accepted events that are not as durable as configured.
    pub(crate) unwritten: usize,
    /// Whether the output fails or has no room.
    pub(crate) output_failing: bool,
    pub(crate) outbox: &'a OutboxStats,
}

/// The series of an output node.
#[derive(Debug)]
pub(crate) struct OutputSeries {
    counts: CountSeries,
    buffer: BufferSeries,
    messages: MessageSeries,
    unwritten: SeriesId,
    output_failing: SeriesId,
}

impl OutputSeries {
    /// Lists the series of an output node with these limits, of all builder units together.
    pub(crate) fn list(list: &mut SeriesList, name: &str, limits: BufferLimits) -> Self {
        Self {
            counts: CountSeries::new().with_counters(list),
            buffer: BufferSeries::list(list, "output", limits),
            messages: MessageSeries::list(list, name),
            unwritten: list.add(&catalog::EVENTS_UNWRITTEN, &[]),
            output_failing: list.add(&catalog::OUTPUT_FAILING, &[]),
        }
    }

    /// Writes the state of an output node.
    pub(crate) fn write(&self, to: &mut Writing<'_>, role: &OutputUnit<Bytes>, figures: &OutputFigures<'_>) {
        self.counts.write(to, |line| role.each_count(line));
        let (events, bytes) = role.held();
        self.buffer.write(to, bytes, events);
        self.messages.write(to, figures.outbox);
        to.set(self.unwritten, figures.unwritten as u64);
        to.set(self.output_failing, u64::from(figures.output_failing));
    }
}
