//! Messages between a node and the readout units that have mirrors.

use super::{Arriving, Kind, Outbox, frame_of};
use bytes::Bytes;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_transport::Frame;
use sheaf_wire::machine::Identity;
use sheaf_wire::message::{Body, Message, MirrorStep};
use sheaf_wire::{Nanos, NodeId, Role, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// Mirrors as a node knows them that talks to their readout units.
pub(super) struct MirrorLinks {
    me: Identity,
    /// Readout units whose mirrors act, with the sessions that they act for.
    acting: BTreeMap<u16, SessionId>,
    /// Latest sessions of readout units.
    latest: BTreeMap<u16, SessionId>,
    /// Mirrors to which there is a link.
    up: BTreeSet<u16>,
}

/// A mirror that acts for its readout unit.
#[derive(Clone, Copy)]
pub(super) struct StandIn {
    me: Identity,
    unit: Identity,
}

impl MirrorLinks {
    /// Returns where messages for a node go.
    pub(super) fn address(&self, to: NodeId) -> NodeId {
        let has_mirror = to.role == Role::Readout && self.acting.contains_key(&to.index);
        if has_mirror { NodeId::mirror(to.index) } else { to }
    }
}

impl Outbox {
    /// Acts as `me` for a readout unit from now on, and greets all nodes `up` to which there are links. Votes in place of the unit if `vote` is
    /// given: the silence of the active event manager after which it may be succeeded.
    pub(crate) fn stand_in(
        &mut self,
        (me, unit): (Identity, Identity),
        vote: Option<Nanos>,
        up: impl Iterator<Item = NodeId>,
    ) {
        self.stands_in = Some(StandIn { me, unit });
        if let Some(silence) = vote {
            self.vote_for(unit, silence);
        }
        // The role knows only the active replica.
        let replicas: Vec<NodeId> = self.member.iter().flat_map(|links| links.member.up()).collect();
        up.filter(|node| node.role != Role::Manager || replicas.is_empty()).for_each(|node| self.greet(node));
        replicas.into_iter().for_each(|replica| self.greet(replica));
    }

    /// Tells a node that this one acts for a readout unit, if it does: the node turns to it. Each replica of the event manager has to know.
    pub(super) fn greet(&mut self, node: NodeId) {
        if let Some(StandIn { unit, .. }) = self.stands_in
            && matches!(node.role, Role::Builder | Role::Manager)
        {
            self.reply(node, unit.plain(Body::Acknowledge));
        }
    }

    /// Talks to readout units that have mirrors from now on, as this node.
    pub(crate) fn know_mirrors(&mut self, me: Identity) {
        self.mirrors =
            Some(MirrorLinks { me, acting: BTreeMap::new(), latest: BTreeMap::new(), up: BTreeSet::new() });
    }

    /// Returns whether this node acts for another one.
    pub(super) fn acts_for(&self, node: NodeId) -> bool {
        self.stands_in.as_ref().is_some_and(|StandIn { unit, .. }| unit.node == node)
    }

    /// Tells the readout unit for which this node acts that it has no more part in the run. It was frozen, or could not be reached, and need
    /// not know the event manager of now.
    pub(super) fn turn_away(&mut self, mut frame: Frame) {
        let Some(StandIn { me, unit }) = self.stands_in else { return };
        let message = Message::<Bytes>::decode(&frame.head, &mut frame.payload);
        if message.is_ok_and(|Message { header, .. }| header.session == unit.session) {
            self.stats.superseded_messages += 1;
            let answer = me.plain_for(unit.session, Body::Mirror(MirrorStep::Superseded));
            self.send_or_keep(unit.node, frame_of(answer), Kind::Other);
        }
    }

    /// Returns whether a message that says to be from `sender` may come over the link to `from`, because that is its mirror.
    pub(super) fn is_of_mirror(&self, from: NodeId, sender: NodeId) -> bool {
        self.mirrors.is_some()
            && (from.role, sender.role) == (Role::Mirror, Role::Readout)
            && from.index == sender.index
    }

    /// Returns a message that is for the role: not of a readout unit whose mirror acts, nor of a mirror whose unit was started again.
    pub(super) fn admit_unit<P: Arriving>(
        &mut self,
        from: NodeId,
        message: Message<P>,
    ) -> Option<Message<P>> {
        let Some(links) = &mut self.mirrors else { return Some(message) };
        let (session, index) = (message.header.session, from.index);
        let acting = links.acting.get(&index).copied();
        let latest = links.latest.get(&index).copied();
        match (from.role, message.header.sender.role) {
            (Role::Mirror, Role::Readout) if latest > Some(session) => self.refuse_actor(from, session),
            (Role::Mirror, Role::Readout) if acting == Some(session) => Some(message),
            (Role::Mirror, Role::Readout) => {
                links.acting.insert(index, session);
                let unit = NodeId::readout(index);
                let is_up = links.up.contains(&index);
                self.links.push_back((unit, LinkStatus::Down));
                self.links.extend(is_up.then_some((unit, LinkStatus::Up)));
                // They are sent again.
                self.drop_waiting(unit);
                Some(message)
            }
            // It was frozen, or could not be reached, and has no more part in the run.
            (Role::Readout, _) if acting >= Some(session) => self.refuse_actor(from, session),
            (Role::Readout, _) => {
                links.latest.insert(index, session);
                if links.acting.remove(&index).is_some() {
                    // The readout unit was started again.
                    self.links.extend([(from, LinkStatus::Down), (from, LinkStatus::Up)]);
                }
                Some(message)
            }
            _ => Some(message),
        }
    }

    /// Tells a readout unit or a mirror that another one acts. Its message is dropped.
    fn refuse_actor<P>(&mut self, to: NodeId, session: SessionId) -> Option<Message<P>> {
        self.stats.superseded_messages += 1;
        let me = self.mirrors.as_ref()?.me;
        let answer = me.plain_for(session, Body::Mirror(MirrorStep::Superseded));
        let kind = Kind::of(&answer);
        self.send_or_keep(to, frame_of(answer), kind);
        None
    }

    /// Records the state of a link. The role knows only that to whoever acts, as the one to the readout unit.
    pub(super) fn note_unit_link(&mut self, peer: NodeId, link: LinkStatus) {
        let Some(links) = &mut self.mirrors else {
            self.links.push_back((peer, link));
            return;
        };
        match peer.role {
            Role::Mirror => {
                match link {
                    LinkStatus::Up => links.up.insert(peer.index),
                    LinkStatus::Down => links.up.remove(&peer.index),
                };
                if links.acting.contains_key(&peer.index) {
                    self.links.push_back((NodeId::readout(peer.index), link));
                }
            }
            Role::Readout if links.acting.contains_key(&peer.index) => {}
            _ => self.links.push_back((peer, link)),
        }
    }
}
