//! Voters and proposers, one scenario each. `tests/votes_model.rs` explores the orders of messages.

use super::*;
use sheaf_wire::message::{Ballot, Managers, Replica, Vote, VoteRequest, VoteStep};
use sheaf_wire::{Nanos, NodeId, SessionId, Term, Timestamp};
use std::collections::BTreeSet;

const TIMES: VoteTimes = VoteTimes { retransmit: Nanos(10), retry: Nanos(100) };

const TAKE_OVER: Change = Change::TakeOver { steps_down: false };

/// Two proposers and their voters. Messages arrive at once, or not at all.
struct Cluster {
    now: Timestamp,
    voters: Vec<(SessionId, Voter)>,
    proposers: [Proposer; 2],
    /// Voters that receive nothing.
    cut: BTreeSet<usize>,
    /// Voters that hear the active replica.
    hearing: BTreeSet<usize>,
}

fn replica(index: u16) -> Replica {
    Replica { index, session: SessionId(100 + u64::from(index)) }
}

fn node(voter: usize) -> NodeId {
    NodeId::readout(voter as u16)
}

impl Cluster {
    /// Voters that have just been started.
    fn blank(voters: usize) -> Self {
        let nodes: Vec<_> = (0..voters).map(node).collect();
        let proposer = |index| Proposer::new(replica(index), nodes.clone(), TIMES);
        let voter = |voter| (SessionId(1), Voter::new(node(voter), SessionId(1)));
        Self {
            now: Timestamp(1000),
            voters: (0..voters).map(voter).collect(),
            proposers: [proposer(0), proposer(1)],
            cut: BTreeSet::new(),
            hearing: BTreeSet::new(),
        }
    }

    /// Replica 0 is active, and both are in sync.
    fn founded(voters: usize) -> Self {
        let mut cluster = Self::blank(voters);
        cluster.proposers[0].found(cluster.now, first());
        assert_eq!(cluster.run(0), [Outcome::Decided(first())]);
        cluster
    }

    fn restart(&mut self, voter: usize) -> SessionId {
        let session = SessionId(self.voters[voter].0.0 + 1);
        self.voters[voter] = (session, Voter::new(node(voter), session));
        session
    }

    fn propose(&mut self, index: usize, change: Change) -> Vec<Outcome> {
        self.proposers[index].propose(self.now, change);
        self.run(index)
    }

    /// Delivers messages and lets time pass until the proposer has nothing to do, or too many timeouts have expired.
    fn run(&mut self, index: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for _ in 0..40 {
            self.deliver(index);
            outcomes.extend(std::iter::from_fn(|| self.proposers[index].poll_outcome()));
            let Some(at) = self.proposers[index].poll_timeout() else { break };
            self.now = self.now.max(at);
            self.proposers[index].handle_timeout(self.now);
        }
        outcomes
    }

    fn deliver(&mut self, index: usize) {
        while let Some((to, request)) = self.proposers[index].poll_request() {
            let voter = usize::from(to.index);
            if self.cut.contains(&voter) {
                continue;
            }
            let (session, machine) = &mut self.voters[voter];
            let answer =
                machine.handle_request(replica(index as u16), request, self.hearing.contains(&voter));
            let session = *session;
            self.proposers[index].handle_answer(self.now, to, session, answer);
        }
    }
}

fn managers(term: u64, active: u16, in_sync: &[u16]) -> Managers {
    Managers {
        term: Term(term),
        active: replica(active),
        in_sync: in_sync.iter().copied().map(replica).collect(),
    }
}

fn first() -> Managers {
    managers(1, 0, &[0, 1])
}

#[test]
fn a_standby_that_is_in_sync_takes_over_and_the_former_active_replica_is_refused() {
    for voters in [1, 3, 5] {
        let mut cluster = Cluster::founded(voters);
        let taken = managers(3, 1, &[1]);
        assert_eq!(cluster.propose(1, TAKE_OVER), [Outcome::Decided(taken.clone())]);
        assert_eq!(cluster.proposers[1].managers(), Some(&taken));
        let refused = [Outcome::Refused { managers: taken.clone() }];
        assert_eq!(cluster.propose(0, Change::StrikeOff(replica(1))), refused);
        assert_eq!(cluster.propose(0, TAKE_OVER), refused, "the term is still that of the take-over");
        let admitted = cluster.propose(1, Change::Admit(replica(0)));
        assert!(
            matches!(&admitted[..], [Outcome::Decided(managers)] if managers.in_sync == first().in_sync),
            "{admitted:?}"
        );
    }
}

