//! A voter.

use super::tally::Lives;
use sheaf_wire::message::{
    AcceptedManagers, Ballot, Managers, Replica, Vote, VoteAnswer, VoteRequest, VoteStep, VoterLife,
};
use sheaf_wire::{NodeId, SessionId};

/// A node that keeps the configuration of the event manager, in memory, and votes on changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voter {
    me: VoterLife,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Blank,
    /// A foundation that is not confirmed. The voter is still blank.
    Founding(Foundation),
    Voting(Votes),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Foundation {
    by: Replica,
    managers: Managers,
    /// Sessions of all voters. Later attempts of the same founder have later sessions.
    lives: Vec<VoterLife>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Votes {
    promised: Ballot,
    /// The life of a replica that `promised` is given to. A replica that restarts may use the same number again.
    promised_to: Replica,
    accepted: AcceptedManagers,
    lives: Lives,
}

impl Voter {
    /// Creates a voter that has just been started, and is blank. `session` is that of the node in its messages.
    #[must_use]
    pub const fn new(node: NodeId, session: SessionId) -> Self {
        Self { me: VoterLife { node, session }, state: State::Blank }
    }

    /// Returns the answer to a step of replica `from`. `hears_active` says whether this node hears the active replica.
    pub fn handle_request(&mut self, from: Replica, request: VoteRequest, hears_active: bool) -> VoteAnswer {
        let VoteRequest { ballot, step } = request;
        let vote = match step {
            VoteStep::Prepare { takes_over, restarted } => match &mut self.state {
                State::Voting(votes) if takes_over && hears_active => votes.refuse(true),
                State::Voting(votes) => votes.prepare(from, ballot, restarted),
                State::Blank | State::Founding(_) => Vote::Blank,
            },
            VoteStep::Accept(managers) => match &mut self.state {
                State::Voting(votes) => votes.accept(from, AcceptedManagers { ballot, managers }),
                State::Blank | State::Founding(_) => Vote::Blank,
            },
            VoteStep::Restore { session, accepted, lives } => {
                self.restore(session, Votes::new(from, ballot, accepted, &lives))
            }
            VoteStep::Inquire => match &self.state {
                State::Voting(votes) => votes.refuse(false),
                State::Blank | State::Founding(_) => Vote::Blank,
            },
            VoteStep::Found { managers, lives } => self.found(Foundation { by: from, managers, lives }),
            VoteStep::Confirm { managers, lives } => self.confirm(Foundation { by: from, managers, lives }),
        };
        VoteAnswer { ballot, to: from.session, vote }
    }

    /// Returns the configuration that this voter has accepted last, or `None` if it is blank. It need not be decided.
    #[must_use]
    pub const fn managers(&self) -> Option<&Managers> {
        match &self.state {
            State::Voting(votes) => Some(&votes.accepted.managers),
            State::Blank | State::Founding(_) => None,
        }
    }

    /// Returns the highest ballot that this voter has promised, and that by which it has accepted its configuration. `None` if it is
    /// blank.
    #[must_use]
    pub const fn ballots(&self) -> Option<(Ballot, Ballot)> {
        match &self.state {
            State::Voting(votes) => Some((votes.promised, votes.accepted.ballot)),
            State::Blank | State::Founding(_) => None,
        }
    }

    /// Adopts what the other voters know. A message for an earlier session must not do so: that session may have voted since.
    fn restore(&mut self, session: SessionId, votes: Votes) -> Vote {
        if session != self.me.session {
            return Vote::Blank;
        }
        if !matches!(self.state, State::Voting(_)) {
            self.state = State::Voting(votes);
        }
        Vote::Joined
    }

    fn found(&mut self, foundation: Foundation) -> Vote {
        let is_outdated = match &self.state {
            State::Voting(votes) => return votes.refuse(false),
            State::Founding(known) => {
                (foundation.by.session, &foundation.lives) < (known.by.session, &known.lives)
            }
            State::Blank => false,
        };
        if is_outdated || !foundation.lives.contains(&self.me) {
            return Vote::Blank;
        }
        let lives = foundation.lives.clone();
        self.state = State::Founding(foundation);
        Vote::Accepted { lives }
    }

    fn confirm(&mut self, foundation: Foundation) -> Vote {
        match &self.state {
            State::Founding(known) if *known == foundation => {
                let Foundation { by, managers, lives } = foundation;
                let ballot = Ballot::FOUNDATION;
                let accepted = AcceptedManagers { ballot, managers };
                self.state = State::Voting(Votes::new(by, ballot, accepted, &lives));
                Vote::Joined
            }
            State::Voting(votes) if votes.accepted.managers == foundation.managers => Vote::Joined,
            State::Voting(votes) => votes.refuse(false),
            State::Blank | State::Founding(_) => Vote::Blank,
        }
    }
}

impl Votes {
    fn new(promised_to: Replica, promised: Ballot, accepted: AcceptedManagers, known: &[VoterLife]) -> Self {
        let mut lives = Lives::default();
        for life in known {
            lives.note(*life);
        }
        Self { promised, promised_to, accepted, lives }
    }

    fn prepare(&mut self, from: Replica, ballot: Ballot, restarted: Option<VoterLife>) -> Vote {
        if !self.allows(from, ballot) {
            return self.refuse(false);
        }
        (self.promised, self.promised_to) = (ballot, from);
        if let Some(life) = restarted {
            self.lives.update(life);
        }
        Vote::Promised { accepted: self.accepted.clone(), lives: self.lives.to_vec() }
    }

    fn accept(&mut self, from: Replica, accepted: AcceptedManagers) -> Vote {
        if !self.allows(from, accepted.ballot) {
            return self.refuse(false);
        }
        (self.promised, self.promised_to) = (accepted.ballot, from);
        self.accepted = accepted;
        Vote::Accepted { lives: self.lives.to_vec() }
    }

    /// Returns whether no promise forbids the ballot.
    fn allows(&self, from: Replica, ballot: Ballot) -> bool {
        let is_promised = ballot == self.promised && from == self.promised_to;
        ballot.replica() == from.index && (ballot > self.promised || is_promised)
    }

    const fn refuse(&self, hears_active: bool) -> Vote {
        Vote::Refused { promised: self.promised, hears_active }
    }
}
