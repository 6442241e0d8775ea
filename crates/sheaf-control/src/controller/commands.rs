//! When each command is possible, and what follows it.

use super::current::Current;
use super::recording::Recorded;
use super::{Controller, Effect};
use crate::link::{Launch, RunState, Wish};
use crate::means::{Ending, Step};
use crate::operation::Outcome;
use crate::record::Goal;
use crate::request::{Command, Operator, REQUEST_CHARACTERS, Refusal, RefusalCode, Request, RunSettings};
use crate::sequence::Sequence;
use crate::view::State;
use sheaf_wire::Timestamp;

/// Most characters of a comment.
pub(super) const COMMENT_CHARACTERS: usize = 1_000;

/// Most bytes of what a run is to be like: a name of 64 characters and a version.
const LIKE_BYTES: usize = 80;

/// Refuses the name of a request that is no name.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if (1..=REQUEST_CHARACTERS).contains(&name.chars().count()) {
        return Ok(());
    }
    let text = "a request needs a name of 1 to 64 characters";
    Err(Refusal::new(RefusalCode::Invalid, text, "choose a new one for each request"))
}

impl Request {
    /// Refuses what makes no sense in any state.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let invalid = |text: &str, remedy: &str| Err(Refusal::new(RefusalCode::Invalid, text, remedy));
        check_name(&self.name)?;
        let comment_alone = RunSettings { comment: self.settings.comment.clone(), ..RunSettings::default() };
        if !self.takes_settings() && self.settings != comment_alone {
            return invalid(
                "only `configure`, `start` and `switch` take settings of the run",
                "leave out the number of events and the duration",
            );
        }
        if self.now && self.command != Command::Stop {
            return invalid("only `stop` takes `now`", "leave it out");
        }
        if self.settings.events == Some(0) || self.settings.duration_ms == Some(0) {
            return invalid(
                "a run cannot end before it begins",
                "give a number above 0, or none for a run without this limit",
            );
        }
        if self.command == Command::Switch && self.settings.like.is_some() {
            return invalid(
                "a run that follows without a gap has the configuration of the run before",
                "leave out `like`, or stop the run and start another",
            );
        }
        if self.settings.like.as_ref().is_some_and(|like| !(1..=LIKE_BYTES).contains(&like.len())) {
            return invalid("`like` is no run", "give the number of a run, or the name of a configuration");
        }
        let comment = self.settings.comment.as_ref().map_or(0, |text| text.chars().count());
        if comment > COMMENT_CHARACTERS {
            return invalid("the comment has more than 1,000 characters", "shorten it");
        }
        Ok(())
    }

    /// Returns whether it may have settings of a run. The comment of any other command is for its record alone.
    fn takes_settings(&self) -> bool {
        matches!(self.command, Command::Configure | Command::Start | Command::Switch)
    }
}

impl Controller {
    /// Returns why a command is not possible now, if it is not.
    pub(crate) fn allows(&self, command: Command, now: bool) -> Result<(), Refusal> {
        let refuse = |text: String, remedy: &str| Err(Refusal::new(RefusalCode::State, text, remedy));
        let Some(run) = &self.run else {
            return match command {
                Command::Configure | Command::Start if self.is_row_due() => {
                    let name = self.sequence.as_ref().map_or("", Sequence::name);
                    refuse(
                        format!("the sequence {name} is about to begin a row"),
                        "pause or stop the sequence",
                    )
                }
                Command::Configure | Command::Start | Command::Reset => Ok(()),
                Command::Pause | Command::Resume | Command::Switch | Command::Stop => {
                    refuse("there is no run".to_owned(), "start one")
                }
            };
        };
        let (name, state) = (run.name(), run.state());
        let (wish, is_ending) = (run.order().wish, run.is_ending());
        match command {
            Command::Reset => Ok(()),
            Command::Configure => refuse(format!("{name} is {}", state.words()), "stop it first"),
            Command::Start if is_ending => refuse(format!("{name} is ending"), "wait until it has ended"),
            Command::Start if wish == Wish::Hold => Ok(()),
            Command::Start => refuse(format!("{name} has been started"), "stop it first"),
            Command::Pause => match &run.report().no_pause {
                Some(why) => refuse(format!("{name} cannot be paused: {why}"), "stop it"),
                None if state == State::Running && wish == Wish::Run => Ok(()),
                None => refuse(format!("{name} is {}", state.words()), "pause a run that takes triggers"),
            },
            Command::Resume if !is_ending && wish == Wish::Pause => Ok(()),
            Command::Resume => refuse(format!("{name} is not paused"), "resume a run that is paused"),
            Command::Switch => match &run.report().no_switch {
                Some(why) => refuse(
                    format!("no run can follow {name} without a gap: {why}"),
                    "stop it, and start another",
                ),
                None if run.settings().sequence.is_some() => {
                    refuse(format!("{name} is of a sequence, which makes the next run"), "pause the sequence")
                }
                None if state == State::Running && wish == Wish::Run => Ok(()),
                None => refuse(format!("{name} is {}", state.words()), "switch while a run takes triggers"),
            },
            Command::Stop => match run.ending().map(Ending::step) {
                None => Ok(()),
                Some(Step::Drain) if now => Ok(()),
                Some(Step::Drain) => refuse(
                    format!("{name} is stopping"),
                    "wait, or stop it now, which drops the events in flight",
                ),
                Some(Step::Cut | Step::Kill) => refuse(
                    format!("{name} drops its events in flight"),
                    "wait, or reset, which kills its processes",
                ),
            },
        }
    }

