//! Messages between a node and the two replicas of the event manager.

use super::{Arriving, Kind, Outbox, frame_of};
use bytes::Bytes;
use sheaf_protocol::Transmit;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::standby::{Admission, Member};
use sheaf_wire::machine::Identity;
use sheaf_wire::message::{Ballot, Body, Message, MirrorStep, Vote, VoteAnswer, VoterLife};
use sheaf_wire::{Nanos, NodeId, Role, SessionId, Timestamp};

/// The part of a node that talks to two replicas.
pub(super) struct MemberLinks {
    pub(super) member: Member,
    me: Identity,
    /// Identity of this node as a voter.
    voice: Identity,
    now: Timestamp,
}

impl Outbox {
    /// Listens to two replicas of the event manager from now on. A voter has `vote`: the silence after which the active one may be
    /// succeeded.
    pub(crate) fn join(&mut self, me: Identity, vote: Option<Nanos>) {
        let member = Member::new(&me, vote);
        self.member = Some(MemberLinks { member, me, voice: me, now: Timestamp::ZERO });
    }

    /// Votes from now on in place of a readout unit. `silence` is that of the active replica after which it may be succeeded.
    ///
    /// This voter has none of what the unit has promised. So it is a later life of that voter, as of a unit that was started again: it is
    /// blank until the others have told it.
    pub(super) fn vote_for(&mut self, unit: Identity, silence: Nanos) {
        if let Some(links) = &mut self.member {
            let session = SessionId(unit.session.0.saturating_add(1));
            links.voice.session = session;
            links.member.stand_in(VoterLife { node: unit.node, session }, silence);
        }
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

    /// Addresses a message to the event manager to its active replica, and one to a readout unit whose mirror acts to the mirror. A step
    /// about the two is for the one that has asked.
    pub(super) fn address<P>(&self, mut transmit: Transmit<P>) -> Transmit<P> {
        if let Some(links) = &self.mirrors
            && !matches!(transmit.message.body, Body::Mirror(_))
        {
            transmit.to = links.address(transmit.to);
        }
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
                let voice = links.voice;
                self.reply(from, voice.plain(Body::Voted(answer)));
            }
            return None;
        }
        if let Body::Mirror(MirrorStep::Superseded) = message.body {
            // Nobody takes this back, whichever replica says it.
            return Some(message);
        }
        let is_sign_of_life = matches!(message.body, Body::Acknowledge);
        if self.stands_in.is_some() && is_sign_of_life && links.member.is_blank() {
            let to = message.header.session;
            let blank = VoteAnswer { ballot: Ballot::FOUNDATION, to, vote: Vote::Blank };
            let voice = links.voice;
            self.reply(from, voice.plain(Body::Voted(blank)));
        }
        let links = self.member.as_mut()?;
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
    pub(super) fn reply(&mut self, to: NodeId, mut message: Message<Bytes>) {
        if let Some(links) = &self.member {
            message.header.term = links.member.term();
        }
        let kind = Kind::of(&message);
        self.send_or_keep(to, frame_of(message), kind);
    }

    /// Records the state of a link. The role knows only that to the active replica, as the one to the event manager.
    pub(super) fn note_link(&mut self, peer: NodeId, link: LinkStatus) {
        if link == LinkStatus::Up {
            self.greet(peer);
        }
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
