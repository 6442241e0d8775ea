//! The voters: their answers, and how they come to know the replicas.

use super::super::events::Retirement;
use super::super::standing::Standing;
use super::Pair;
use sheaf_wire::message::{Managers, Replica, Vote, VoteAnswer, VoterLife};
use sheaf_wire::{NodeId, Payload, SessionId, Term, Timestamp};

impl<P: Payload> Pair<P> {
    /// Takes the answer of a voter.
    pub(super) fn handle_vote(&mut self, now: Timestamp, life: VoterLife, answer: VoteAnswer) {
        // The mirror of a readout unit says without being asked that it votes now, and that it is blank.
        if answer.vote == Vote::Blank && self.is_active() && self.standing != Standing::Founding {
            self.proposer.restore(now, life.node, life.session);
        }
        self.proposer.handle_answer(now, life.node, life.session, answer);
        self.heed_outcomes(now);
    }

    /// Returns whether a majority of the voters is there and could note a take-over, as far as this replica knows.
    #[must_use]
    pub fn has_majority(&self) -> bool {
        let voters = &self.config.voters;
        let votes = voters.iter().filter(|voter| self.is_up(**voter) && !self.proposer.is_blank(**voter));
        2 * votes.count() > voters.len()
    }

    /// Has the vote of a voter restored that has restarted.
    pub(super) fn note_voter(&mut self, now: Timestamp, node: NodeId, session: SessionId) {
        if !self.is_active() || !self.config.voters.contains(&node) {
            return;
        }
        let before = self.voters.insert(node, session);
        if before.is_some_and(|before| before < session) && self.standing != Standing::Founding {
            self.proposer.restore(now, node, session);
        }
    }

    /// Has the voters note the replicas, once the standby is there or its time is over.
    pub(super) fn found(&mut self, now: Timestamp) {
        if self.only_joins {
            // A higher term tells it that the other one acts.
            if self.is_start_over(now) {
                self.retire(Retirement::RunExists);
            }
            return;
        }
        // It must have the first round, and with it the session of the event manager.
        let has_begun = self.is_other_up != Some(false) && self.stream.acknowledged() > 0;
        let standby = self.stream.partner.filter(|_| has_begun);
        if self.proposer.is_proposing() || (standby.is_none() && !self.is_start_over(now)) {
            return;
        }
        let me = Replica { index: self.me.node.index, session: self.me.session };
        let standby = standby.map(|session| Replica { index: self.me.node.other_replica().index, session });
        let in_sync = std::iter::once(me).chain(standby).collect();
        self.proposer.found(now, Managers { term: Term(0), active: me, in_sync });
    }

    pub(super) fn is_start_over(&self, now: Timestamp) -> bool {
        now.since(self.begun_at) >= self.config.times.start
    }
}
