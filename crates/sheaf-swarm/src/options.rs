//! Options of a simulated run. Options and commit determine a run completely.
//!
//! Durations are [`Nanos`], sizes [`ByteCount`], probabilities [`Ratio`]. Instants are counted from the start of the
//! run.

mod around;
mod bound;
mod farm;
mod faults;
mod network;
mod numbers;
mod rules;
mod steps;
mod windows;

use crate::dice::Ratio;
pub use around::{
    ConsumerOptions, FeedOptions, ObjectStoreOptions, PreprocessingOptions, ProgramFault, RecordOptions,
    SliceOptions,
};
pub(crate) use around::{LARGEST_EXCESS, MAX_RECORD_BYTES, Processing, stream_rules};
pub use farm::FarmOptions;
pub use faults::{Fault, FaultKind, NodeExclusion, Pause, SourceExclusion};
pub use network::{NetworkOptions, RecoveryOptions};
pub(crate) use numbers::UNKNOWN_EVENTS;
pub use numbers::{FIRST_EVENT, NumberFault, NumberOptions};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::manager::Requirement;
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_store::streams::StreamRule;
use sheaf_wire::{ByteCount, ByteRate, Nanos, NodeId, SourceId, Timestamp};
pub use steps::StepOptions;
pub(crate) use windows::PLAIN_TYPE;
pub use windows::WindowOptions;

/// A whole run. [`Options::default`] is a small system without any fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// Number of triggers.
    pub events: u64,
    /// Numbers of nodes and sources.
    pub system: SystemOptions,
    /// Source of triggers.
    pub triggers: TriggerOptions,
    /// A trigger supervisor that makes driven triggers, if there is one.
    pub supervisor: Option<SupervisorOptions>,
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
    /// Sources that are requested, and their order.
    pub steps: StepOptions,
    /// Policy for incomplete events.
    pub policy: IncompletePolicy,
    /// Handling of built events by the drivers of builders.
    pub storage: StorageOptions,
    /// The network.
    pub network: NetworkOptions,
    /// Whether the network carries datagrams, and recovery is between it and the roles. Then its faults hit datagrams.
    pub recovery: Option<RecoveryOptions>,
    /// Farms that judge the events of builders. `None`: builders judge themselves.
    pub farm: Option<FarmOptions>,
    /// Preprocessing of fragments before they are sent, if any.
    pub preprocessing: Option<PreprocessingOptions>,
    /// Streams in addition to the stream `default`.
    pub streams: Vec<StreamRule>,
    /// Uploads of closed files to an object store. If enabled, events count when they are there.
    pub uploads: Option<ObjectStoreOptions>,
    /// Consumers at each builder unit.
    pub consumers: Option<ConsumerOptions>,
    /// Programs that feed sources, if any.
    pub feed: Option<FeedOptions>,
    /// Time slices as events, if enabled. Triggers are then announced, with consecutive ids.
    pub slices: Option<SliceOptions>,
    /// Sources that give windows of their hits on request, if there are any.
    pub windows: Option<WindowOptions>,
    /// Check values of the sources, if they have any.
    pub numbers: Option<NumberOptions>,
    /// Faults of nodes and links, with their times.
    pub faults: Vec<Fault>,
    /// When the operator stops the run, if it has not ended before. The second stop ends it at once.
    pub stops: Vec<Timestamp>,
    /// Until when the operator holds the start of the run, if he does.
    pub held_until: Option<Timestamp>,
    /// Pauses of the run. They may overlap, and lie before its start or after its end.
    pub pauses: Vec<Pause>,
    /// Exclusions of sources. They may overlap, and lie before the start of the run or after its end.
    pub exclusions: Vec<SourceExclusion>,
    /// Exclusions of readout units and builder units, in the same way.
    pub node_exclusions: Vec<NodeExclusion>,
    /// Minimum numbers of nodes.
    pub requirements: Vec<Requirement>,
    /// Time from which the network has no faults. Faults of `faults` are not shortened by it.
    pub faults_until: Timestamp,
    /// Time that the run may take to end after `faults_until`, the last stop, pause and fault, and the release of its start.
    pub converge_within: Nanos,
    /// Whether every message is encoded and decoded on its way.
    pub through_codec: bool,
    /// Maximum delay with which nodes handle their deadlines.
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
    /// Output nodes; 0 if builders store events themselves.
    pub outputs: u16,
    /// Number of optional sources, which are the last ones.
    pub optional_sources: u16,
}

