//! Accounts of the programs that a run has started.

use serde::{Deserialize, Serialize};
use sheaf_node::programs::ProgramReport;

/// Account of a program that feeds sources, as `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramSummary {
    /// The readout unit that started it.
    pub(crate) node: String,
    pub(crate) name: String,
    /// Number of times that it was started.
    pub(crate) starts: u64,
    /// Number of ends with a status other than 0 or by a signal, before the end of the run.
    pub(crate) failures: u64,
    /// Whether it failed and was not started again.
    pub(crate) given_up: bool,
    /// Whether it was killed because it did not end with the run.
    pub(crate) killed: bool,
    pub(crate) log_lines: u64,
    /// Number of lines of its output that its file has not.
    pub(crate) log_lines_dropped: u64,
}

impl ProgramSummary {
    pub(crate) fn new(node: String, report: ProgramReport) -> Self {
        let ProgramReport { name, starts, failures, given_up, killed, log_lines, log_lines_dropped } = report;
        Self { node, name, starts, failures, given_up, killed, log_lines, log_lines_dropped }
    }
}
