//! Options of the surroundings of the roles: preprocessing, time slices as events, streams, uploads and consumers.

use crate::dice::{Ratio, mix};
use crate::options::Options;
use crate::payload::SimPayload;
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::sampler::{Bounds, Selection};
use sheaf_store::streams::{Routing, StreamRule};
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, SourceId, Tags};

/// Maximum number of slow calls of a preprocessor that a fragment waits for.
const SLOW_AT_ONCE: u64 = 8;

/// Maximum number of bytes by which fragments are too large.
pub(crate) const LARGEST_EXCESS: u64 = 100;

/// Number of tags that filters give.
const TAGS: u64 = 4;

/// Active readout units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreprocessingOptions {
    /// Workers of each readout unit.
    pub workers: u16,
    /// Number of events being processed from which on no further answers are started.
    pub outstanding_events: usize,
    /// Sources with a number divisible by this are processed; at least 1.
    pub every: u32,
    /// Time for one fragment.
    pub time: Nanos,
    /// Fragments that take `slow_time` instead.
    pub slow: Ratio,
    /// See `slow`.
    pub slow_time: Nanos,
    /// Time limit for one fragment, after which a worker is replaced.
    pub time_limit: Nanos,
    /// Results are smaller than their fragments by this factor, at least 1.
    pub factor: u32,
    /// Maximum number of bytes by which results exceed that size.
    pub extra: ByteCount,
    /// Fragments for which the preprocessor fails.
    pub fails: Ratio,
    /// Fragments for which it hangs.
    pub hangs: Ratio,
}

/// Time slices in place of numbered events: sources divide their items by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceOptions {
    /// Mean number of items of a source in a slice.
    pub items: u64,
    /// Maximum lateness of an item, in thousandths of a slice.
    pub disorder: u64,
    /// Tolerance of the sorting, in thousandths of a slice.
    pub tolerance: u64,
    /// Maximum number of items that wait to be sorted.
    pub held: usize,
    /// Overlap before a slice, in thousandths of a slice.
    pub before: u64,
    /// Overlap after a slice, in thousandths of a slice.
    pub after: u64,
    /// Maximum number of items of a source in a slice.
    pub max_items: usize,
    /// Maximum number of consecutive empty slices that are delivered.
    pub max_empty: u64,
}

/// Sources that programs of the user feed. They keep their fragments, or lose with a connection what was on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOptions {
    /// Sources with a number divisible by this are fed; at least 1.
    pub every: u16,
    /// Programs of each readout unit, at least 1.
    pub programs: u16,
    /// Whether programs keep fragments until they are accepted.
    pub keeps: bool,
    /// Number of fragments of a source that may be sent and not accepted.
    pub window_fragments: u64,
    /// Payload of a source that may be sent and not accepted, in fragments of the largest size.
    pub window_events: u64,
    /// Mean time of a message from program to readout unit, and back.
    pub way: Nanos,
    /// Mean time after which programs are started.
    pub start: Nanos,
    /// Time from the end of a connection to the next attempt.
    pub retry: Nanos,
    /// Number of received fragments that are sent again after a reconnection.
    pub repeats: u64,
    /// Whether a program declines the start of the run.
    pub declines: bool,
    /// Whether each program loses its connection once, with the messages on their way, right after it has sent the end of a
    /// source.
    pub loses_end: bool,
    /// Run records that programs send, if any.
    pub records: Option<RecordOptions>,
}

/// Run records that programs send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Number of records of each source during the run.
    pub count: u64,
    /// Mean time from an answer to the next record of a source.
    pub pause: Nanos,
    /// Size of the contents in bytes.
    pub bytes: u64,
    /// Whether the first record of every source has the number of that of source 0, and other contents.
    pub same_number: bool,
    /// Whether programs announce records of the end of the run, and send one of each source then.
    pub late: bool,
}

/// Maximum content of a run record in bytes that readout units take.
pub(crate) const MAX_RECORD_BYTES: u64 = 1 << 12;

impl FeedOptions {
    /// Returns whether a source is fed.
    #[must_use]
    pub fn feeds(&self, number: u16) -> bool {
        number.is_multiple_of(self.every)
    }
}

/// Fault of a program that feeds sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramFault {
    /// It dies and is started again.
    Dies {
        /// Time for which it is down.
        back_after: Nanos,
        /// Whether messages on their way are lost.
        is_lossy: bool,
    },
    /// It is stalled.
    Stalls {
        /// Duration.
        lasts: Nanos,
    },
    /// It closes its connection and connects again.
    Leaves {
        /// Whether messages on their way are lost.
        is_lossy: bool,
    },
    /// It sends one message over its credit.
    Overdraws,
}

/// Uploads of closed event files to an object store. Their events count as stored when they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStoreOptions {
    /// A file is closed at this number of events.
    pub rotate_events: usize,
    /// A file is closed when it is this old.
    pub rotate: Nanos,
    /// A file is closed when it is idle for this time.
    pub quiet: Nanos,
    /// Mean duration of an attempt.
    pub time: Nanos,
    /// Number of files uploaded at a time.
    pub connections: usize,
    /// Attempts that fail.
    pub fails: Ratio,
}

