//! The simulated network of the drivers: endpoints with delays and bounded queues, with connections and disconnections as a
//! kernel reports them.
//!
//! A frame is in flight until it reaches the inbox of its receiver, and stays there until it is polled. During this time it
//! occupies the queue of its link. A process that is stopped polls nothing, and its kernel reports nothing. A process that
//! dies closes its connections: the frames that it had sent arrive, followed by [`DownReason::Lost`].

use super::options::{LinkOptions, START};
use super::order::{Message, Order};
use super::terms::Terms;
use super::twins::Twins;
use crate::dice::{Dice, mix};
use sheaf_transport::{DownReason, Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[derive(Debug, Default)]
struct FrameLink {
    /// Whether the sender has polled that it is up.
    is_up: bool,
    /// Whether the receiver has died, but the sender has not polled that yet. Frames are lost.
    is_broken: bool,
    last_arrival: Timestamp,
    clogged_until: Timestamp,
    frames: usize,
    bytes: u64,
    /// Whether a frame was refused. The sender is woken when there is room.
    has_refused: bool,
}

/// State that all endpoints share.
#[derive(Debug)]
pub(super) struct Net {
    /// Time of the current round.
    pub(super) now: Timestamp,
    options: LinkOptions,
    dice: Dice,
    order: u64,
    inboxes: BTreeMap<NodeId, BTreeMap<(Timestamp, u64), Event>>,
    attached: BTreeSet<NodeId>,
    links: BTreeMap<(NodeId, NodeId), FrameLink>,
    /// Nodes to wake, with the time.
    wakes: Vec<(NodeId, Timestamp)>,
    /// Time that filters and disks take in the current round.
    cost: Nanos,
    /// Hash of all frames, by which two runs are compared.
    hash: u64,
    /// Number of frames sent.
    pub(super) frames: u64,
    /// Number of frames sent and polled, and of calls of filters and disks.
    pub(super) actions: u64,
    pub(super) order_of_frames: Order,
    /// Terms in which nodes take messages of the event manager.
    pub(super) terms: Terms,
    /// Messages of readout units and their mirrors, if there are mirrors.
    pub(super) twins: Option<Twins>,
    /// Nodes to which a forged message will be sent.
    to_forge: BTreeSet<NodeId>,
    /// Number of forged messages sent to each node.
    forged: BTreeMap<NodeId, u64>,
    /// Log of all messages and polls, line by line, if it is kept.
    pub(super) log: Option<String>,
}

/// A handle of the network.
#[derive(Clone, Debug)]
pub(super) struct Network(Arc<Mutex<Net>>);

/// Returns the beginning of a frame's content as text.
fn describe(frame: &Frame) -> String {
    const LETTERS: usize = 160;
    match Message::decode(&frame.head, &mut frame.payload.clone()) {
        Ok(message) => format!("{:?}", message.body).chars().take(LETTERS).collect(),
        Err(error) => error.to_string(),
    }
}

/// Returns whether two nodes have a link.
fn are_linked(one: NodeId, other: NodeId) -> bool {
    let pair = |first, second| {
        (one.role == first && other.role == second) || (one.role == second && other.role == first)
    };
    one != other
        && (one.role == Role::Manager
            || other.role == Role::Manager
            || pair(Role::Readout, Role::Builder)
            || pair(Role::Builder, Role::Output)
            || pair(Role::Builder, Role::Mirror)
            || (pair(Role::Readout, Role::Mirror) && one.index == other.index))
}

impl Network {
    pub(super) fn new(seed: u64, options: LinkOptions) -> Self {
        Self(Arc::new(Mutex::new(Net {
            now: Timestamp::ZERO,
            options,
            dice: Dice::new(seed, 20),
            order: 0,
            inboxes: BTreeMap::new(),
            attached: BTreeSet::new(),
            links: BTreeMap::new(),
            wakes: Vec::new(),
            cost: Nanos::ZERO,
            hash: mix(seed),
            frames: 0,
            actions: 0,
            order_of_frames: Order::default(),
            terms: Terms::default(),
            twins: None,
            to_forge: BTreeSet::new(),
            forged: BTreeMap::new(),
            log: None,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches a node in a new session, and reports it and its peers to each other.
    pub(super) fn attach(&self, node: NodeId) -> Box<dyn Endpoint> {
        let mut net = self.lock();
        assert!(net.attached.insert(node), "{node} is attached already");
        net.inboxes.insert(node, BTreeMap::new());
        let peers: Vec<NodeId> =
            net.attached.iter().copied().filter(|peer| are_linked(node, *peer)).collect();
        for peer in peers {
            net.arrive(peer, node, Event::PeerUp { peer });
            net.arrive(node, peer, Event::PeerUp { peer: node });
        }
        Box::new(SimEndpoint { node, network: self.clone(), is_closed: false, stats: LinkStats::default() })
    }
}

impl Net {
    /// Adds the time of a filter or disk to the current round.
    pub(super) fn spend(&mut self, time: Nanos) {
        self.actions += 1;
        self.cost = self.cost + time;
    }

    /// Extends the current round until `until`.
    pub(super) fn wait_until(&mut self, until: Timestamp) {
        self.cost = self.cost.max(until.since(self.now));
    }

    pub(super) fn take_cost(&mut self) -> Nanos {
        std::mem::take(&mut self.cost)
    }

    pub(super) fn take_wakes(&mut self) -> Vec<(NodeId, Timestamp)> {
        std::mem::take(&mut self.wakes)
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Adds a value to the hash of the run.
    pub(super) fn note(&mut self, value: u64) {
        self.hash = mix(self.hash ^ value);
    }

    /// Returns the time of the first arrival that a node has not polled.
    pub(super) fn first_arrival(&self, node: NodeId) -> Option<Timestamp> {
        self.inboxes.get(&node)?.keys().next().map(|(at, _)| *at)
    }

    /// Holds back frames between two nodes until `until`.
    pub(super) fn clog(&mut self, one: NodeId, other: NodeId, until: Timestamp) {
        self.hold_back(one, other, until);
        self.hold_back(other, one, until);
    }

    /// Holds back frames from a node to another until `until`.
    pub(super) fn hold_back(&mut self, from: NodeId, to: NodeId, until: Timestamp) {
        let link = self.links.entry((from, to)).or_default();
        link.clogged_until = link.clogged_until.max(until);
    }

    /// Wakes a node at `at`.
    pub(super) fn wake(&mut self, node: NodeId, at: Timestamp) {
        self.wakes.push((node, at));
    }

    /// Returns the number of events in a node's inbox, for diagnostics.
    pub(super) fn waiting_for(&self, node: NodeId) -> usize {
        self.inboxes.get(&node).map_or(0, BTreeMap::len)
    }

    /// Schedules the arrival of an event behind all others of its link.
    fn arrive(&mut self, from: NodeId, to: NodeId, event: Event) {
        let jitter = self.dice.exponential(self.options.jitter);
        let link = self.links.entry((from, to)).or_default();
        let at = self.now.max(link.clogged_until) + self.options.delay + jitter;
        link.last_arrival = link.last_arrival.max(at);
        let at = link.last_arrival;
        self.order += 1;
        if let Some(inbox) = self.inboxes.get_mut(&to) {
            inbox.insert((at, self.order), event);
            self.wakes.push((to, at));
        }
        self.hash = mix(self.hash ^ at.0 ^ mix(u64::from(from.to_code())) ^ u64::from(to.to_code()));
    }

    fn send(&mut self, from: NodeId, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let (frames, bytes) = (self.options.queue_frames, self.options.queue.0);
        if !are_linked(from, to) {
            return Err(SendError::UnknownPeer(frame));
        }
        let link = self.links.entry((from, to)).or_default();
        if !link.is_up {
            return Err(SendError::NotConnected(frame));
        }
        let message = Message::decode(&frame.head, &mut frame.payload.clone());
        if link.is_broken {
            // Sent before the sender has polled that the peer has disconnected.
            self.order_of_frames.accepted(from, to);
            message.iter().for_each(|message| self.order_of_frames.sent(from, to, message));
            return Ok(());
        }
        // The first frame always fits.
        let size = frame.bytes() as u64;
        if link.frames > 0 && (link.frames >= frames || link.bytes + size > bytes) {
            link.has_refused = true;
            self.order_of_frames.refused(from, to);
            return Err(SendError::Full(frame));
        }
        link.frames += 1;
        link.bytes += size;
        if let Some(log) = &mut self.log {
            let what = describe(&frame);
            writeln!(log, "{} {from} > {to} {what}", self.now.since(START))
                .expect("writing to a string cannot fail");
        }
        self.frames += 1;
        let content =
            frame.head.iter().fold(size, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        self.note(content);
        self.actions += 1;
        self.arrive(from, to, Event::Received { from, frame });
        self.order_of_frames.accepted(from, to);
        // A frame that cannot be decoded is not part of a channel. Its receiver counts it.
        if let Ok(message) = message {
            self.order_of_frames.sent(from, to, &message);
            self.twins.iter_mut().for_each(|twins| twins.sent(from, to, &message));
            if self.to_forge.contains(&to) {
                self.forge(from, to, message);
            }
        }
        Ok(())
    }

    /// Schedules a forged message to a node: one peer sends it in the name of another.
    pub(super) fn forge_soon(&mut self, victim: NodeId) {
        self.to_forge.insert(victim);
    }

    /// Returns the number of forged messages sent to a node.
    pub(super) fn forged(&self, node: NodeId) -> u64 {
        self.forged.get(&node).copied().unwrap_or_default()
    }

    /// Sends a message again in the name of a later session of another node of the same role.
    fn forge(&mut self, from: NodeId, to: NodeId, mut message: Message) {
        let is_sibling = |node: &NodeId| node.role == from.role && *node != from;
        let Some(sibling) = self.attached.iter().copied().find(is_sibling) else { return };
        self.to_forge.remove(&to);
        *self.forged.entry(to).or_default() += 1;
        message.header.sender = sibling;
        message.header.session.0 += 1_000;
        let (mut head, mut payload) = (Vec::new(), VecDeque::new());
        message.encode(&mut head, |piece| payload.push_back(piece));
        let frame = Frame { head: head.into(), payload };
        let link = self.links.entry((from, to)).or_default();
        link.frames += 1;
        link.bytes += frame.bytes() as u64;
        self.arrive(from, to, Event::Received { from, frame });
    }

    fn poll(&mut self, node: NodeId) -> Option<Event> {
        let entry = self.inboxes.get_mut(&node)?.first_entry()?;
        if entry.key().0 > self.now {
            return None;
        }
        let event = entry.remove();
        self.actions += 1;
        if let Some(log) = &mut self.log {
            let what = match &event {
                Event::Received { from, frame } => format!("{from} {}", describe(frame)),
                other => format!("{other:?}"),
            };
            writeln!(log, "{} {node} < {what}", self.now.since(START))
                .expect("writing to a string cannot fail");
        }
        match &event {
            Event::Received { from, frame } => {
                let (from, size) = (*from, frame.bytes() as u64);
                if matches!(from.role, Role::Manager | Role::Mirror)
                    && let Ok(message) = Message::decode(&frame.head, &mut frame.payload.clone())
                {
                    self.twins.iter_mut().for_each(|twins| twins.arrived(from, node));
                    if from.role == Role::Manager {
                        self.terms.arrived(from, node, &message);
                    }
                }
                let link = self.links.entry((from, node)).or_default();
                link.frames = link.frames.saturating_sub(1);
                link.bytes = link.bytes.saturating_sub(size);
                if std::mem::take(&mut link.has_refused) {
                    self.wakes.push((from, self.now));
                }
            }
            Event::PeerUp { peer } => {
                let link = self.links.entry((node, *peer)).or_default();
                // What was sent over an earlier link, perhaps after its peer had ended, takes no room in this one.
                (link.is_up, link.is_broken, link.frames, link.bytes) = (true, false, 0, 0);
            }
            Event::PeerDown { peer, .. } => {
                self.links.entry((node, *peer)).or_default().is_up = false;
                self.order_of_frames.peer_down(node, *peer);
            }
            Event::Refused { .. } => {}
        }
        Some(event)
    }

    /// Detaches a node. Its peers receive the disconnection after all frames that it has sent.
    fn detach(&mut self, node: NodeId, reason: DownReason) {
        if !self.attached.remove(&node) {
            return;
        }
        self.inboxes.remove(&node);
        self.order_of_frames.session_ends(node, reason == DownReason::Closed);
        self.terms.session_ends(node, reason == DownReason::Closed);
        let peers: Vec<NodeId> =
            self.attached.iter().copied().filter(|peer| are_linked(node, *peer)).collect();
        for peer in peers {
            // Frames in flight to it are lost.
            let back = self.links.entry((peer, node)).or_default();
            (back.frames, back.bytes, back.is_broken) = (0, 0, true);
            self.links.entry((node, peer)).or_default().is_up = false;
            self.arrive(node, peer, Event::PeerDown { peer: node, reason });
        }
    }
}

/// A node's endpoint.
struct SimEndpoint {
    node: NodeId,
    network: Network,
    is_closed: bool,
    stats: LinkStats,
}

impl Endpoint for SimEndpoint {
    fn node(&self) -> NodeId {
        self.node
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        if self.is_closed {
            return Err(SendError::NotConnected(frame));
        }
        let bytes = frame.bytes() as u64;
        self.network.lock().send(self.node, to, frame)?;
        self.stats.frames_sent += 1;
        self.stats.bytes_sent += bytes;
        Ok(())
    }

    fn flush(&mut self) {}

    fn poll(&mut self) -> Option<Event> {
        self.network.lock().poll(self.node)
    }

    fn wait(&mut self, _timeout: Nanos) {}

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }

    fn close(&mut self, _linger: Nanos) {
        self.is_closed = true;
        self.network.lock().detach(self.node, DownReason::Closed);
    }
}

impl Drop for SimEndpoint {
    fn drop(&mut self) {
        if !self.is_closed {
            self.network.lock().detach(self.node, DownReason::Lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use sheaf_wire::ByteCount;

    fn frame(length: usize) -> Frame {
        Frame::new(Bytes::from(vec![1; length]), [])
    }

    fn network() -> Network {
        let options =
            LinkOptions { delay: Nanos(100), jitter: Nanos(50), queue_frames: 4, queue: ByteCount(1_000) };
        Network::new(1, options)
    }

    fn at(network: &Network, now: u64) {
        network.lock().now = Timestamp(now);
    }

    #[test]
    fn frames_arrive_in_order_between_the_events_that_a_peer_is_up_and_that_it_is_down() {
        let network = network();
        let (mut one, mut two) = (network.attach(NodeId::MANAGER), network.attach(NodeId::builder(0)));
        assert!(matches!(two.send(NodeId::MANAGER, frame(1)), Err(SendError::NotConnected(_))));
        at(&network, 100_000);
        assert_eq!(two.poll(), Some(Event::PeerUp { peer: NodeId::MANAGER }));
        for length in 1..4 {
            two.send(NodeId::MANAGER, frame(length)).expect("the link is up");
        }
        drop(two);
        at(&network, 200_000);
        let events: Vec<Event> = std::iter::from_fn(|| one.poll()).collect();
        assert_eq!(events.len(), 5, "{events:?}");
        assert_eq!(events[0], Event::PeerUp { peer: NodeId::builder(0) });
        let lengths: Vec<usize> = events
            .iter()
            .filter_map(|event| match event {
                Event::Received { frame, .. } => Some(frame.bytes()),
                _ => None,
            })
            .collect();
        assert_eq!(lengths, [1, 2, 3]);
        assert_eq!(events[4], Event::PeerDown { peer: NodeId::builder(0), reason: DownReason::Lost });
    }

    #[test]
    fn a_full_queue_refuses_until_its_receiver_polls() {
        let network = network();
        let (mut one, mut two) = (network.attach(NodeId::MANAGER), network.attach(NodeId::builder(0)));
        at(&network, 100_000);
        assert!(two.poll().is_some());
        for _ in 0..4 {
            two.send(NodeId::MANAGER, frame(10)).expect("there is room");
        }
        assert!(matches!(two.send(NodeId::MANAGER, frame(10)), Err(SendError::Full(_))));
        at(&network, 200_000);
        network.lock().take_wakes();
        assert!(one.poll().is_some() && one.poll().is_some(), "the connection, and a frame");
        assert!(network.lock().take_wakes().contains(&(NodeId::builder(0), Timestamp(200_000))));
        two.send(NodeId::MANAGER, frame(10)).expect("there is room again");
    }
}
