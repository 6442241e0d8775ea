//! The link between a trigger supervisor and the event manager, as a connection or as datagrams.

mod datagrams;

use crate::cluster::post::{Happening, Post};
use crate::options::SupervisorOptions;
use crate::supervisor_link::{Connection, new_supervisor};
use datagrams::Datagrams;
use sheaf_protocol::trigger_link::{DatagramCounts, Receiver, Supervisor};
use sheaf_wire::Timestamp;

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Link {
    Connection(Connection),
    Datagrams(Box<Datagrams>),
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
            Self::Connection(connection) => connection.die(post.now, &mut post.dice),
            // No datagram announces an end. The event manager notices the silence.
            Self::Datagrams(_) => {}
        }
        self.plan_arrivals(post);
    }

    /// Begins another life of the supervisor, which returns.
    pub(super) fn revive(&mut self, post: &mut Post) -> Supervisor {
        match self {
            Self::Connection(connection) => connection.connect(post.now, &mut post.dice),
            Self::Datagrams(datagrams) => datagrams.revive(post.now),
        }
        self.plan_arrivals(post);
        new_supervisor()
    }

    /// Delivers the messages that have arrived. Those to a supervisor that is dead are lost.
    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        match self {
            Self::Connection(connection) => {
                connection.deliver_back(now, supervisor);
                connection.hand_over(now, receiver);
            }
            Self::Datagrams(datagrams) => datagrams.deliver(now, supervisor, receiver),
        }
    }

    /// Hands over triggers for which there is room now.
    pub(super) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        match self {
            Self::Connection(connection) => {
                connection.hand_over(now, receiver);
            }
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
            Self::Connection(connection) => {
                if let Some(supervisor) = supervisor {
                    connection.transmit(post.now, &mut post.dice, supervisor);
                }
                connection.transmit_back(post.now, &mut post.dice, receiver);
            }
            Self::Datagrams(datagrams) => datagrams.transmit(post, supervisor, receiver),
        }
        self.plan_arrivals(post);
    }

    fn plan_arrivals(&mut self, post: &mut Post) {
        if let Self::Connection(connection) = self {
            connection.take_arrivals().into_iter().for_each(|at| post.plan(at, Happening::TriggerLine));
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
