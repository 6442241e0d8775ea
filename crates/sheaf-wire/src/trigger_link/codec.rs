//! Messages of the trigger protocol, between bytes and values.

use super::layout::{
    AccountBytes, BusyBytes, BusyTimeBytes, EndBytes, HAS_CULPRIT, HelloBytes, PhaseBytes, ProgressBytes,
    RefusedBytes, TotalsBytes, TriggerBytes, WelcomeBytes,
};
use super::{
    Busy, BusyCause, BusyReason, BusyTime, BusyTimes, FromManager, FromSupervisor, HEAD_BYTES, Kind,
    MAX_BUSY_TIMES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_PAYLOAD_BYTES, MAX_REASON_BYTES, MAX_TRIGGERS,
    Phase, ReceivedTriggers, Refusal, Totals, Trigger, VERSION,
};
use crate::key_proof::{AnswerBytes, ChallengeBytes, ProofBytes};
use crate::message::DecodeError;
use crate::message::split;
use crate::parts::{self, bad, coded, count, cut, list, text, whole};
use crate::{EventId, Nanos, NodeId, RunNumber, Timestamp, TriggerType};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

impl FromSupervisor {
    /// Writes the message.
    ///
    /// # Panics
    /// If there are more than [`MAX_TRIGGERS`] triggers, or none, or the message is longer than [`MAX_MESSAGE_BYTES`].
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Hello { name } => {
                let name = cut(name, MAX_NAME_BYTES);
                let body = HelloBytes { version: U32::new(VERSION), name_bytes: count(name.len()) };
                compose(Kind::Hello, &[body.as_bytes(), name.as_bytes()])
            }
            Self::Triggers(triggers) => {
                assert!(
                    (1..=MAX_TRIGGERS).contains(&triggers.len()),
                    "a message holds 1 to {MAX_TRIGGERS} triggers"
                );
                let mut body = Vec::with_capacity(triggers.iter().map(Trigger::message_bytes).sum());
                for trigger in triggers {
                    body.extend_from_slice(trigger.to_bytes().as_bytes());
                    body.extend_from_slice(&trigger.payload);
                }
                assert!(HEAD_BYTES + body.len() <= MAX_MESSAGE_BYTES, "a message of triggers is too long");
                compose(Kind::Triggers, &[&body])
            }
            Self::End { sent } => compose(Kind::End, &[EndBytes { sent: U64::new(*sent) }.as_bytes()]),
            Self::Totals(totals) => {
                let body = TotalsBytes {
                    offered: U64::new(totals.offered),
                    sent: U64::new(totals.sent),
                    own_vetoed: U64::new(totals.own_vetoed),
                    busy_times: count(totals.busy.len().min(MAX_BUSY_TIMES)),
                    reserved: U32::new(0),
                };
                compose(Kind::Totals, &[body.as_bytes(), emit_busy(&totals.busy).as_bytes()])
            }
            Self::Answer { nonce, proof } => {
                compose(Kind::Answer, &[AnswerBytes { nonce: *nonce, proof: *proof }.as_bytes()])
            }
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Returns the defect of the message; [`DecodeError::BadValue`] of `version` if the supervisor uses another version.
    pub fn read(message: &[u8]) -> Result<Self, DecodeError> {
        let (kind, body) = open(message)?;
        match kind {
            Kind::Hello => {
                let (head, name) = split::<HelloBytes>(body)?;
                if head.version.get() != VERSION {
                    return Err(bad("version", head.version.get()));
                }
                if name.len() as u64 != u64::from(head.name_bytes.get()) {
                    return Err(bad("name_bytes", head.name_bytes.get()));
                }
                Ok(Self::Hello { name: text("name", name, MAX_NAME_BYTES)? })
            }
            Kind::Triggers => {
                let mut triggers =
                    Vec::with_capacity((body.len() / size_of::<TriggerBytes>()).min(MAX_TRIGGERS));
                let mut rest = body;
                while !rest.is_empty() {
                    let (trigger, behind) = Trigger::read(rest)?;
                    triggers.push(trigger);
                    rest = behind;
                    if triggers.len() > MAX_TRIGGERS {
                        break;
                    }
                }
                if !(1..=MAX_TRIGGERS).contains(&triggers.len()) {
                    return Err(bad("triggers", triggers.len() as u64));
                }
                Ok(Self::Triggers(triggers))
            }
            Kind::End => Ok(Self::End { sent: whole::<EndBytes>(body)?.sent.get() }),
            Kind::Totals => {
                let (head, rest) = split::<TotalsBytes>(body)?;
                Ok(Self::Totals(Totals {
                    offered: head.offered.get(),
                    sent: head.sent.get(),
                    own_vetoed: head.own_vetoed.get(),
                    busy: read_busy(head.busy_times.get(), rest)?,
                }))
            }
            Kind::Answer => {
                let AnswerBytes { nonce, proof } = *whole(body)?;
                Ok(Self::Answer { nonce, proof })
            }
            _ => Err(bad("kind", kind as u8)),
        }
    }
}

