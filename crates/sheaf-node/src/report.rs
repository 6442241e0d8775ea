//! Figures of a run, while it lasts and at its end.

use crate::evolution::Evolution;
use crate::outbox::OutboxStats;
use crate::telemetry::NodeNames;
use bytes::Bytes;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use sheaf_protocol::ledger::{Ledger, NodeBooks};
use sheaf_protocol::manager::{Awaited, AwaitedNodes, DeadTime, Ended, EventManager};
use sheaf_protocol::numbering::Shift;
use sheaf_protocol::output::Places;
use sheaf_protocol::standby::Retirement;
use sheaf_protocol::trigger_link::LinkReport;
use sheaf_telemetry::buckets::Buckets;
use sheaf_telemetry::{Hub, catalog};
use sheaf_wire::exclusion_record::ExclusionRecord;
use sheaf_wire::{ByteCount, DropReason, Nanos, NodeId, Outcome, SessionId, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Latencies are kept to three digits, from a nanosecond to an hour.
const LONGEST_LATENCY_NS: u64 = 3_600_000_000_000;

/// The event manager's account of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The books of all triggers.
    pub ledger: Ledger,
    /// The books of all nodes that reported.
    pub nodes: BTreeMap<NodeId, NodeBooks>,
    /// The event manager's own counters.
    pub manager: NodeBooks,
    /// Live time, dead time and vetoed triggers, by cause.
    pub dead_time: DeadTime,
    /// Triggers that the emulated trigger made up to the end of triggers. None where triggers come from elsewhere.
    pub offered: Option<u64>,
    /// Number of events of each builder session that count as stored, from the first of its files on. Empty where
    /// output nodes store.
    pub committed: BTreeMap<(NodeId, SessionId), u64>,
    /// Which events of each output node's session count.
    pub kept: BTreeMap<(NodeId, SessionId), Places>,
    /// Events built: stored, rejected, or dropped after they were built.
    pub built: u64,
    /// Events built that lack a required source.
    pub incomplete: u64,
    /// Fragments and payload of the events built.
    pub fragments: u64,
    /// See `fragments`.
    pub bytes: ByteCount,
    /// Fragments in events stored.
    pub stored_fragments: u64,
    /// Time from a trigger to the news that its event has ended, in nanoseconds, on the event manager's clock.
    #[serde(with = "histogram")]
    pub latency: Histogram<u64>,
    /// The same times in fixed buckets, for metrics; of the whole run, with its warm-up.
    pub latency_buckets: Buckets,
    /// When the run began.
    pub started_at: Option<Timestamp>,
    /// Ended events and bytes over time.
    pub evolution: Evolution,
    /// When the last event ended.
    pub last_end_at: Option<Timestamp>,
    /// End of the warm-up, if there was one: rates and latencies include only events that ended after it.
    pub warm_at: Option<Timestamp>,
    /// Events that had ended by then.
    pub warm_up: Tally,
    /// Nodes that were expected and had not appeared when the run began.
    pub absent: Vec<NodeId>,
    /// Builder sessions that ended before their time.
    pub lost_builders: u64,
    /// Readout units that were restarted; the fragments they had held are in no account.
    pub restarted_readouts: u64,
    /// Readout units whose mirrors act for them.
    pub mirrored: Vec<NodeId>,
    /// Readout units that have gone on without their mirrors.
    pub lost_mirrors: u64,
    /// Output nodes that began a new life.
    pub restarted_outputs: u64,
    /// Number of times that each requirement of a minimum number of nodes was not met, by its name.
    pub unmet_requirements: BTreeMap<String, u64>,
    /// Requirement that ended the run, and the nodes that were missing.
    pub ended_by_requirement: Option<String>,
    /// Whether a signal ended the run.
    pub interrupted: bool,
    /// Number of take-overs by a standby of the event manager.
    pub take_overs: u64,
    /// Whether the run has gone on without a standby that it was to have.
    pub unprotected: bool,
    /// Reason why this replica of the event manager had no part in the run any more when it ended, if it had none.
    #[serde(skip)]
    pub retired: Option<Retirement>,
    /// Whether this replica of the event manager was the standby of the other one when the run ended.
    #[serde(skip)]
    pub stood_by: bool,
    /// Whether it ended because an operator wanted the next run.
    pub switched: bool,
    /// Messages that the event manager's link did not send or understand.
    #[serde(skip)]
    pub outbox: OutboxStats,
    /// Sources that were off, in the order in which they were found.
    pub shifts: Vec<Shift>,
    /// Ranges of events in which an operator has excluded sources.
    pub exclusions: Vec<ExclusionRecord>,
    /// Nodes that an operator has excluded, and that never were there.
    pub left_out: Vec<NodeId>,
    /// Account of the link to the trigger supervisor, where one gives the triggers.
    #[serde(skip)]
    pub trigger_link: Option<LinkReport>,
}

