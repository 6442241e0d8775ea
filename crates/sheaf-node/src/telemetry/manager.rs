//! Metrics of the event manager: books of triggers, dead time, latency, credit.

use super::NodeNames;
use super::counts::{CountSeries, event_reasons};
use super::shared::MessageSeries;
use crate::outbox::OutboxStats;
use bytes::Bytes;
use sheaf_protocol::ledger::Counter;
use sheaf_protocol::manager::{DeadTimeAt, DeadTimeCause, EventManager};
use sheaf_telemetry::buckets::Buckets;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{SeriesId, SeriesList, catalog};
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, Timestamp};
use std::collections::BTreeSet;

/// States of a run, as labels.
const STATES: [&str; 7] = ["starting", "ready", "running", "paused", "finishing", "closing", "closed"];

/// Outcomes of events, as labels.
const OUTCOMES: [&str; 3] = ["stored", "rejected", "dropped"];

/// The driver's own account of a run, beside that of the role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManagerFigures<'a> {
    pub(crate) state: &'static str,
    pub(crate) started_at: Option<Timestamp>,
    /// Triggers that there were; `None` if these are the ones accepted and vetoed.
    pub(crate) offered: Option<u64>,
    pub(crate) fragments: u64,
    pub(crate) bytes: ByteCount,
    pub(crate) incomplete: u64,
    pub(crate) latency: &'a Buckets,
    /// Lost builder sessions, restarted readout units and output nodes.
    pub(crate) mishaps: [u64; 3],
    pub(crate) outbox: &'a OutboxStats,
    /// `None` in a run without a standby.
    pub(crate) standby: Option<StandbyFigures>,
}

/// The active replica's account of its standby.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StandbyFigures {
    pub(crate) is_ready: bool,
    pub(crate) take_overs: u64,
    /// Messages that wait for the standby, and how long the first of them has.
    pub(crate) held: (u64, Nanos),
}

/// The series of an event manager.
#[derive(Debug)]
pub(crate) struct ManagerSeries {
    run: RunNumber,
    run_number: SeriesId,
    states: [SeriesId; STATES.len()],
    run_start: SeriesId,
    triggers: SeriesId,
    /// Lines of the ledger.
    ledger: CountSeries,
    /// The role's other counters.
    counts: CountSeries,
    /// Incomplete events, fragments and bytes of ended events.
    ended: [SeriesId; 3],
    latency: SeriesId,
    live: SeriesId,
    reported_bytes: SeriesId,
    causes: Vec<CauseSeries>,
    /// Slots and bytes of each builder unit.
    credit: Vec<[SeriesId; 2]>,
    /// Whether each readout unit and builder unit is excluded.
    excluded: Vec<(NodeId, SeriesId)>,
    /// Lost builder sessions, restarted readout units and output nodes.
    mishaps: [SeriesId; 3],
    messages: MessageSeries,
    /// See [`StandbyFigures`]; `None` in a run without a standby.
    standby: Option<[SeriesId; 4]>,
    /// Whether each readout unit has a mirror; empty in a run without mirrors.
    mirrored: Vec<(NodeId, SeriesId)>,
}

/// The series of one cause of dead time.
#[derive(Debug)]
struct CauseSeries {
    cause: DeadTimeCause,
    vetoed: SeriesId,
    /// Without a culprit first, then with each node that can be one.
    culprits: Vec<CulpritSeries>,
}

/// Dead time of a cause for which one node, or no single one, is the reason.
#[derive(Debug)]
struct CulpritSeries {
    node: Option<NodeId>,
    seconds: SeriesId,
    /// Whether triggers are not taken now for this reason.
    shut: SeriesId,
}

