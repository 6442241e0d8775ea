//! Metrics of a readout unit: books of fragments, its buffer, its sources.

use super::counts::{CountSeries, fragment_reasons};
use super::shared::{BufferSeries, MessageSeries};
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
    /// Whether a fragment of it is requested that it has not given.
    pub(crate) behind: bool,
    /// Whether an operator has excluded it.
    pub(crate) excluded: bool,
}

/// The series of a readout unit.
#[derive(Debug)]
pub(crate) struct ReadoutSeries {
    counts: CountSeries,
    buffer: BufferSeries,
    messages: MessageSeries,
    /// Fragments, age, whether it is held back, behind and excluded, of each source.
    sources: Vec<[SeriesId; 5]>,
}

impl ReadoutSeries {
    /// Lists the series of a readout unit with these sources and limits of the buffer.
    pub(crate) fn list(
        list: &mut SeriesList,
        name: &str,
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
            let metrics = [
                &catalog::SOURCE_FRAGMENTS,
                &catalog::SOURCE_AGE,
                &catalog::SOURCE_HELD_BACK,
                &catalog::SOURCE_BEHIND,
                &catalog::SOURCE_EXCLUDED,
            ];
            metrics.map(|metric| list.add(metric, &[&source]))
        });
        let sources = sources.collect();
        let (buffer, messages) =
            (BufferSeries::list(list, "fragments", limits), MessageSeries::list(list, name));
        Self { counts, buffer, messages, sources }
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
        self.buffer.write(to, bytes, events as u64);
        self.messages.write(to, outbox);
        for ([fragments, age, held_back, behind, excluded], source) in self.sources.iter().zip(sources) {
            to.set(*fragments, source.fragments);
            to.set(*age, source.age.0);
            to.set(*held_back, u64::from(source.held_back));
            to.set(*behind, u64::from(source.behind));
            to.set(*excluded, u64::from(source.excluded));
        }
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

    /// Returns the number of fragments, and the time since the last or since the run began; no time before and after the run. The
    /// resolution is that of the calls.
    pub(crate) fn at(&mut self, now: Timestamp, running: bool) -> (u64, Nanos) {
        if !running {
            self.last_at = None;
            return (self.fragments, Nanos::ZERO);
        }
        let is_new = self.fragments != std::mem::replace(&mut self.published, self.fragments);
        let last_at = self.last_at.filter(|_| !is_new).unwrap_or(now);
        self.last_at = Some(last_at);
        (self.fragments, now.since(last_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run may begin long after its nodes: a source is not silent because of that.
    #[test]
    fn the_age_of_a_source_begins_with_the_run() {
        let mut watch = SourceWatch::NEW;
        let mut at = |now, running, fragments| {
            watch.note(fragments);
            watch.at(Timestamp(now), running)
        };
        assert_eq!(at(10, false, 0), (0, Nanos::ZERO));
        assert_eq!(at(9_000, true, 0), (0, Nanos::ZERO));
        assert_eq!(at(9_500, true, 0), (0, Nanos(500)));
        assert_eq!(at(9_600, true, 7), (7, Nanos::ZERO));
        assert_eq!(at(9_900, true, 0), (7, Nanos(300)));
        assert_eq!(at(9_999, false, 0), (7, Nanos::ZERO));
    }
}
