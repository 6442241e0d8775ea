//! A ballot of a proposer, to change the configuration or to restore a voter.

use super::change::Change;
use super::tally::{Lives, Tally};
use sheaf_wire::message::{AcceptedManagers, Ballot, Managers, Replica, VoteRequest, VoteStep, VoterLife};
use sheaf_wire::{NodeId, Timestamp};

/// Purpose of a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    Change(Change),
    /// Restoration of a voter that is blank.
    Restore(VoterLife),
}

/// Reason why a voter cannot take part in a ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dissent {
    Blank,
    HearsActive,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Prepare(Tally<AcceptedManagers>),
    Accept {
        managers: Managers,
        /// Whether it is the result of the change. Otherwise it is the present one, which does not allow the change.
        is_result: bool,
        votes: Tally<()>,
    },
    /// Telling a voter that it is restored.
    Tell {
        accepted: AcceptedManagers,
        lives: Vec<VoterLife>,
        /// Number of times that it has been told.
        sent: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Campaign {
    pub(super) goal: Goal,
    pub(super) ballot: Ballot,
    pub(super) stage: Stage,
    pub(super) dissent: Tally<Dissent>,
    /// Number of ballots before this one.
    pub(super) tries: u32,
    /// Time of the next ballot, if a voter has promised a higher one than this.
    pub(super) retry_at: Option<Timestamp>,
}

impl Campaign {
    pub(super) fn new(goal: Goal, ballot: Ballot, tries: u32) -> Self {
        let stage = Stage::Prepare(Tally::new());
        Self { goal, ballot, stage, dissent: Tally::new(), tries, retry_at: None }
    }

    /// Drops votes of sessions that have ended.
    pub(super) fn drop_ended(&mut self, lives: &Lives) {
        self.dissent.drop_ended(lives);
        match &mut self.stage {
            Stage::Prepare(promises) => promises.drop_ended(lives),
            Stage::Accept { votes, .. } => votes.drop_ended(lives),
            Stage::Tell { .. } => {}
        }
    }

    /// Returns whether the voter has a part in the ballot, and has not voted in this stage.
    pub(super) fn awaits(&self, voter: NodeId) -> bool {
        match &self.stage {
            Stage::Prepare(promises) => self.may_promise(voter) && !promises.contains(voter),
            Stage::Accept { votes, .. } => !votes.contains(voter),
            Stage::Tell { .. } => !self.may_promise(voter),
        }
    }

    /// Returns whether the voter is not the one that is to be restored.
    pub(super) fn may_promise(&self, voter: NodeId) -> bool {
        match self.goal {
            Goal::Change(_) => true,
            Goal::Restore(life) => life.node != voter,
        }
    }

    pub(super) fn request(&self) -> VoteRequest {
        let step = match (&self.stage, self.goal) {
            (Stage::Prepare(_), Goal::Change(change)) => {
                VoteStep::Prepare { takes_over: change.takes_over(), restarted: None }
            }
            (Stage::Prepare(_), Goal::Restore(life)) => {
                VoteStep::Prepare { takes_over: false, restarted: Some(life) }
            }
            (Stage::Accept { managers, .. }, _) => VoteStep::Accept(managers.clone()),
            (Stage::Tell { accepted, lives, .. }, goal) => {
                let Goal::Restore(VoterLife { session, .. }) = goal else {
                    unreachable!("only a restoration tells a voter")
                };
                VoteStep::Restore { session, accepted: accepted.clone(), lives: lives.clone() }
            }
        };
        VoteRequest { ballot: self.ballot, step }
    }

    /// Begins the second stage if a majority has promised. Returns whether it did.
    pub(super) fn advance(&mut self, me: Replica, lives: &Lives, majority: usize) -> bool {
        let Stage::Prepare(promises) = &self.stage else { return false };
        if promises.len() < majority {
            return false;
        }
        let Some(accepted) = promises.votes().max_by_key(|accepted| accepted.ballot).cloned() else {
            return false;
        };
        self.stage = match self.goal {
            Goal::Restore(_) => Stage::Tell { accepted, lives: lives.to_vec(), sent: 0 },
            Goal::Change(change) => {
                let result = change.apply(me, self.ballot, &accepted.managers);
                let is_result = result.is_ok();
                // A configuration that does not allow the change may be known to a minority only. It is completed, so that
                // the refusal is final.
                let managers = result.unwrap_or(accepted.managers);
                Stage::Accept { managers, is_result, votes: Tally::new() }
            }
        };
        self.dissent = Tally::new();
        true
    }
}