impl ManagerSeries {
    /// Lists the series of a run of these nodes.
    pub(crate) fn list(list: &mut SeriesList, role: &EventManager<Bytes>, nodes: &NodeNames) -> Self {
        let run = role.identity().run;
        let pausing = role.pausing_nodes();
        let mut plain = |metric| list.add(metric, &[]);
        let (run_number, run_start) = (plain(&catalog::RUN_NUMBER), plain(&catalog::RUN_START));
        let (triggers, accepted) = (plain(&catalog::TRIGGERS), plain(&catalog::TRIGGERS_ACCEPTED));
        let (in_flight, latency) = (plain(&catalog::EVENTS_IN_FLIGHT), plain(&catalog::EVENT_SECONDS));
        let (live, reported_bytes) = (plain(&catalog::LIVE_SECONDS), plain(&catalog::READOUT_BYTES));
        let ended = [&catalog::EVENTS_INCOMPLETE, &catalog::EVENT_FRAGMENTS, &catalog::EVENT_BYTES];
        let ended = ended.map(&mut plain);
        let mishaps = [&catalog::BUILDERS_LOST, &catalog::READOUT_RESTARTS, &catalog::OUTPUT_RESTARTS];
        let mishaps = mishaps.map(&mut plain);
        let of_standby =
            [&catalog::STANDBY_READY, &catalog::TAKE_OVERS, &catalog::STANDBY_HELD, &catalog::STANDBY_WAIT];
        let standby = nodes.has_standby.then(|| of_standby.map(&mut plain));
        let messages = MessageSeries::list(list, &nodes.manager);
        let states = STATES.map(|state| list.add(&catalog::RUN_STATE, &[state]));
        let [stored, rejected, dropped] = OUTCOMES.map(|outcome| list.add(&catalog::EVENTS, &[outcome]));
        let ledger = CountSeries::new()
            .with(Counter::Received, accepted)
            .with(Counter::Stored, stored)
            .with(Counter::Rejected, rejected)
            .with(Counter::InFlight, in_flight)
            .with_drops(list, &catalog::EVENT_DROPS, event_reasons())
            .with_sum_of_drops(dropped);
        let counts = CountSeries::new().with_counters(list);
        let causes = DeadTimeCause::ALL.map(|cause| CauseSeries::list(list, cause, (nodes, &pausing))).into();
        let credit = nodes.builders.iter().map(|builder| {
            [&catalog::CREDIT_SLOTS, &catalog::CREDIT_BYTES].map(|metric| list.add(metric, &[builder]))
        });
        let credit = credit.collect();
        let mirrored = (0..).zip(&nodes.readouts).filter(|_| nodes.has_mirrors);
        let mirrored = mirrored
            .map(|(index, name)| (NodeId::readout(index), list.add(&catalog::READOUT_MIRRORED, &[name])))
            .collect();
        let readouts = (0..).zip(&nodes.readouts).map(|(index, name)| (NodeId::readout(index), name));
        let builders = (0..).zip(&nodes.builders).map(|(index, name)| (NodeId::builder(index), name));
        let excluded = readouts
            .chain(builders)
            .map(|(node, name)| (node, list.add(&catalog::NODE_EXCLUDED, &[name])))
            .collect();
        Self {
            run,
            run_number,
            states,
            run_start,
            triggers,
            ledger,
            counts,
            ended,
            latency,
            live,
            reported_bytes,
            causes,
            credit,
            excluded,
            mishaps,
            messages,
            standby,
            mirrored,
        }
    }

    /// Writes the state of the run at `now`.
    pub(crate) fn write(
        &self,
        to: &mut Writing<'_>,
        now: Timestamp,
        role: &EventManager<Bytes>,
        figures: &ManagerFigures<'_>,
    ) {
        to.set(self.run_number, u64::from(self.run.0));
        for (state, series) in STATES.iter().zip(self.states) {
            to.set(series, u64::from(*state == figures.state));
        }
        to.set(self.run_start, figures.started_at.map_or(0, |start| start.0));
        self.ledger.write(to, |line| role.each_trigger_count(line));
        self.counts.write(to, |line| role.each_count(line));
        let values = [figures.incomplete, figures.fragments, figures.bytes.0];
        self.ended.iter().zip(values).for_each(|(series, value)| to.set(*series, value));
        to.set_histogram(self.latency, &figures.latency.values());
        let dead_time = role.dead_time_at(now);
        to.set(self.live, dead_time.live().0);
        to.set(self.reported_bytes, role.buffered().0);
        self.causes.iter().for_each(|cause| cause.write(to, &dead_time));
        let tallies = role.tallies();
        to.set(self.triggers, figures.offered.unwrap_or(tallies.accepted() + tallies.vetoed));
        for (builder, [slots, bytes]) in (0..).zip(&self.credit) {
            let (free_slots, free_bytes) = role.credit(builder).unwrap_or((0, ByteCount::ZERO));
            to.set(*slots, free_slots);
            to.set(*bytes, free_bytes.0);
        }
        for (node, series) in &self.excluded {
            to.set(*series, u64::from(role.is_excluded(*node)));
        }
        for (unit, series) in &self.mirrored {
            to.set(*series, u64::from(role.is_mirrored(*unit)));
        }
        self.mishaps.iter().zip(figures.mishaps).for_each(|(series, value)| to.set(*series, value));
        self.messages.write(to, figures.outbox);
        if let (Some(series), Some(standby)) = (&self.standby, &figures.standby) {
            let (held, waited) = standby.held;
            let values = [u64::from(standby.is_ready), standby.take_overs, held, waited.0];
            series.iter().zip(values).for_each(|(series, value)| to.set(*series, value));
        }
    }
}

