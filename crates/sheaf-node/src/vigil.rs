//! When a node gives up on the event manager.

use crate::outbox::LINGER;
use crate::worker::NodeError;
use sheaf_protocol::liveness::{Liveness, Patience};
use sheaf_wire::{Nanos, NodeId, Timestamp};

/// Length of a stall after which messages of the event manager may be waiting in the queue.
const LONG_STALL: Nanos = Nanos::from_millis(500);

/// Watches the event manager: a node waits for a missing one as long as configured.
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

    /// Excuses the event manager because the node itself was held up: messages may be in its queue.
    pub(crate) fn excuse(&mut self, now: Timestamp) {
        self.listens_since = now;
    }

    /// Excuses the event manager if the node was held up for a long `stall`.
    pub(crate) fn handle_stall(&mut self, now: Timestamp, stall: Nanos) {
        if stall >= LONG_STALL {
            self.excuse(now);
        }
    }

    /// Returns whether a node that closed at `closed_at` still waits for the event manager to acknowledge its account:
    /// while the event manager lives, or has been gone for less than [`LINGER`].
    pub(crate) fn lingers(&self, now: Timestamp, closed_at: Timestamp, manager: &Liveness) -> bool {
        if manager.is_down() {
            now.since(manager.quiet_since(closed_at).max(closed_at)) < LINGER
        } else {
            self.end(now, manager).is_none()
        }
    }

    /// Returns whether a node whose role is finished may end: nobody may ask it for a vote, or the event manager has ended.
    pub(crate) fn may_end(&self, now: Timestamp, may_be_asked: bool, manager: &Liveness) -> bool {
        !may_be_asked || self.end(now, manager).is_some()
    }

    /// Returns the error of a node that leaves the run for its version.
    pub(crate) fn leave(&self, reason: Option<&str>) -> Option<NodeError> {
        reason.map(|why| NodeError::NoCommonVersion { node: self.node, why: why.to_owned() })
    }

    /// Returns the reason why the node gives up, if it does.
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

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_protocol::liveness::LinkStatus;
    use sheaf_wire::Nanos;

    const PATIENCE: Patience = Patience { absence: Nanos::from_secs(16), silence: Nanos::from_secs(136) };

    fn second(at: u64) -> Timestamp {
        Timestamp(at * 1_000_000_000)
    }

    #[test]
    fn books_wait_for_an_event_manager_that_lives_and_not_for_one_that_is_gone() {
        let vigil = Vigil::new(NodeId::readout(0), PATIENCE, second(0));
        let mut manager = Liveness::default();
        manager.note_link(second(1), LinkStatus::Up);
        manager.note_message(second(10));
        assert!(vigil.lingers(second(60), second(10), &manager), "it is starved, and lives");
        assert!(!vigil.lingers(second(146), second(10), &manager), "it is silent beyond all patience");
        manager.note_link(second(20), LinkStatus::Down);
        assert!(vigil.lingers(second(21), second(10), &manager));
        assert!(!vigil.lingers(second(22), second(10), &manager));
    }
}
