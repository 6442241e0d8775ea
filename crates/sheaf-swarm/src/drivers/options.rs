//! Options of a run of the drivers.

use crate::dice::{Dice, Ratio};
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::readout::Announce;
use sheaf_shaping::{BarrelConfig, Policy, ShaperConfig, SlotSchedule};
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, NodeId, SourceId, Timestamp};

/// A whole run. Times are those of a configuration in which nothing is said.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverOptions {
    /// Decides every random number of the run.
    pub seed: u64,
    /// Readout units.
    pub readouts: u16,
    /// Sources of each.
    pub sources_per_readout: u16,
    /// Builder units.
    pub builders: u16,
    /// Output nodes; 0 where builders store events themselves.
    pub outputs: u16,
    /// Number of accepted triggers.
    pub events: u64,
    /// The time from trigger to trigger; `None`: as fast as builders take events, or as sources announce them.
    pub trigger_period: Option<Nanos>,
    /// Sources whose data are the triggers.
    pub announce: Announce,
    /// Building in two steps.
    pub steps: StepOptions,
    /// The least time from fragment to fragment of a source.
    pub pace: Nanos,
    /// The largest fragment.
    pub largest: ByteCount,
    /// Fragments whose bytes are wrong.
    pub corrupt: Ratio,
    /// Events that a builder builds at a time.
    pub slots: u32,
    /// Payload that a builder holds at a time.
    pub memory: ByteCount,
    /// Payload that a readout unit holds at a time.
    pub buffer: ByteCount,
    /// Events given to a builder at a time.
    pub batch_events: usize,
    /// Triggers that wait for a builder.
    pub queue_events: usize,
    /// Traffic shape of super-fragments.
    pub gathering: Gathering,
    /// The line of a readout unit, where there is a barrel shifter; slots of a line without a rate have no common clock.
    pub line_rate: Option<ByteRate>,
    /// The filter of each builder.
    pub filter: FilterOptions,
    /// The disk of each node that stores.
    pub disk: DiskOptions,
    /// All links.
    pub links: LinkOptions,
    /// Faults of nodes, with their times.
    pub faults: Vec<DriverFault>,
    /// When the run must have ended.
    pub within: Nanos,
}

/// Building in two steps: some sources first, and the others of the events that are not decided by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Number of sources in the first step; 0: all sources are asked for at once.
    pub first: u32,
    /// Events that are rejected on these.
    pub reject: Ratio,
    /// Events that need no others.
    pub enough: Ratio,
}

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterOptions {
    /// The mean time for an event.
    pub time: Nanos,
    /// One event that takes another time.
    pub long: Option<(EventId, Nanos)>,
    /// Events that are rejected.
    pub reject: Ratio,
    /// Workers of each builder's farm; 0: the filter judges on the builder's thread.
    pub workers: u16,
    /// Events that a worker dies of.
    pub dies: Ratio,
    /// Events that a worker never comes back from.
    pub hangs: Ratio,
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// The time to write an event.
    pub write: Nanos,
    /// The time to make what was written durable.
    pub sync: Nanos,
    /// The time between two of these.
    pub sync_interval: Nanos,
    /// A thread of its own writes the files.
    pub is_beside: bool,
    /// Maximum number of events that are not durable.
    pub room: Option<usize>,
    /// Events that no stream takes.
    pub left_out: Ratio,
}

/// Properties of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// The shortest delay of a frame.
    pub delay: Nanos,
    /// The mean of what comes on top of it.
    pub jitter: Nanos,
    /// Frames of a link that were sent and not polled, at most.
    pub queue_frames: usize,
    /// Bytes of these frames.
    pub queue: ByteCount,
}

/// Something that happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverFault {
    /// When.
    pub at: Timestamp,
    /// To whom.
    pub node: NodeId,
    /// What.
    pub kind: DriverFaultKind,
}

impl DriverFault {
    /// Whether a node is slow for it, and not dead.
    #[must_use]
    pub fn is_slowness(&self) -> bool {
        let is_harm = matches!(
            self.kind,
            DriverFaultKind::DiskFails { .. }
                | DriverFaultKind::Stop { again: Some(_) }
                | DriverFaultKind::Forge
        );
        !self.is_death() && !is_harm
    }

    /// Whether the event manager gives the node up for it: it is killed, or frozen for longer than a silent node is waited for.
    #[must_use]
    pub fn is_death(&self) -> bool {
        match self.kind {
            DriverFaultKind::Kill { .. } => true,
            DriverFaultKind::Freeze { lasts } => lasts >= FATAL_FREEZE && self.node != NodeId::MANAGER,
            _ => false,
        }
    }
}

/// Fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverFaultKind {
    /// Its process is killed, and started again after this time with a new session.
    Kill {
        /// After how long.
        back_after: Nanos,
    },
    /// Its process is stopped for this time (`SIGSTOP`).
    Freeze {
        /// Duration.
        lasts: Nanos,
    },
    /// All nodes are stopped for this time, as when the machine sleeps that they are on.
    Suspend {
        /// Duration.
        lasts: Nanos,
    },
    /// Its thread gets a turn only now and then.
    Starve {
        /// Duration.
        lasts: Nanos,
        /// The longest time from turn to turn.
        gap: Nanos,
    },
    /// Its disk refuses everything.
    DiskFails {
        /// Duration.
        lasts: Nanos,
    },
    /// Its disk does not come back from a write or a sync.
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
    /// The operator ends the run, and loses patience after this time.
    Stop {
        /// When the run is cut.
        again: Option<Nanos>,
    },
}

impl DriverFaultKind {
    /// Duration.
    #[must_use]
    pub fn lasts(self) -> Nanos {
        match self {
            Self::Kill { back_after: lasts }
            | Self::Freeze { lasts }
            | Self::Suspend { lasts }
            | Self::Starve { lasts, .. }
            | Self::DiskFails { lasts }
            | Self::DiskHangs { lasts }
            | Self::Clog { lasts } => lasts,
            Self::Stop { again } => again.unwrap_or_default(),
            Self::Forge => Nanos::ZERO,
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
            events: 200,
            trigger_period: None,
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

/// Which seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Nodes, filters and disks are slow, some for up to 30 s; nobody dies. Nothing may be lost, incomplete or given up.
    Slowness,
    /// Nodes are killed, too, and come back, and disks refuse to write for a while.
    Faults,
}

impl DriverOptions {
    /// All sources.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..u32::from(self.readouts) * u32::from(self.sources_per_readout)).map(SourceId)
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        let readouts = (0..self.readouts).map(NodeId::readout);
        let builders = (0..self.builders).map(NodeId::builder);
        let outputs = (0..self.outputs).map(NodeId::output);
        [NodeId::MANAGER].into_iter().chain(readouts).chain(builders).chain(outputs).collect()
    }

    /// Whether nobody dies, and no disk refuses to write.
    #[must_use]
    pub fn is_slowness_only(&self) -> bool {
        self.faults.iter().all(DriverFault::is_slowness)
    }

    /// The options of the run with this seed.
    #[must_use]
    pub fn random(family: Family, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 21);
        let mut options = Self { seed, ..Self::default() };
        options.draw_system(&mut dice);
        options.draw_slowness(&mut dice);
        options.draw_course(&mut dice);
        let busy = options.busy_time();
        if dice.below(8) == 0 {
            let lasts = dice.time_between(Nanos::from_millis(1), Nanos::from_secs(20));
            let again = (family == Family::Faults && dice.below(2) == 0).then_some(lasts);
            let (at, kind) = (Timestamp(START.0 + dice.below(busy.0)), DriverFaultKind::Stop { again });
            options.faults.push(DriverFault { at, node: NodeId::MANAGER, kind });
        }
        for _ in 0..dice.pick(&[0, 1, 1, 2, 4]) {
            let mut kind = options.draw_slow_node(&mut dice);
            let node = options.draw_node(&mut dice, kind);
            if node == NodeId::MANAGER
                && let DriverFaultKind::Freeze { lasts } = &mut kind
            {
                // Its own silence says nothing about the others.
                lasts.0 *= 3;
            }
            let at = Timestamp(START.0 + dice.below(busy.0));
            options.faults.push(DriverFault { at, node, kind });
        }
        if family == Family::Faults {
            if options.filter.workers > 0 {
                options.filter.dies = Ratio::percent(dice.pick(&[0, 0, 1, 5]));
                options.filter.hangs = Ratio::percent(dice.pick(&[0, 0, 0, 1]));
            }
            for _ in 0..dice.between(1, 4) {
                let lasts = dice.time_between(Nanos::from_millis(10), Nanos::from_secs(20));
                let kind = match dice.below(6) {
                    0 => DriverFaultKind::DiskFails { lasts },
                    1 => DriverFaultKind::Forge,
                    2 if dice.below(2) == 0 => DriverFaultKind::Freeze { lasts: lasts + FATAL_FREEZE },
                    _ => DriverFaultKind::Kill { back_after: lasts },
                };
                let node = options.draw_node(&mut dice, kind);
                let at = Timestamp(START.0 + dice.below(busy.0));
                options.faults.push(DriverFault { at, node, kind });
            }
            options.draw_loss_for_good(&mut dice, busy);
        }
        if dice.below(6) == 0 {
            let kind = DriverFaultKind::Suspend {
                lasts: dice.time_between(Nanos::from_secs(1), Nanos::from_secs(120)),
            };
            // Some while the run starts.
            let within = dice.pick(&[busy.0, busy.0, 500_000]);
            let after = Nanos(dice.below(within));
            options.faults.push(DriverFault { at: START + after, node: NodeId::MANAGER, kind });
            if dice.below(2) == 0 {
                // A readout unit that looks for messages now and then: others are suspended while they wait for its answer.
                let (lasts, gap) = (after + Nanos::from_secs(10), Nanos::from_secs(3));
                let (node, kind) = (NodeId::readout(0), DriverFaultKind::Starve { lasts, gap });
                // Not while the run starts: a run that is stopped then ends without the unit.
                let at = START + Nanos::from_millis(5);
                options.faults.push(DriverFault { at, node, kind });
            }
        }
        match dice.below(12) {
            0 => options.draw_full_system(&mut dice, family),
            1 => options.draw_quick_triggers(&mut dice),
            2 if family == Family::Faults => options.draw_disk_that_stays_full(&mut dice),
            _ => {}
        }
        let faults: u64 = options.faults.iter().map(|fault| fault.kind.lasts().0).sum();
        options.within = Nanos(10 * busy.0 + 4 * faults) + options.hanging_time() + Nanos::from_secs(300);
        options
    }

