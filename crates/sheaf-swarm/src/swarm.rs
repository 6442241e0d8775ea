//! Random options. Each kind of fault is off, mild or wild, independently of the others. Runs with few kinds of fault, in
//! which one of them can be extreme, are therefore as common as runs with many.

mod around;
mod late;
mod numbers;
mod windows;

use crate::dice::{Dice, Ratio};
use crate::options::{Fault, FaultKind, Options, TriggerOptions};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_wire::{ByteCount, Nanos, NodeId, Timestamp};

/// Intensity of a kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Off,
    Mild,
    Wild,
}

/// Draws options.
struct Swarm {
    dice: Dice,
    /// Whether the run has no faults.
    is_calm: bool,
    options: Options,
}

impl Options {
    /// Returns the options of the random run with this seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        Self::drawn(seed, false)
    }

    /// Returns the options of the random run with this seed, in which some or all sources give windows of their hits on request.
    #[must_use]
    pub fn random_with_windows(seed: u64) -> Self {
        Self::drawn(seed, true)
    }

    fn drawn(seed: u64, with_windows: bool) -> Self {
        let mut dice = Dice::new(seed, 3);
        let is_calm = dice.below(10) == 0;
        let mut swarm = Swarm { dice, is_calm, options: Self { seed, ..Self::default() } };
        swarm.draw(with_windows);
        swarm.options
    }
}

impl Swarm {
    fn draw(&mut self, with_windows: bool) {
        self.system();
        self.triggers();
        self.bounds();
        self.times();
        self.network();
        self.sources();
        self.storage();
        self.node_faults();
        self.course();
        self.gathering();
        self.recovery();
        self.steps();
        self.outputs();
        self.farm();
        self.late_bounds();
        self.optional_sources();
        self.lagging_outputs();
        self.link_reports();
        self.around();
        self.numbers();
        self.windows(with_windows);
        self.supervisor();
        self.events_that_wait_for_later_ones();
        self.deaths_of_the_supervisor();
        self.operator();
        self.exclusions();
        self.pace();
        self.requirements();
        self.node_exclusions();
        self.converge();
    }

    fn level(&mut self) -> Level {
        if self.is_calm {
            return Level::Off;
        }
        self.dice.pick(&[
            Level::Off,
            Level::Off,
            Level::Off,
            Level::Off,
            Level::Mild,
            Level::Mild,
            Level::Wild,
        ])
    }

    /// Draws a ratio that is zero, at most `mild` or at most `wild`, in parts per million.
    fn ratio(&mut self, mild: u32, wild: u32) -> Ratio {
        let end = match self.level() {
            Level::Off => return Ratio::NEVER,
            Level::Mild => mild,
            Level::Wild => wild,
        };
        let parts = self.dice.between(1, u64::from(end));
        Ratio::per_million(u32::try_from(parts).unwrap_or(end))
    }

    fn system(&mut self) {
        let dice = &mut self.dice;
        let count = |dice: &mut Dice, end| u16::try_from(dice.between(1, end)).unwrap_or(1);
        let system = &mut self.options.system;
        system.readouts = count(dice, 5);
        system.sources_per_readout = count(dice, 4);
        system.builders = count(dice, 5);
        let sources = system.readouts * system.sources_per_readout;
        if dice.below(4) == 0 {
            system.optional_sources = count(dice, u64::from(sources)) - 1;
        }
        self.options.events = dice.between(1, 250);
        self.options.through_codec = dice.below(8) == 0;
        self.options.policy = dice.pick(&[
            IncompletePolicy::Store,
            IncompletePolicy::Store,
            IncompletePolicy::Drop,
            IncompletePolicy::Wait,
        ]);
    }

    fn triggers(&mut self) {
        let dice = &mut self.dice;
        self.options.sources.period = dice.time_between(Nanos::from_micros(5), Nanos::from_micros(150));
        self.options.triggers = match dice.below(3) {
            0 => TriggerOptions::Free,
            1 => TriggerOptions::Driven {
                period: dice.time_between(Nanos::from_micros(10), Nanos::from_micros(200)),
                poisson: dice.below(2) == 0,
            },
            _ => TriggerOptions::Announced {
                reference_only: dice.below(3) == 0,
                stride: dice.pick(&[1, 1, 1, 2, 1_000]),
            },
        };
        if matches!(self.options.triggers, TriggerOptions::Free) && dice.below(3) == 0 {
            self.options.sources.surplus = dice.between(1, 100);
        }
    }

