//! Questions and answers: how two nodes meet.

use super::codec::{DatagramError, Head, Key, View, begin, prefix, seal};
use super::layout::{GreetingBytes, Kind, MAGIC, ProofBytes};
use super::{HEAD_BYTES, LEAST_DATAGRAM_BYTES, MAX_MESSAGE_BYTES, MAX_RAILS};
use crate::{NodeId, RunNumber, SessionId};
use std::ops::Range;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// A life of one end of a link: the later one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The node's session.
    pub session: SessionId,
    /// Number of lives that the link had in this session.
    pub count: u32,
}

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The sender.
    pub node: NodeId,
    /// The run that the sender takes part in.
    pub run: RunNumber,
    /// The sender's life.
    pub life: Life,
    /// Of an answer: the life that asked.
    pub to: Option<Life>,
    /// The largest datagram of the sender's rails, in bytes.
    pub datagram_bytes: u32,
    /// The largest message that the sender takes, in bytes.
    pub message_bytes: u32,
    /// Maximum bytes of datagrams in flight to the sender.
    pub flight_bytes: u32,
    /// The position up to which messages to the sender may begin at first.
    pub granted: u64,
    /// Of an answer: bytes of the question as it arrived.
    pub question_bytes: u32,
    /// Number of the sender's rails.
    pub rails: u16,
    /// Of an answer: why the link is refused.
    pub refusal: Option<GreetingRefusal>,
}

/// Reason why a node refuses a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingRefusal {
    /// Code 1: the other takes part in another run.
    WrongRun,
    /// Code 2: the other has another number of rails.
    WrongRails,
    /// Code 3: the other's datagrams have another size.
    WrongDatagramBytes,
    /// Code 4: a later session of the other node is known.
    Stale,
    /// Code 5: the other's session lies too far in the future.
    Future,
    /// Code 6: the other's node has a link that is alive.
    InUse,
    /// Code 7: one of the two has a key, and the other has none.
    KeyOnOneSide,
    /// Code 8: the other has another key.
    WrongKey,
    /// Code 9: the question does not show that its sender lives now; it is to be asked again with the nonce of this answer.
    Unproven,
    /// Any other code: a later release may know more.
    Other(u16),
}

impl GreetingRefusal {
    /// Its code, never 0.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::WrongRun => 1,
            Self::WrongRails => 2,
            Self::WrongDatagramBytes => 3,
            Self::Stale => 4,
            Self::Future => 5,
            Self::InUse => 6,
            Self::KeyOnOneSide => 7,
            Self::WrongKey => 8,
            Self::Unproven => 9,
            Self::Other(code) => code,
        }
    }

    /// The refusal with this code; none for 0.
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Self::WrongRun),
            2 => Some(Self::WrongRails),
            3 => Some(Self::WrongDatagramBytes),
            4 => Some(Self::Stale),
            5 => Some(Self::Future),
            6 => Some(Self::InUse),
            7 => Some(Self::KeyOnOneSide),
            8 => Some(Self::WrongKey),
            9 => Some(Self::Unproven),
            other => Some(Self::Other(other)),
        }
    }
}

impl Greeting {
    /// Writes the datagram to `buffer`, which must be empty. It is an answer if it has a receiver.
    pub fn encode(&self, buffer: &mut Vec<u8>, number: u32) {
        self.append(buffer, number);
        seal(buffer, Key::OPEN);
    }

    /// Writes the datagram of a node with a key to `buffer`, which must be empty: with its own nonce, and the last
    /// known one of the receiver. `prove` is called with the bytes that the proof covers.
    pub fn encode_proven(
        &self,
        buffer: &mut Vec<u8>,
        number: u32,
        unproven: &Unproven,
        prove: impl FnOnce(&[&[u8]]) -> Secret,
    ) {
        self.append(buffer, number);
        let Unproven { nonce, echo } = *unproven;
        let bytes = ProofBytes { nonce, echo: echo.unwrap_or_default(), proof: Secret::default() };
        buffer.extend_from_slice(bytes.as_bytes());
        let (said, _) = buffer.split_at(buffer.len() - size_of::<Secret>());
        let proof = prove(&covered(said));
        let at = said.len();
        buffer[at..].copy_from_slice(&proof);
        seal(buffer, Key::OPEN);
    }

