//! Simulated surroundings of the drivers: sources, filters and disks.

use super::net::Network;
use super::options::DriverOptions;
use crate::dice::mix;
use bytes::{Bytes, BytesMut};
use sheaf_node::filter::{Filter, FilterFailure};
use sheaf_node::sink::{EventSink, SinkError, Taken};
use sheaf_node::step::{StepFilter, StepVerdict};
use sheaf_protocol::builder::More;
use sheaf_source::{Source, SourcePoll, SourceStats, content};
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, MissingSource, Nanos, NodeId, SessionId, SourceId, Tags, Timestamp,
    Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl DriverOptions {
    /// The bytes that a source sends for an event.
    #[must_use]
    pub fn length(&self, event: EventId, source: SourceId) -> usize {
        let draw = mix(mix(self.seed ^ event.0) ^ u64::from(source.0)) % (self.largest.0 + 1);
        usize::try_from(draw).unwrap_or(0)
    }

    /// Sources that events are asked for first.
    pub fn first_step(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.steps.first).map(SourceId)
    }

    /// Decision on an event by its first step.
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

    /// Sources that are asked for an event.
    #[must_use]
    pub fn wanted(&self, event: EventId) -> BTreeSet<SourceId> {
        match self.choice(event) {
            StepVerdict::More(_) => self.sources().collect(),
            StepVerdict::Reject | StepVerdict::Enough => self.first_step().collect(),
        }
    }

    /// Whether an event is not to be stored.
    #[must_use]
    pub fn is_unwanted(&self, event: EventId) -> bool {
        self.choice(event) == StepVerdict::Reject
            || (self.is_rejected(event) && !self.is_beyond_judging(event))
    }

    /// Whether the filter rejects an event, whoever asks it.
    #[must_use]
    pub fn is_rejected(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0xf117_e200) ^ event.0) % 1_000_000 < u64::from(self.filter.reject.per_million)
    }

    /// Whether a worker of a farm dies of an event.
    #[must_use]
    pub fn kills_worker(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0xd1e5) ^ event.0) % 1_000_000 < u64::from(self.filter.dies.per_million)
    }

    /// Whether a worker of a farm never comes back from an event.
    #[must_use]
    pub fn hangs_worker(&self, event: EventId) -> bool {
        mix(mix(self.seed ^ 0x4a46) ^ event.0) % 1_000_000 < u64::from(self.filter.hangs.per_million)
    }

    /// Whether no worker can judge an event: it is stored as it is.
    #[must_use]
    pub fn is_beyond_judging(&self, event: EventId) -> bool {
        let is_judged = self.filter.workers > 0 && self.choice(event) != StepVerdict::Reject;
        is_judged && (self.kills_worker(event) || self.hangs_worker(event))
    }

    /// Time that the filter takes for an event.
    #[must_use]
    pub fn judging_time(&self, event: EventId) -> Nanos {
        match self.filter.long {
            Some((long, time)) if long == event => time,
            _ => Nanos(self.filter.time.0 / 2 + mix(self.seed ^ event.0 ^ 0x717e) % (self.filter.time.0 + 1)),
        }
    }
}

/// A front end that sends all events in order, at its pace.
pub(super) struct SimSource {
    id: SourceId,
    options: Arc<DriverOptions>,
    next: u64,
    began: Option<Timestamp>,
    stats: SourceStats,
}

impl SimSource {
    pub(super) fn new(id: SourceId, options: Arc<DriverOptions>) -> Self {
        Self { id, options, next: 0, began: None, stats: SourceStats::default() }
    }
}