/// Source of triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerOptions {
    /// As fast as builders take events. Sources send consecutive ids on their own.
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
        /// Only source 0 announces events.
        reference_only: bool,
        /// The step from id to id, at least 1.
        stride: u64,
    },
}

/// A trigger supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorOptions {
    /// Longest time of a message between supervisor and event manager.
    pub latency: Nanos,
    /// Number of fragments for which readout units remember the size of a large one.
    pub size_window: u32,
    /// Faults of datagrams, if the link consists of them.
    pub datagrams: Option<TriggerDatagramOptions>,
    /// Deaths of its program.
    pub deaths: Option<SupervisorFaults>,
}

/// Deaths of the program of a trigger supervisor, which starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorFaults {
    /// Probability of dying at each trigger.
    pub dies: Ratio,
    /// Longest time until it starts again.
    pub absence: Nanos,
    /// Whether each life has another address.
    pub moves: bool,
}

/// Faults of the datagrams between a trigger supervisor and the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerDatagramOptions {
    /// Share of datagrams without triggers that are lost. Those with triggers arrive: each source has a fragment for each trigger.
    pub lost: Ratio,
    /// Share of datagrams that arrive twice.
    pub repeated: Ratio,
}

/// Fragments of the sources.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceOptions {
    /// Mean time between two fragments of a source that sends on its own; latency after the trigger if triggers are
    /// driven.
    pub period: Nanos,
    /// The smallest fragment.
    pub smallest: ByteCount,
    /// Largest fragment without a defect.
    pub largest: ByteCount,
    /// Number of events in addition to the triggers, if sources send on their own.
    pub surplus: u64,
    /// Whether sources end when they have sent everything. Always the case if triggers are announced.
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
    /// A source that is slower than the others by this factor.
    pub slow: Option<(u16, u64)>,
    /// A source that ends after this number of fragments.
    pub early_end: Option<(u16, u64)>,
    /// Whether fragments sent while the readout unit is down are lost; otherwise they wait.
    pub lossy_while_down: bool,
}

impl SourceOptions {
    /// Returns the shares of fragments with a defect.
    pub(crate) fn defects(&self) -> [Ratio; 8] {
        self.clone().defects_mut().map(|ratio| *ratio)
    }

    /// Returns the shares of fragments with a defect, for changes.
    pub(crate) fn defects_mut(&mut self) -> [&mut Ratio; 8] {
        [
            &mut self.silent,
            &mut self.optional_silent,
            &mut self.duplicate,
            &mut self.out_of_order,
            &mut self.oversize,
            &mut self.unknown_event,
            &mut self.unknown_source,
            &mut self.pause,
        ]
    }
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
    /// See [`sheaf_protocol::liveness::Patience`]: the limit for absence.
    pub peer: Nanos,
    /// The limit for silence. `None`: links are not reported, and the limit for absence applies to all silence.
    pub silence: Option<Nanos>,
    /// See [`sheaf_protocol::manager::ManagerConfig::start_timeout`].
    pub start: Nanos,
    /// See [`sheaf_protocol::manager::ManagerConfig::stop_timeout`].
    pub stop: Nanos,
    /// A fenced builder begins a new session after this time.
    pub rejoin: Nanos,
}

impl TimeOptions {
    /// Returns the time for which nodes wait for each other.
    #[must_use]
    pub fn patience(&self) -> Patience {
        Patience { absence: self.peer, silence: self.silence.unwrap_or(self.peer) }
    }
}

/// Time slots of a barrel shifter. Without a rate, slots have no length and are free-running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotOptions {
    /// The line of a readout unit.
    pub rate: Option<ByteRate>,
    /// Number of bytes in a slot.
    pub block: ByteCount,
    /// The pause between two slots.
    pub guard: Nanos,
    /// Whether slots follow the event manager's clock.
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
    /// Time from writing to reporting. A crash in between leaves an event on disk that does not count.
    pub report: Nanos,
    /// Maximum number of events that an output accepts until the first of them is durable; `None`: no limit.
    pub queue_events: Option<usize>,
    /// A write takes `late_time` longer.
    pub late: Ratio,
    /// See `late`.
    pub late_time: Nanos,
    /// A builder that is slower than the others by this factor.
    pub slow_builder: Option<(u16, u64)>,
    /// Events that the filter rejects.
    pub reject: Ratio,
    /// Events that the output fails to store.
    pub fail: Ratio,
    /// Events that the content check refuses.
    pub mismatch: Ratio,
}

