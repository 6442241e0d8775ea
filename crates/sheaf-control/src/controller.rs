//! The controller: takes commands of operators, and directs one run at a time.
//!
//! The state of the system is that of its run: there is none, or it is brought up, held, running, paused or ending. A command sets what
//! the run shall do, its [`Wish`]; the run reports what it does, and the command is done when the two agree. Faults are a list beside the
//! state and never a state of their own.
//!
//! A driver calls the `handle_` verbs, then [writes down](Controller::save) what has changed, then carries out the
//! [effects](Controller::poll_effect). In this order, a controller that dies anywhere has a successor that knows at least what was done.

mod commands;
mod current;
mod ending;
mod operations;
mod recording;
mod sequencing;
mod showing;

use crate::fault::{FAULTS, Fault, FaultCode};
use crate::limits::Limits;
use crate::link::{Excludable, Exclusions, Launch, Order, Report, RunResult, RunState, Wish};
use crate::lock::{self, Lock};
use crate::operation::{Operation, Outcome};
use crate::record::{CommandLog, Goal};
use crate::request::{Operator, Refusal, RefusalCode, Request, RunSettings};
use crate::saved::Saved;
use crate::sequence::{PastSequence, Sequence, SequenceNews, SequenceState};
use crate::silence::{Silence, SilenceRequest, Silences};
use crate::view::{LastRun, State, Target};
use current::Current;
use operations::Operations;
use recording::Recorded;
use sheaf_wire::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a process that makes one run.
    Launch {
        /// Its number.
        launch: Launch,
        /// Whether the run is held.
        held: bool,
        /// Sources and nodes that it excludes.
        exclusions: Exclusions,
        /// Settings of the run.
        settings: RunSettings,
        /// Who asked for it.
        by: String,
    },
    /// Send an order to the run. Sending it again does no harm.
    Send {
        /// The process.
        launch: Launch,
        /// The order.
        order: Order,
    },
    /// Kill every process of the run. It is repeated until [`Controller::handle_gone`].
    Kill {
        /// The process that makes the run.
        launch: Launch,
    },
}

/// Number of requests to start nodes again that are remembered.
const RECOVERIES: usize = 100;

/// Something for the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation has ended.
    Ended(Operation),
    /// A fault has occurred.
    Fault(Fault),
    /// A run has ended.
    RunEnded(LastRun),
    /// A sequence has gone on.
    Sequence(SequenceNews),
}

/// The answer to an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Number of the operation.
    pub operation: u64,
    /// Whether it had been accepted before: nothing has happened this time.
    pub again: bool,
}

/// The end of the process of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// The result that it left, if it did.
    pub result: Option<RunResult>,
    /// Its exit in words: `signal: 9 (SIGKILL)`.
    pub how: String,
    /// Where to look for its messages, in words.
    pub look: String,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Controller {
    limits: Limits,
    run: Option<Current>,
    operations: Operations,
    lock: Option<Lock>,
    faults: VecDeque<Fault>,
    next_fault: u64,
    /// Number of processes launched so far.
    launches: u64,
    last_run: Option<LastRun>,
    /// Sources and nodes that are to be excluded.
    exclusions: Exclusions,
    /// Names of the latest requests to start nodes again, the newest last.
    recoveries: VecDeque<String>,
    /// The sequence that is in progress, or ended last.
    sequence: Option<Sequence>,
    /// Number of sequences so far.
    sequences: u64,
    /// Those before, the newest first.
    past_sequences: VecDeque<Arc<PastSequence>>,
    silences: Silences,
    /// Alarms that had ended by then have been seen.
    alarms_seen_ms: u64,
    /// Commands since the last run ended, for the record of the next one.
    early: CommandLog,
    /// Those of the run that ended last, until somebody takes them.
    ended: Option<(Launch, CommandLog)>,
    revision: u64,
    /// State that the revision stands for.
    seen: Seen,
    effects: VecDeque<Effect>,
    events: VecDeque<Event>,
}

