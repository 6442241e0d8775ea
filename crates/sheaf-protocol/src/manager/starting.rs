//! The start of a run, and what it waits for.

use super::{EventManager, ManagerEvent, Phase};
use sheaf_wire::message::{Body, Command};
use sheaf_wire::{NodeId, Role, Timestamp};

/// Nodes that a run waits for before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedNodes {
    /// Nodes that have not connected.
    pub absent: Vec<NodeId>,
    /// Readout units that wait for programs to feed their sources.
    pub unfed: Vec<NodeId>,
}

impl<P: Clone> EventManager<P> {
    /// Returns the nodes that the run waits for. `None` after its start.
    #[must_use]
    pub fn awaited_nodes(&self) -> Option<AwaitedNodes> {
        let is_waiting = matches!(self.phase.get(), Phase::Waiting { .. });
        is_waiting
            .then(|| AwaitedNodes { absent: self.peers.absent(), unfed: self.readouts.unfed().collect() })
    }

    /// Starts the run without the absent nodes. It cannot start if these are all nodes of a role.
    pub(super) fn start(&mut self, now: Timestamp, absent: Vec<NodeId>) {
        let missing = |role: Role| absent.iter().filter(|node| node.role == role).count();
        let nobody = missing(Role::Builder) == self.flow.builders().len()
            || missing(Role::Readout) == self.readouts.len();
        if nobody {
            self.events.push_back(ManagerEvent::StartFailed { absent });
            self.phase.give_up(now);
            return;
        }
        self.phase.start();
        self.dead_time.begin(now);
        for node in self.peers.present() {
            self.peers.push(node, Body::Command(Command::Start));
        }
        self.steering.check_at_once();
        self.events.push_back(ManagerEvent::Started { absent });
    }
}
