//! The simulated world: a few drivers, a clock, and a scripted disk.

use bytes::{Bytes, BytesMut};
use sheaf_node::builder::{BuilderNode, BuilderReport, Judgement};
use sheaf_node::content::ContentCheck;
use sheaf_node::filter::{AcceptAll, Filter};
use sheaf_node::manager::{Course, ManagerNode};
use sheaf_node::number_check::NumberCheck;
use sheaf_node::output::OutputNode;
use sheaf_node::readout::ReadoutNode;
use sheaf_node::reborn::Reborn;
use sheaf_node::report::{Gauges, RunReport};
use sheaf_node::sink::{EventSink, NullSink, SinkError, Taken};
use sheaf_node::trigger::TriggerRate;
use sheaf_node::{NodeDriver, NodeError, Progress, RunControls};
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{Asking, BuilderConfig, BuilderUnit, IncompletePolicy, ReadoutSources, Scope};
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::{EventManager, ManagerConfig, Shaping, Triggers};
use sheaf_protocol::output::{OutputConfig, OutputUnit, Sender, SenderConfig};
use sheaf_protocol::readout::{Announce, ReadoutConfig, ReadoutUnit, SourceConfig};
use sheaf_source::content;
use sheaf_source::{Source, SourcePoll, SourceStats};
use sheaf_transport::Endpoint;
use sheaf_transport::memory::{Doorbell, MemoryLimits, MemoryNetwork};
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{
    ByteCount, Event, EventId, Fragment, Nanos, NodeId, NumberMark, RunNumber, SessionId, SourceId, Tags,
    Timestamp, TriggerMix, TriggerType, Verdict,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Number of events of a run that ends by itself.
pub(crate) const EVENTS: u64 = 200;

/// Time for which the other nodes wait for the event manager.
pub(crate) const MANAGER_PATIENCE: Patience =
    Patience { absence: Nanos::from_secs(2), silence: Nanos::from_secs(4) };

/// Time for which the event manager waits for a node, and builders wait for a readout unit.
const PATIENCE: Patience = Patience { absence: Nanos::from_millis(500), silence: Nanos::from_secs(2) };

/// Limit of steps, far above the number of any run here.
const MOST_STEPS: u32 = 100_000;

/// Parameters of a test.
pub(crate) struct Setup {
    /// Number of events; `None`: until stopped.
    pub(crate) events: Option<u64>,
    /// Trigger rate; `None`: as fast as credit permits.
    pub(crate) rate: Option<TriggerRate>,
    pub(crate) duration: Option<Nanos>,
    pub(crate) check: ContentCheck,
    pub(crate) filter: Box<dyn Filter>,
    /// The output makes events durable after this number of batches.
    pub(crate) durable_every: u32,
    /// Events with a wrong byte in their fragment.
    pub(crate) damaged: Vec<u64>,
    /// Whether an output node stores what the builder accepts.
    pub(crate) has_output: bool,
}

pub(crate) struct World {
    drivers: Vec<Box<dyn NodeDriver>>,
    now: Timestamp,
    stop: Arc<AtomicBool>,
    pub(crate) controls: Arc<RunControls>,
    disk: Arc<Mutex<Disk>>,
    report: Arc<Mutex<Option<RunReport>>>,
    builder_report: Arc<Mutex<Option<BuilderReport>>>,
    pub(crate) gauges: Arc<Gauges>,
    /// Errors with which drivers ended.
    pub(crate) errors: Vec<NodeError>,
}

impl World {
    /// Clock step.
    pub(crate) const STEP: Nanos = Nanos::from_millis(1);

    /// Maximum number of events that the builder has at a time.
    pub(crate) const SLOTS: u32 = 16;

    pub(crate) fn new(adjust: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup {
            events: Some(EVENTS),
            rate: None,
            duration: None,
            check: ContentCheck::Off,
            filter: Box::new(AcceptAll),
            durable_every: 1,
            damaged: Vec::new(),
            has_output: false,
        };
        adjust(&mut setup);
        let nodes = [NodeId::MANAGER, NodeId::readout(0), NodeId::builder(0), NodeId::output(0)];
        let limits = MemoryLimits {
            link_frames: 64,
            link_bytes: ByteCount(1 << 20),
            max_frame_bytes: ByteCount(1 << 18),
        };
        let network = MemoryNetwork::new(&nodes, limits).unwrap();
        let mut world = Self {
            drivers: Vec::new(),
            now: Timestamp(1_000_000_000_000),
            stop: Arc::default(),
            controls: Arc::default(),
            disk: Arc::default(),
            report: Arc::default(),
            builder_report: Arc::default(),
            gauges: Arc::default(),
            errors: Vec::new(),
        };
        world.disk().durable_every = setup.durable_every;
        world.drivers = vec![
            world.manager(&setup, attach(&network, NodeId::MANAGER)),
            world.readout(&setup, attach(&network, NodeId::readout(0))),
        ];
        if setup.has_output {
            world.drivers.push(world.output(attach(&network, NodeId::output(0))));
        }
        world.drivers.push(world.builder(setup, network));
        world
    }

    fn manager(&self, setup: &Setup, endpoint: Box<dyn Endpoint>) -> Box<dyn NodeDriver> {
        let config = ManagerConfig {
            readouts: 1,
            builders: 1,
            outputs: u16::from(setup.has_output),
            readout_of: std::collections::BTreeMap::new(),
            triggers: if setup.rate.is_some() { Triggers::Driven } else { Triggers::Free },
            first_event: EventId(0),
            max_events: setup.events,
            trigger_type: TriggerType(0),
            trigger_mix: TriggerMix::default(),
            queue_events: 100,
            batch_events: 8,
            max_attempts: 3,
            expected_event: None,
            requirements: Vec::new(),
            start_timeout: Nanos::from_secs(1),
            stop_timeout: Nanos::from_secs(1),
            desertion_timeout: Nanos::from_secs(60),
            patience: PATIENCE,
            heartbeat: Nanos::from_millis(20),
            batch_time: Nanos::from_millis(1),
            shaping: Shaping::Pull,
            channel: CHANNEL,
            shifts: None,
        };
        let course = Course {
            triggers: setup.rate.map(|rate| (rate, TriggerType(0))),
            from_start: false,
            duration: setup.duration,
            warm_up: Nanos::ZERO,
            stop: self.stop.clone(),
            controls: self.controls.clone(),
        };
        let role = EventManager::new(identity(NodeId::MANAGER), config, self.now);
        let slot = self.report.clone();
        let done = move |report| *slot.lock().unwrap() = Some(report);
        Box::new(ManagerNode::new(role, endpoint, course, self.gauges.clone(), done))
    }

    fn readout(&self, setup: &Setup, endpoint: Box<dyn Endpoint>) -> Box<dyn NodeDriver> {
        let config = ReadoutConfig {
            sources: vec![SourceConfig { id: SOURCE, optional: false }],
            buffer: ByteCount(1 << 16),
            buffer_events: 64,
            max_fragment: ByteCount(1 << 12),
            announce: Announce::Never,
            merge_timeout: Nanos::from_millis(50),
            longest_merge: Nanos::from_secs(60),
            wait_for_required: false,
            orphan_timeout: None,
            room_from: None,
            size_window: ReadoutConfig::SIZE_WINDOW,
            message_bytes: ByteCount(1 << 12),
            message_events: 16,
            request_events: 64,
            heartbeat: Nanos::from_millis(20),
            channel: CHANNEL,
        };
        let role = ReadoutUnit::new(identity(NodeId::readout(0)), config, self.now);
        let source =
            Pattern { next: 0, events: setup.events, damaged: setup.damaged.iter().copied().collect() };
        Box::new(ReadoutNode::new(role, endpoint, vec![Box::new(source)], MANAGER_PATIENCE, self.now))
    }

    fn output(&self, endpoint: Box<dyn Endpoint>) -> Box<dyn NodeDriver> {
        let config = OutputConfig {
            builders: 1,
            window_events: 64,
            window: ByteCount(1 << 16),
            heartbeat: Nanos::from_millis(20),
            channel: CHANNEL,
        };
        let role = OutputUnit::new(identity(NodeId::output(0)), config, self.now);
        Box::new(OutputNode::new(role, endpoint, new_session(&self.disk), MANAGER_PATIENCE, self.now))
    }

    /// Steps a builder, which begins a new session when it was given up.
    fn builder(&self, setup: Setup, network: MemoryNetwork) -> Box<dyn NodeDriver> {
        let config = BuilderConfig {
            mirrored: false,
            readouts: vec![ReadoutSources { sources: vec![SOURCE] }],
            optional: BTreeSet::new(),
            slots: Self::SLOTS,
            memory: ByteCount(1 << 20),
            incomplete: IncompletePolicy::Store,
            event_timeout: Nanos::from_millis(200),
            patience: PATIENCE,
            request_retry: Nanos::from_millis(60),
            asking: Asking::AtOnce,
            scope: Scope::default(),
            windows: None,
            batch_events: 4,
            batch_time: Nanos::from_millis(1),
            heartbeat: Nanos::from_millis(20),
            channel: CHANNEL,
        };
        let (disk, reports, now) = (self.disk.clone(), self.builder_report.clone(), self.now);
        let (mut filter, mut session) = (Some(setup.filter), SESSION.0);
        let next = move || -> Result<Box<dyn NodeDriver>, NodeError> {
            session += 1;
            let me = Identity { session: SessionId(session), ..identity(NodeId::builder(0)) };
            let role = BuilderUnit::new(me, config.clone(), now);
            let sink: Box<dyn EventSink> =
                if setup.has_output { Box::new(NullSink::default()) } else { new_session(&disk) };
            let filter = filter.take().unwrap_or_else(|| Box::new(AcceptAll));
            let judgement = Judgement { check: setup.check, numbers: NumberCheck::default(), filter, sink };
            let slot = reports.clone();
            let done = move |report| *slot.lock().unwrap() = Some(report);
            let endpoint = attach(&network, NodeId::builder(0));
            let node = BuilderNode::new(role, endpoint, judgement, MANAGER_PATIENCE, now).with_report(done);
            Ok(Box::new(if setup.has_output { node.with_outputs(sender(me, now)) } else { node }))
        };
        Box::new(Reborn::new(NodeId::builder(0), Box::new(next)).unwrap())
    }

    /// Steps every driver once.
    pub(crate) fn step(&mut self) {
        self.step_without(None);
    }

    /// Steps every driver once except this one, which is stalled.
    pub(crate) fn step_without(&mut self, held_up: Option<NodeId>) {
        self.now += Self::STEP;
        let (now, errors) = (self.now, &mut self.errors);
        self.drivers.retain_mut(|driver| {
            if Some(driver.node()) == held_up {
                return true;
            }
            let finished = driver.work(now) == Progress::Finished;
            driver.publish(now);
            if finished {
                errors.extend(driver.finish().err());
            }
            !finished
        });
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.drivers.is_empty()
    }

    /// Steps until `condition` holds.
    #[track_caller]
    pub(crate) fn run_until(&mut self, condition: impl Fn(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if condition(self) {
                return;
            }
            assert!(self.is_running(), "the run ended first: {:?}", self.errors);
            self.step();
        }
        panic!("{MOST_STEPS} steps were not enough");
    }

    /// Steps until all drivers have ended.
    #[track_caller]
    pub(crate) fn run_to_end(&mut self) {
        for _ in 0..MOST_STEPS {
            if !self.is_running() {
                return;
            }
            self.step();
        }
        let left: Vec<_> = self.drivers.iter().map(|driver| driver.node()).collect();
        panic!("{left:?} did not end");
    }

    /// Simulates Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stalls all nodes for a while.
    pub(crate) fn pause(&mut self, pause: Nanos) {
        self.now += pause;
    }

    /// Kills a node without a message.
    pub(crate) fn kill(&mut self, node: NodeId) {
        self.drivers.retain(|driver| driver.node() != node);
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    pub(crate) fn report(&self) -> RunReport {
        self.report.lock().unwrap().clone().expect("the event manager has ended")
    }

    pub(crate) fn builder_report(&self) -> BuilderReport {
        self.builder_report.lock().unwrap().clone().expect("the builder has ended")
    }
}

const SOURCE: SourceId = SourceId(3);

const CHANNEL: ChannelTimes =
    ChannelTimes { retransmit: Nanos::from_millis(100), acknowledge: Nanos::from_millis(10) };

const SESSION: SessionId = SessionId(77);

fn identity(node: NodeId) -> Identity {
    Identity { node, run: RunNumber(9), session: SESSION }
}

fn attach(network: &MemoryNetwork, node: NodeId) -> Box<dyn Endpoint> {
    Box::new(network.attach(node, &Doorbell::new()).unwrap())
}

/// Returns the files of a new session of the storing node.
fn new_session(disk: &Arc<Mutex<Disk>>) -> Box<dyn EventSink> {
    let mut locked = disk.lock().unwrap();
    locked.sessions.push(Session::default());
    Box::new(Sink { disk: disk.clone(), session: locked.sessions.len() - 1 })
}

/// A builder's connection to the output node.
fn sender(me: Identity, now: Timestamp) -> Sender<Bytes> {
    let config = SenderConfig {
        outputs: 1,
        message: ByteCount(1 << 12),
        peer_timeout: Nanos::from_millis(500),
        heartbeat: Nanos::from_millis(20),
        channel: CHANNEL,
    };
    Sender::new(me, config, now)
}

/// A source whose content a builder can check.
struct Pattern {
    next: u64,
    events: Option<u64>,
    damaged: BTreeSet<u64>,
}

impl Source for Pattern {
    fn id(&self) -> SourceId {
        SOURCE
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        if self.events.is_some_and(|events| self.next >= events) {
            return SourcePoll::Ended;
        }
        let event = EventId(self.next);
        self.next += 1;
        let mut payload = BytesMut::new();
        content::append(SOURCE, event, 40 + (event.0 % 90) as usize, &mut payload);
        if self.damaged.contains(&event.0) {
            payload[33] ^= 0x04;
        }
        SourcePoll::Fragment(Fragment {
            event,
            source: SOURCE,
            time: now,
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: payload.freeze(),
        })
    }

    fn stop(&mut self) {
        self.events = Some(0);
    }

    fn stats(&self) -> SourceStats {
        SourceStats { fragments: self.next, ..SourceStats::default() }
    }
}

/// Events that the builder's output has accepted, and its scripted behaviour.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) sessions: Vec<Session>,
    pub(crate) durable_every: u32,
    /// Accepts no event.
    pub(crate) broken: bool,
    /// Makes no event durable.
    pub(crate) cannot_sync: bool,
    pub(crate) failures: u64,
}

/// Events that one session of the builder has written.
#[derive(Debug, Default)]
pub(crate) struct Session {
    written: Vec<(u64, bool)>,
    tags: Vec<Tags>,
    durable: u64,
    batches: u32,
}

impl Disk {
    /// Returns the ids of the events that it accepted, in order.
    pub(crate) fn events(&self) -> Vec<u64> {
        self.sessions.iter().flat_map(|session| &session.written).map(|(event, _)| *event).collect()
    }

    /// Returns the ids of the quarantined events.
    pub(crate) fn quarantined(&self) -> Vec<u64> {
        let of_session = |session: &Session| -> Vec<u64> {
            let tagged = session.written.iter().zip(&session.tags);
            tagged.filter(|(_, tags)| **tags == Tags::QUARANTINED).map(|((event, _), _)| *event).collect()
        };
        self.sessions.iter().flat_map(of_session).collect()
    }

    /// Returns the ids of the events that count: the first ones of each session.
    pub(crate) fn committed_events(&self, committed: &[u64]) -> Vec<u64> {
        assert!(committed.len() <= self.sessions.len());
        let of_session = |(session, count): (&Session, &u64)| -> Vec<u64> {
            session.written[..*count as usize].iter().map(|(event, _)| *event).collect()
        };
        self.sessions.iter().zip(committed).flat_map(of_session).collect()
    }

    pub(crate) fn durable(&self) -> u64 {
        self.sessions.iter().map(|session| session.durable).sum()
    }

    pub(crate) fn incomplete(&self) -> u64 {
        let written = self.sessions.iter().flat_map(|session| &session.written);
        written.filter(|(_, incomplete)| *incomplete).count() as u64
    }

    fn fail(&mut self) -> Result<(), SinkError> {
        self.failures += 1;
        Err(SinkError::Other("the disk is full".to_owned()))
    }
}

/// Tag of events that the output omits, as a prescaled stream does.
pub(crate) const LEFT_OUT: Tags = Tags(1 << 5);

struct Sink {
    disk: Arc<Mutex<Disk>>,
    session: usize,
}

impl EventSink for Sink {
    fn write(&mut self, event: &Event<Bytes>, verdict: &Verdict) -> Result<Taken, SinkError> {
        let mut disk = self.disk.lock().unwrap();
        if disk.broken {
            return Err(disk.fail().unwrap_err());
        }
        if verdict.tags == LEFT_OUT {
            return Ok(Taken::LeftOut);
        }
        disk.sessions[self.session].written.push((event.id.0, event.incomplete));
        disk.sessions[self.session].tags.push(verdict.tags);
        Ok(Taken::Accepted)
    }

    fn record(&mut self, _record: &Arc<RunRecord>) -> Result<(), SinkError> {
        Ok(())
    }

    fn end_batch(&mut self, _now: Timestamp) -> Result<(), SinkError> {
        let mut disk = self.disk.lock().unwrap();
        if disk.cannot_sync {
            return disk.fail();
        }
        let every = disk.durable_every;
        let session = &mut disk.sessions[self.session];
        session.batches += 1;
        if session.batches.is_multiple_of(every) {
            session.durable = session.written.len() as u64;
        }
        Ok(())
    }

    fn press(&mut self) {}

    fn stored(&self) -> u64 {
        self.disk.lock().unwrap().sessions[self.session].durable
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let mut disk = self.disk.lock().unwrap();
        if disk.broken { disk.fail() } else { Ok(()) }
    }
}
