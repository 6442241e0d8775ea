//! Bugs that the explorer must find.

use sheaf_protocol::standby::Voter;
use sheaf_wire::message::{
    AcceptedManagers, Ballot, Managers, Replica, Vote, VoteAnswer, VoteRequest, VoteStep, VoterLife,
};
use sheaf_wire::{NodeId, SessionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    None,
    /// A voter that restarts votes at once, with the first configuration.
    VotesAfterRestart,
    /// A voter that restarts is restored with the first configuration, and no other voter has promised anything.
    RestoredUnprepared,
    /// Voters do not name the sessions of others.
    NamesNoLives,
    /// A voter accepts what it has promised to refuse.
    AcceptsBelowPromise,
    /// A voter does not keep what it accepts.
    ForgetsAccepted,
    /// Each replica believes that one voter decides.
    OneVoterSuffices,
    /// A voter takes a replica that has restarted for the same as before.
    MixesReplicaLives,
    /// A voter is restored by a message for an earlier session.
    RestoredByOldMessage,
}

impl Sabotage {
    pub(crate) fn voters_of(self, index: u16, voters: &[NodeId]) -> Vec<NodeId> {
        match self {
            Self::OneVoterSuffices => vec![voters[usize::from(index)]],
            _ => voters.to_vec(),
        }
    }

    /// Returns a voter that has restarted. `first` is one that has just been founded.
    pub(crate) fn restarted(self, life: VoterLife, first: &Voter, managers: &Managers) -> Voter {
        let mut voter = Voter::new(life.node, life.session);
        match self {
            Self::VotesAfterRestart => first.clone(),
            Self::RestoredUnprepared => {
                let accepted = AcceptedManagers { ballot: Ballot::FOUNDATION, managers: managers.clone() };
                restore(&mut voter, life, Ballot::FOUNDATION, accepted);
                voter
            }
            _ => voter,
        }
    }

    pub(crate) fn vote(
        self,
        voter: &mut Voter,
        life: VoterLife,
        from: Replica,
        request: VoteRequest,
    ) -> VoteAnswer {
        let (ballot, before) = (request.ballot, voter.clone());
        let mut answer = match (self, request.clone()) {
            (Self::MixesReplicaLives, request) => {
                let first = Replica { session: SessionId(10), ..from };
                let answer = voter.handle_request(first, request, false);
                VoteAnswer { to: from.session, ..answer }
            }
            (
                Self::RestoredByOldMessage,
                VoteRequest { step: VoteStep::Restore { accepted, lives, .. }, .. },
            ) => {
                let step = VoteStep::Restore { session: life.session, accepted, lives };
                voter.handle_request(from, VoteRequest { ballot, step }, false)
            }
            (_, request) => voter.handle_request(from, request, false),
        };
        match (self, &request.step, &mut answer.vote) {
            (Self::NamesNoLives, _, Vote::Promised { lives, .. } | Vote::Accepted { lives })
                if !matches!(request.step, VoteStep::Found { .. }) =>
            {
                lives.clear();
            }
            (Self::AcceptsBelowPromise, VoteStep::Accept(managers), Vote::Refused { promised, .. }) => {
                let accepted = AcceptedManagers { ballot, managers: managers.clone() };
                let promised = *promised;
                *voter = Voter::new(life.node, life.session);
                restore(voter, life, promised, accepted);
                answer.vote = Vote::Accepted { lives: Vec::new() };
            }
            (Self::ForgetsAccepted, VoteStep::Accept(_), Vote::Accepted { .. }) => *voter = before,
            _ => {}
        }
        answer
    }
}

/// Gives a blank voter a state, without the vote of others.
fn restore(voter: &mut Voter, life: VoterLife, ballot: Ballot, accepted: AcceptedManagers) {
    let from = Replica { index: ballot.replica(), session: life.session };
    let step = VoteStep::Restore { session: life.session, accepted, lives: vec![life] };
    let answer = voter.handle_request(from, VoteRequest { ballot, step }, false);
    assert_eq!(answer.vote, Vote::Joined);
}
