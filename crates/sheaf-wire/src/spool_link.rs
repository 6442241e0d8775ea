//! The byte layout of messages between a hit spool and programs that ask it for windows. `docs/reference/spool.md` describes
//! the sequence of messages.
//!
//! A frame is a [`FrameBytes`] and a body.

pub mod fuzz;

use crate::HitInterval;
use crate::codes::codes;
use crate::hit::HIT_BYTES;
use crate::key_proof::{AnswerBytes, ChallengeBytes, ProofBytes};
use crate::link_frame::{FrameKind, LinkFrameError, emit_pieces};
use crate::message::layout::layout;
use crate::{SessionId, SourceId};
use std::mem::size_of;
use std::ops::RangeInclusive;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use crate::link_frame::{FRAME_BYTES, FrameBytes};

/// The start of a frame between a hit spool and a requester.
pub type FrameHead = crate::link_frame::FrameHead<Kind>;

/// Maximum number of ranges of sources in a request.
pub const MAX_RANGES: u32 = 1 << 16;
/// Maximum number of bytes of hits in a frame.
pub const MAX_HITS_BYTES: u32 = 16 << 20;
/// Maximum number of bytes of a welcome.
pub const MAX_WELCOME_BYTES: u32 = 16 << 20;

codes! {
    /// Kind of a frame.
    Kind {
        /// Spool to requester, first: a JSON object that describes the spool.
        Welcome = 1, "welcome";
        /// Requester to spool: [`RequestBytes`] and its [`RangeBytes`].
        Request = 2, "request";
        /// Spool to requester: [`PartBytes`] and hits of one source.
        Hits = 3, "hits";
        /// Spool to requester: [`PartBytes`] of an interval of one source that the spool does not have.
        Gap = 4, "gap";
        /// Spool to requester, last of each request: [`DoneBytes`].
        Done = 5, "done";
        /// Spool to requester, before it closes the connection: [`EndBytes`].
        End = 6, "end";
        /// Spool to requester, first, if the spool has a key: [`ChallengeBytes`].
        Challenge = 7, "challenge";
        /// Requester to spool, after a challenge: [`AnswerBytes`].
        Answer = 8, "answer";
        /// Spool to requester, after an answer and before the welcome: [`ProofBytes`].
        Proof = 9, "proof";
    }
    /// Reason why hits of an interval are not in a spool.
    GapReason {
        /// The recording began later.
        NotRecorded = 1, "before_recording";
        /// The segment with them was deleted to make room for later hits.
        Deleted = 2, "no_longer_held";
        /// The source has not come as far.
        Awaited = 3, "not_yet_held";
        /// The recording ended earlier.
        Ended = 4, "after_recording";
        /// They were dropped while the spool was recording: it was too slow, or its disk full.
        Lost = 5, "lost";
        /// They are in a damaged part of a segment.
        Damaged = 6, "damaged";
        /// The spool has nothing of this source.
        UnknownSource = 7, "unknown_source";
    }
    /// Reason why a spool closes a connection.
    EndReason {
        /// The recording has ended.
        Over = 1, "over";
        /// It has its maximum number of connections.
        Full = 2, "full";
        /// The requester did not prove that it has the key of the run.
        WrongKey = 3, "wrong_key";
        /// The spool cannot read its files.
        Failed = 4, "failed";
    }
}

impl FrameKind for Kind {
    type Error = SpoolLinkError;
    const MAGIC: [u8; 4] = *b"SSPL";
    const VERSION: u8 = 1;
    const CALLED: &'static str = "a hit spool";

    fn code(self) -> u8 {
        self.code()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::from_code(code)
    }

