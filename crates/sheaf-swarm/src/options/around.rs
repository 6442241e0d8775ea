//! Options of the surroundings of the roles: preprocessing before events are built, time slices as events; streams, uploads and consumers after.

use crate::dice::{Ratio, mix};
use crate::options::Options;
use crate::payload::SimPayload;
use sheaf_protocol::sampler::{Bounds, Wish};
use sheaf_store::streams::{Routing, StreamRule};
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, SourceId, Tags};

/// Slow calls of a preprocessor that one fragment waits for, at most.
const SLOW_AT_ONCE: u64 = 8;

/// Number of tags that filters give.
const TAGS: u64 = 4;

/// Active readout units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreprocessingOptions {
    /// Workers of each readout unit.
    pub workers: u16,
    /// Answers are begun as long as fewer events than this are being processed.
    pub outstanding_events: usize,
    /// Every source with a number divisible by this is processed, at least 1.
    pub every: u32,
    /// Time for one fragment.
    pub time: Nanos,
    /// Fragments that take `slow_time` instead.
    pub slow: Ratio,
    /// See `slow`.
    pub slow_time: Nanos,
    /// A worker that is with one fragment for this time is replaced.
    pub time_limit: Nanos,
    /// Results are smaller than their fragments by this factor, at least 1.
    pub factor: u32,
    /// Results may be larger than that by this.
    pub extra: ByteCount,
    /// Fragments that the preprocessor fails with.
    pub fails: Ratio,
    /// Fragments that it never comes back from.
    pub hangs: Ratio,
}

/// Time slices in place of events with numbers: sources cut what they saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceOptions {
    /// Mean number of items of a source in a slice.
    pub items: u64,
    /// An item is given to be sorted by up to so many thousandths of a slice too late.
    pub disorder: u64,
    /// Thousandths of a slice for which the sorting waits.
    pub tolerance: u64,
    /// Items that wait to be sorted.
    pub held: usize,
    /// Thousandths of a slice before it that are in it, too.
    pub before: u64,
    /// Thousandths of a slice after it that are in it, too.
    pub after: u64,
    /// Items of a source in a slice.
    pub max_items: usize,
    /// Consecutive empty slices that are given.
    pub max_empty: u64,
}

/// Event files that are brought to an object store when they are closed. Their events count as stored when they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStoreOptions {
    /// A file is closed at this number of events.
    pub rotate_events: usize,
    /// A file is closed when it is this old.
    pub rotate: Nanos,
    /// A file is closed when no event came for this time.
    pub quiet: Nanos,
    /// Mean time of one try.
    pub time: Nanos,
    /// Files at a time.
    pub connections: usize,
    /// Tries that fail.
    pub fails: Ratio,
}

/// Consumers at each builder unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Wish of each consumer, and its time for an event; one without never reads.
    pub wishes: Vec<(Wish, Option<Nanos>)>,
    /// Events that wait for a consumer.
    pub queue_events: u64,
    /// Bytes that wait for a consumer.
    pub queue: ByteCount,
    /// Shortest mean time from event to event of a consumer.
    pub interval: Nanos,
    /// Bytes that are copied for all of them in a second.
    pub copy_rate: Option<ByteRate>,
}

impl ConsumerOptions {
    pub(crate) fn bounds(&self) -> Bounds {
        let Self { queue_events, queue, interval, copy_rate, .. } = *self;
        Bounds { queue_events, queue_bytes: queue, interval, copy_rate }
    }
}

/// Fate of a fragment that is given to a preprocessor: the same each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processing {
    /// Its source is not processed.
    NotWanted,
    Made,
    Fails,
    Hangs,
}

impl PreprocessingOptions {
    pub(crate) fn of(&self, seed: u64, event: EventId, source: SourceId) -> Processing {
        if !source.0.is_multiple_of(self.every) {
            return Processing::NotWanted;
        }
        let draw = draw(seed ^ 0x9e00_0001, event, source);
        if draw < u64::from(self.hangs.per_million) {
            Processing::Hangs
        } else if draw < u64::from(self.hangs.per_million) + u64::from(self.fails.per_million) {
            Processing::Fails
        } else {
            Processing::Made
        }
    }

    /// Whether a worker may be replaced, and with it what it has leave as it is.
    pub(crate) fn may_hang(&self) -> bool {
        self.hangs.is_possible()
            || self.time >= self.time_limit
            || self.slow.is_possible() && self.slow_time >= self.time_limit
    }

    /// Time that a worker is with a fragment, if it comes back.
    pub(crate) fn time_of(&self, seed: u64, event: EventId, source: SourceId) -> Nanos {
        let is_slow = draw(seed ^ 0x9e00_0002, event, source) < u64::from(self.slow.per_million);
        if is_slow { self.slow_time } else { self.time }
    }
}

fn draw(seed: u64, event: EventId, source: SourceId) -> u64 {
    mix(mix(seed ^ event.0) ^ u64::from(source.0)) % 1_000_000
}

impl Options {
    /// The payload that a preprocessor makes of what a source sends for an event.
    #[must_use]
    pub fn processed(&self, event: EventId, source: SourceId) -> SimPayload {
        let raw = self.payload(event, source);
        let Some(setup) = self.preprocessing else { return raw };
        let smaller = u64::from(raw.length / setup.factor.max(1));
        let length = (smaller + raw.tag % (setup.extra.0 + 1)).min(self.sources.largest.0);
        raw.remade(self.seed, u32::try_from(length).unwrap_or(u32::MAX))
    }

    /// Time that preprocessors are with all fragments, one after the other, if each is processed once.
    #[must_use]
    pub(crate) fn processing_together(&self) -> Nanos {
        let Some(setup) = self.preprocessing else { return Nanos::ZERO };
        let sources = (0..self.source_count()).map(|number| SourceId(u32::from(number)));
        let time = |event: EventId, source: SourceId| match setup.of(self.seed, event, source) {
            Processing::NotWanted => 0,
            Processing::Hangs => setup.time_limit.0,
            Processing::Made | Processing::Fails => setup.time_of(self.seed, event, source).0,
        };
        let of_source =
            |source| (0..self.events).map(|index| time(self.event_id(index), source)).sum::<u64>();
        Nanos(sources.map(of_source).sum())
    }

    /// Longest time that a fragment takes to be processed where nobody asks twice, with all that is before it.
    #[must_use]
    pub(crate) fn processing_of_one(&self) -> Nanos {
        let Some(setup) = self.preprocessing else { return Nanos::ZERO };
        let before = u64::from(self.system.sources_per_readout)
            * u64::from(self.bounds.slots)
            * u64::from(self.system.builders);
        let slow = if setup.slow.is_possible() { SLOW_AT_ONCE * setup.slow_time.0 } else { 0 };
        Nanos(setup.time.0 * (before + 1) + slow)
    }

    /// The tags that the filter gives an event that it accepts.
    #[must_use]
    pub fn tags(&self, event: EventId) -> Tags {
        Tags(mix(self.seed ^ mix(event.0 ^ 0x7a65)) % (1 << TAGS))
    }

    /// The rules of the streams.
    #[must_use]
    pub fn routing(&self) -> Routing {
        Routing::new(self.streams.clone())
    }
}

/// A rule for each of these streams: name, tags, prescale.
pub(crate) fn stream_rules(streams: &[(&str, Tags, u32)]) -> Vec<StreamRule> {
    let rule = |(name, tags, prescale): &(&str, Tags, u32)| {
        let name = name.parse().ok()?;
        Some(StreamRule { name, tags: *tags, prescale: *prescale })
    };
    streams.iter().filter_map(rule).collect()
}