    fn draw_system(&mut self, dice: &mut Dice) {
        let count = |dice: &mut Dice, end| u16::try_from(dice.between(1, end)).unwrap_or(1);
        self.readouts = count(dice, 3);
        self.sources_per_readout = count(dice, 2);
        self.builders = count(dice, 3);
        self.outputs = dice.pick(&[0, 0, 1, 2]);
        self.events = dice.between(20, 300);
        self.slots = dice.pick(&[4, 16, 64, 512]);
        self.batch_events = usize::try_from(dice.between(1, u64::from(self.slots).min(32))).unwrap_or(1);
        self.queue_events = dice.pick(&[8, 64, 4_096]);
        let period = dice.time_between(Nanos::from_micros(100), Nanos::from_millis(300));
        self.trigger_period = (dice.below(2) == 0).then_some(period);
        self.pace = if dice.below(2) == 0 { period } else { Nanos::from_micros(50) };
        self.links.queue_frames = dice.pick(&[2, 64, 1_024]);
        let credit = ByteCount(1 + dice.below(20_000));
        self.gathering = match dice.below(6) {
            0 | 1 => Gathering::Pull,
            2 | 3 => Gathering::Paced { credit },
            4 => Gathering::Barrel { credit, tick: Nanos::from_millis(100) },
            _ => Gathering::Push,
        };
        self.line_rate = ByteRate::new(dice.pick(&[0, 1_000_000, 1_000_000_000]));
    }

    /// Who makes the triggers, and whether events are built in steps. Readout units that send unasked, or announce, are not asked for
    /// parts.
    fn draw_course(&mut self, dice: &mut Dice) {
        let sources = u64::from(self.readouts) * u64::from(self.sources_per_readout);
        if self.trigger_period.is_none() && dice.below(3) == 0 {
            self.announce = dice.pick(&[Announce::All, Announce::Source(SourceId(0))]);
        } else if self.gathering != Gathering::Push && sources > 1 && dice.below(3) == 0 {
            self.steps.first = u32::try_from(dice.between(1, sources - 1)).unwrap_or(1);
            self.steps.reject = Ratio::percent(dice.pick(&[0, 30, 80]));
            self.steps.enough = Ratio::percent(dice.pick(&[0, 30]));
        }
    }

    /// The largest event.
    #[must_use]
    pub fn largest_event(&self) -> ByteCount {
        ByteCount(u64::from(self.readouts) * u64::from(self.sources_per_readout) * self.largest.0)
    }

    /// Maximum number of events that a builder holds, where they are not unusually small.
    #[must_use]
    pub fn room(&self) -> u64 {
        u64::from(self.slots).min(4 * self.memory.0 / self.largest_event().0)
    }

    /// The shaper of a readout unit, where there is a barrel shifter.
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