    fn body_bytes(self) -> (u32, u32) {
        const REQUEST: u32 = size_of::<RequestBytes>() as u32;
        const PART: u32 = size_of::<PartBytes>() as u32;
        let exactly = match self {
            Self::Welcome => return (0, MAX_WELCOME_BYTES),
            Self::Request => return (REQUEST, REQUEST + MAX_RANGES * size_of::<RangeBytes>() as u32),
            Self::Hits => return (PART, PART + MAX_HITS_BYTES),
            Self::Gap => PART,
            Self::Done => size_of::<DoneBytes>() as u32,
            Self::End => size_of::<EndBytes>() as u32,
            Self::Challenge => size_of::<ChallengeBytes>() as u32,
            Self::Answer => size_of::<AnswerBytes>() as u32,
            Self::Proof => size_of::<ProofBytes>() as u32,
        };
        (exactly, exactly)
    }
}

layout! {
    /// A request for a window, 32 bytes; ranges of sources follow. Without ranges, it is for all sources.
    RequestBytes[32] {
        /// Offset 0: number of the request, which its answers repeat.
        number: U32,
        /// Offset 4: number of ranges.
        ranges: U32,
        /// Offset 8: begin of the window, ps.
        from_ps: U64,
        /// Offset 16: end of the window, exclusive, ps.
        until_ps: U64,
        /// Offset 24: session of the recording; 0: the latest.
        session: U64,
    }
}

layout! {
    /// A range of sources, 8 bytes.
    RangeBytes[8] {
        /// Offset 0: the first.
        first: U32,
        /// Offset 4: the last; not before the first.
        last: U32,
    }
}

layout! {
    /// Hits of a source, which follow, or the lack of them, 32 bytes.
    PartBytes[32] {
        /// Offset 0: number of the request.
        number: U32,
        /// Offset 4: source id.
        source: U32,
        /// Offset 8: begin of the interval, ps.
        from_ps: U64,
        /// Offset 16: end of the interval, exclusive, ps.
        until_ps: U64,
        /// Offset 24: of a gap, the code of its [`GapReason`]; else zero.
        reason: U32,
        /// Offset 28: zero.
        reserved: U32,
    }
}

layout! {
    /// The end of the answers to a request, 24 bytes.
    DoneBytes[24] {
        /// Offset 0: number of the request.
        number: U32,
        /// Offset 4: number of gaps.
        gaps: U32,
        /// Offset 8: number of hits.
        hits: U64,
        /// Offset 16: session of the recording that was asked.
        session: U64,
    }
}

layout! {
    /// The end of a connection, 4 bytes.
    EndBytes[4] {
        /// Offset 0: code of its [`EndReason`].
        reason: U32,
    }
}

/// Sources as ranges; empty: all.
pub type SourceRanges = Vec<RangeInclusive<u32>>;

/// Returns whether a source is in ranges; empty ranges have all.
#[must_use]
pub fn has_source(ranges: &[RangeInclusive<u32>], source: SourceId) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| range.contains(&source.0))
}

/// A request for a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRequest {
    /// Number of the request on its connection.
    pub number: u32,
    /// The window.
    pub window: HitInterval,
    /// Session of the recording; `None`: the latest.
    pub session: Option<SessionId>,
    /// Sources; empty: all.
    pub sources: SourceRanges,
}

/// Interval of a source in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPart {
    /// Number of the request.
    pub number: u32,
    /// The source.
    pub source: SourceId,
    /// The interval.
    pub interval: HitInterval,
}

/// The end of the answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowDone {
    /// Number of the request.
    pub number: u32,
    /// Number of gaps.
    pub gaps: u32,
    /// Number of hits.
    pub hits: u64,
    /// Session of the recording that was asked.
    pub session: SessionId,
}

/// Reason why bytes are not a frame. The receiver closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpoolLinkError {
    /// Not a frame, or one with an invalid field.
    #[error(transparent)]
    Frame(#[from] LinkFrameError),
    /// The description of the spool is no text.
    #[error("the description of the spool is not UTF-8: valid up to byte {0}")]
    NotUtf8(usize),
}

