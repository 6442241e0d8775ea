//! Votes about the active replica of the event manager.

use crate::{NodeId, SessionId, Term};
use std::fmt;

/// Maximum number of voters.
pub const MAX_VOTERS: usize = 5;

/// Number of replicas of the event manager.
pub(super) const REPLICAS: u16 = 2;

/// Number of a ballot. Each replica has ballots of its own: twice the round plus the index of the replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot(pub u64);

impl Ballot {
    /// The ballot of the foundation. It is below all others.
    pub const FOUNDATION: Self = Self(1);

    /// Upper limit. A message with a greater number is refused, so that numbers can be counted up without overflow.
    pub const MAX: Self = Self(1 << 62);

    /// Returns the ballot of replica `index` in the next round.
    #[must_use]
    pub const fn next_of(self, index: u16) -> Self {
        let replicas = REPLICAS as u64;
        Self((self.0 / replicas + 1) * replicas + index as u64 % replicas)
    }

    /// Returns the index of the replica that the ballot belongs to.
    #[must_use]
    pub const fn replica(self) -> u16 {
        if self.0 == Self::FOUNDATION.0 { 0 } else { (self.0 % REPLICAS as u64) as u16 }
    }

    /// Returns the term of a configuration that this ballot proposes.
    #[must_use]
    pub const fn term(self) -> Term {
        Term(self.0)
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One life of a replica of the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// Index of its node: 0 or 1.
    pub index: u16,
    /// Its session.
    pub session: SessionId,
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of session {}", self.index, self.session)
    }
}

/// Configuration of the event manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Managers {
    /// Number of the ballot that has proposed it first.
    pub term: Term,
    /// The replica that is active. It is in sync.
    pub active: Replica,
    /// Replicas that have all inputs, in order of index. One of these may take over.
    pub in_sync: Vec<Replica>,
}

/// A configuration that a voter has accepted, and the last ballot by which it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AcceptedManagers {
    /// The ballot: at least the term of the configuration, and greater if another ballot has repeated it.
    pub ballot: Ballot,
    /// The configuration.
    pub managers: Managers,
}

/// A session of a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterLife {
    /// The voter.
    pub node: NodeId,
    /// Its latest known session.
    pub session: SessionId,
}

/// A step of a ballot, from a replica to a voter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoteRequest {
    /// The ballot: [`Ballot::FOUNDATION`] in the last three steps.
    pub ballot: Ballot,
    /// The step.
    pub step: VoteStep,
}

/// Content of a [`VoteRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VoteStep {
    /// Promise to refuse lower ballots, and name the accepted configuration.
    Prepare {
        /// Whether it is a take-over that the active replica has not asked for. A voter that hears the active replica
        /// refuses.
        takes_over: bool,
        /// The voter that is to be restored by this ballot.
        restarted: Option<VoterLife>,
    },
    /// Accept a configuration.
    Accept(Managers),
    /// Vote again, after a restart: other voters have promised the ballot.
    Restore {
        /// Session of the voter. Others ignore it.
        session: SessionId,
        /// The configuration that others have accepted by the highest ballot.
        accepted: AcceptedManagers,
        /// Latest known sessions of all voters.
        lives: Vec<VoterLife>,
    },
    /// Say whether you are blank.
    Inquire,
    /// Keep this first configuration until it is confirmed.
    Found {
        /// The configuration.
        managers: Managers,
        /// Sessions of the blank voters that it is for.
        lives: Vec<VoterLife>,
    },
    /// All voters keep this first configuration: vote.
    Confirm {
        /// The configuration.
        managers: Managers,
        /// Sessions of the voters that keep it.
        lives: Vec<VoterLife>,
    },
}

/// Answer of a voter to a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VoteAnswer {
    /// The ballot that is answered.
    pub ballot: Ballot,
    /// Session of the replica that is answered. Its other sessions ignore it.
    pub to: SessionId,
    /// The answer.
    pub vote: Vote,
}

/// Content of a [`VoteAnswer`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The ballot is promised.
    Promised {
        /// The configuration that the voter has accepted.
        accepted: AcceptedManagers,
        /// Sessions of the other voters, as far as this one knows.
        lives: Vec<VoterLife>,
    },
    /// The configuration is accepted, or kept in a foundation.
    Accepted {
        /// Sessions of the other voters, as far as this one knows. In a foundation those of the request.
        lives: Vec<VoterLife>,
    },
    /// The voter has been restored, or the foundation confirmed: it votes.
    Joined,
    /// The voter has promised another ballot, or hears the active replica, or has been founded already.
    Refused {
        /// The highest ballot that it has promised.
        promised: Ballot,
        /// Whether it refuses because it hears the active replica.
        hears_active: bool,
    },
    /// The voter does not vote, because it has no configuration: it has been started or restarted.
    Blank,
}