    fn draw_slowness(&mut self, dice: &mut Dice) {
        self.filter.reject = Ratio::percent(dice.pick(&[0, 0, 20, 90]));
        let filter = dice.pick(&[10, 10, 10, 1_000, 20_000, 100_000, 1_000_000, 5_000_000]);
        self.filter.time = Nanos::from_micros(filter);
        if dice.below(6) == 0 {
            let time = dice.time_between(Nanos::from_secs(1), Nanos::from_secs(60));
            self.filter.long = Some((EventId(dice.below(self.events)), time));
        }
        self.filter.workers = dice.pick(&[0, 1, 1, 3]);
        self.disk.write = Nanos::from_micros(dice.pick(&[5, 5, 5, 1_000, 50_000]));
        self.disk.sync = Nanos::from_micros(dice.pick(&[50, 50, 10_000, 300_000]));
        self.disk.sync_interval = Nanos::from_millis(dice.pick(&[0, 10, 1_000]));
        self.disk.room = dice.pick(&[None, None, None, Some(1), Some(8)]);
        self.disk.is_beside = dice.below(2) == 0;
        if !self.disk.is_beside {
            self.disk.left_out = Ratio::percent(dice.pick(&[0, 0, 30]));
        }
        self.corrupt = Ratio::percent(dice.pick(&[0, 0, 0, 0, 0, 0, 0, 2]));
    }

    fn draw_slow_node(&self, dice: &mut Dice) -> DriverFaultKind {
        let longest = dice.pick(&[Nanos::from_millis(500), Nanos::from_secs(5), Nanos::from_secs(30)]);
        let lasts = dice.time_between(Nanos::from_millis(100), longest);
        match dice.below(5) {
            0 | 1 => DriverFaultKind::Freeze { lasts },
            2 => {
                DriverFaultKind::Starve { lasts: Nanos(4 * lasts.0), gap: Nanos(lasts.0.min(3_000_000_000)) }
            }
            3 => DriverFaultKind::DiskHangs { lasts },
            _ => DriverFaultKind::Clog { lasts: Nanos(lasts.0.min(2_000_000_000)) },
        }
    }

    /// An output node that is killed and stays away, where there are others: what it has goes to these.
    fn draw_loss_for_good(&mut self, dice: &mut Dice, busy: Nanos) {
        if self.outputs > 1 && dice.below(3) == 0 {
            let node = NodeId::output(self.outputs - 1);
            let at = Timestamp(START.0 + dice.below(busy.0));
            let kind = DriverFaultKind::Kill { back_after: Nanos(FOR_GOOD.0 + 20 * busy.0) };
            self.faults.push(DriverFault { at, node, kind });
        }
    }

    /// The only disk hangs, and triggers go on until there is room for none.
    fn draw_full_system(&mut self, dice: &mut Dice, family: Family) {
        (self.outputs, self.builders) = dice.pick(&[(0, 1), (1, 1), (1, 2)]);
        (self.slots, self.batch_events, self.queue_events) = (4, 2, 8);
        (self.announce, self.steps.first) = (Announce::Never, 0);
        self.trigger_period = Some(dice.time_between(Nanos::from_millis(1), Nanos::from_millis(20)));
        self.events = 150;
        (self.filter.time, self.filter.long) = (Nanos::from_micros(10), None);
        (self.filter.reject, self.filter.dies, self.filter.hangs) =
            (Ratio::NEVER, Ratio::NEVER, Ratio::NEVER);
        self.disk = DiskOptions { is_beside: true, ..Self::default().disk };
        self.corrupt = Ratio::NEVER;
        self.faults.clear();
        let node = if self.outputs > 0 { NodeId::output(0) } else { NodeId::builder(0) };
        let lasts = dice.time_between(Nanos::from_secs(5), Nanos::from_secs(30));
        let at = Timestamp(START.0 + dice.between(100_000_000, 300_000_000));
        self.pace = Nanos::from_micros(50);
        if dice.below(2) == 0 {
            (self.slots, self.memory) = (64, ByteCount(dice.between(1, 4) * self.largest_event().0));
            self.buffer = ByteCount(dice.pick(&[8, 64]) * self.largest_event().0);
        }
        let fails = family == Family::Faults && dice.below(2) == 0;
        let kind =
            if fails { DriverFaultKind::DiskFails { lasts } } else { DriverFaultKind::DiskHangs { lasts } };
        self.faults.push(DriverFault { at, node, kind });
        self.within = Nanos(4 * lasts.0) + Nanos::from_secs(400);
    }