/// A frame, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Description of the spool, a JSON object.
    Welcome(String),
    /// A request.
    Request(WindowRequest),
    /// Hits of a source: all that it has in the interval.
    Hits(WindowPart, Vec<u8>),
    /// An interval of a source that the spool does not have.
    Gap(WindowPart, GapReason),
    /// End of the answers to a request.
    Done(WindowDone),
    /// End of the connection.
    End(EndReason),
    /// The spool's nonce: it asks for the key.
    Challenge([u8; 32]),
    /// The requester's nonce and proof.
    Answer([u8; 32], [u8; 32]),
    /// The spool's proof.
    Proof([u8; 32]),
}

impl FrameHead {
    /// Parses the body, which has [`FrameHead::body_bytes`] bytes.
    ///
    /// # Errors
    /// A [`SpoolLinkError`] with the defect.
    pub fn parse_body(&self, body: &[u8]) -> Result<Frame, SpoolLinkError> {
        self.check_body(body)?;
        self.understand(body).unwrap_or_else(|| Err(self.wrong_length(body).into()))
    }

    /// Returns `None` for a body of a wrong length.
    fn understand(&self, body: &[u8]) -> Option<Result<Frame, SpoolLinkError>> {
        Some(match self.kind {
            Kind::Welcome => match std::str::from_utf8(body) {
                Ok(text) => Ok(Frame::Welcome(text.to_owned())),
                Err(error) => Err(SpoolLinkError::NotUtf8(error.valid_up_to())),
            },
            Kind::Request => {
                let (fixed, rest) = RequestBytes::ref_from_prefix(body).ok()?;
                let ranges =
                    <[RangeBytes]>::ref_from_bytes_with_elems(rest, fixed.ranges.get() as usize).ok()?;
                fixed.parse(ranges).map(Frame::Request)
            }
            Kind::Hits => {
                let (fixed, hits) = PartBytes::ref_from_prefix(body).ok()?;
                if hits.len() % HIT_BYTES != 0 {
                    return None;
                }
                match fixed.reason.get() {
                    0 => fixed.parse().map(|part| Frame::Hits(part, hits.to_vec())),
                    reason => Err(bad("reason", reason.into())),
                }
            }
            Kind::Gap => {
                let fixed = PartBytes::ref_from_bytes(body).ok()?;
                let code = fixed.reason.get();
                let reason = u8::try_from(code).ok().and_then(GapReason::from_code);
                let reason = reason.ok_or(bad("reason", code.into()));
                fixed.parse().and_then(|part| Ok(Frame::Gap(part, reason?)))
            }
            Kind::Done => {
                let fixed = DoneBytes::ref_from_bytes(body).ok()?;
                Ok(Frame::Done(WindowDone {
                    number: fixed.number.get(),
                    gaps: fixed.gaps.get(),
                    hits: fixed.hits.get(),
                    session: SessionId(fixed.session.get()),
                }))
            }
            Kind::End => {
                let code = EndBytes::ref_from_bytes(body).ok()?.reason.get();
                let reason = u8::try_from(code).ok().and_then(EndReason::from_code);
                reason.map(Frame::End).ok_or(bad("reason", code.into()))
            }
            Kind::Challenge => Ok(Frame::Challenge(ChallengeBytes::read_from_bytes(body).ok()?.nonce)),
            Kind::Answer => {
                let AnswerBytes { nonce, proof } = AnswerBytes::read_from_bytes(body).ok()?;
                Ok(Frame::Answer(nonce, proof))
            }
            Kind::Proof => Ok(Frame::Proof(ProofBytes::read_from_bytes(body).ok()?.proof)),
        })
    }
}

const fn bad(field: &'static str, value: u64) -> SpoolLinkError {
    SpoolLinkError::Frame(LinkFrameError::bad(field, value))
}

