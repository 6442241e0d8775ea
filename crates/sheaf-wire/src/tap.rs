//! The byte layout of messages between a builder's door and its consumers. `docs/reference/consumers.md` describes the
//! sequence of messages.
//!
//! A frame is a [`FrameBytes`] and a body. A [`Kind::Welcome`] has the header and metadata of an event file of the
//! builder's session, a [`Kind::Event`] an event as in such a file: a reader of event files can parse both.

#[doc(hidden)]
pub mod fuzz;

use crate::checksum::crc32c;
use crate::codes::codes;
use crate::event_file::{
    EVENT_HEADER_BYTES, EventHeader, FILE_HEADER_BYTES, FileHeader, StoredEvent, emit_event, event_bytes,
};
use crate::file::{FileFormatError, MAX_METADATA_BYTES};
use crate::key_proof::{AnswerBytes, ChallengeBytes, ProofBytes};
use crate::link_frame::{FrameKind, LinkFrameError, emit_pieces, write_head};
use crate::message::layout::layout;
use crate::verdict::{Tags, Verdict};
use crate::{Event, Nanos, SourceId};
use bytes::Bytes;
use std::mem::size_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use crate::link_frame::{FRAME_BYTES, FrameBytes};

/// The start of a frame between a builder's door and a consumer.
pub type FrameHead = crate::link_frame::FrameHead<Kind>;

/// The largest event that goes to a consumer, in bytes as in a file: 256 MiB.
pub const MAX_EVENT_BYTES: u32 = 256 << 20;
/// Maximum length of a consumer's name, in bytes; longer names are truncated.
pub const MAX_NAME_BYTES: usize = 40;

codes! {
    /// Kind of a frame.
    Kind {
        /// Door to consumer, first: header and metadata of an event file.
        Welcome = 1, "welcome";
        /// Consumer to door, once: [`SubscribeBytes`].
        Subscribe = 2, "subscribe";
        /// Door to consumer: an event as in an event file. Its parts have checksums of their own.
        Event = 3, "event";
        /// Door to consumer, every second: [`StatusBytes`].
        Status = 4, "status";
        /// Door to consumer, last: [`StatusBytes`] with a reason.
        End = 5, "end";
        /// Door to consumer, first, if the run has a key: [`ChallengeBytes`].
        Challenge = 6, "challenge";
        /// Consumer to door, after a challenge: [`AnswerBytes`].
        Answer = 7, "answer";
        /// Door to consumer, after an answer and before the welcome: [`ProofBytes`].
        Proof = 8, "proof";
    }
}

impl FrameKind for Kind {
    type Error = TapError;
    const MAGIC: [u8; 4] = *b"STAP";
    const VERSION: u8 = 1;
    const CALLED: &'static str = "a builder's door for consumers";

    fn code(self) -> u8 {
        self.code()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::from_code(code)
    }

    fn seals_body(self) -> bool {
        self != Self::Event
    }

    fn body_bytes(self) -> (u32, u32) {
        const CHALLENGE: u32 = size_of::<ChallengeBytes>() as u32;
        const ANSWER: u32 = size_of::<AnswerBytes>() as u32;
        const PROOF: u32 = size_of::<ProofBytes>() as u32;
        match self {
            Self::Challenge => (CHALLENGE, CHALLENGE),
            Self::Answer => (ANSWER, ANSWER),
            Self::Proof => (PROOF, PROOF),
            Self::Welcome => (FILE_HEADER_BYTES as u32, FILE_HEADER_BYTES as u32 + MAX_METADATA_BYTES),
            Self::Subscribe => (size_of::<SubscribeBytes>() as u32, size_of::<SubscribeBytes>() as u32),
            Self::Event => (EVENT_HEADER_BYTES as u32, MAX_EVENT_BYTES),
            Self::Status | Self::End => (size_of::<StatusBytes>() as u32, size_of::<StatusBytes>() as u32),
        }
    }
}

