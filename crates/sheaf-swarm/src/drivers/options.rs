//! Options of a run of the drivers.

mod mirrors;
mod random;
mod replicas;

use crate::dice::Ratio;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::readout::Announce;
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, NodeId, Role, SourceId, Timestamp};

/// Options of a run. Other times are those of the default configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverOptions {
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// Number of readout units.
    pub readouts: u16,
    /// Number of sources of each readout unit.
    pub sources_per_readout: u16,
    /// Number of builder units.
    pub builders: u16,
    /// Number of output nodes. 0 if builders store events themselves.
    pub outputs: u16,
    /// Whether the event manager has a standby.
    pub standby: bool,
    /// Whether readout units have mirrors.
    pub mirrors: bool,
    /// Number of accepted triggers.
    pub events: u64,
    /// Interval of triggers. `None` if events are triggered as fast as builders take them, or as sources announce them.
    pub trigger_period: Option<Nanos>,
    /// Trigger supervisor that makes the triggers, if not the event manager.
    pub supervisor: Option<SupervisorOptions>,
    /// Sources whose data are the triggers.
    pub announce: Announce,
    /// Building in two steps.
    pub steps: StepOptions,
    /// Minimum interval between fragments of a source.
    pub pace: Nanos,
    /// Maximum size of a fragment.
    pub largest: ByteCount,
    /// Fraction of fragments with wrong content.
    pub corrupt: Ratio,
    /// Maximum number of events under construction in a builder.
    pub slots: u32,
    /// Maximum payload in a builder.
    pub memory: ByteCount,
    /// Maximum payload in a readout unit.
    pub buffer: ByteCount,
    /// Number of events assigned to a builder at a time.
    pub batch_events: usize,
    /// Maximum number of triggers that wait for a builder.
    pub queue_events: usize,
    /// Policy by which super-fragments reach the builders.
    pub gathering: Gathering,
    /// Line rate of a readout unit with a barrel shifter. Without a rate, the time slots have no common clock.
    pub line_rate: Option<ByteRate>,
    /// The filter of each builder.
    pub filter: FilterOptions,
    /// The disk of each node that stores events.
    pub disk: DiskOptions,
    /// Properties of all links.
    pub links: LinkOptions,
    /// Faults of nodes, with their times.
    pub faults: Vec<DriverFault>,
    /// Maximum duration of the run.
    pub within: Nanos,
}

/// A trigger supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisorOptions {
    /// Longest time of a message between supervisor and event manager.
    pub latency: Nanos,
}

/// Building in two steps: some sources first, and the others for events that these do not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Number of sources in the first step. 0 if all sources are requested at once.
    pub first: u32,
    /// Fraction of events that are rejected after the first step.
    pub reject: Ratio,
    /// Fraction of events that are complete after the first step.
    pub enough: Ratio,
}

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterOptions {
    /// Mean time for an event.
    pub time: Nanos,
    /// One event with a time of its own.
    pub long: Option<(EventId, Nanos)>,
    /// Fraction of events that are rejected.
    pub reject: Ratio,
    /// Number of workers of each builder's farm. 0 if the filter runs on the builder's thread.
    pub workers: u16,
    /// Fraction of events that crash a worker.
    pub dies: Ratio,
    /// Fraction of events with which a worker hangs.
    pub hangs: Ratio,
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Time to write an event.
    pub write: Nanos,
    /// Time to make written events durable.
    pub sync: Nanos,
    /// Minimum interval between syncs.
    pub sync_interval: Nanos,
    /// Whether a separate thread writes the files.
    pub is_beside: bool,
    /// Maximum number of events that are not durable.
    pub room: Option<usize>,
    /// Fraction of events that no stream takes.
    pub left_out: Ratio,
    /// Uploads of its files, if an event is durable only when its file is uploaded.
    pub uploads: Option<UploadOptions>,
}

/// Uploads of files to an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadOptions {
    /// Number of events of a file.
    pub file_events: usize,
    /// Time of an upload.
    pub time: Nanos,
}

/// Properties of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// Minimum delay of a frame.
    pub delay: Nanos,
    /// Mean additional delay.
    pub jitter: Nanos,
    /// Maximum number of frames of a link that were sent and not polled.
    pub queue_frames: usize,
    /// Maximum bytes of these frames.
    pub queue: ByteCount,
}

