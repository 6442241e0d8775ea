//! Steps of ballots and answers of voters, between bytes and values.

use super::{Entry, bytes_of, emit_all, parse_list, split};
use crate::message::layout::{AcceptedBytes, VoteBytes, VotedBytes, VoterBytes};
use crate::message::vote::REPLICAS;
use crate::message::{
    AcceptedManagers, Ballot, DecodeError, MAX_VOTERS, Managers, Replica, Vote, VoteAnswer, VoteRequest,
    VoteStep, VoterLife,
};
use crate::{NodeId, SessionId, Term};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Codes of [`VoteStep`].
const PREPARE: u8 = 1;
const ACCEPT: u8 = 2;
const RESTORE: u8 = 3;
const INQUIRE: u8 = 4;
const FOUND: u8 = 5;
const CONFIRM: u8 = 6;

/// Codes of [`Vote`].
const PROMISED: u8 = 1;
const ACCEPTED: u8 = 2;
const JOINED: u8 = 3;
const REFUSED: u8 = 4;
const BLANK: u8 = 5;

impl Entry for VoterLife {
    type Bytes = VoterBytes;
    fn emit(&self) -> VoterBytes {
        VoterBytes {
            session: U64::new(self.session.0),
            node: U32::new(self.node.to_code()),
            reserved: U32::ZERO,
        }
    }
    fn parse(bytes: &VoterBytes) -> Result<Self, DecodeError> {
        let code = bytes.node.get();
        let node = NodeId::from_code(code).ok_or(bad("voter", code.into()))?;
        Ok(Self { node, session: parse_session("session of a voter", bytes.session)? })
    }
}

impl Entry for AcceptedManagers {
    type Bytes = AcceptedBytes;
    fn emit(&self) -> AcceptedBytes {
        let Managers { term, active, in_sync } = &self.managers;
        let session =
            |index| in_sync.iter().find(|replica| replica.index == index).map_or(0, |it| it.session.0);
        AcceptedBytes {
            ballot: U64::new(self.ballot.0),
            term: U64::new(term.0),
            in_sync_0: U64::new(session(0)),
            in_sync_1: U64::new(session(1)),
            active: U16::new(active.index),
            reserved: [0; 6],
        }
    }
    fn parse(bytes: &AcceptedBytes) -> Result<Self, DecodeError> {
        let ballot = parse_ballot("ballot of a configuration", bytes.ballot)?;
        let term = bytes.term.get();
        if term == 0 || term > ballot.0 {
            return Err(bad("term", term));
        }
        let replica = |(index, session): (u16, U64)| Replica { index, session: SessionId(session.get()) };
        let sessions = (0..REPLICAS).zip([bytes.in_sync_0, bytes.in_sync_1]);
        let in_sync: Vec<_> = sessions.map(replica).filter(|replica| replica.session.0 != 0).collect();
        let index = bytes.active.get();
        let active = in_sync.iter().find(|replica| replica.index == index);
        let active = *active.ok_or(bad("active replica", index.into()))?;
        Ok(Self { ballot, managers: Managers { term: Term(term), active, in_sync } })
    }
}

impl VoteRequest {
    /// Returns the size of the request behind the header of its message.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let (managers, voters) = match &self.step {
            VoteStep::Prepare { restarted, .. } => (0, usize::from(restarted.is_some())),
            VoteStep::Accept(_) => (1, 0),
            VoteStep::Restore { lives, .. }
            | VoteStep::Found { lives, .. }
            | VoteStep::Confirm { lives, .. } => (1, lives.len()),
            VoteStep::Inquire => (0, 0),
        };
        size_of::<VoteBytes>() + managers * size_of::<AcceptedBytes>() + voters * size_of::<VoterBytes>()
    }
}

