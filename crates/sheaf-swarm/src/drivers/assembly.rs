//! The drivers of a simulated run, assembled as the command does, with the times of the default configuration.

use super::disk::{DisksHandle, SimBeside, SimSink, Upload};
use super::hardware::{SimFilter, SimSource, SimStep};
use super::net::Network;
use super::options::{DriverOptions, START, STOP_TIMEOUT, TIME_LIMIT};
use super::supervision::SupervisionHandle;
use super::twins::Twins;
use super::workers::SimWorker;
use sheaf_node::builder::{BuilderNode, BuilderReport, Judgement};
use sheaf_node::content::ContentCheck;
use sheaf_node::farm::{Farm, FarmSetup, Worker};
use sheaf_node::manager::{Course, ManagerNode, ReplicaOptions};
use sheaf_node::number_check::NumberCheck;
use sheaf_node::output::OutputNode;
use sheaf_node::readout::ReadoutNode;
use sheaf_node::reborn::Reborn;
use sheaf_node::report::{Gauges, RunReport};
use sheaf_node::sink::{EventSink, NullSink};
use sheaf_node::trigger::TriggerRate;
use sheaf_node::{NodeDriver, NodeError, RunControls};
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{BuilderConfig, BuilderUnit, IncompletePolicy, ReadoutSources, Scope};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::farm::DispatcherConfig;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig, Triggers};
use sheaf_protocol::mirror::MirrorEvent;
use sheaf_protocol::output::{OutputConfig, OutputUnit, Sender, SenderConfig};
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutUnit, SourceConfig};
use sheaf_source::Source;
use sheaf_wire::{
    ByteCount, EventId, Nanos, NodeId, Role, RunNumber, SessionId, SourceId, Timestamp, TriggerMix,
    TriggerType,
};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

const FIRST_EVENT: EventId = EventId(0);
/// Number of deaths charged to an event before it is dropped.
pub(super) const MAX_ATTEMPTS: u16 = 3;
/// Time after which a silent node is given up.
pub(super) const PEER_TIMEOUT: Nanos = Nanos::from_secs(3);
/// Time for which a run without any builder unit, or without any readout unit, waits for one.
pub(super) const DESERTION_TIMEOUT: Nanos = Nanos::from_secs(60);
/// Time for which the event manager waits for nodes at the start.
const START_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Time after which nodes give up a silent event manager.
const MANAGER_PATIENCE: Patience = {
    let absence = Nanos(START_TIMEOUT.0 + 2 * PEER_TIMEOUT.0);
    Patience { absence, silence: Nanos(absence.0 + 2 * PATIENCE.silence.0) }
};

/// Time for which nodes wait for one another, as in the default configuration.
const PATIENCE: Patience = Patience { absence: PEER_TIMEOUT, silence: Nanos::from_secs(60) };
const HEARTBEAT: Nanos = Nanos::from_millis(200);
const BATCH: Nanos = Nanos::from_millis(1);
const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_millis(200), acknowledge: Nanos::from_millis(20) };

/// Makes drivers.
#[derive(Clone)]
pub(super) struct Assembly {
    pub(super) options: Arc<DriverOptions>,
    pub(super) network: Network,
    pub(super) disks: DisksHandle,
    pub(super) reports: Arc<Mutex<Vec<(NodeId, RunReport)>>>,
    pub(super) builder_reports: Arc<Mutex<Vec<BuilderReport>>>,
    retirements: Arc<Mutex<Vec<(NodeId, MirrorEvent)>>>,
    pub(super) gauges: Arc<Gauges>,
    pub(super) supervision: Option<SupervisionHandle>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) controls: Arc<RunControls>,
}

