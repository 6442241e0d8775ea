//! A few nodes driven by the test's own thread, and the events that each of them has received.

use super::{Lab, Limits};
use crate::WATCHDOG;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, SendError};
use sheaf_wire::NodeId;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A running node.
pub(super) struct Actor<E> {
    pub(super) endpoint: E,
    /// Link changes in the order of their arrival.
    pub(super) changes: Vec<Change>,
    pub(super) received: VecDeque<(NodeId, Frame)>,
}

/// A link that came up or went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Up(NodeId),
    Down(NodeId, DownReason),
}

impl<E: Endpoint> Actor<E> {
    pub(super) fn new(endpoint: E) -> Self {
        Self { endpoint, changes: Vec::new(), received: VecDeque::new() }
    }

    pub(super) fn node(&self) -> NodeId {
        self.endpoint.node()
    }

    /// Runs one duty cycle. Checks that frames arrive only on links that are up, and that ups and downs alternate.
    pub(super) fn step(&mut self) {
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Received { from, frame } => {
                    assert!(self.is_up(from), "a frame from {from}, which is not up");
                    self.received.push_back((from, frame));
                }
                Event::PeerUp { peer } => {
                    assert!(!self.is_up(peer), "{peer} came up twice");
                    self.changes.push(Change::Up(peer));
                }
                Event::PeerDown { peer, reason } => {
                    assert!(self.is_up(peer), "{peer} went down but was not up");
                    self.changes.push(Change::Down(peer, reason));
                }
                Event::Refused { peer, reason } => panic!("{peer:?} was refused: {reason}"),
            }
        }
        self.endpoint.flush();
    }

    /// Returns whether the link to `peer` is up according to the received changes.
    pub(super) fn is_up(&self, peer: NodeId) -> bool {
        let last = self.changes.iter().rev().find_map(|change| match change {
            Change::Up(node) if *node == peer => Some(true),
            Change::Down(node, _) if *node == peer => Some(false),
            _ => None,
        });
        last == Some(true)
    }

    pub(super) fn went_down(&self, peer: NodeId) -> Option<DownReason> {
        self.changes.iter().rev().find_map(|change| match change {
            Change::Down(node, reason) if *node == peer => Some(*reason),
            _ => None,
        })
    }

    /// Retries sending until the queue has room. For receivers that are driven by another thread.
    pub(super) fn send_patiently(&mut self, to: NodeId, frame: Frame) {
        let mut frame = frame;
        let start = Instant::now();
        loop {
            match self.endpoint.send(to, frame) {
                Ok(()) => return,
                Err(SendError::Full(back)) => frame = back,
                Err(error) => panic!("{} to {to}: {error}", self.node()),
            }
            assert!(start.elapsed() < WATCHDOG, "no room to {to}: {:?}", self.endpoint.stats());
            self.step();
        }
    }

    /// Steps until the condition holds.
    pub(super) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            let stats = self.endpoint.stats();
            assert!(start.elapsed() < WATCHDOG, "{} waits for {what}: {stats:?}", self.node());
            self.step();
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// A network of nodes, in the order in which they were passed.
pub(super) struct World<L: Lab> {
    pub(super) lab: L,
    pub(super) actors: Vec<Actor<L::Endpoint>>,
}

impl<L: Lab> World<L> {
    /// Creates a network of these nodes, all running and connected.
    pub(super) fn new(nodes: &[NodeId], limits: Limits) -> Self {
        let mut lab = L::new(nodes, limits);
        let actors = nodes.iter().map(|node| Actor::new(lab.start(*node))).collect();
        let mut world = Self { lab, actors };
        world.until_connected();
        world
    }

    /// Creates a network of two nodes, sender and receiver, running and connected.
    pub(super) fn pair(limits: Limits) -> Self {
        Self::new(&[NodeId::readout(0), NodeId::builder(0)], limits)
    }

    pub(super) fn until_connected(&mut self) {
        let nodes: Vec<NodeId> = self.actors.iter().map(Actor::node).collect();
        self.until("all links to be up", |world| {
            let connected = |actor: &Actor<L::Endpoint>| {
                nodes.iter().all(|peer| *peer == actor.node() || actor.is_up(*peer))
            };
            world.actors.iter().all(connected)
        });
    }

    pub(super) fn step(&mut self) {
        for actor in &mut self.actors {
            actor.step();
        }
    }

    /// Steps until the condition holds.
    pub(super) fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > WATCHDOG {
                let seen: Vec<_> = self
                    .actors
                    .iter()
                    .map(|actor| (actor.node(), &actor.changes, actor.endpoint.stats()))
                    .collect();
                panic!("still waiting for {what}: {seen:#?}");
            }
            self.step();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Returns the two nodes of a pair.
    pub(super) fn two(self) -> (L, Actor<L::Endpoint>, Actor<L::Endpoint>) {
        let mut actors = self.actors.into_iter();
        match (actors.next(), actors.next()) {
            (Some(first), Some(second)) => (self.lab, first, second),
            _ => panic!("the test asked for a pair"),
        }
    }
}