impl VoteAnswer {
    /// Returns the size of the answer behind the header of its message.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        size_of::<VotedBytes>()
            + match &self.vote {
                Vote::Promised { lives, .. } => size_of::<AcceptedBytes>() + bytes_of(lives),
                Vote::Accepted { lives } => bytes_of(lives),
                Vote::Joined | Vote::Refused { .. } | Vote::Blank => 0,
            }
    }
}

/// Writes a request behind the header.
pub(super) fn emit_request(head: &mut Vec<u8>, request: &VoteRequest) {
    let ballot = request.ballot;
    let proposed = |managers: &Managers| Some(AcceptedManagers { ballot, managers: managers.clone() });
    let (mut flags, mut session) = (0, SessionId(0));
    let (step, accepted, voters) = match &request.step {
        VoteStep::Prepare { takes_over, restarted } => {
            flags = u8::from(*takes_over);
            (PREPARE, None, restarted.as_slice())
        }
        VoteStep::Accept(managers) => (ACCEPT, proposed(managers), &[][..]),
        VoteStep::Restore { session: of, accepted, lives } => {
            session = *of;
            (RESTORE, Some(accepted.clone()), &lives[..])
        }
        VoteStep::Inquire => (INQUIRE, None, &[][..]),
        VoteStep::Found { managers, lives } => (FOUND, proposed(managers), &lives[..]),
        VoteStep::Confirm { managers, lives } => (CONFIRM, proposed(managers), &lives[..]),
    };
    let fixed = VoteBytes {
        ballot: U64::new(ballot.0),
        session: U64::new(session.0),
        step,
        flags,
        voters: count(voters),
        reserved: U32::ZERO,
    };
    emit_parts(head, fixed.as_bytes(), accepted.as_ref(), voters);
}

/// Reads a request behind the header.
pub(super) fn parse_request(bytes: &[u8]) -> Result<VoteRequest, DecodeError> {
    let (fixed, rest) = split::<VoteBytes>(bytes)?;
    let (step, flags, session) = (fixed.step, fixed.flags, fixed.session.get());
    let ballot = parse_ballot("ballot", fixed.ballot)?;
    let has_managers = matches!(step, ACCEPT | RESTORE | FOUND | CONFIRM);
    let (accepted, voters) = parse_parts(rest, has_managers, fixed.voters.get())?;
    if flags > u8::from(step == PREPARE) {
        return Err(bad("vote flags", flags.into()));
    }
    if (session != 0) != (step == RESTORE) {
        return Err(bad("session of a vote", session));
    }
    let too_many = match step {
        PREPARE => voters.len() > 1,
        ACCEPT | INQUIRE => !voters.is_empty(),
        _ => false,
    };
    if too_many {
        return Err(bad("number of voters", voters.len() as u64));
    }
    let step = match (step, accepted) {
        (PREPARE, _) => VoteStep::Prepare { takes_over: flags == 1, restarted: voters.first().copied() },
        (INQUIRE, _) => VoteStep::Inquire,
        (RESTORE, Some(accepted)) => {
            VoteStep::Restore { session: SessionId(session), accepted, lives: voters }
        }
        (step, Some(AcceptedManagers { ballot: by, managers })) => {
            if by != ballot {
                return Err(bad("ballot of a configuration", by.0));
            }
            match step {
                ACCEPT => VoteStep::Accept(managers),
                FOUND => VoteStep::Found { managers, lives: voters },
                _ => VoteStep::Confirm { managers, lives: voters },
            }
        }
        (step, None) => return Err(bad("step", step.into())),
    };
    Ok(VoteRequest { ballot, step })
}

