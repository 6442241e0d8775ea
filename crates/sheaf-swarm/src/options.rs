//! Options of a simulated run. Together with the commit, the options decide a run completely.
//!
//! Durations are [`Nanos`], sizes [`ByteCount`], probabilities [`Ratio`]. Instants are counted from the start of the
//! run.

mod around;
mod steps;

use crate::dice::Ratio;
pub use around::{ConsumerOptions, ObjectStoreOptions, PreprocessingOptions, SliceOptions};
pub(crate) use around::{Processing, stream_rules};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::liveness::Patience;
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_store::streams::StreamRule;
use sheaf_wire::{ByteCount, ByteRate, Nanos, NodeId, SourceId, Timestamp};
pub use steps::StepOptions;

/// A whole run. [`Options::default`] is a small system without any fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Decides every random number of the run.
    pub seed: u64,
    /// Number of triggers.
    pub events: u64,
    /// Numbers of nodes and sources.
    pub system: SystemOptions,
    /// Where triggers come from.
    pub triggers: TriggerOptions,
    /// Fragments of the sources, and their defects.
    pub sources: SourceOptions,
    /// The bounds of the roles.
    pub bounds: BoundOptions,
    /// The times of the roles.
    pub times: TimeOptions,
    /// Shaping of super-fragments to the builders.
    pub gathering: Gathering,
    /// With a barrel shifter: the line of a readout unit, and its slots.
    pub slots: SlotOptions,
    /// Which sources are asked for, and in which order.
    pub steps: StepOptions,
    /// Policy for incomplete events.
    pub policy: IncompletePolicy,
    /// Handling of built events by the drivers of builders.
    pub storage: StorageOptions,
    /// The network.
    pub network: NetworkOptions,
    /// Whether the network carries datagrams, and recovery is between it and the roles. Then its faults hit datagrams.
    pub recovery: Option<RecoveryOptions>,
    /// Who judges the events of builders; without, they do so themselves.
    pub farm: Option<FarmOptions>,
    /// Who processes fragments before they are sent, where somebody does.
    pub preprocessing: Option<PreprocessingOptions>,
    /// Which streams there are beside the stream `default`.
    pub streams: Vec<StreamRule>,
    /// Whether closed files go to an object store, and events count when they are there.
    pub uploads: Option<ObjectStoreOptions>,
    /// Who looks on at each builder unit.
    pub consumers: Option<ConsumerOptions>,
    /// Whether events are time slices. Then triggers are announced, with consecutive ids.
    pub slices: Option<SliceOptions>,
    /// Faults of nodes and links, with their times.
    pub faults: Vec<Fault>,
    /// When the operator stops the run, if it has not ended before. The second stop ends it at once.
    pub stops: Vec<Timestamp>,
    /// From here on the network does nothing wrong any more. Faults of `faults` are not shortened by it.
    pub faults_until: Timestamp,
    /// Time that the run may take to end after `faults_until`, the last stop and the last fault.
    pub converge_within: Nanos,
    /// Whether every message is encoded and decoded on its way.
    pub through_codec: bool,
    /// Nodes see their deadlines up to so much late.
    pub timer_slack: Nanos,
}

/// Numbers of nodes and sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemOptions {
    /// Readout units, at least 1.
    pub readouts: u16,
    /// Sources of each readout unit, at least 1.
    pub sources_per_readout: u16,
    /// Builder units, at least 1.
    pub builders: u16,
    /// Output nodes; 0 where builders store events themselves.
    pub outputs: u16,
    /// So many sources, the last of all, are optional.
    pub optional_sources: u16,
}

/// Where triggers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerOptions {
    /// As fast as builders take events. Sources send consecutive ids by themselves.
    Free,
    /// From a trigger process; sources answer each trigger.
    Driven {
        /// Time from trigger to trigger, or its mean.
        period: Nanos,
        /// Whether the time between triggers is exponentially distributed.
        poisson: bool,
    },
    /// From the ids that sources send.
    Announced {
        /// Source 0 alone announces, not all.
        reference_only: bool,
        /// The step from id to id, at least 1.
        stride: u64,
    },
}