impl StorageOptions {
    /// Returns whether an output that has accepted this number of events accepts another.
    #[must_use]
    pub fn has_room(&self, events: usize) -> bool {
        self.queue_events.is_none_or(|most| events < most)
    }
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
            supervisor: None,
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
            feed: None,
            slices: None,
            windows: None,
            numbers: None,
            faults: Vec::new(),
            stops: Vec::new(),
            held_until: None,
            pauses: Vec::new(),
            exclusions: Vec::new(),
            node_exclusions: Vec::new(),
            requirements: Vec::new(),
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
            silence: None,
            start: Nanos::from_millis(100),
            stop: Nanos::from_millis(300),
            rejoin: Nanos::from_millis(1),
        }
    }
}

impl Options {
    /// Returns all nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        let readouts = (0..self.system.readouts).map(NodeId::readout);
        let builders = (0..self.system.builders).map(NodeId::builder);
        let outputs = (0..self.system.outputs).map(NodeId::output);
        [NodeId::MANAGER].into_iter().chain(readouts).chain(builders).chain(outputs).collect()
    }

    /// Returns all sources.
    #[must_use]
    pub fn source_count(&self) -> u16 {
        self.system.readouts * self.system.sources_per_readout
    }

    /// Returns the readout unit of a source.
    #[must_use]
    pub fn readout_of(&self, source: SourceId) -> NodeId {
        let index = source.0 / u32::from(self.system.sources_per_readout);
        NodeId::readout(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// Returns the mean time between two fragments of a source, or its latency.
    #[must_use]
    pub fn source_period(&self, source: SourceId) -> Nanos {
        let slowness = self.sources.slow.filter(|(slow, _)| u32::from(*slow) == source.0);
        Nanos(self.sources.period.0 * slowness.map_or(1, |(_, factor)| factor))
    }

    /// Returns whether a source is optional.
    #[must_use]
    pub fn is_optional(&self, source: u16) -> bool {
        source + self.system.optional_sources >= self.source_count()
    }

    /// Returns the time by which the run must have ended.
    #[must_use]
    pub fn deadline(&self) -> Timestamp {
        let faults = self.faults.iter().map(Fault::ends_at).max();
        let stops = self.stops.iter().copied().max();
        let pauses = self.pauses.iter().map(Pause::ends_at).max();
        let exclusions = self.exclusions.iter().map(SourceExclusion::ends_at).max();
        let nodes = self.node_exclusions.iter().map(NodeExclusion::ends_at).max();
        let last = [Some(self.faults_until), stops, faults, self.held_until, pauses, exclusions, nodes];
        let last = last.into_iter().flatten().max();
        last.unwrap_or_default() + self.converge_within
    }

    /// Creates the shaper of a readout unit, if there is a barrel shifter.
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

    /// Returns whether no faults can occur. Back-pressure is not a fault.
    #[must_use]
    pub fn is_fault_free(&self) -> bool {
        let (sources, network) = (&self.sources, &self.network);
        let ratios = [
            network.loss,
            network.duplicate,
            network.reorder,
            network.clog,
            self.storage.fail,
            self.storage.mismatch,
        ];
        let quiet = ratios.into_iter().chain(sources.defects()).all(|ratio| !ratio.is_possible());
        quiet
            && self.farm.is_none_or(|farm| !farm.is_faulty() && farm.is_patient())
            && self.preprocessing.is_none_or(|setup| !setup.may_hang())
            && self.slices.is_none_or(|slices| slices.is_gapless())
            && self.windows.is_none_or(|windows| windows.has_all())
            && self.numbers.as_ref().is_none_or(|numbers| numbers.faults.is_empty())
            && self.faults.is_empty()
            && self.stops.is_empty()
            && self.feed.is_none_or(|setup| !setup.declines && !setup.loses_end)
            && sources.early_end.is_none()
    }
}