fn interval(from_ps: U64, until_ps: U64) -> Result<HitInterval, SpoolLinkError> {
    let interval = HitInterval { from_ps: from_ps.get(), until_ps: until_ps.get() };
    let is_valid = interval.from_ps <= interval.until_ps;
    if is_valid { Ok(interval) } else { Err(bad("until_ps", interval.until_ps)) }
}

impl RequestBytes {
    fn parse(&self, ranges: &[RangeBytes]) -> Result<WindowRequest, SpoolLinkError> {
        let range = |range: &RangeBytes| {
            let (first, last) = (range.first.get(), range.last.get());
            if first > last { Err(bad("last", last.into())) } else { Ok(first..=last) }
        };
        Ok(WindowRequest {
            number: self.number.get(),
            window: interval(self.from_ps, self.until_ps)?,
            session: (self.session.get() != 0).then(|| SessionId(self.session.get())),
            sources: ranges.iter().map(range).collect::<Result<_, _>>()?,
        })
    }
}

impl PartBytes {
    fn new(part: &WindowPart, reason: u32) -> Self {
        Self {
            number: part.number.into(),
            source: part.source.0.into(),
            from_ps: part.interval.from_ps.into(),
            until_ps: part.interval.until_ps.into(),
            reason: reason.into(),
            reserved: U32::ZERO,
        }
    }

    fn parse(&self) -> Result<WindowPart, SpoolLinkError> {
        if self.reserved.get() != 0 {
            return Err(bad("reserved", self.reserved.get().into()));
        }
        Ok(WindowPart {
            number: self.number.get(),
            source: SourceId(self.source.get()),
            interval: interval(self.from_ps, self.until_ps)?,
        })
    }
}

/// Writes a frame of hits of a source, at most [`MAX_HITS_BYTES`].
#[must_use]
pub fn emit_hits(part: &WindowPart, hits: &[u8]) -> Vec<u8> {
    emit_pieces(Kind::Hits, PartBytes::new(part, 0).as_bytes(), hits)
}

impl Frame {
    /// The bytes of the frame.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Welcome(text) => emit_pieces(Kind::Welcome, text.as_bytes(), &[]),
            Self::Request(request) => {
                let fixed = RequestBytes {
                    number: request.number.into(),
                    ranges: u32::try_from(request.sources.len()).unwrap_or(u32::MAX).into(),
                    from_ps: request.window.from_ps.into(),
                    until_ps: request.window.until_ps.into(),
                    session: request.session.map_or(0, |session| session.0).into(),
                };
                let range = |range: &RangeInclusive<u32>| RangeBytes {
                    first: (*range.start()).into(),
                    last: (*range.end()).into(),
                };
                let ranges: Vec<_> = request.sources.iter().map(range).collect();
                emit_pieces(Kind::Request, fixed.as_bytes(), ranges.as_bytes())
            }
            Self::Hits(part, hits) => emit_hits(part, hits),
            Self::Gap(part, reason) => {
                emit_pieces(Kind::Gap, PartBytes::new(part, reason.code().into()).as_bytes(), &[])
            }
            Self::Done(done) => {
                let fixed = DoneBytes {
                    number: done.number.into(),
                    gaps: done.gaps.into(),
                    hits: done.hits.into(),
                    session: done.session.0.into(),
                };
                emit_pieces(Kind::Done, fixed.as_bytes(), &[])
            }
            Self::End(reason) => {
                emit_pieces(Kind::End, EndBytes { reason: u32::from(reason.code()).into() }.as_bytes(), &[])
            }
            Self::Challenge(nonce) => {
                emit_pieces(Kind::Challenge, ChallengeBytes { nonce: *nonce }.as_bytes(), &[])
            }
            Self::Answer(nonce, proof) => {
                emit_pieces(Kind::Answer, AnswerBytes { nonce: *nonce, proof: *proof }.as_bytes(), &[])
            }
            Self::Proof(proof) => emit_pieces(Kind::Proof, ProofBytes { proof: *proof }.as_bytes(), &[]),
        }
    }
}

#[cfg(test)]
mod tests;