/// Fragments of the sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceOptions {
    /// Mean time between two fragments of a source where sources go by themselves; latency after the trigger where
    /// triggers are driven.
    pub period: Nanos,
    /// The smallest fragment.
    pub smallest: ByteCount,
    /// The largest fragment that is sent rightly.
    pub largest: ByteCount,
    /// So many more events than triggers, where sources go by themselves.
    pub surplus: u64,
    /// Whether sources end when they have sent everything. Always where triggers are announced.
    pub end: bool,
    /// A fragment is never sent.
    pub silent: Ratio,
    /// A fragment of an optional source is never sent. Adds to `silent`.
    pub optional_silent: Ratio,
    /// A fragment is sent again, after up to 8 others.
    pub duplicate: Ratio,
    /// A fragment is sent after up to `disorder` later ones.
    pub out_of_order: Ratio,
    /// See `out_of_order`.
    pub disorder: u64,
    /// A fragment is larger than [`BoundOptions::max_fragment`].
    pub oversize: Ratio,
    /// A fragment with an id that never triggers is sent in between.
    pub unknown_event: Ratio,
    /// A fragment of a source that its readout unit does not read is sent in between.
    pub unknown_source: Ratio,
    /// After a fragment, the source pauses.
    pub pause: Ratio,
    /// Mean duration of a pause.
    pub pause_mean: Nanos,
    /// This source is so many times slower than the others.
    pub slow: Option<(u16, u64)>,
    /// This source ends after so many fragments.
    pub early_end: Option<(u16, u64)>,
    /// Whether fragments sent while the readout unit is down are lost; otherwise they wait.
    pub lossy_while_down: bool,
}

/// Bounds of queues and buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundOptions {
    /// Events that a builder builds at a time.
    pub slots: u32,
    /// Payload of those events.
    pub memory: ByteCount,
    /// Payload that a readout unit holds.
    pub buffer: ByteCount,
    /// Fragments that a readout unit holds of a source.
    pub buffer_events: usize,
    /// The largest fragment that a readout unit takes.
    pub max_fragment: ByteCount,
    /// Driven triggers that wait for a builder.
    pub queue_events: usize,
    /// Events assigned at a time.
    pub batch_events: usize,
    /// Events returned at a time.
    pub report_events: usize,
    /// Payload of a message of super-fragments.
    pub message_bytes: ByteCount,
    /// Super-fragments of a message.
    pub message_events: usize,
    /// Maximum number of builders that try an event.
    pub max_attempts: u16,
    /// See [`sheaf_protocol::manager::ManagerConfig::expected_event`].
    pub expected_event: Option<ByteCount>,
    /// Events that a readout unit accepts in one request.
    pub request_events: usize,
    /// Events that a builder has on the way to one output node.
    pub window_events: u32,
    /// Payload of those events.
    pub window: ByteCount,
}

/// Times of the roles. They obey the same rules as those of a configuration file; [`Options::validate`] checks.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeOptions {
    /// See [`sheaf_protocol::readout::ReadoutConfig::merge_timeout`].
    pub merge: Nanos,
    /// See [`sheaf_protocol::readout::ReadoutConfig::orphan_timeout`].
    pub orphan: Option<Nanos>,
    /// See [`sheaf_protocol::builder::BuilderConfig::event_timeout`].
    pub event: Nanos,
    /// See [`sheaf_protocol::builder::BuilderConfig::request_retry`].
    pub retry: Nanos,
    /// Batches are closed after this time, at builders and at the event manager.
    pub batch: Nanos,
    /// Heartbeat of readout units and builders.
    pub heartbeat: Nanos,
    /// See [`sheaf_protocol::channel::ChannelTimes::retransmit`].
    pub retransmit: Nanos,
    /// See [`sheaf_protocol::channel::ChannelTimes::acknowledge`].
    pub acknowledge: Nanos,
    /// See [`sheaf_protocol::liveness::Patience`]: nobody reports links here, so there is one limit for all silence.
    pub peer: Nanos,
    /// See [`sheaf_protocol::manager::ManagerConfig::start_timeout`].
    pub start: Nanos,
    /// See [`sheaf_protocol::manager::ManagerConfig::stop_timeout`].
    pub stop: Nanos,
    /// A fenced builder begins a new session after this time.
    pub rejoin: Nanos,
}

impl TimeOptions {
    /// Time for which nodes wait for one another.
    #[must_use]
    pub fn patience(&self) -> Patience {
        Patience { absence: self.peer, silence: self.peer }
    }
}