impl Source for SimSource {
    fn id(&self) -> SourceId {
        self.id
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        let began = *self.began.get_or_insert(now);
        if self.next >= self.options.events {
            return SourcePoll::Ended;
        }
        let due = began + Nanos(self.options.pace.0 * self.next);
        if due > now {
            return SourcePoll::NotBefore(due);
        }
        let event = EventId(self.next);
        self.next += 1;
        let mut payload = BytesMut::new();
        content::append(self.id, event, self.options.length(event, self.id), &mut payload);
        self.stats.fragments += 1;
        self.stats.bytes += ByteCount::from(payload.len());
        let payload = payload.freeze();
        SourcePoll::Fragment(Fragment {
            event,
            source: self.id,
            time: now,
            checksum: None,
            processed: false,
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

/// A filter that takes its time: while it judges, its thread does nothing else.
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

/// An event on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Which.
    pub event: EventId,
    /// Number of fragments.
    pub fragments: usize,
    /// Their payload.
    pub bytes: u64,
    /// It has no verdict of the filter.
    pub(super) is_quarantined: bool,
    /// Sources that are missing in it.
    pub missing: Vec<MissingSource>,
    /// When it was written.
    pub at: Timestamp,
}

/// The files of one session of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionFiles {
    /// Events in the order of writing.
    pub written: Vec<Record>,
    /// So many of these are left when the node dies.
    pub durable: usize,
}

/// The disks of all nodes that store.
#[derive(Debug, Default)]
pub(super) struct DriverDisks {
    /// By node and session.
    pub sessions: BTreeMap<(NodeId, SessionId), SessionFiles>,
    /// Until when a node's disk takes nothing.
    pub(super) fails_until: BTreeMap<NodeId, Timestamp>,
    /// Until when a node's disk does not come back from a write.
    pub(super) hangs_until: BTreeMap<NodeId, Timestamp>,
    /// Events that were not what their sources had sent.
    pub violations: Vec<String>,
    /// Node's errors so far.
    pub(super) failures: u64,
}

impl DriverDisks {
    /// A node dies: what was not durable is gone.
    pub(super) fn cut(&mut self, node: NodeId) {
        for ((_, _), files) in self.sessions.iter_mut().filter(|((owner, _), _)| *owner == node) {
            files.written.truncate(files.durable);
        }
    }
}

/// A handle of the disks.
#[derive(Clone, Debug, Default)]
pub(super) struct DisksHandle(Arc<Mutex<DriverDisks>>);

impl DisksHandle {
    pub(super) fn lock(&self) -> MutexGuard<'_, DriverDisks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output of a session.
pub(super) struct SimSink {
    pub(super) owner: (NodeId, SessionId),
    pub(super) options: Arc<DriverOptions>,
    pub(super) network: Network,
    pub(super) disks: DisksHandle,
    pub(super) synced_at: Timestamp,
}

impl SimSink {
    /// Returns the defect of an event, if it has one.
    fn check(&self, event: &Event<Bytes>) -> Option<String> {
        let sources = self.options.wanted(event.id);
        let here = event.fragments.iter().map(|fragment| fragment.source);
        let named: Vec<SourceId> = here.chain(event.missing.iter().map(|missing| missing.source)).collect();
        if named.len() != sources.len() || named.iter().copied().collect::<BTreeSet<_>>() != sources {
            return Some(format!("event {} names the sources {named:?}", event.id));
        }
        if !event.fragments.is_sorted_by(|one, other| one.source < other.source) {
            return Some(format!("the fragments of event {} are not in order of their sources", event.id));
        }
        event.fragments.iter().find_map(|fragment| {
            let source = fragment.source;
            let length = self.options.length(event.id, source);
            if fragment.event != event.id || fragment.payload.len() != length {
                return Some(format!("event {}: source {source} has {fragment:?}", event.id));
            }
            content::check(source, event.id, &fragment.payload).err().map(|mismatch| mismatch.to_string())
        })
    }

    fn fail(&self, disks: &mut DriverDisks, now: Timestamp) -> Result<(), SinkError> {
        if disks.fails_until.get(&self.owner.0).is_some_and(|until| *until > now) {
            disks.failures += 1;
            return Err(SinkError::Other("no space left on device".to_owned()));
        }
        Ok(())
    }

    /// Returns the time of a write or a sync, including a hanging disk.
    fn spend(&self, disks: &DriverDisks, time: Nanos) {
        let mut net = self.network.lock();
        if let Some(until) = disks.hangs_until.get(&self.owner.0) {
            net.wait_until(*until);
        }
        net.spend(time);
    }
}

impl EventSink for SimSink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        let now = self.network.lock().now;
        let mut disks = self.disks.lock();
        self.fail(&mut disks, now)?;
        self.spend(&disks, self.options.disk.write);
        disks.violations.extend(self.check(event));
        let bytes = event.fragments.iter().map(|fragment| fragment.payload.len() as u64).sum();
        let missing = event.missing.clone();
        let is_quarantined = verdict.tags == Tags::QUARANTINED;
        let (id, fragments) = (event.id, event.fragments.len());
        let record = Record { event: id, fragments, bytes, is_quarantined, missing, at: now };
        self.network.lock().note(event.id.0);
        disks.sessions.entry(self.owner).or_default().written.push(record);
        Ok(Taken::Accepted)
    }

    fn end_batch(&mut self, now: Timestamp) -> Result<(), SinkError> {
        let mut disks = self.disks.lock();
        let files = disks.sessions.entry(self.owner).or_default();
        if files.durable == files.written.len() || now < self.synced_at + self.options.disk.sync_interval {
            return Ok(());
        }
        self.fail(&mut disks, now)?;
        self.spend(&disks, self.options.disk.sync);
        self.synced_at = now;
        let files = disks.sessions.entry(self.owner).or_default();
        files.durable = files.written.len();
        Ok(())
    }

    fn press(&mut self) {}

    fn stored(&self) -> u64 {
        self.disks.lock().sessions.get(&self.owner).map_or(0, |files| files.durable as u64)
    }

    fn due(&self) -> Timestamp {
        let disks = self.disks.lock();
        let files = disks.sessions.get(&self.owner);
        let waits = files.is_some_and(|files| files.durable < files.written.len());
        if waits { self.synced_at + self.options.disk.sync_interval } else { Timestamp::MAX }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let now = self.network.lock().now;
        let mut disks = self.disks.lock();
        let files = disks.sessions.entry(self.owner).or_default();
        if files.durable < files.written.len() {
            self.fail(&mut disks, now)?;
        }
        let files = disks.sessions.entry(self.owner).or_default();
        files.durable = files.written.len();
        Ok(())
    }
}
