//! The start of a run: what it waits for.

use super::{EventManager, Phase};
use sheaf_wire::NodeId;

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
}
