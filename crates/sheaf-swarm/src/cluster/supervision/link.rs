//! The link between a trigger supervisor and the event manager, as a connection or as datagrams.

mod connection;
mod datagrams;

use crate::cluster::post::{Happening, Post};
use crate::options::SupervisorOptions;
use connection::Connection;
use datagrams::Datagrams;
use sheaf_protocol::trigger_link::{DatagramCounts, Receiver, Supervisor};
use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// Name of the supervisor.
const NAME: &str = "supervisor";

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Link {
    Connection(Connection),
    Datagrams(Box<Datagrams>),
}

/// Messages on their way in one direction, in order, with their arrivals.
#[derive(Debug)]
struct Line<T>(VecDeque<(Timestamp, T)>);

impl<T> Line<T> {
    fn new() -> Self {
        Self(VecDeque::new())
    }

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
        match options.datagrams {
            None => Self::Connection(Connection::new(options.latency, receiver)),
            Some(faults) => Self::Datagrams(Box::new(Datagrams::new(options, faults))),
        }
    }

    /// Returns the number of triggers that found no room on a connection. The receiver counts those in datagrams.
    pub(super) fn late(&self) -> u64 {
        match self {
            Self::Connection(connection) => connection.late(),
            Self::Datagrams(_) => 0,
        }
    }

    pub(super) fn datagram_counts(&self) -> Option<DatagramCounts> {
        match self {
            Self::Connection(_) => None,
            Self::Datagrams(datagrams) => Some(datagrams.counts()),
        }
    }

    /// Ends the life of the supervisor.
    pub(super) fn die(&mut self, post: &mut Post) {
        match self {
            Self::Connection(connection) => connection.die(post),
            // Nobody is told.
            Self::Datagrams(_) => {}
        }
    }

    /// Begins another life of the supervisor, which returns.
    pub(super) fn revive(&mut self, post: &mut Post) -> Supervisor {
        match self {
            Self::Connection(connection) => connection.connect(post),
            Self::Datagrams(datagrams) => datagrams.revive(post.now),
        }
        Supervisor::new(NAME)
    }

    /// Delivers the messages that have arrived. Those to a supervisor that is dead are lost.
    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        match self {
            Self::Connection(connection) => connection.deliver(now, supervisor, receiver),
            Self::Datagrams(datagrams) => datagrams.deliver(now, supervisor, receiver),
        }
    }

    /// Hands over triggers for which there is room now.
    pub(super) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        match self {
            Self::Connection(connection) => connection.hand_over(now, receiver),
            Self::Datagrams(datagrams) => datagrams.hand_over(now, receiver),
        }
    }

    /// Sends the messages of both sides.
    pub(super) fn transmit(
        &mut self,
        post: &mut Post,
        supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        match self {
            Self::Connection(connection) => connection.transmit(post, supervisor, receiver),
            Self::Datagrams(datagrams) => datagrams.transmit(post, supervisor, receiver),
        }
    }

    /// Plans the next deadline of both ends.
    pub(super) fn plan(&mut self, post: &mut Post, is_alive: bool) {
        if let Self::Datagrams(datagrams) = self
            && let Some(next) = datagrams.next_deadline(post.now, is_alive)
        {
            post.plan(next, Happening::TriggerLine);
        }
    }
}
