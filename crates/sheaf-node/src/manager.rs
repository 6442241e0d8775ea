//! The event manager on a thread: triggers in, the run's course, the books at the end.

mod events;
mod snapshot;
mod standby;
mod succession;
mod turn;

pub use succession::ManagerHandover;

use crate::busy_signal::BusySignal;
use crate::controls::{Pauses, RunControls};
use crate::handover::Handover;
use crate::outbox::Outbox;
use crate::programs::ProgramView;
use crate::report::{Gauges, RunReport};
use crate::stall::StallFree;
use crate::supervised::Supervised;
use crate::telemetry::{ManagerFigures, ManagerSeries, Telemetry};
use crate::traces::{ManagerTrace, Tracing};
use crate::trigger::{TriggerClock, TriggerRate};
use crate::trigger_input::TriggerInput;
use crate::worker::{NodeDriver, NodeError, Progress};
use bytes::Bytes;
use sheaf_protocol::manager::EventManager;
use sheaf_telemetry::SeriesList;
use sheaf_telemetry::stamps::StampLabels;
use sheaf_transport::Endpoint;
use sheaf_wire::{Nanos, NodeId, Timestamp, TriggerType};
use standby::Replica;
pub use standby::ReplicaOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use succession::Left;

/// Maximum number of due triggers that are handed over in one round, so that a trigger rate beyond the processor's
/// capacity does not delay messages. The next round continues with the others: these triggers are late, not lost.
const TRIGGERS_PER_ROUND: usize = 65_536;

/// Limits of the run, for its event manager.
pub struct Course {
    /// Triggers at a rate, or `None` where they come from elsewhere.
    pub triggers: Option<(TriggerRate, TriggerType)>,
    /// Whether the times of these triggers count from the start of the run.
    pub from_start: bool,
    /// Time during which triggers are taken, from the start of the run and without its pauses; no limit if `None`.
    pub duration: Option<Nanos>,
    /// Part of that time before rates and latencies count.
    pub warm_up: Nanos,
    /// Set by a signal handler: end the run in good order.
    pub stop: Arc<AtomicBool>,
    /// Requests of an operator.
    pub controls: Arc<RunControls>,
}

/// The event manager with its endpoint.
pub struct ManagerNode {
    role: EventManager<Bytes>,
    outbox: Outbox,
    course: Course,
    triggers: Option<TriggerClock>,
    supervised: Option<Supervised>,
    signal: Option<BusySignal>,
    started_at: Option<Timestamp>,
    /// When the operator asked for the end.
    stopped_at: Option<Timestamp>,
    /// When the operator asked for the next run.
    next_at: Option<Timestamp>,
    /// Remains of the run before, until this one starts.
    left: Option<Left>,
    /// Zero of the times of triggers that count from the start.
    zero: Timestamp,
    /// Whether no run can follow, because there are no more triggers.
    is_last: bool,
    pauses: Pauses,
    /// Number of changes of the exclusions that were heeded.
    exclusions_seen: u64,
    gauges: Arc<Gauges>,
    report: RunReport,
    done: Option<Box<dyn FnOnce(RunReport) + Send>>,
    failed: Option<NodeError>,
    time: StallFree,
    /// Publishes its metrics. One of two replicas does so from when the voters know that it is active.
    telemetry: Option<Telemetry<ManagerSeries>>,
    trace: Option<ManagerTrace>,
    /// Its part in a pair of replicas, where there is a standby.
    replica: Option<Box<Replica>>,
}

impl ManagerNode {
    /// An event manager. It publishes its metrics at the hub of `gauges`, which show the run while it lasts; `done` is given its report at the end.
    #[must_use]
    pub fn new(
        role: EventManager<Bytes>,
        endpoint: Box<dyn Endpoint>,
        course: Course,
        gauges: Arc<Gauges>,
        done: impl FnOnce(RunReport) + Send + 'static,
    ) -> Self {
        let outbox = Outbox::new(endpoint, role.identity().session);
        Self::with(role, outbox, course, gauges, Box::new(done))
    }

    fn with(
        role: EventManager<Bytes>,
        outbox: Outbox,
        course: Course,
        gauges: Arc<Gauges>,
        done: Box<dyn FnOnce(RunReport) + Send>,
    ) -> Self {
        let telemetry = (!gauges.nodes().has_standby).then(|| begin_telemetry(&role, &gauges));
        Self {
            role,
            outbox,
            course,
            triggers: None,
            supervised: None,
            signal: None,
            started_at: None,
            stopped_at: None,
            next_at: None,
            left: None,
            zero: Timestamp::ZERO,
            is_last: false,
            pauses: Pauses::default(),
            exclusions_seen: 0,
            gauges,
            report: RunReport::default(),
            done: Some(done),
            failed: None,
            time: StallFree::default(),
            telemetry,
            trace: None,
            replica: None,
        }
    }

