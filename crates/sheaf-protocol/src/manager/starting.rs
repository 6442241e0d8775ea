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
    /// Builder units that wait for workers that load their filters.
    pub loading: Vec<NodeId>,
}

impl<P: Clone> EventManager<P> {
    /// Returns the nodes that the run waits for. `None` after its start.
    #[must_use]
    pub fn awaited_nodes(&self) -> Option<AwaitedNodes> {
        let is_waiting = matches!(self.phase.get(), Phase::Waiting { .. });
        is_waiting.then(|| AwaitedNodes {
            absent: self.awaited_absent(),
            unfed: self.readouts.unfed().filter(|node| !self.excluded_nodes.has(*node)).collect(),
            loading: self.flow.builders().loading().filter(|node| !self.excluded_nodes.has(*node)).collect(),
        })
    }

    /// Returns the nodes that have not connected, without those that are excluded.
    pub(super) fn awaited_absent(&self) -> Vec<NodeId> {
        let mut absent = self.peers.absent();
        absent.retain(|node| !self.excluded_nodes.has(*node));
        absent
    }

    /// Returns whether a node that is connected waits for something that may take any time: programs that feed its sources are
    /// started by hand, and a filter may load for minutes.
    pub(super) fn some_wait(&self, now: Timestamp) -> bool {
        let is_lost = |node| self.peers.is_lost(node, now) || self.excluded_nodes.has(node);
        self.readouts.some_wait(is_lost) || self.flow.builders().some_wait(is_lost)
    }

    /// Returns a node that declines the start, if there is one.
    pub(super) fn declining(&self) -> Option<NodeId> {
        let is_part = |node: &NodeId| !self.excluded_nodes.has(*node);
        self.readouts.declining().chain(self.flow.builders().declining()).find(is_part)
    }

    /// Holds the start of the run, or releases it. While it is held the run waits, even if all nodes are there, and has no time
    /// limit. When it is released it starts at once if it waits for nothing, otherwise the limit begins anew. No effect after
    /// the start.
    pub fn handle_hold(&mut self, now: Timestamp, held: bool) {
        self.phase.hold(now, held);
    }

    /// Returns whether the start is held and nothing else is awaited: all nodes are connected, programs feed all sources that
    /// wait for one, and the workers of builder units have loaded their filters.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let is_lost = |node| self.peers.is_lost(node, now) && !self.excluded_nodes.has(node);
        self.phase.is_held()
            && self.awaited_absent().is_empty()
            && !self.peers.present().into_iter().any(is_lost)
            && !self.some_wait(now)
    }

    /// Starts the run without the absent nodes. It cannot start if these are all nodes of a role, or a requirement is not met.
    pub(super) fn start(&mut self, now: Timestamp, absent: Vec<NodeId>) {
        let all_absent = self.peers.absent();
        let missing = |role: Role| all_absent.iter().filter(|node| node.role == role).count();
        let nobody = missing(Role::Builder) == self.flow.builders().len()
            || missing(Role::Readout) == self.readouts.len();
        let requirement = self.unmet_at_start(now);
        if nobody || requirement.is_some() {
            self.events.push_back(ManagerEvent::StartFailed { absent, requirement });
            self.phase.give_up(now);
            return;
        }
        self.phase.start();
        self.dead_time.begin(self.begins_at.map_or(now, |at| at.min(now)));
        for node in self.peers.present() {
            self.peers.push(node, Body::Command(Command::Start));
        }
        self.steering.check_at_once();
        self.events.push_back(ManagerEvent::Started { absent });
    }
}
