//! Messages between a node and the two replicas of the event manager.

use super::{Arriving, Kind, Outbox, frame_of};
use bytes::Bytes;
use sheaf_protocol::Transmit;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::standby::{Admission, Member};
use sheaf_wire::machine::Identity;
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{Nanos, NodeId, Role, Timestamp};

/// The part of a node that talks to two replicas.
pub(super) struct MemberLinks {
    pub(super) member: Member,
    me: Identity,
    now: Timestamp,
}

impl Outbox {
    /// Listens to two replicas of the event manager from now on. A voter has `vote`: the silence after which the active one may be
    /// succeeded.
    pub(crate) fn join(&mut self, me: Identity, vote: Option<Nanos>) {
        self.member = Some(MemberLinks { member: Member::new(&me, vote), me, now: Timestamp::ZERO });
    }

    /// Makes this the outbox of a replica of the event manager.
    pub(crate) fn become_replica(&mut self) {
        self.is_replica = true;
    }

    /// Returns whether a replica of the event manager may still ask this node for a vote.
    pub(crate) fn may_be_asked(&self) -> bool {
        self.member.as_ref().is_some_and(|links| links.member.may_be_asked())
    }

    /// Begins a round of the node, for its judgement of replicas.
    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        if let Some(links) = &mut self.member {
            links.now = now;
        }
    }

    /// Returns whether a message that says to be from `sender` may come over the link to `from`. Each replica of the event manager may
    /// speak for it.
    pub(super) fn is_of(&self, from: NodeId, sender: NodeId) -> bool {
        let has_replicas = self.member.is_some() || self.is_replica;
        from == sender
            || self.is_of_mirror(from, sender)
            || (has_replicas && from.role == Role::Manager && sender.role == Role::Manager)
    }

    /// Addresses a message to the event manager to its active replica, and one to a readout unit whose mirror acts to the mirror.
    pub(super) fn address<P>(&self, mut transmit: Transmit<P>) -> Transmit<P> {
        transmit.to = self.mirrors.as_ref().map_or(transmit.to, |links| links.address(transmit.to));
        if let Some(MemberLinks { member, .. }) =
            self.member.as_ref().filter(|_| transmit.to == NodeId::MANAGER)
        {
            transmit.to = member.active();
            transmit.message.header.term = member.term();
        }
        transmit
    }

    /// Returns a message that is for the role: not a request for a vote, and not of a replica that was succeeded.
    pub(super) fn admit<P: Arriving>(&mut self, from: NodeId, message: Message<P>) -> Option<Message<P>> {
        if from.role != Role::Manager || self.member.is_none() {
            return Some(message);
        }
        let links = self.member.as_mut()?;
        let (now, me) = (links.now, links.me);
        if message.header.run != me.run {
            return Some(message);
        }
        if let Body::Vote(request) = message.body {
            let answer = links.member.vote(now, (from, message.header.session), request);
            if let Some(answer) = answer {
                self.reply(from, me.plain(Body::Voted(answer)));
            }
            return None;
        }
        match links.member.admit(now, from, &message.header) {
            Admission::Taken => Some(message),
            Admission::TakenOver => {
                let is_up = links.member.is_up();
                self.links.push_back((NodeId::MANAGER, LinkStatus::Down));
                self.links.extend(is_up.then_some((NodeId::MANAGER, LinkStatus::Up)));
                Some(message)
            }
            Admission::Refused => {
                // It learns of the higher term, and has no more part in the run.
                self.stats.superseded_messages += 1;
                self.reply(from, me.plain(Body::Acknowledge));
                None
            }
        }
    }

    /// Sends a message to a replica, with the term that this node knows.
    fn reply(&mut self, to: NodeId, mut message: Message<Bytes>) {
        if let Some(links) = &self.member {
            message.header.term = links.member.term();
        }
        let kind = Kind::of(&message);
        self.send_or_keep(to, frame_of(message), kind);
    }

    /// Records the state of a link. The role knows only that to the active replica, as the one to the event manager.
    pub(super) fn note_link(&mut self, peer: NodeId, link: LinkStatus) {
        match &mut self.member {
            Some(links) if peer.role == Role::Manager => {
                if links.member.handle_link(peer, link) {
                    self.links.push_back((NodeId::MANAGER, link));
                }
            }
            _ => self.note_unit_link(peer, link),
        }
    }
}