/// The slots of a barrel shifter. Where they have no rate they have no length, and are free-running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotOptions {
    /// The line of a readout unit.
    pub rate: Option<ByteRate>,
    /// Bytes that a slot carries.
    pub block: ByteCount,
    /// The pause between two slots.
    pub guard: Nanos,
    /// Slots begin by the event manager's clock.
    pub synchronised: bool,
    /// Time for which a link that takes nothing would hold its slot. In the simulation all links take everything.
    pub patience: Nanos,
}

impl Default for SlotOptions {
    fn default() -> Self {
        Self {
            rate: ByteRate::new(10_000_000_000),
            block: ByteCount(16_000),
            guard: Nanos::ZERO,
            synchronised: true,
            patience: Nanos::from_millis(1),
        }
    }
}

/// Handling of built events by the drivers of builders. The id of an event decides whether it is rejected or fails, so
/// that the result is the same in every builder.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageOptions {
    /// Time to filter and write an event. A builder writes one at a time.
    pub write: Nanos,
    /// From written to reported: a crash in between leaves an event on disk that does not count.
    pub report: Nanos,
    /// Events that an output takes until the first of them is durable; where it is none, any number.
    pub queue_events: Option<usize>,
    /// A write takes `late_time` longer.
    pub late: Ratio,
    /// See `late`.
    pub late_time: Nanos,
    /// This builder is so many times slower than the others.
    pub slow_builder: Option<(u16, u64)>,
    /// Events that the filter rejects.
    pub reject: Ratio,
    /// Events that the output fails to store.
    pub fail: Ratio,
    /// Events that the content check refuses.
    pub mismatch: Ratio,
}

impl StorageOptions {
    /// Whether an output that has taken so many events takes another.
    #[must_use]
    pub fn has_room(&self, events: usize) -> bool {
        self.queue_events.is_none_or(|most| events < most)
    }
}

/// The network. Without loss, duplication and reordering, each link keeps its messages in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOptions {
    /// The shortest delay of a message.
    pub delay_min: Nanos,
    /// The mean of what comes on top of it, exponentially distributed.
    pub jitter_mean: Nanos,
    /// Each link is slower than that by a factor from 1 to this.
    pub spread: u64,
    /// A message is lost.
    pub loss: Ratio,
    /// A message comes twice.
    pub duplicate: Ratio,
    /// A message does not keep its place in the order of its link and may take `reorder_delay` longer.
    pub reorder: Ratio,
    /// See `reorder`.
    pub reorder_delay: Nanos,
    /// Sending a message clogs its link: nothing arrives on it for a while.
    pub clog: Ratio,
    /// Mean time for which a link stays clogged.
    pub clog_mean: Nanos,
}

/// Farms that judge the events of builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmOptions {
    /// Processors of each builder.
    pub processors: u16,
    /// Events at a processor, at most.
    pub ahead: u32,
    /// Time for a verdict.
    pub judge: Nanos,
    /// Time from converter to processor, and back.
    pub way: Nanos,
    /// A processor that is silent for so long although a word is due is ended.
    pub time_limit: Nanos,
    /// For so long events wait for a processor where there is none.
    pub patience: Nanos,
    /// Number of retries of an event after its processor ended or failed with it.
    pub retries: u16,
    /// After so long another processor takes the place of one that died.
    pub restart: Nanos,
    /// Events that the filter fails with, in good order.
    pub fails: Ratio,
    /// Events that the filter dies of.
    pub dies: Ratio,
    /// Events that the filter never comes back from.
    pub hangs: Ratio,
    /// Events after whose verdict the processor says nothing more.
    pub falls_silent: Ratio,
    /// Events after which the processor leaves in good order.
    pub leaves: Ratio,
    /// Events that the filter fails with, and that the processor sends a verdict of all the same.
    pub contradicts: Ratio,
    /// Number of events that a processor would like to have; at most `ahead` are given.
    pub asks: u32,
}

impl Default for FarmOptions {
    fn default() -> Self {
        Self {
            processors: 3,
            ahead: 4,
            judge: Nanos::from_micros(40),
            way: Nanos::from_micros(5),
            time_limit: Nanos::from_millis(2),
            patience: Nanos::from_millis(20),
            retries: 1,
            restart: Nanos::from_micros(300),
            fails: Ratio::NEVER,
            dies: Ratio::NEVER,
            hangs: Ratio::NEVER,
            falls_silent: Ratio::NEVER,
            leaves: Ratio::NEVER,
            contradicts: Ratio::NEVER,
            asks: 4,
        }
    }
}

