//! Options that are drawn last. Each uses dice of its own, so that the rest of a seed's run does not depend on it.

use super::Swarm;
use crate::dice::{Dice, Ratio};
use crate::options::{
    FarmOptions, Fault, FaultKind, FeedOptions, NodeExclusion, Options, Pause, RecoveryOptions, SlotOptions,
    SourceExclusion, StepOptions, SupervisorFaults, SupervisorOptions, TriggerDatagramOptions,
    TriggerOptions,
};
use sheaf_protocol::builder::IncompletePolicy;
use sheaf_protocol::gathering::Gathering;
use sheaf_protocol::manager::{LossAction, Requirement};
use sheaf_wire::{ByteCount, ByteRate, Nanos, NodeId, Timestamp};
use std::collections::BTreeSet;

/// Number of the draws of the time that filters take to load.
const LOADING: u64 = 79;

impl Swarm {
    /// Draws output nodes. They always return, because a run cannot end without them.
    pub(super) fn outputs(&mut self) {
        let mut dice = Dice::new(self.options.seed, 7);
        let outputs = dice.pick(&[0, 0, 0, 1, 2, 3]);
        self.options.system.outputs = outputs;
        if outputs == 0 || self.is_calm {
            return;
        }
        for _ in 0..dice.pick(&[0, 0, 1, 2, 6]) {
            let at = Timestamp(dice.below(self.busy_time().0));
            let node = NodeId::output(u16::try_from(dice.below(u64::from(outputs))).unwrap_or(0));
            let lasts = Nanos(dice.below(150_000_000));
            let kind = match dice.below(3) {
                0 => FaultKind::Stall { node, lasts },
                _ => FaultKind::Crash { node, back_after: Some(lasts) },
            };
            self.options.faults.push(Fault { at, kind });
        }
    }

    /// Draws a trigger supervisor whose triggers in flight fit the queue.
    pub(super) fn supervisor(&mut self) {
        let mut dice = Dice::new(self.options.seed, 23);
        if !matches!(self.options.triggers, TriggerOptions::Driven { .. }) || dice.below(2) == 0 {
            return;
        }
        let places = self.options.bounds.queue_events as u64;
        let longest = self.options.trigger_distance().0 * (places - 2) / 2;
        let latency = dice.time_between(Nanos::ZERO, Nanos(longest.saturating_sub(1)));
        // From sizes that are forgotten at once to sizes that are remembered for the whole run.
        let size_window = Dice::new(self.options.seed, 47).pick(&[1, 8, 100, 1 << 16]);
        let supervisor = SupervisorOptions { latency, size_window, datagrams: None, deaths: None };
        self.options.supervisor = Some(supervisor);
        // A source may send a fragment after those of later triggers, which the builder unit may wait for without limit.
        let awaited = 2 * (self.options.sources.disorder + 2);
        let least = self.options.trigger_reserve(supervisor) + awaited;
        let places = places.max(least);
        self.options.bounds.queue_events = usize::try_from(places).unwrap_or(usize::MAX);
        // A buffer that the number of fragments limits, and of a size near that of the queue.
        if dice.below(2) == 0 {
            let bounds = &mut self.options.bounds;
            bounds.buffer_events = usize::try_from(dice.between(least.max(8), 2 * places)).unwrap_or(8);
            let fragments = bounds.buffer_events as u64 * u64::from(self.options.system.sources_per_readout);
            bounds.buffer = bounds.buffer.max(ByteCount(2 * bounds.max_fragment.0 * fragments));
        }
        if !self.is_calm && self.options.system.builders > 1 && dice.below(4) == 0 {
            // Builder units whose events return to a queue that has little more room than triggers in flight need.
            self.options.bounds.queue_events = usize::try_from(least).unwrap_or(usize::MAX);
            self.saturate_builders(&mut dice, awaited);
            for _ in 0..dice.between(1, 3) {
                let builder = dice.below(self.options.system.builders.into());
                let node = NodeId::builder(u16::try_from(builder).unwrap_or(0));
                let crash = self.short_crash(&mut dice, node);
                self.options.faults.push(crash);
            }
        }
        if dice.below(3) == 0 {
            let mut ratio = |most| Ratio::percent(u32::try_from(dice.below(most)).unwrap_or(0));
            let datagrams = Some(TriggerDatagramOptions { lost: ratio(30), repeated: ratio(20) });
            self.options.supervisor = Some(SupervisorOptions { datagrams, ..supervisor });
        }
    }

