//! Commands of operators, and why they are refused.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Most characters of the name of a request.
pub const REQUEST_CHARACTERS: usize = 64;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Bring up the nodes of a new run, and hold it.
    Configure,
    /// Take triggers, in a new run if none is configured.
    Start,
    /// Take no triggers until `resume`.
    Pause,
    /// Take triggers again.
    Resume,
    /// Begin the next run without a gap: at an event, in the same processes.
    Switch,
    /// End the run in good order.
    Stop,
    /// Kill the processes of the run, and clear all faults.
    Reset,
}

impl Command {
    /// All commands, in the order in which people are shown them.
    pub const ALL: [Self; 7] =
        [Self::Configure, Self::Start, Self::Pause, Self::Resume, Self::Switch, Self::Stop, Self::Reset];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Switch => "switch",
            Self::Stop => "stop",
            Self::Reset => "reset",
        }
    }

    /// Returns the command with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Rights of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Also give commands, and take the lock if it is free.
    Operator,
    /// Also change settings of runs.
    Expert,
    /// Also take the lock from somebody.
    Admin,
}

impl Role {
    /// All roles. Each has the rights of those before it.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Expert, Self::Admin];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Expert => "expert",
            Self::Admin => "admin",
        }
    }

    /// Returns the role with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Who gives a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Name in records.
    pub name: String,
    /// Rights of the operator.
    pub role: Role,
    /// Where the commands come from, for records: a program, a hook, a signal.
    pub via: Option<String>,
}

impl Operator {
    /// Makes an operator of whom nothing else is known.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, via: None }
    }

    /// Says where the commands come from.
    #[must_use]
    pub fn via(self, via: impl Into<String>) -> Self {
        Self { via: Some(via.into()), ..self }
    }
}

/// Settings of one run: its end, and a comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Number of triggers after which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Time after which it ends, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// A comment for its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Run, or name of a configuration, whose configuration it has instead of the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Row of a sequence, with settings of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceRow>,
}

impl RunSettings {
    /// Returns whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The row of a sequence that a run belongs to, for the record of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRow {
    /// Name of the sequence.
    pub name: String,
    /// Number of the row, from 1.
    pub row: u32,
    /// Settings of the row, by key.
    pub values: BTreeMap<String, String>,
}

impl SequenceRow {
    /// Returns the number of triggers and the time in milliseconds that end its run, as far as the row sets them.
    pub(crate) fn ends(&self) -> (Option<u64>, Option<u64>) {
        let events = self.values.get("run.events").and_then(|text| text.parse().ok());
        let seconds = self.values.get("run.duration_s").and_then(|text| text.parse::<f64>().ok());
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        (events, time.and_then(|time| u64::try_from(time.as_millis()).ok()))
    }
}

impl fmt::Display for SequenceRow {
    /// Writes the row: `scan row 3: filter.busy_us = 20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} row {}", self.name, self.row)?;
        for (index, (key, value)) in self.values.iter().enumerate() {
            write!(f, "{} {key} = {value}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// A command with everything that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// Name of this request, chosen by the client. The same name again is the same request, and has no second effect.
    pub name: String,
    /// Settings of the run, for [`Command::Configure`], [`Command::Start`] and [`Command::Switch`].
    pub settings: RunSettings,
    /// For [`Command::Stop`]: drop the events in flight.
    pub now: bool,
    /// Revision of the state that the operator has seen; `None`: any.
    pub revision: Option<u64>,
}

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The request makes no sense in any state.
    Invalid,
    /// The role does not allow it.
    Role,
    /// There is nothing of that name or number.
    NotFound,
    /// The state does not allow it.
    State,
    /// The state has changed since the operator saw it.
    Stale,
    /// Somebody else has the lock.
    Locked,
}

/// Why a command is not followed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{text}; {remedy}")]
pub struct Refusal {
    /// Its kind.
    pub code: RefusalCode,
    /// The reason.
    pub text: String,
    /// Remedy.
    pub remedy: String,
}

impl Refusal {
    /// Makes a refusal from its parts.
    #[must_use]
    pub fn new(code: RefusalCode, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, text: text.into(), remedy: remedy.into() }
    }
}
