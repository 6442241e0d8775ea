//! A run, as the command describes it, and how it ended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run, as the command describes it before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDescription {
    /// Its number.
    pub number: u32,
    /// Run directory, if the run writes files.
    pub directory: Option<String>,
    /// File of traces, if traces are wanted.
    #[serde(default)]
    pub traces: Option<String>,
    /// File of histograms, if they are taken.
    #[serde(default)]
    pub histograms: Option<String>,
    /// All nodes, in the order in which the page shows them.
    pub nodes: Vec<NodeDescription>,
    /// The sources, and the names of those that have one.
    pub sources: BTreeMap<u64, Option<String>>,
}

impl RunDescription {
    /// Returns the directory in which the directories of runs lie beside each other.
    pub(crate) fn runs(&self) -> Option<&Path> {
        Path::new(self.directory.as_ref()?).parent()
    }
}

/// Returns the directory of a run, in that of all runs.
pub(crate) fn run_in(runs: &Path, run: u32) -> PathBuf {
    runs.join(format!("run{run:06}"))
}

/// A node of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDescription {
    /// Its name, as publications have it.
    pub name: String,
    /// `readout`, `builder`, `manager` or `output`.
    pub role: String,
    /// Address of the agent that starts it on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// Whether the books balance and nothing was lost.
    pub good: bool,
    /// Lines of the summary.
    pub lines: Vec<String>,
}
