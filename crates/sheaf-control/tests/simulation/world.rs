//! Controller, process, link and operators.

use super::process::{Fate, Kind, Process};
use super::reached::Reached;
use super::recorded::Recorded;
use super::rng::Rng;
use super::tables::Truth;
use sheaf_control::controller::{Event, Gone};
use sheaf_control::link::Launch;
use sheaf_control::operation::Outcome;
use sheaf_control::request::RunSettings;
use sheaf_control::saved::Saved;
use sheaf_control::view::{State, Target};
use sheaf_control::{
    Command, Controller, Effect, Excludable, Limits, Operator, Order, Report, Request, Role, RunResult,
};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Milliseconds in which things go wrong, and afterwards.
const TROUBLE: u64 = 1_500;
pub(super) const PEACE: u64 = 700;

/// Limits, in milliseconds.
const LIMITS: [u64; 7] = [100, 120, 40, 200, 100, 5, 300];

/// Time that a controller waits for a process that it cannot reach before it looks whether there is one.
const GRACE: u64 = 20;

pub(crate) struct World {
    pub(super) rng: Rng,
    pub(super) seed: u64,
    pub(super) now: u64,
    pub(super) controller: Option<Controller>,
    disk: Saved,
    back_at: u64,
    unreached_since: u64,
    /// Number of times that an operator has asked for a node of this run to be started again.
    to_recover: u64,
    /// Number of requests for a next run in the process of this one.
    to_switch: u64,
    /// Runs whose ends were recorded.
    ended: BTreeSet<(u64, Option<u32>)>,
    process: Option<Process>,
    /// Results that processes have left on disk.
    results: BTreeMap<Launch, RunResult>,
    /// Real ends of the runs of rows.
    pub(super) truth: Truth,
    linked: bool,
    to_run: VecDeque<(u64, Launch, Order)>,
    to_controller: VecDeque<(u64, Launch, Report)>,
    /// Names of requests that were sent, and the command of each.
    sent: Vec<(String, Command, Operator, bool)>,
    /// Launches by the operation that asked for them.
    pub(super) operations: BTreeMap<String, u64>,
    /// Commands in the records of runs.
    pub(super) recorded: Recorded,
    launches: Vec<Launch>,
    stop_since: Option<u64>,
    /// Whether things go wrong.
    pub(super) trouble: bool,
    pub(crate) reached: Reached,
    pub(crate) log: Vec<String>,
}

