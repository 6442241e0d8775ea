//! The end of a run, which comes within a limited time: its events in flight are built, then dropped, then its processes are killed.

use super::current::{Current, name_of};
use super::{Controller, Effect, Event, Gone};
use crate::fault::FaultCode;
use crate::link::{Launch, RunResult, Wish};
use crate::means::{ATTEMPTS, Ending, Step};
use crate::operation::{Operation, Outcome};
use crate::request::Command;
use crate::view::LastRun;
use sheaf_wire::Timestamp;

impl Controller {
    /// Ends the run by these means.
    pub(super) fn end_run(&mut self, now: Timestamp, step: Step) {
        let Some(run) = &mut self.run else { return };
        let ending = Ending::at(step, &self.limits, now);
        run.set_ending(ending);
        self.operations.set_deadline(ending.until());
        match step {
            Step::Drain => self.direct(Wish::Stop),
            Step::Cut => self.direct(Wish::Cut),
            Step::Kill => self.effects.push_back(Effect::Kill { launch: run.launch() }),
        }
    }

    /// Uses stronger means where the time of those in use is over.
    pub(super) fn press(&mut self, now: Timestamp) {
        let Some(run) = &mut self.run else { return };
        let Some(ending) = run.ending().filter(|ending| ending.until() <= now) else { return };
        let name = run.name();
        match ending.step() {
            Step::Drain => {
                let seconds = self.limits.drain.as_secs_f64();
                self.raise(
                    now,
                    FaultCode::StopCut,
                    format!("{name} did not end within {seconds} s: its events in flight are dropped"),
                    "look at its alarms for what held it up; `control.stop_timeout_ms` is the limit"
                        .to_owned(),
                );
                self.end_run(now, Step::Cut);
            }
            Step::Cut => {
                let seconds = self.limits.cut.as_secs_f64();
                self.raise(
                    now,
                    FaultCode::Killed,
                    format!("{name} did not end within {seconds} s of dropping its events: its processes are killed"),
                    "`sheaf verify` tells which of its events count; look for nodes that hang".to_owned(),
                );
                self.end_run(now, Step::Kill);
            }
            Step::Kill => {
                let ending = ending.again(&self.limits, now);
                run.set_ending(ending);
                self.effects.push_back(Effect::Kill { launch: run.launch() });
                if ending.attempts() == ATTEMPTS {
                    self.raise(
                        now,
                        FaultCode::CannotKill,
                        format!("processes of {name} do not end although they were killed {ATTEMPTS} times"),
                        "they wait in the kernel, mostly for a disk or a network file system: look for state D in `ps`"
                            .to_owned(),
                    );
                }
            }
        }
    }

    /// Ends an operation that was not carried out in time. The run stays as it is.
    pub(super) fn give_up(&mut self, now: Timestamp, late: &Operation) {
        let seconds = self.limits.of(late.command).as_secs_f64();
        let progress = self.progress().unwrap_or_else(|| "there is no run".to_owned());
        let text = format!("`{}` was not carried out within {seconds} s: {progress}", late.command);
        let remedy = match late.command {
            Command::Configure => {
                "start the nodes that are missing, or start the run without them, or stop it"
            }
            _ => "wait, or stop the run",
        };
        self.raise(now, FaultCode::Late, text.clone(), remedy.to_owned());
        self.end_operation(now, Outcome::Failed, text.clone());
        self.note_late(now, late.command, &text);
    }

    /// Records the end of a run that another one has followed in the same process.
    pub(super) fn note_switched(&mut self, now: Timestamp, launch: Launch, result: &RunResult) {
        let name = name_of(result.run);
        let text = format!("{name} ended: {}", result.text);
        if !result.good {
            let remedy = result.run.map_or_else(String::new, |run| format!("`sheaf runs show {run}`"));
            self.raise(now, FaultCode::RunFailed, text.clone(), remedy);
        }
        let last = LastRun { launch: launch.0, run: result.run, good: result.good, text };
        self.events.push_back(Event::RunEnded(last.clone()));
        self.last_run = Some(last);
    }

    /// Ends the operation of a switch that does not take place. The run goes on.
    pub(super) fn note_refused_switch(&mut self, now: Timestamp) {
        let is_switch = self.operations.current().is_some_and(|it| it.command == Command::Switch);
        let Some(run) = self.run.as_ref().filter(|_| is_switch) else { return };
        if let Some(why) = run.not_switched() {
            let text = format!("{} goes on: {why}", run.name());
            self.end_operation(now, Outcome::Failed, text);
        }
    }

    /// Records the end of a run of which no process is left.
    pub(super) fn conclude(&mut self, now: Timestamp, run: &Current, gone: &Gone) {
        let was_killed = run.ending().is_some_and(|ending| ending.step() == Step::Kill);
        let number = gone.result.as_ref().and_then(|result| result.run).or(run.number());
        let name = name_of(number);
        let text = match &gone.result {
            Some(result) => format!("{name} ended: {}", result.text),
            None if was_killed => format!("{name} was killed"),
            None => format!("the process of {name} died: {}", gone.how),
        };
        let operation = self.operations.current().map(|operation| operation.command);
        let has_begun = gone.result.as_ref().is_some_and(|result| result.begun);
        let is_good = gone.result.as_ref().is_some_and(|result| result.good);
        let outcome = match operation {
            Some(Command::Stop | Command::Reset) => Outcome::Done,
            Some(Command::Start) if has_begun => Outcome::Done,
            _ => Outcome::Failed,
        };
        if gone.result.is_none() && !was_killed {
            let remedy = format!("{}; `sheaf verify` tells which of its events count", gone.look);
            self.raise(now, FaultCode::RunDied, text.clone(), remedy);
        } else if gone.result.is_some() && !is_good && (has_begun || operation.is_none()) {
            let remedy = number.map_or_else(
                || gone.look.clone(),
                |number| format!("`sheaf runs show {number}`; {}", gone.look),
            );
            self.raise(now, FaultCode::RunFailed, text.clone(), remedy);
        }
        let last = LastRun { launch: run.launch().0, run: number, good: is_good, text: text.clone() };
        self.events.push_back(Event::RunEnded(last.clone()));
        self.last_run = Some(last);
        self.end_row(now, run, (number, gone.result.as_ref()), &text);
        self.end_operation(now, outcome, text);
    }
}