    fn bounds(&mut self) {
        let dice = &mut self.dice;
        let sources = u64::from(self.options.source_count());
        let per_readout = u64::from(self.options.system.sources_per_readout);
        let bounds = &mut self.options.bounds;
        let largest = dice.pick(&[100, 1_000, 4_000]);
        self.options.sources.largest = ByteCount(largest);
        self.options.sources.smallest = ByteCount(dice.below(largest + 1));
        bounds.max_fragment = ByteCount(largest + dice.below(1_000));
        bounds.slots = u32::try_from(dice.pick(&[1, 2, 4, 8, 16, 32])).unwrap_or(1);
        bounds.batch_events = usize::try_from(dice.between(1, u64::from(bounds.slots))).unwrap_or(1);
        bounds.report_events = usize::try_from(dice.between(1, 16)).unwrap_or(1);
        bounds.queue_events = usize::try_from(dice.pick(&[8, 16, 64])).unwrap_or(8);
        bounds.message_events = usize::try_from(dice.pick(&[1, 4, 64])).unwrap_or(1);
        bounds.message_bytes = ByteCount(dice.pick(&[1_000, 16_000, 64_000]));
        bounds.max_attempts = u16::try_from(dice.between(1, 6)).unwrap_or(1);
        // Room for fragments out of order. Otherwise sources could block themselves without limit.
        bounds.buffer_events = usize::try_from(dice.pick(&[16, 64, 512])).unwrap_or(16);
        let share = bounds.max_fragment.0 * dice.pick(&[16, 100, 1_000]);
        let event = (largest * sources).max(1);
        let roomy = event * u64::from(bounds.slots);
        // From half of the largest event to a quarter of the slots.
        let tight = event / 2 + dice.below(event + roomy / 4);
        bounds.memory = ByteCount(if dice.below(4) == 0 { tight } else { roomy });
        bounds.buffer = ByteCount(share * per_readout);
    }

    fn times(&mut self) {
        let level = self.level();
        let dice = &mut self.dice;
        let times = &mut self.options.times;
        times.batch = dice.time_between(Nanos::ZERO, Nanos::from_micros(500));
        times.heartbeat = dice.time_between(Nanos::from_micros(500), Nanos::from_millis(10));
        times.acknowledge = dice.time_between(Nanos::from_micros(100), Nanos::from_millis(2));
        times.retransmit = dice.time_between(Nanos::from_millis(3), Nanos::from_millis(10));
        times.rejoin = dice.time_between(Nanos::ZERO, Nanos::from_millis(5));
        times.orphan =
            (dice.below(3) > 0).then(|| dice.time_between(Nanos::from_millis(100), Nanos::from_secs(1)));
        if dice.below(4) == 0 {
            self.options.timer_slack = dice.time_between(Nanos::ZERO, Nanos::from_micros(300));
        }
        // Hasty timeouts: shorter than sources and network need even without faults.
        let (merge, retry, event) = match level {
            Level::Off => (20_000, 25_000, 60_000),
            Level::Mild => (2_000, 1_000, 6_000),
            Level::Wild => (200, 100, 1_000),
        };
        times.merge = Nanos::from_micros(merge + dice.below(merge));
        times.retry = Nanos::from_micros(retry + dice.below(retry));
        times.event = times.merge.max(times.retry) + Nanos::from_micros(1 + dice.below(event));
        if dice.below(8) == 0 {
            times.peer = times.retransmit + Nanos::from_millis(dice.between(8, 100));
        }
    }

    fn network(&mut self) {
        let dice = &mut self.dice;
        let network = &mut self.options.network;
        network.delay_min = dice.time_between(Nanos::from_micros(1), Nanos::from_micros(50));
        network.jitter_mean = dice.time_between(Nanos::ZERO, Nanos::from_micros(100));
        network.spread = dice.pick(&[1, 1, 4]);
        network.reorder_delay = dice.time_between(Nanos::ZERO, Nanos::from_millis(5));
        network.clog_mean = dice.time_between(Nanos::from_millis(1), Nanos::from_millis(30));
        self.options.network.loss = self.ratio(10_000, 200_000);
        self.options.network.duplicate = self.ratio(10_000, 200_000);
        self.options.network.reorder = self.ratio(10_000, 300_000);
        self.options.network.clog = self.ratio(500, 10_000);
    }

