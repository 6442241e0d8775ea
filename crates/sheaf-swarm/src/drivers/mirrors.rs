//! Processes of readout units that have mirrors.

use super::options::{DriverFault, DriverFaultKind};
use super::world::{Turn, World};
use sheaf_wire::{Nanos, NodeId, Role};

impl World {
    /// Returns whether a fault may hit a readout unit or its mirror. Until the two follow one another, the death of one is postponed. Once
    /// one of the two acts alone, or wants to, it does not die.
    pub(super) fn may_hit_one_of_two(&mut self, index: usize) -> bool {
        let DriverFault { node, kind, .. } = self.options.faults[index];
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
}
