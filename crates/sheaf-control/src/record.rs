//! The commands of a run, for its record: who has asked for what, from where, and what came of it.

use crate::link::Excludable;
use crate::operation::{End, Outcome};
use serde::{Deserialize, Serialize};

/// Most commands of a run that are kept: the first half and the last half. Those between are counted.
pub const COMMANDS: usize = 200;

/// A command that was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCommand {
    /// When it was given, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who gave it.
    pub by: String,
    /// Where it came from: `page`, `hook logbook`, `Ctrl-C`, `sequence scan`. `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Name of the command.
    pub command: String,
    /// Its object, if it has one: a source, a node, alarms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Comment of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its result; `None` until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Condition under which it is done.
    #[serde(default)]
    pub goal: Goal,
}

/// Condition under which a command is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// None: it was done when it was given.
    #[default]
    None,
    /// The operation with this number has ended.
    Operation(u64),
    /// The run excludes a source or a node (`false`), or includes it (`true`).
    Included(Excludable, bool),
    /// The run has started a node again, for the order with this number.
    Recovered(String, u64),
}

/// The commands of a run, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLog {
    /// Those that are kept.
    pub commands: Vec<RunCommand>,
    /// Number of those between that are not.
    pub left_out: u64,
}

impl CommandLog {
    /// Returns whether there was no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Adds a command. Of too many, the first and the last ones are kept: how the run came to be, and how it ended.
    pub fn add(&mut self, command: RunCommand) {
        self.commands.push(command);
        if self.commands.len() > COMMANDS {
            self.commands.remove(COMMANDS / 2);
            self.left_out += 1;
        }
    }

    /// Leaves out the commands before `at_ms`: they are those of a run before.
    pub fn begin_at(&mut self, at_ms: u64) {
        let before = self.commands.len();
        self.commands.retain(|command| command.at_ms >= at_ms);
        if self.commands.len() < before {
            self.left_out = 0;
        }
    }

    /// Ends the commands with such goals that have not ended.
    pub(crate) fn end(&mut self, end: &End, mut which: impl FnMut(&Goal) -> bool) {
        for command in self.commands.iter_mut().filter(|command| command.end.is_none()) {
            if which(&command.goal) {
                command.end = Some(end.clone());
            }
        }
    }

    /// Ends the commands whose results follow from the end of the run, for a process that cannot wait for its controller. `text` is the
    /// end in a sentence. The others were perhaps followed while no controller was there: their results stay open.
    pub fn conclude(&mut self, at_ms: u64, has_begun: bool, text: &str) {
        for command in self.commands.iter_mut().filter(|command| command.end.is_none()) {
            let (result, text) = match &*command.command {
                "stop" | "next" | "reset" | "switch" => (Outcome::Done, text),
                "start" if has_begun => (Outcome::Done, "it took triggers"),
                "start" | "configure" => (Outcome::Failed, text),
                _ => continue,
            };
            command.end = Some(End { at_ms, result, text: text.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(at_ms: u64, name: &str) -> RunCommand {
        RunCommand {
            at_ms,
            by: "alice".into(),
            via: None,
            command: name.into(),
            target: None,
            comment: None,
            end: None,
            goal: Goal::None,
        }
    }

    #[test]
    fn of_too_many_commands_the_first_and_the_last_are_kept_and_the_others_counted() {
        let mut log = CommandLog::default();
        let most = u64::try_from(COMMANDS).expect("a small number");
        (0..most + 50).for_each(|at| log.add(command(at, "pause")));
        let times: Vec<_> = log.commands.iter().map(|command| command.at_ms).collect();
        let expected: Vec<_> = (0..most / 2).chain(most / 2 + 50..most + 50).collect();
        assert_eq!((times, log.left_out), (expected, 50));
    }

    #[test]
    fn the_end_of_a_run_is_the_end_of_commands_that_asked_for_it_and_no_answer_to_others() {
        let results = |has_begun| {
            let mut log = CommandLog::default();
            for name in ["start", "pause", "stop"] {
                log.add(command(1, name));
            }
            log.conclude(9, has_begun, "run 7 ended");
            log.commands.into_iter().map(|command| command.end.map(|end| end.result)).collect::<Vec<_>>()
        };
        assert_eq!(results(true), [Some(Outcome::Done), None, Some(Outcome::Done)]);
        assert_eq!(results(false), [Some(Outcome::Failed), None, Some(Outcome::Done)]);
    }
}
