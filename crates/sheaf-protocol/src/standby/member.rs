//! A node beside the event manager: which replica it listens to, and its vote.

use super::voter::Voter;
use crate::liveness::LinkStatus;
use crate::machine::Identity;
use sheaf_wire::message::{Header, Replica, VoteAnswer, VoteRequest, VoterLife};
use sheaf_wire::{Nanos, NodeId, Role, SessionId, Term, Timestamp};

/// Number of replicas of the event manager.
const REPLICAS: usize = 2;

/// Returns the name by which a node votes. A mirror votes in place of its readout unit.
pub(super) fn voter_of(node: NodeId) -> NodeId {
    if node.role == Role::Mirror { NodeId::readout(node.index) } else { node }
}

/// Result of a message of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The replica is the active one: the role takes the message.
    Taken,
    /// The replica is active from this message on. The role takes it, after the link to the event manager went down and up.
    TakenOver,
    /// Another replica is active in a higher term: the message is dropped.
    Refused,
}

/// Signs of life of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    is_up: bool,
    heard_at: Option<Timestamp>,
}

/// Part of a node that listens to whichever replica of the event manager is active.
#[derive(Debug)]
pub struct Member {
    active: u16,
    term: Term,
    replicas: [Known; REPLICAS],
    voter: Option<Voter>,
    /// Silence after which the active replica does not count as heard.
    silence: Nanos,
}

impl Member {
    /// Creates the part of node `me`. A voter has `vote`: the silence after which the active replica may be succeeded.
    #[must_use]
    pub fn new(me: &Identity, vote: Option<Nanos>) -> Self {
        let voter = vote.map(|_| Voter::new(me.node, me.session));
        let silence = vote.unwrap_or(Nanos::ZERO);
        Self { active: 0, term: Term(0), replicas: Default::default(), voter, silence }
    }

    /// Votes from now on, in place of a node that has ended, under its name. The vote is blank, as that of a node that was started again.
    pub fn stand_in(&mut self, life: VoterLife, silence: Nanos) {
        self.voter = Some(Voter::new(life.node, life.session));
        self.silence = silence;
    }

    /// Returns whether this node is to vote, and has no part in a majority before a replica has told it what the voters know.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.voter.as_ref().is_some_and(|voter| voter.managers().is_none())
    }

    /// Returns the replica to which messages to the event manager go.
    #[must_use]
    pub fn active(&self) -> NodeId {
        NodeId::manager(self.active)
    }

    /// Returns the highest term that is known, for messages to the event manager.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns whether the link to the active replica is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.known(self.active).is_up
    }

    /// Returns the replicas to which the links are up.
    pub fn up(&self) -> impl Iterator<Item = NodeId> + use<> {
        let up = self.replicas.map(|replica| replica.is_up);
        (0..).zip(up).filter(|(_, is_up)| *is_up).map(|(index, _)| NodeId::manager(index))
    }

    /// Returns whether this node votes, and a replica may still ask for its vote.
    #[must_use]
    pub fn may_be_asked(&self) -> bool {
        self.voter.is_some() && self.replicas.iter().any(|replica| replica.is_up)
    }

    fn known(&self, index: u16) -> Known {
        self.replicas.get(usize::from(index)).copied().unwrap_or_default()
    }

    /// Records the state of the link to a replica. Returns whether it is the active one, whose link the role is to know.
    pub fn handle_link(&mut self, replica: NodeId, link: LinkStatus) -> bool {
        if let Some(known) = self.replicas.get_mut(usize::from(replica.index)) {
            known.is_up = link == LinkStatus::Up;
        }
        replica.index == self.active
    }

    /// Takes note of a message that has come from a replica.
    pub fn admit(&mut self, now: Timestamp, from: NodeId, header: &Header) -> Admission {
        let Some(known) =
            self.replicas.get_mut(usize::from(from.index)).filter(|_| from.role == Role::Manager)
        else {
            return Admission::Refused;
        };
        if header.term < self.term || (header.term == self.term && from.index != self.active) {
            return Admission::Refused;
        }
        known.heard_at = Some(now);
        self.term = header.term;
        if std::mem::replace(&mut self.active, from.index) == from.index {
            Admission::Taken
        } else {
            Admission::TakenOver
        }
    }

    /// Answers a request for this node's vote. `None` if it has none.
    pub fn vote(
        &mut self,
        now: Timestamp,
        from: (NodeId, SessionId),
        request: VoteRequest,
    ) -> Option<VoteAnswer> {
        let hears_active = self.hears_active(now);
        let replica = Replica { index: from.0.index, session: from.1 };
        self.voter.as_mut().map(|voter| voter.handle_request(replica, request, hears_active))
    }

    /// Returns whether the active replica gives signs of life.
    fn hears_active(&self, now: Timestamp) -> bool {
        let Known { is_up, heard_at } = self.known(self.active);
        is_up && heard_at.is_some_and(|at| now.since(at) < self.silence)
    }
}
