//! When a node gives up on the event manager.

use crate::worker::NodeError;
use sheaf_protocol::liveness::{Liveness, Patience};
use sheaf_wire::{NodeId, Timestamp};

/// Watches for the event manager: a node without one waits for as long as is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vigil {
    node: NodeId,
    patience: Patience,
    /// From when on silence is counted: the node's birth, or the end of its last stall.
    listens_since: Timestamp,
}

impl Vigil {
    pub(crate) fn new(node: NodeId, patience: Patience, now: Timestamp) -> Self {
        Self { node, patience, listens_since: now }
    }

    /// The node was held up itself until now: the event manager's words may lie in its queue.
    pub(crate) fn excuse(&mut self, now: Timestamp) {
        self.listens_since = now;
    }

    /// Why the node gives up, if it does.
    pub(crate) fn end(&self, now: Timestamp, manager: &Liveness) -> Option<NodeError> {
        let mut manager = *manager;
        manager.excuse(self.listens_since);
        if manager.lost_at(self.listens_since, self.patience) > now {
            return None;
        }
        let (node, quiet) = (self.node, now.since(manager.quiet_since(self.listens_since)));
        Some(if manager.is_down() {
            NodeError::ManagerGone { node, absence: quiet }
        } else {
            NodeError::ManagerSilent { node, silence: quiet }
        })
    }
}
