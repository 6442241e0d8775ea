//! Planned faults of nodes and links.

use super::{Options, ProgramFault};
use sheaf_wire::{Nanos, NodeId, SourceId, Timestamp};

/// A planned fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: FaultKind,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A node other than the event manager crashes and loses its state. It returns with a new session after `back_after`,
    /// or never.
    Crash {
        /// Which.
        node: NodeId,
        /// Time for which it is down.
        back_after: Option<Nanos>,
    },
    /// A node is stalled for a while. Arriving messages wait.
    Stall {
        /// Which.
        node: NodeId,
        /// Duration.
        lasts: Nanos,
    },
    /// All nodes are stalled for the same time, as when their machine is suspended. The network continues.
    Freeze {
        /// Duration.
        lasts: Nanos,
    },
    /// A processor of a builder's farm dies and is restarted.
    KillProcessor {
        /// The builder.
        builder: u16,
        /// Which of its processors.
        place: u16,
    },
    /// Something happens to a program that feeds sources.
    Program {
        /// Readout unit of its sources.
        readout: u16,
        /// Which of the programs of that readout unit.
        place: u16,
        /// What.
        fault: ProgramFault,
    },
    /// A link loses (`cut`) or delays all its messages for a while.
    Link {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Duration.
        lasts: Nanos,
        /// Whether messages are lost, not delayed.
        cut: bool,
    },
}

impl Fault {
    /// Returns when the fault is over. The loss of a node that never returns is over at once.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        match self.kind {
            FaultKind::Crash { back_after, .. } => self.at + back_after.unwrap_or(Nanos::ZERO),
            FaultKind::Stall { lasts, .. } | FaultKind::Link { lasts, .. } | FaultKind::Freeze { lasts } => {
                self.at + lasts
            }
            FaultKind::Program { fault: ProgramFault::Dies { back_after: lasts, .. }, .. }
            | FaultKind::Program { fault: ProgramFault::Stalls { lasts }, .. } => self.at + lasts,
            FaultKind::KillProcessor { .. } | FaultKind::Program { .. } => self.at,
        }
    }
}

/// A source that the operator excludes, and includes again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceExclusion {
    /// The source.
    pub source: u16,
    /// When it is to be excluded.
    pub at: Timestamp,
    /// Time after which it is to be included again, unless another exclusion lasts longer.
    pub lasts: Nanos,
}

impl SourceExclusion {
    /// Returns when the source is to be included again.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.at + self.lasts
    }
}

/// A readout unit or builder unit that the operator excludes, and includes again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeExclusion {
    /// The node.
    pub node: NodeId,
    /// When it is to be excluded.
    pub at: Timestamp,
    /// Time after which it is to be included again, unless another exclusion lasts longer.
    pub lasts: Nanos,
}

impl NodeExclusion {
    /// Returns when the node is to be included again.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.at + self.lasts
    }
}

/// A pause of the run by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it begins.
    pub at: Timestamp,
    /// Duration.
    pub lasts: Nanos,
}

impl Pause {
    /// Returns when the run is resumed, unless another pause lasts longer.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.at + self.lasts
    }
}

impl Options {
    /// Returns whether the operator excludes a readout unit at some time.
    #[must_use]
    pub fn may_leave_out(&self, readout: NodeId) -> bool {
        self.node_exclusions.iter().any(|exclusion| exclusion.node == readout)
    }

    /// Returns whether a readout unit has been excluded for so long that older events do not wait for it either.
    #[must_use]
    pub fn was_excluded_for(&self, readout: NodeId, now: Timestamp) -> bool {
        let its = |exclusion: &&NodeExclusion| exclusion.node == readout;
        self.node_exclusions.iter().filter(its).any(|exclusion| exclusion.at + self.times.event <= now)
    }

    /// Returns whether the operator excludes a source or a node at some time.
    #[must_use]
    pub fn excludes(&self) -> bool {
        !(self.exclusions.is_empty() && self.node_exclusions.is_empty())
    }

    /// Returns whether the operator excludes a source at some time.
    #[must_use]
    pub fn may_be_excluded(&self, source: SourceId) -> bool {
        self.exclusions.iter().any(|exclusion| u32::from(exclusion.source) == source.0)
    }
}
