//! The proposer of a replica of the event manager.

use super::campaign::{Campaign, Dissent, Goal, Stage};
use super::change::Change;
use super::founding::{Founding, Progress};
use super::tally::Lives;
use sheaf_wire::message::{
    AcceptedManagers, Ballot, MAX_VOTERS, Managers, Replica, Vote, VoteAnswer, VoteRequest, VoterLife,
};
use sheaf_wire::{Nanos, NodeId, SessionId, Term, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of transmissions of a restoration to a voter that does not answer. The driver requests another restoration when it
/// hears from the voter.
const MOST_RESTORATIONS: u32 = 16;

/// Maximum number of retries that increase the wait before the next one.
const LONGEST_WAIT: u32 = 8;

/// Times of a proposer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VoteTimes {
    /// Time after which requests without an answer are repeated.
    pub retransmit: Nanos,
    /// Unit of the wait before another ballot, if a voter has promised a higher one. It should be longer than a ballot takes. The
    /// waits of the two replicas differ by half of it, and grow.
    pub retry: Nanos,
}

/// Result of what a proposer was told to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A majority has accepted this configuration: the result of the change, or the first one.
    Decided(Managers),
    /// The change is not allowed in this configuration, which a majority has accepted. A replica that was active and is not
    /// active there has been superseded.
    Refused {
        /// The present configuration.
        managers: Managers,
    },
    /// So many voters hear the active replica that no majority remains for a take-over. It may be proposed again.
    Heard,
    /// So many voters are blank that no majority remains. It may be proposed again, but blank voters can only be restored by a
    /// majority.
    NoMajority,
    /// A voter already has a configuration, so this replica cannot found one.
    AlreadyFounded,
    /// This voter votes again.
    Restored(NodeId),
}

/// Changes the configuration of the event manager by ballots of the voters.
///
/// It does one thing at a time. A change interrupts the restoration of voters, which continues afterwards. Blank voters of which
/// it learns by their answers are restored as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer {
    me: Replica,
    voters: Vec<NodeId>,
    times: VoteTimes,
    /// The highest ballot that this replica knows of.
    highest: Ballot,
    lives: Lives,
    /// Voters to restore, at most one session of each.
    blank: BTreeMap<NodeId, SessionId>,
    work: Work,
    retransmit_at: Timestamp,
    decided: Option<AcceptedManagers>,
    /// At most one request for each voter.
    requests: VecDeque<(NodeId, VoteRequest)>,
    outcomes: VecDeque<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Founding(Founding),
    Campaign(Campaign),
}

impl Proposer {
    /// Creates the proposer of a replica that has just been started.
    ///
    /// # Panics
    /// If there is no voter, or more than [`MAX_VOTERS`], or the index of the replica is neither 0 nor 1.
    #[must_use]
    pub fn new(me: Replica, voters: Vec<NodeId>, times: VoteTimes) -> Self {
        assert!((1..=MAX_VOTERS).contains(&voters.len()), "{} voters", voters.len());
        assert!(me.index < 2, "replica {me}");
        Self {
            me,
            voters,
            times,
            highest: Ballot::FOUNDATION,
            lives: Lives::default(),
            blank: BTreeMap::new(),
            work: Work::Idle,
            retransmit_at: Timestamp::ZERO,
            decided: None,
            requests: VecDeque::new(),
            outcomes: VecDeque::new(),
        }
    }

    /// Founds the first configuration, in place of anything under way. Its term is set to the first one. The outcome is
    /// [`Outcome::Decided`] or [`Outcome::AlreadyFounded`]; there is none while a voter does not answer.
    ///
    /// # Panics
    /// If this is not replica 0, or it is not the active replica of `managers`.
    pub fn found(&mut self, now: Timestamp, mut managers: Managers) {
        assert!(self.me.index == 0 && managers.active == self.me, "only replica 0 founds, for itself");
        managers.term = Ballot::FOUNDATION.term();
        managers.in_sync.sort_unstable();
        assert!(managers.in_sync.contains(&self.me), "the active replica is in sync");
        self.work = Work::Founding(Founding::new(managers));
        self.send(now);
    }

    /// Proposes a change. It replaces a change or foundation under way, whose outcome is not reported. That one may
    /// nevertheless be decided, and the new change is then applied to it.
    pub fn propose(&mut self, now: Timestamp, change: Change) {
        self.begin(now, Goal::Change(change), 0);
    }

    /// Returns whether a change or a foundation is under way.
    #[must_use]
    pub const fn is_proposing(&self) -> bool {
        match &self.work {
            Work::Idle => false,
            Work::Founding(_) => true,
            Work::Campaign(campaign) => matches!(campaign.goal, Goal::Change(_)),
        }
    }

    /// Returns whether a voter is known to have forgotten its votes, and was not restored.
    #[must_use]
    pub fn is_blank(&self, voter: NodeId) -> bool {
        self.blank.contains_key(&voter)
    }

    /// Withdraws a change or foundation under way. It may nevertheless be decided, if voters have accepted it or do so still.
    pub fn withdraw(&mut self) {
        if self.is_proposing() {
            self.work = Work::Idle;
            self.requests.clear();
        }
    }