#[test]
fn a_standby_that_was_struck_off_cannot_take_over() {
    let mut cluster = Cluster::founded(3);
    let alone = managers(2, 0, &[0]);
    assert_eq!(cluster.propose(0, Change::StrikeOff(replica(1))), [Outcome::Decided(alone.clone())]);
    assert_eq!(cluster.propose(1, TAKE_OVER), [Outcome::Refused { managers: alone.clone() }]);
    let other_life = Replica { session: SessionId(7), ..replica(1) };
    let admitted = cluster.propose(0, Change::Admit(other_life));
    assert!(matches!(admitted[..], [Outcome::Decided(_)]), "{admitted:?}");
    assert!(
        matches!(cluster.propose(1, TAKE_OVER)[..], [Outcome::Refused { .. }]),
        "another session was admitted"
    );
}

#[test]
fn voters_that_hear_the_active_replica_prevent_a_take_over_unless_it_was_asked_for() {
    let mut cluster = Cluster::founded(3);
    cluster.hearing = [0, 2].into();
    assert_eq!(cluster.propose(1, TAKE_OVER), [Outcome::Heard]);
    assert!(!cluster.proposers[1].is_proposing());
    let steps_down = cluster.propose(1, Change::TakeOver { steps_down: true });
    assert!(matches!(steps_down[..], [Outcome::Decided(_)]), "{steps_down:?}");

    let mut cluster = Cluster::founded(3);
    cluster.hearing = [1].into();
    assert!(matches!(cluster.propose(1, TAKE_OVER)[..], [Outcome::Decided(_)]), "a minority hears it");
}

#[test]
fn a_majority_suffices_and_less_does_not() {
    let mut cluster = Cluster::founded(5);
    cluster.cut = [1, 4].into();
    assert!(matches!(cluster.propose(1, TAKE_OVER)[..], [Outcome::Decided(_)]));
    cluster.cut = [1, 3, 4].into();
    assert_eq!(cluster.propose(1, Change::Admit(replica(0))), []);
    assert!(cluster.proposers[1].is_proposing());
    cluster.cut.clear();
    assert!(matches!(cluster.run(1)[..], [Outcome::Decided(_)]), "requests are repeated");
}

#[test]
fn a_withdrawn_change_is_not_repeated_but_what_a_voter_has_accepted_is_completed() {
    let mut cluster = Cluster::founded(3);
    cluster.proposers[1].propose(cluster.now, TAKE_OVER);
    let ballot = Ballot(3);
    let accept = VoteRequest { ballot, step: VoteStep::Accept(managers(3, 1, &[1])) };
    let answer = cluster.voters[2].1.handle_request(replica(1), accept, false);
    assert!(matches!(answer.vote, Vote::Accepted { .. }));
    cluster.proposers[1].withdraw();
    assert!(!cluster.proposers[1].is_proposing());
    assert_eq!(cluster.proposers[1].poll_request(), None);
    assert_eq!(cluster.proposers[1].poll_timeout(), None);

    cluster.cut = [0].into();
    let refused = Outcome::Refused { managers: managers(3, 1, &[1]) };
    assert_eq!(cluster.propose(0, Change::StrikeOff(replica(1))), [refused]);
    assert_eq!(cluster.voters[1].1.managers(), Some(&managers(3, 1, &[1])), "it was completed");
}

#[test]
fn a_restarted_voter_is_silent_until_it_is_restored() {
    for voters in [3, 5] {
        let mut cluster = Cluster::founded(voters);
        let session = cluster.restart(0);
        cluster.cut = [1].into();
        if voters == 3 {
            assert_eq!(cluster.propose(0, Change::StrikeOff(replica(1))), [], "one of three votes");
            cluster.proposers[0].withdraw();
        }
        cluster.cut.clear();
        cluster.proposers[0].restore(cluster.now, node(0), session);
        assert_eq!(cluster.run(0), [Outcome::Restored(node(0))]);
        assert_eq!(cluster.voters[0].1.managers(), Some(&first()));
        cluster.cut = [1].into();
        let struck_off = cluster.propose(0, Change::StrikeOff(replica(1)));
        assert!(matches!(struck_off[..], [Outcome::Decided(_)]), "{struck_off:?}");
    }
}

#[test]
fn a_proposer_that_meets_a_blank_voter_restores_it_after_its_change() {
    let mut cluster = Cluster::founded(3);
    cluster.restart(1);
    let outcomes = cluster.propose(1, TAKE_OVER);
    assert_eq!(outcomes, [Outcome::Decided(managers(3, 1, &[1])), Outcome::Restored(node(1))]);
    assert_eq!(cluster.voters[1].1.managers(), Some(&managers(3, 1, &[1])));
}