    /// Stamps its events, and makes remarks about those that are to be traced.
    #[must_use]
    pub fn traced(mut self, tracing: Tracing) -> Self {
        let names = self.gauges.nodes();
        let labels = StampLabels { builders: names.builders.clone(), ..StampLabels::default() };
        self.trace = Some(ManagerTrace::begin(tracing, &names.manager, labels));
        self
    }

    /// Takes its triggers from a trigger supervisor; `program` is the one that this run has started.
    #[must_use]
    pub fn triggered_by(mut self, input: Box<dyn TriggerInput>, program: Option<ProgramView>) -> Self {
        self.supervised = Some(Supervised::new(input, program));
        self
    }

    /// Signals outside whether triggers are taken.
    #[must_use]
    pub fn signalling(mut self, signal: BusySignal) -> Self {
        self.signal = Some(signal);
        self
    }

    fn state(&self, now: Timestamp) -> &'static str {
        if self.role.is_finished() {
            "closed"
        } else if self.started_at.is_none() {
            if self.role.is_ready(now) { "ready" } else { "starting" }
        } else if self.role.is_running() {
            if self.role.is_paused() { "paused" } else { "running" }
        } else if self.role.awaited().is_some() {
            "finishing"
        } else {
            "closing"
        }
    }

    /// Publishes the state of the run at its time `now`, which is `local` in this process.
    fn show(&mut self, local: Timestamp, now: Timestamp) {
        // A standby shows nothing: what it repeats is shown by the active replica.
        if self.replica.as_ref().is_some_and(|replica| !replica.acts) {
            return;
        }
        let state = self.state(now);
        self.gauges.show(now, state, &self.role);
        // Both replicas have the same series. One that is started again must not replace those of the active one.
        if self.replica.as_ref().is_some_and(|replica| replica.is_founded()) && self.telemetry.is_none() {
            self.telemetry = Some(begin_telemetry(&self.role, &self.gauges));
        }
        let outbox = self.outbox.stats();
        let report = &self.report;
        let figures = ManagerFigures {
            state,
            started_at: self.started_at,
            offered: report.offered,
            fragments: report.fragments,
            bytes: report.bytes,
            incomplete: report.incomplete,
            latency: &report.latency_buckets,
            mishaps: [report.lost_builders, report.restarted_readouts, report.restarted_outputs],
            outbox: &outbox,
            standby: self.replica.as_ref().map(|replica| replica.figures(now, report.take_overs)),
        };
        if let Some(Telemetry { publisher, series }) = &mut self.telemetry {
            publisher.publish(local.0, |to| series.write(to, now, &self.role, &figures));
        }
    }
}

/// Begins to publish the metrics of the event manager.
fn begin_telemetry(role: &EventManager<Bytes>, gauges: &Gauges) -> Telemetry<ManagerSeries> {
    let list = |list: &mut SeriesList| ManagerSeries::list(list, role, gauges.nodes());
    Telemetry::begin(gauges.hub(), &gauges.nodes().manager, list)
}

impl NodeDriver for ManagerNode {
    fn node(&self) -> NodeId {
        self.replica.as_ref().map_or(NodeId::MANAGER, |replica| replica.node())
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        match self.replica.take() {
            None => self.work_alone(now),
            Some(mut replica) => {
                let progress = self.work_as(&mut replica, now);
                self.replica = Some(replica);
                progress
            }
        }
    }

    fn publish(&mut self, local: Timestamp) {
        let now = self.replica.as_ref().map_or(local, |replica| replica.time(local));
        self.show(local, now);
    }

    fn wait(&mut self, timeout: Nanos) {
        self.outbox.endpoint().wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        self.outbox.end_run(self.role.hands_over());
        self.report.switched = self.next_at.is_some() && self.stopped_at.is_none();
        self.report.close(&self.role, self.outbox.stats());
        if let Some(supervised) = &self.supervised {
            self.report.close_link(supervised.report());
        }
        // No time passes for the books any more.
        let end = self.report.last_end_at.unwrap_or_default();
        self.show(end, end);
        if let Some(done) = self.done.take() {
            done(std::mem::take(&mut self.report));
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        self.leave()
    }
}
