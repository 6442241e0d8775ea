//! Votes about the active replica of the event manager.

use bytes::Bytes;
use sheaf_wire::message::{
    AcceptedManagers, Ballot, Body, Managers, Replica, Vote, VoteAnswer, VoteRequest, VoteStep, VoterLife,
};
use sheaf_wire::{NodeId, SessionId, Term};

pub(super) fn bodies() -> Vec<(&'static str, Body<Bytes>)> {
    let replica = |index: u16| Replica { index, session: SessionId(11 + u64::from(index)) };
    let ballot = Ballot(7);
    let managers = Managers { term: Term(7), active: replica(1), in_sync: vec![replica(0), replica(1)] };
    let accepted =
        AcceptedManagers { ballot: Ballot(6), managers: Managers { term: Term(4), ..managers.clone() } };
    let life = |index| VoterLife { node: NodeId::readout(index), session: SessionId(100 + u64::from(index)) };
    let lives: Vec<_> = (0..3).map(life).collect();
    let request = |step| Body::Vote(VoteRequest { ballot, step });
    let answer = |vote| Body::Voted(VoteAnswer { ballot, to: SessionId(12), vote });
    vec![
        ("vote-prepare", request(VoteStep::Prepare { takes_over: true, restarted: None })),
        ("vote-prepare-restored", request(VoteStep::Prepare { takes_over: false, restarted: Some(life(2)) })),
        ("vote-accept", request(VoteStep::Accept(managers.clone()))),
        (
            "vote-restore",
            request(VoteStep::Restore {
                session: SessionId(102),
                accepted: accepted.clone(),
                lives: lives.clone(),
            }),
        ),
        ("vote-inquire", request(VoteStep::Inquire)),
        ("vote-found", request(VoteStep::Found { managers: managers.clone(), lives: lives.clone() })),
        ("vote-confirm", request(VoteStep::Confirm { managers, lives: lives.clone() })),
        ("voted-promised", answer(Vote::Promised { accepted, lives: lives.clone() })),
        ("voted-accepted", answer(Vote::Accepted { lives })),
        ("voted-joined", answer(Vote::Joined)),
        ("voted-refused", answer(Vote::Refused { promised: Ballot(8), hears_active: true })),
        ("voted-blank", answer(Vote::Blank)),
    ]
}