impl FarmOptions {
    /// The longest time from giving an event to a living processor that has no other to its verdict.
    #[must_use]
    pub fn turn(&self) -> Nanos {
        self.judge + self.way + self.way
    }

    /// Whether no processor that works is taken for one that hangs, and no event is given up while one is being started.
    #[must_use]
    pub fn is_patient(&self) -> bool {
        let limit = 2 * self.turn().0 + 500_000;
        self.time_limit.0 >= limit && self.patience.0 >= 4 * (self.restart.0 + self.time_limit.0 + self.way.0)
    }

    /// Whether a filter ends its processor, or fails with an event.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        let harm = [self.fails, self.dies, self.hangs, self.falls_silent, self.contradicts];
        harm.into_iter().any(Ratio::is_possible)
    }
}

/// Links that recover from loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// The largest datagram, from 256 to 65,535 bytes.
    pub datagram: ByteCount,
    /// Number of rails of a link, from 1 to 64. The network treats them alike.
    pub rails: usize,
}

/// Something that goes wrong at a planned instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: FaultKind,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A node other than the event manager forgets everything. It comes back with a new session after `back_after`,
    /// or never.
    Crash {
        /// Which.
        node: NodeId,
        /// Time for which it is down.
        back_after: Option<Nanos>,
    },
    /// A node does nothing for a while; what arrives waits.
    Stall {
        /// Which.
        node: NodeId,
        /// Duration.
        lasts: Nanos,
    },
    /// All nodes do nothing for the same while, as when their machine is suspended; the network goes on.
    Freeze {
        /// Duration.
        lasts: Nanos,
    },
    /// A processor of a builder's farm dies; it is started again.
    KillProcessor {
        /// The builder.
        builder: u16,
        /// Which of its processors.
        place: u16,
    },
    /// A link loses (`cut`) or holds back everything that is sent on it for a while.
    Link {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Duration.
        lasts: Nanos,
        /// Messages are lost, not held back.
        cut: bool,
    },
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            events: 200,
            system: SystemOptions {
                readouts: 3,
                sources_per_readout: 2,
                builders: 3,
                outputs: 0,
                optional_sources: 0,
            },
            triggers: TriggerOptions::Free,
            sources: SourceOptions::default(),
            bounds: BoundOptions::default(),
            times: TimeOptions::default(),
            gathering: Gathering::Pull,
            slots: SlotOptions::default(),
            steps: StepOptions::default(),
            policy: IncompletePolicy::Store,
            storage: StorageOptions {
                write: Nanos::from_micros(20),
                report: Nanos::from_micros(5),
                queue_events: None,
                late: Ratio::NEVER,
                late_time: Nanos::ZERO,
                slow_builder: None,
                reject: Ratio::NEVER,
                fail: Ratio::NEVER,
                mismatch: Ratio::NEVER,
            },
            network: NetworkOptions::default(),
            recovery: None,
            farm: None,
            preprocessing: None,
            streams: Vec::new(),
            uploads: None,
            consumers: None,
            slices: None,
            faults: Vec::new(),
            stops: Vec::new(),
            faults_until: Timestamp(0),
            converge_within: Nanos::from_secs(60),
            through_codec: false,
            timer_slack: Nanos::ZERO,
        }
    }
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            period: Nanos::from_micros(50),
            smallest: ByteCount(0),
            largest: ByteCount(4_000),
            surplus: 0,
            end: false,
            silent: Ratio::NEVER,
            optional_silent: Ratio::NEVER,
            duplicate: Ratio::NEVER,
            out_of_order: Ratio::NEVER,
            disorder: 1,
            oversize: Ratio::NEVER,
            unknown_event: Ratio::NEVER,
            unknown_source: Ratio::NEVER,
            pause: Ratio::NEVER,
            pause_mean: Nanos::from_millis(10),
            slow: None,
            early_end: None,
            lossy_while_down: false,
        }
    }
}

