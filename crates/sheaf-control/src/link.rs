//! Messages between a controller and the process of a run.
//!
//! Both sides send their whole state: the controller its wish, the run what it is doing. Orders are numbered, and a run follows the
//! highest number that it has seen; a controller takes a report for what it is, whatever order it answers.

use crate::request::RunSettings;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a launch: of a process that makes one run. It is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Launch(pub u64);

/// Desired behaviour of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Bring up all nodes, and wait.
    Hold,
    /// Take triggers.
    Run,
    /// Take no triggers, and keep everything else.
    Pause,
    /// End in good order: build and store the events in flight.
    Stop,
    /// End now: drop the events in flight.
    Cut,
}

impl Wish {
    /// Returns whether a run with this wish is to end.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Stop | Self::Cut)
    }
}

/// Sources and nodes that are excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusions {
    /// Sources.
    #[serde(default, rename = "excluded", skip_serializing_if = "BTreeSet::is_empty")]
    pub sources: BTreeSet<u32>,
    /// Readout units and builder units, by name.
    #[serde(default, rename = "excluded_nodes", skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<String>,
}

/// A source or a node that can be excluded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Excludable {
    /// A source.
    Source(u32),
    /// A readout unit or builder unit, by name.
    Node(String),
}

impl Exclusions {
    /// Returns whether a source or a node is excluded.
    pub(crate) fn has(&self, what: &Excludable) -> bool {
        match what {
            Excludable::Source(source) => self.sources.contains(source),
            Excludable::Node(node) => self.nodes.contains(node),
        }
    }

    /// Excludes a source or a node, or includes it. Returns whether that has changed anything.
    pub(crate) fn set(&mut self, what: Excludable, is_excluded: bool) -> bool {
        fn set<T: Ord>(all: &mut BTreeSet<T>, one: T, is_excluded: bool) -> bool {
            if is_excluded { all.insert(one) } else { all.remove(&one) }
        }
        match what {
            Excludable::Source(source) => set(&mut self.sources, source, is_excluded),
            Excludable::Node(node) => set(&mut self.nodes, node, is_excluded),
        }
    }
}

/// A wish of the controller. A run follows the order with the highest number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Number of the order within its launch, from 1.
    pub number: u64,
    /// Desired behaviour of the run.
    pub wish: Wish,
    /// Sources and nodes that are to be excluded; all others are to be included.
    #[serde(flatten)]
    pub exclusions: Exclusions,
    /// Nodes that are to be started again, each with the number of the order that has asked for it. A run follows each once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recover: BTreeMap<String, u64>,
    /// The run that is to follow the present one without a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextRun>,
}

/// A run that is to follow another one in the same process, without a gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRun {
    /// Number of the order that has asked for it. A process begins it once.
    pub asked: u64,
    /// When that was, in milliseconds since 1970. Commands since then are those of the next run.
    pub at_ms: u64,
    /// Settings of the run.
    pub settings: RunSettings,
    /// Operator who asked for it.
    pub by: String,
}

/// Why a run does not do what an order has asked for: it goes on instead of the next one, or does not start a node again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedOrder {
    /// Number of the order.
    pub asked: u64,
    /// The reason in words.
    pub why: String,
}

/// State of a run, as its process sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its nodes are started, or it waits for some of them.
    #[default]
    Preparing,
    /// Everything is there, and it is held.
    Ready,
    /// It takes triggers.
    Running,
    /// It takes no triggers until it is resumed.
    Paused,
    /// It takes no more triggers; events in flight are built, or files closed.
    Stopping,
}

/// State of a run, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of the latest order that it follows; 0 before the first.
    pub order: u64,
    /// Its state.
    pub state: RunState,
    /// Its number, once it has one.
    pub run: Option<u32>,
    /// Nodes and programs that it waits for, in words.
    pub waits_for: Option<String>,
    /// Why it cannot be paused, in words; `None` if it can.
    pub no_pause: Option<String>,
    /// Sources that are excluded from its events now, or have not returned yet, and nodes that are excluded.
    #[serde(flatten)]
    pub exclusions: Exclusions,
    /// Why its nodes cannot be started again, in words; `None` if they can.
    #[serde(default)]
    pub no_recover: Option<String>,
    /// Nodes that were started again, each with the number of the order that had asked for it.
    #[serde(default)]
    pub recovered: BTreeMap<String, u64>,
    /// Nodes that were not started again, although an order has asked for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_recovered: BTreeMap<String, RefusedOrder>,
    /// Why no run can follow it without a gap, in words; `None` if one can.
    #[serde(default)]
    pub no_switch: Option<String>,
    /// Number of the order that had asked for this run, if it follows another one in the same process; 0 if it does not.
    #[serde(default)]
    pub switched: u64,
    /// The latest request for a next run that was not carried out.
    #[serde(default)]
    pub not_switched: Option<RefusedOrder>,
    /// The last runs before it in the same process, as far as they are closed, in ascending order.
    #[serde(default)]
    pub ended: Vec<RunResult>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// Its number, if it had one.
    pub run: Option<u32>,
    /// Whether it took triggers.
    pub begun: bool,
    /// Whether its books balance and nothing accepted was lost.
    pub good: bool,
    /// Whether it ended by its own conditions: its number of triggers, its duration, or the end of its data.
    #[serde(default)]
    pub complete: bool,
    /// Accepted triggers.
    #[serde(default)]
    pub triggers: u64,
    /// The end in a sentence.
    pub text: String,
}
