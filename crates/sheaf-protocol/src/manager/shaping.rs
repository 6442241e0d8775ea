//! The event manager's part in traffic shaping: the destinations of events that are sent without a request, and the epoch of
//! a barrel shifter's time slots.

use super::Shaping;
use crate::builder::to_ranges;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Assignment, Destination, Shape};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// Maximum number of events announced to a readout unit in one message.
pub(crate) const DISPATCH_EVENTS: u64 = 4_096;

/// Assignments that have not been announced to readout units yet, if these send without a request. Bounded by the events in
/// flight.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Dispatches {
    readouts: Vec<VecDeque<Destination>>,
}

impl Dispatches {
    /// Creates empty queues for `readouts` readout units. With pull or a barrel shifter there are no queues.
    pub(super) fn new(shaping: Shaping, readouts: u16) -> Self {
        let readouts = match shaping {
            Shaping::Push => usize::from(readouts),
            Shaping::Pull | Shaping::Barrel { .. } => 0,
        };
        Self { readouts: vec![VecDeque::new(); readouts] }
    }

    /// Adds events that are assigned to a builder.
    pub(super) fn add(&mut self, builder: u16, batch: &[Assignment]) {
        if self.readouts.is_empty() {
            return;
        }
        let ranges = to_ranges(batch);
        for readout in &mut self.readouts {
            readout.extend(ranges.iter().map(|events| Destination { events: *events, builder }));
        }
    }

    /// Returns the number of readout units that send without a request; 0 if builders request fragments.
    pub(super) fn readouts(&self) -> usize {
        self.readouts.len()
    }

    /// Discards the destinations for a readout unit that has disconnected or restarted. Builders request
    /// these events after their retry time.
    pub(super) fn forget(&mut self, readout: usize) {
        self.readouts[readout].clear();
    }

    /// Returns whether there are destinations to send to a readout unit.
    pub(super) fn has_some(&self, readout: usize) -> bool {
        !self.readouts[readout].is_empty()
    }

    /// Returns the next destinations to announce to a readout unit.
    pub(super) fn take(&mut self, readout: usize) -> Vec<Destination> {
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

/// State of a barrel shifter: whether it is running, and since when. Without effect for other kinds of shaping.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Steering {
    /// Interval at which the time is sent to readout units. `None` without a barrel shifter.
    tick: Option<Nanos>,
    turning: bool,
    epoch: Timestamp,
    due_at: Timestamp,
}

/// Message about the barrel shifter to other nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) shape: Shape,
    /// Whether it starts or stops, which is sent to every node. Otherwise the message is the time for readout units.
    pub(super) has_changed: bool,
}

impl Steering {
    /// Creates a barrel shifter that is stopped.
    pub(super) fn new(shaping: Shaping, now: Timestamp) -> Self {
        let tick = match shaping {
            Shaping::Barrel { tick } => Some(tick),
            Shaping::Pull | Shaping::Push => None,
        };
        Self { tick, turning: false, epoch: now, due_at: now }
    }

    /// Returns the time of the next check for missing nodes.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        self.tick.map(|_| self.due_at)
    }

    /// Checks at once for missing nodes, because a node connected or disconnected.
    pub(super) fn check_at_once(&mut self) {
        self.due_at = Timestamp::ZERO;
    }

    /// Returns the state of the barrel shifter for a node that connects. `None` without a barrel shifter.
    pub(super) fn shape(&self, now: Timestamp) -> Option<Shape> {
        self.tick.map(|_| self.shape_at(now))
    }

    fn shape_at(&self, now: Timestamp) -> Shape {
        Shape { turning: self.turning, epoch: self.epoch, clock: now }
    }

    /// Returns whether a barrel shifter is running.
    pub(super) fn is_turning(&self) -> bool {
        self.turning
    }

    /// Starts or stops the barrel shifter if a check is due, depending on whether all nodes are connected. Returns the
    /// message for them.
    pub(super) fn turn(&mut self, now: Timestamp, is_whole: impl FnOnce() -> bool) -> Option<Turn> {
        let tick = self.tick.filter(|_| self.due_at <= now)?;
        let was_turning = std::mem::replace(&mut self.turning, is_whole());
        let has_changed = self.turning != was_turning;
        if has_changed && self.turning {
            self.epoch = now;
        }
        self.due_at = now + tick;
        Some(Turn { shape: self.shape_at(now), has_changed })
    }
}