/// Writes an answer behind the header.
pub(super) fn emit_answer(head: &mut Vec<u8>, answer: &VoteAnswer) {
    let (mut flags, mut highest) = (0, Ballot(0));
    let (vote, accepted, voters) = match &answer.vote {
        Vote::Promised { accepted, lives } => (PROMISED, Some(accepted), &lives[..]),
        Vote::Accepted { lives } => (ACCEPTED, None, &lives[..]),
        Vote::Joined => (JOINED, None, &[][..]),
        Vote::Refused { promised, hears_active } => {
            (flags, highest) = (u8::from(*hears_active), *promised);
            (REFUSED, None, &[][..])
        }
        Vote::Blank => (BLANK, None, &[][..]),
    };
    let fixed = VotedBytes {
        ballot: U64::new(answer.ballot.0),
        session: U64::new(answer.to.0),
        promised: U64::new(highest.0),
        vote,
        flags,
        voters: count(voters),
        reserved: U32::ZERO,
    };
    emit_parts(head, fixed.as_bytes(), accepted, voters);
}

/// Reads an answer behind the header.
pub(super) fn parse_answer(bytes: &[u8]) -> Result<VoteAnswer, DecodeError> {
    let (fixed, rest) = split::<VotedBytes>(bytes)?;
    let (vote, flags, promised) = (fixed.vote, fixed.flags, fixed.promised.get());
    let ballot = parse_ballot("ballot", fixed.ballot)?;
    let to = parse_session("session of a vote", fixed.session)?;
    let (accepted, lives) = parse_parts(rest, vote == PROMISED, fixed.voters.get())?;
    if flags > u8::from(vote == REFUSED) {
        return Err(bad("vote flags", flags.into()));
    }
    if vote != REFUSED && promised != 0 {
        return Err(bad("promised ballot", promised));
    }
    if !matches!(vote, PROMISED | ACCEPTED) && !lives.is_empty() {
        return Err(bad("number of voters", lives.len() as u64));
    }
    let vote = match (vote, accepted) {
        (PROMISED, Some(accepted)) => Vote::Promised { accepted, lives },
        (ACCEPTED, _) => Vote::Accepted { lives },
        (JOINED, _) => Vote::Joined,
        (REFUSED, _) => {
            let promised = parse_ballot("promised ballot", fixed.promised)?;
            Vote::Refused { promised, hears_active: flags == 1 }
        }
        (BLANK, _) => Vote::Blank,
        (vote, _) => return Err(bad("vote", vote.into())),
    };
    Ok(VoteAnswer { ballot, to, vote })
}

fn emit_parts(head: &mut Vec<u8>, fixed: &[u8], accepted: Option<&AcceptedManagers>, voters: &[VoterLife]) {
    head.extend_from_slice(fixed);
    if let Some(accepted) = accepted {
        head.extend_from_slice(accepted.emit().as_bytes());
    }
    emit_all(head, voters);
}

fn parse_parts(
    bytes: &[u8],
    has_managers: bool,
    voters: u16,
) -> Result<(Option<AcceptedManagers>, Vec<VoterLife>), DecodeError> {
    if usize::from(voters) > MAX_VOTERS {
        return Err(bad("number of voters", voters.into()));
    }
    let (accepted, rest) = match has_managers {
        true => {
            let (accepted, rest) = split::<AcceptedBytes>(bytes)?;
            (Some(AcceptedManagers::parse(accepted)?), rest)
        }
        false => (None, bytes),
    };
    match parse_list(rest, voters.into())? {
        (voters, []) => Ok((accepted, voters)),
        (_, extra) => Err(DecodeError::TrailingBytes(extra.len())),
    }
}

fn parse_ballot(field: &'static str, ballot: U64) -> Result<Ballot, DecodeError> {
    let ballot = Ballot(ballot.get());
    if (Ballot::FOUNDATION..=Ballot::MAX).contains(&ballot) { Ok(ballot) } else { Err(bad(field, ballot.0)) }
}

fn parse_session(field: &'static str, session: U64) -> Result<SessionId, DecodeError> {
    match session.get() {
        0 => Err(bad(field, 0)),
        session => Ok(SessionId(session)),
    }
}

fn count(voters: &[VoterLife]) -> U16 {
    U16::new(u16::try_from(voters.len()).unwrap_or(u16::MAX))
}

fn bad(field: &'static str, value: u64) -> DecodeError {
    DecodeError::BadValue { field, value }
}
