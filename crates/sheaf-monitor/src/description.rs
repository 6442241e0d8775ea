//! A run, as the command describes it, and how it ended.

use serde::Serialize;
use std::collections::BTreeMap;

/// A run, as the command describes it before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDescription {
    /// Run directory, if the run writes files.
    pub directory: Option<String>,
    /// All nodes, in the order in which the page shows them.
    pub nodes: Vec<NodeDescription>,
    /// The sources, and the names of those that have one.
    pub sources: BTreeMap<u64, Option<String>>,
}

/// A node of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// Its name, as publications have it.
    pub name: String,
    /// `readout`, `builder`, `manager` or `output`.
    pub role: &'static str,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunVerdict {
    /// Whether the books balance and nothing was lost.
    pub good: bool,
    /// Lines of the summary.
    pub lines: Vec<String>,
}