    /// The only disk runs full before the last trigger and is not cleared in time: the run ends without what is not stored.
    fn draw_disk_that_stays_full(&mut self, dice: &mut Dice) {
        (self.outputs, self.builders) = dice.pick(&[(0, 1), (1, 1), (1, 2)]);
        (self.slots, self.queue_events, self.events) = (512, 4_096, dice.between(20, 200));
        (self.announce, self.steps.first, self.pace) = (Announce::Never, 0, Nanos::from_micros(50));
        self.trigger_period = Some(dice.time_between(Nanos::from_millis(1), Nanos::from_millis(20)));
        self.filter = Self::default().filter;
        self.disk = DiskOptions { is_beside: self.disk.is_beside, ..Self::default().disk };
        (self.corrupt, self.links) = (Ratio::NEVER, Self::default().links);
        let node = if self.outputs > 0 { NodeId::output(0) } else { NodeId::builder(0) };
        let lasts = dice.time_between(Nanos(4 * STOP_TIMEOUT.0), Nanos(8 * STOP_TIMEOUT.0));
        let at = Timestamp(START.0 + dice.between(1_000_000, 15_000_000));
        self.faults = vec![DriverFault { at, node, kind: DriverFaultKind::DiskFails { lasts } }];
        self.within = Nanos(2 * lasts.0) + Nanos::from_secs(400);
    }

    /// Triggers at up to a megahertz, nearly all of them vetoed, in a short run of a system that nothing happens to.
    fn draw_quick_triggers(&mut self, dice: &mut Dice) {
        (self.announce, self.steps.first, self.pace) = (Announce::Never, 0, Nanos::from_micros(50));
        self.trigger_period = Some(dice.time_between(Nanos::from_micros(1), Nanos::from_micros(5)));
        (self.filter, self.disk) = (Self::default().filter, Self::default().disk);
        self.faults.clear();
    }

    /// Whom a fault may hit: not the event manager where it would end the run, nor a readout unit where it alone has what would be
    /// lost.
    fn draw_node(&self, dice: &mut Dice, kind: DriverFaultKind) -> NodeId {
        let may = |node: &NodeId| match kind {
            DriverFaultKind::Kill { .. } => !matches!(node.role, sheaf_wire::Role::Manager),
            DriverFaultKind::Freeze { lasts } if lasts >= FATAL_FREEZE => {
                node.role == sheaf_wire::Role::Builder
            }
            DriverFaultKind::Freeze { .. } => node.role != sheaf_wire::Role::Readout,
            DriverFaultKind::Forge => node.role != sheaf_wire::Role::Output,
            DriverFaultKind::Starve { .. } => true,
            DriverFaultKind::DiskFails { .. } | DriverFaultKind::DiskHangs { .. } => match self.outputs {
                0 => node.role == sheaf_wire::Role::Builder,
                _ => node.role == sheaf_wire::Role::Output,
            },
            DriverFaultKind::Clog { .. } => *node != NodeId::MANAGER,
            DriverFaultKind::Stop { .. } | DriverFaultKind::Suspend { .. } => *node == NodeId::MANAGER,
        };
        let nodes: Vec<NodeId> = self.nodes().into_iter().filter(may).collect();
        dice.pick(&nodes)
    }

    /// About how long the run takes where no fault hits it.
    fn busy_time(&self) -> Nanos {
        let builders = u64::from(self.builders);
        let stores = u64::from(if self.outputs > 0 { self.outputs } else { self.builders });
        let triggers = self.trigger_period.unwrap_or_default().0.max(self.pace.0) * self.events;
        let filter =
            self.filter.time.0 * self.events / builders + self.filter.long.map_or(0, |(_, time)| time.0);
        let disk = (self.disk.write.0 + self.disk.sync.0) * self.events / stores;
        Nanos(triggers + filter + disk) + Nanos::from_millis(500)
    }
}

impl DriverOptions {
    /// Time that events take of which workers never come back. Each is tried twice, and once more for each builder that is killed
    /// while it has the event.
    fn hanging_time(&self) -> Nanos {
        let kills = self.faults.iter().filter(|fault| fault.is_death()).count() as u64;
        let hanging = |event: &u64| self.filter.workers > 0 && self.hangs_worker(EventId(*event));
        let events = (0..self.events).filter(hanging).count() as u64;
        Nanos(events * (2 + 2 * kills) * TIME_LIMIT.0)
    }
}

/// Time that events have to end after the last trigger, where nobody works on them.
pub(super) const STOP_TIMEOUT: Nanos = Nanos::from_secs(60);

/// After how long a worker that gives no verdict is ended.
pub(super) const TIME_LIMIT: Nanos = Nanos::from_secs(300);

/// A builder unit that is frozen for so long is given up, and finds when it goes on that its session is over.
const FATAL_FREEZE: Nanos = Nanos::from_secs(62);

/// A node that is away for so long does not come back while there is a run.
pub(super) const FOR_GOOD: Nanos = Nanos::from_secs(3_000);

/// The instant at which all nodes are switched on.
pub const START: Timestamp = Timestamp(1_000_000_000_000);
