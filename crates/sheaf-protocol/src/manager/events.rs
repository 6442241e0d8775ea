//! Events that an event manager reports to its driver.

use super::DeadTimeCause;
use crate::ledger::NodeBooks;
use crate::numbering::Shift;
use serde::{Deserialize, Serialize};
use sheaf_wire::{ByteCount, EventId, Nanos, NodeId, Outcome, Role, SessionId, SourceId};

/// Event for the driver of the event manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagerEvent {
    /// The run has begun, without the listed nodes.
    Started {
        /// Expected nodes that did not appear in time.
        absent: Vec<NodeId>,
    },
    /// A program that feeds sources of a readout unit has declined the start, or the workers of a builder unit cannot load their
    /// filters. The run is closed.
    StartDeclined {
        /// The readout unit or builder unit.
        node: NodeId,
    },
    /// No builder or no readout unit is connected at the start, or a requirement is not met. The run is closed.
    StartFailed {
        /// Expected nodes that did not appear in time.
        absent: Vec<NodeId>,
        /// Index of the requirement, if that is the reason.
        requirement: Option<usize>,
    },
    /// Events have ended.
    Ended(Ended),
    /// A builder's session has ended during the run.
    BuilderLost {
        /// The builder.
        builder: NodeId,
        /// The session.
        session: SessionId,
        /// Number of events that it has reported as stored, from the first of its own files on, or at output nodes.
        committed: u64,
        /// Number of events that were assigned again.
        reassigned: usize,
    },
    /// No node of a role is left. The run ends if none comes within the limit.
    Deserted {
        /// Builder or readout unit.
        role: Role,
        /// Time for which the run waits.
        limit: Nanos,
    },
    /// The run ends because no node of a role was left for the limit.
    GivenUp {
        /// Builder or readout unit.
        role: Role,
        /// Time for which the run has waited.
        limit: Nanos,
    },
    /// Too many nodes of a requirement are lost.
    RequirementUnmet {
        /// Index of the requirement.
        requirement: usize,
        /// Its nodes that are missing.
        missing: Vec<NodeId>,
    },
    /// Enough nodes of a requirement are back.
    RequirementMet {
        /// Index of the requirement.
        requirement: usize,
    },
    /// An operator's exclusion of a node begins or ends.
    NodeExcluded {
        /// The readout unit or builder unit.
        node: NodeId,
        /// Whether it is excluded.
        excluded: bool,
        /// First event of which this is true.
        from: EventId,
    },
    /// A readout unit has restarted. The fragments that it held are lost.
    ReadoutRestarted {
        /// The readout unit.
        readout: NodeId,
    },
    /// The mirror of a readout unit acts for it from now on. Nothing that the unit held is lost.
    MirrorTookOver {
        /// The readout unit.
        readout: NodeId,
    },
    /// A readout unit goes on without its mirror.
    MirrorLost {
        /// The readout unit.
        readout: NodeId,
    },
    /// An output node has restarted. Events that it had not stored go to another node or to its new session.
    OutputRestarted {
        /// The output node.
        output: NodeId,
    },
    /// The fragments of a source are in the wrong events.
    ShiftFound(Shift),
    /// They are renumbered from an event on.
    ShiftRepaired(Shift),
    /// An operator has excluded a source.
    SourceExcluded {
        /// The source.
        source: SourceId,
        /// First event without it.
        first: EventId,
    },
    /// A source that was excluded is included again.
    SourceIncluded {
        /// The source.
        source: SourceId,
        /// First event with it.
        first: EventId,
    },
    /// A node has reported its books at the end.
    Reported {
        /// The node.
        node: NodeId,
        /// The node's books. Boxed because other events are small, and there may be one for each physics
        /// event.
        books: Box<NodeBooks>,
    },
    /// The run is closed.
    Closed,
}

/// Consecutive events that ended one after the other with equal properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The first of them.
    pub first: EventId,
    /// Number of events.
    pub count: u32,
    /// Outcome of the events.
    pub outcome: Outcome,
    /// Builder that ended the events. `None` if the event manager did.
    pub builder: Option<u16>,
    /// Time from the trigger or announcement of each event to the report of its end, on the event manager's clock.
    pub latency: Nanos,
    /// Payload of all events.
    pub bytes: ByteCount,
    /// Number of fragments of each event.
    pub fragments: u32,
    /// Whether a required source is missing in each.
    pub incomplete: bool,
}

impl Ended {
    /// Returns the ids of the events in ascending order.
    pub fn events(&self) -> impl Iterator<Item = EventId> + use<> {
        let first = self.first.0;
        (0..u64::from(self.count)).map(move |place| EventId(first + place))
    }

    /// Adds the event that ended next if it continues these. Returns whether it does.
    #[inline]
    pub(super) fn join(&mut self, next: &Self) -> bool {
        let continues = self.first.0.checked_add(u64::from(self.count)) == Some(next.first.0)
            && self.count < u32::MAX
            && self.latency == next.latency
            && self.fragments == next.fragments
            && (self.outcome, self.builder, self.incomplete) == (next.outcome, next.builder, next.incomplete);
        if continues {
            debug_assert_eq!(next.count, 1, "events end one by one");
            self.count += 1;
            self.bytes += next.bytes;
        }
        continues
    }
}

/// Counters of the ledger that change during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Events stored.
    pub stored: u64,
    /// Events rejected.
    pub rejected: u64,
    /// Events dropped, for all reasons.
    pub dropped: u64,
    /// Events that have not ended.
    pub in_flight: u64,
    /// Triggers vetoed.
    pub vetoed: u64,
}

impl Tallies {
    /// Returns the number of triggers that were accepted.
    #[must_use]
    pub const fn accepted(&self) -> u64 {
        self.stored + self.rejected + self.dropped + self.in_flight
    }
}

/// Reason for which a trigger was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Veto {
    /// The run has not begun, is stopping, or has all its events.
    #[error("the run is not taking triggers")]
    NotRunning,
    /// The trigger queue is full.
    #[error("the trigger queue is full: {0}")]
    Busy(DeadTimeCause),
}
