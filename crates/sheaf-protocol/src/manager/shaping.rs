//! The event manager's part in traffic shaping: who sends what to whom unasked, and from when the slots of a barrel shifter
//! are counted.

use super::{EventManager, readout_node};
use crate::builder::to_ranges;
use sheaf_wire::message::{Assignment, Body, Destination, Shape};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};
use std::collections::VecDeque;

/// A readout unit is told of at most so many events in one message, and takes no more.
pub(crate) const DISPATCH_EVENTS: u64 = 4_096;

/// Assignments that readout units have not been told, where they send unasked. Bounded by the events in flight.
#[derive(Debug)]
pub(super) struct Dispatches {
    readouts: Vec<VecDeque<Destination>>,
}

impl Dispatches {
    /// For so many readout units; for none where they are asked.
    pub(super) fn new(readouts: usize) -> Self {
        Self { readouts: vec![VecDeque::new(); readouts] }
    }

    /// Takes events that a builder is given.
    pub(super) fn add(&mut self, builder: u16, batch: &[Assignment]) {
        if self.readouts.is_empty() {
            return;
        }
        let ranges = to_ranges(batch);
        for readout in &mut self.readouts {
            readout.extend(ranges.iter().map(|events| Destination { events: *events, builder }));
        }
    }

    /// Returns the next destinations to announce to a readout unit.
    fn take(&mut self, readout: usize) -> Vec<Destination> {
        let waiting = &mut self.readouts[readout];
        let mut events = 0;
        let fits = waiting.iter().take_while(|destination| {
            events += u64::from(destination.events.count);
            events <= DISPATCH_EVENTS
        });
        let count = fits.count().max(1).min(waiting.len());
        waiting.drain(..count).collect()
    }
}

/// Whether a barrel shifter turns, and since when.
#[derive(Debug)]
pub(super) struct Steering {
    tick: Nanos,
    turning: bool,
    epoch: Timestamp,
    due_at: Timestamp,
}

impl Steering {
    /// A barrel that stands.
    pub(super) fn new(tick: Nanos, now: Timestamp) -> Self {
        Self { tick, turning: false, epoch: now, due_at: now }
    }

    pub(super) fn due_at(&self) -> Timestamp {
        self.due_at
    }

    /// Somebody came or went: it is looked at once who is missing.
    pub(super) fn look_again(&mut self) {
        self.due_at = Timestamp::ZERO;
    }

    pub(super) fn shape(&self, now: Timestamp) -> Shape {
        Shape { turning: self.turning, epoch: self.epoch, clock: now }
    }
}

impl<P: Clone> EventManager<P> {
    /// Tells readout units who builds what.
    pub(super) fn dispatch(&mut self) {
        for index in 0..self.dispatches.readouts.len() {
            let node = readout_node(index);
            if self.readouts[index].status.is_none() {
                // It is not there, or lives anew: builders will ask it when they have waited.
                self.dispatches.readouts[index].clear();
            }
            while !self.dispatches.readouts[index].is_empty() && self.peers.is_open(node) {
                let destinations = self.dispatches.take(index);
                self.peers.push(node, Body::Dispatch(destinations));
            }
        }
    }

    /// Lets the barrel turn while all nodes are there, and tells readout units the time.
    pub(super) fn steer(&mut self, now: Timestamp) {
        let due = self.steering.as_ref().filter(|steering| steering.due_at <= now);
        let Some(steering) = due.filter(|_| self.phase.builds()) else {
            return;
        };
        let (was_turning, mut shape) = (steering.turning, steering.shape(now));
        shape.turning = self.is_whole(now);
        let is_news = shape.turning != was_turning;
        if is_news && shape.turning {
            shape.epoch = now;
        }
        if let Some(steering) = &mut self.steering {
            (steering.turning, steering.epoch) = (shape.turning, shape.epoch);
            steering.due_at = now + steering.tick;
        }
        for node in self.peers.present() {
            if is_news && node.role != Role::Output {
                self.peers.push(node, Body::Shape(shape));
            } else if node.role == Role::Readout {
                self.peers.say(node, self.me.plain(Body::Shape(shape)));
            }
        }
    }

    /// Whether every node is there.
    fn is_whole(&self, now: Timestamp) -> bool {
        let speaks = |node: NodeId| !self.peers.is_silent(node, now, self.config.patience.absence);
        let mut readouts = self.readouts.iter().enumerate();
        self.builders.iter().all(|(node, state)| state.lives() && speaks(node))
            && readouts.all(|(index, state)| state.status.is_some() && speaks(readout_node(index)))
    }

    /// Whether a barrel shifter turns now.
    #[must_use]
    pub fn is_barrel_turning(&self) -> bool {
        self.steering.as_ref().is_some_and(|steering| steering.turning)
    }
}
