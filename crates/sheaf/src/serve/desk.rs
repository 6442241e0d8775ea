//! The desk: the thread that has the controller, writes down what it decides, and carries it out.

use super::inbox::{Departure, Input};
use super::journal::{Entry, Journal};
use super::launch::{Beginning, Launcher};
use crate::control_directory::ControlDirectory;
use crate::gate::Gate;
use crate::records::{self, note_addition_later};
use crate::{people, slow_control};
use anyhow::Context as _;
use sheaf_config::{Config, HookTransition};
use sheaf_control::controller::{Event, Gone};
use sheaf_control::link::Launch;
use sheaf_control::request::RunSettings;
use sheaf_control::saved::Saved;
use sheaf_control::sequence::SequenceNews;
use sheaf_control::view::State;
use sheaf_control::{Command, CommandLog, Controller, Effect, Limits, Operator, Order, Request, Role};
use sheaf_monitor::state::Standby;
use sheaf_monitor::{Monitor, RunVerdict};
use sheaf_node::Clock;
use sheaf_telemetry::{codes, log_as};
use sheaf_wire::{Nanos, SourceId, SourceNames, Timestamp};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Longest time between two looks at what is due.
const PERIOD: Duration = Duration::from_millis(200);

/// Time beyond the start of the nodes that a run has to take triggers.
const MARGIN: Nanos = Nanos::from_secs(30);

/// Name in the journal of what nobody has asked for.
const CONTROLLER: &str = "controller";

/// See the [module](self).
pub(super) struct Desk {
    pub(super) controller: Controller,
    pub(super) directory: ControlDirectory,
    pub(super) journal: Journal,
    /// Name of the system.
    system: String,
    /// Names of sources, as the configuration was when it was read last.
    pub(super) names: SourceNames,
    /// Directory of runs.
    pub(super) output: PathBuf,
    clock: Clock,
    monitor: Arc<Monitor>,
    pub(super) launcher: Launcher,
    /// The link to the process of a run.
    link: Option<(Launch, UnixStream)>,
    /// State on disk.
    saved: Saved,
    /// Commands that were left for the process of a run.
    left: Option<(Launch, CommandLog)>,
    /// Whether the last attempt to write it failed, so that this is said once.
    cannot_write: bool,
    /// Whether the next row of a sequence could not be recorded, so that this is said once.
    row_waits: bool,
    shown: serde_json::Value,
    /// Who has which partition.
    partitions: serde_json::Value,
    interrupts: u32,
    is_over: bool,
    pub(super) gate: Arc<Gate>,
}

impl Desk {
    /// Goes on where the last controller of this directory ended.
    pub(super) fn open(
        (directory, gate): (ControlDirectory, Arc<Gate>),
        (system, output): (String, PathBuf),
        monitor: Arc<Monitor>,
        launcher: Launcher,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let saved = read_state(&directory.state())?;
        let clock = Clock::new();
        let mut controller = Controller::restore(saved.clone(), limits(config), clock.now());
        let journal = Journal::open(&directory.journal())?;
        match controller.launch() {
            Some(launch) if launcher.has_begun(launch) => {
                log_as!(CONTROL_NEWS; "there is a run of an earlier controller, which goes on");
                launcher.listen(launch, None)?;
            }
            Some(_) => {
                log_as!(CONTROL_NEWS; "an earlier controller has accepted a run and not started it");
                controller.handle_unlaunched(clock.now());
            }
            None => {}
        }
        let mut desk = Self {
            controller,
            directory,
            journal,
            system,
            names: config.names.clone(),
            output,
            clock,
            monitor,
            launcher,
            link: None,
            saved,
            left: None,
            cannot_write: false,
            row_waits: false,
            shown: serde_json::Value::Null,
            partitions: serde_json::Value::Null,
            interrupts: 0,
            is_over: false,
            gate,
        };
        desk.note(Entry::new(CONTROLLER, "begin", "done", format!("version {}", env!("CARGO_PKG_VERSION"))));
        desk.carry_on();
        Ok(desk)
    }