/// Ended events of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Events stored or rejected.
    pub built: u64,
    /// Fragments in ended events.
    pub fragments: u64,
    /// Their payload.
    pub bytes: ByteCount,
}

/// A histogram of latencies as its values and their counts.
mod histogram {
    use hdrhistogram::Histogram;
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        let recorded = histogram.iter_recorded();
        let counts = recorded.map(|step| (step.value_iterated_to(), step.count_at_value()));
        // With their number in front.
        counts.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let mut histogram = super::latencies();
        for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
            histogram.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}

/// Returns an empty histogram of latencies.
fn latencies() -> Histogram<u64> {
    let latency = Histogram::new_with_bounds(1, LONGEST_LATENCY_NS, 3);
    latency.expect("the bounds are constant and in order")
}

impl Default for RunReport {
    fn default() -> Self {
        Self {
            ledger: Ledger::default(),
            nodes: BTreeMap::new(),
            manager: NodeBooks::default(),
            dead_time: DeadTime::default(),
            offered: None,
            committed: BTreeMap::new(),
            kept: BTreeMap::new(),
            built: 0,
            incomplete: 0,
            fragments: 0,
            bytes: ByteCount::ZERO,
            stored_fragments: 0,
            latency: latencies(),
            latency_buckets: Buckets::default(),
            started_at: None,
            evolution: Evolution::default(),
            last_end_at: None,
            warm_at: None,
            warm_up: Tally::default(),
            absent: Vec::new(),
            lost_builders: 0,
            restarted_readouts: 0,
            mirrored: Vec::new(),
            lost_mirrors: 0,
            restarted_outputs: 0,
            unmet_requirements: BTreeMap::new(),
            ended_by_requirement: None,
            interrupted: false,
            take_overs: 0,
            unprotected: false,
            retired: None,
            stood_by: false,
            switched: false,
            outbox: OutboxStats::default(),
            shifts: Vec::new(),
            exclusions: Vec::new(),
            left_out: Vec::new(),
            trigger_link: None,
        }
    }
}

impl RunReport {
    pub(crate) fn started(&mut self, now: Timestamp, absent: Vec<NodeId>) {
        self.started_at = Some(now);
        self.evolution.begin(now);
        self.absent = absent;
    }

    /// Ends the warm-up: rates and latencies count from now on; the books have all.
    pub(crate) fn end_warm_up(&mut self, now: Timestamp) {
        self.warm_at = Some(now);
        self.warm_up = self.tally();
        self.latency.reset();
    }

    fn tally(&self) -> Tally {
        Tally { built: self.built, fragments: self.fragments, bytes: self.bytes }
    }

    /// Returns the events that ended after the warm-up. With [`Self::measured_time`], they give the rates.
    #[must_use]
    pub fn measured(&self) -> Tally {
        Tally {
            built: self.built - self.warm_up.built,
            fragments: self.fragments - self.warm_up.fragments,
            bytes: self.bytes - self.warm_up.bytes,
        }
    }

    /// From the end of the warm-up, or the start of the run, to the end of its last event.
    #[must_use]
    pub fn measured_time(&self) -> Nanos {
        let start = self.warm_at.or(self.started_at);
        start.zip(self.last_end_at).map_or(Nanos::ZERO, |(start, end)| end.since(start))
    }