layout! {
    /// Subscription of a consumer, 64 bytes.
    SubscribeBytes[64] {
        /// Offset 0: events with at least one of these tags; 0: all.
        tags: U64,
        /// Offset 8: mean interval between events in ns; 0: no limit of its own.
        interval: U64,
        /// Offset 16: keep one event in this number; 0 means 1.
        prescale: U32,
        /// Offset 20: zero.
        reserved: U32,
        /// Offset 24: name of the consumer, UTF-8, padded with zeros.
        name: [u8; 40],
    }
}

layout! {
    /// The outcome of the accepted events for one consumer, 64 bytes. The first number is the sum of the next six.
    StatusBytes[64] {
        /// Offset 0: events that were accepted since the consumer joined.
        seen: U64,
        /// Offset 8: put into its queue.
        taken: U64,
        /// Offset 16: without any of its tags.
        other_tags: U64,
        /// Offset 24: left out by its prescale.
        prescaled: U64,
        /// Offset 32: left out because of its rate, or that of the run.
        over_rate: U64,
        /// Offset 40: left out because its queue was full.
        queue_full: U64,
        /// Offset 48: left out because all consumers together had as much as the run grants.
        over_budget: U64,
        /// Offset 56: of a [`Kind::End`], the code of its [`EndReason`]; else zero.
        reason: U32,
        /// Offset 60: zero.
        reserved: U32,
    }
}

/// Selection of events for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Events with at least one of these tags; none: all events.
    pub tags: Tags,
    /// Prescale N: one in N of those; 0 means 1.
    pub prescale: u32,
    /// Mean interval between the remaining events; zero: no limit of its own.
    pub interval: Nanos,
}

impl Default for Selection {
    fn default() -> Self {
        Self { tags: Tags::NONE, prescale: 1, interval: Nanos::ZERO }
    }
}

/// The outcome of the accepted events, for one consumer. `seen` is the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were accepted since the consumer joined.
    pub seen: u64,
    /// Put into its queue.
    pub taken: u64,
    /// Without any of the tags that it asked for.
    pub other_tags: u64,
    /// Left out by its prescale.
    pub prescaled: u64,
    /// Left out because of its rate, or the rate that the run grants.
    pub over_rate: u64,
    /// Left out because its queue was full: it reads too slowly.
    pub queue_full: u64,
    /// Left out because all consumers together had as many bytes as the run grants.
    pub over_budget: u64,
}

impl Counts {
    /// Returns the number of events that were wanted and not given, because the queue was full or a bound of the run
    /// was reached.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.queue_full.saturating_add(self.over_budget)
    }
}

/// Reason why a door sends no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EndReason {
    /// The builder has ended its part of the run.
    BuilderEnded = 1,
    /// The door has its maximum number of consumers.
    Full = 2,
    /// The consumer did not prove that it has the key of the run.
    WrongKey = 3,
}

impl EndReason {
    const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::BuilderEnded,
            2 => Self::Full,
            3 => Self::WrongKey,
            _ => return None,
        })
    }
}

/// Reason why bytes are not a frame. The receiver closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// Not a frame, or one with an invalid field.
    #[error(transparent)]
    Frame(#[from] LinkFrameError),
    /// The payload of an event is damaged.
    #[error(
        "payload of source {source_id} is damaged: its checksum is {computed:08x}, the event says {declared:08x}"
    )]
    WrongPayload {
        /// Whose payload.
        source_id: SourceId,
        /// The checksum in the event.
        declared: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The content is not a valid part of an event file.
    #[error(transparent)]
    Format(#[from] FileFormatError),
}

/// A frame, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The door's node and its metadata, a JSON object.
    Welcome(FileHeader, String),
    /// Subscription of a consumer, with its name.
    Subscribe(Selection, String),
    /// An event with its verdict.
    Event(StoredEvent<Bytes>),
    /// The outcome of the events so far.
    Status(Counts),
    /// The outcome of all events, and the reason for the end.
    End(EndReason, Counts),
    /// The door's nonce: it asks for the key.
    Challenge([u8; 32]),
    /// The consumer's nonce and proof.
    Answer([u8; 32], [u8; 32]),
    /// The door's proof.
    Proof([u8; 32]),
}