    /// Restores a voter that has this new session. Does nothing if a later session is known, or if there is no other voter.
    pub fn restore(&mut self, now: Timestamp, voter: NodeId, session: SessionId) {
        let life = VoterLife { node: voter, session };
        if !self.voters.contains(&voter) {
            return;
        }
        self.lives.note(life);
        self.drop_ended();
        self.note_blank(life);
        self.begin_restoration(now);
    }

    /// Handles an answer of a voter. `session` is that of the voter.
    pub fn handle_answer(&mut self, now: Timestamp, voter: NodeId, session: SessionId, answer: VoteAnswer) {
        let is_awaited = match &self.work {
            Work::Idle => false,
            Work::Founding(_) => answer.ballot == Ballot::FOUNDATION,
            Work::Campaign(campaign) => answer.ballot == campaign.ballot,
        };
        if !is_awaited || answer.to != self.me.session || !self.voters.contains(&voter) {
            return;
        }
        let life = VoterLife { node: voter, session };
        self.lives.note(life);
        if let Vote::Promised { lives, .. } | Vote::Accepted { lives } = &answer.vote {
            self.lives.merge(lives, &self.voters);
        }
        self.drop_ended();
        if !self.lives.is_current(life) {
            return;
        }
        match &mut self.work {
            Work::Founding(founding) => match founding.handle_vote(life, &answer.vote, self.voters.len()) {
                Progress::None => {}
                Progress::Stage => self.send(now),
                Progress::Complete => self.finish_foundation(now),
                Progress::AlreadyFounded => self.finish(now, Outcome::AlreadyFounded),
            },
            Work::Campaign(_) => self.handle_vote(now, life, answer.vote),
            Work::Idle => {}
        }
    }