    pub(crate) fn end_events(&mut self, now: Timestamp, ended: &Ended) {
        let count = u64::from(ended.count);
        if let Some(builder) = ended.builder {
            self.evolution.note(now, builder, count);
        }
        self.last_end_at = Some(now);
        self.latency.saturating_record_n(ended.latency.0.max(1), count);
        self.latency_buckets.add(ended.latency.0, count);
        if matches!(ended.outcome, Outcome::Stored | Outcome::Rejected) {
            self.built += count;
            self.incomplete += if ended.incomplete { count } else { 0 };
        }
        self.fragments += u64::from(ended.fragments) * count;
        self.bytes += ended.bytes;
    }

    pub(crate) fn close(&mut self, role: &EventManager<Bytes>, outbox: OutboxStats) {
        self.ledger = role.ledger();
        self.manager = role.books();
        // The triggers have ended; no time passes for them any more.
        self.dead_time = role.dead_time(self.last_end_at.unwrap_or_default());
        self.committed = role.committed();
        self.kept = role.kept().clone();
        self.stored_fragments = role.stored().fragments;
        self.shifts = role.shifts().to_vec();
        self.exclusions = role.exclusions().to_vec();
        self.left_out = role.excluded_nodes().filter(|node| role.is_left_out(*node)).collect();
        self.outbox = outbox;
    }

    /// Adds the account of the link to the trigger supervisor. Triggers of supervisors that gave no account of their own are offered
    /// as far as they were accepted.
    pub(crate) fn close_link(&mut self, link: LinkReport) {
        let busy = link.supervisor.busy.values();
        let vetoed = busy.fold(0_u64, |sum, time| sum.saturating_add(time.vetoed));
        self.offered = Some(link.triggers.accepted.saturating_add(vetoed));
        self.trigger_link = Some(link);
    }

    /// Triggers that there were, accepted or vetoed. Triggers that are free or announced are accepted, all of them.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.offered.unwrap_or(self.ledger.received)
    }

    /// The books of all readout units' fragments together.
    #[must_use]
    pub fn fragment_ledger(&self) -> Ledger {
        let mut all = Ledger::default();
        for books in self.nodes.values() {
            all.add(&books.fragments);
        }
        all
    }

    /// Returns the relations that do not add up; empty if the books balance.
    ///
    /// Each offered trigger must be accepted or vetoed, and the sum of live time and dead time must be the time of the
    /// run. The two ledgers must each balance, and nothing may be in flight. Every readout unit must have reported (if
    /// the run has begun), and the readout units must have counted as many stored fragments as the event manager.
    #[must_use]
    pub fn imbalances(&self, readouts: u16) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.ledger.is_balanced() {
            wrong.push(format!("triggers: {} received are not the sum of their bins", self.ledger.received));
        }
        let vetoed = self.dead_time.vetoed_total();
        if self.offered() != self.ledger.received + vetoed {
            wrong.push(format!(
                "triggers: {} offered are not {} accepted and {vetoed} vetoed",
                self.offered(),
                self.ledger.received
            ));
        }
        if !self.dead_time.is_balanced() {
            let (live, dead) = (self.dead_time.live, self.dead_time.dead());
            wrong.push(format!(
                "time: {live} live and {dead} dead are not the {} of the run",
                self.dead_time.run()
            ));
        }
        if let Some(link) = &self.trigger_link {
            wrong.extend(link.differences.iter().map(|difference| format!("trigger link: {difference}")));
            if !link.is_balanced() {
                let received = link.triggers.received;
                wrong.push(format!(
                    "trigger link: {received} triggers received are not the sum of their bins"
                ));
            }
        }
        if self.ledger.in_flight != 0 {
            wrong.push(format!("{} events are still in flight", self.ledger.in_flight));
        }
        let fragments = self.fragment_ledger();
        for (node, books) in &self.nodes {
            if !books.fragments.is_balanced() {
                wrong.push(format!("{node}: fragments received are not the sum of their bins"));
            }
        }
        let expected = if self.started_at.is_some() { readouts } else { 0 };
        let missing: Vec<_> = (0..expected)
            .map(NodeId::readout)
            .filter(|node| {
                let is_there = !self.absent.contains(node) && !self.left_out.contains(node);
                is_there && !self.nodes.contains_key(node)
            })
            .map(|node| node.to_string())
            .collect();
        if !missing.is_empty() {
            wrong.push(format!("no books of {}", missing.join(", ")));
        }
        if missing.is_empty() && self.restarted_readouts == 0 && fragments.stored != self.stored_fragments {
            wrong.push(format!(
                "readout units booked {} fragments as stored, stored events hold {}",
                fragments.stored, self.stored_fragments
            ));
        }
        wrong
    }

    /// Returns whether an event was dropped, or a fragment was dropped for a reason that is not part of an ordinary
    /// run.
    #[must_use]
    pub fn lost_anything(&self) -> bool {
        let ordinary =
            |reason: &DropReason| matches!(reason, DropReason::NeverTriggered | DropReason::NotRequested);
        self.ledger.dropped_total() > 0
            || self.fragment_ledger().dropped.keys().any(|reason| !ordinary(reason))
    }
}

