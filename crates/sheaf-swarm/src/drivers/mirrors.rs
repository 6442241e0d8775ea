//! Processes of readout units that have mirrors.

use super::options::{DriverFault, DriverFaultKind};
use super::world::{Turn, World};
use sheaf_wire::{Nanos, NodeId, Role};

/// Time after the end of a fault until which its node may be given up.
const AFTERMATH: Nanos = Nanos::from_secs(1);

impl World {
    /// Returns whether a fault may hit a readout unit or its mirror. Until the two follow one another, the death of one is postponed. Once
    /// one of the two acts alone, or wants to, it does not die.
    pub(super) fn may_hit_one_of_two(&mut self, index: usize) -> bool {
        let fault = self.options.faults[index];
        let DriverFault { node, kind, .. } = fault;
        if self.options.standby && self.is_another_voter_away(&fault) {
            self.plan(self.now + Nanos::from_millis(10), Turn::Fault(index));
            return false;
        }
        if kind != DriverFaultKind::Crash || !matches!(node.role, Role::Readout | Role::Mirror) {
            return true;
        }
        let are_protected = {
            let net = self.assembly.network.lock();
            net.twins.as_ref().and_then(|twins| twins.are_protected(node.index))
        };
        match are_protected {
            Some(true) => {
                let both = [NodeId::readout(node.index), NodeId::mirror(node.index)];
                both.iter().all(|node| self.is_live(*node))
            }
            Some(false) => {
                self.plan(self.now + Nanos::from_millis(10), Turn::Fault(index));
                false
            }
            None => false,
        }
    }

    /// Returns whether a fault may take the vote of a readout unit while another voter does not vote: its mirror has not taken over yet, or has
    /// not heard what the unit knew. Two of three would be away.
    fn is_another_voter_away(&self, fault: &DriverFault) -> bool {
        let net = self.assembly.network.lock();
        let Some(twins) = &net.twins else { return false };
        let voters: Vec<NodeId> = self.options.voters();
        let is_of_unit = |voter: &NodeId| voter.role == Role::Readout && takes_vote(fault, *voter);
        let hit = voters.iter().copied().find(is_of_unit);
        let Some(hit) = hit else { return false };
        let is_recent = |other: &DriverFault, voter| {
            takes_vote(other, voter) && self.now < other.at + other.kind.lasts() + AFTERMATH
        };
        let is_away = |voter: NodeId| {
            let is_hit = self.happened.iter().any(|other| is_recent(other, voter));
            !twins.has_vote(voter.index, self.is_live(voter) && !is_hit)
        };
        voters.into_iter().any(|voter| voter != hit && voter.role == Role::Readout && is_away(voter))
    }
}

/// Returns whether a fault may end or silence a readout unit, so that its mirror takes over.
fn takes_vote(fault: &DriverFault, voter: NodeId) -> bool {
    match fault.kind {
        DriverFaultKind::Crash | DriverFaultKind::Freeze { .. } | DriverFaultKind::Starve { .. } => {
            fault.node == voter
        }
        DriverFaultKind::Cut { peer, .. } => fault.node == voter || peer == voter,
        _ => false,
    }
}