    /// Repeats requests, or begins another ballot, if it is time.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let majority = self.majority();
        let is_repetition = self.retransmit_at <= now;
        match &mut self.work {
            Work::Idle => self.begin_restoration(now),
            Work::Founding(founding) if is_repetition => {
                if founding.is_confirmed(majority) {
                    self.finish_foundation(now)
                } else {
                    self.send(now)
                }
            }
            Work::Campaign(campaign) if campaign.retry_at.is_some_and(|at| at <= now) => {
                let (goal, tries) = (campaign.goal, campaign.tries.saturating_add(1));
                self.begin(now, goal, tries);
            }
            Work::Campaign(campaign) if is_repetition => {
                if let (Stage::Tell { sent: MOST_RESTORATIONS.., .. }, Goal::Restore(life)) =
                    (&campaign.stage, campaign.goal)
                {
                    self.blank.remove(&life.node);
                    self.rest(now);
                } else {
                    self.send(now);
                }
            }
            Work::Founding(_) | Work::Campaign(_) => {}
        }
    }

    /// Returns the next message to a voter.
    pub fn poll_request(&mut self) -> Option<(NodeId, VoteRequest)> {
        self.requests.pop_front()
    }

    /// Returns the next result.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is to be called, or `None` if nothing is under way.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.work {
            Work::Idle => (!self.blank.is_empty()).then_some(Timestamp::ZERO),
            Work::Founding(_) => Some(self.retransmit_at),
            Work::Campaign(campaign) => {
                Some(campaign.retry_at.map_or(self.retransmit_at, |at| at.min(self.retransmit_at)))
            }
        }
    }

    /// Returns the latest configuration that this replica knows to be decided.
    #[must_use]
    pub fn managers(&self) -> Option<&Managers> {
        self.decided.as_ref().map(|decided| &decided.managers)
    }

    /// Returns the term of [`managers`](Self::managers), or zero.
    #[must_use]
    pub fn term(&self) -> Term {
        self.managers().map_or(Term(0), |managers| managers.term)
    }

    const fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    fn drop_ended(&mut self) {
        let lives = &self.lives;
        self.blank.retain(|node, session| lives.is_current(VoterLife { node: *node, session: *session }));
        if let Work::Campaign(campaign) = &mut self.work {
            campaign.drop_ended(lives);
        }
    }

    /// Adds a voter to those to restore. A single voter cannot be restored.
    fn note_blank(&mut self, life: VoterLife) {
        if self.voters.len() > 1 && self.lives.is_current(life) {
            self.blank.insert(life.node, life.session);
        }
    }

    fn begin(&mut self, now: Timestamp, goal: Goal, tries: u32) {
        self.highest = self.highest.next_of(self.me.index);
        self.work = Work::Campaign(Campaign::new(goal, self.highest, tries));
        self.send(now);
    }

    /// Begins to restore a voter if there is nothing else to do, or if the one that is being restored has restarted again.
    fn begin_restoration(&mut self, now: Timestamp) {
        let is_free = match &self.work {
            Work::Idle => true,
            Work::Founding(_) => false,
            Work::Campaign(campaign) => match campaign.goal {
                Goal::Change(_) => false,
                Goal::Restore(life) => self.blank.get(&life.node) != Some(&life.session),
            },
        };
        if !is_free {
            return;
        }
        match self.blank.first_key_value() {
            Some((node, session)) => {
                let life = VoterLife { node: *node, session: *session };
                self.begin(now, Goal::Restore(life), 0);
            }
            None => self.work = Work::Idle,
        }
    }

    /// Sends the request of the present stage to each voter that has not answered it, in place of requests that wait.
    fn send(&mut self, now: Timestamp) {
        self.retransmit_at = now + self.times.retransmit;
        self.requests.clear();
        match &mut self.work {
            Work::Idle => {}
            Work::Founding(founding) => {
                let request = founding.request();
                let to = self.voters.iter().filter(|voter| founding.awaits(**voter));
                self.requests.extend(to.map(|voter| (*voter, request.clone())));
            }
            Work::Campaign(campaign) => {
                if let Stage::Tell { sent, .. } = &mut campaign.stage {
                    *sent += 1;
                }
                let request = campaign.request();
                let to = self.voters.iter().filter(|voter| campaign.awaits(**voter));
                self.requests.extend(to.map(|voter| (*voter, request.clone())));
            }
        }
    }

    fn handle_vote(&mut self, now: Timestamp, life: VoterLife, vote: Vote) {
        let majority = self.majority();
        let Work::Campaign(campaign) = &mut self.work else { return };
        let may_promise = campaign.may_promise(life.node);
        match (vote, &mut campaign.stage) {
            (Vote::Promised { accepted, .. }, Stage::Prepare(promises)) if may_promise => {
                promises.insert(life, accepted);
                campaign.dissent.remove(life.node);
                if campaign.advance(self.me, &self.lives, majority) {
                    self.send(now);
                }
            }
            (Vote::Accepted { .. }, Stage::Accept { votes, .. }) => {
                votes.insert(life, ());
                if votes.len() >= majority {
                    self.decide(now);
                }
            }
            (Vote::Joined, Stage::Tell { .. }) if campaign.goal == Goal::Restore(life) => {
                self.blank.remove(&life.node);
                self.finish(now, Outcome::Restored(life.node));
            }
            (Vote::Refused { hears_active: true, .. }, Stage::Prepare(_)) => {
                self.handle_dissent(now, life, Dissent::HearsActive);
            }
            (Vote::Refused { promised, hears_active: false }, Stage::Prepare(_) | Stage::Accept { .. }) => {
                self.highest = self.highest.max(promised);
                let wait = retry_wait(self.times.retry, self.me.index, campaign.tries);
                campaign.retry_at.get_or_insert(now + wait);
            }
            (Vote::Blank, _) => {
                self.note_blank(life);
                self.handle_dissent(now, life, Dissent::Blank);
                self.begin_restoration(now);
            }
            _ => {}
        }
    }

    /// Ends a change for which no majority remains.
    fn handle_dissent(&mut self, now: Timestamp, life: VoterLife, dissent: Dissent) {
        let most = self.voters.len() - self.majority();
        let Work::Campaign(campaign) = &mut self.work else { return };
        campaign.dissent.insert(life, dissent);
        if campaign.dissent.len() <= most || !matches!(campaign.goal, Goal::Change(_)) {
            return;
        }
        let is_heard = campaign.dissent.votes().any(|dissent| *dissent == Dissent::HearsActive);
        self.finish(now, if is_heard { Outcome::Heard } else { Outcome::NoMajority });
    }

    /// Reports what a majority has accepted.
    fn decide(&mut self, now: Timestamp) {
        let Work::Campaign(campaign) = &self.work else { return };
        let Stage::Accept { managers, is_result, .. } = &campaign.stage else { return };
        let (managers, is_result) = (managers.clone(), *is_result);
        self.decided = Some(AcceptedManagers { ballot: campaign.ballot, managers: managers.clone() });
        self.finish(now, if is_result { Outcome::Decided(managers) } else { Outcome::Refused { managers } });
    }

    fn finish_foundation(&mut self, now: Timestamp) {
        let Work::Founding(founding) = &self.work else { return };
        let managers = founding.managers().clone();
        let unconfirmed: Vec<_> = founding.unconfirmed().collect();
        for life in unconfirmed {
            self.note_blank(life);
        }
        self.decided = Some(AcceptedManagers { ballot: Ballot::FOUNDATION, managers: managers.clone() });
        self.finish(now, Outcome::Decided(managers));
    }

    fn finish(&mut self, now: Timestamp, outcome: Outcome) {
        self.outcomes.push_back(outcome);
        self.rest(now);
    }

    /// Ends the present work.
    fn rest(&mut self, now: Timestamp) {
        self.work = Work::Idle;
        self.requests.clear();
        self.begin_restoration(now);
    }
}

/// Returns the wait before another ballot. Those of the two replicas always differ by half of `retry`, so that one of them has the
/// voters to itself.
fn retry_wait(retry: Nanos, index: u16, tries: u32) -> Nanos {
    let halves = 2 * u64::from(tries.min(LONGEST_WAIT)) + 2 + u64::from(index);
    Nanos(retry.0.saturating_mul(halves) / 2)
}
