//! Metrics of a readout unit: books of fragments, its buffer, its sources.

use super::counts::{CountSeries, fragment_reasons};
use super::{BufferLimits, SOURCES};
use crate::outbox::OutboxStats;
use sheaf_protocol::ledger::Counter;
use sheaf_protocol::readout::ReadoutUnit;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{SeriesId, SeriesList, catalog};
use sheaf_wire::{Nanos, SourceId, Span, Timestamp};

/// Outcomes of fragments, as labels; first the number received.
const BINS: [&str; 4] = ["received", "stored", "rejected", "dropped"];

/// State of a source, as its readout unit sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceFigures {
    /// Fragments accepted.
    pub(crate) fragments: u64,
    /// Time since the last one.
    pub(crate) age: Nanos,
    /// Whether there is no room for its next fragment.
    pub(crate) held_back: bool,
}

/// The series of a readout unit.
#[derive(Debug)]
pub(crate) struct ReadoutSeries {
    counts: CountSeries,
    held_bytes: SeriesId,
    held_events: SeriesId,
    limits: (BufferLimits, [SeriesId; 2]),
    /// Fragments, age, and whether it is held back, of each source.
    sources: Vec<[SeriesId; 3]>,
    /// Dropped frames, bad messages.
    mishaps: [SeriesId; 2],
}

impl ReadoutSeries {
    /// Lists the series of a readout unit with these sources and limits of the buffer.
    pub(crate) fn list(
        list: &mut SeriesList,
        sources: impl Iterator<Item = SourceId>,
        limits: BufferLimits,
    ) -> Self {
        let [received, stored, rejected, dropped] = BINS.map(|bin| list.add(&catalog::FRAGMENTS, &[bin]));
        let in_flight = list.add(&catalog::FRAGMENTS_HELD, &[]);
        let counts = CountSeries::new()
            .with_counters(list)
            .with(Counter::Received, received)
            .with(Counter::Stored, stored)
            .with(Counter::Rejected, rejected)
            .with(Counter::InFlight, in_flight)
            .with_drops(list, &catalog::FRAGMENT_DROPS, fragment_reasons())
            .with_sum_of_drops(dropped);
        let sources = sources.take(SOURCES).map(|source| {
            let source = source.to_string();
            let metrics = [&catalog::SOURCE_FRAGMENTS, &catalog::SOURCE_AGE, &catalog::SOURCE_HELD_BACK];
            metrics.map(|metric| list.add(metric, &[&source]))
        });
        let sources = sources.collect();
        let mut buffer = |metric| list.add(metric, &["fragments"]);
        Self {
            counts,
            held_bytes: buffer(&catalog::BUFFER_BYTES),
            held_events: buffer(&catalog::BUFFER_EVENTS),
            limits: (limits, [&catalog::BUFFER_LIMIT, &catalog::BUFFER_EVENTS_LIMIT].map(&mut buffer)),
            sources,
            mishaps: [&catalog::MESSAGES_UNSENT, &catalog::MESSAGES_BAD].map(|metric| list.add(metric, &[])),
        }
    }

    /// Writes the state of a readout unit; `sources` are in the order in which they were listed.
    pub(crate) fn write(
        &self,
        to: &mut Writing<'_>,
        role: &ReadoutUnit<Span>,
        sources: impl Iterator<Item = SourceFigures>,
        outbox: &OutboxStats,
    ) {
        self.counts.write(to, |line| role.each_count(line));
        let (bytes, events) = role.held();
        to.set(self.held_bytes, bytes.0);
        to.set(self.held_events, events as u64);
        let (limits, [limit_bytes, limit_events]) = &self.limits;
        to.set(*limit_bytes, limits.bytes.0);
        to.set(*limit_events, limits.events);
        for ([fragments, age, held_back], source) in self.sources.iter().zip(sources) {
            to.set(*fragments, source.fragments);
            to.set(*age, source.age.0);
            to.set(*held_back, u64::from(source.held_back));
        }
        to.set(self.mishaps[0], outbox.dropped_frames);
        to.set(self.mishaps[1], outbox.bad_messages);
    }
}

/// Accounts of a source for its metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceWatch {
    fragments: u64,
    /// When its last fragment was seen to be new, or the run began.
    last_at: Option<Timestamp>,
    published: u64,
}

impl SourceWatch {
    pub(crate) const NEW: Self = Self { fragments: 0, last_at: None, published: 0 };

    /// Counts fragments that were accepted.
    #[inline]
    pub(crate) fn note(&mut self, fragments: usize) {
        self.fragments += fragments as u64;
    }

    /// Returns the number of fragments, and the time since the last. Its resolution is that of the calls.
    pub(crate) fn at(&mut self, now: Timestamp) -> (u64, Nanos) {
        if self.fragments != self.published || self.last_at.is_none() {
            (self.published, self.last_at) = (self.fragments, Some(now));
        }
        (self.fragments, self.last_at.map_or(Nanos::ZERO, |last| now.since(last)))
    }
}
