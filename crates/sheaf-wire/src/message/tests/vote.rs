//! Votes.

use super::encode;
use crate::checksum::crc32c;
use crate::message::layout::HeaderBytes;
use crate::message::{
    AcceptedManagers, Ballot, Body, DecodeError, Header, MAX_VOTERS, Managers, Message, Replica, Vote,
    VoteAnswer, VoteRequest, VoteStep, VoterLife,
};
use crate::{NodeId, RunNumber, SessionId, Term};
use bytes::Bytes;
use proptest::prelude::*;
use std::mem::offset_of;

fn ballot() -> impl Strategy<Value = Ballot> {
    (Ballot::FOUNDATION.0..=Ballot::MAX.0).prop_map(Ballot)
}

/// A configuration that `ballot` may have been the last to accept.
fn managers(ballot: Ballot) -> impl Strategy<Value = Managers> {
    let sessions = (1..u64::MAX, 1..u64::MAX);
    (1..=ballot.0, sessions, 0..3_u16, any::<bool>()).prop_map(|(term, sessions, in_sync, first)| {
        let replicas = [(0, sessions.0), (1, sessions.1)]
            .map(|(index, session)| Replica { index, session: SessionId(session) });
        let in_sync: Vec<_> = replicas.into_iter().filter(|replica| replica.index != in_sync).collect();
        let active = if first { in_sync[0] } else { in_sync[in_sync.len() - 1] };
        Managers { term: Term(term), active, in_sync }
    })
}

fn accepted() -> impl Strategy<Value = AcceptedManagers> {
    ballot().prop_flat_map(|ballot| {
        managers(ballot).prop_map(move |managers| AcceptedManagers { ballot, managers })
    })
}

fn life() -> impl Strategy<Value = VoterLife> {
    (any::<u16>(), 1..u64::MAX)
        .prop_map(|(index, session)| VoterLife { node: NodeId::output(index), session: SessionId(session) })
}

fn lives() -> impl Strategy<Value = Vec<VoterLife>> {
    prop::collection::vec(life(), 0..=MAX_VOTERS)
}

pub(super) fn request() -> impl Strategy<Value = VoteRequest> {
    let prepare =
        (ballot(), any::<bool>(), prop::option::of(life())).prop_map(|(ballot, takes_over, restarted)| {
            VoteRequest { ballot, step: VoteStep::Prepare { takes_over, restarted } }
        });
    let restore =
        (ballot(), 1..u64::MAX, accepted(), lives()).prop_map(|(ballot, session, accepted, lives)| {
            VoteRequest { ballot, step: VoteStep::Restore { session: SessionId(session), accepted, lives } }
        });
    let others = (accepted(), lives(), 0..4_u8).prop_map(|(accepted, lives, step)| {
        let AcceptedManagers { ballot, managers } = accepted;
        let step = match step {
            0 => VoteStep::Accept(managers),
            1 => VoteStep::Inquire,
            2 => VoteStep::Found { managers, lives },
            _ => VoteStep::Confirm { managers, lives },
        };
        VoteRequest { ballot, step }
    });
    prop_oneof![prepare, restore, others]
}

pub(super) fn answer() -> impl Strategy<Value = VoteAnswer> {
    let vote = prop_oneof![
        (accepted(), lives()).prop_map(|(accepted, lives)| Vote::Promised { accepted, lives }),
        lives().prop_map(|lives| Vote::Accepted { lives }),
        Just(Vote::Joined),
        (ballot(), any::<bool>())
            .prop_map(|(promised, hears_active)| Vote::Refused { promised, hears_active }),
        Just(Vote::Blank),
    ];
    (ballot(), 1..u64::MAX, vote).prop_map(|(ballot, to, vote)| VoteAnswer {
        ballot,
        to: SessionId(to),
        vote,
    })
}

/// Decodes a message after one byte behind its header was changed, with a correct checksum.
fn decode_changed(body: Body<Bytes>, offset: usize, byte: u8) -> Result<Body<Bytes>, DecodeError> {
    let header = Header {
        run: RunNumber(1),
        sender: NodeId::MANAGER,
        session: SessionId(3),
        sequence: 0,
        acknowledged: 0,
        acknowledged_session: SessionId(0),
        term: crate::Term(0),
    };
    let (mut head, mut payload) = encode(Message { header, body });
    head[size_of::<HeaderBytes>() + offset] = byte;
    let at = offset_of!(HeaderBytes, checksum);
    head[at..at + 4].fill(0);
    let checksum = crc32c(&head);
    head[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    Message::decode(&head, &mut payload).map(|message| message.body)
}

#[test]
fn votes_without_a_meaning_are_refused() {
    let replica = Replica { index: 1, session: SessionId(9) };
    let managers = Managers { term: Term(3), active: replica, in_sync: vec![replica] };
    let request = |step| Body::Vote(VoteRequest { ballot: Ballot(3), step });
    let accept = request(VoteStep::Accept(managers.clone()));
    let prepare = request(VoteStep::Prepare { takes_over: true, restarted: None });
    let answer = |vote| Body::Voted(VoteAnswer { ballot: Ballot(3), to: SessionId(9), vote });
    let cases = [
        (prepare.clone(), 0, 0, "a ballot of zero"),
        (prepare.clone(), 7, 0x7f, "a ballot beyond the limit"),
        (prepare.clone(), 8, 1, "a session where none belongs"),
        (prepare.clone(), 16, 7, "an unknown step"),
        (prepare.clone(), 17, 2, "an unknown flag"),
        (prepare, 18, 6, "more voters than possible"),
        (accept.clone(), 17, 1, "a flag of another step"),
        (accept.clone(), 24, 4, "another ballot of the configuration"),
        (accept.clone(), 32, 0, "a term of zero"),
        (accept.clone(), 32, 4, "a term above the ballot"),
        (accept.clone(), 56, 0, "an active replica that is not in sync"),
        (accept, 56, 2, "an active replica that does not exist"),
        (answer(Vote::Joined), 8, 0, "an answer to nobody"),
        (answer(Vote::Joined), 16, 1, "a promise in another answer"),
        (answer(Vote::Joined), 24, 6, "an unknown answer"),
        (answer(Vote::Joined), 25, 1, "a flag of another answer"),
        (answer(Vote::Refused { promised: Ballot(1), hears_active: false }), 16, 0, "no promised ballot"),
    ];
    for (body, offset, byte, case) in cases {
        let refused = decode_changed(body, offset, byte);
        assert!(
            matches!(refused, Err(DecodeError::BadValue { .. } | DecodeError::Truncated { .. })),
            "{case}: {refused:?}"
        );
    }
}

#[test]
fn ballots_of_the_replicas_differ_and_grow() {
    let mut ballots = vec![Ballot::FOUNDATION];
    for index in [0, 1, 1, 0, 0, 1] {
        let next = ballots[ballots.len() - 1].next_of(index);
        assert_eq!(next.replica(), index);
        ballots.push(next);
    }
    assert_eq!(ballots.iter().map(|ballot| ballot.0).collect::<Vec<_>>(), [1, 2, 5, 7, 8, 10, 13]);
    assert_eq!(Ballot::FOUNDATION.replica(), 0);
}
