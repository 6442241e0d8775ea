//! The link between a trigger supervisor and the event manager, as a connection or as datagrams.

use crate::cluster::post::{Happening, Post};
use crate::options::{SupervisorOptions, TriggerDatagramOptions};
use sheaf_protocol::trigger_link::datagram::{Datagram, DatagramCaller, DatagramDoor};
use sheaf_protocol::trigger_link::{DatagramCounts, LinkId, Receiver, Supervisor};
use sheaf_wire::trigger_link::{FromManager, FromSupervisor};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

const LINK: LinkId = LinkId(0);

/// Address of the supervisor.
const BOARD: u16 = 0;

/// Time after which a silent supervisor is gone. It is longer than the longest silence of a simulated link.
const SILENCE: Nanos = Nanos::from_secs(3);

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Link {
    Connection(Connection),
    Datagrams(Box<Datagrams>),
}

/// A connection: messages keep their order, and none is lost.
#[derive(Debug)]
pub(super) struct Connection {
    latency: Nanos,
    there: Line<FromSupervisor>,
    back: Line<FromManager>,
    late: u64,
}

/// Both ends of a link of datagrams, and those on their way.
#[derive(Debug)]
pub(super) struct Datagrams {
    latency: Nanos,
    faults: TriggerDatagramOptions,
    door: DatagramDoor<u16>,
    caller: DatagramCaller,
    there: Line<Datagram<FromSupervisor>>,
    /// In no order.
    back: Vec<(Timestamp, Datagram<FromManager>)>,
    /// The next planned deadline.
    planned: Option<Timestamp>,
}

/// Messages on their way in one direction, in order, with their arrivals.
#[derive(Debug)]
pub(super) struct Line<T>(VecDeque<(Timestamp, T)>);

impl<T> Line<T> {
    /// Sends a message that arrives within the latency. Returns when.
    fn send(&mut self, post: &mut Post, latency: Nanos, message: T) -> Timestamp {
        let at = post.now + Nanos(post.dice.below(latency.0 + 1));
        let at = self.0.back().map_or(at, |(before, _)| at.max(*before));
        self.0.push_back((at, message));
        at
    }

    fn receive(&mut self, now: Timestamp) -> Option<T> {
        self.0.pop_front_if(|(at, _)| *at <= now).map(|(_, message)| message)
    }
}

impl Link {
    pub(super) fn new(options: SupervisorOptions, receiver: &mut Receiver) -> Self {
        let latency = options.latency;
        match options.datagrams {
            None => {
                receiver.handle_connection(LINK);
                let (there, back) = (Line(VecDeque::new()), Line(VecDeque::new()));
                Self::Connection(Connection { latency, there, back, late: 0 })
            }
            Some(faults) => Self::Datagrams(Box::new(Datagrams {
                latency,
                faults,
                door: DatagramDoor::new(None, SILENCE),
                caller: DatagramCaller::new(Timestamp::ZERO, 1, "supervisor"),
                there: Line(VecDeque::new()),
                back: Vec::new(),
                planned: None,
            })),
        }
    }

    /// Returns the number of triggers that found no room on a connection. The receiver counts those in datagrams.
    pub(super) fn late(&self) -> u64 {
        match self {
            Self::Connection(connection) => connection.late,
            Self::Datagrams(_) => 0,
        }
    }

    pub(super) fn datagram_counts(&self) -> Option<DatagramCounts> {
        match self {
            Self::Connection(_) => None,
            Self::Datagrams(datagrams) => Some(datagrams.door.counts()),
        }
    }

    /// Delivers the messages that have arrived.
    pub(super) fn deliver(&mut self, now: Timestamp, supervisor: &mut Supervisor, receiver: &mut Receiver) {
        match self {
            Self::Connection(Connection { there, back, late, .. }) => {
                while let Some(message) = back.receive(now) {
                    supervisor.handle_input(now, message);
                }
                while let Some(message) = there.receive(now) {
                    if let FromSupervisor::Triggers(triggers) = &message {
                        *late += (triggers.len() as u64).saturating_sub(receiver.room());
                    }
                    receiver.handle_input(now, LINK, message);
                }
            }
            Self::Datagrams(datagrams) => datagrams.deliver(now, supervisor, receiver),
        }
    }

    /// Hands over triggers for which there is room now.
    pub(super) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        if let Self::Datagrams(datagrams) = self {
            datagrams.door.hand_over(now, receiver);
        }
    }

    /// Sends the messages of both sides.
    pub(super) fn transmit(&mut self, post: &mut Post, supervisor: &mut Supervisor, receiver: &mut Receiver) {
        match self {
            Self::Connection(Connection { latency, there, back, .. }) => {
                while let Some(message) = supervisor.poll_transmit() {
                    let at = there.send(post, *latency, message);
                    post.plan(at, Happening::TriggerLine);
                }
                while let Some((_, message)) = receiver.poll_transmit(post.now) {
                    let at = back.send(post, *latency, message);
                    post.plan(at, Happening::TriggerLine);
                }
            }
            Self::Datagrams(datagrams) => datagrams.transmit(post, supervisor, receiver),
        }
    }

    /// Plans the next deadline of both ends.
    pub(super) fn plan(&mut self, post: &mut Post) {
        let Self::Datagrams(datagrams) = self else { return };
        let deadlines = [datagrams.door.poll_timeout(), datagrams.caller.poll_timeout()];
        let Some(next) = deadlines.into_iter().flatten().min().map(|next| next.max(post.now)) else { return };
        if datagrams.planned.is_none_or(|planned| planned <= post.now || planned > next) {
            datagrams.planned = Some(next);
            post.plan(next, Happening::TriggerLine);
        }
    }
}

impl Datagrams {
    fn deliver(&mut self, now: Timestamp, supervisor: &mut Supervisor, receiver: &mut Receiver) {
        self.back.sort_by_key(|(at, _)| *at);
        let arrived = self.back.partition_point(|(at, _)| *at <= now);
        for (_, datagram) in self.back.drain(..arrived) {
            for message in self.caller.handle_input(now, datagram) {
                supervisor.handle_input(now, message);
            }
        }
        while let Some(datagram) = self.there.receive(now) {
            self.door.handle_input(now, BOARD, datagram, receiver);
        }
        self.door.handle_timeout(now, receiver);
    }

    fn transmit(&mut self, post: &mut Post, supervisor: &mut Supervisor, receiver: &mut Receiver) {
        while let Some(datagram) = self.caller.poll_transmit(post.now, supervisor) {
            let has_triggers =
                datagram.messages.iter().any(|message| matches!(message, FromSupervisor::Triggers(_)));
            for _ in 0..self.copies(post, has_triggers) {
                let at = self.there.send(post, self.latency, datagram.clone());
                post.plan(at, Happening::TriggerLine);
            }
        }
        while let Some((_, datagram)) = self.door.poll_transmit(post.now, receiver) {
            for _ in 0..self.copies(post, false) {
                let at = post.now + Nanos(post.dice.below(self.latency.0 + 1));
                self.back.push((at, datagram.clone()));
                post.plan(at, Happening::TriggerLine);
            }
        }
    }

    /// Returns how often a datagram arrives.
    fn copies(&self, post: &mut Post, must_arrive: bool) -> usize {
        if !must_arrive && post.dice.chance(self.faults.lost) {
            return 0;
        }
        1 + usize::from(post.dice.chance(self.faults.repeated))
    }
}
