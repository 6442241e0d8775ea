//! Messages to nodes: assignments to builder units, and to readout units the destinations, times and ends of events.

use super::shaping::Turn;
use super::{EventManager, readout_node};
use sheaf_wire::message::{Body, Command};
use sheaf_wire::{NodeId, Role, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Assigns waiting events to builders that have credit, in turn, a batch at a time.
    pub(super) fn assign(&mut self, now: Timestamp) {
        if !self.phase.builds() {
            return;
        }
        let mut idle_builders = 0;
        while idle_builders < self.flow.builders().len() {
            let builder = self.flow.next_in_turn();
            let state = self.flow.builders().get(builder);
            let takes =
                self.flow.builders().takes_events(state) && self.peers.is_open(NodeId::builder(builder));
            let begins = self.phase.is_running() && !self.phase.is_paused();
            let batch = if takes { self.flow.next_batch(now, builder, begins) } else { Vec::new() };
            if batch.is_empty() {
                idle_builders += 1;
            } else {
                idle_builders = 0;
                self.dispatches.add(builder, &batch);
                self.peers.push(NodeId::builder(builder), Body::Assign(batch));
            }
        }
        if let Some(builder) = self.flow.make_way(now) {
            self.peers.push(NodeId::builder(builder), Body::Command(Command::GiveWay));
        }
        self.dead_time.turn(now, self.shut());
    }

    /// Sends the destinations of events to readout units that send without a request.
    pub(super) fn dispatch(&mut self) {
        for index in 0..self.dispatches.readouts() {
            let node = readout_node(index);
            if !self.readouts.is_present(index) || self.excluded_nodes.has(node) {
                self.dispatches.forget(index);
            }
            while self.dispatches.has_some(index) && self.peers.is_open(node) {
                self.peers.push(node, Body::Dispatch(self.dispatches.take(index)));
            }
        }
    }

    /// Runs the barrel shifter while all nodes are connected, and sends the time to readout units.
    pub(super) fn steer(&mut self, now: Timestamp) {
        if !self.phase.builds() {
            return;
        }
        let Self { steering, peers, flow, readouts, excluded_nodes, config, .. } = self;
        let is_excluded = |node| excluded_nodes.has(node);
        let is_alive =
            |node: NodeId| !peers.is_silent(node, now, config.patience.absence) || is_excluded(node);
        let is_whole = || {
            flow.builders().iter().all(|(node, state)| (state.lives() && is_alive(node)) || is_excluded(node))
                && readouts.are_present(is_excluded)
                && readouts.nodes().all(is_alive)
        };
        let Some(Turn { shape, has_changed }) = steering.turn(now, is_whole) else {
            return;
        };
        for node in self.peers.present() {
            if has_changed && node.role != Role::Output {
                self.peers.push(node, Body::Shape(shape));
            } else if node.role == Role::Readout {
                self.peers.send_plain(node, self.me.plain(Body::Shape(shape)));
            }
        }
    }

    /// Sends ended events to readout units, and closes the units after the last of these.
    pub(super) fn release(&mut self, now: Timestamp) {
        self.flow.close_releases(now);
        let closes = self.phase.is_over();
        for index in 0..self.readouts.len() {
            let node = readout_node(index);
            while self.flow.has_releases(index) && self.peers.is_open(node) {
                self.peers.push(node, Body::Release(self.flow.take_releases(index)));
            }
            if closes
                && !self.flow.has_releases(index)
                && self.peers.is_open(node)
                && self.readouts.mark_close_sent(index)
            {
                self.peers.push(node, Body::Command(self.closing_command()));
            }
        }
    }
}