/// Fault of a node at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverFault {
    /// Time of the fault.
    pub at: Timestamp,
    /// Affected node.
    pub node: NodeId,
    /// Kind of fault.
    pub kind: DriverFaultKind,
}

impl DriverFault {
    /// Returns whether the fault only makes a node slow.
    #[must_use]
    pub fn is_slowness(&self) -> bool {
        let is_harm = matches!(
            self.kind,
            DriverFaultKind::DiskFails { .. }
                | DriverFaultKind::Stop { again: Some(_) }
                | DriverFaultKind::Forge
                | DriverFaultKind::SupervisorDies { .. }
        );
        !self.is_death() && !is_harm
    }

    /// Returns whether the event manager gives the node up: it is killed, or frozen for longer than the patience with a
    /// silent node.
    #[must_use]
    pub fn is_death(&self) -> bool {
        match self.kind {
            DriverFaultKind::Kill { .. } => true,
            DriverFaultKind::Freeze { lasts } => lasts >= FATAL_FREEZE && self.node.role != Role::Manager,
            _ => false,
        }
    }
}

/// Fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverFaultKind {
    /// Its process is killed, and restarted after this time with a new session.
    Kill {
        /// Time until the restart.
        back_after: Nanos,
    },
    /// Its process is stopped for this time (`SIGSTOP`).
    Freeze {
        /// Duration.
        lasts: Nanos,
    },
    /// All nodes are stopped for this time, as when their machine is suspended.
    Suspend {
        /// Duration.
        lasts: Nanos,
    },
    /// Its thread is rarely scheduled.
    Starve {
        /// Duration.
        lasts: Nanos,
        /// Maximum interval between its rounds.
        gap: Nanos,
    },
    /// The process of a replica of the event manager, of a readout unit or of its mirror is killed, and not restarted.
    Crash,
    /// No frame reaches a node from it, or the reverse. Frames arrive when the link is whole again.
    Cut {
        /// Node at the other end of the link.
        peer: NodeId,
        /// Whether frames from the peer are held back as well.
        is_both: bool,
        /// Duration.
        lasts: Nanos,
    },
    /// Its disk refuses all writes.
    DiskFails {
        /// Duration.
        lasts: Nanos,
    },
    /// Its disk does not return from a write or a sync.
    DiskHangs {
        /// Duration.
        lasts: Nanos,
    },
    /// Messages between it and the event manager are held back.
    Clog {
        /// Duration.
        lasts: Nanos,
    },
    /// A peer sends it a message in the name of another node.
    Forge,
    /// The program of the trigger supervisor dies, and starts again after this time.
    SupervisorDies {
        /// Time until the restart.
        back_after: Nanos,
    },
    /// The trigger supervisor is stopped for this time.
    SupervisorFreezes {
        /// Duration.
        lasts: Nanos,
    },
    /// The operator pauses the run for this time.
    Pause {
        /// Duration.
        lasts: Nanos,
    },
    /// The operator wants the event manager to step down in favour of its standby.
    StepDown,
    /// The operator stops the run.
    Stop {
        /// Time until the second stop, which cuts the run.
        again: Option<Nanos>,
    },
}

impl DriverFaultKind {
    /// Returns the duration of the fault.
    #[must_use]
    pub fn lasts(self) -> Nanos {
        match self {
            Self::Kill { back_after: lasts }
            | Self::Freeze { lasts }
            | Self::Suspend { lasts }
            | Self::Starve { lasts, .. }
            | Self::DiskFails { lasts }
            | Self::DiskHangs { lasts }
            | Self::Clog { lasts }
            | Self::Cut { lasts, .. }
            | Self::SupervisorDies { back_after: lasts }
            | Self::SupervisorFreezes { lasts }
            | Self::Pause { lasts } => lasts,
            Self::Stop { again } => again.unwrap_or_default(),
            Self::Forge | Self::Crash | Self::StepDown => Nanos::ZERO,
        }
    }
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            readouts: 2,
            sources_per_readout: 2,
            builders: 2,
            outputs: 0,
            standby: false,
            mirrors: false,
            events: 200,
            trigger_period: None,
            supervisor: None,
            announce: Announce::Never,
            steps: StepOptions { first: 0, reject: Ratio::NEVER, enough: Ratio::NEVER },
            pace: Nanos::from_micros(100),
            largest: ByteCount(400),
            corrupt: Ratio::NEVER,
            slots: 64,
            memory: ByteCount::mib(256),
            buffer: ByteCount::mib(8),
            batch_events: 8,
            queue_events: 64,
            gathering: Gathering::Pull,
            line_rate: None,
            filter: FilterOptions {
                time: Nanos::from_micros(10),
                long: None,
                reject: Ratio::NEVER,
                workers: 0,
                dies: Ratio::NEVER,
                hangs: Ratio::NEVER,
            },
            disk: DiskOptions {
                write: Nanos::from_micros(5),
                sync: Nanos::from_micros(50),
                sync_interval: Nanos::from_millis(10),
                is_beside: false,
                room: None,
                left_out: Ratio::NEVER,
                uploads: None,
            },
            links: LinkOptions {
                delay: Nanos::from_micros(20),
                jitter: Nanos::from_micros(10),
                queue_frames: 1_024,
                queue: ByteCount::mib(16),
            },
            faults: Vec::new(),
            within: Nanos::from_secs(600),
        }
    }
}