    /// Makes builder units slower than the triggers, so that the events of one that dies find no room in the others.
    fn saturate_builders(&mut self, dice: &mut Dice, awaited: u64) {
        let bounds = &mut self.options.bounds;
        let slots = u32::try_from(2 * awaited).unwrap_or(u32::MAX);
        bounds.slots = bounds.slots.max(slots);
        bounds.request_events = bounds.request_events.max(bounds.slots as usize);
        let together = self.options.trigger_distance().0 * u64::from(self.options.system.builders);
        let write = Nanos(together * dice.pick(&[1, 2, 3]));
        self.options.storage.write = self.options.storage.write.max(write);
    }

    /// Draws a supervisor whose program dies and starts again.
    pub(super) fn deaths_of_the_supervisor(&mut self) {
        let mut dice = Dice::new(self.options.seed, 53);
        if self.is_calm || dice.below(5) > 1 {
            return;
        }
        if let Some(supervisor) = &mut self.options.supervisor {
            supervisor.deaths = Some(SupervisorFaults {
                dies: Ratio::per_million(dice.pick(&[5_000, 50_000, 300_000])),
                absence: dice.time_between(Nanos::ZERO, Nanos::from_millis(20)),
                moves: dice.below(2) == 0,
            });
        }
    }

    /// Draws sources whose fragments are so much out of order that several events wait for later ones, while busy keeps half of a readout
    /// unit free. Only sources without a time limit are waited for so long. The disorder fits in the other half, so that the run can go
    /// on: busy must end although nothing moves.
    pub(super) fn events_that_wait_for_later_ones(&mut self) {
        let mut dice = Dice::new(self.options.seed, 25);
        let Some(supervisor) = self.options.supervisor else { return };
        let is_apt = self.options.numbers.is_none() && self.options.windows.is_none();
        if self.is_calm || !is_apt || dice.below(3) > 0 {
            return;
        }
        if !self.options.awaits_without_limit() {
            self.options.feed = Some(programs_without_faults(&mut dice));
        }
        let room = dice.pick(&[8, 10, 12, 16]);
        let Options { sources, bounds, system, events, .. } = &mut self.options;
        // Delayed fragments delay one another: more events than the disorder wait, in the smallest buffer too many for the other half.
        sources.disorder = if room == 8 { 2 } else { room / 2 - 1 } - dice.below(2);
        sources.out_of_order = Ratio::percent(dice.pick(&[30, 60, 90]));
        // An event without a fragment of a source waits for that source's next one as well.
        sources.silent = Ratio::NEVER;
        let fragments = room * u64::from(system.sources_per_readout);
        bounds.buffer = bounds.buffer.max(ByteCount(2 * bounds.max_fragment.0 * fragments));
        bounds.buffer_events = usize::try_from(room).unwrap_or(8);
        // Each time that busy must end in this way takes a second.
        *events = (*events).min(60);
        // The queue must not keep the later ones away: events that wait leave half of what is beyond the reserve free, and busy ends.
        let awaited = 2 * (sources.disorder + 2);
        let latency = Nanos(self.options.trigger_distance().0 * room / 4).max(supervisor.latency);
        let supervisor = SupervisorOptions { latency, ..supervisor };
        let least = self.options.trigger_reserve(supervisor) + awaited;
        let places = (self.options.bounds.queue_events as u64).max(least);
        self.options.bounds.queue_events = usize::try_from(places).unwrap_or(usize::MAX);
        self.options.supervisor = Some(supervisor);
    }

    pub(super) fn recovery(&mut self) {
        let mut dice = Dice::new(self.options.seed, 5);
        let datagram = ByteCount(dice.pick(&[256, 600, 1_472, 8_972]));
        let rails = dice.pick(&[1, 1, 2, 3]);
        self.options.recovery = (dice.below(4) == 0).then_some(RecoveryOptions { datagram, rails });
    }

    pub(super) fn steps(&mut self) {
        let mut dice = Dice::new(self.options.seed, 6);
        let sources = u64::from(self.options.source_count());
        let ratio = |dice: &mut Dice| Ratio::percent(u32::try_from(dice.below(34)).unwrap_or(0));
        let steps = StepOptions {
            first: u16::try_from(dice.between(1, sources)).unwrap_or(1),
            reject: ratio(&mut dice),
            enough: ratio(&mut dice),
            region: ratio(&mut dice),
            judge: dice.time_between(Nanos::ZERO, Nanos::from_micros(500)),
            types: u16::try_from(dice.pick(&[0, 0, 2, 3])).unwrap_or(0),
        };
        let is_pushed = matches!(self.options.gathering, Gathering::Push);
        let is_announced = matches!(self.options.triggers, TriggerOptions::Announced { .. });
        let types = if is_announced { 0 } else { steps.types };
        if !is_pushed {
            self.options.steps = match dice.below(3) {
                0 => StepOptions { types, ..steps },
                1 if dice.below(3) == 0 => StepOptions { types, ..StepOptions::default() },
                _ => StepOptions::default(),
            };
        }
    }