    fn sources(&mut self) {
        let waits = self.options.policy == IncompletePolicy::Wait;
        if !waits {
            self.options.sources.silent = self.ratio(5_000, 200_000);
        }
        self.options.sources.duplicate = self.ratio(5_000, 200_000);
        self.options.sources.out_of_order = self.ratio(5_000, 200_000);
        self.options.sources.disorder = self.dice.between(1, 6);
        self.options.sources.oversize = self.ratio(5_000, 100_000);
        self.options.sources.unknown_event = self.ratio(5_000, 100_000);
        self.options.sources.unknown_source = self.ratio(5_000, 100_000);
        self.options.sources.pause = self.ratio(1_000, 20_000);
        self.options.sources.pause_mean =
            self.dice.time_between(Nanos::from_millis(1), Nanos::from_millis(40));
        if self.level() != Level::Off {
            let number = self.dice.below(u64::from(self.options.source_count()));
            let after = self.dice.below(self.options.events + 1);
            self.options.sources.early_end = Some((u16::try_from(number).unwrap_or(0), after));
        }
        // If no node gives up waiting, sources block each other when they are further apart than the buffers are large.
        self.options.sources.lossy_while_down = self.dice.below(2) == 0 && !waits;
    }

    fn storage(&mut self) {
        let dice = &mut self.dice;
        let builders = u64::from(self.options.system.builders);
        let storage = &mut self.options.storage;
        storage.write = dice.time_between(Nanos::ZERO, Nanos::from_micros(100));
        storage.report = dice.time_between(Nanos::ZERO, Nanos::from_millis(1));
        if dice.below(3) == 0 {
            storage.reject = Ratio::percent(u32::try_from(dice.below(60)).unwrap_or(0));
        }
        if dice.below(6) == 0 {
            let slow = u16::try_from(dice.below(builders)).unwrap_or(0);
            storage.slow_builder = Some((slow, dice.between(2, 30)));
        }
        self.options.storage.fail = self.ratio(5_000, 100_000);
        self.options.storage.mismatch = self.ratio(5_000, 100_000);
    }

    /// Draws crashes, stalls and broken links. Builder 0 and readout unit 0 always return.
    fn node_faults(&mut self) {
        let (readouts, builders) = (self.options.system.readouts, self.options.system.builders);
        for _ in 0..self.times_at(2, 8) {
            let index = u16::try_from(self.dice.below(u64::from(builders))).unwrap_or(0);
            let back_after = self.back_after(index == 0);
            self.fault(FaultKind::Crash { node: NodeId::builder(index), back_after });
        }
        for _ in 0..self.times_at(1, 4) {
            let index = u16::try_from(self.dice.below(u64::from(readouts))).unwrap_or(0);
            let waits = self.options.policy == IncompletePolicy::Wait;
            let back_after = self.back_after(index == 0 || waits);
            self.fault(FaultKind::Crash { node: NodeId::readout(index), back_after });
        }
        for _ in 0..self.times_at(2, 8) {
            let node = self.any_node();
            let lasts = self.lasting();
            self.fault(FaultKind::Stall { node, lasts });
        }
        for _ in 0..self.times_at(3, 20) {
            let (from, to) = (self.any_node(), self.any_node());
            let (lasts, cut) = (self.lasting(), self.dice.below(2) == 0);
            if from != to {
                self.fault(FaultKind::Link { from, to, lasts, cut });
                if self.dice.below(2) == 0 {
                    self.fault(FaultKind::Link { from: to, to: from, lasts, cut });
                }
            }
        }
    }

    fn times_at(&mut self, mild: u64, wild: u64) -> u64 {
        match self.level() {
            Level::Off => 0,
            Level::Mild => self.dice.between(1, mild),
            Level::Wild => self.dice.between(1, wild),
        }
    }

    fn back_after(&mut self, must: bool) -> Option<Nanos> {
        (must || self.dice.below(3) > 0).then(|| self.lasting())
    }

    /// Draws the duration of a fault: short, or longer than the peer timeout.
    fn lasting(&mut self) -> Nanos {
        let end = self.dice.pick(&[2, 20, 150]);
        self.dice.time_between(Nanos::ZERO, Nanos::from_millis(end))
    }

    fn any_node(&mut self) -> NodeId {
        let (readouts, builders) = (self.options.system.readouts, self.options.system.builders);
        let index = self.dice.below(1 + u64::from(readouts) + u64::from(builders));
        let index = u16::try_from(index).unwrap_or(0);
        match index {
            0 => NodeId::MANAGER,
            index if index <= readouts => NodeId::readout(index - 1),
            index => NodeId::builder(index - 1 - readouts),
        }
    }

    fn fault(&mut self, kind: FaultKind) {
        let at = Timestamp(self.dice.below(self.busy_time().0));
        self.options.faults.push(Fault { at, kind });
    }

    /// Draws a crash of a node that is soon back, with these dice.
    fn short_crash(&self, dice: &mut Dice, node: NodeId) -> Fault {
        let back_after = Some(dice.time_between(Nanos::ZERO, Nanos::from_millis(20)));
        let at = Timestamp(dice.below(self.busy_time().0));
        Fault { at, kind: FaultKind::Crash { node, back_after } }
    }

