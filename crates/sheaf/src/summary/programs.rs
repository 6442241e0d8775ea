//! Accounts of the programs that a run has started.

use super::{EarlyEnd, Extras, Summary};
use crate::supervisor;
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
    fn new(node: String, report: ProgramReport) -> Self {
        let ProgramReport {
            name,
            starts,
            failures,
            given_up,
            killed,
            log_lines,
            log_lines_dropped,
            counts: _,
        } = report;
        Self { node, name, starts, failures, given_up, killed, log_lines, log_lines_dropped }
    }
}

impl Summary {
    /// Returns whether a trigger supervisor that the run has started was given up, so that triggers are missing.
    pub(super) fn has_lost_supervisor(&self) -> bool {
        let gives_triggers = |program: &ProgramSummary| program.name == supervisor::NAME;
        self.trigger_link.is_some()
            && self.programs.iter().any(|program| gives_triggers(program) && program.given_up)
    }

    /// States that the run has ended because of that.
    pub(super) fn note_lost_supervisor(&mut self) {
        if self.has_lost_supervisor() {
            let why = "the trigger supervisor has failed and is not started again".to_owned();
            self.ended_early.get_or_insert_with(|| EarlyEnd::new("supervisor", why));
        }
    }
}

impl Extras {
    /// Adds the accounts of the programs of readout units, and what processes of Sheaf among them have counted.
    pub(crate) fn add_programs(&mut self, programs: Vec<(String, Vec<ProgramReport>)>) {
        for (node, reports) in programs {
            for report in reports {
                report.counts.iter().for_each(|(name, value)| self.add(&format!("source_{name}"), *value));
                self.programs.push(ProgramSummary::new(node.clone(), report));
            }
        }
    }
}