/// Family of random runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Nodes, filters and disks are slow, some for up to 30 s, but no node dies. No event may be lost or incomplete, and no
    /// node given up.
    Slowness,
    /// Nodes are also killed and restarted, and disks refuse writes for a while.
    Faults,
    /// The event manager has a standby. One of the two is killed, frozen or unreachable, and so is a voter. No event may be lost
    /// with either, and none counts twice.
    Standby,
    /// Readout units have mirrors. One of each two is killed, frozen or unreachable. No fragment may be lost with either, and none
    /// counts twice.
    Mirrors,
    /// Both: faults of the event managers and of readout units and their mirrors, at the same time. At most one voter is away at a time.
    Protected,
}

impl DriverOptions {
    /// Returns all sources.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..u32::from(self.readouts) * u32::from(self.sources_per_readout)).map(SourceId)
    }

    /// Returns all nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        let readouts = (0..self.readouts).map(NodeId::readout);
        let builders = (0..self.builders).map(NodeId::builder);
        let outputs = (0..self.outputs).map(NodeId::output);
        let managers = (0..1 + u16::from(self.standby)).map(NodeId::manager);
        let mirrors = (0..if self.mirrors { self.readouts } else { 0 }).map(NodeId::mirror);
        managers.chain(readouts).chain(builders).chain(outputs).chain(mirrors).collect()
    }

    /// Returns whether all faults only make nodes slow.
    #[must_use]
    pub fn is_slowness_only(&self) -> bool {
        self.faults.iter().all(DriverFault::is_slowness)
    }

    /// Returns the maximum size of an event.
    #[must_use]
    pub fn largest_event(&self) -> ByteCount {
        ByteCount(u64::from(self.readouts) * u64::from(self.sources_per_readout) * self.largest.0)
    }

    /// Returns the maximum number of events in a builder, unless events are unusually small.
    #[must_use]
    pub fn room(&self) -> u64 {
        u64::from(self.slots).min(4 * self.memory.0 / self.largest_event().0)
    }

    /// Returns the shaper of a readout unit. `None` without a barrel shifter.
    #[must_use]
    pub fn shaper(&self) -> Option<ShaperConfig> {
        let barrel = BarrelConfig {
            builders: usize::from(self.builders),
            senders: usize::from(self.readouts),
            block: ByteCount(16_000),
            guard: Nanos::ZERO,
            slots: if self.line_rate.is_some() {
                SlotSchedule::Synchronised
            } else {
                SlotSchedule::FreeRunning
            },
            patience: Nanos::from_millis(1),
        };
        matches!(self.gathering, Gathering::Barrel { .. }).then_some(ShaperConfig {
            line_rate: self.line_rate,
            burst: barrel.block,
            unit: ByteCount::kib(64),
            policy: Policy::Barrel(barrel),
        })
    }
}

/// Time that events have to end after the last trigger while no node works on them.
pub(super) const STOP_TIMEOUT: Nanos = Nanos::from_secs(60);

/// Time after which a worker without a verdict is ended.
pub(super) const TIME_LIMIT: Nanos = Nanos::from_secs(300);

/// Duration of a freeze after which a builder unit is given up. When it resumes, its session has ended.
const FATAL_FREEZE: Nanos = Nanos::from_secs(62);

/// Time until a restart that is longer than any run.
pub(super) const FOR_GOOD: Nanos = Nanos::from_secs(3_000);

/// Time at which all nodes are started.
pub const START: Timestamp = Timestamp(1_000_000_000_000);