    /// Returns the approximate duration of the run without faults, with a margin.
    fn busy_time(&self) -> Nanos {
        let period = match self.options.triggers {
            TriggerOptions::Driven { period, .. } => period,
            _ => self.options.sources.period,
        };
        Nanos(period.0 * self.options.events * 3 / 2 + 2_000_000)
    }

    fn course(&mut self) {
        let busy = self.busy_time();
        self.options.faults_until = Timestamp(busy.0 + self.dice.below(100_000_000));
        let asked_for = !self.is_calm && self.dice.below(10) == 0;
        if asked_for || self.may_wait_for_ever() {
            let extra = if self.may_wait_for_ever() { 200_000_000 } else { 0 };
            self.options.stops = vec![Timestamp(extra + self.dice.below(busy.0))];
            if self.dice.below(4) == 0 {
                let again = self.options.stops[0] + Nanos(self.dice.below(5_000_000));
                self.options.stops.push(again);
            }
            if self.dice.below(2) == 0 {
                self.options.times.stop = Nanos(self.dice.below(5_000_000));
            }
        } else {
            // No event may be dropped because of the time limit. The run continues when the faults end, or is reported as
            // not converged.
            self.options.times.stop = Nanos::from_secs(3_600);
        }
        // Without an orphan timeout, fragments of events that are never triggered would stay in the buffers.
        if self.has_events_never_asked_for() {
            self.options.times.orphan.get_or_insert(Nanos::from_millis(300));
        }
    }

    /// Sets the time limit of the run. Each event may wait for its timeout in each attempt.
    fn converge(&mut self) {
        let each = (self.options.times.event.0 + self.options.times.patience().silence.0).min(200_000_000);
        let all = each * (self.options.events + 20) * u64::from(self.options.bounds.max_attempts);
        let attempts = u64::from(self.options.bounds.max_attempts) + 1;
        let processing = self.options.processing_together().0 * attempts;
        let windows = self.options.window_time().0 * self.options.events * attempts;
        self.options.converge_within = Nanos(all + processing + windows) + Nanos::from_secs(30);
    }

    /// Sets timeouts that do not expire without faults. With `just` they are barely long enough: readout units wait for a
    /// source as long as it pauses, but not as long as others are ahead of it, and the end of the run waits as long as events
    /// take that no node works on.
    fn wait_long(&mut self, just: bool) {
        let (pause, gathering) = (self.options.pause(), self.options.gathering_time());
        // An event that fits nowhere is returned in each attempt, and each attempt may need a repeated request.
        let fits_nowhere = self.options.some_events_fit_nowhere();
        let retries = if fits_nowhere { 2 + u64::from(self.options.bounds.max_attempts) } else { 2 };
        if just {
            let times = &mut self.options.times;
            times.merge = pause;
            times.retry = times.retry.max(pause).max(gathering);
            times.stop = Nanos(gathering.0 + pause.0 + retries * times.retry.0 + 4 * times.heartbeat.0);
            self.preprocess_for_longer_than_the_end_waits();
        }
        let patience = self.options.patience();
        let times = &mut self.options.times;
        if !just {
            times.merge = times.merge.max(patience).max(pause);
            times.retry = times.retry.max(times.merge).max(patience);
        }
        times.event = Nanos(2 * times.retry.max(patience).0 + 1);
        times.orphan = times.orphan.map(|orphan| orphan.max(Nanos(2 * times.retry.max(patience).0 + 1)));
    }

    /// Makes slow calls of preprocessors longer than the end of a run waits without progress. There are a few in a run, so
    /// that often one of them is the last.
    fn preprocess_for_longer_than_the_end_waits(&mut self) {
        let fragments = self.options.events * u64::from(self.options.source_count());
        let stop = self.options.times.stop;
        let Some(setup) = self.options.preprocessing.as_mut().filter(|setup| setup.slow.is_possible()) else {
            return;
        };
        setup.slow = Ratio::per_million(u32::try_from(3_000_000 / fragments.max(6)).unwrap_or(1));
        setup.slow_time = Nanos(2 * stop.0);
        setup.time_limit = Nanos(setup.slow_time.0 + setup.time.0 + 1);
    }

    /// Returns whether a run that waits without limit may wait for a fragment that is never sent.
    fn may_wait_for_ever(&self) -> bool {
        // An unknown id of one source becomes an event that lacks all other sources.
        let alone = self.options.sources.unknown_event.is_possible()
            && matches!(self.options.triggers, TriggerOptions::Announced { .. });
        self.options.policy == IncompletePolicy::Wait && alone
    }

    fn has_events_never_asked_for(&self) -> bool {
        self.options.sources.unknown_event.is_possible()
            || matches!(self.options.triggers, TriggerOptions::Announced { reference_only: true, .. })
    }
}
