//! Metrics of an output node.

use super::BufferLimits;
use super::counts::CountSeries;
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
    held_bytes: SeriesId,
    held_events: SeriesId,
    limits: (BufferLimits, [SeriesId; 2]),
    unwritten: SeriesId,
    output_failing: SeriesId,
    /// Dropped frames, bad messages.
    mishaps: [SeriesId; 2],
}

impl OutputSeries {
    /// Lists the series of an output node with these limits, of all builder units together.
    pub(crate) fn list(list: &mut SeriesList, limits: BufferLimits) -> Self {
        let counts = CountSeries::new().with_counters(list);
        let mut buffer = |metric| list.add(metric, &["output"]);
        let (held_bytes, held_events) = (buffer(&catalog::BUFFER_BYTES), buffer(&catalog::BUFFER_EVENTS));
        let limit_series = [&catalog::BUFFER_LIMIT, &catalog::BUFFER_EVENTS_LIMIT].map(&mut buffer);
        let mut plain = |metric| list.add(metric, &[]);
        Self {
            counts,
            held_bytes,
            held_events,
            limits: (limits, limit_series),
            unwritten: plain(&catalog::EVENTS_UNWRITTEN),
            output_failing: plain(&catalog::OUTPUT_FAILING),
            mishaps: [&catalog::MESSAGES_UNSENT, &catalog::MESSAGES_BAD].map(&mut plain),
        }
    }

    /// Writes the state of an output node.
    pub(crate) fn write(&self, to: &mut Writing<'_>, role: &OutputUnit<Bytes>, figures: &OutputFigures<'_>) {
        self.counts.write(to, |line| role.each_count(line));
        let (events, bytes) = role.held();
        to.set(self.held_bytes, bytes.0);
        to.set(self.held_events, events);
        let (limits, [limit_bytes, limit_events]) = &self.limits;
        to.set(*limit_bytes, limits.bytes.0);
        to.set(*limit_events, limits.events);
        to.set(self.unwritten, figures.unwritten as u64);
        to.set(self.output_failing, u64::from(figures.output_failing));
        to.set(self.mishaps[0], figures.outbox.dropped_frames);
        to.set(self.mishaps[1], figures.outbox.bad_messages);
    }
}