impl Default for BoundOptions {
    fn default() -> Self {
        Self {
            slots: 16,
            memory: ByteCount::mib(4),
            buffer: ByteCount::mib(4),
            buffer_events: 256,
            max_fragment: ByteCount(5_000),
            queue_events: 32,
            batch_events: 4,
            report_events: 4,
            message_bytes: ByteCount::kib(32),
            message_events: 16,
            max_attempts: 4,
            expected_event: None,
            request_events: 4_096,
            window_events: 16,
            window: ByteCount::mib(4),
        }
    }
}

impl Default for TimeOptions {
    fn default() -> Self {
        Self {
            merge: Nanos::from_millis(20),
            orphan: Some(Nanos::from_millis(500)),
            event: Nanos::from_millis(60),
            retry: Nanos::from_millis(25),
            batch: Nanos::from_micros(200),
            heartbeat: Nanos::from_millis(5),
            retransmit: Nanos::from_millis(8),
            acknowledge: Nanos::from_millis(1),
            peer: Nanos::from_millis(50),
            start: Nanos::from_millis(100),
            stop: Nanos::from_millis(300),
            rejoin: Nanos::from_millis(1),
        }
    }
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            delay_min: Nanos::from_micros(10),
            jitter_mean: Nanos::from_micros(10),
            spread: 1,
            loss: Ratio::NEVER,
            duplicate: Ratio::NEVER,
            reorder: Ratio::NEVER,
            reorder_delay: Nanos::from_millis(1),
            clog: Ratio::NEVER,
            clog_mean: Nanos::from_millis(5),
        }
    }
}

impl Fault {
    /// When the fault is over. A node that never comes back has been lost for good at once.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        match self.kind {
            FaultKind::Crash { back_after, .. } => self.at + back_after.unwrap_or(Nanos::ZERO),
            FaultKind::Stall { lasts, .. } | FaultKind::Link { lasts, .. } | FaultKind::Freeze { lasts } => {
                self.at + lasts
            }
            FaultKind::KillProcessor { .. } => self.at,
        }
    }
}

/// Messages, datagrams and timers of a fragment in one attempt, each of which may come twice.
const STEPS_OF_A_FRAGMENT: u64 = 10;