impl CauseSeries {
    fn list(
        list: &mut SeriesList,
        cause: DeadTimeCause,
        (nodes, pausing): (&NodeNames, &BTreeSet<NodeId>),
    ) -> Self {
        let name = cause.name();
        let vetoed = list.add(&catalog::TRIGGERS_VETOED, &[name]);
        let mut culprit = |node: Option<NodeId>| {
            let labels = [name, node.map_or("", |node| nodes.of(node))];
            let seconds = list.add(&catalog::DEAD_SECONDS, &labels);
            let shut = list.add(&catalog::GATE_SHUT, &labels);
            CulpritSeries { node, seconds, shut }
        };
        let culprits = std::iter::once(None).chain(culprits_of(cause, nodes, pausing).map(Some));
        let culprits = culprits.map(&mut culprit).collect();
        Self { cause, vetoed, culprits }
    }

    fn write(&self, to: &mut Writing<'_>, dead_time: &DeadTimeAt<'_>) {
        to.set(self.vetoed, dead_time.vetoed(self.cause));
        let mut of_nobody = dead_time.time(self.cause);
        for CulpritSeries { node, seconds, shut } in self.culprits.iter().rev() {
            let is_shut = dead_time.shut() == Some((self.cause, *node));
            to.set(*shut, u64::from(is_shut));
            let time = node.map_or(of_nobody, |node| dead_time.time_of(self.cause, node));
            // The list ends, in this direction, with the time that no single node has caused.
            of_nobody = if node.is_some() { Nanos(of_nobody.0.saturating_sub(time.0)) } else { of_nobody };
            to.set(*seconds, time.0);
        }
    }
}

/// Returns the nodes that can be the only reason of dead time for a cause. The loss of `pausing` nodes can pause the run.
fn culprits_of(
    cause: DeadTimeCause,
    nodes: &NodeNames,
    pausing: &BTreeSet<NodeId>,
) -> impl Iterator<Item = NodeId> {
    let pausing = pausing.iter().copied().filter(move |_| cause == DeadTimeCause::TooFewNodes);
    let (readouts, builders, outputs) = match cause {
        DeadTimeCause::NoReadout | DeadTimeCause::ReadoutMemory => (nodes.readouts.len(), 0, 0),
        DeadTimeCause::NoBuilder | DeadTimeCause::BuilderCredit => (0, nodes.builders.len(), 0),
        DeadTimeCause::Output => (0, nodes.builders.len(), nodes.outputs.len()),
        DeadTimeCause::EventManager
        | DeadTimeCause::NoSupervisor
        | DeadTimeCause::Paused
        | DeadTimeCause::TooFewNodes
        | DeadTimeCause::TakeOver => (0, 0, 0),
    };
    let indices = |count: usize| 0..u16::try_from(count).unwrap_or(u16::MAX);
    let readouts = indices(readouts).map(NodeId::readout);
    let builders = indices(builders).map(NodeId::builder);
    readouts.chain(builders).chain(indices(outputs).map(NodeId::output)).chain(pausing.collect::<Vec<_>>())
}
