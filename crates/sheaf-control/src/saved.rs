//! State that a controller keeps on disk.

use crate::fault::Fault;
use crate::link::{Exclusions, Launch, Order, Report};
use crate::means::Step;
use crate::operation::Operation;
use crate::record::CommandLog;
use crate::request::RunSettings;
use crate::sequence::{PastSequence, Sequence, shared_list};
use crate::silence::Silence;
use crate::view::LastRun;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything that the next controller has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Number of processes launched so far.
    pub launches: u64,
    /// Revision of the state.
    pub revision: u64,
    /// The run, if there is one.
    pub run: Option<SavedRun>,
    /// The operation that lasts, if one does.
    pub operation: Option<Operation>,
    /// Ended operations, the newest last.
    pub past: Vec<Operation>,
    /// Holder of the lock, and its end in milliseconds since 1970.
    pub lock: Option<(String, u64)>,
    /// Faults that nobody has seen, the newest last.
    pub faults: Vec<Fault>,
    /// Number of the latest fault.
    pub next_fault: u64,
    /// The run that ended last.
    pub last_run: Option<LastRun>,
    /// Sources and nodes that are excluded from the run, and from those that follow.
    #[serde(flatten)]
    pub exclusions: Exclusions,
    /// Names of the latest requests to start nodes again, the newest last.
    #[serde(default)]
    pub recoveries: Vec<String>,
    /// The sequence that is in progress, or ended last.
    #[serde(default)]
    pub sequence: Option<Sequence>,
    /// Number of sequences so far.
    #[serde(default)]
    pub sequences: u64,
    /// Those before, the newest first.
    #[serde(default, with = "shared_list")]
    pub past_sequences: Vec<Arc<PastSequence>>,
    /// Silences that have not ended.
    #[serde(default)]
    pub silences: Vec<Silence>,
    /// Number of silences so far.
    #[serde(default)]
    pub silence_count: u64,
    /// Alarms that had ended by then have been seen, in milliseconds since 1970.
    #[serde(default)]
    pub alarms_seen_ms: u64,
    /// Commands since the last run ended, for the record of the next one.
    #[serde(default, skip_serializing_if = "CommandLog::is_empty")]
    pub early: CommandLog,
}

/// A run that has a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRun {
    /// The process.
    pub launch: Launch,
    /// Its settings.
    pub settings: RunSettings,
    /// Operator who asked for it.
    pub by: String,
    /// The latest order.
    pub order: Order,
    /// Its number, if it is known.
    pub run: Option<u32>,
    /// Its latest report, without what it waits for. A controller that begins knows what the run does before it has reached it, so that it does
    /// not refuse commands that its predecessor would have followed.
    #[serde(default)]
    pub report: Report,
    /// Means by which it is being ended.
    pub ending: Option<Step>,
    /// Highest number of a run before in the same process whose end is recorded.
    #[serde(default)]
    pub ended: Option<u32>,
    /// Its commands.
    #[serde(default)]
    pub commands: CommandLog,
}
