//! Messages of the source protocol, between bytes and values.

use super::layout::{
    EndBytes, FragmentHeadBytes, FragmentsBytes, HAS_CHECKSUM, HAS_ENDED, HAS_LAST_EVENT, HAS_LATE_RECORDS,
    HelloBytes, PhaseBytes, ProgressBytes, RefusedBytes, WelcomeBytes,
};
use super::{
    FRAGMENT_HEAD_BYTES, FRAGMENTS_HEAD_BYTES, FragmentHead, FragmentsHead, FromClient, FromReadout,
    HEAD_BYTES, Hello, Kind, MAX_NAME_BYTES, MAX_REASON_BYTES, MAX_SOURCES, Phase, Progress, Refusal,
    VERSION, Welcome,
};
use crate::message::{DecodeError, Entry, Recorded, emit_record, parse_record, record_bytes};
use crate::message::{split, split_list};
use crate::parts::{self, HeadBytes, bad, coded, count, cut, list, text, whole};
use crate::{ByteCount, EventId, RunNumber, SessionId, SourceId, Timestamp};
use std::sync::Arc;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

impl FragmentsHead {
    /// Writes the head as the start of a message of `length` bytes.
    #[must_use]
    pub fn emit(&self, length: u32) -> [u8; FRAGMENTS_HEAD_BYTES] {
        let fragments = FragmentsBytes {
            source: U32::new(self.source.0),
            count: U32::new(self.count),
            first: U64::new(self.first),
        };
        let mut bytes = [0; FRAGMENTS_HEAD_BYTES];
        bytes[..HEAD_BYTES]
            .copy_from_slice(HeadBytes::new(Kind::Fragments as u8, U32::new(length)).as_bytes());
        bytes[HEAD_BYTES..].copy_from_slice(fragments.as_bytes());
        bytes
    }
}

impl FragmentHead {
    /// Writes the head.
    #[must_use]
    pub fn emit(&self) -> [u8; FRAGMENT_HEAD_BYTES] {
        let bytes = FragmentHeadBytes {
            event: U64::new(self.event.0),
            time: U64::new(self.time.0),
            length: U32::new(self.length),
            checksum: U32::new(self.checksum.unwrap_or(0)),
            flags: U32::new(if self.checksum.is_some() { HAS_CHECKSUM } else { 0 }),
            reserved: U32::new(0),
        };
        zerocopy::transmute!(bytes)
    }

    /// Reads a head.
    ///
    /// # Errors
    /// Returns the defect of the head.
    pub fn parse(bytes: &[u8; FRAGMENT_HEAD_BYTES]) -> Result<Self, DecodeError> {
        Self::read(&zerocopy::transmute!(*bytes))
    }

    fn read(bytes: &FragmentHeadBytes) -> Result<Self, DecodeError> {
        let flags = bytes.flags.get();
        if flags & !HAS_CHECKSUM != 0 {
            return Err(bad("fragment flags", flags));
        }
        Ok(Self {
            event: EventId(bytes.event.get()),
            time: Timestamp(bytes.time.get()),
            length: bytes.length.get(),
            checksum: (flags & HAS_CHECKSUM != 0).then(|| bytes.checksum.get()),
        })
    }
}

/// Iterates over the fragments of a message. Payloads stay in place.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Fragments<'a> {
    /// Returns the next fragment, or `None` after the last.
    ///
    /// # Errors
    /// If its head is invalid, its payload is not complete, or bytes follow the last one.
    pub fn next_fragment(&mut self) -> Result<Option<(FragmentHead, &'a [u8])>, DecodeError> {
        if self.left == 0 {
            return match self.rest.len() {
                0 => Ok(None),
                more => Err(DecodeError::TrailingBytes(more)),
            };
        }
        let (bytes, rest) = split::<FragmentHeadBytes>(self.rest)?;
        let head = FragmentHead::read(bytes)?;
        let Some((payload, rest)) = rest.split_at_checked(head.length as usize) else {
            return Err(DecodeError::WrongPayloadLength {
                declared: head.length.into(),
                have: rest.len() as u64,
            });
        };
        (self.left, self.rest) = (self.left - 1, rest);
        Ok(Some((head, payload)))
    }
}

