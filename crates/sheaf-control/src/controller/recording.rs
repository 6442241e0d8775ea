//! Commands for the record of the run.

use super::Controller;
use super::current::Current;
use crate::link::{Excludable, Launch, RefusedOrder, Report, RunState};
use crate::operation::{End, Operation, Outcome};
use crate::record::{CommandLog, Goal, RunCommand};
use crate::request::Operator;
use sheaf_wire::Timestamp;

/// A command that is to be recorded.
pub(super) struct Recorded<'a> {
    pub(super) command: &'a str,
    pub(super) target: Option<String>,
    pub(super) comment: Option<String>,
    pub(super) goal: Goal,
    /// Its result in words, if it is done.
    pub(super) done: Option<String>,
}

impl Controller {
    /// Returns the commands of the run, with the launch that it is expected of.
    #[must_use]
    pub fn commands(&self) -> Option<(Launch, &CommandLog)> {
        self.run.as_ref().map(|run| (run.launch(), run.commands()))
    }

    /// Takes the commands of the run that ended last, with all results.
    pub fn take_commands(&mut self) -> Option<(Launch, CommandLog)> {
        self.ended.take()
    }

    /// Records a command: of the run, or of the next one if there is none.
    pub(super) fn record(&mut self, now: Timestamp, operator: &Operator, recorded: Recorded<'_>) {
        let Recorded { command, target, comment, goal, done } = recorded;
        let end = done.map(|text| End { at_ms: now.as_millis(), result: Outcome::Done, text });
        let log = self.run.as_mut().map_or(&mut self.early, Current::commands_mut);
        log.add(RunCommand {
            at_ms: now.as_millis(),
            by: operator.name.clone(),
            via: operator.via.clone(),
            command: command.to_owned(),
            target,
            comment,
            end,
            goal,
        });
    }

    /// Records that a source or a node is excluded or included. An earlier command for it that lasts is superseded.
    pub(super) fn record_exclusion(
        &mut self,
        now: Timestamp,
        operator: &Operator,
        (what, included): (Excludable, bool),
    ) {
        let command = if included { "include" } else { "exclude" };
        let target = match &what {
            Excludable::Source(source) => format!("source {source}"),
            Excludable::Node(node) => node.clone(),
        };
        let end = End {
            at_ms: now.as_millis(),
            result: Outcome::Superseded,
            text: format!("`{command}` of {} followed", operator.name),
        };
        if let Some(run) = &mut self.run {
            run.commands_mut()
                .end(&end, |goal| matches!(goal, Goal::Included(earlier, _) if *earlier == what));
        }
        let done = self.run.is_none().then(|| "for the next run".to_owned());
        let (target, goal) = (Some(target), Goal::Included(what, included));
        self.record(now, operator, Recorded { command, target, comment: None, goal, done });
    }

    /// Records the end of an operation.
    pub(super) fn record_end(&mut self, operation: &Operation) {
        let Some(end) = &operation.end else { return };
        let ended = self.ended.as_mut().map(|(_, log)| log);
        let of_run = self.run.as_mut().map(Current::commands_mut);
        for log in ended.into_iter().chain(of_run).chain([&mut self.early]) {
            log.end(end, |goal| *goal == Goal::Operation(operation.id));
        }
    }

    /// Records what the run has done that is no operation.
    pub(super) fn record_reported(&mut self, now: Timestamp) {
        let Some(run) = &mut self.run else { return };
        // Before its nodes are there, what it excludes is not known.
        if run.report().order < run.order().number || run.report().state == RunState::Preparing {
            return;
        }
        let (name, Report { exclusions, recovered, not_recovered, .. }) = (run.name(), run.report().clone());
        let end = |text| End { at_ms: now.as_millis(), result: Outcome::Done, text };
        for (included, verb) in [(false, "excludes"), (true, "includes")] {
            run.commands_mut().end(&end(format!("{name} {verb} it")), |goal| match goal {
                Goal::Included(what, wanted) => *wanted == included && exclusions.has(what) != included,
                _ => false,
            });
        }
        run.commands_mut().end(&end(format!("{name} started it again")), |goal| match goal {
            Goal::Recovered(node, order) => recovered.get(node).is_some_and(|done| done >= order),
            _ => false,
        });
        for (refused, RefusedOrder { asked, why }) in &not_recovered {
            let end = End {
                at_ms: now.as_millis(),
                result: Outcome::Failed,
                text: format!("{name} has not started it again: {why}"),
            };
            run.commands_mut().end(&end, |goal| match goal {
                Goal::Recovered(node, order) => node == refused && asked >= order,
                _ => false,
            });
        }
    }
}