/// Consumers at each builder unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Selection of each consumer, and its processing time for an event; `None`: it never reads.
    pub selections: Vec<(Selection, Option<Nanos>)>,
    /// Maximum number of events that wait for a consumer.
    pub queue_events: u64,
    /// Maximum number of bytes that wait for a consumer.
    pub queue: ByteCount,
    /// Minimum mean interval between events of a consumer.
    pub interval: Nanos,
    /// Maximum number of bytes copied for all consumers per second.
    pub copy_rate: Option<ByteRate>,
}

impl ConsumerOptions {
    pub(crate) fn bounds(&self) -> Bounds {
        let Self { queue_events, queue, interval, copy_rate, .. } = *self;
        Bounds { queue_events, queue_bytes: queue, interval, copy_rate }
    }
}

/// Outcome of a fragment in a preprocessor, which is the same each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processing {
    /// The source is not processed.
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

    /// Returns whether a worker may be replaced, so that its fragments are sent unprocessed.
    pub(crate) fn may_hang(&self) -> bool {
        self.hangs.is_possible()
            || self.time >= self.time_limit
            || self.slow.is_possible() && self.slow_time >= self.time_limit
    }

    /// Returns the processing time of a fragment, unless the worker hangs.
    pub(crate) fn time_of(&self, seed: u64, event: EventId, source: SourceId) -> Nanos {
        let is_slow = draw(seed ^ 0x9e00_0002, event, source) < u64::from(self.slow.per_million);
        if is_slow { self.slow_time } else { self.time }
    }
}

fn draw(seed: u64, event: EventId, source: SourceId) -> u64 {
    mix(mix(seed ^ event.0) ^ u64::from(source.0)) % 1_000_000
}

impl Options {
    /// Returns the run records that programs send, if any.
    #[must_use]
    pub fn run_records(&self) -> Option<RecordOptions> {
        self.feed.and_then(|feed| feed.records)
    }

    /// Returns the payload that a preprocessor produces for a source and an event.
    #[must_use]
    pub fn processed(&self, event: EventId, source: SourceId) -> SimPayload {
        let raw = self.payload(event, source);
        let Some(setup) = self.preprocessing else { return raw };
        let smaller = u64::from(raw.length / setup.factor.max(1));
        let length = (smaller + raw.tag % (setup.extra.0 + 1)).min(self.sources.largest.0);
        raw.remade(self.seed, u32::try_from(length).unwrap_or(u32::MAX))
    }

    /// Returns the total processing time of all fragments, if each is processed once.
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

    /// Returns the longest time until a fragment is processed, including all fragments before it, without repeated requests.
    #[must_use]
    pub(crate) fn processing_of_one(&self) -> Nanos {
        let Some(setup) = self.preprocessing else { return Nanos::ZERO };
        let before = u64::from(self.system.sources_per_readout)
            * u64::from(self.bounds.slots)
            * u64::from(self.system.builders);
        let slow = if setup.slow.is_possible() { SLOW_AT_ONCE * setup.slow_time.0 } else { 0 };
        Nanos(setup.time.0 * (before + 1) + slow)
    }

    /// Returns whether a program feeds this source.
    #[must_use]
    pub fn is_fed(&self, source: SourceId) -> bool {
        self.feed.is_some_and(|setup| u16::try_from(source.0).is_ok_and(|number| setup.feeds(number)))
    }

    /// Returns whether events wait for some sources without a time limit.
    #[must_use]
    pub fn awaits_without_limit(&self) -> bool {
        self.policy == IncompletePolicy::Wait || self.feed.is_some()
    }

    /// Returns whether an event may wait for a source until later triggers come, for which a readout unit has little room.
    #[must_use]
    pub fn may_wait_for_later_triggers(&self) -> bool {
        self.supervisor.is_some()
            && self.awaits_without_limit()
            && self.sources.out_of_order.is_possible()
            && 4 * self.sources.disorder >= self.bounds.buffer_events as u64
    }

    /// Returns the largest fragment that a program may send. Readout units refuse smaller ones.
    pub(crate) fn largest_fed(&self) -> ByteCount {
        ByteCount(self.bounds.max_fragment.0 + LARGEST_EXCESS)
    }

    /// Returns the time that a fragment of a program may take longer than one of another source.
    pub(crate) fn feeding(&self) -> Nanos {
        // The largest draw is 45 times the mean; a fragment may wait for the credit of the one before.
        Nanos(self.feed.map_or(0, |setup| 4 * 48 * setup.way.0))
    }

    /// Returns the tags that the filter gives to an accepted event.
    #[must_use]
    pub fn tags(&self, event: EventId) -> Tags {
        Tags(mix(self.seed ^ mix(event.0 ^ 0x7a65)) % (1 << TAGS))
    }

    /// Returns the rules of the streams.
    #[must_use]
    pub fn routing(&self) -> Routing {
        Routing::new(self.streams.clone())
    }
}

/// Creates a rule for each of these streams: name, tags, prescale.
pub(crate) fn stream_rules(streams: &[(&str, Tags, u32)]) -> Vec<StreamRule> {
    let rule = |(name, tags, prescale): &(&str, Tags, u32)| {
        let name = name.parse().ok()?;
        Some(StreamRule { name, tags: *tags, prescale: *prescale })
    };
    streams.iter().filter_map(rule).collect()
}