impl Assembly {
    pub(super) fn new(options: Arc<DriverOptions>) -> Self {
        let network = Network::new(options.seed, options.links.clone());
        network.lock().twins = options.mirrors.then(Twins::default);
        let supervision = SupervisionHandle::new(&options, FIRST_EVENT, START);
        Self {
            options,
            supervision,
            network,
            disks: DisksHandle::default(),
            reports: Arc::default(),
            builder_reports: Arc::default(),
            retirements: Arc::default(),
            gauges: Arc::default(),
            stop: Arc::default(),
            controls: Arc::default(),
        }
    }

    /// Takes the reports of the event manager's replicas that have ended.
    pub(super) fn take_reports(&self) -> Vec<(NodeId, RunReport)> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the reasons why mirrors have no more part in the run.
    pub(super) fn take_retirements(&self) -> Vec<(NodeId, MirrorEvent)> {
        std::mem::take(&mut *self.retirements.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a replica of the event manager has ended the run.
    pub(super) fn has_ended_run(&self) -> bool {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.iter().any(|(_, report)| report.retired.is_none())
    }

    /// Takes the reports of builder sessions that have ended normally or were given up.
    pub(super) fn take_builder_reports(&self) -> Vec<BuilderReport> {
        std::mem::take(&mut *self.builder_reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates a node in a new session. A builder that is given up begins another session by itself.
    pub(super) fn make(&self, node: NodeId) -> Box<dyn NodeDriver> {
        match node.role {
            Role::Manager => self.manager(node),
            Role::Readout => self.readout(node),
            Role::Output => self.output(node),
            Role::Mirror => self.mirror(node),
            Role::Builder => {
                let maker = self.clone();
                let next = move || -> Result<Box<dyn NodeDriver>, NodeError> { Ok(maker.builder(node)) };
                Box::new(Reborn::new(node, Box::new(next)).expect("a session begins"))
            }
        }
    }

    /// Returns an identity whose session increases with time, as in real runs.
    fn identity(&self, node: NodeId) -> Identity {
        Identity { node, run: RunNumber(7), session: SessionId(self.network.lock().now.0) }
    }

    fn manager(&self, node: NodeId) -> Box<dyn NodeDriver> {
        let options = &self.options;
        let config = ManagerConfig {
            readouts: options.readouts,
            builders: options.builders,
            outputs: options.outputs,
            readout_of: std::collections::BTreeMap::new(),
            triggers: match (options.trigger_period, options.announce) {
                (Some(_), _) => Triggers::Driven,
                (None, Announce::Never) => Triggers::Free,
                (None, Announce::All | Announce::Source(_)) => Triggers::Announced,
            },
            first_event: FIRST_EVENT,
            max_events: Some(options.events),
            trigger_type: TriggerType(0),
            trigger_mix: TriggerMix::default(),
            queue_events: options.queue_events,
            batch_events: options.batch_events,
            max_attempts: MAX_ATTEMPTS,
            expected_event: None,
            requirements: Vec::new(),
            start_timeout: START_TIMEOUT,
            stop_timeout: STOP_TIMEOUT,
            desertion_timeout: DESERTION_TIMEOUT,
            patience: PATIENCE,
            heartbeat: HEARTBEAT,
            batch_time: BATCH,
            shaping: options.gathering.shaping(),
            channel: CHANNEL,
            shifts: None,
        };
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = |period: Nanos| TriggerRate::Fixed { rate_hz: 1e9 / period.0.max(1) as f64 };
        let course = Course {
            triggers: options
                .trigger_period
                .filter(|_| options.supervisor.is_none())
                .map(|period| (rate(period), TriggerType(0))),
            from_start: false,
            duration: None,
            warm_up: Nanos::ZERO,
            stop: self.stop.clone(),
            controls: self.controls.clone(),
        };
        let (me, endpoint, now) = (self.identity(node), self.network.attach(node), self.network.lock().now);
        let role = EventManager::new(Identity { node: NodeId::MANAGER, ..me }, config.clone(), now);
        let slot = self.reports.clone();
        let done = move |report| slot.lock().unwrap_or_else(PoisonError::into_inner).push((node, report));
        let gauges = if node == NodeId::MANAGER { self.gauges.clone() } else { Arc::default() };
        let driver = ManagerNode::new(role, endpoint, course, gauges, done);
        let driver = if options.mirrors { driver.with_mirrors() } else { driver };
        if options.standby {
            let replicas = (options.replicas(CHANNEL), config);
            let options = ReplicaOptions { took_over: Box::new(|| ()), leaves: false, only_joins: false };
            return Box::new(driver.replicated(me, replicas, now, options));
        }
        Box::new(match &self.supervision {
            Some(supervision) => driver.triggered_by(supervision.input(), None),
            None => driver,
        })
    }

    fn sources_of(&self, readout: u16) -> Vec<SourceId> {
        let per_readout = u32::from(self.options.sources_per_readout);
        let first = u32::from(readout) * per_readout;
        (first..first + per_readout).map(SourceId).collect()
    }

    fn readout_config(&self, readout: u16) -> ReadoutConfig {
        let sources = self.sources_of(readout);
        ReadoutConfig {
            sources: sources.iter().map(|id| SourceConfig { id: *id, optional: false }).collect(),
            buffer: self.options.buffer,
            buffer_events: 16_384,
            max_fragment: self.options.largest,
            announce: self.options.announce,
            merge_timeout: Nanos::from_millis(500),
            longest_merge: Nanos::from_secs(60),
            wait_for_required: false,
            orphan_timeout: None,
            room_from: None,
            size_window: ReadoutConfig::SIZE_WINDOW,
            message_bytes: ByteCount::kib(64),
            message_events: 256,
            request_events: 16_384,
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        }
    }

    fn make_sources(&self, readout: u16) -> Vec<Box<dyn Source>> {
        let make = |id| -> Box<dyn Source> { Box::new(SimSource::new(id, self.options.clone())) };
        self.sources_of(readout).into_iter().map(make).collect()
    }

    fn mirror(&self, node: NodeId) -> Box<dyn NodeDriver> {
        let (me, now) = (self.identity(node), self.network.lock().now);
        let (role, mirror) = ((me, self.readout_config(node.index)), self.options.mirror(CHANNEL));
        let ends = (self.network.attach(node), self.make_sources(node.index));
        let retirements = self.retirements.clone();
        let note = move |why| retirements.lock().unwrap_or_else(PoisonError::into_inner).push((node, why));
        let driver = ReadoutNode::mirror(role, mirror, ends, MANAGER_PATIENCE, now).with_retirement(note);
        let vote = self.options.vote_of(NodeId::readout(node.index));
        Box::new(if self.options.standby { driver.with_replicas(vote) } else { driver })
    }

    fn readout(&self, node: NodeId) -> Box<dyn NodeDriver> {
        let now = self.network.lock().now;
        let role = ReadoutUnit::new(self.identity(node), self.readout_config(node.index), now);
        let sources = self.make_sources(node.index);
        let driver = ReadoutNode::new(role, self.network.attach(node), sources, MANAGER_PATIENCE, now);
        let driver =
            if self.options.mirrors { driver.mirrored(self.options.mirror(CHANNEL), now) } else { driver };
        let driver =
            if self.options.standby { driver.with_replicas(self.options.vote_of(node)) } else { driver };
        Box::new(match self.options.shaper() {
            Some(config) => driver.shaped(config, usize::from(self.options.builders)),
            None => driver,
        })
    }

    fn builder(&self, node: NodeId) -> Box<dyn NodeDriver> {
        let options = &self.options;
        let config = BuilderConfig {
            mirrored: options.mirrors,
            readouts: (0..options.readouts)
                .map(|readout| ReadoutSources { sources: self.sources_of(readout) })
                .collect(),
            optional: BTreeSet::new(),
            slots: options.slots,
            memory: options.memory,
            incomplete: IncompletePolicy::Store,
            event_timeout: Nanos::from_secs(5),
            patience: PATIENCE,
            request_retry: Nanos::from_millis(500),
            asking: options.gathering.asking(),
            scope: Scope { first_step: options.first_step().collect(), ..Scope::default() },
            windows: None,
            batch_events: 32,
            batch_time: BATCH,
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        };
        let (me, now) = (self.identity(node), self.network.lock().now);
        let role = BuilderUnit::new(me, config, now);
        let sink = if options.outputs == 0 { self.sink(me) } else { Box::new(NullSink::default()) };
        let filter = Box::new(SimFilter { options: options.clone(), network: self.network.clone() });
        let judgement =
            Judgement { check: ContentCheck::Pattern, numbers: NumberCheck::default(), filter, sink };
        let endpoint = self.network.attach(node);
        let farm = self.farm(node, endpoint.waker(), now);
        let reports = self.builder_reports.clone();
        let done = move |report| reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        let driver = BuilderNode::new(role, endpoint, judgement, MANAGER_PATIENCE, now);
        let driver = driver.with_report(done);
        let driver = if options.mirrors { driver.with_mirrors() } else { driver };
        let driver = if options.standby { driver.with_replicas(options.vote_of(node)) } else { driver };
        let driver = if options.steps.first > 0 {
            driver.in_steps(Box::new(SimStep { options: options.clone(), network: self.network.clone() }))
        } else {
            driver
        };
        let driver = match farm {
            Some(farm) => driver.with_farm(farm),
            None => driver,
        };
        if options.outputs == 0 {
            return Box::new(driver);
        }
        let config = SenderConfig {
            outputs: options.outputs,
            message: ByteCount::kib(64),
            peer_timeout: PEER_TIMEOUT,
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        };
        Box::new(driver.with_outputs(Sender::new(me, config, now)))
    }

    /// Creates a builder's farm. Returns `None` if the filter runs on the builder's thread.
    fn farm(&self, node: NodeId, waker: Waker, now: Timestamp) -> Option<Farm> {
        let filter = &self.options.filter;
        if filter.workers == 0 {
            return None;
        }
        let dispatcher = DispatcherConfig {
            events: self.options.slots,
            seats: filter.workers,
            ahead: 32,
            time_limit: Some(TIME_LIMIT),
            load_time_limit: None,
            retries: 1,
            patience: Some(Nanos::from_secs(5)),
        };
        let setup = FarmSetup { dispatcher, threads: None, door: None, listen: None };
        let farm = Farm::new(setup, node, waker, now).expect("a farm without threads and doors cannot fail");
        let (options, network) = (self.options.clone(), self.network.clone());
        let make = move |_, ahead| -> Box<dyn Worker> {
            Box::new(SimWorker::new(node, ahead, options.clone(), network.clone()))
        };
        Some(farm.with_workers(filter.workers, Box::new(make), now))
    }

    fn output(&self, node: NodeId) -> Box<dyn NodeDriver> {
        let config = OutputConfig {
            builders: self.options.builders,
            window_events: 4_096,
            window: ByteCount::mib(16),
            heartbeat: HEARTBEAT,
            channel: CHANNEL,
        };
        let (me, now) = (self.identity(node), self.network.lock().now);
        let role = OutputUnit::new(me, config, now);
        let endpoint = self.network.attach(node);
        let driver = OutputNode::new(role, endpoint, self.sink(me), MANAGER_PATIENCE, now);
        Box::new(if self.options.standby { driver.with_replicas(self.options.vote_of(node)) } else { driver })
    }

    fn sink(&self, me: Identity) -> Box<dyn EventSink> {
        let is_beside = self.options.disk.is_beside;
        let sink = SimSink {
            owner: (me.node, me.session),
            options: self.options.clone(),
            network: self.network.clone(),
            disks: self.disks.clone(),
            synced_at: self.network.lock().now,
            is_beside,
            upload: Upload::default(),
        };
        if is_beside { Box::new(SimBeside::new(sink)) } else { Box::new(sink) }
    }
}