/// A run as it goes, for a progress line in another thread: the event manager's published metrics, and what it waits for.
#[derive(Debug, Default)]
pub struct Gauges {
    hub: Hub,
    nodes: NodeNames,
    status: Mutex<Status>,
}

/// Phase of a run, and what it waits for.
#[derive(Clone, Debug, Default)]
struct Status {
    phase: &'static str,
    awaited: Option<(Awaited, Nanos)>,
    awaited_nodes: Option<AwaitedNodes>,
}

/// Values of [`Gauges`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Phase of the run.
    pub phase: &'static str,
    /// Events ended so far.
    pub ended: u64,
    /// Their payload.
    pub bytes: ByteCount,
    /// Events in flight.
    pub in_flight: u64,
    /// Built without a required source.
    pub incomplete: u64,
    /// Dropped events.
    pub dropped: u64,
    /// Payload held by the readout units, according to their last report.
    pub buffered: ByteCount,
    /// Vetoed triggers.
    pub vetoed: u64,
    /// Builder sessions lost.
    pub lost_builders: u64,
    /// The builder unit that the end of the run waits for, and for how long none of its events has ended.
    pub awaited: Option<(Awaited, Nanos)>,
    /// Nodes that the run waits for before it starts.
    pub awaited_nodes: Option<AwaitedNodes>,
}

impl Gauges {
    /// Makes the gauges of a run of these nodes, whose event manager publishes at `hub`.
    #[must_use]
    pub fn new(hub: Hub, nodes: NodeNames) -> Self {
        Self { hub, nodes, status: Mutex::default() }
    }

    /// Returns where the event manager publishes.
    #[must_use]
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) fn nodes(&self) -> &NodeNames {
        &self.nodes
    }

    pub(crate) fn set_phase(&self, phase: &'static str) {
        self.status().phase = phase;
    }

    /// Shows what the run waits for. While another thread reads it, the earlier values stay.
    pub(crate) fn show(&self, now: Timestamp, phase: &'static str, role: &EventManager<Bytes>) {
        if let Ok(mut status) = self.status.try_lock() {
            let awaited = role.awaited().map(|awaited| (awaited, now.since(awaited.since)));
            *status = Status { phase, awaited, awaited_nodes: role.awaited_nodes() };
        }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present values.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Status { phase, awaited, awaited_nodes } = self.status().clone();
        let published = self.hub.snapshot();
        let manager = published.nodes.get(&self.nodes.manager);
        let value = |metric| manager.map_or(0, |manager| manager.sum(metric));
        let dropped = manager.and_then(|manager| manager.value(&catalog::EVENTS, "dropped"));
        Snapshot {
            phase,
            ended: value(&catalog::EVENTS),
            bytes: ByteCount(value(&catalog::EVENT_BYTES)),
            in_flight: value(&catalog::EVENTS_IN_FLIGHT),
            incomplete: value(&catalog::EVENTS_INCOMPLETE),
            dropped: dropped.unwrap_or(0),
            buffered: ByteCount(value(&catalog::READOUT_BYTES)),
            vetoed: value(&catalog::TRIGGERS_VETOED),
            lost_builders: value(&catalog::BUILDERS_LOST),
            awaited,
            awaited_nodes,
        }
    }
}