/// Everything on which a person may have based a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    state: State,
    target: Target,
    run: Option<u32>,
    operation: Option<u64>,
    lock: Option<String>,
    faults: Option<u64>,
    /// Launch and number.
    last_run: Option<(u64, Option<u32>)>,
    exclusions: Exclusions,
    /// Nodes that are to be started again, with the number of the order of each.
    recover: Vec<(String, u64)>,
    /// Number, state and present row.
    sequence: Option<(u64, SequenceState, Option<u32>)>,
}

impl Controller {
    /// Makes a controller of a system without a run.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::restore(Saved::default(), limits, Timestamp::ZERO)
    }

    /// Makes a controller that goes on where another one ended. Time limits start anew.
    #[must_use]
    pub fn restore(saved: Saved, limits: Limits, now: Timestamp) -> Self {
        let Saved { launches, revision, run, operation, past, lock, faults, next_fault, last_run, .. } =
            saved;
        let launch = run.as_ref().map(|run| run.launch);
        let run = run.map(|run| Current::restore(run, &limits, now));
        let mut controller = Self {
            limits,
            run,
            operations: Operations::restore(operation, past, &limits, now),
            lock: lock.map(|(by, until_ms)| Lock { by, until: Timestamp(until_ms * 1_000_000) }),
            faults: faults.into(),
            next_fault,
            launches,
            last_run,
            exclusions: saved.exclusions,
            recoveries: saved.recoveries.into(),
            sequence: saved.sequence.filter(|sequence| sequence.is_consistent(launch)),
            sequences: saved.sequences,
            past_sequences: saved.past_sequences.into(),
            silences: Silences::restore(saved.silences, saved.silence_count),
            alarms_seen_ms: saved.alarms_seen_ms,
            early: saved.early,
            ended: None,
            revision,
            seen: Seen::default(),
            effects: VecDeque::new(),
            events: VecDeque::new(),
        };
        controller.settle(now);
        controller
    }

    /// Changes the time limits of everything that begins from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns what the next controller has to know.
    #[must_use]
    pub fn save(&self) -> Saved {
        Saved {
            launches: self.launches,
            revision: self.revision,
            run: self.run.as_ref().map(Current::save),
            operation: self.operations.current().cloned(),
            past: self.operations.past().cloned().collect(),
            lock: self.lock.as_ref().map(|lock| (lock.by.clone(), lock.until.as_millis())),
            faults: self.faults.iter().cloned().collect(),
            next_fault: self.next_fault,
            last_run: self.last_run.clone(),
            exclusions: self.exclusions.clone(),
            recoveries: self.recoveries.iter().cloned().collect(),
            sequence: self.sequence.clone(),
            sequences: self.sequences,
            past_sequences: self.past_sequences.iter().cloned().collect(),
            silences: self.silences.list().to_vec(),
            silence_count: self.silences.count(),
            alarms_seen_ms: self.alarms_seen_ms,
            early: self.early.clone(),
        }
    }

    /// Takes a command.
    ///
    /// # Errors
    /// If the command is not followed, and why. Nothing has changed then.
    pub fn handle_request(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        request: &Request,
    ) -> Result<Accepted, Refusal> {
        request.check()?;
        // Before everything else: the client did not get the answer, and the state has changed since.
        if let Some(known) = self.operations.find_request(&request.name) {
            if known.command != request.command || known.by != operator.name {
                return Err(Refusal::new(
                    RefusalCode::State,
                    format!("the request {} was a `{}` of {}", request.name, known.command, known.by),
                    "choose a new name for each request",
                ));
            }
            return Ok(Accepted { operation: known.id, again: true });
        }
        lock::check(self.lock.as_ref(), now, operator)?;
        self.check_revision(request.revision)?;
        self.allows(request.command, request.now)?;
        self.check_settings(request)?;
        self.note_taken_over(operator, request.command);
        let operation = self.follow(now, operator, request);
        self.settle(now);
        Ok(Accepted { operation, again: false })
    }

    fn check_revision(&self, seen: Option<u64>) -> Result<(), Refusal> {
        if seen.is_some_and(|revision| revision != self.revision) {
            return Err(Refusal::new(
                RefusalCode::Stale,
                "the state has changed since it was shown",
                "look at the state and give the command again",
            ));
        }
        Ok(())
    }

    /// Excludes a source or a node from the run and from those that follow, or includes it again. Without effect if that is so already.
    ///
    /// # Errors
    /// If somebody else has the lock, or the state is not the one that the operator has seen.
    pub fn handle_exclusion(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        (what, included): (Excludable, bool),
        revision: Option<u64>,
    ) -> Result<(), Refusal> {
        lock::check(self.lock.as_ref(), now, operator)?;
        self.check_revision(revision)?;
        if self.exclusions.set(what.clone(), !included) {
            self.record_exclusion(now, operator, (what, included));
            if let Some(run) = &mut self.run {
                let (launch, order) = (run.launch(), run.exclude(&self.exclusions));
                self.effects.extend(order.map(|order| Effect::Send { launch, order }));
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Has a node of the run started again, whether it lives or not. `name` is that of the request: the same name again is the same request, and
    /// has no second effect.
    ///
    /// # Errors
    /// If there is no run, it is ending or its nodes cannot be started again, somebody else has the lock, or the state is not the one that the
    /// operator has seen.
    pub fn handle_recover(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        (node, name): (&str, &str),
        revision: Option<u64>,
    ) -> Result<(), Refusal> {
        commands::check_name(name)?;
        if self.recoveries.iter().any(|known| known == name) {
            return Ok(());
        }
        lock::check(self.lock.as_ref(), now, operator)?;
        self.check_revision(revision)?;
        let refuse = |text: String, remedy: &str| Err(Refusal::new(RefusalCode::State, text, remedy));
        let Some(run) = &mut self.run else {
            return refuse("there is no run".to_owned(), "start one: all its nodes are started");
        };
        if run.is_ending() {
            return refuse(format!("{} is ending", run.name()), "wait until it has ended");
        }
        if let Some(why) = &run.report().no_recover {
            return refuse(
                format!("nodes of {} cannot be started again: {why}", run.name()),
                "stop the run, and start another",
            );
        }
        self.recoveries.push_back(name.to_owned());
        if self.recoveries.len() > RECOVERIES {
            self.recoveries.pop_front();
        }
        if !run.recovering().contains(node) {
            let (launch, order) = (run.launch(), run.recover(node.to_owned()));
            self.effects.extend(order.map(|order| Effect::Send { launch, order }));
        }
        let goal = Goal::Recovered(node.to_owned(), run.order().recover.get(node).copied().unwrap_or(0));
        let target = Some(node.to_owned());
        self.record(now, operator, Recorded { command: "recover", target, comment: None, goal, done: None });
        self.settle(now);
        Ok(())
    }

    /// Takes or renews the lock for an operator. `force` takes it from somebody else.
    ///
    /// # Errors
    /// If somebody else has it, and `force` is not set or the operator is no admin.
    pub fn handle_lock(&mut self, now: Timestamp, operator: &Operator, force: bool) -> Result<(), Refusal> {
        let other = self.lock.clone().filter(|lock| lock.until > now && lock.by != operator.name);
        lock::take(&mut self.lock, (now, self.limits.lock), operator, force)?;
        if let Some(Lock { by, .. }) = other {
            let done = Some(format!("taken from {by} by force"));
            let recorded = Recorded { command: "lock", target: None, comment: None, goal: Goal::None, done };
            self.record(now, operator, recorded);
        }
        self.settle(now);
        Ok(())
    }

    /// Gives back the lock. Without effect if the operator does not have it.
    pub fn handle_unlock(&mut self, now: Timestamp, operator: &Operator) {
        self.lock.take_if(|lock| lock.by == operator.name);
        self.settle(now);
    }

    /// Removes a fault that an operator has seen.
    ///
    /// # Errors
    /// If there is no such fault.
    pub fn handle_seen(&mut self, now: Timestamp, fault: u64) -> Result<(), Refusal> {
        let before = self.faults.len();
        self.faults.retain(|known| known.id != fault);
        if self.faults.len() == before {
            return Err(Refusal::new(
                RefusalCode::NotFound,
                format!("there is no fault {fault}"),
                "look at the list of faults again",
            ));
        }
        self.settle(now);
        Ok(())
    }

    /// Begins a silence, and returns it. It changes nothing in the run, so it needs no lock.
    ///
    /// # Errors
    /// If it makes no sense, or there are [too many](crate::silence::SILENCES).
    pub fn handle_silence(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        request: SilenceRequest,
    ) -> Result<Silence, Refusal> {
        self.silences.expire(now);
        let silence = self.silences.begin(now, operator, request)?;
        let seconds = silence.until_ms.saturating_sub(silence.since_ms) / 1_000;
        let recorded = Recorded {
            command: "silence",
            target: Some(silence.alarms()),
            comment: Some(silence.why.clone()),
            goal: Goal::None,
            done: Some(format!("for {seconds} s")),
        };
        self.record(now, operator, recorded);
        Ok(silence)
    }

    /// Ends a silence.
    ///
    /// # Errors
    /// If there is no such silence.
    pub fn handle_silence_end(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        id: u64,
    ) -> Result<(), Refusal> {
        let target = Some(self.silences.end(id)?.alarms());
        let (goal, done) = (Goal::None, Some(String::new()));
        let recorded = Recorded { command: "unsilence", target, comment: None, goal, done };
        self.record(now, operator, recorded);
        Ok(())
    }

    /// Notes that the alarms that have ended so far have been seen.
    pub fn handle_alarms_seen(&mut self, now: Timestamp) {
        self.alarms_seen_ms = self.alarms_seen_ms.max(now.as_millis());
    }

    /// Notes that no process was ever started for the run: the controller before this one died after it had decided to, and before it did. The
    /// process is started now, unless the run is being ended.
    pub fn handle_unlaunched(&mut self, now: Timestamp) {
        let Some(run) = &self.run else { return };
        if !run.is_ending() {
            self.effects.push_back(run.to_launch());
            return;
        }
        let how = "it had not begun".to_owned();
        let gone = Gone { result: None, how, look: "nothing has begun".to_owned() };
        self.handle_gone(now, run.launch(), &gone);
    }

    /// Notes that the link to the process of a run is up or down.
    pub fn handle_link(&mut self, now: Timestamp, launch: Launch, is_up: bool) {
        let Some(run) = self.run.as_mut().filter(|run| run.launch() == launch) else { return };
        run.set_linked(is_up);
        if is_up {
            self.effects.push_back(Effect::Send { launch, order: run.order().clone() });
        }
        self.settle(now);
    }

    /// Takes a report of a run. Reports of an earlier launch have no effect.
    pub fn handle_report(&mut self, now: Timestamp, launch: Launch, report: Report) {
        let Some(run) = self.run.as_mut().filter(|run| run.launch() == launch) else { return };
        for ended in run.take(report) {
            self.note_switched(now, launch, &ended);
        }
        self.settle(now);
    }

    /// Notes that no process of a run is left.
    pub fn handle_gone(&mut self, now: Timestamp, launch: Launch, gone: &Gone) {
        if self.run.as_ref().is_some_and(|run| run.launch() == launch)
            && let Some(run) = self.run.take()
        {
            self.effects.retain(|effect| !effect.is_for(launch));
            self.ended = Some((launch, run.commands().clone()));
            self.conclude(now, &run, gone);
        }
        self.settle(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.lock.take_if(|lock| lock.until <= now);
        self.silences.expire(now);
        self.press(now);
        if let Some(late) = self.operations.take_late(now) {
            self.give_up(now, &late);
        }
        self.settle(now);
    }

    /// Returns the next thing to do, if any.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the next thing for the records, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let lock = self.lock.as_ref().map(|lock| lock.until);
        let ending = self.run.as_ref().and_then(Current::due);
        [lock, ending, self.operations.deadline(), self.silences.next_end()].into_iter().flatten().min()
    }

    /// Returns an operation, unless it is too old.
    #[must_use]
    pub fn operation(&self, id: u64) -> Option<&Operation> {
        self.operations.find(id)
    }

    /// Returns the launch that a run is expected of, if there is one.
    #[must_use]
    pub fn launch(&self) -> Option<Launch> {
        self.run.as_ref().map(Current::launch)
    }

    /// Returns whether a request with this name was accepted, and is remembered.
    #[must_use]
    pub fn knows(&self, request: &str) -> bool {
        self.operations.find_request(request).is_some()
    }

    /// Returns the run or the name of the configuration that the run has, unless it has the present one.
    #[must_use]
    pub fn like(&self) -> Option<&str> {
        self.run.as_ref().and_then(|run| run.settings().like.as_deref())
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> State {
        self.run.as_ref().map_or(State::Idle, Current::state)
    }

    /// Returns the state that the latest command asks for.
    #[must_use]
    pub fn target(&self) -> Target {
        let run = self.run.as_ref().filter(|run| !run.is_ending());
        run.map_or(Target::Idle, |run| match run.order().wish {
            Wish::Hold => Target::Configured,
            Wish::Run => Target::Running,
            Wish::Pause => Target::Paused,
            Wish::Stop | Wish::Cut => Target::Idle,
        })
    }

    /// Draws the conclusions of a change: ends the operation that is done, and counts the revision.
    fn settle(&mut self, now: Timestamp) {
        self.collect_news();
        self.record_reported(now);
        if let Some(run) = &self.run {
            let run_number = run.number();
            let goal = self.operations.current().map(|operation| operation.command);
            if goal.is_some_and(|command| run.has_reached(command)) {
                let text = match (run_number, run.report().state) {
                    (Some(number), RunState::Ready) => format!("run {number} is configured"),
                    (Some(number), RunState::Paused) => format!("run {number} is paused"),
                    (Some(number), _) => format!("run {number} is running"),
                    (None, _) => "done".to_owned(),
                };
                self.end_operation(now, Outcome::Done, text);
            }
        }
        self.note_refused_switch(now);
        let seen = Seen {
            state: self.state(),
            target: self.target(),
            run: self.run.as_ref().and_then(Current::number),
            operation: self.operations.current().map(|operation| operation.id),
            lock: self.lock.as_ref().map(|lock| lock.by.clone()),
            faults: self.faults.iter().map(|fault| fault.id).max(),
            last_run: self.last_run.as_ref().map(|last| (last.launch, last.run)),
            exclusions: self.exclusions.clone(),
            recover: self.run.iter().flat_map(|run| run.order().recover.clone()).collect(),
            sequence: self.sequence.as_ref().map(Sequence::view).map(|view| (view.id, view.state, view.row)),
        };
        if seen != self.seen {
            self.seen = seen;
            self.revision += 1;
        }
    }

    fn raise(&mut self, now: Timestamp, code: FaultCode, text: String, remedy: String) {
        self.next_fault += 1;
        let fault = Fault { id: self.next_fault, since_ms: now.as_millis(), code, text, remedy };
        self.events.push_back(Event::Fault(fault.clone()));
        self.faults.push_back(fault);
        if self.faults.len() > FAULTS {
            self.faults.pop_front();
        }
    }
}

impl Effect {
    fn is_for(&self, of: Launch) -> bool {
        match self {
            Self::Launch { launch, .. } | Self::Send { launch, .. } | Self::Kill { launch } => *launch == of,
        }
    }
}

#[cfg(test)]
mod tests;