impl FrameHead {
    /// Parses the body, which has [`FrameHead::body_bytes`] bytes. Payload stays in place.
    ///
    /// # Errors
    /// A [`TapError`] with the defect.
    pub fn parse_body(&self, body: &Bytes) -> Result<Frame, TapError> {
        self.check_body(body)?;
        if self.kind == Kind::Event {
            return parse_event(body).map(Frame::Event);
        }
        let wrong_length = || self.wrong_length(body);
        Ok(match self.kind {
            Kind::Welcome => {
                let (header, metadata) = FileHeader::parse(body)?;
                if FILE_HEADER_BYTES + metadata.len() != body.len() {
                    return Err(wrong_length().into());
                }
                Frame::Welcome(header, metadata.to_owned())
            }
            Kind::Subscribe => {
                let fixed = SubscribeBytes::ref_from_bytes(body).map_err(|_| wrong_length())?;
                let (selection, name) = fixed.parse()?;
                Frame::Subscribe(selection, name)
            }
            Kind::Challenge => {
                Frame::Challenge(ChallengeBytes::read_from_bytes(body).map_err(|_| wrong_length())?.nonce)
            }
            Kind::Answer => {
                let AnswerBytes { nonce, proof } =
                    AnswerBytes::read_from_bytes(body).map_err(|_| wrong_length())?;
                Frame::Answer(nonce, proof)
            }
            Kind::Proof => Frame::Proof(ProofBytes::read_from_bytes(body).map_err(|_| wrong_length())?.proof),
            Kind::Event | Kind::Status | Kind::End => {
                let fixed = StatusBytes::ref_from_bytes(body).map_err(|_| wrong_length())?;
                let bad = bad("reason", u64::from(fixed.reason.get()));
                match (self.kind, EndReason::from_code(fixed.reason.get())) {
                    (Kind::End, Some(reason)) => Frame::End(reason, fixed.counts()?),
                    (Kind::Status, None) if fixed.reason.get() == 0 => Frame::Status(fixed.counts()?),
                    _ => return Err(bad),
                }
            }
        })
    }
}

const fn bad(field: &'static str, value: u64) -> TapError {
    TapError::Frame(LinkFrameError::bad(field, value))
}

fn parse_event(body: &Bytes) -> Result<StoredEvent<Bytes>, TapError> {
    let header = EventHeader::parse(body)?;
    let have = body.len() as u64;
    if header.total_bytes() != have {
        let need = header.total_bytes();
        return Err(FileFormatError::Truncated { what: "event", need, have }.into());
    }
    // The sum of both is the length of the body.
    let entries_end = EVENT_HEADER_BYTES + header.body_bytes() as usize;
    let stored =
        header.parse_event(&body.slice(EVENT_HEADER_BYTES..entries_end), &mut body.slice(entries_end..))?;
    for fragment in &stored.event.fragments {
        if let Some(declared) = fragment.checksum {
            let (source_id, computed) = (fragment.source, crc32c(&fragment.payload));
            if computed != declared {
                return Err(TapError::WrongPayload { source_id, declared, computed });
            }
        }
    }
    Ok(stored)
}

impl SubscribeBytes {
    fn parse(&self) -> Result<(Selection, String), TapError> {
        if self.reserved.get() != 0 {
            return Err(bad("reserved", u64::from(self.reserved.get())));
        }
        let end = self.name.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let name = std::str::from_utf8(&self.name[..end])
            .map_err(|error| bad("name", error.valid_up_to() as u64))?;
        let selection = Selection {
            tags: Tags(self.tags.get()),
            prescale: self.prescale.get(),
            interval: Nanos(self.interval.get()),
        };
        Ok((selection, name.to_owned()))
    }
}

impl StatusBytes {
    fn new(counts: &Counts, reason: u32) -> Self {
        Self {
            seen: U64::new(counts.seen),
            taken: U64::new(counts.taken),
            other_tags: U64::new(counts.other_tags),
            prescaled: U64::new(counts.prescaled),
            over_rate: U64::new(counts.over_rate),
            queue_full: U64::new(counts.queue_full),
            over_budget: U64::new(counts.over_budget),
            reason: U32::new(reason),
            reserved: U32::ZERO,
        }
    }