/// Message of a client that was read from bytes.
#[derive(Clone, Debug)]
pub enum ClientMessage<'a> {
    /// Fragments of one source.
    Fragments(FragmentsHead, Fragments<'a>),
    /// Any other message.
    Control(FromClient),
}

impl<'a> ClientMessage<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// Returns the defect of the message; [`DecodeError::BadValue`] of `version` if the client uses another version.
    pub fn read(message: &'a [u8]) -> Result<Self, DecodeError> {
        let (head, rest) = message.split_at(first_part(message));
        Self::read_parts(head, rest)
    }

    /// Reads the first part of a message of fragments with `length` bytes, without the fragments.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_head(head: &'a [u8; FRAGMENTS_HEAD_BYTES], length: usize) -> Result<Self, DecodeError> {
        Self::read_fragments(head, &[], length)
    }

    /// Reads a message in two parts. The first part of a message of fragments has [`FRAGMENTS_HEAD_BYTES`]. Other messages
    /// have one part, and `rest` is empty.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_parts(head: &'a [u8], rest: &'a [u8]) -> Result<Self, DecodeError> {
        if is_fragments(head) {
            return Self::read_fragments(head, rest, head.len() + rest.len());
        }
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes(rest.len()));
        }
        let (kind, body) = open(head, head.len())?;
        match kind {
            Kind::Hello => Ok(Self::Control(FromClient::Hello(Hello::read(body)?))),
            Kind::End => {
                let bytes = whole::<EndBytes>(body)?;
                let source = SourceId(bytes.source.get());
                Ok(Self::Control(FromClient::End { source, fragments: bytes.fragments.get() }))
            }
            Kind::Decline => Ok(Self::Control(FromClient::Decline(text("reason", body, MAX_REASON_BYTES)?))),
            Kind::Record => {
                let record = parse_record(body)?;
                if !record.kind.is_of_programs() {
                    return Err(bad("kind", record.kind.code()));
                }
                Ok(Self::Control(FromClient::Record(Arc::new(record))))
            }
            Kind::Fragments
            | Kind::Welcome
            | Kind::Progress
            | Kind::Phase
            | Kind::Refused
            | Kind::Recorded => Err(bad("kind", kind as u8)),
        }
    }

    fn read_fragments(head: &'a [u8], rest: &'a [u8], length: usize) -> Result<Self, DecodeError> {
        let (kind, body) = open(head, length)?;
        if kind != Kind::Fragments {
            return Err(bad("kind", kind as u8));
        }
        let bytes = whole::<FragmentsBytes>(body)?;
        let count = bytes.count.get();
        if count == 0 {
            return Err(bad("count", count));
        }
        let head = FragmentsHead { source: SourceId(bytes.source.get()), count, first: bytes.first.get() };
        if head.first.checked_add(count.into()).is_none() {
            return Err(bad("first", head.first));
        }
        Ok(Self::Fragments(head, Fragments { left: count, rest }))
    }
}

impl FromClient {
    /// Writes the message.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Hello(hello) => hello.emit(),
            Self::End { source, fragments } => {
                let body = EndBytes {
                    source: U32::new(source.0),
                    reserved: U32::new(0),
                    fragments: U64::new(*fragments),
                };
                compose(Kind::End, &[body.as_bytes()])
            }
            Self::Decline(reason) => compose(Kind::Decline, &[cut(reason, MAX_REASON_BYTES).as_bytes()]),
            Self::Record(record) => {
                let mut body = Vec::with_capacity(record_bytes(record));
                emit_record(record, &mut body);
                compose(Kind::Record, &[&body])
            }
        }
    }
}

impl Hello {
    fn emit(&self) -> Vec<u8> {
        let name = cut(&self.name, MAX_NAME_BYTES);
        let body = HelloBytes {
            version: U32::new(VERSION),
            sources: count(self.sources.len()),
            name_bytes: count(name.len()),
            flags: U32::new(u32::from(self.late_records) * HAS_LATE_RECORDS),
        };
        let sources: Vec<U32> = self.sources.iter().map(|source| U32::new(source.0)).collect();
        compose(Kind::Hello, &[body.as_bytes(), sources.as_bytes(), name.as_bytes()])
    }

    fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let (head, rest) = split::<HelloBytes>(body)?;
        if head.version.get() != VERSION {
            return Err(bad("version", head.version.get()));
        }
        let number = head.sources.get();
        if number == 0 || number as usize > MAX_SOURCES {
            return Err(bad("sources", number));
        }
        let (sources, name) = split_list::<U32>(rest, number)?;
        if name.len() as u64 != u64::from(head.name_bytes.get()) {
            return Err(bad("name_bytes", head.name_bytes.get()));
        }
        let sources: Vec<SourceId> = sources.iter().map(|source| SourceId(source.get())).collect();
        let mut sorted = sources.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(bad("source", twice[0].0));
        }
        let flags = head.flags.get();
        if flags & !HAS_LATE_RECORDS != 0 {
            return Err(bad("hello flags", flags));
        }
        Ok(Self { sources, name: text("name", name, MAX_NAME_BYTES)?, late_records: flags != 0 })
    }
}

impl FromReadout {
    /// Writes the message.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let list = |sources: &[Progress]| sources.iter().copied().map(Progress::to_bytes).collect::<Vec<_>>();
        match self {
            Self::Welcome(welcome) => {
                let body = WelcomeBytes {
                    version: U32::new(VERSION),
                    run: U32::new(welcome.run.0),
                    session: U64::new(welcome.session.0),
                    max_fragment: count(usize::try_from(welcome.max_fragment.0).unwrap_or(usize::MAX)),
                    max_message: count(usize::try_from(welcome.max_message.0).unwrap_or(usize::MAX)),
                    sources: count(welcome.sources.len()),
                    phase: welcome.phase as u8,
                    reserved: [0; 3],
                };
                compose(Kind::Welcome, &[body.as_bytes(), list(&welcome.sources).as_bytes()])
            }
            Self::Progress(sources) => compose(Kind::Progress, &[list(sources).as_bytes()]),
            Self::Phase(phase) => {
                compose(Kind::Phase, &[PhaseBytes { phase: *phase as u8, reserved: [0; 7] }.as_bytes()])
            }
            Self::Refused { refusal, source, text } => {
                let source = U32::new(source.map_or(0, |source| source.0));
                let body = RefusedBytes { refusal: *refusal as u8, reserved: [0; 3], source };
                compose(Kind::Refused, &[body.as_bytes(), cut(text, MAX_REASON_BYTES).as_bytes()])
            }
            Self::Recorded(answer) => compose(Kind::Recorded, &[answer.emit().as_bytes()]),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Returns the defect of the message; [`DecodeError::BadValue`] of `version` if the readout unit uses another version.
    pub fn read(message: &[u8]) -> Result<Self, DecodeError> {
        let (kind, body) = open(message, message.len())?;
        match kind {
            Kind::Welcome => Ok(Self::Welcome(Welcome::read(body)?)),
            Kind::Progress => Ok(Self::Progress(Progress::read_all(body)?)),
            Kind::Phase => {
                Ok(Self::Phase(coded("phase", whole::<PhaseBytes>(body)?.phase, Phase::from_code)?))
            }
            Kind::Refused => {
                let (head, rest) = split::<RefusedBytes>(body)?;
                let refusal = coded("refusal", head.refusal, Refusal::from_code)?;
                let about_source = matches!(
                    refusal,
                    Refusal::UnknownSource
                        | Refusal::SourceTaken
                        | Refusal::SourceEnded
                        | Refusal::SequenceGap
                        | Refusal::OverCredit
                        | Refusal::TooLarge
                );
                let source = about_source.then(|| SourceId(head.source.get()));
                Ok(Self::Refused { refusal, source, text: text("reason", rest, MAX_REASON_BYTES)? })
            }
            Kind::Recorded => Ok(Self::Recorded(Recorded::parse(whole(body)?)?)),
            Kind::Hello | Kind::Fragments | Kind::End | Kind::Decline | Kind::Record => {
                Err(bad("kind", kind as u8))
            }
        }
    }
}

impl Welcome {
    fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let (head, rest) = split::<WelcomeBytes>(body)?;
        if head.version.get() != VERSION {
            return Err(bad("version", head.version.get()));
        }
        let sources = Progress::read_all(rest)?;
        if sources.len() as u64 != u64::from(head.sources.get()) {
            return Err(bad("sources", head.sources.get()));
        }
        Ok(Self {
            run: RunNumber(head.run.get()),
            session: SessionId(head.session.get()),
            phase: coded("phase", head.phase, Phase::from_code)?,
            max_fragment: ByteCount(head.max_fragment.get().into()),
            max_message: ByteCount(head.max_message.get().into()),
            sources,
        })
    }
}

