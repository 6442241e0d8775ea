//! A connection: messages keep their order, and none is lost unless the supervisor dies.

use super::Line;
use crate::cluster::post::{Happening, Post};
use sheaf_protocol::trigger_link::{LinkId, Receiver, Supervisor};
use sheaf_wire::trigger_link::{FromManager, FromSupervisor, Trigger};
use sheaf_wire::{Nanos, Timestamp};

/// The first connection.
const FIRST: LinkId = LinkId(0);

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Connection {
    latency: Nanos,
    /// Connection of the current life of the supervisor, or of its last one.
    link: LinkId,
    there: Line<(LinkId, Segment)>,
    back: Line<(LinkId, FromManager)>,
    /// Triggers that wait for room, before everything that is on its way.
    held: Vec<Trigger>,
    /// Their connection.
    held_link: LinkId,
    late: u64,
}

#[derive(Debug)]
enum Segment {
    Opened,
    Message(FromSupervisor),
    Closed,
}

impl Connection {
    pub(super) fn new(latency: Nanos, receiver: &mut Receiver) -> Self {
        receiver.handle_connection(FIRST);
        Self {
            latency,
            link: FIRST,
            there: Line::new(),
            back: Line::new(),
            held: Vec::new(),
            held_link: FIRST,
            late: 0,
        }
    }

    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Ends the connection. The last messages on their way may be lost with it.
    pub(super) fn die(&mut self, post: &mut Post) {
        let link = self.link;
        let is_of_this_life = |(_, (other, segment)): &(Timestamp, (LinkId, Segment))| -> bool {
            *other == link && matches!(segment, Segment::Message(_))
        };
        let messages = self.there.0.iter().rev().take_while(|entry| is_of_this_life(entry)).count();
        let lost = post.dice.below(messages as u64 + 1);
        self.there.0.truncate(self.there.0.len() - usize::try_from(lost).unwrap_or(messages));
        self.send(post, Segment::Closed);
    }

    pub(super) fn connect(&mut self, post: &mut Post) {
        self.link = LinkId(self.link.0 + 1);
        self.send(post, Segment::Opened);
    }

    fn send(&mut self, post: &mut Post, segment: Segment) {
        let at = self.there.send(post, self.latency, (self.link, segment));
        post.plan(at, Happening::TriggerLine);
    }

    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        mut supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        while let Some((link, message)) = self.back.receive(now) {
            if let Some(supervisor) = supervisor.as_mut().filter(|_| link == self.link) {
                supervisor.handle_input(now, message);
            }
        }
        self.hand_over(now, receiver);
    }

    /// Hands over what has arrived, as far as there is room for its triggers.
    pub(super) fn hand_over(&mut self, now: Timestamp, receiver: &mut Receiver) {
        self.give(now, receiver);
        while self.held.is_empty()
            && let Some((link, segment)) = self.there.receive(now)
        {
            match segment {
                Segment::Opened => receiver.handle_connection(link),
                Segment::Closed => receiver.handle_disconnection(now, link),
                Segment::Message(FromSupervisor::Triggers(triggers)) if receiver.is_supervisor(link) => {
                    self.late += (triggers.len() as u64).saturating_sub(receiver.room());
                    (self.held_link, self.held) = (link, triggers);
                    self.give(now, receiver);
                }
                Segment::Message(message) => receiver.handle_input(now, link, message),
            }
        }
    }

    fn give(&mut self, now: Timestamp, receiver: &mut Receiver) {
        let room = usize::try_from(receiver.room()).unwrap_or(usize::MAX).min(self.held.len());
        let rest = self.held.split_off(room);
        let triggers = std::mem::replace(&mut self.held, rest);
        if !triggers.is_empty() {
            receiver.handle_input(now, self.held_link, FromSupervisor::Triggers(triggers));
        }
    }

    pub(super) fn transmit(
        &mut self,
        post: &mut Post,
        supervisor: Option<&mut Supervisor>,
        receiver: &mut Receiver,
    ) {
        if let Some(supervisor) = supervisor {
            while let Some(message) = supervisor.poll_transmit() {
                self.send(post, Segment::Message(message));
            }
        }
        while let Some((link, message)) = receiver.poll_transmit(post.now) {
            let at = self.back.send(post, self.latency, (link, message));
            post.plan(at, Happening::TriggerLine);
        }
    }
}
