//! Sources that an operator has excluded, in the summary.

use crate::console::count;
use serde::{Deserialize, Serialize};
use sheaf_node::report::RunReport;
use sheaf_wire::exclusion_record::ExclusionRecord;

/// A range of events in which a source was excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExclusionSummary {
    pub(crate) source: u32,
    /// First event without the source.
    pub(crate) first_event: u64,
    /// First event with the source again; `null`: it was excluded to the end of the run.
    pub(crate) included_from_event: Option<u64>,
}

/// Returns the exclusions of a run.
pub(super) fn exclusions(report: &RunReport) -> Vec<ExclusionSummary> {
    let summary = |exclusion: &ExclusionRecord| ExclusionSummary {
        source: exclusion.source.0,
        first_event: exclusion.first.0,
        included_from_event: exclusion.included_from.map(|event| event.0),
    };
    report.exclusions.iter().map(summary).collect()
}

impl std::fmt::Display for ExclusionSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "source {} from event {}", self.source, count(self.first_event))?;
        match self.included_from_event {
            Some(event) => write!(f, ", included again from event {} on", count(event)),
            None => write!(f, " to the end of the run"),
        }
    }
}
