//! Invariants of an outbox that a simulated network can check: the frames of a channel are sent in order, and frames that are
//! dropped with a link are counted.

use crate::violation::{Violation, violation};
use bytes::Bytes;
use sheaf_wire::{NodeId, Role, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// A message on the network.
pub(super) type Message = sheaf_wire::message::Message<Bytes>;

/// Maximum number of violations in a report.
const VIOLATIONS_MAX: usize = 3;

/// State of all channels and refused frames.
#[derive(Debug, Default)]
pub(super) struct Order {
    channels: BTreeMap<(NodeId, NodeId), Channel>,
    /// Links whose last frame was refused for lack of room and waits at its sender.
    refused: BTreeSet<(NodeId, NodeId)>,
    /// Number of links of each node's current session that went down while a frame waited for them.
    lost_with_peers: BTreeMap<NodeId, u64>,
    /// Sum of these for sessions that ended normally.
    lost_in_all: BTreeMap<NodeId, u64>,
    /// Replicas of the event manager whose process has ended. A later one goes on where the other replica was.
    ended_replicas: BTreeSet<NodeId>,
    violations: Vec<Violation>,
}

/// The channel from one session to a session of a peer.
#[derive(Debug)]
struct Channel {
    session: SessionId,
    /// Session of the peer, or 0 as long as the sender does not know it.
    peer: SessionId,
    /// Highest number that was sent.
    highest: u64,
    /// Lower numbers that were not sent.
    skipped: BTreeSet<u64>,
    /// Whether messages were dropped with the link. They are repeated one by one, when each is due.
    had_losses: bool,
}

impl Order {
    /// Records that the network has accepted a frame, so that none waits at its sender.
    pub(super) fn accepted(&mut self, from: NodeId, to: NodeId) {
        self.refused.remove(&(from, to));
    }

    /// Records the message in a frame that the network has accepted.
    pub(super) fn sent(&mut self, from: NodeId, to: NodeId, message: &Message) {
        let (session, sequence) = (message.header.session, message.header.sequence);
        if sequence == 0 {
            return;
        }
        let peer = message.header.acknowledged_session;
        let fresh = || Channel { session, peer, highest: 0, skipped: BTreeSet::new(), had_losses: false };
        // A replica of the event manager that takes over goes on where the other one was.
        let is_first = from == NodeId::MANAGER || from.role != Role::Manager;
        let is_first = is_first && (to == NodeId::MANAGER || to.role != Role::Manager);
        let is_first = is_first && !self.ended_replicas.contains(&from);
        // So does a mirror, and whoever turns to it.
        let is_first = is_first && from.role != Role::Mirror && to.role != Role::Mirror;
        // It repeats what was not acknowledged, each message when it is due.
        let highest = if is_first { 0 } else { sequence - 1 };
        let goes_on = || Channel { highest, had_losses: !is_first, ..fresh() };
        let channel = self.channels.entry((from, to)).or_insert_with(goes_on);
        // Numbers of channels to another session of the peer begin with 1.
        if channel.session != session || (channel.peer != peer && channel.peer != SessionId(0)) {
            // Messages that wait for the previous session may still be sent.
            *channel = Channel { highest: sequence - 1, ..fresh() };
        }
        channel.peer = peer;
        if channel.skipped.remove(&sequence) && !channel.had_losses && self.violations.len() < VIOLATIONS_MAX
        {
            let highest = channel.highest;
            self.violations
                .push(violation!("{from} sent message {sequence} to {to} after message {highest}"));
        }
        channel.skipped.extend(channel.highest + 1..sequence);
        channel.highest = channel.highest.max(sequence);
    }

    /// Records a frame for which the network has no room.
    pub(super) fn refused(&mut self, from: NodeId, to: NodeId) {
        self.refused.insert((from, to));
    }

    /// Records that a node has polled a disconnection. Frames that wait for the peer are dropped.
    pub(super) fn peer_down(&mut self, node: NodeId, peer: NodeId) {
        self.channels.entry((node, peer)).and_modify(|channel| channel.had_losses = true);
        if self.refused.remove(&(node, peer)) {
            *self.lost_with_peers.entry(node).or_default() += 1;
        }
    }

    /// Records the end of a node's session, normal (`is_closed`) or not.
    pub(super) fn session_ends(&mut self, node: NodeId, is_closed: bool) {
        self.refused.retain(|(from, _)| *from != node);
        if node.role == Role::Manager {
            self.channels.retain(|(from, _), _| *from != node);
            self.ended_replicas.insert(node);
        }
        let lost = self.lost_with_peers.remove(&node).unwrap_or_default();
        if is_closed {
            *self.lost_in_all.entry(node).or_default() += lost;
        }
    }

    /// Returns the minimum number of frames that a node must have counted as dropped.
    pub(super) fn least_dropped(&self, node: NodeId) -> u64 {
        self.lost_in_all.get(&node).copied().unwrap_or_default()
    }

    /// Returns all violations so far.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::RunNumber;
    use sheaf_wire::message::{Body, Header};

    const FROM: NodeId = NodeId::builder(0);
    const TO: NodeId = NodeId::MANAGER;

    fn message(sequence: u64) -> Message {
        let header = Header {
            run: RunNumber(1),
            sender: FROM,
            session: SessionId(1),
            sequence,
            acknowledged: 0,
            acknowledged_session: SessionId(0),
            term: sheaf_wire::Term(0),
        };
        Message { header, body: Body::Acknowledge }
    }

    fn after(sequences: &[u64]) -> Order {
        let mut order = Order::default();
        sequences.iter().for_each(|sequence| order.sent(FROM, TO, &message(*sequence)));
        order
    }

    #[test]
    fn repeated_messages_are_in_order_and_late_ones_are_not() {
        assert!(after(&[1, 2, 0, 3, 2, 3, 4, 1, 2]).violations().is_empty());
        assert_eq!(after(&[1, 3, 2]).violations(), ["bu0 sent message 2 to evm after message 3".into()]);
    }

    #[test]
    fn a_frame_that_waits_for_a_peer_that_disconnects_must_be_counted() {
        let mut order = after(&[1]);
        order.refused(FROM, TO);
        order.peer_down(FROM, TO);
        order.session_ends(FROM, true);
        order.refused(FROM, TO);
        order.accepted(FROM, TO);
        order.peer_down(FROM, TO);
        order.session_ends(FROM, true);
        assert_eq!(order.least_dropped(FROM), 1);
    }
}
