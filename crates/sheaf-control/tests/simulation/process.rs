//! The process of a run, with its end of run control.

use super::rng::Rng;
use sheaf_control::link::{Launch, NextRun, RefusedOrder};
use sheaf_control::{Exclusions, Order, Report, RunResult, RunState, Runner, Steer, Wish};
use std::collections::BTreeMap;

/// Fate of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Healthy,
    /// Its nodes never come up.
    Stuck,
    /// It does nothing any more from some time on; only killing it helps.
    Freezes(u64),
    /// It dies at some time.
    Dies(u64),
    /// It ends by itself at some time, as a run of so many events does.
    Ends(u64),
    /// Drains without end, until an order drops its events.
    Hangs,
    /// It cannot be paused.
    NoPause,
}

/// Which fates are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Any,
    Gentle,
    OfTable { is_gentle: bool },
}

pub(crate) struct Process {
    pub(crate) launch: Launch,
    pub(crate) number: u32,
    pub(crate) fate: Fate,
    runner: Runner,
    state: RunState,
    ready_at: u64,
    is_held: bool,
    is_paused: bool,
    stops: u32,
    drained_at: Option<u64>,
    begun: bool,
    /// Whether it ends by its own conditions.
    is_complete: bool,
    /// The order with the highest number.
    newest: Option<Order>,
    exclusions: Exclusions,
    /// Number of times that a node was started again.
    pub(crate) recoveries: u64,
    /// The last of each, with the number of its order.
    recovered: BTreeMap<String, u64>,
    not_recovered: BTreeMap<String, RefusedOrder>,
    /// Number of times that another run has followed in this process.
    pub(crate) switches: u64,
    /// A next run that is being prepared, and when it is ready.
    next: Option<(u64, NextRun)>,
    switched: u64,
    not_switched: Option<RefusedOrder>,
    /// Results of the last runs before.
    ended: Vec<RunResult>,
    pub(crate) result: Option<RunResult>,
    /// Whether it has ended, with or without a result.
    pub(crate) is_over: bool,
    /// Longest time that it takes to build the events in flight.
    drain: u64,
}

