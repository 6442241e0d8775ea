//! What an event manager tells its driver.

use super::DeadTimeCause;
use crate::ledger::NodeBooks;
use sheaf_wire::{ByteCount, EventId, Nanos, NodeId, Outcome, SessionId};

/// What the driver of the event manager is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerEvent {
    /// The run has begun, without the nodes listed.
    Started {
        /// Expected nodes that did not appear in time.
        absent: Vec<NodeId>,
    },
    /// The run cannot begin: there is no builder or no readout unit. It is closed.
    StartFailed {
        /// Expected nodes that did not appear in time.
        absent: Vec<NodeId>,
    },
    /// An event has ended.
    Ended {
        /// Which.
        event: EventId,
        /// How.
        outcome: Outcome,
        /// The builder that ended it; none where the event manager did.
        builder: Option<u16>,
        /// From its trigger, or the news of it where it was announced, to the news of its end, on the event manager's
        /// clock.
        latency: Nanos,
        /// Its payload.
        bytes: ByteCount,
        /// Its fragments.
        fragments: u32,
        /// Whether a required source is missing in it.
        incomplete: bool,
    },
    /// A builder's session is over before its time.
    BuilderLost {
        /// The builder.
        builder: NodeId,
        /// The session.
        session: SessionId,
        /// How many events it has reported as stored: the first so many of its own files, or as many at output nodes.
        committed: u64,
        /// How many events were assigned again.
        reassigned: usize,
    },
    /// A readout unit has restarted; what it held is lost.
    ReadoutRestarted {
        /// The readout unit.
        readout: NodeId,
    },
    /// An output node has restarted; what it had not stored goes to another, or to its new session.
    OutputRestarted {
        /// The output node.
        output: NodeId,
    },
    /// A node has reported its books at the end.
    Reported {
        /// The node.
        node: NodeId,
        /// Its books; in a box, because other news are small and there is one for each event.
        books: Box<NodeBooks>,
    },
    /// The run is closed.
    Closed,
}

/// A glance at the books.
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

/// Why a trigger was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Veto {
    /// The run has not begun, is stopping, or has all its events.
    #[error("the run takes no triggers now")]
    NotRunning,
    /// The trigger queue is full.
    #[error("the trigger queue is full: {0}")]
    Busy(DeadTimeCause),
}