    /// Works until the controller ends.
    pub(super) fn run(mut self, inbox: &Receiver<Input>) -> anyhow::Result<()> {
        while !self.is_over {
            let due = self.controller.poll_timeout().map(|at| at.since(self.now()).to_std());
            match inbox.recv_timeout(due.unwrap_or(PERIOD).min(PERIOD)) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.controller.poll_timeout().is_some_and(|at| at <= self.now()) {
                let now = self.now();
                self.controller.handle_timeout(now);
            }
            self.carry_on();
        }
        self.note(Entry::new(CONTROLLER, "end", "done", ""));
        Ok(())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes time limits, and values from outside, from the configuration as the next run reads it. One that cannot be read is reported by that run.
    pub(super) fn read_limits(&mut self, like: Option<&str>) {
        if let Ok(config) = self.launcher.read_config(like) {
            self.controller.set_limits(limits(&config));
            self.launcher.values.declare(slow_control::declared(&config));
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Asked(asked, answer) => {
                let reply = self.reply(asked);
                // The client may have gone.
                let _ = answer.send(reply);
            }
            Input::Reached(launch, stream) => {
                self.link = Some((launch, stream));
                self.controller.handle_link(now, launch, true);
            }
            Input::Lost(launch) => {
                self.link.take_if(|(of, _)| *of == launch);
                self.controller.handle_link(now, launch, false);
            }
            Input::Report(launch, report) => self.controller.handle_report(now, launch, report),
            Input::Gone(launch, departure) => self.take_departure(now, launch, departure),
            Input::Partitions(partitions) => self.partitions = partitions,
            Input::Interrupt => self.interrupt(now),
            Input::Terminate => {
                if self.controller.state() != State::Idle {
                    log_as!(
                        CONTROLLER_LEAVES;
                        "the controller ends, and its run goes on; start it again to direct the run"
                    );
                }
                self.is_over = true;
            }
        }
    }

    fn take_departure(&mut self, now: Timestamp, launch: Launch, departure: Departure) {
        self.link.take_if(|(of, _)| *of == launch);
        let verdict = departure.verdict();
        let Departure { ended, how, look } = departure;
        let gone = Gone { result: ended.map(|ended| ended.result), how, look };
        self.controller.handle_gone(now, launch, &gone);
        // Before the next controller would not do it any more. To do it twice does no harm.
        self.record_commands();
        // A run that has left no verdict is over, too.
        let killed = || {
            let text = self.controller.view().last_run.map(|last| last.text);
            RunVerdict { good: false, lines: text.into_iter().collect() }
        };
        self.monitor.end_run(verdict.unwrap_or_else(killed));
    }

    /// Records the commands of a run whose process could not do it, because it died.
    fn record_commands(&mut self) {
        let Some((_, log)) = self.controller.take_commands() else { return };
        let Some(run) = self.controller.view().last_run.and_then(|last| last.run) else { return };
        match records::record_commands(run, &self.output, &log, &self.names) {
            Ok(None) => {}
            // The controller does not wait for a database.
            Ok(Some(path)) => note_addition_later(path),
            Err(error) => log_as!(
                CONTROL_NOT_RECORDED;
                "the commands of run {run} are not in its record, but in the journal: {}", crate::describe(&error)
            ),
        }
    }

    /// Leaves the commands of the run for its process, if they have changed.
    fn leave_commands(&mut self) -> anyhow::Result<()> {
        let Some((launch, log)) = self.controller.commands() else { return Ok(()) };
        if self.left.as_ref().is_some_and(|(of, left)| *of == launch && left == log) {
            return Ok(());
        }
        let directory = self.directory.launch(launch);
        // Before the launch there is none.
        if directory.path().is_dir() {
            directory.write_commands(log)?;
            self.left = Some((launch, log.clone()));
        }
        Ok(())
    }

    /// Starts the process of a run, for which its commands are there.
    fn launch(&mut self, beginning: &Beginning) -> anyhow::Result<()> {
        self.launcher.make_directory(beginning.launch)?;
        self.leave_commands()?;
        self.launcher.start(beginning)
    }

    /// Ctrl-C: stops the run, the second time at once, and ends when there is none.
    fn interrupt(&mut self, now: Timestamp) {
        self.interrupts += 1;
        let operator = Operator::new(people::user(), Role::Admin).via("Ctrl-C");
        if self.controller.state() == State::Idle {
            self.is_over = true;
            return;
        }
        match self.interrupts {
            1 => log_as!(
                CONTROL_NEWS;
                "the run is stopped, then the controller ends; Ctrl-C again drops the events in flight"
            ),
            2 => log_as!(
                CONTROL_NEWS;
                "the events in flight are dropped; Ctrl-C again ends the controller, and the run goes on"
            ),
            _ => return self.is_over = true,
        }
        let is_second = self.interrupts > 1;
        let request = Request {
            command: Command::Stop,
            name: format!("Ctrl-C {}", now.0),
            settings: RunSettings::default(),
            now: is_second,
            revision: None,
        };
        // Who can interrupt the process needs no lock.
        let _ = self.controller.handle_lock(now, &operator, true);
        match self.controller.handle_request(now, &operator, &request) {
            Ok(_) => self.note(Entry::new(&operator.name, "stop", "accepted", "Ctrl-C")),
            Err(refusal) => log_as!(CONTROL_NEWS; "{refusal}"),
        }
        self.controller.handle_unlock(now, &operator);
    }

    /// Writes down what has changed, then carries it out, then shows it.
    pub(super) fn carry_on(&mut self) {
        if let Err(error) = self.save() {
            if !self.cannot_write {
                log_as!(
                    CONTROL_NOT_RECORDED;
                    "{}; the run is not affected, but a controller that begins now knows less",
                    crate::describe(&error)
                );
            }
            self.cannot_write = true;
        } else {
            self.cannot_write = false;
        }
        self.follow_up();
        self.begin_row();
        self.show();
        if self.interrupts > 0 && self.controller.state() == State::Idle {
            self.is_over = true;
        }
    }

    /// Tells what has happened, and carries out what was decided.
    fn follow_up(&mut self) {
        while let Some(event) = self.controller.poll_event() {
            self.tell(&event);
        }
        while let Some(effect) = self.controller.poll_effect() {
            self.carry_out(effect);
        }
    }

    /// Begins the next row of a sequence, once that is written down: otherwise the next controller would begin it again.
    fn begin_row(&mut self) {
        if !self.controller.is_row_due() || self.interrupts > 0 || self.is_over {
            return;
        }
        let (before, now) = (self.controller.clone(), self.now());
        self.read_limits(None);
        self.controller.handle_row(now);
        match self.save() {
            Ok(()) => {
                self.row_waits = false;
                self.follow_up();
            }
            Err(error) => {
                self.controller = before;
                if !self.row_waits {
                    let why = crate::describe(&error);
                    log_as!(CONTROL_NOT_RECORDED; "the next row of the sequence waits until it can be recorded: {why}; free some space");
                }
                self.row_waits = true;
            }
        }
    }

    /// Writes the state, if it has changed.
    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        let saved = self.controller.save();
        if saved != self.saved {
            ControlDirectory::write(&self.directory.state(), &serde_json::to_vec(&saved)?)?;
            self.saved = saved;
        }
        self.leave_commands()
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Launch { launch, held, exclusions, settings, by } => {
                let beginning = Beginning { launch, held, exclusions, settings, by };
                if let Err(error) = self.launch(&beginning) {
                    let how = crate::describe(&error);
                    let departure = Departure { ended: None, how, look: "nothing has begun".to_owned() };
                    let now = self.now();
                    self.take_departure(now, launch, departure);
                    // What follows from it is carried out next time.
                }
            }
            Effect::Send { launch, order } => self.send(launch, order),
            Effect::Kill { launch } => self.launcher.kill(launch),
        }
    }

    /// A link that does not take an order is broken, and the thread that listens to it says so.
    fn send(&mut self, launch: Launch, order: Order) {
        let Some((_, stream)) = self.link.as_mut().filter(|(of, _)| *of == launch) else { return };
        let Ok(mut line) = serde_json::to_vec(&order) else { return };
        line.push(b'\n');
        if let Err(error) = stream.write_all(&line) {
            log::debug!("an order does not reach the run: {error}");
        }
    }

    fn tell(&mut self, event: &Event) {
        match event {
            Event::Ended(operation) => {
                let Some(end) = &operation.end else { return };
                let answer = end.result.name();
                log_as!(CONTROL_NEWS; "`{}` of {}: {}", operation.command, operation.by, end.text);
                self.note(Entry::new(&operation.by, operation.command.name(), answer, end.text.clone()));
            }
            Event::Fault(fault) => {
                let code = fault.code.name().replace('_', "-");
                log_as!(code = codes::find(&code).unwrap_or(&codes::RUN_FAILED); "{}; {}", fault.text, fault.remedy);
                self.note(Entry::new(CONTROLLER, "fault", fault.code.name(), fault.text.clone()));
            }
            Event::Sequence(SequenceNews { what, text, .. }) => {
                let subject = if what.starts_with("row") { "" } else { "sequence " };
                log_as!(CONTROL_NEWS; "{subject}{what}: {text}");
                self.note(Entry::new(CONTROLLER, "sequence", what, text.clone()));
            }
            Event::RunEnded(last) => {
                let answer = if last.good { "good" } else { "not good" };
                self.note(Entry::new(CONTROLLER, "run ended", answer, last.text.clone()));
            }
        }
    }

    /// Adds an entry that nobody waits for.
    pub(super) fn note(&mut self, entry: Entry) {
        if let Err(error) = self.journal.add(entry) {
            log_as!(CONTROL_NOT_RECORDED; "{}", crate::describe(&error));
        }
    }

    /// Returns the state of run control as people see it.
    pub(super) fn status(&self) -> serde_json::Value {
        let mut view = serde_json::to_value(self.controller.view()).unwrap_or_default();
        view["system"] = self.system.clone().into();
        view["partition"] = self.launcher.partition.clone().into();
        view["partitions"] = self.partitions.clone();
        for source in view["sources"].as_array_mut().into_iter().flatten() {
            let id = source["source"].as_u64().and_then(|id| u32::try_from(id).ok());
            source["name"] = id.and_then(|id| self.names.get(SourceId(id))).into();
        }
        view
    }

    /// Returns the state of the standby event manager, if the run has one.
    pub(super) fn standby(&self) -> Option<Standby> {
        self.monitor.standby()
    }

    fn show(&mut self) {
        let view = self.status();
        if view != self.shown {
            self.monitor.note_control(view.clone());
            self.shown = view;
        }
    }
}

/// Time limits that follow from the configuration. Hooks before the start come before the nodes. The end of a run includes those after the
/// start, if they are still being called, and those after the end; those before a stop share the time of the stop.
fn limits(config: &Config) -> Limits {
    let hooks = |transition| config.hook_time(transition);
    let start = config.manager.start_timeout + MARGIN + hooks(HookTransition::BeforeStart);
    let after = hooks(HookTransition::AfterStart) + hooks(HookTransition::AfterStop);
    let sheaf_config::Control { stop_timeout, cut_timeout, lock } = config.control;
    let (drain, cut) = (stop_timeout + after, cut_timeout + after);
    Limits { configure: start, start, drain, cut, lock, ..Limits::default() }
}

fn read_state(path: &Path) -> anyhow::Result<Saved> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!("{} cannot be read; if no run is in progress, remove it and begin anew", path.display())
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Saved::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}
