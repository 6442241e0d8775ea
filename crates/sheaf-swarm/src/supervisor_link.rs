//! A connection between a trigger supervisor and the event manager: messages keep their order, and none is lost unless the supervisor
//! dies.

use crate::dice::Dice;
use sheaf_protocol::trigger_link::{LinkId, Receiver, ReceiverConfig, Supervisor};
use sheaf_wire::trigger_link::{BusyCause, BusyReason, FromManager, FromSupervisor, Trigger, reserve};
use sheaf_wire::{Nanos, NodeId, RunNumber, Timestamp};
use std::collections::VecDeque;

/// The first connection.
const FIRST: LinkId = LinkId(0);

/// Name of the supervisor.
pub(crate) const SUPERVISOR: &str = "supervisor";

/// Returns a new life of the supervisor's program.
pub(crate) fn new_supervisor() -> Supervisor {
    Supervisor::new(SUPERVISOR)
}

/// Returns a receiver. Before the event manager states its room, the event manager is the reason for busy.
pub(crate) fn new_receiver(config: ReceiverConfig, run: RunNumber) -> Receiver {
    let idle = BusyReason { cause: BusyCause::EventManager, culprit: Some(NodeId::MANAGER) };
    Receiver::new(config, run, idle)
}

/// Returns the number of places that are kept free for triggers in flight, which are at least `distance` apart.
pub(crate) fn trigger_reserve(latency: Nanos, distance: Nanos) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    let rate_hz = 1e9 / distance.0.max(1) as f64;
    reserve(latency, rate_hz)
}

/// Messages on their way in one direction, in order, with their arrivals.
#[derive(Debug)]
pub(crate) struct Line<T>(VecDeque<(Timestamp, T)>);

impl<T> Line<T> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Sends a message that arrives within the latency. Returns when.
    pub(crate) fn send(&mut self, now: Timestamp, dice: &mut Dice, latency: Nanos, message: T) -> Timestamp {
        let at = now + Nanos(dice.below(latency.0 + 1));
        let at = self.0.back().map_or(at, |(before, _)| at.max(*before));
        self.0.push_back((at, message));
        at
    }

    pub(crate) fn receive(&mut self, now: Timestamp) -> Option<T> {
        self.0.pop_front_if(|(at, _)| *at <= now).map(|(_, message)| message)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Connection {
    latency: Nanos,
    /// Connection of the current life of the supervisor, or of its last one.
    link: LinkId,
    there: Line<(LinkId, Segment)>,
    back: Line<(LinkId, FromManager)>,
    /// Triggers that wait for room, before everything that is on its way, and their connection.
    held: (LinkId, Vec<Trigger>),
    late: u64,
    arrivals: Vec<Timestamp>,
}

#[derive(Debug)]
enum Segment {
    Opened,
    Message(FromSupervisor),
    Closed,
}

impl Connection {
    pub(crate) fn new(latency: Nanos, receiver: &mut Receiver) -> Self {
        receiver.handle_connection(FIRST);
        Self {
            latency,
            link: FIRST,
            there: Line::new(),
            back: Line::new(),
            held: (FIRST, Vec::new()),
            late: 0,
            arrivals: Vec::new(),
        }
    }

    /// Returns the number of triggers that found no room when they arrived.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Returns the arrivals of messages that were sent since the last call.
    pub(crate) fn take_arrivals(&mut self) -> Vec<Timestamp> {
        std::mem::take(&mut self.arrivals)
    }

    /// Returns whether nothing is on its way to the supervisor.
    pub(crate) fn is_flushed(&self) -> bool {
        self.back.0.is_empty()
    }

    /// Ends the connection. The last messages on their way may be lost with it.
    pub(crate) fn die(&mut self, now: Timestamp, dice: &mut Dice) {
        let is_of_this_life = |(_, (link, segment)): &&(Timestamp, (LinkId, Segment))| {
            *link == self.link && matches!(segment, Segment::Message(_))
        };
        let messages = self.there.0.iter().rev().take_while(is_of_this_life).count();
        let lost = dice.below(messages as u64 + 1);
        self.there.0.truncate(self.there.0.len() - usize::try_from(lost).unwrap_or(messages));
        self.send(now, dice, Segment::Closed);
    }

    /// Connects the next life of the supervisor.
    pub(crate) fn connect(&mut self, now: Timestamp, dice: &mut Dice) {
        self.link = LinkId(self.link.0 + 1);
        self.send(now, dice, Segment::Opened);
    }

    fn send(&mut self, now: Timestamp, dice: &mut Dice, segment: Segment) {
        let at = self.there.send(now, dice, self.latency, (self.link, segment));
        self.arrivals.push(at);
    }

    /// Delivers what has arrived at the supervisor. Messages to an earlier life of it are lost.
    pub(crate) fn deliver_back(&mut self, now: Timestamp, supervisor: Option<&mut Supervisor>) {
        let Some(supervisor) = supervisor else {
            while self.back.receive(now).is_some() {}
            return;
        };
        while let Some((link, message)) = self.back.receive(now) {
            if link == self.link {
                supervisor.handle_input(now, message);
            }
        }
    }

    /// Hands over what has arrived at the event manager, as far as there is room for its triggers. Returns whether there was anything.
    pub(crate) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) -> bool {
        let mut is_any = self.give(now, receiver);
        while self.held.1.is_empty()
            && let Some((link, segment)) = self.there.receive(now)
        {
            is_any = true;
            match segment {
                Segment::Opened => receiver.handle_connection(link),
                Segment::Closed => receiver.handle_disconnection(now, link),
                Segment::Message(FromSupervisor::Triggers(triggers)) if receiver.is_supervisor(link) => {
                    self.late += (triggers.len() as u64).saturating_sub(receiver.room());
                    self.held = (link, triggers);
                    self.give(now, receiver);
                }
                Segment::Message(message) => receiver.handle_input(now, link, message),
            }
        }
        is_any
    }

    /// Returns whether triggers wait for room.
    pub(crate) fn holds(&self) -> bool {
        !self.held.1.is_empty()
    }

    fn give(&mut self, now: Timestamp, receiver: &mut Receiver) -> bool {
        let (link, held) = &mut self.held;
        let room = usize::try_from(receiver.room()).unwrap_or(usize::MAX).min(held.len());
        let rest = held.split_off(room);
        let triggers = std::mem::replace(held, rest);
        if triggers.is_empty() {
            return false;
        }
        receiver.handle_input(now, *link, FromSupervisor::Triggers(triggers));
        true
    }

    /// Sends the messages of the supervisor.
    pub(crate) fn transmit(&mut self, now: Timestamp, dice: &mut Dice, supervisor: &mut Supervisor) {
        while let Some(message) = supervisor.poll_transmit() {
            self.send(now, dice, Segment::Message(message));
        }
    }

    /// Sends the messages of the event manager.
    pub(crate) fn transmit_back(&mut self, now: Timestamp, dice: &mut Dice, receiver: &mut Receiver) {
        while let Some((link, message)) = receiver.poll_transmit(now) {
            let at = self.back.send(now, dice, self.latency, (link, message));
            self.arrivals.push(at);
        }
    }
}