impl FromManager {
    /// Writes the message.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Welcome { run, phase, next, max_payload } => {
                let body = WelcomeBytes {
                    version: U32::new(VERSION),
                    run: U32::new(run.0),
                    next: U64::new(next.0),
                    phase: *phase as u8,
                    reserved: [0; 3],
                    max_payload_bytes: U32::new(*max_payload),
                };
                compose(Kind::Welcome, &[body.as_bytes()])
            }
            Self::Busy(busy) => {
                let (flags, culprit) = emit_culprit(busy.reason.and_then(|reason| reason.culprit));
                let body = BusyBytes {
                    sequence: U64::new(busy.sequence),
                    cause: busy.reason.map_or(0, |reason| reason.cause as u8),
                    flags,
                    reserved: U16::new(0),
                    culprit,
                    at: U64::new(busy.at.0),
                };
                compose(Kind::Busy, &[body.as_bytes()])
            }
            Self::Progress { received, accepted } => {
                let body = ProgressBytes { received: U64::new(*received), accepted: U64::new(*accepted) };
                compose(Kind::Progress, &[body.as_bytes()])
            }
            Self::Phase(phase) => {
                compose(Kind::Phase, &[PhaseBytes { phase: *phase as u8, reserved: [0; 7] }.as_bytes()])
            }
            Self::Refused { refusal, text } => {
                let body = RefusedBytes { refusal: *refusal as u8, reserved: [0; 7] };
                compose(Kind::Refused, &[body.as_bytes(), cut(text, MAX_REASON_BYTES).as_bytes()])
            }
            Self::Account(account) => {
                compose(Kind::Account, &[account.to_bytes().as_bytes(), emit_busy(&account.busy).as_bytes()])
            }
            Self::Challenge(nonce) => {
                compose(Kind::Challenge, &[ChallengeBytes { nonce: *nonce }.as_bytes()])
            }
            Self::Proof(proof) => compose(Kind::Proof, &[ProofBytes { proof: *proof }.as_bytes()]),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Returns the defect of the message; [`DecodeError::BadValue`] of `version` if the event manager uses another version.
    pub fn read(message: &[u8]) -> Result<Self, DecodeError> {
        let (kind, body) = open(message)?;
        match kind {
            Kind::Welcome => {
                let head = whole::<WelcomeBytes>(body)?;
                if head.version.get() != VERSION {
                    return Err(bad("version", head.version.get()));
                }
                let (run, next) = (RunNumber(head.run.get()), EventId(head.next.get()));
                let max_payload = head.max_payload_bytes.get();
                Ok(Self::Welcome {
                    run,
                    phase: coded("phase", head.phase, Phase::from_code)?,
                    next,
                    max_payload,
                })
            }
            Kind::Busy => {
                let bytes = whole::<BusyBytes>(body)?;
                let (sequence, at) = (bytes.sequence.get(), Timestamp(bytes.at.get()));
                let reason = match bytes.cause {
                    0 => None,
                    cause => Some(read_reason(cause, bytes.flags, bytes.culprit)?),
                };
                Ok(Self::Busy(Busy { sequence, reason, at }))
            }
            Kind::Progress => {
                let bytes = whole::<ProgressBytes>(body)?;
                Ok(Self::Progress { received: bytes.received.get(), accepted: bytes.accepted.get() })
            }
            Kind::Phase => {
                Ok(Self::Phase(coded("phase", whole::<PhaseBytes>(body)?.phase, Phase::from_code)?))
            }
            Kind::Refused => {
                let (head, rest) = split::<RefusedBytes>(body)?;
                let refusal = coded("refusal", head.refusal, Refusal::from_code)?;
                Ok(Self::Refused { refusal, text: text("reason", rest, MAX_REASON_BYTES)? })
            }
            Kind::Account => {
                let (head, rest) = split::<AccountBytes>(body)?;
                Ok(Self::Account(ReceivedTriggers::read(head, rest)?))
            }
            Kind::Challenge => Ok(Self::Challenge(whole::<ChallengeBytes>(body)?.nonce)),
            Kind::Proof => Ok(Self::Proof(whole::<ProofBytes>(body)?.proof)),
            _ => Err(bad("kind", kind as u8)),
        }
    }
}

