//! The state of run control as people see it.

use crate::fault::Fault;
use crate::operation::Outcome;
use crate::request::Command;
use crate::sequence::SequenceView;
use crate::silence::Silence;
use serde::{Deserialize, Serialize};

/// State of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There is no run.
    #[default]
    Idle,
    /// The nodes of a run come up.
    Configuring,
    /// They are there, and the run is held.
    Configured,
    /// Triggers are taken.
    Running,
    /// No triggers are taken, until the run is resumed.
    Paused,
    /// The run ends.
    Stopping,
}

impl State {
    /// Returns what a run in this state is doing, behind `is`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Idle => "not there",
            Self::Configuring => "coming up",
            Self::Configured => "configured",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "ending",
        }
    }
}

/// State that the latest command asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// No run.
    #[default]
    Idle,
    /// A run that is held.
    Configured,
    /// A run that takes triggers.
    Running,
    /// A run that takes none.
    Paused,
}

/// The run that ended last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Number of its launch.
    pub launch: u64,
    /// Its number, if it had one.
    pub run: Option<u32>,
    /// Whether its books balance and nothing accepted was lost.
    pub good: bool,
    /// Its end in a sentence.
    pub text: String,
}

/// Conditions that end the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Number of triggers.
    pub events: Option<u64>,
    /// Time, in milliseconds.
    pub duration_ms: Option<u64>,
}

/// An operation, with what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationView {
    /// Number of the operation.
    pub id: u64,
    /// The command.
    pub command: Command,
    /// Who gave it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time at which it has failed, or stronger means are used.
    pub deadline_ms: u64,
    /// Reason why it lasts; `None` once it has ended.
    pub progress: Option<String>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Result: `done`, `failed` or `superseded`.
    pub result: Option<Outcome>,
    /// Result in words.
    pub text: Option<String>,
}

/// Whether a command can be given now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandView {
    /// The command.
    pub command: Command,
    /// Whether it can.
    pub allowed: bool,
    /// Why it cannot.
    pub why: Option<String>,
}

/// A source that is to be excluded, or that the run excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SourceView {
    /// The source.
    pub source: u32,
    /// Whether it is to be included.
    pub included: bool,
    /// Whether the run excludes it now. One that is to be included is excluded until its next fragment.
    pub excluded: bool,
}

/// A node that is to be excluded, that the run excludes, that is being started again, or was to be and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Name of the node.
    pub node: String,
    /// Whether it is to be included.
    pub included: bool,
    /// Whether the run excludes it now.
    pub excluded: bool,
    /// Whether it is being started again.
    pub recovering: bool,
    /// Why it was not started again, in words, if the run has refused the latest request.
    pub not_recovered: Option<String>,
}

/// Who has the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockView {
    /// Who.
    pub by: String,
    /// Until when, in milliseconds since 1970.
    pub until_ms: u64,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// State of the system.
    pub state: State,
    /// State that the latest command asks for.
    pub target: Target,
    /// Changes when anything changes that a person would act on.
    pub revision: u64,
    /// Number of the run that comes up, takes triggers or ends.
    pub run: Option<u32>,
    /// Who asked for it.
    pub by: Option<String>,
    /// Conditions that end it, apart from a command.
    pub ends: Option<Ends>,
    /// The operation that lasts.
    pub operation: Option<OperationView>,
    /// The operation that ended last.
    pub last: Option<OperationView>,
    /// The run that ended last.
    pub last_run: Option<LastRun>,
    /// Who has the lock.
    pub lock: Option<LockView>,
    /// Faults that nobody has seen, the oldest first.
    pub faults: Vec<Fault>,
    /// Sources that are not simply included, in ascending order.
    pub sources: Vec<SourceView>,
    /// Nodes that are not simply included, by name.
    pub nodes: Vec<NodeView>,
    /// The sequence that is in progress, or ended last.
    pub sequence: Option<SequenceView>,
    /// Silences, the oldest first.
    pub silences: Vec<Silence>,
    /// Alarms that had ended by then have been seen, in milliseconds since 1970.
    pub alarms_seen_ms: u64,
    /// Every command, and whether it can be given.
    pub commands: Vec<CommandView>,
}
