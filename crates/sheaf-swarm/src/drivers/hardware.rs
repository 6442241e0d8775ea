//! Simulated sources and filters of the drivers.

use super::net::Network;
use super::options::DriverOptions;
use crate::dice::mix;
use bytes::{Bytes, BytesMut};
use sheaf_node::filter::{Filter, FilterFailure};
use sheaf_node::step::{StepFilter, StepVerdict};
use sheaf_protocol::builder::More;
use sheaf_source::{Source, SourcePoll, SourceStats, content};
use sheaf_wire::{ByteCount, Event, EventId, Fragment, Nanos, NumberMark, SourceId, Timestamp, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;

impl DriverOptions {
    /// Returns the number of bytes that a source sends for an event.
    #[must_use]
    pub fn length(&self, event: EventId, source: SourceId) -> usize {
        let draw = mix(mix(self.seed ^ event.0) ^ u64::from(source.0)) % (self.largest.0 + 1);
        usize::try_from(draw).unwrap_or(0)
    }

    /// Returns the sources of the first step.
    pub fn first_step(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.steps.first).map(SourceId)
    }

    /// Returns the decision on an event by its first step.
    #[must_use]
    pub fn choice(&self, event: EventId) -> StepVerdict {
        let draw = mix(mix(self.seed ^ 0x57e9_5000) ^ event.0) % 1_000_000;
        let (reject, enough) =
            (u64::from(self.steps.reject.per_million), u64::from(self.steps.enough.per_million));
        match draw {
            _ if self.steps.first == 0 => StepVerdict::More(More::All),
            draw if draw < reject => StepVerdict::Reject,
            draw if draw < reject + enough => StepVerdict::Enough,
            _ => StepVerdict::More(More::All),
        }
    }

    /// Returns the sources that are requested for an event.
    #[must_use]
    pub fn wanted(&self, event: EventId) -> BTreeSet<SourceId> {
        match self.choice(event) {
            StepVerdict::More(_) => self.sources().collect(),
            StepVerdict::Reject | StepVerdict::Enough => self.first_step().collect(),
        }
    }

    /// Returns whether an event must not be stored.
    #[must_use]
    pub fn is_unwanted(&self, event: EventId) -> bool {
        self.choice(event) == StepVerdict::Reject
            || (self.is_rejected(event) && !self.is_beyond_judging(event))
            || self.is_left_out(event)
    }

    /// Returns whether no stream takes an event. Events without a verdict are always stored.
    #[must_use]
    pub fn is_left_out(&self, event: EventId) -> bool {
        let draw = mix(mix(self.seed ^ 0x1ef7_0000) ^ event.0) % 1_000_000;
        draw < u64::from(self.disk.left_out.per_million) && !self.is_beyond_judging(event)
    }

    /// Returns whether the payload of a fragment differs from the pattern.
    #[must_use]
    pub fn is_corrupt(&self, event: EventId, source: SourceId) -> bool {
        let draw = mix(mix(self.seed ^ 0xc0_44a9) ^ mix(event.0) ^ u64::from(source.0)) % 1_000_000;
        draw < u64::from(self.corrupt.per_million) && self.length(event, source) > 0
    }

    /// Returns whether an event has a corrupt fragment.
    #[must_use]
    pub fn is_bad(&self, event: EventId) -> bool {
        self.wanted(event).into_iter().any(|source| self.is_corrupt(event, source))
    }

    /// Returns whether the filter rejects an event.
    #[must_use]
    pub fn is_rejected(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0xf117_e200) ^ event.0) % 1_000_000 < u64::from(self.filter.reject.per_million)
    }

    /// Returns whether a worker of a farm dies of an event.
    #[must_use]
    pub fn kills_worker(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0xd1e5) ^ event.0) % 1_000_000 < u64::from(self.filter.dies.per_million)
    }

    /// Returns whether a worker of a farm hangs with an event.
    #[must_use]
    pub fn hangs_worker(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0x4a46) ^ event.0) % 1_000_000 < u64::from(self.filter.hangs.per_million)
    }

    /// Returns whether no worker can judge an event. It is then stored unfiltered.
    #[must_use]
    pub fn is_beyond_judging(&self, event: EventId) -> bool {
        let is_judged = self.filter.workers > 0 && self.choice(event) != StepVerdict::Reject;
        is_judged && (self.kills_worker(event) || self.hangs_worker(event))
    }

    /// Returns the time that the filter takes for an event.
    #[must_use]
    pub fn judging_time(&self, event: EventId) -> Nanos {
        match self.filter.long {
            Some((long, time)) if long == event => time,
            _ => Nanos(self.filter.time.0 / 2 + mix(self.seed ^ event.0 ^ 0x717e) % (self.filter.time.0 + 1)),
        }
    }
}

/// A front end that sends all events in order, at a constant rate.
pub(super) struct SimSource {
    id: SourceId,
    options: Arc<DriverOptions>,
    next: u64,
    /// Event that was the first one to send.
    first: u64,
    began: Option<Timestamp>,
    stats: SourceStats,
}

impl SimSource {
    pub(super) fn new(id: SourceId, options: Arc<DriverOptions>) -> Self {
        Self { id, options, next: 0, first: 0, began: None, stats: SourceStats::default() }
    }
}

impl Source for SimSource {
    fn id(&self) -> SourceId {
        self.id
    }

    fn skip_to(&mut self, event: EventId) {
        (self.next, self.first) = (event.0, event.0);
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        let began = *self.began.get_or_insert(now);
        if self.next >= self.options.events {
            return SourcePoll::Ended;
        }
        let due = began + Nanos(self.options.pace.0 * (self.next - self.first));
        if due > now {
            return SourcePoll::NotBefore(due);
        }
        let event = EventId(self.next);
        self.next += 1;
        let mut payload = BytesMut::new();
        content::append(self.id, event, self.options.length(event, self.id), &mut payload);
        if self.options.is_corrupt(event, self.id)
            && let Some(last) = payload.last_mut()
        {
            *last ^= 1;
        }
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(payload.len());
        let payload = payload.freeze();
        SourcePoll::Fragment(Fragment {
            event,
            source: self.id,
            time: now,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload,
        })
    }

    fn stop(&mut self) {
        self.next = self.options.events;
    }

    fn stats(&self) -> SourceStats {
        self.stats.clone()
    }
}

/// A filter that blocks its thread while it judges.
pub(super) struct SimFilter {
    pub(super) options: Arc<DriverOptions>,
    pub(super) network: Network,
}

impl Filter for SimFilter {
    fn judge(&mut self, event: &Event<Bytes>) -> Result<Verdict, FilterFailure> {
        self.network.lock().spend(self.options.judging_time(event.id));
        Ok(if self.options.is_rejected(event.id) { Verdict::reject() } else { Verdict::accept() })
    }
}

/// A filter of the first step.
pub(super) struct SimStep {
    pub(super) options: Arc<DriverOptions>,
    pub(super) network: Network,
}

impl StepFilter for SimStep {
    fn judge(&mut self, part: &Event<Bytes>) -> Result<StepVerdict, FilterFailure> {
        self.network.lock().spend(Nanos::from_micros(10));
        Ok(self.options.choice(part.id))
    }
}