    /// A run that is configured has its settings.
    pub(super) fn check_settings(&self, request: &Request) -> Result<(), Refusal> {
        match &self.run {
            Some(run)
                if request.takes_settings()
                    && request.command != Command::Switch
                    && !request.settings.is_empty() =>
            {
                Err(Refusal::new(
                    RefusalCode::State,
                    format!("{} is configured, with its settings", run.name()),
                    "start it without settings, or stop it and start another",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Follows a command that is possible. Returns the number of the operation.
    pub(super) fn follow(&mut self, now: Timestamp, operator: &Operator, request: &Request) -> u64 {
        let id = self.begin_operation(now, operator, request);
        let (command, comment) = (request.command.name(), request.settings.comment.clone());
        let like = request.settings.like.as_ref().map(|like| format!("like {like}"));
        let target = like.or_else(|| request.now.then(|| "now".to_owned()));
        let recorded = Recorded { command, target, comment, goal: Goal::Operation(id), done: None };
        self.record(now, operator, recorded);
        match (request.command, self.run.is_some()) {
            (Command::Configure, _) => self.bring_up(operator, request, Wish::Hold),
            (Command::Start, false) => self.bring_up(operator, request, Wish::Run),
            (Command::Start | Command::Resume, true) => self.direct(Wish::Run),
            (Command::Pause, _) => self.direct(Wish::Pause),
            (Command::Switch, _) => {
                if let Some(run) = &mut self.run {
                    let (launch, by) = (run.launch(), operator.name.clone());
                    let order = run.switch(now, request.settings.clone(), by);
                    self.effects.extend(order.map(|order| Effect::Send { launch, order }));
                }
            }
            (Command::Stop, _) => {
                let step = if request.now { Step::Cut } else { Step::Drain };
                self.end_run(now, step);
            }
            (Command::Reset, true) => {
                self.faults.clear();
                self.end_run(now, Step::Kill);
            }
            (Command::Reset, false) => {
                self.faults.clear();
                self.end_operation(now, Outcome::Done, "faults are cleared; there was no run".to_owned());
            }
            (Command::Resume, false) => {}
        }
        id
    }

    fn bring_up(&mut self, operator: &Operator, request: &Request, wish: Wish) {
        self.launches += 1;
        let launch = Launch(self.launches);
        let (settings, by) = (request.settings.clone(), operator.name.clone());
        let of_run = (self.exclusions.clone(), std::mem::take(&mut self.early));
        let run = Current::new(launch, (settings, by), wish, of_run);
        self.effects.push_back(run.to_launch());
        self.run = Some(run);
    }

    /// Changes what the run shall do.
    pub(super) fn direct(&mut self, wish: Wish) {
        let Some(run) = &mut self.run else { return };
        if let Some(order) = run.wish(wish) {
            self.effects.push_back(Effect::Send { launch: run.launch(), order });
        }
    }

    fn is_switching(&self) -> bool {
        self.operations.current().is_some_and(|operation| operation.command == Command::Switch)
    }

    /// Returns what the run does, in words, for who waits for it.
    pub(crate) fn progress(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        let report = run.report();
        if !run.is_linked() {
            return Some(format!("waits for the process of {}", run.name()));
        }
        Some(match (run.ending().map(Ending::step), report.state) {
            (Some(Step::Cut), _) => "drops the events in flight".to_owned(),
            (Some(Step::Kill), _) => "kills the processes of the run".to_owned(),
            (Some(Step::Drain), _) | (None, RunState::Stopping) => match &report.waits_for {
                Some(what) => format!("ends, and waits for {what}"),
                None => "builds the events in flight and closes files".to_owned(),
            },
            (None, RunState::Preparing) => match &report.waits_for {
                // It is the line of the run: "waiting for ru0, ru1".
                Some(line) => line.clone(),
                None => "starts the nodes".to_owned(),
            },
            (None, RunState::Ready) => "all nodes are there".to_owned(),
            (None, RunState::Running) if self.is_switching() => "prepares the next run".to_owned(),
            (None, RunState::Running) => "takes triggers".to_owned(),
            (None, RunState::Paused) => "takes no triggers".to_owned(),
        })
    }
}
