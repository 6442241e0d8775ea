//! A standby that takes over: nodes hear of it, and the time without an event manager is dead time.

use super::dead_time::{DeadTimeCause, Shut};
use super::{EventManager, Triggers};
use crate::liveness::LinkStatus;
use sheaf_wire::{NodeId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Takes over at `now`, where the replica that was active until `from` has ended. `is_up` returns whether this replica has a link to a
    /// node. Messages that no node has acknowledged are repeated at once.
    ///
    /// Triggers of the driver that happened in between are vetoed. Where the data announce the triggers, nothing is: readout units keep
    /// what they cannot announce.
    pub fn handle_take_over(&mut self, now: Timestamp, from: Timestamp, is_up: impl Fn(NodeId) -> bool) {
        if self.phase.is_running() && self.config.triggers != Triggers::Announced {
            let shut = Shut { cause: DeadTimeCause::TakeOver, culprit: None };
            self.dead_time.turn(from.min(now), Some(shut));
            self.dead_time.turn(now, self.shut());
            self.gap_until = now;
        }
        for node in self.peers.all() {
            self.peers.note_link(now, node, LinkStatus::Down);
            if is_up(node) {
                self.peers.note_link(now, node, LinkStatus::Up);
            }
        }
        self.peers.excuse_all(now);
        self.peers.acknowledge_all();
    }

    /// Returns whether a trigger of this time happened while there was no event manager, and counts it as vetoed.
    pub(super) fn is_in_gap(&mut self, at: Timestamp) -> bool {
        let is_in_gap = at < self.gap_until;
        if is_in_gap {
            self.dead_time.add_vetoes(DeadTimeCause::TakeOver, 1);
        }
        is_in_gap
    }
}