#[test]
fn a_message_for_an_earlier_session_restores_nobody() {
    let mut cluster = Cluster::founded(3);
    let session = cluster.restart(0);
    cluster.proposers[0].restore(cluster.now, node(0), session);
    cluster.cut = [0].into();
    cluster.deliver(0);
    cluster.proposers[0].handle_timeout(Timestamp(u64::MAX / 2));
    let (to, late) = cluster.proposers[0].poll_request().expect("the restoration is retransmitted");
    assert_eq!(to, node(0));
    cluster.restart(0);
    let answer = cluster.voters[0].1.handle_request(replica(0), late, false);
    assert_eq!(answer.vote, Vote::Blank);
    assert_eq!(cluster.voters[0].1.managers(), None);
}

#[test]
fn without_a_majority_of_voters_that_vote_there_is_an_outcome() {
    let mut cluster = Cluster::founded(1);
    let session = cluster.restart(0);
    cluster.proposers[0].restore(cluster.now, node(0), session);
    assert_eq!(cluster.run(0), [], "no other voter");
    assert_eq!(cluster.propose(1, TAKE_OVER), [Outcome::NoMajority]);

    let mut cluster = Cluster::founded(3);
    cluster.restart(0);
    cluster.restart(2);
    cluster.proposers[1].propose(cluster.now, TAKE_OVER);
    cluster.deliver(1);
    assert_eq!(cluster.proposers[1].poll_outcome(), Some(Outcome::NoMajority));
}

#[test]
fn a_restoration_that_is_not_answered_ends() {
    let mut cluster = Cluster::founded(3);
    cluster.restart(0);
    cluster.cut = [0].into();
    cluster.proposers[0].restore(cluster.now, node(0), SessionId(2));
    assert_eq!(cluster.run(0), []);
    assert_eq!(cluster.proposers[0].poll_timeout(), None);
}

#[test]
fn all_voters_are_needed_to_found_and_a_second_founder_is_refused() {
    let mut cluster = Cluster::blank(3);
    cluster.cut = [1].into();
    cluster.proposers[0].found(cluster.now, first());
    assert_eq!(cluster.run(0), []);
    assert!(cluster.voters.iter().all(|(_, voter)| voter.managers().is_none()));
    cluster.restart(2);
    cluster.cut.clear();
    assert_eq!(cluster.run(0), [Outcome::Decided(first())]);
    assert!(cluster.voters.iter().all(|(_, voter)| voter.managers() == Some(&first())));

    let again = Replica { session: SessionId(200), ..replica(0) };
    cluster.proposers[0] = Proposer::new(again, (0..3).map(node).collect(), TIMES);
    cluster.restart(0);
    let alone = Managers { term: Term(1), active: again, in_sync: vec![again] };
    cluster.proposers[0].found(cluster.now, alone);
    let (to, request) = cluster.proposers[0].poll_request().expect("voters are asked");
    assert_eq!((to, &request.step), (node(0), &VoteStep::Inquire));
    while let Some((to, request)) = cluster.proposers[0].poll_request() {
        let (session, voter) = &mut cluster.voters[usize::from(to.index)];
        let answer = voter.handle_request(again, request, false);
        cluster.proposers[0].handle_answer(cluster.now, to, *session, answer);
    }
    assert_eq!(cluster.proposers[0].poll_outcome(), Some(Outcome::AlreadyFounded));
}

#[test]
fn two_proposers_that_begin_together_do_not_hinder_each_other_for_ever() {
    let mut cluster = Cluster::founded(3);
    let changes = [Change::StrikeOff(replica(1)), TAKE_OVER];
    for (proposer, change) in cluster.proposers.iter_mut().zip(changes) {
        proposer.propose(cluster.now, change);
    }
    let mut outcomes = [None, None];
    for _ in 0..100 {
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            // One message each, in turn.
            if let Some((to, request)) = cluster.proposers[index].poll_request() {
                let (session, voter) = &mut cluster.voters[usize::from(to.index)];
                let answer = voter.handle_request(replica(index as u16), request, false);
                cluster.proposers[index].handle_answer(cluster.now, to, *session, answer);
            }
            *outcome = outcome.take().or_else(|| cluster.proposers[index].poll_outcome());
            cluster.proposers[index].handle_timeout(cluster.now);
        }
        cluster.now += Nanos(1);
    }
    for _ in 0..100 {
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            cluster.deliver(index);
            *outcome = outcome.take().or_else(|| cluster.proposers[index].poll_outcome());
            cluster.proposers[index].handle_timeout(cluster.now);
        }
        cluster.now += TIMES.retransmit;
    }
    let is_decided = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Decided(_)));
    let is_refused = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Refused { .. }));
    let [first, second] = &outcomes;
    assert!(
        is_decided(first) && is_refused(second) || is_refused(first) && is_decided(second),
        "{outcomes:?}"
    );
}