fn limits() -> Limits {
    let [configure, start, pause, drain, cut, kill, lock] = LIMITS.map(Nanos::from_millis);
    Limits { configure, start, pause, drain, cut, kill, lock }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng(seed),
            seed,
            now: 1_000,
            controller: Some(Controller::new(limits())),
            disk: Saved::default(),
            back_at: 0,
            unreached_since: 0,
            to_recover: 0,
            to_switch: 0,
            ended: BTreeSet::new(),
            process: None,
            results: BTreeMap::new(),
            truth: Truth::default(),
            linked: false,
            to_run: VecDeque::new(),
            to_controller: VecDeque::new(),
            sent: Vec::new(),
            operations: BTreeMap::new(),
            recorded: Recorded::default(),
            launches: Vec::new(),
            stop_since: None,
            trouble: true,
            reached: Reached::default(),
            log: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) {
        let end = self.now + TROUBLE;
        while self.now < end {
            self.step();
            if self.rng.one_in(15) {
                self.operate();
            }
            if self.rng.one_in(25) {
                self.direct_sequence();
            }
            if self.rng.one_in(300) {
                self.kill_controller("controller died");
            }
            if self.rng.one_in(80) {
                self.break_link();
            }
        }
        // Whatever there is now, a stop ends it.
        self.trouble = false;
        self.finish_sequence();
        self.settle_down();
        let state = self.controller.as_ref().map(Controller::state);
        assert_eq!(state, Some(State::Idle), "seed {}: {:#?}", self.seed, self.log);
        assert!(self.process.is_none(), "seed {}: a process is left", self.seed);
        self.start_again();
        self.scan_again();
        self.check_records();
    }

    /// Stops until there is nothing more to stop.
    fn settle_down(&mut self) {
        self.ask(Command::Stop, "last stop", false);
        for _ in 0..PEACE {
            self.step();
        }
        let controller = self.controller.as_ref();
        let pending = controller.and_then(|controller| controller.view().operation);
        assert_eq!(pending, None, "seed {}: an operation lasts for ever", self.seed);
    }

    /// A system that has come to rest takes a run from start to end, whatever has happened before.
    fn start_again(&mut self) {
        let name = format!("again {}", self.seed);
        let started = self.ask(Command::Start, &name, false);
        assert!(started, "seed {}: no start from idle", self.seed);
        for _ in 0..PEACE {
            self.step();
        }
        let controller = self.controller.as_ref();
        assert_eq!(
            controller.map(Controller::state),
            Some(State::Running),
            "seed {}: {:#?}",
            self.seed,
            self.log
        );
        assert_eq!(controller.map(Controller::target), Some(Target::Running));
        // What was asked for is what the run does, whatever was lost.
        let sources = controller.map(|controller| controller.view().sources).unwrap_or_default();
        assert!(
            sources.iter().all(|source| source.excluded && !source.included),
            "seed {}: {sources:?}: {:#?}",
            self.seed,
            self.log
        );
        let nodes = controller.map(|controller| controller.view().nodes).unwrap_or_default();
        assert!(
            nodes.iter().all(|node| node.excluded && !node.included && !node.recovering),
            "seed {}: {nodes:?}: {:#?}",
            self.seed,
            self.log
        );
    }

    pub(super) fn step(&mut self) {
        self.now += 1;
        let now = Timestamp(self.now * 1_000_000);
        if let Some(process) = &mut self.process {
            process.step(self.now);
            assert!(
                process.recoveries <= self.to_recover,
                "seed {}: a node was started again more often than anybody has asked for it: {:#?}",
                self.seed,
                self.log
            );
            assert!(
                process.switches <= self.to_switch,
                "seed {}: another run has followed more often than anybody has asked for it: {:#?}",
                self.seed,
                self.log
            );
        }
        self.deliver(now);
        self.revive(now);
        self.look_at_process(now);
        if self.controller.as_ref().and_then(Controller::poll_timeout).is_some_and(|at| at <= now) {
            self.call(|controller| controller.handle_timeout(now));
        }
        self.begin_row(now);
        self.check_stop();
    }

    /// Messages on the link, with delays.
    fn deliver(&mut self, now: Timestamp) {
        for (launch, order) in take_due(&mut self.to_run, self.now) {
            if let Some(process) = self.process.as_mut().filter(|process| process.launch == launch)
                && !process.is_frozen(self.now)
            {
                process.take(order);
            }
        }
        let is_awake =
            self.process.as_ref().is_some_and(|process| !process.is_frozen(self.now) && !process.is_over);
        if self.linked
            && is_awake
            && self.now.is_multiple_of(3)
            && let Some(process) = &self.process
        {
            let at = self.now + self.rng.below(5);
            self.to_controller.push_back((at, process.launch, process.report()));
        }
        for (launch, report) in take_due(&mut self.to_controller, self.now) {
            self.call(|controller| controller.handle_report(now, launch, report));
        }
    }

    fn revive(&mut self, now: Timestamp) {
        if self.controller.is_none() && (self.now >= self.back_at || !self.trouble) {
            let controller = Controller::restore(self.disk.clone(), limits(), now);
            let has_begun = controller.launch().is_none_or(|launch| self.launches.contains(&launch));
            self.controller = Some(controller);
            self.unreached_since = self.now;
            if !has_begun {
                self.reached.note("launched by the next controller");
                self.call(|controller| controller.handle_unlaunched(now));
            }
        }
    }

    /// The part of a driver: connects, and notices that a process is gone.
    fn look_at_process(&mut self, now: Timestamp) {
        let Some(wanted) = self.controller.as_ref().and_then(Controller::launch) else { return };
        let is_there =
            self.process.as_ref().is_some_and(|process| process.launch == wanted && !process.is_over);
        if is_there {
            let is_frozen = self.process.as_ref().is_some_and(|process| process.is_frozen(self.now));
            if !self.linked && !is_frozen && self.rng.one_in(3) {
                self.linked = true;
                self.call(|controller| controller.handle_link(now, wanted, true));
            }
            self.unreached_since = self.now;
        } else if self.process.is_some() || self.now >= self.unreached_since + GRACE {
            self.drop_link();
            self.stop_since = None;
            if let Some(process) = self.process.take() {
                self.results.extend(process.result.map(|result| (process.launch, result)));
            }
            let result = self.results.get(&wanted).cloned();
            self.truth.end(wanted, result.as_ref());
            if result.is_none() {
                self.reached.note("died");
            }
            let gone = Gone { result, how: "signal: 9".into(), look: "look at its log".into() };
            self.call(|controller| controller.handle_gone(now, wanted, &gone));
        }
    }

    /// One call of the machine, what the driver writes down, and what it does. In trouble, it may die between these.
    pub(super) fn call<T>(&mut self, call: impl FnOnce(&mut Controller) -> T) -> Option<T> {
        let mut controller = self.controller.take()?;
        let answer = call(&mut controller);
        let ended = controller.take_commands();
        if self.trouble && self.rng.one_in(4_000) {
            self.died("died before writing");
            return None;
        }
        self.disk = controller.save();
        self.recorded.look(&self.disk, ended.as_ref(), self.seed);
        if self.rng.one_in(100) {
            let text = serde_json::to_string(&self.disk).expect("it is plain data");
            assert_eq!(serde_json::from_str::<Saved>(&text).expect("what was written"), self.disk);
        }
        // A process that was decided on and is not started yet is where most is at stake.
        let launch = self.disk.run.as_ref().map(|run| run.launch);
        let is_launch = launch.is_some_and(|launch| !self.launches.contains(&launch));
        if self.trouble && self.rng.one_in(if is_launch { 50 } else { 1_000 }) {
            self.died("died before doing");
            return None;
        }
        while let Some(effect) = controller.poll_effect() {
            self.carry_out(effect);
        }
        while let Some(event) = controller.poll_event() {
            self.note(&event);
        }
        self.controller = Some(controller);
        Some(answer)
    }

    fn carry_out(&mut self, effect: Effect) {
        self.log.push(format!("{} {effect:?}", self.now));
        match effect {
            Effect::Launch { launch, held, exclusions, settings, .. } => {
                assert!(self.process.is_none(), "seed {}: two runs at once: {:#?}", self.seed, self.log);
                assert!(
                    self.launches.iter().all(|before| *before < launch),
                    "seed {}: {launch:?} again",
                    self.seed
                );
                self.launches.push(launch);
                let is_again = self.sent.last().is_some_and(|(name, ..)| name.starts_with("again"));
                let kind = match settings.sequence {
                    Some(row) => {
                        self.truth.begin(launch, &row, &self.disk, self.seed);
                        Kind::OfTable { is_gentle: !self.trouble }
                    }
                    None if is_again => Kind::Gentle,
                    None => Kind::Any,
                };
                self.process = Some(Process::new(&mut self.rng, self.now, launch, (held, exclusions), kind));
                (self.to_recover, self.to_switch) = (0, 0);
                self.unreached_since = self.now;
            }
            Effect::Send { launch, order } if self.linked => {
                let at = self.now + self.rng.below(15);
                self.to_run.push_back((at, launch, order));
            }
            Effect::Send { .. } => {}
            Effect::Kill { launch } => {
                if let Some(process) = self.process.as_mut().filter(|process| process.launch == launch) {
                    self.reached.note("killed");
                    process.fate = Fate::Healthy;
                    process.is_over = true;
                }
            }
        }
    }

    pub(super) fn note(&mut self, event: &Event) {
        self.log.push(format!("{} {event:?}", self.now));
        match event {
            Event::Ended(operation) => match operation.end.as_ref().map(|end| end.result) {
                Some(Outcome::Done) => {
                    self.reached.note("done");
                    let has_begun = self.process.as_ref().is_none_or(Process::has_begun);
                    let needs_begin =
                        matches!(operation.command, Command::Start | Command::Pause | Command::Resume);
                    assert!(
                        has_begun || !needs_begin,
                        "seed {}: {operation:?} is not done: {:#?}",
                        self.seed,
                        self.log
                    );
                    match operation.command {
                        Command::Pause => self.reached.note("paused"),
                        Command::Switch => {
                            self.reached.note("switched");
                            let switches = self.process.as_ref().map_or(1, |process| process.switches);
                            assert!(switches > 0, "seed {}: no run has followed: {:#?}", self.seed, self.log);
                        }
                        _ => {}
                    }
                }
                Some(Outcome::Failed) if operation.command == Command::Switch => {
                    self.reached.note("not switched")
                }
                Some(Outcome::Failed) => self.reached.note("failed"),
                Some(Outcome::Superseded) => self.reached.note("superseded"),
                None => panic!("an operation ended without an end"),
            },
            Event::RunEnded(last) => {
                self.reached.note("run ended");
                // A controller that died before it has written this down records it again.
                if !self.ended.insert((last.launch, last.run)) {
                    self.reached.note("end recorded again");
                }
            }
            Event::Fault(_) => {}
            Event::Sequence(news) => {
                self.reached.note(match news.what {
                    "paused" => "sequence paused",
                    "ended" => "sequence ended",
                    what => what,
                });
                if news.text.contains(" gave `") {
                    self.reached.note("taken over");
                }
            }
        }
    }

    /// An operator does something.
    fn operate(&mut self) {
        let command = Command::ALL[usize::try_from(self.rng.below(Command::ALL.len() as u64)).unwrap_or(0)];
        // A reset and a stop end everything, so they are rarer.
        if matches!(command, Command::Reset | Command::Stop) && !self.rng.one_in(4) {
            return;
        }
        let now = command == Command::Stop && self.rng.one_in(3);
        let name = format!("request {}", self.sent.len());
        self.ask(command, &name, now);
        // The answer was lost, or the button was pressed twice, or an old request arrives late.
        while self.rng.one_in(3) && !self.sent.is_empty() {
            let index = self.sent.len()
                - 1
                - usize::try_from(self.rng.below(5)).unwrap_or(0).min(self.sent.len() - 1);
            let (name, command, operator, now) = self.sent[index].clone();
            self.ask_as(&operator, command, &name, now);
        }
        if self.rng.one_in(3) {
            let (operator, at) = (self.operator(), Timestamp(self.now * 1_000_000));
            let (source, included) = (u32::try_from(self.rng.below(4)).unwrap_or(0), self.rng.one_in(2));
            let what = match self.rng.one_in(2) {
                true => Excludable::Source(source),
                false => Excludable::Node(format!("ru{source}")),
            };
            let answer =
                self.call(|controller| controller.handle_exclusion(at, &operator, (what, included), None));
            if let Some(Ok(())) = answer {
                self.reached.note(if included { "included" } else { "excluded" });
            }
        }
        if self.rng.one_in(3) {
            let (operator, at) = (self.operator(), Timestamp(self.now * 1_000_000));
            let node = format!("bu{}", self.rng.below(2));
            // Also if the controller dies before it answers.
            self.to_recover += 1;
            let name = format!("recover {}", self.now);
            // The answer was lost, or the button was pressed twice.
            for _ in 0..=self.rng.below(3) {
                let answer =
                    self.call(|controller| controller.handle_recover(at, &operator, (&node, &name), None));
                if let Some(Ok(())) = answer {
                    self.reached.note("recovered");
                }
            }
        }
        if self.rng.one_in(10) {
            let (operator, at) = (self.operator(), Timestamp(self.now * 1_000_000));
            let force = self.rng.one_in(2);
            self.call(|controller| controller.handle_lock(at, &operator, force).is_ok());
        }
    }

    pub(super) fn operator(&mut self) -> Operator {
        match self.rng.below(8) {
            0 => Operator::new("bob", Role::Operator),
            1 => Operator::new("carol", Role::Admin),
            _ => Operator::new("alice", Role::Operator),
        }
    }

    pub(super) fn ask(&mut self, command: Command, name: &str, now: bool) -> bool {
        let mut operator = self.operator();
        if !name.starts_with("request") {
            // The end of the test must not depend on a lock.
            let at = Timestamp(self.now * 1_000_000);
            operator = Operator::new("carol", Role::Admin);
            self.revive(at);
            self.call(|controller| controller.handle_lock(at, &operator, true).is_ok());
        }
        self.sent.push((name.to_owned(), command, operator.clone(), now));
        self.ask_as(&operator, command, name, now)
    }

    fn ask_as(&mut self, operator: &Operator, command: Command, name: &str, now: bool) -> bool {
        let at = Timestamp(self.now * 1_000_000);
        let request =
            Request { command, name: name.to_owned(), settings: RunSettings::default(), now, revision: None };
        self.log.push(format!("{} {command} {name}", self.now));
        let answer = self.call(|controller| controller.handle_request(at, operator, &request));
        // A controller that died before it answered may have accepted it.
        let is_new = answer.as_ref().is_none_or(|it| it.as_ref().is_ok_and(|accepted| !accepted.again));
        self.to_switch += u64::from(command == Command::Switch && is_new);
        match answer {
            Some(Ok(accepted)) => {
                let known = *self.operations.entry(name.to_owned()).or_insert(accepted.operation);
                assert_eq!(known, accepted.operation, "seed {}: {name} had two effects", self.seed);
                if accepted.again {
                    self.reached.note("repeated");
                } else if matches!(command, Command::Stop | Command::Reset) && self.process.is_some() {
                    self.stop_since.get_or_insert(self.now);
                }
                true
            }
            Some(Err(refusal)) => {
                self.reached.note(if refusal.text.contains("lock") { "locked" } else { "refused" });
                false
            }
            None => false,
        }
    }

    /// A stop ends the run within its limits, whatever the run does. A controller that dies meanwhile begins with its limits anew.
    fn check_stop(&mut self) {
        if self.process.is_none() {
            self.stop_since = None;
        }
        if self.controller.is_none() {
            self.stop_since = self.stop_since.map(|_| self.now);
        }
        let [.., drain, cut, kill, _] = LIMITS;
        if let Some(since) = self.stop_since {
            let passed = self.now - since;
            assert!(
                passed <= drain + cut + kill + GRACE,
                "seed {}: a stop takes {passed} ms: {:#?}",
                self.seed,
                self.log
            );
        }
    }

    fn died(&mut self, how: &'static str) {
        self.reached.note(how);
        self.log.push(format!("{} {how}", self.now));
        self.controller = None;
        self.stop_since = self.stop_since.map(|_| self.now);
        self.drop_link();
        self.back_at = self.now + self.rng.below(100);
    }

    fn kill_controller(&mut self, how: &'static str) {
        if self.controller.is_some() {
            self.died(how);
        }
    }

    fn break_link(&mut self) {
        if self.linked {
            self.reached.note("link broke");
            self.drop_link();
            let now = Timestamp(self.now * 1_000_000);
            if let Some(launch) = self.process.as_ref().map(|process| process.launch) {
                self.call(|controller| controller.handle_link(now, launch, false));
            }
        }
    }

    /// Messages on their way are lost, or were read already and arrive late: after those of the next link, or of the next launch.
    fn drop_link(&mut self) {
        self.linked = false;
        let late = self.rng.below(150);
        if self.rng.one_in(2) {
            self.to_run.clear();
            self.to_controller.clear();
        }
        self.to_run.iter_mut().for_each(|(at, ..)| *at += late);
        self.to_controller.iter_mut().for_each(|(at, ..)| *at += late);
    }
}

/// Takes the messages that are due, each with its launch.
fn take_due<T>(messages: &mut VecDeque<(u64, Launch, T)>, now: u64) -> Vec<(Launch, T)> {
    let (due, later): (Vec<_>, Vec<_>) = messages.drain(..).partition(|(at, ..)| *at <= now);
    messages.extend(later);
    due.into_iter().map(|(_, launch, message)| (launch, message)).collect()
}