impl ReceivedTriggers {
    fn to_bytes(&self) -> AccountBytes {
        AccountBytes {
            received: U64::new(self.received),
            accepted: U64::new(self.accepted),
            lost: U64::new(self.lost),
            repeated: U64::new(self.repeated),
            out_of_order: U64::new(self.out_of_order),
            outside: U64::new(self.outside),
            busy_times: count(self.busy.len().min(MAX_BUSY_TIMES)),
            reserved: U32::new(0),
        }
    }

    fn read(bytes: &AccountBytes, rest: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            received: bytes.received.get(),
            accepted: bytes.accepted.get(),
            lost: bytes.lost.get(),
            repeated: bytes.repeated.get(),
            out_of_order: bytes.out_of_order.get(),
            outside: bytes.outside.get(),
            busy: read_busy(bytes.busy_times.get(), rest)?,
        })
    }
}

impl Trigger {
    fn to_bytes(&self) -> TriggerBytes {
        assert!(self.payload.len() <= MAX_PAYLOAD_BYTES, "the payload of a trigger is too large");
        TriggerBytes {
            id: U64::new(self.id.0),
            time: U64::new(self.time.0),
            bits: U64::new(self.bits),
            kind: U16::new(self.kind.0),
            reserved: U16::new(0),
            payload_bytes: count(self.payload.len()),
        }
    }

    /// Reads a trigger and its payload. Returns it with the bytes that follow.
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (head, rest) = split::<TriggerBytes>(bytes)?;
        let length = head.payload_bytes.get() as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(bad("payload_bytes", head.payload_bytes.get()));
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            return Err(DecodeError::Truncated { need: length, have: rest.len() });
        };
        let trigger = Self {
            id: EventId(head.id.get()),
            time: Timestamp(head.time.get()),
            kind: TriggerType(head.kind.get()),
            bits: head.bits.get(),
            payload: payload.to_vec(),
        };
        Ok((trigger, rest))
    }
}

fn emit_culprit(culprit: Option<NodeId>) -> (u8, U32) {
    let flags = if culprit.is_some() { HAS_CULPRIT } else { 0 };
    (flags, U32::new(culprit.map_or(0, NodeId::to_code)))
}

fn read_reason(cause: u8, flags: u8, culprit: U32) -> Result<BusyReason, DecodeError> {
    if flags & !HAS_CULPRIT != 0 {
        return Err(bad("busy flags", flags));
    }
    let node = |code| NodeId::from_code(code).ok_or_else(|| bad("culprit", code));
    let culprit = (flags & HAS_CULPRIT != 0).then(|| node(culprit.get())).transpose()?;
    Ok(BusyReason { cause: coded("busy cause", cause, BusyCause::from_code)?, culprit })
}

fn emit_busy(busy: &BusyTimes) -> Vec<BusyTimeBytes> {
    let emit = |(reason, time): (&BusyReason, &BusyTime)| {
        let (flags, culprit) = emit_culprit(reason.culprit);
        BusyTimeBytes {
            cause: reason.cause as u8,
            flags,
            reserved: U16::new(0),
            culprit,
            intervals: U64::new(time.intervals),
            time: U64::new(time.time.0),
            vetoed: U64::new(time.vetoed),
        }
    };
    busy.iter().take(MAX_BUSY_TIMES).map(emit).collect()
}

fn read_busy(number: u32, bytes: &[u8]) -> Result<BusyTimes, DecodeError> {
    let all = list::<BusyTimeBytes>("busy times bytes", bytes)?;
    if all.len() > MAX_BUSY_TIMES || all.len() as u64 != u64::from(number) {
        return Err(bad("busy_times", number));
    }
    let mut busy = BusyTimes::new();
    for bytes in all {
        let reason = read_reason(bytes.cause, bytes.flags, bytes.culprit)?;
        let time = BusyTime {
            intervals: bytes.intervals.get(),
            time: Nanos(bytes.time.get()),
            vetoed: bytes.vetoed.get(),
        };
        if busy.insert(reason, time).is_some() {
            return Err(bad("busy cause", bytes.cause));
        }
    }
    Ok(busy)
}

/// Returns the length of the message that starts with these bytes, as its head declares it.
///
/// # Errors
/// If the head is invalid, or the message is shorter than its head or longer than any message.
pub fn declared_length(head: &[u8; HEAD_BYTES]) -> Result<usize, DecodeError> {
    let (kind, length) = parts::declared(head, MAX_MESSAGE_BYTES)?;
    coded("kind", kind, Kind::from_code)?;
    Ok(length)
}

fn compose(kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
    parts::compose(kind as u8, parts)
}

/// Returns the kind and the body of a message.
fn open(message: &[u8]) -> Result<(Kind, &[u8]), DecodeError> {
    let (kind, body) = parts::open(message, message.len())?;
    Ok((coded("kind", kind, Kind::from_code)?, body))
}
