//! Foundation of the first configuration.
//!
//! Answers to the three stages differ in kind, or name the sessions of the attempt, so that a late answer to an earlier stage is not
//! taken for one to the present stage.

use super::tally::Tally;
use sheaf_wire::NodeId;
use sheaf_wire::message::{Ballot, Managers, Vote, VoteRequest, VoteStep, VoterLife};

/// A foundation that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Founding {
    managers: Managers,
    stage: Stage,
    /// Voters that have answered in this stage.
    answered: Tally<()>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Asking all whether they are blank.
    Inquire,
    /// Telling all the configuration.
    Found(Vec<VoterLife>),
    /// Telling all that all of them have it.
    Confirm(Vec<VoterLife>),
}

/// Result of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing to do.
    None,
    /// Another stage has begun: its requests are to be sent.
    Stage,
    /// Every voter votes.
    Complete,
    /// A voter has another configuration.
    AlreadyFounded,
}

impl Founding {
    pub(super) fn new(managers: Managers) -> Self {
        Self { managers, stage: Stage::Inquire, answered: Tally::new() }
    }

    pub(super) fn managers(&self) -> &Managers {
        &self.managers
    }

    pub(super) fn request(&self) -> VoteRequest {
        let managers = self.managers.clone();
        let step = match &self.stage {
            Stage::Inquire => VoteStep::Inquire,
            Stage::Found(lives) => VoteStep::Found { managers, lives: lives.clone() },
            Stage::Confirm(lives) => VoteStep::Confirm { managers, lives: lives.clone() },
        };
        VoteRequest { ballot: Ballot::FOUNDATION, step }
    }

    pub(super) fn awaits(&self, voter: NodeId) -> bool {
        !self.answered.contains(voter)
    }

    /// Returns whether the foundation is final: `majority` voters have confirmed it.
    pub(super) fn is_confirmed(&self, majority: usize) -> bool {
        matches!(self.stage, Stage::Confirm(_)) && self.answered.len() >= majority
    }

    /// Returns voters that may not have been reached by the confirmation.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = VoterLife> {
        let lives = match &self.stage {
            Stage::Confirm(lives) => &lives[..],
            Stage::Inquire | Stage::Found(_) => &[],
        };
        lives.iter().copied().filter(|life| self.awaits(life.node))
    }

    pub(super) fn handle_vote(&mut self, life: VoterLife, vote: &Vote, voters: usize) -> Progress {
        if self.has_restarted(life) {
            return self.handle_restart();
        }
        match (&self.stage, vote) {
            (_, Vote::Refused { .. }) => return Progress::AlreadyFounded,
            (Stage::Inquire, Vote::Blank) | (Stage::Confirm(_), Vote::Joined) => {}
            (Stage::Found(expected), Vote::Accepted { lives }) if lives == expected => {}
            _ => return Progress::None,
        }
        self.answered.insert(life, ());
        if self.answered.len() < voters {
            return Progress::None;
        }
        let lives = self.answered.lives();
        self.stage = match &self.stage {
            Stage::Inquire => Stage::Found(lives),
            Stage::Found(_) => Stage::Confirm(lives),
            Stage::Confirm(_) => return Progress::Complete,
        };
        self.answered = Tally::new();
        Progress::Stage
    }

    /// Returns whether the voter has another session than that of the attempt.
    fn has_restarted(&self, life: VoterLife) -> bool {
        match &self.stage {
            Stage::Inquire => false,
            Stage::Found(lives) | Stage::Confirm(lives) => !lives.contains(&life),
        }
    }

    /// Begins again if the voter had a part in an attempt that is not complete. One that restarts later is restored.
    fn handle_restart(&mut self) -> Progress {
        if matches!(self.stage, Stage::Confirm(_)) {
            return Progress::None;
        }
        (self.stage, self.answered) = (Stage::Inquire, Tally::new());
        Progress::Stage
    }
}
