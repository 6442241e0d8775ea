//! Random options of a run of the drivers.

use super::{
    DiskOptions, DriverFault, DriverFaultKind, DriverOptions, FATAL_FREEZE, FOR_GOOD, Family, START,
    STOP_TIMEOUT, SupervisorOptions, TIME_LIMIT, UploadOptions,
};
use crate::dice::{Dice, Ratio};
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::readout::Announce;
use sheaf_wire::{ByteCount, ByteRate, EventId, Nanos, NodeId, Role, SourceId, Timestamp};

impl DriverOptions {
    /// Returns the options of the random run with this seed.
    #[must_use]
    pub fn random(family: Family, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 21);
        let mut options = Self { seed, ..Self::default() };
        options.draw_system(&mut dice);
        if matches!(family, Family::Standby | Family::Protected) {
            options.add_standby();
        }
        options.mirrors = matches!(family, Family::Mirrors | Family::Protected);
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
                // A frozen event manager does not give others up. So it may be frozen for longer.
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
            // Some of these happen while the run starts.
            let within = dice.pick(&[busy.0, busy.0, 500_000]);
            let after = Nanos(dice.below(within));
            options.faults.push(DriverFault { at: START + after, node: NodeId::MANAGER, kind });
            if dice.below(2) == 0 {
                // A readout unit that polls rarely: others are suspended while they wait for its answer.
                let (lasts, gap) = (after + Nanos::from_secs(10), Nanos::from_secs(3));
                let (node, kind) = (NodeId::readout(0), DriverFaultKind::Starve { lasts, gap });
                // Not while the run starts: a run that is stopped at that time ends without the unit.
                let at = START + Nanos::from_millis(5);
                options.faults.push(DriverFault { at, node, kind });
            }
        }
        match dice.below(12) {
            0 => options.draw_full_system(&mut dice, family),
            1 => options.draw_quick_triggers(&mut dice),
            2 if family == Family::Faults => options.draw_disk_that_stays_full(&mut dice),
            3 if dice.below(3) == 0 => options.draw_quiet_run(&mut dice),
            _ => {}
        }
        options.draw_supervisor(family);
        options.draw_uploads();
        match family {
            Family::Standby => options.draw_faults_of_replicas(busy),
            Family::Mirrors => options.draw_faults_of_mirrors(busy),
            Family::Protected => options.draw_faults_of_both(busy),
            Family::Slowness | Family::Faults => options.draw_pauses(busy),
        }
        let faults: u64 = options.faults.iter().map(|fault| fault.kind.lasts().0).sum();
        let busy = options.busy_time();
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

    /// Draws the origin of triggers, and whether events are built in steps. Steps are not combined with push or with
    /// announced triggers.
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

    /// Draws the death of an output node that does not return, if there are others. Its events go to these.
    fn draw_loss_for_good(&mut self, dice: &mut Dice, busy: Nanos) {
        if self.outputs > 1 && dice.below(3) == 0 {
            let node = NodeId::output(self.outputs - 1);
            let at = Timestamp(START.0 + dice.below(busy.0));
            let kind = DriverFaultKind::Kill { back_after: Nanos(FOR_GOOD.0 + 20 * busy.0) };
            self.faults.push(DriverFault { at, node, kind });
        }
    }

    /// Draws a run whose only disk hangs until the system is full and triggers are vetoed.
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
    }

    /// Draws a run whose only disk is full before the last trigger and is not cleared in time. The run ends without the
    /// events that are not stored.
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
    }

    /// Draws a run of up to two hours with a trigger every minute or so, far beyond every time limit, between which nodes have nothing to
    /// report but that they live. The faults are spread over it.
    fn draw_quiet_run(&mut self, dice: &mut Dice) {
        (self.announce, self.steps.first) = (Announce::Never, 0);
        self.trigger_period = Some(dice.time_between(Nanos::from_secs(20), Nanos::from_secs(120)));
        self.events = dice.between(20, 60);
        let busy = self.busy_time();
        for fault in &mut self.faults {
            fault.at = Timestamp(START.0 + dice.below(busy.0));
        }
    }

    /// Draws a short run without faults and with triggers at up to a megahertz, most of which are vetoed.
    fn draw_quick_triggers(&mut self, dice: &mut Dice) {
        (self.announce, self.steps.first, self.pace) = (Announce::Never, 0, Nanos::from_micros(50));
        self.trigger_period = Some(dice.time_between(Nanos::from_micros(1), Nanos::from_micros(5)));
        (self.filter, self.disk) = (Self::default().filter, Self::default().disk);
        self.faults.clear();
    }

    /// Draws a trigger supervisor, with dice of its own. It is frozen for less than the event manager waits for it at the end.
    fn draw_supervisor(&mut self, family: Family) {
        let mut dice = Dice::new(self.seed, 28);
        let Some(period) = self.trigger_period.filter(|_| dice.below(3) == 0) else { return };
        let longest = Nanos(period.0 * (self.queue_events as u64 - 4) / 4).min(Nanos::from_millis(50));
        self.supervisor = Some(SupervisorOptions { latency: Nanos(dice.below(longest.0 + 1)) });
        let busy = self.busy_time();
        if dice.below(6) == 0 {
            self.draw_stop_of_a_supervised_run(&mut dice, period);
        }
        for _ in 0..dice.pick(&[0, 0, 1, 2]) {
            let longest = dice.pick(&[Nanos::from_secs(1), Nanos::from_secs(50)]);
            let lasts = dice.time_between(Nanos::from_millis(1), longest);
            let kind = match dice.below(2) {
                0 if family == Family::Faults => DriverFaultKind::SupervisorDies { back_after: lasts },
                _ => DriverFaultKind::SupervisorFreezes { lasts },
            };
            let at = Timestamp(START.0 + dice.below(busy.0));
            self.faults.push(DriverFault { at, node: NodeId::MANAGER, kind });
        }
    }

    /// Draws a run that is stopped while many triggers are on their way. The process of the event manager is stopped just after that, for
    /// longer than it waits for the supervisor, and for less than others wait for it.
    fn draw_stop_of_a_supervised_run(&mut self, dice: &mut Dice, period: Nanos) {
        let period = period.min(Nanos::from_millis(2));
        self.trigger_period = Some(period);
        self.queue_events = 4_096;
        let longest = Nanos(1_000 * period.0).min(Nanos::from_millis(50));
        self.supervisor = Some(SupervisorOptions { latency: Nanos(dice.below(longest.0) + 1) });
        let at = Timestamp(START.0 + 1_000_000 + dice.below(period.0 * self.events));
        let stop = DriverFault { at, node: NodeId::MANAGER, kind: DriverFaultKind::Stop { again: None } };
        self.faults.push(stop);
        let lasts = dice.time_between(Nanos::from_secs(121), Nanos::from_secs(130));
        let (at, kind) = (at + Nanos(1_000_000), DriverFaultKind::Freeze { lasts });
        self.faults.push(DriverFault { at, node: NodeId::MANAGER, kind });
    }

    /// Draws pauses of the run, with dice of its own.
    fn draw_pauses(&mut self, busy: Nanos) {
        let mut dice = Dice::new(self.seed, 31);
        // Quick triggers are vetoed a million times in a long pause.
        let is_quick = self.trigger_period.is_some_and(|period| period < Nanos::from_micros(100));
        for _ in 0..dice.pick(&[0, 0, 0, 0, 1, 3]) {
            let longest = Nanos::from_millis(if is_quick { 50 } else { dice.pick(&[50, 5_000]) });
            let kind = DriverFaultKind::Pause { lasts: dice.time_between(Nanos::ZERO, longest) };
            let at = Timestamp(START.0 + dice.below(busy.0));
            self.faults.push(DriverFault { at, node: NodeId::MANAGER, kind });
        }
    }

    /// Draws files that must be uploaded, with dice of its own.
    fn draw_uploads(&mut self) {
        let mut dice = Dice::new(self.seed, 29);
        // Quick triggers are vetoed a million times while an upload takes its time.
        let is_quick = self.trigger_period.is_some_and(|period| period < Nanos::from_micros(100));
        if dice.below(6) == 0 && !is_quick {
            let file_events = usize::try_from(dice.pick(&[1, 5, 50, 1_000])).unwrap_or(1);
            let time = Nanos::from_millis(dice.pick(&[1, 100, 3_000, 20_000]));
            self.disk.uploads = Some(UploadOptions { file_events, time });
        }
    }

    /// Draws the node that a fault hits. Faults that would end the run do not hit the event manager, and faults that would
    /// lose fragments do not hit readout units.
    fn draw_node(&self, dice: &mut Dice, kind: DriverFaultKind) -> NodeId {
        let may = |node: &NodeId| match kind {
            DriverFaultKind::Kill { .. } => !matches!(node.role, Role::Manager),
            DriverFaultKind::Freeze { lasts } if lasts >= FATAL_FREEZE => node.role == Role::Builder,
            DriverFaultKind::Freeze { .. } => {
                !matches!(node.role, Role::Readout | Role::Manager) || *node == NodeId::MANAGER
            }
            DriverFaultKind::Forge => node.role != Role::Output,
            DriverFaultKind::Starve { .. } => true,
            DriverFaultKind::DiskFails { .. } | DriverFaultKind::DiskHangs { .. } => match self.outputs {
                0 => node.role == Role::Builder,
                _ => node.role == Role::Output,
            },
            DriverFaultKind::Clog { .. } => node.role != Role::Manager,
            DriverFaultKind::Stop { .. }
            | DriverFaultKind::Suspend { .. }
            | DriverFaultKind::SupervisorDies { .. }
            | DriverFaultKind::SupervisorFreezes { .. }
            | DriverFaultKind::Pause { .. }
            | DriverFaultKind::StepDown => *node == NodeId::MANAGER,
            DriverFaultKind::Crash | DriverFaultKind::Cut { .. } => node.role == Role::Manager,
        };
        let nodes: Vec<NodeId> = self.nodes().into_iter().filter(may).collect();
        dice.pick(&nodes)
    }

    /// Returns the approximate duration of the run without faults.
    fn busy_time(&self) -> Nanos {
        let builders = u64::from(self.builders);
        let stores = u64::from(if self.outputs > 0 { self.outputs } else { self.builders });
        let triggers = self.trigger_period.unwrap_or_default().0.max(self.pace.0) * self.events;
        let filter =
            self.filter.time.0 * self.events / builders + self.filter.long.map_or(0, |(_, time)| time.0);
        let upload = self.disk.uploads.map_or(0, |uploads| uploads.time.0);
        let disk = (self.disk.write.0 + self.disk.sync.0 + upload) * self.events / stores;
        Nanos(triggers + filter + disk) + Nanos::from_millis(500)
    }

    /// Returns the time that events take with which workers hang. Each is tried twice, and twice more for each builder that
    /// is killed while it has the event.
    fn hanging_time(&self) -> Nanos {
        let kills = self.faults.iter().filter(|fault| fault.is_death()).count() as u64;
        let hanging = |event: &u64| self.filter.workers > 0 && self.hangs_worker(EventId(*event));
        let events = (0..self.events).filter(hanging).count() as u64;
        Nanos(events * (2 + 2 * kills) * TIME_LIMIT.0)
    }
}