    pub(super) fn gathering(&mut self) {
        let mut dice = Dice::new(self.options.seed, 4);
        let event = self.options.sources.largest.0 * u64::from(self.options.source_count());
        // From less than a fragment to several events.
        let most = dice.pick(&[100, event + 1, 8 * event + 1]);
        let credit = ByteCount(1 + dice.below(most));
        let tick = dice.time_between(Nanos::from_micros(500), Nanos::from_millis(20));
        self.options.slots = SlotOptions {
            rate: (dice.below(4) > 0)
                .then(|| ByteRate::new(dice.between(5_000_000_000, 20_000_000_000)))
                .flatten(),
            block: ByteCount(dice.between(1_000, 32_000)),
            guard: dice.time_between(Nanos::ZERO, Nanos::from_micros(1)),
            synchronised: dice.below(2) == 0,
            patience: Nanos::from_millis(1),
        };
        self.options.gathering = match dice.below(6) {
            0 | 1 => Gathering::Pull,
            2 | 3 => Gathering::Paced { credit },
            4 => Gathering::Push,
            _ => Gathering::Barrel { credit, tick },
        };
    }

    /// Draws whether builders judge events themselves or a farm does, whose processors die, hang, fail and are killed.
    pub(super) fn farm(&mut self) {
        let mut dice = Dice::new(self.options.seed, 8);
        if dice.below(3) > 0 {
            return;
        }
        let judge = dice.time_between(Nanos::from_micros(1), Nanos::from_micros(200));
        let way = dice.time_between(Nanos::ZERO, Nanos::from_micros(50));
        let restart = dice.time_between(Nanos::from_micros(50), Nanos::from_millis(3));
        let turn = judge.0 + 2 * way.0;
        let is_hasty = !self.is_calm && dice.below(8) == 0;
        let time_limit = if is_hasty { Nanos(turn / 2 + 1) } else { Nanos(2 * turn + 500_000) };
        let hasty = dice.pick(&[restart, Nanos(restart.0 / 2)]);
        let patience = if is_hasty { hasty } else { Nanos(4 * (restart.0 + time_limit.0 + way.0)) };
        let (load, dies_loading, load_time_limit) = self.loading(turn, is_hasty);
        let number = |dice: &mut Dice, end| u16::try_from(dice.between(1, end)).unwrap_or(1);
        let processors = number(&mut dice, 4);
        let ahead = dice.pick(&[1, 2, 4, 16]);
        let retries = dice.pick(&[0, 1, 1, 1, 2, 3]);
        let mut ratio = || match self.is_calm {
            true => Ratio::NEVER,
            false => Ratio::per_million(dice.pick(&[0, 0, 0, 0, 5_000, 5_000, 50_000])),
        };
        let [fails, dies, hangs, falls_silent, contradicts] = std::array::from_fn(|_| ratio());
        let kills = if self.is_calm { 0 } else { dice.pick(&[0, 0, 0, 2, 10]) };
        for _ in 0..kills {
            let at = Timestamp(dice.below(self.busy_time().0));
            let builder = number(&mut dice, u64::from(self.options.system.builders)) - 1;
            let place = number(&mut dice, u64::from(processors)) - 1;
            self.options.faults.push(Fault { at, kind: FaultKind::KillProcessor { builder, place } });
        }
        self.options.farm = Some(FarmOptions {
            processors,
            ahead,
            judge,
            way,
            load,
            dies_loading,
            load_time_limit,
            time_limit,
            patience,
            retries,
            restart,
            fails,
            dies,
            hangs,
            falls_silent,
            leaves: Ratio::per_million(dice.pick(&[0, 0, 5_000, 50_000])),
            contradicts,
            asks: ahead * dice.pick(&[1, 1, 3]),
        });
    }

