//! Metrics of a builder unit: events under construction, filter, output.

use super::counts::CountSeries;
use super::shared::{BufferSeries, MessageSeries};
use super::{BufferLimits, SOURCES};
use crate::outbox::OutboxStats;
use bytes::Bytes;
use sheaf_protocol::builder::BuilderUnit;
use sheaf_protocol::output::Sender;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{SeriesId, SeriesList, catalog};
use sheaf_wire::{MissingReason, Nanos, SourceId, Timestamp};
use std::collections::BTreeMap;

/// The driver's own account of a builder unit, beside that of the role.
#[derive(Clone, Copy)]
pub(crate) struct BuilderFigures<'a> {
    pub(crate) missing: &'a BTreeMap<(SourceId, MissingReason), u64>,
    /// Accepted events that are not as durable as configured.
    pub(crate) unwritten: usize,
    /// Whether the output fails or has no room.
    pub(crate) output_failing: bool,
    pub(crate) quarantined: u64,
    pub(crate) bad_events: u64,
    pub(crate) step_failures: u64,
    /// The sender to output nodes, if there are any.
    pub(crate) sender: Option<&'a Sender<Bytes>>,
    pub(crate) outbox: &'a OutboxStats,
}

/// Interval at which waits for readout units are computed: more would not be seen.
const WAITS_PERIOD: Nanos = Nanos::from_millis(250);

/// The series of a builder unit.
#[derive(Debug)]
pub(crate) struct BuilderSeries {
    counts: CountSeries,
    building: SeriesId,
    buffer: BufferSeries,
    messages: MessageSeries,
    missing: BTreeMap<(SourceId, MissingReason), SeriesId>,
    unwritten: SeriesId,
    output_failing: SeriesId,
    /// Quarantined events, wrong contents, failures of the step filter.
    mishaps: [SeriesId; 3],
    pairs: PairSeries,
}

/// A value for each readout unit.
#[derive(Debug)]
struct PairSeries {
    waits: SeriesId,
    bytes: SeriesId,
    /// Waits as last computed.
    computed: Box<[Nanos]>,
    due_at: Timestamp,
}

impl PairSeries {
    fn list(list: &mut SeriesList, readouts: usize) -> Self {
        Self {
            waits: list.add_row(&catalog::PAIR_WAITS, readouts),
            bytes: list.add_row(&catalog::PAIR_BYTES, readouts),
            computed: vec![Nanos::ZERO; readouts].into(),
            due_at: Timestamp::ZERO,
        }
    }

    fn write(&self, to: &mut Writing<'_>, role: &BuilderUnit<Bytes>) {
        for (place, wait) in self.computed.iter().enumerate() {
            to.set(self.waits.plus(place), wait.0);
        }
        for (place, bytes) in role.received().enumerate() {
            to.set(self.bytes.plus(place), bytes.0);
        }
    }
}

impl BuilderSeries {
    /// Lists the series of a builder unit with these required sources and limits.
    pub(crate) fn list(
        list: &mut SeriesList,
        name: &str,
        sources: impl Iterator<Item = SourceId>,
        limits: BufferLimits,
        readouts: usize,
    ) -> Self {
        let counts = CountSeries::new().with_counters(list);
        let mut missing = BTreeMap::new();
        for source in sources.take(SOURCES) {
            let label = source.to_string();
            for reason in MissingReason::ALL {
                let series = list.add(&catalog::SOURCE_MISSING, &[&label, reason.name()]);
                missing.insert((source, reason), series);
            }
        }
        let (buffer, messages) =
            (BufferSeries::list(list, "events", limits), MessageSeries::list(list, name));
        let mut plain = |metric| list.add(metric, &[]);
        let mishaps = [&catalog::QUARANTINED, &catalog::CONTENT_MISMATCHES, &catalog::STEP_FAILURES];
        Self {
            counts,
            building: plain(&catalog::EVENTS_BUILDING),
            buffer,
            messages,
            missing,
            unwritten: plain(&catalog::EVENTS_UNWRITTEN),
            output_failing: plain(&catalog::OUTPUT_FAILING),
            mishaps: mishaps.map(&mut plain),
            pairs: PairSeries::list(list, readouts),
        }
    }

    /// Computes what takes longer than the rest, if it is due. It is done before the values are written, which readers wait for.
    pub(crate) fn prepare(&mut self, now: Timestamp, role: &BuilderUnit<Bytes>) {
        if now >= self.pairs.due_at {
            self.pairs.due_at = now + WAITS_PERIOD;
            role.write_waits(now, &mut self.pairs.computed);
        }
    }

    /// Writes the state of a builder unit.
    pub(crate) fn write(
        &self,
        to: &mut Writing<'_>,
        role: &BuilderUnit<Bytes>,
        figures: &BuilderFigures<'_>,
    ) {
        self.counts.write(to, |line| {
            role.each_count(line);
            figures.sender.iter().for_each(|sender| sender.each_count(line));
        });
        let (building, built, bytes) = role.held();
        to.set(self.building, building as u64);
        self.buffer.write(to, bytes, (building + built) as u64);
        self.messages.write(to, figures.outbox);
        for (key, events) in figures.missing {
            if let Some(series) = self.missing.get(key) {
                to.set(*series, *events);
            }
        }
        self.pairs.write(to, role);
        to.set(self.unwritten, figures.unwritten as u64);
        to.set(self.output_failing, u64::from(figures.output_failing));
        let mishaps = [figures.quarantined, figures.bad_events, figures.step_failures];
        self.mishaps.iter().zip(mishaps).for_each(|(series, value)| to.set(*series, value));
    }
}