    fn counts(&self) -> Result<Counts, TapError> {
        if self.reserved.get() != 0 {
            return Err(bad("reserved", u64::from(self.reserved.get())));
        }
        Ok(Counts {
            seen: self.seen.get(),
            taken: self.taken.get(),
            other_tags: self.other_tags.get(),
            prescaled: self.prescaled.get(),
            over_rate: self.over_rate.get(),
            queue_full: self.queue_full.get(),
            over_budget: self.over_budget.get(),
        })
    }
}

/// Returns a welcome: header and metadata of an event file of the session.
///
/// # Errors
/// [`FileFormatError::TooLarge`] for metadata beyond [`MAX_METADATA_BYTES`].
pub fn emit_welcome(header: &FileHeader, metadata: &str) -> Result<Vec<u8>, FileFormatError> {
    Ok(frame(Kind::Welcome, &header.emit(metadata)?))
}

/// Encodes the subscription of a consumer. The first [`MAX_NAME_BYTES`] of its name are sent, in whole characters.
#[must_use]
pub fn emit_subscribe(selection: &Selection, name: &str) -> Vec<u8> {
    let mut body = SubscribeBytes {
        tags: U64::new(selection.tags.0),
        interval: U64::new(selection.interval.0),
        prescale: U32::new(selection.prescale),
        reserved: U32::ZERO,
        name: [0; MAX_NAME_BYTES],
    };
    let name = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
    body.name[..name.len()].copy_from_slice(name.as_bytes());
    frame(Kind::Subscribe, body.as_bytes())
}

/// The outcome of the events so far.
#[must_use]
pub fn emit_status(counts: &Counts) -> Vec<u8> {
    frame(Kind::Status, StatusBytes::new(counts, 0).as_bytes())
}

/// Returns the final frame: the outcome of all events, and the reason for the end.
#[must_use]
pub fn emit_end(reason: EndReason, counts: &Counts) -> Vec<u8> {
    frame(Kind::End, StatusBytes::new(counts, reason as u32).as_bytes())
}

/// A door's question for the key.
#[must_use]
pub fn emit_challenge(nonce: [u8; 32]) -> Vec<u8> {
    frame(Kind::Challenge, ChallengeBytes { nonce }.as_bytes())
}

/// A consumer's proof that it has the key, and its own question.
#[must_use]
pub fn emit_answer(nonce: [u8; 32], proof: [u8; 32]) -> Vec<u8> {
    frame(Kind::Answer, AnswerBytes { nonce, proof }.as_bytes())
}

/// A door's proof that it has the key.
#[must_use]
pub fn emit_proof(proof: [u8; 32]) -> Vec<u8> {
    frame(Kind::Proof, ProofBytes { proof }.as_bytes())
}

/// The size of an event's frame, in bytes.
#[must_use]
pub fn event_frame_bytes(event: &Event<Bytes>, verdict: &Verdict) -> u64 {
    FRAME_BYTES as u64 + event_bytes(event, verdict)
}

/// An accepted event, the `sequence`-th of its session: a copy of all of its bytes.
///
/// # Errors
/// [`FileFormatError::TooLarge`] for an event beyond [`MAX_EVENT_BYTES`].
pub fn emit_event_frame(
    event: &Event<Bytes>,
    verdict: &Verdict,
    sequence: u64,
) -> Result<Vec<u8>, FileFormatError> {
    let bytes = event_bytes(event, verdict);
    if bytes > u64::from(MAX_EVENT_BYTES) {
        return Err(FileFormatError::TooLarge { what: "event", bytes, limit: u64::from(MAX_EVENT_BYTES) });
    }
    let mut whole = Vec::with_capacity(FRAME_BYTES + bytes as usize);
    whole.resize(FRAME_BYTES, 0);
    emit_event(event, verdict, sequence, &mut whole)?;
    event.fragments.iter().for_each(|fragment| whole.extend_from_slice(&fragment.payload));
    write_head(Kind::Event, &mut whole);
    Ok(whole)
}

fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
    emit_pieces(kind, body, &[])
}

#[cfg(test)]
mod tests;