impl Progress {
    fn to_bytes(self) -> ProgressBytes {
        ProgressBytes {
            source: U32::new(self.source.0),
            flags: U32::new(
                (u32::from(self.last_event.is_some()) * HAS_LAST_EVENT) | (u32::from(self.ended) * HAS_ENDED),
            ),
            received: U64::new(self.received),
            received_bytes: U64::new(self.received_bytes.0),
            accepted: U64::new(self.accepted),
            last_event: U64::new(self.last_event.map_or(0, |event| event.0)),
            fragments_limit: U64::new(self.fragments_limit),
            bytes_limit: U64::new(self.bytes_limit.0),
        }
    }

    fn read(bytes: &ProgressBytes) -> Result<Self, DecodeError> {
        let (flags, received, accepted) = (bytes.flags.get(), bytes.received.get(), bytes.accepted.get());
        if flags & !(HAS_LAST_EVENT | HAS_ENDED) != 0 {
            return Err(bad("progress flags", flags));
        }
        if accepted > received {
            return Err(bad("accepted", accepted));
        }
        Ok(Self {
            source: SourceId(bytes.source.get()),
            received,
            received_bytes: ByteCount(bytes.received_bytes.get()),
            accepted,
            last_event: (flags & HAS_LAST_EVENT != 0).then(|| EventId(bytes.last_event.get())),
            ended: flags & HAS_ENDED != 0,
            fragments_limit: bytes.fragments_limit.get(),
            bytes_limit: ByteCount(bytes.bytes_limit.get()),
        })
    }

    fn read_all(body: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let all = list::<ProgressBytes>("progress bytes", body)?;
        if all.len() > MAX_SOURCES {
            return Err(bad("sources", all.len() as u64));
        }
        all.iter().map(Self::read).collect()
    }
}

/// Returns the length of the message that starts with these bytes, as its head declares it.
///
/// # Errors
/// If the head is invalid, or the message is shorter than its head or longer than `most`.
pub fn declared_length(head: &[u8; HEAD_BYTES], most: usize) -> Result<usize, DecodeError> {
    let (kind, length) = parts::declared(head, most)?;
    coded("kind", kind, Kind::from_code)?;
    Ok(length)
}

/// Returns whether a message contains fragments, by its kind.
#[must_use]
pub fn is_fragments(message: &[u8]) -> bool {
    message.get(4) == Some(&(Kind::Fragments as u8))
}

/// Returns the length of the first part of a message for [`ClientMessage::read_parts`].
#[must_use]
pub fn first_part(message: &[u8]) -> usize {
    if is_fragments(message) { FRAGMENTS_HEAD_BYTES.min(message.len()) } else { message.len() }
}

/// Replaces the sequence number of the first fragment in a message of fragments.
///
/// # Panics
/// If `message` is shorter than the head of such a message.
pub fn renumber_fragments(message: &mut [u8], first: u64) {
    message[FRAGMENTS_HEAD_BYTES - size_of::<U64>()..FRAGMENTS_HEAD_BYTES]
        .copy_from_slice(&first.to_le_bytes());
}

fn compose(kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
    parts::compose(kind as u8, parts)
}

/// Returns the kind and the available part of the body of a message that must have `have` bytes.
fn open(message: &[u8], have: usize) -> Result<(Kind, &[u8]), DecodeError> {
    let (kind, body) = parts::open(message, have)?;
    Ok((coded("kind", kind, Kind::from_code)?, body))
}