impl Process {
    pub(crate) fn new(
        rng: &mut Rng,
        now: u64,
        launch: Launch,
        (held, exclusions): (bool, Exclusions),
        kind: Kind,
    ) -> Self {
        let at = now + rng.below(400);
        let fate = match rng.below(if matches!(kind, Kind::Gentle | Kind::OfTable { is_gentle: true }) {
            1
        } else {
            14
        }) {
            // A run of a table ends by itself.
            0..=5 if kind == Kind::OfTable { is_gentle: true } => Fate::Ends(now + 60 + rng.below(40)),
            0..=5 if matches!(kind, Kind::OfTable { .. }) => Fate::Ends(at),
            0..=5 => Fate::Healthy,
            6 => Fate::Stuck,
            7 => Fate::Freezes(at),
            8 => Fate::Dies(at),
            9 | 10 => Fate::Ends(at),
            11 => Fate::Hangs,
            _ => Fate::NoPause,
        };
        Self {
            launch,
            number: 100 * (1 + u32::try_from(launch.0).unwrap_or(0)),
            fate,
            runner: Runner::new(held, exclusions.clone()),
            exclusions,
            recoveries: 0,
            recovered: BTreeMap::new(),
            not_recovered: BTreeMap::new(),
            switches: 0,
            next: None,
            switched: 0,
            not_switched: None,
            ended: Vec::new(),
            state: RunState::Preparing,
            ready_at: now + rng.below(50),
            is_held: held,
            is_paused: false,
            stops: 0,
            drained_at: None,
            begun: false,
            is_complete: false,
            newest: None,
            result: None,
            is_over: false,
            drain: rng.below(60),
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(crate) fn is_frozen(&self, now: u64) -> bool {
        matches!(self.fate, Fate::Freezes(at) if at <= now)
    }

    pub(crate) fn take(&mut self, order: Order) {
        self.runner.handle_order(order.clone());
        if self.newest.as_ref().is_none_or(|newest| newest.number < order.number) {
            self.newest = Some(order);
        }
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            order: self.runner.followed(),
            state: self.state,
            run: (self.state != RunState::Preparing).then_some(self.number),
            waits_for: (self.fate == Fate::Stuck).then(|| "ru3".to_owned()),
            exclusions: self.exclusions.clone(),
            no_recover: None,
            recovered: self.recovered.clone(),
            not_recovered: self.not_recovered.clone(),
            no_pause: (self.fate == Fate::NoPause).then(|| "its triggers come from its data".to_owned()),
            no_switch: (self.fate == Fate::NoPause).then(|| "its triggers come from its data".to_owned()),
            switched: self.switched,
            not_switched: self.not_switched.clone(),
            ended: self.ended.clone(),
        }
    }

    /// Has the next run follow, once it is ready. Every fifth is refused.
    fn switch(&mut self, now: u64) {
        let is_running = self.state == RunState::Running && self.stops == 0;
        let Some((_, next)) = self.next.take_if(|(at, _)| *at <= now && is_running) else { return };
        if next.asked.is_multiple_of(5) {
            self.not_switched = Some(RefusedOrder { asked: next.asked, why: "the disk is full".into() });
            return;
        }
        let (run, text) = (Some(self.number), "another run follows".to_owned());
        self.ended.push(RunResult { run, begun: true, good: true, complete: false, triggers: 5, text });
        self.number += 1;
        self.switches += 1;
        self.switched = next.asked;
        self.state = RunState::Preparing;
        self.ready_at = now + 2;
    }

    pub(crate) fn step(&mut self, now: u64) {
        if self.is_over || self.is_frozen(now) {
            return;
        }
        if matches!(self.fate, Fate::Dies(at) if at <= now) {
            self.is_over = true;
            return;
        }
        while let Some(steer) = self.runner.poll_steer() {
            match steer {
                Steer::Hold(held) => self.is_held = held,
                Steer::Pause(paused) => self.is_paused = paused,
                Steer::Exclude(exclusions) => self.exclusions = exclusions,
                Steer::Recover(node) => {
                    self.recoveries += 1;
                    let asked = self.runner.asked_to_recover()[&node];
                    // Every fifth is refused.
                    if asked.is_multiple_of(5) {
                        let refused = RefusedOrder { asked, why: "its standby is not ready".into() };
                        self.not_recovered.insert(node, refused);
                    } else {
                        self.recovered.insert(node, asked);
                    }
                }
                Steer::Switch(next) => self.next = Some((now + next.asked % 7, next)),
                Steer::Stop => self.stops += 1,
            }
        }
        self.switch(now);
        assert!(self.stops <= 2, "a run is told to end at most twice");
        if let Some(Order { exclusions, .. }) = &self.newest {
            assert_eq!(self.exclusions, *exclusions, "an older order was followed");
        }
        if let Some(Order { wish, .. }) = self.newest.as_ref().filter(|_| self.stops == 0) {
            assert_eq!(self.is_paused, *wish == Wish::Pause, "an older order was followed");
            assert!(!wish.ends(), "a newer order was not followed");
        }
        let ends_by_itself = matches!(self.fate, Fate::Ends(at) if at <= now) && self.begun;
        if (self.stops > 0 || ends_by_itself) && self.state != RunState::Stopping {
            self.state = RunState::Stopping;
            self.is_complete = ends_by_itself && self.stops == 0;
            self.drained_at = Some(now + if self.begun { self.drain } else { 0 });
        }
        self.state = match self.state {
            RunState::Preparing if now >= self.ready_at && self.fate != Fate::Stuck => RunState::Ready,
            RunState::Ready if !self.is_held => {
                self.begun = true;
                RunState::Running
            }
            RunState::Running if self.is_paused => RunState::Paused,
            RunState::Paused if !self.is_paused => RunState::Running,
            RunState::Stopping => {
                let drained = self.drained_at.is_some_and(|at| at <= now) && self.fate != Fate::Hangs;
                if drained || self.stops == 2 {
                    self.is_over = true;
                    let (run, begun) = (Some(self.number), self.begun);
                    let (good, complete) = (self.stops < 2, self.is_complete);
                    let text = "events stored".into();
                    self.result = Some(RunResult { run, begun, good, complete, triggers: 5, text });
                }
                RunState::Stopping
            }
            other => other,
        };
    }
}
