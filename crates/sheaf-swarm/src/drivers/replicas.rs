//! Processes of the replicas of the event manager, as whoever has started them sees them.

use super::options::{DriverFault, DriverFaultKind};
use super::world::{Turn, World};
use sheaf_wire::{Nanos, NodeId, Role};

/// Time until a replica is started again that has no more part in the run.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Time after the end of the run until a replica is ended that was started again.
const EVICTION: Nanos = Nanos::from_secs(20);

impl World {
    /// Returns whether a fault may hit a replica of the event manager. Until the voters know the replicas, it is postponed. The last
    /// replica does not crash.
    pub(super) fn may_hit_replica(&mut self, index: usize) -> bool {
        let DriverFault { node, kind, .. } = self.options.faults[index];
        let is_fatal = matches!(kind, DriverFaultKind::Crash | DriverFaultKind::Kill { .. });
        let (are_known, are_protected) = {
            let terms = &self.assembly.network.lock().terms;
            (terms.are_known(), terms.are_protected())
        };
        if !are_known || (is_fatal && !are_protected && self.has_two_replicas()) {
            self.plan(self.now + Nanos::from_millis(10), Turn::Fault(index));
            return false;
        }
        !is_fatal || (are_protected && self.is_live(node.other_replica()))
    }

    /// Returns whether a fault kills a voter while the disk of another one hangs: two of three would not answer for a time.
    pub(super) fn leaves_no_majority(&self, fault: &DriverFault) -> bool {
        let voters = self.options.voters();
        let hangs_until = &self.assembly.disks.lock().hangs_until;
        let hangs = |voter: &NodeId| {
            *voter != fault.node && hangs_until.get(voter).is_some_and(|until| *until > self.now)
        };
        matches!(fault.kind, DriverFaultKind::Kill { .. })
            && voters.contains(&fault.node)
            && voters.iter().any(hangs)
    }

    /// Returns whether the run has two replicas, or will have them again, unless it ends before.
    fn has_two_replicas(&self) -> bool {
        let replicas = self.seats.iter().filter(|(node, _)| node.role == Role::Manager);
        replicas.filter(|(_, seat)| seat.driver.is_some() || seat.is_away).count() == 2
    }

    /// Starts a replica again that has no more part in the run, if the other one goes on. At the end of the run, ends the other one if it was
    /// started again and does not know of the end.
    pub(super) fn heed_end_of_replica(&mut self, node: NodeId) {
        if !self.options.standby {
            return;
        }
        let other = node.other_replica();
        if self.assembly.has_ended_run() {
            if self.newcomers.contains(&other) {
                self.plan(self.now + EVICTION, Turn::Evict(other));
            }
        } else if self.is_live(other) {
            if let Some(seat) = self.seats.get_mut(&node) {
                seat.is_away = true;
            }
            self.plan(self.now + PAUSE, Turn::Back(node));
        }
    }

    /// Returns whether a node is to be started again. A replica of the event manager is so only if the other one has not ended.
    pub(super) fn may_come_back(&mut self, node: NodeId) -> bool {
        if node.role != Role::Manager {
            return true;
        }
        let may_come = !self.assembly.has_ended_run() && self.is_live(node.other_replica());
        if may_come {
            self.newcomers.insert(node);
        } else if let Some(seat) = self.seats.get_mut(&node) {
            seat.is_away = false;
        }
        may_come
    }

    /// Ends a node that was not told of the end of the run.
    pub(super) fn evict(&mut self, node: NodeId) {
        if let Some(seat) = self.seats.get_mut(&node) {
            (seat.driver, seat.is_away) = (None, false);
        }
        self.wake_others();
    }

    pub(super) fn is_live(&self, node: NodeId) -> bool {
        self.seats.get(&node).is_some_and(|seat| seat.driver.is_some())
    }
}
