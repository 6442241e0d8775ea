//! The course of a run: scheduling of nodes, the duration of their rounds, and faults.
//!
//! Each node is a thread, and all share a clock. A round is one call of [`NodeDriver::work`]. It takes some microseconds and the
//! time of its filter and its disk. Then the node continues, sleeps until its deadline or the next arrival, or has finished.
//! A frozen node has no rounds, and a starved one has few, even if messages arrive.

use super::assembly::Assembly;
use super::check::{self, DriverFailure, DriverReport};
use super::options::{DriverFault, DriverFaultKind, DriverOptions, START};
use crate::dice::Dice;
use crate::violation::{Violation, violation};
use sheaf_node::{NodeDriver, NodeError, Progress};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum sleep of a thread, as that of a worker.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

/// Maximum number of rounds. A run that exceeds it makes no progress.
const ROUNDS_MAX: u64 = 30_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// A fault of the options begins.
    Fault(usize),
    /// The operator stops the run for the second time.
    StopAgain,
    /// The operator resumes the run.
    Resume,
    /// A node is restarted.
    Back(NodeId),
    /// A node that was not told of the end of the run is ended.
    Evict(NodeId),
    /// The trigger supervisor, or its connection, has something to do.
    Supervision,
    /// The program of the trigger supervisor starts again.
    SupervisorStarts,
    /// A node's round. Void if another one is planned for it.
    Round(NodeId),
}

/// Maximum number of consecutive rounds without work or sleep.
const SPINS_MAX: u32 = 10_000;

/// A node and its thread.
pub(super) struct Seat {
    /// `None` while it is dead or after it has finished.
    pub(super) driver: Option<Box<dyn NodeDriver>>,
    /// Time of its next round.
    next: Timestamp,
    /// End of its last round.
    busy_until: Timestamp,
    frozen_until: Timestamp,
    /// End of its starvation, and the maximum interval between its rounds until then.
    starved: (Timestamp, Nanos),
    /// Whether it is dead and will be restarted.
    pub(super) is_away: bool,
    /// Number of consecutive rounds in which it did no work and did not sleep.
    spins: u32,
}

/// A run of the drivers.
pub struct World {
    pub(super) options: Arc<DriverOptions>,
    pub(super) assembly: Assembly,
    dice: Dice,
    pub(super) now: Timestamp,
    agenda: BinaryHeap<Reverse<(Timestamp, u64, Turn)>>,
    order: u64,
    pub(super) seats: BTreeMap<NodeId, Seat>,
    /// Time until which the machine of all nodes is suspended.
    suspended_until: Timestamp,
    errors: Vec<(Timestamp, NodeError)>,
    /// Faults that hit a live node.
    pub(super) happened: Vec<DriverFault>,
    /// Times at which replicas of the event manager finished.
    managers_ended: BTreeMap<NodeId, Timestamp>,
    /// Replicas of the event manager that were started again.
    pub(super) newcomers: BTreeSet<NodeId>,
    rounds: u64,
    violations: Vec<Violation>,
    log: String,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

impl World {
    /// Creates a run before its start.
    #[must_use]
    pub fn new(options: DriverOptions) -> Self {
        let options = Arc::new(options);
        let assembly = Assembly::new(options.clone());
        assembly.network.lock().now = START;
        let mut world = Self {
            dice: Dice::new(options.seed, 22),
            now: START,
            agenda: BinaryHeap::new(),
            order: 0,
            seats: BTreeMap::new(),
            suspended_until: Timestamp::ZERO,
            errors: Vec::new(),
            happened: Vec::new(),
            managers_ended: BTreeMap::new(),
            newcomers: BTreeSet::new(),
            rounds: 0,
            violations: Vec::new(),
            log: String::new(),
            assembly,
            options,
        };
        for node in world.options.nodes() {
            world.begin(node);
        }
        for index in 0..world.options.faults.len() {
            let at = world.options.faults[index].at;
            world.plan(at, Turn::Fault(index));
        }
        world
    }