    /// Draws for how long processors load their filters, how many die meanwhile, and the time limit.
    fn loading(&self, turn: u64, is_hasty: bool) -> (Nanos, Ratio, Nanos) {
        let mut dice = Dice::new(self.options.seed, LOADING);
        let longest = dice.pick(&[
            Nanos::ZERO,
            Nanos::from_micros(500),
            Nanos::from_millis(10),
            Nanos::from_millis(300),
        ]);
        let load = dice.time_between(Nanos::ZERO, Nanos(longest.0 + 1));
        let dies = if self.is_calm { 0 } else { dice.pick(&[0, 0, 0, 50_000, 300_000, 1_000_000]) };
        let limit = if is_hasty { load.0 / 2 + 1 } else { 2 * (load.0 + turn) + 500_000 };
        (load, Ratio::per_million(dies), Nanos(limit))
    }

    /// Draws bounds that few runs reach.
    pub(super) fn late_bounds(&mut self) {
        let mut dice = Dice::new(self.options.seed, 10);
        let event = (self.options.sources.largest.0 * u64::from(self.options.source_count())).max(1);
        let bounds = &mut self.options.bounds;
        let expected = dice.pick(&[None, None, Some(event / 4 + 1), Some(event), Some(4 * event)]);
        bounds.expected_event = expected.map(ByteCount);
        bounds.request_events = dice.pick(&[bounds.slots as usize, 64, 4_096]);
        bounds.window_events = dice.pick(&[1, 2, 8, bounds.slots]);
        bounds.window = ByteCount(dice.pick(&[event / 2 + 1, 4 * event, bounds.memory.0.max(event)]));
        let start = dice.time_between(Nanos::from_millis(80), Nanos::from_millis(300));
        self.options.times.start = start;
        let tiny = dice.pick(&[1, 2, 4]);
        if dice.below(2) == 0 && self.sends_what_is_asked_for_in_order() {
            self.options.bounds.buffer_events = tiny;
        }
    }

    /// Returns whether no source must send later fragments before its held ones are requested. Then its buffer may be as
    /// small as one fragment, and younger events must make way for older ones.
    fn sends_what_is_asked_for_in_order(&self) -> bool {
        let sources = &self.options.sources;
        let is_reference =
            matches!(self.options.triggers, TriggerOptions::Announced { reference_only: true, .. });
        // A duplicate may replace an original that was lost while the unit was down.
        let repeats_replace = sources.lossy_while_down && sources.duplicate.is_possible();
        !is_reference
            && !repeats_replace
            && !sources.out_of_order.is_possible()
            && !sources.unknown_event.is_possible()
    }

    /// Makes optional sources silent if required ones are awaited without limit.
    pub(super) fn optional_sources(&mut self) {
        let mut dice = Dice::new(self.options.seed, 16);
        if self.options.policy == IncompletePolicy::Wait && !self.is_calm && dice.below(2) == 0 {
            let parts = dice.pick(&[5_000, 50_000, 200_000]);
            self.options.sources.optional_silent = Ratio::per_million(parts);
        }
    }

    /// Draws outputs that take few events at a time, and are late with some.
    pub(super) fn lagging_outputs(&mut self) {
        let mut dice = Dice::new(self.options.seed, 17);
        let storage = &mut self.options.storage;
        storage.queue_events = dice.pick(&[None, None, Some(1), Some(4)]);
        storage.late = dice.pick(&[Ratio::NEVER, Ratio::NEVER, Ratio::percent(1), Ratio::percent(10)]);
        storage.late_time = dice.time_between(Nanos::ZERO, Nanos::from_millis(20));
    }

    /// Draws whether links are reported to drivers, and how much longer a node may then be silent while its link is up.
    pub(super) fn link_reports(&mut self) {
        let mut dice = Dice::new(self.options.seed, 18);
        let peer = self.options.times.peer.0;
        let factor = dice.pick(&[None, None, None, Some(1), Some(2), Some(4)]);
        self.options.times.silence = factor.map(|factor| Nanos(factor * peer));
    }

    /// Draws an operator who holds the start for less or more than its time limit, and pauses the run.
    pub(super) fn operator(&mut self) {
        let mut dice = Dice::new(self.options.seed, 67);
        if dice.below(6) == 0 {
            self.options.held_until = Some(Timestamp(dice.below(500_000_000)));
        }
        let from = self.options.held_until.unwrap_or_default();
        for _ in 0..dice.pick(&[0, 0, 0, 1, 2, 6]) {
            let at = from + Nanos(dice.below(self.busy_time().0));
            let longest = dice.pick(&[100_000, 5_000_000, 100_000_000]);
            self.options.pauses.push(Pause { at, lasts: Nanos(dice.below(longest)) });
        }
    }

