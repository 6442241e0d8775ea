//! Inputs of the event manager, as the active one sends them to its standby.

use super::Message;
use crate::{Nanos, NodeId, SessionId, SourceId, Timestamp};
use bytes::Bytes;

/// An input of the event manager. The inputs of a round follow its [`Input::Round`].
///
/// The event manager is deterministic: the same inputs in the same order make the same state, messages and books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P> {
    /// A round begins.
    Round {
        /// Time of the round, on the clock of the replica that was active.
        now: Timestamp,
        /// Time for which this replica was held up before the round.
        stall: Nanos,
    },
    /// A message of a node. It has no payload.
    Message(Box<Message<P>>),
    /// The link to a node is up, or down.
    Link {
        /// The node.
        node: NodeId,
        /// Whether the link is up.
        up: bool,
    },
    /// Orders of the operator that have changed.
    Orders(Orders),
    /// The operator ends the run, or cuts it short.
    Stop,
    /// Digest of all messages that followed from the rounds before.
    Digest(u32),
    /// A piece of the state of the event manager, for a replica that joins. The rounds after it follow.
    Snapshot {
        /// The session of the event manager: that of the replica that was active first.
        manager: SessionId,
        /// Whether it is the last piece.
        is_last: bool,
        /// The bytes of the piece.
        bytes: Bytes,
    },
    /// The replica has joined: the voters know that it is in sync.
    Admitted,
    /// The active replica steps down at the operator's request: the standby is to take over.
    StepsDown,
    /// The replica has no part in the run any more, and may join with a new session.
    Dismissed,
}

/// Orders of an operator to the event manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Whether the start of the run is held.
    pub hold: bool,
    /// Whether the run is to be paused.
    pub pause: bool,
    /// Sources that are to be excluded. `None` if that has not changed.
    pub exclusions: Option<(Vec<SourceId>, Vec<NodeId>)>,
}