    /// Runs to the end and checks the result. Also returns a log with a line for each sent and polled frame.
    ///
    /// # Errors
    /// Returns the violated invariants.
    pub fn run_with_log(mut self) -> (Result<DriverReport, Box<DriverFailure>>, String) {
        self.assembly.network.lock().log = Some(String::new());
        let network = self.assembly.network.clone();
        let result = self.run_to_end();
        let log = network.lock().log.take();
        (result, log.unwrap_or_default())
    }

    /// Runs to the end and checks the result.
    ///
    /// # Errors
    /// Returns the violated invariants.
    pub fn run(mut self) -> Result<DriverReport, Box<DriverFailure>> {
        self.run_to_end()
    }

    fn run_to_end(&mut self) -> Result<DriverReport, Box<DriverFailure>> {
        let end = START + self.options.within;
        while !self.is_over() {
            let next = self.agenda.pop().map(|Reverse((at, _, turn))| (at, turn));
            let Some((at, turn)) = next.filter(|(at, _)| *at <= end && self.rounds < ROUNDS_MAX) else {
                let stuck = self.explain();
                return Err(check::stuck(&self.options, stuck, self.now, std::mem::take(&mut self.log)));
            };
            self.now = at;
            self.assembly.network.lock().now = at;
            match turn {
                Turn::Fault(index) => self.fault(index),
                Turn::StopAgain => self.assembly.stop.store(true, Ordering::Relaxed),
                Turn::Resume => self.assembly.controls.pause.store(false, Ordering::Relaxed),
                Turn::Back(node) => self.come_back(node),
                Turn::Evict(node) => self.evict(node),
                Turn::Supervision => self.supervise(),
                Turn::SupervisorStarts => {
                    self.assembly.supervision.iter().for_each(|supervision| supervision.lock().start(at));
                }
                Turn::Round(node) => self.round(node),
            }
            self.plan_supervision();
        }
        let reports = self.assembly.take_reports();
        let manager = check::replica_that_ended(&reports);
        let disks = self.assembly.disks.lock();
        let net = self.assembly.network.lock();
        check::at_the_end(&check::DriverEvidence {
            options: &self.options,
            managers: &reports,
            manager: manager.map(|(node, _)| *node),
            report: manager.map(|(_, report)| report),
            disks: &disks,
            reports: &self.assembly.take_builder_reports(),
            errors: &self.errors,
            happened: &self.happened,
            retirements: &self.assembly.take_retirements(),
            manager_ended: manager.and_then(|(node, _)| self.managers_ended.get(node).copied()),
            now: self.now,
            rounds: self.rounds,
            violations: &self.violations,
            net: &net,
            supervision: self.assembly.supervision.as_ref().map(|supervision| supervision.lock().counts()),
            log: &self.log,
        })
    }

    fn is_over(&self) -> bool {
        self.seats.values().all(|seat| seat.driver.is_none() && !seat.is_away)
    }

    pub(super) fn plan(&mut self, at: Timestamp, turn: Turn) {
        self.order += 1;
        self.agenda.push(Reverse((at, self.order, turn)));
    }

    fn plan_round(&mut self, node: NodeId, at: Timestamp) {
        if let Some(seat) = self.seats.get_mut(&node) {
            seat.next = at;
            self.plan(at, Turn::Round(node));
        }
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        let since = self.now.since(START);
        if let Some(log) = &mut self.assembly.network.lock().log {
            writeln!(log, "{since} {what}").expect("writing to a string cannot fail");
        }
        writeln!(self.log, "{since} {what}").expect("writing to a string cannot fail");
    }

    fn begin(&mut self, node: NodeId) {
        let driver = Some(self.assembly.make(node));
        let seat = Seat {
            driver,
            next: self.now,
            busy_until: self.now,
            frozen_until: Timestamp::ZERO,
            starved: (Timestamp::ZERO, Nanos::ZERO),
            is_away: false,
            spins: 0,
        };
        self.seats.insert(node, seat);
        self.note(format_args!("{node} begins"));
        self.plan_round(node, self.now);
        self.wake_others();
    }

