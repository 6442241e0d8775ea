//! Messages of the process of a run to its controller: one JSON object a line. The controller answers with orders.

use crate::console::message::Message;
use crate::relay::Record;
use serde::{Deserialize, Serialize};
use sheaf_control::{Report, RunResult};
use sheaf_monitor::{RunDescription, RunVerdict};

/// A line. A controller that calls gets everything from the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// State of the run.
    Report(Report),
    /// The run that begins.
    Begin(RunDescription),
    /// Metrics of a node.
    Node { node: String, record: Record },
    /// A node has ended.
    Gone(String),
    /// Nodes and programs that the run waits for.
    WaitsFor(Option<String>),
    /// A message of the log. Its number tells it from those before, also after the link was broken.
    Message { number: u64, message: Message },
    /// Result of the run.
    End(RunVerdict),
}

/// The end of a launch, in its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) result: RunResult,
    pub(crate) verdict: Option<RunVerdict>,
}
