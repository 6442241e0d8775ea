//! The event manager's channels to all nodes.
//!
//! With a thousand peers, polling each for messages and timers would cost more than the work itself. So a peer is polled
//! only after it was touched: by a received message, by a pushed message, or by its own deadline.

use super::ManagerConfig;
use crate::channel::Channel;
use crate::liveness::{LinkStatus, Liveness, Patience};
use crate::machine::{Deadline, Identity, Transmit, Why};
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{Nanos, NodeId, SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
struct PeerChannel<P> {
    channel: Channel<P>,
    /// Whether it is in `touched`.
    is_touched: bool,
    /// Its entry in `timers`.
    timer: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
pub(super) struct Peers<P> {
    peers: BTreeMap<NodeId, PeerChannel<P>>,
    /// Peers that may have something to send.
    touched: VecDeque<NodeId>,
    timers: BTreeSet<(Timestamp, NodeId)>,
    /// Messages outside the channels.
    plain: VecDeque<Transmit<P>>,
    patience: Patience,
    heartbeat: Nanos,
    /// Time of the next check for lost peers.
    check_at: Timestamp,
    /// Time of the next heartbeat to all peers.
    heartbeat_at: Timestamp,
}

impl<P: Clone> Peers<P> {
    pub(super) fn new(nodes: impl Iterator<Item = NodeId>, config: &ManagerConfig, now: Timestamp) -> Self {
        let peer = |node| PeerChannel {
            channel: Channel::new(node, config.channel),
            is_touched: false,
            timer: None,
        };
        Self {
            peers: nodes.map(|node| (node, peer(node))).collect(),
            touched: VecDeque::new(),
            timers: BTreeSet::new(),
            plain: VecDeque::new(),
            patience: config.patience,
            heartbeat: config.heartbeat,
            // Early, so that a stall of this node before the first check is detected as one.
            check_at: now + Nanos(config.patience.absence.0 / 4),
            heartbeat_at: now + config.heartbeat,
        }
    }

    /// Returns the channel to a peer, and schedules it to be polled for messages.
    pub(super) fn touch(&mut self, node: NodeId) -> Option<&mut Channel<P>> {
        let peer = self.peers.get_mut(&node)?;
        if !std::mem::replace(&mut peer.is_touched, true) {
            self.touched.push_back(node);
        }
        Some(&mut peer.channel)
    }

    pub(super) fn push(&mut self, node: NodeId, body: Body<P>) {
        if let Some(channel) = self.touch(node) {
            channel.push(body);
        }
    }

    /// Sends a message outside the channel: without a number, once.
    pub(super) fn send_plain(&mut self, to: NodeId, message: Message<P>) {
        self.plain.push_back(Transmit { to, message });
    }

    pub(super) fn poll_deliver(&mut self, node: NodeId) -> Option<Body<P>> {
        self.peers.get_mut(&node)?.channel.poll_deliver()
    }

    pub(super) fn reset(&mut self, node: NodeId) {
        if let Some(channel) = self.touch(node) {
            channel.reset();
        }
    }

    /// Returns whether another message can be sent to a node. It must have connected: a message without a known session
    /// could reach a later session than the one it is meant for.
    pub(super) fn is_open(&self, node: NodeId) -> bool {
        let channel = self.peers.get(&node).map(|peer| &peer.channel);
        channel.is_some_and(|channel| channel.is_open() && channel.peer_session().is_some())
    }

    /// Returns the channel to a node if another message can be sent to it.
    pub(super) fn open_channel(&self, node: NodeId) -> Option<&Channel<P>> {
        let channel = self.peers.get(&node).map(|peer| &peer.channel);
        channel.filter(|_| self.is_open(node))
    }

    /// Returns the nodes that have connected.
    pub(super) fn present(&self) -> Vec<NodeId> {
        self.nodes(|channel| channel.peer_session().is_some())
    }

    /// Returns the nodes that have not connected.
    pub(super) fn absent(&self) -> Vec<NodeId> {
        self.nodes(|channel| channel.peer_session().is_none())
    }

    fn nodes(&self, wanted: impl Fn(&Channel<P>) -> bool) -> Vec<NodeId> {
        self.peers.iter().filter(|(_, peer)| wanted(&peer.channel)).map(|(node, _)| *node).collect()
    }

    /// Records the state of the link to a node.
    pub(super) fn note_link(&mut self, now: Timestamp, node: NodeId, link: LinkStatus) {
        if let Some(channel) = self.touch(node) {
            channel.note_link(now, link);
        }
    }

    /// Returns whether there was no sign of life of a node for `timeout`, or ever.
    pub(super) fn is_silent(&self, node: NodeId, now: Timestamp, timeout: Nanos) -> bool {
        let sign = self.liveness(node).and_then(Liveness::sign_at);
        sign.is_none_or(|at| now.since(at) >= timeout)
    }

    /// Returns whether a node has never connected, or is given up.
    pub(super) fn is_lost(&self, node: NodeId, now: Timestamp) -> bool {
        self.liveness(node).is_none_or(|liveness| liveness.lost_at(now, self.patience) <= now)
    }

    /// Returns whether the link to a node is known to be down.
    pub(super) fn is_down(&self, node: NodeId) -> bool {
        self.liveness(node).is_some_and(Liveness::is_down)
    }

    /// Returns whether the link to a node is known to be up.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.liveness(node).is_some_and(Liveness::is_up)
    }

    /// Returns the present session of a node. `None` if it has not connected.
    pub(super) fn session(&self, node: NodeId) -> Option<SessionId> {
        self.peers.get(&node)?.channel.peer_session()
    }

    /// Returns the liveness of a node. `None` if it has not connected.
    fn liveness(&self, node: NodeId) -> Option<&Liveness> {
        let channel = self.peers.get(&node).map(|peer| &peer.channel);
        channel.filter(|channel| channel.peer_session().is_some()).map(Channel::liveness)
    }

    /// Returns whether the check for lost peers is due, and schedules the next one.
    pub(super) fn is_check_due(&mut self, now: Timestamp) -> bool {
        self.excuse_after_stall(now);
        if self.check_at > now {
            return false;
        }
        self.check_at = now + self.between_checks();
        true
    }

    /// Restarts the timeouts of all peers if the check for lost peers is overdue, and makes it due now. Must be called before anything
    /// depends on whether a peer is lost, since a message may be handled before the timeouts that are due.
    pub(super) fn excuse_after_stall(&mut self, now: Timestamp) {
        if now.since(self.check_at) >= self.between_checks() {
            // This node was stalled itself, by its disk or because its process was stopped. The same may have happened to
            // its peers, which have had no time to send a message since.
            self.excuse(now);
            self.check_at = now;
        }
    }

    fn between_checks(&self) -> Nanos {
        Nanos(self.patience.absence.0 / 4)
    }

    /// Sends heartbeats if they are due.
    pub(super) fn send_heartbeats(&mut self, now: Timestamp) {
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + self.heartbeat;
            self.keep_alive(now, self.heartbeat);
        }
    }

    /// Returns the times at which [`Self::is_check_due`] and [`Self::send_heartbeats`] are due.
    pub(super) fn check_timeouts(&self) -> [Deadline; 2] {
        [
            Deadline { at: self.check_at, why: Why::PeersSilent },
            Deadline { at: self.heartbeat_at, why: Why::Heartbeat },
        ]
    }

    /// Returns all nodes.
    pub(super) fn all(&self) -> Vec<NodeId> {
        self.nodes(|_| true)
    }

    /// Restarts the timeouts of all peers, and the wait for the next check.
    pub(super) fn excuse_all(&mut self, now: Timestamp) {
        self.excuse(now);
        self.check_at = now + self.between_checks();
    }

    /// Restarts the timeouts of all peers.
    fn excuse(&mut self, now: Timestamp) {
        self.peers.values_mut().for_each(|peer| peer.channel.excuse(now));
    }

    pub(super) fn repeats(&self) -> u64 {
        self.peers.values().map(|peer| peer.channel.repeats()).sum()
    }

    /// Acknowledges all received messages at once.
    pub(super) fn acknowledge_all(&mut self) {
        for node in self.present() {
            if let Some(channel) = self.touch(node) {
                channel.acknowledge_now();
            }
        }
    }

    /// Sends a keep-alive to every node that has received nothing for `interval`. Without it, a node that only
    /// waits, such as an output node, would assume that an idle event manager is dead.
    fn keep_alive(&mut self, now: Timestamp, interval: Nanos) {
        for node in self.nodes(|channel| {
            channel.peer_session().is_some() && channel.sent_at().is_none_or(|at| now.since(at) >= interval)
        }) {
            if let Some(channel) = self.touch(node) {
                channel.acknowledge_now();
            }
        }
    }

    /// Touches the peers whose deadlines have passed.
    pub(super) fn touch_due(&mut self, now: Timestamp) {
        while let Some((at, node)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.timer = None;
            }
            self.touch(node);
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Timestamp, me: &Identity) -> Option<Transmit<P>> {
        if let Some(transmit) = self.plain.pop_front() {
            return Some(transmit);
        }
        while let Some(node) = self.touched.front().copied() {
            let peer = self.peers.get_mut(&node)?;
            if let Some(message) = peer.channel.poll_transmit(now, me) {
                return Some(Transmit { to: node, message });
            }
            self.touched.pop_front();
            peer.is_touched = false;
            let timer = peer.channel.poll_timeout().map(|deadline| deadline.at);
            if peer.timer != timer {
                if let Some(at) = std::mem::replace(&mut peer.timer, timer) {
                    self.timers.remove(&(at, node));
                }
                self.timers.extend(timer.map(|at| (at, node)));
            }
        }
        None
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.timers.first().map(|(at, node)| Deadline { at: *at, why: Why::Retransmit(*node) })
    }
}