    /// Does all that is due for the trigger supervisor and its connection.
    fn supervise(&mut self) {
        let Some(supervision) = self.assembly.supervision.clone() else { return };
        let has_news = supervision.lock().turn(self.now);
        if let Some(seat) = self.seats.get(&NodeId::MANAGER).filter(|seat| seat.driver.is_some() && has_news)
        {
            let at = self.now.max(seat.busy_until);
            if at < seat.next {
                self.plan_round(NodeId::MANAGER, at);
            }
        }
    }

    /// Plans the next turns of the trigger supervisor.
    fn plan_supervision(&mut self) {
        let due = match &self.assembly.supervision {
            Some(supervision) => supervision.lock().take_due(),
            None => return,
        };
        due.into_iter().for_each(|at| self.plan(at.max(self.now), Turn::Supervision));
    }

    fn come_back(&mut self, node: NodeId) {
        if self.suspended_until > self.now {
            self.plan(self.suspended_until, Turn::Back(node));
        } else if self.seats.get(&node).is_some_and(|seat| seat.is_away) && self.may_come_back(node) {
            self.begin(node);
        }
    }

    fn round(&mut self, node: NodeId) {
        let Some(seat) = self.seats.get_mut(&node).filter(|seat| seat.next == self.now) else { return };
        let until = seat.frozen_until.max(self.suspended_until);
        if until > self.now {
            self.plan_round(node, until);
            return;
        }
        let Some(driver) = &mut seat.driver else { return };
        self.rounds += 1;
        let before = self.assembly.network.lock().actions;
        let progress = driver.work(self.now);
        let mut took = Nanos(self.dice.between(1_000, 5_000));
        if progress == Progress::Finished {
            let ended = driver.finish();
            let is_manager = node.role == Role::Manager;
            if is_manager {
                self.managers_ended.insert(node, self.now);
            }
            seat.driver = None;
            seat.next = Timestamp::MAX;
            self.assembly.network.lock().take_cost();
            self.note(format_args!("{node} has finished: {ended:?}"));
            self.errors.extend(ended.err().map(|error| (self.now, error)));
            if is_manager {
                self.heed_end_of_replica(node);
            }
            self.wake_others();
            return;
        }
        let first_arrival = {
            let mut net = self.assembly.network.lock();
            took = took + net.take_cost();
            let is_spinning =
                net.actions == before && matches!(progress, Progress::Idle(at) if at <= self.now);
            seat.spins = if is_spinning { seat.spins + 1 } else { 0 };
            if seat.spins == SPINS_MAX {
                self.violations.push(violation!("at {}: {node} spins: it is due but does no work", self.now));
            }
            net.first_arrival(node)
        };
        if seat.starved.0 > self.now {
            took = took + self.dice.time_between(Nanos::ZERO, seat.starved.1);
        }
        let free_at = self.now + took;
        seat.busy_until = free_at;
        let next = match progress {
            Progress::Idle(at) => {
                let sleeps_until =
                    at.min(free_at + LONGEST_SLEEP).min(first_arrival.unwrap_or(Timestamp::MAX));
                sleeps_until.max(free_at)
            }
            Progress::Busy | Progress::Finished => free_at,
        };
        self.plan_round(node, next);
        self.wake_others();
    }

    /// Plans rounds for all nodes for which an event will arrive.
    pub(super) fn wake_others(&mut self) {
        let wakes = self.assembly.network.lock().take_wakes();
        for (node, at) in wakes {
            let Some(seat) = self.seats.get(&node).filter(|seat| seat.driver.is_some()) else { continue };
            let at = at.max(seat.busy_until).max(self.now);
            if at < seat.next {
                self.plan_round(node, at);
            }
        }
    }