    fn append(&self, buffer: &mut Vec<u8>, number: u32) {
        let kind = if self.to.is_some() { Kind::Answer } else { Kind::Question };
        begin(buffer, Key::OPEN, Head { kind, number, behind: 0 });
        let to = self.to.unwrap_or_default();
        let bytes = GreetingBytes {
            magic: MAGIC,
            node: U32::new(self.node.to_code()),
            run: U32::new(self.run.0),
            life: U32::new(self.life.count),
            session: U64::new(self.life.session.0),
            to_session: U64::new(to.session.0),
            to_life: U32::new(to.count),
            datagram_bytes: U32::new(self.datagram_bytes),
            message_bytes: U32::new(self.message_bytes),
            flight_bytes: U32::new(self.flight_bytes),
            granted: U64::new(self.granted),
            question_bytes: U32::new(self.question_bytes),
            rails: U16::new(self.rails),
            refusal: U16::new(self.refusal.map_or(0, GreetingRefusal::code)),
        };
        buffer.extend_from_slice(bytes.as_bytes());
    }

    /// Parses a question or an answer.
    ///
    /// # Errors
    /// If it is not one, or a field has no meaning.
    pub fn parse(view: &View<'_>) -> Result<Self, DatagramError> {
        let (bytes, rest) = prefix::<GreetingBytes>(view.heads())?;
        let bad = |field, value| DatagramError::BadValue { field, value };
        if !rest.is_empty() && rest.len() != size_of::<ProofBytes>() {
            return Err(bad("heads", view.heads().len() as u64));
        }
        if bytes.magic != MAGIC {
            return Err(bad("magic", u32::from_le_bytes(bytes.magic).into()));
        }
        let code = bytes.node.get();
        let node = NodeId::from_code(code).ok_or(bad("node", code.into()))?;
        let life = Life { session: SessionId(bytes.session.get()), count: bytes.life.get() };
        if life.session == SessionId(0) {
            return Err(bad("session", 0));
        }
        let to = Life { session: SessionId(bytes.to_session.get()), count: bytes.to_life.get() };
        let to = match view.head().kind {
            Kind::Question if to == Life::default() => None,
            Kind::Answer if to.session != SessionId(0) => Some(to),
            _ => return Err(bad("to_session", to.session.0)),
        };
        let within = |field, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) { Ok(value) } else { Err(bad(field, value.into())) }
        };
        let most = u16::MAX.into();
        Ok(Self {
            node,
            run: RunNumber(bytes.run.get()),
            life,
            to,
            datagram_bytes: within(
                "datagram_bytes",
                bytes.datagram_bytes.get(),
                LEAST_DATAGRAM_BYTES as u32,
                most,
            )?,
            message_bytes: within("message_bytes", bytes.message_bytes.get(), 1, MAX_MESSAGE_BYTES)?,
            flight_bytes: within("flight_bytes", bytes.flight_bytes.get(), 1, u32::MAX)?,
            granted: bytes.granted.get(),
            question_bytes: bytes.question_bytes.get(),
            rails: within("rails", bytes.rails.get().into(), 1, MAX_RAILS as u32)? as u16,
            refusal: GreetingRefusal::from_code(bytes.refusal.get()),
        })
    }
}

/// A nonce or a proof of the key.
pub type Secret = [u8; 32];

/// Nonces of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unproven {
    /// The sender's.
    pub nonce: Secret,
    /// The receiver's last known nonce; zeros mean none.
    pub echo: Option<Secret>,
}

/// Proof behind a greeting of a node that has a key.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'a> {
    /// Both nonces.
    pub nonces: Unproven,
    /// Proof of the sender.
    pub proof: &'a Secret,
    said: [&'a [u8]; 3],
}

impl<'a> Credentials<'a> {
    /// Returns the bytes after a greeting, if there are any.
    #[must_use]
    pub fn parse(view: &View<'a>) -> Option<Self> {
        let heads = view.heads();
        let (_, rest) = heads.split_at_checked(size_of::<GreetingBytes>())?;
        let bytes = ProofBytes::ref_from_bytes(rest).ok()?;
        let echo = Some(bytes.echo).filter(|echo| *echo != Secret::default());
        let (head, said) = (view.start(), &heads[..heads.len() - size_of::<Secret>()]);
        Some(Self {
            nonces: Unproven { nonce: bytes.nonce, echo },
            proof: &bytes.proof,
            said: [&head[KIND], &head[NUMBER], said],
        })
    }

    /// Returns the bytes that the proof covers, in addition to the receiver.
    #[must_use]
    pub fn covered(&self) -> &[&'a [u8]] {
        &self.said
    }
}

/// Fields of the head that a proof covers: the kind, and the number.
const KIND: Range<usize> = 0..1;
const NUMBER: Range<usize> = 4..8;

/// Returns the parts of a datagram that a proof covers; `said` ends before the proof.
fn covered(said: &[u8]) -> [&[u8]; 3] {
    [&said[KIND], &said[NUMBER], &said[HEAD_BYTES..]]
}