impl Options {
    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        let readouts = (0..self.system.readouts).map(NodeId::readout);
        let builders = (0..self.system.builders).map(NodeId::builder);
        let outputs = (0..self.system.outputs).map(NodeId::output);
        [NodeId::MANAGER].into_iter().chain(readouts).chain(builders).chain(outputs).collect()
    }

    /// All sources.
    #[must_use]
    pub fn source_count(&self) -> u16 {
        self.system.readouts * self.system.sources_per_readout
    }

    /// The readout unit of a source.
    #[must_use]
    pub fn readout_of(&self, source: SourceId) -> NodeId {
        let index = source.0 / u32::from(self.system.sources_per_readout);
        NodeId::readout(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// The mean time between two fragments of a source, or its latency.
    #[must_use]
    pub fn source_period(&self, source: SourceId) -> Nanos {
        let slowness = self.sources.slow.filter(|(slow, _)| u32::from(*slow) == source.0);
        Nanos(self.sources.period.0 * slowness.map_or(1, |(_, factor)| factor))
    }

    /// Whether a source is optional.
    #[must_use]
    pub fn is_optional(&self, source: u16) -> bool {
        source + self.system.optional_sources >= self.source_count()
    }

    /// When the run must have ended.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        let faults = self.faults.iter().map(Fault::ends_at).max();
        let stops = self.stops.iter().copied().max();
        let last = [Some(self.faults_until), stops, faults].into_iter().flatten().max();
        last.unwrap_or_default() + self.converge_within
    }

    /// Number of steps that the run may take until then: some for each fragment in each attempt, and some for each heartbeat of each
    /// pair of nodes.
    #[must_use]
    pub fn steps_until(&self, now: Timestamp) -> u64 {
        let nodes = u64::from(self.system.readouts + self.system.builders + self.system.outputs) + 1;
        let fragments = (self.events + self.sources.surplus) * u64::from(self.source_count());
        let attempts = u64::from(self.bounds.max_attempts) + 1;
        let times = [self.times.heartbeat, self.times.acknowledge, self.times.retry, self.times.merge];
        let shortest = times.into_iter().map(|time| time.0).min().unwrap_or(1).clamp(50_000, u64::MAX);
        let rails = self.recovery.map_or(1, |recovery| recovery.rails as u64 + 3);
        let triggers = match self.triggers {
            TriggerOptions::Driven { period, .. } => 4 * now.0 / period.0.max(1),
            _ => 0,
        };
        let of_time = nodes * nodes * rails * (now.0 / shortest + 1) + triggers;
        10_000 + STEPS_OF_A_FRAGMENT * rails * attempts * (fragments + nodes * self.events) + of_time
    }

    /// Returns the error of the options, if any: those that the configuration of a real system would be refused for.
    ///
    /// # Errors
    /// The rule that is not kept.
    pub fn validate(&self) -> Result<(), &'static str> {
        let (times, system, bounds) = (&self.times, &self.system, &self.bounds);
        let rules = [
            (system.readouts > 0 && system.sources_per_readout > 0, "there is at least one source"),
            (system.builders > 0, "there is at least one builder"),
            (bounds.slots > 0 && bounds.buffer_events > 0, "there is room for at least one event"),
            (
                bounds.batch_events <= bounds.slots as usize,
                "a batch must fit into the slots of a builder unit",
            ),
            (
                bounds.slots as usize <= bounds.request_events,
                "a readout unit takes a request for all that a builder unit has slots for",
            ),
            (
                self.policy == IncompletePolicy::Wait || times.merge < times.event,
                "a readout unit gives up a silent source before its builder gives up the event",
            ),
            (
                self.policy == IncompletePolicy::Wait || times.retry < times.event,
                "a request is repeated before the event is given up",
            ),
            (
                times.orphan.is_none_or(|orphan| times.merge < orphan),
                "fragments outlive the wait for the others of their event",
            ),
            (times.heartbeat < times.peer, "a living node is heard before it is held for dead"),
            (times.retransmit < times.peer, "a lost message is repeated before its peer is held for dead"),
            (times.acknowledge < times.retransmit, "an acknowledgement comes before the repetition"),
            (times.retry > Nanos::ZERO && times.heartbeat > Nanos::ZERO, "what is repeated takes time"),
            (
                self.steps_may_be(),
                "readout units that send unasked, or announce, are not asked for parts, or by trigger type",
            ),
            (self.sources.smallest <= self.sources.largest, "the smallest fragment is not the largest"),
            (
                self.sources.largest <= bounds.max_fragment,
                "fragments sent rightly are taken by readout units",
            ),
            (self.slices_may_be(), "time slices have consecutive ids, which sources announce"),
        ];
        rules.into_iter().find(|(kept, _)| !kept).map_or(Ok(()), |(_, rule)| Err(rule))
    }

    /// The shaper of a readout unit, where there is a barrel shifter.
    #[must_use]
    pub fn shaper(&self) -> Option<ShaperConfig> {
        let slots = &self.slots;
        let barrel = BarrelConfig {
            builders: usize::from(self.system.builders),
            senders: usize::from(self.system.readouts),
            block: slots.block,
            guard: slots.guard,
            slots: match slots.rate {
                Some(_) if slots.synchronised => SlotSchedule::Synchronised,
                _ => SlotSchedule::FreeRunning,
            },
            patience: slots.patience,
        };
        matches!(self.gathering, Gathering::Barrel { .. }).then_some(ShaperConfig {
            line_rate: slots.rate,
            burst: slots.block,
            unit: ByteCount(1_500),
            policy: Policy::Barrel(barrel),
        })
    }

    /// Whether nothing that the run log would call a fault can happen. Back-pressure is no fault.
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        let (sources, network) = (&self.sources, &self.network);
        let ratios = [
            sources.silent,
            sources.optional_silent,
            sources.duplicate,
            sources.out_of_order,
            sources.oversize,
            sources.unknown_event,
            sources.unknown_source,
            sources.pause,
            network.loss,
            network.duplicate,
            network.reorder,
            network.clog,
            self.storage.fail,
            self.storage.mismatch,
        ];
        let quiet = ratios.into_iter().all(|ratio| !ratio.is_possible());
        quiet
            && self.farm.is_none_or(|farm| !farm.is_faulty() && farm.is_patient())
            && self.preprocessing.is_none_or(|setup| !setup.may_hang())
            && self.slices.is_none_or(|slices| slices.is_gapless())
            && self.faults.is_empty()
            && self.stops.is_empty()
            && sources.early_end.is_none()
    }
}