    fn fault(&mut self, index: usize) {
        let fault = self.options.faults[index];
        let (now, DriverFault { node, kind, .. }) = (self.now, fault);
        if kind == DriverFaultKind::StepDown {
            // Whichever replica acts heeds it.
            self.assembly.controls.step_down.store(true, Ordering::Relaxed);
            self.happened.push(fault);
            return self.note(format_args!("the event manager is to step down"));
        }
        if self.options.standby && node.role == Role::Manager && !self.may_hit_replica(index) {
            return;
        }
        if self.options.standby && self.leaves_no_majority(&fault) {
            return;
        }
        if self.options.mirrors && !self.may_hit_one_of_two(index) {
            return;
        }
        let Some(seat) = self.seats.get_mut(&node).filter(|seat| seat.driver.is_some()) else { return };
        match kind {
            DriverFaultKind::Kill { back_after } => {
                // This drops its endpoint.
                seat.driver = None;
                seat.is_away = true;
                self.assembly.disks.lock().cut(node);
                self.plan(now + back_after, Turn::Back(node));
            }
            DriverFaultKind::Crash => seat.driver = None,
            DriverFaultKind::Cut { peer, is_both, lasts } => {
                let mut net = self.assembly.network.lock();
                net.hold_back(node, peer, now + lasts);
                if is_both {
                    net.hold_back(peer, node, now + lasts);
                }
            }
            DriverFaultKind::Freeze { lasts } => seat.frozen_until = seat.frozen_until.max(now + lasts),
            DriverFaultKind::Suspend { lasts } => {
                self.suspended_until = self.suspended_until.max(now + lasts)
            }
            DriverFaultKind::SupervisorDies { back_after } => {
                if self.assembly.supervision.as_ref().is_some_and(|supervision| supervision.lock().die(now)) {
                    self.plan(now + back_after, Turn::SupervisorStarts);
                }
            }
            DriverFaultKind::SupervisorFreezes { lasts } => {
                self.assembly
                    .supervision
                    .iter()
                    .for_each(|supervision| supervision.lock().freeze(now + lasts));
            }
            DriverFaultKind::Starve { lasts, gap } => seat.starved = (now + lasts, gap),
            DriverFaultKind::DiskFails { lasts } => {
                self.assembly.disks.lock().fails_until.insert(node, now + lasts);
            }
            DriverFaultKind::DiskHangs { lasts } => {
                self.assembly.disks.lock().hangs_until.insert(node, now + lasts);
            }
            DriverFaultKind::Clog { lasts } => {
                self.assembly.network.lock().clog(NodeId::MANAGER, node, now + lasts);
            }
            DriverFaultKind::Forge => self.assembly.network.lock().forge_soon(node),
            DriverFaultKind::StepDown => {}
            DriverFaultKind::Pause { lasts } => {
                self.assembly.controls.pause.store(true, Ordering::Relaxed);
                self.plan(now + lasts, Turn::Resume);
            }
            DriverFaultKind::Stop { again } => {
                self.assembly.stop.store(true, Ordering::Relaxed);
                again.into_iter().for_each(|again| self.plan(now + again, Turn::StopAgain));
            }
        }
        if let DriverFaultKind::Freeze { lasts } | DriverFaultKind::Suspend { lasts } = kind
            && node == NodeId::MANAGER
            && let Some(supervision) = &self.assembly.supervision
        {
            supervision.lock().freeze_door(now + lasts);
        }
        self.happened.push(fault);
        self.note(format_args!("{node}: {kind:?}"));
        self.wake_others();
    }

    /// Returns a description of the state of all nodes.
    fn explain(&mut self) -> String {
        let drivers = self.seats.values_mut().filter_map(|seat| seat.driver.as_mut());
        drivers.for_each(|driver| driver.publish(self.now));
        let snapshot = self.assembly.gauges.snapshot();
        let mut text = format!("the run does not end after {} rounds: {snapshot:?}\n", self.rounds);
        let net = self.assembly.network.lock();
        for (node, seat) in &self.seats {
            let state = match (&seat.driver, seat.is_away) {
                (Some(_), _) => "is running",
                (None, true) => "is down",
                (None, false) => "has finished",
            };
            let waiting = net.waiting_for(*node);
            writeln!(
                text,
                "  {node} {state}; {waiting} frames wait for it; its next round is at {}",
                seat.next
            )
            .expect("writing to a string cannot fail");
        }
        text
    }
}