    /// Draws an operator who excludes sources, and includes them again or not before the end of the run. The source that makes the
    /// triggers stays.
    pub(super) fn exclusions(&mut self) {
        let mut dice = Dice::new(self.options.seed, 71);
        let makes_triggers = matches!(self.options.triggers, TriggerOptions::Announced { .. });
        let first = u64::from(makes_triggers);
        let sources = u64::from(self.options.source_count());
        if sources <= first {
            return;
        }
        for _ in 0..dice.pick(&[0, 0, 0, 0, 1, 2, 8]) {
            let source = u16::try_from(dice.between(first, sources - 1)).unwrap_or(0);
            let at = Timestamp(dice.below(self.busy_time().0));
            let longest = dice.pick(&[100_000, 5_000_000, 100_000_000]);
            let lasts = Nanos(dice.below(longest));
            self.options.exclusions.push(SourceExclusion { source, at, lasts });
        }
    }

    /// Draws an operator who excludes readout units, except for the one with the source that makes the triggers, and builder units.
    pub(super) fn node_exclusions(&mut self) {
        let mut dice = Dice::new(self.options.seed, 73);
        let system = &self.options.system;
        let (readouts, builders) = (1..system.readouts, 0..system.builders);
        let nodes: Vec<_> = readouts.map(NodeId::readout).chain(builders.map(NodeId::builder)).collect();
        for _ in 0..dice.pick(&[0, 0, 0, 0, 0, 1, 2, 6]) {
            let node = dice.pick(&nodes);
            let at =
                if dice.below(4) == 0 { Timestamp(0) } else { Timestamp(dice.below(self.busy_time().0)) };
            let longest = dice.pick(&[100_000, 5_000_000, 100_000_000]);
            let lasts = Nanos(dice.below(longest));
            self.options.node_exclusions.push(NodeExclusion { node, at, lasts });
        }
    }

    /// Draws minimum numbers of nodes. The operator stops a run that may wait for nodes that never come back.
    pub(super) fn requirements(&mut self) {
        let mut dice = Dice::new(self.options.seed, 72);
        let system = &self.options.system;
        let roles: [Vec<NodeId>; 3] = [
            (0..system.readouts).map(NodeId::readout).collect(),
            (0..system.builders).map(NodeId::builder).collect(),
            (0..system.outputs).map(NodeId::output).collect(),
        ];
        for _ in 0..dice.pick(&[0, 0, 0, 0, 1, 1, 3]) {
            let from = dice.pick(&[&roles[..1], &roles[1..2], &roles[1..], &roles]);
            let mut nodes: BTreeSet<_> = from.iter().flatten().copied().collect();
            nodes.retain(|_| dice.below(4) > 0);
            let least = usize::try_from(dice.between(0, nodes.len() as u64)).unwrap_or(0);
            let on_loss =
                dice.pick(&[LossAction::Continue, LossAction::Pause, LossAction::Pause, LossAction::Stop]);
            let name = String::new();
            self.options.requirements.push(Requirement { name, nodes, least, on_loss });
        }
        if self.options.requirements.iter().any(|one| one.on_loss == LossAction::Pause) {
            let faults = self.options.faults.iter().map(|fault| fault.ends_at()).max().unwrap_or_default();
            let at = faults.max(self.options.faults_until) + Nanos::from_secs(1);
            self.options.stops.push(at);
        }
    }

    /// Draws a source that is slower than the others, and times at which all nodes are frozen together. Sets the timeouts of
    /// runs without faults.
    pub(super) fn pace(&mut self) {
        let mut dice = Dice::new(self.options.seed, 9);
        if dice.below(5) == 0 {
            let number = dice.below(u64::from(self.options.source_count()));
            let factor = dice.between(2, 20);
            self.options.sources.slow = Some((u16::try_from(number).unwrap_or(0), factor));
        }
        if self.is_calm {
            self.wait_long(dice.below(2) == 0);
            return;
        }
        for _ in 0..dice.pick(&[0, 0, 0, 0, 0, 0, 1, 3]) {
            let at = Timestamp(dice.below(self.busy_time().0));
            let lasts = Nanos(dice.below(150_000_000));
            self.options.faults.push(Fault { at, kind: FaultKind::Freeze { lasts } });
        }
    }
}

/// Draws programs that feed sources and have no faults.
fn programs_without_faults(dice: &mut Dice) -> FeedOptions {
    FeedOptions {
        every: dice.pick(&[1, 1, 2]),
        programs: 1,
        keeps: true,
        window_fragments: 64,
        window_events: 64,
        way: dice.time_between(Nanos::ZERO, Nanos::from_micros(50)),
        start: Nanos::from_micros(100),
        retry: Nanos::from_millis(1),
        repeats: 0,
        declines: false,
        loses_end: false,
        records: None,
    }
}
