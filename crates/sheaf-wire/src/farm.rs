//! Messages between a dispatcher and its processors, as records.
//!
//! A record of an event has no payload: for each fragment it contains the location of its payload, in a segment of
//! memory that the processor has mapped, or, over a network, [behind the record](BEHIND_RECORD). Records are exchanged
//! between programs of one host, or over a link whose two ends have greeted each other with the same version; so they
//! have no magic and no checksum. Everything in them is checked. `docs/reference/farm.md` has all details for authors
//! of processors without this library.
//!
//! | kind | from | record |
//! |---|---|---|
//! | 1 | dispatcher | [`EventBytes`], n x [`PlacedFragmentBytes`], m x [`MissingBytes`] |
//! | 2 | dispatcher | one byte: no more verdicts are needed |
//! | 3 to 8 | processor | [`WordBytes`], and its content |
//!
//! Over a network a record of a dispatcher is the head of a frame, whose payload is that of the event; a frame of a
//! processor has any number of [its records](split_words), and no payload. The first frame each way is a [`Welcome`]
//! and a [`Hello`].

use crate::message::layout::{
    FRAGMENT_HAS_CHECKSUM, FRAGMENT_IS_PROCESSED, FragmentBytes, MissingBytes, layout,
};
use crate::message::{
    DecodeError, fragment_to_bytes, missing_to_bytes, parse_mark, parse_missing, split, split_list,
};
use crate::verdict::MAX_VERDICT_PAYLOAD_BYTES;
use crate::{
    Event, EventId, Fragment, Nanos, NodeId, Payload, RunNumber, SourceId, Tags, Timestamp, TriggerType,
    Verdict,
};
use bytes::Bytes;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An event to judge.
const EVENT: u8 = 1;
/// No more verdicts are needed.
const CLOSE: u8 = 2;
/// The processor takes more events.
const ASK: u8 = 3;
/// A verdict.
const VERDICT: u8 = 4;
/// The filter could not judge.
const FAILED: u8 = 5;
/// The processor leaves.
const LEAVE: u8 = 6;
/// A part of the payload of the verdict that follows.
const PART: u8 = 7;
/// Kind of a record with the processor's times so far.
const TIMES: u8 = 8;

/// The longest reason why a filter could not judge; longer ones are cut.
pub const MAX_FAILURE_BYTES: usize = 1024;

/// Maximum bytes of a verdict's payload in one record.
pub const MAX_PART_BYTES: usize = 16 << 10;

/// Bit 0 of [`EventBytes::flags`]: a required source is missing.
pub const EVENT_IS_INCOMPLETE: u16 = 1;

layout! {
    /// The head of an event, 40 bytes.
    EventBytes[40] {
        /// Offset 0: 1.
        kind: u8,
        /// Offset 1: zero.
        reserved: u8,
        /// Offset 2: bit 0: a required source is missing. Other bits are zero.
        flags: U16,
        /// Offset 4: trigger type.
        trigger_type: U16,
        /// Offset 6: attempt to build it, from 1.
        attempt: U16,
        /// Offset 8: the number under which it is to be answered.
        ticket: U64,
        /// Offset 16: event id.
        event: U64,
        /// Offset 24: time of the trigger, ns.
        time: U64,
        /// Offset 32: how many [`PlacedFragmentBytes`].
        fragments: U32,
        /// Offset 36: how many [`MissingBytes`].
        missing: U32,
    }
}

layout! {
    /// A fragment and where its payload lies, 40 bytes.
    PlacedFragmentBytes[40] {
        /// Offset 0: the fragment.
        fragment: FragmentBytes,
        /// Offset 24: the segment, in the dispatcher's numbering; 2^32 - 1: the payload of the frame.
        segment: U32,
        /// Offset 28: zero.
        reserved: U32,
        /// Offset 32: where in it the payload begins.
        offset: U64,
    }
}

layout! {
    /// Message of a processor, 24 bytes; `bytes` bytes follow.
    WordBytes[24] {
        /// Offset 0: 3 (asks for `bytes` events; nothing follows), 4 (verdict; its payload follows), 5 (failed; reason,
        /// as UTF-8), 6 (leaves), 7 (a part of the next verdict's payload, before the part that comes with that), 8
        /// ([`TimesBytes`]).
        kind: u8,
        /// Offset 1: 1 where a verdict accepts the event, else 0.
        accepted: u8,
        /// Offset 2: zero.
        reserved: U16,
        /// Offset 4: see `kind`.
        bytes: U32,
        /// Offset 8: the number of the event, 0 where none is meant.
        ticket: U64,
        /// Offset 16: the tags of a verdict.
        tags: U64,
    }
}

layout! {
    /// Times of a processor since it joined, 32 bytes, for the account of the run.
    TimesBytes[32] {
        /// Offset 0: events judged.
        judged: U64,
        /// Offset 8: processor time of the filter, ns.
        filter: U64,
        /// Offset 16: processor time of the processor, the filter's included, ns.
        worker: U64,
        /// Offset 24: of that, looking for events where there were none, ns.
        idle: U64,
    }
}

/// The version of records, welcome and all that is between a dispatcher and its processors.
pub const VERSION: u32 = 2;

layout! {
    /// First message of a processor over a network, 8 bytes; the name of its host follows, UTF-8.
    HelloBytes[8] {
        /// Offset 0: [`VERSION`].
        version: U32,
        /// Offset 4: the number of its process there.
        process: U32,
    }
}

/// The longest name of a host; longer ones are cut.
pub const MAX_HOST_BYTES: usize = 64;

/// First message of a processor over a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The number of its process there.
    pub process: u32,
    /// Its host, for people.
    pub host: String,
}

impl Hello {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let head = HelloBytes { version: U32::new(VERSION), process: U32::new(self.process) };
        let host = &self.host[..self.host.floor_char_boundary(MAX_HOST_BYTES)];
        [head.as_bytes(), host.as_bytes()].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// The problem with it; [`DecodeError::BadValue`] of `version` where the other side is of another release.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (head, host) = split::<HelloBytes>(bytes)?;
        let bad = |field, value: u64| DecodeError::BadValue { field, value };
        if head.version.get() != VERSION {
            return Err(bad("version", head.version.get().into()));
        }
        let name = std::str::from_utf8(host).ok().filter(|name| name.len() <= MAX_HOST_BYTES);
        let name = name.ok_or(bad("host", host.len() as u64))?;
        Ok(Self { process: head.process.get(), host: name.to_owned() })
    }
}

/// Returns the problem with a hello or a welcome in words that say what to do.
#[must_use]
pub fn explain(error: &DecodeError) -> String {
    match error {
        DecodeError::BadValue { field: "version", value } => format!(
            "it speaks version {value} of the protocol of processors, and this side version {VERSION}; install the same release of sheaf on \
             both hosts"
        ),
        other => format!("it sends no valid greeting: {other}"),
    }
}

layout! {
    /// First message of a dispatcher to a processor that joins, 24 bytes; the names of the tags, one on each line, and
    /// the run's configuration follow, both UTF-8.
    WelcomeBytes[24] {
        /// Offset 0: [`VERSION`].
        version: U32,
        /// Offset 4: run number.
        run: U32,
        /// Offset 8: the builder unit, role in the top byte, index in the low two.
        node: U32,
        /// Offset 12: bytes of the names of the tags.
        tags_bytes: U32,
        /// Offset 16: bytes of the configuration.
        configuration_bytes: U32,
        /// Offset 20: zero.
        reserved: U32,
    }
}

/// First message of a dispatcher to a processor that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The run.
    pub run: RunNumber,
    /// The builder unit whose events it judges.
    pub node: NodeId,
    /// The names of the tags, in the order of their bits.
    pub tags: Vec<String>,
    /// The run's configuration, a TOML file.
    pub configuration: String,
}

impl Welcome {
    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let tags = self.tags.join("\n");
        let length = |text: &str| U32::new(u32::try_from(text.len()).unwrap_or(u32::MAX));
        let head = WelcomeBytes {
            version: U32::new(VERSION),
            run: U32::new(self.run.0),
            node: U32::new(self.node.to_code()),
            tags_bytes: length(&tags),
            configuration_bytes: length(&self.configuration),
            reserved: U32::new(0),
        };
        [head.as_bytes(), tags.as_bytes(), self.configuration.as_bytes()].concat()
    }

    /// Reads it.
    ///
    /// # Errors
    /// The problem with it; [`DecodeError::BadValue`] of `version` where the other side is of another release.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (head, rest) = split::<WelcomeBytes>(bytes)?;
        let bad = |field, value: u32| DecodeError::BadValue { field, value: u64::from(value) };
        if head.version.get() != VERSION {
            return Err(bad("version", head.version.get()));
        }
        let (tags, configuration) = (head.tags_bytes.get(), head.configuration_bytes.get());
        let declared = u64::from(tags) + u64::from(configuration);
        if declared != rest.len() as u64 {
            return Err(DecodeError::WrongPayloadLength { declared, have: rest.len() as u64 });
        }
        let (names, text) = rest.split_at(tags as usize);
        let names = std::str::from_utf8(names).map_err(|_| bad("tags_bytes", tags))?;
        let text = std::str::from_utf8(text).map_err(|_| bad("configuration_bytes", configuration))?;
        let node = NodeId::from_code(head.node.get()).ok_or(bad("node", head.node.get()))?;
        let names = names.split('\n').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(Self { run: RunNumber(head.run.get()), node, tags: names, configuration: text.to_owned() })
    }
}

/// Location of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlace {
    /// The segment, in the dispatcher's numbering.
    pub segment: u32,
    /// Offset of the payload in it, in bytes.
    pub offset: u64,
}

/// The segment of payload that lies behind its record, in the payload of the same frame.
pub const BEHIND_RECORD: u32 = u32::MAX;

/// The bytes of an event's record.
#[must_use]
pub fn event_record_bytes(fragments: usize, missing: usize) -> usize {
    size_of::<EventBytes>()
        + fragments * size_of::<PlacedFragmentBytes>()
        + missing * size_of::<MissingBytes>()
}

/// Writes an event's record to `record`, replacing its content. `place` returns the location of each payload.
///
/// # Errors
/// Those of `place`; then the record is incomplete.
pub fn encode_event<P: Payload, E>(
    record: &mut Vec<u8>,
    ticket: u64,
    event: &Event<P>,
    mut place: impl FnMut(&P) -> Result<PayloadPlace, E>,
) -> Result<(), E> {
    let count = |length: usize| U32::new(u32::try_from(length).unwrap_or(u32::MAX));
    let head = EventBytes {
        kind: EVENT,
        reserved: 0,
        flags: U16::new(if event.incomplete { EVENT_IS_INCOMPLETE } else { 0 }),
        trigger_type: U16::new(event.trigger_type.0),
        attempt: U16::new(event.attempt),
        ticket: U64::new(ticket),
        event: U64::new(event.id.0),
        time: U64::new(event.time.0),
        fragments: count(event.fragments.len()),
        missing: count(event.missing.len()),
    };
    record.clear();
    record.extend_from_slice(head.as_bytes());
    for fragment in &event.fragments {
        let PayloadPlace { segment, offset } = place(&fragment.payload)?;
        let placed = PlacedFragmentBytes {
            fragment: fragment_to_bytes(fragment),
            segment: U32::new(segment),
            reserved: U32::new(0),
            offset: U64::new(offset),
        };
        record.extend_from_slice(placed.as_bytes());
    }
    for missing in &event.missing {
        record.extend_from_slice(missing_to_bytes(missing).as_bytes());
    }
    Ok(())
}

/// The record that ends the work.
pub const CLOSE_RECORD: [u8; 1] = [CLOSE];

/// Message of a dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromDispatcher<P> {
    /// An event to judge, and the number under which it is to be answered.
    Event(u64, Event<P>),
    /// No more verdicts are needed.
    Close,
}

/// Reason why an event's record was not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError<E> {
    /// It is invalid.
    #[error(transparent)]
    Record(#[from] DecodeError),
    /// A payload is not at the location in the record.
    #[error("payload: {0}")]
    Payload(E),
}

/// Decodes a record of a dispatcher. `fetch` takes a payload of a given number of bytes from its location; `spare` is
/// an empty vector to be reused.
///
/// # Errors
/// The problem with the record, or the error of `fetch`.
pub fn decode_from_dispatcher<P, E>(
    record: &[u8],
    spare: Vec<Fragment<P>>,
    mut fetch: impl FnMut(PayloadPlace, u32) -> Result<P, E>,
) -> Result<FromDispatcher<P>, RecordError<E>> {
    match record.first() {
        Some(&EVENT) => {}
        Some(&CLOSE) if record.len() == 1 => return Ok(FromDispatcher::Close),
        Some(kind) => return Err(DecodeError::BadValue { field: "kind", value: u64::from(*kind) }.into()),
        None => return Err(DecodeError::Truncated { need: 1, have: 0 }.into()),
    }
    let (head, rest) = split::<EventBytes>(record)?;
    let (fragments, rest) = split_list::<PlacedFragmentBytes>(rest, head.fragments.get())?;
    let (missing, rest) = split_list::<MissingBytes>(rest, head.missing.get())?;
    if !rest.is_empty() {
        return Err(DecodeError::TrailingBytes(rest.len()).into());
    }
    let flags = head.flags.get();
    if flags & !EVENT_IS_INCOMPLETE != 0 {
        return Err(DecodeError::BadValue { field: "flags", value: u64::from(flags) }.into());
    }
    let id = EventId(head.event.get());
    let mut all = spare;
    all.clear();
    all.reserve(fragments.len());
    for placed in fragments {
        let bytes = &placed.fragment;
        let flags = bytes.flags.get();
        let place = PayloadPlace { segment: placed.segment.get(), offset: placed.offset.get() };
        all.push(Fragment {
            event: id,
            source: SourceId(bytes.source.get()),
            time: Timestamp(bytes.time.get()),
            checksum: (flags & FRAGMENT_HAS_CHECKSUM != 0).then(|| bytes.checksum.get()),
            processed: flags & FRAGMENT_IS_PROCESSED != 0,
            mark: parse_mark(flags)?,
            payload: fetch(place, bytes.length.get()).map_err(RecordError::Payload)?,
        });
    }
    let event = Event {
        id,
        time: Timestamp(head.time.get()),
        trigger_type: TriggerType(head.trigger_type.get()),
        attempt: head.attempt.get(),
        incomplete: flags & EVENT_IS_INCOMPLETE != 0,
        fragments: all,
        missing: missing.iter().map(parse_missing).collect::<Result<_, _>>()?,
    };
    Ok(FromDispatcher::Event(head.ticket.get(), event))
}

/// Message of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromProcessor {
    /// Asks for this number of further events.
    Ask(u32),
    /// Its verdict on an event.
    Verdict(u64, Verdict),
    /// Its filter could not judge an event, and why.
    Failed(u64, String),
    /// It leaves in good order.
    Leave,
    /// Times of its work so far.
    Times(Times),
}

/// Times of a processor's work since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Events judged.
    pub judged: u64,
    /// Processor time of the filter.
    pub filter: Nanos,
    /// Processor time of the processor, the filter's included.
    pub worker: Nanos,
    /// Of that, looking for events where there were none.
    pub idle: Nanos,
}

impl FromProcessor {
    /// Passes the records of this message to `push`, each in two consecutive parts. A record that `push` does not take
    /// is passed to it again.
    pub fn emit(&self, mut push: impl FnMut(&[u8], &[u8])) {
        let word = |kind| WordBytes {
            kind,
            accepted: 0,
            reserved: U16::new(0),
            bytes: U32::new(0),
            ticket: U64::new(0),
            tags: U64::new(0),
        };
        // At most `MAX_VERDICT_PAYLOAD_BYTES`.
        let length = |bytes: &[u8]| U32::new(bytes.len() as u32);
        match self {
            Self::Ask(events) => push(WordBytes { bytes: U32::new(*events), ..word(ASK) }.as_bytes(), &[]),
            Self::Verdict(ticket, verdict) => {
                let mut payload = &verdict.payload[..];
                while payload.len() > MAX_PART_BYTES {
                    let (part, rest) = payload.split_at(MAX_PART_BYTES);
                    push(WordBytes { bytes: length(part), ..word(PART) }.as_bytes(), part);
                    payload = rest;
                }
                let head = WordBytes {
                    accepted: u8::from(verdict.accepted),
                    bytes: length(payload),
                    ticket: U64::new(*ticket),
                    tags: U64::new(verdict.tags.0),
                    ..word(VERDICT)
                };
                push(head.as_bytes(), payload);
            }
            Self::Failed(ticket, why) => {
                let why = &why.as_bytes()[..why.floor_char_boundary(MAX_FAILURE_BYTES)];
                let head = WordBytes { bytes: length(why), ticket: U64::new(*ticket), ..word(FAILED) };
                push(head.as_bytes(), why);
            }
            Self::Leave => push(word(LEAVE).as_bytes(), &[]),
            Self::Times(Times { judged, filter, worker, idle }) => {
                let times = TimesBytes {
                    judged: U64::new(*judged),
                    filter: U64::new(filter.0),
                    worker: U64::new(worker.0),
                    idle: U64::new(idle.0),
                };
                let head = WordBytes { bytes: length(times.as_bytes()), ..word(TIMES) };
                push(head.as_bytes(), times.as_bytes());
            }
        }
    }
}

/// Reads the records of one processor.
#[derive(Clone, Debug, Default)]
pub struct WordReader {
    /// The parts of the next verdict's payload.
    parts: Vec<u8>,
}

impl WordReader {
    /// Reads a record; returns `None` if the message continues in the next one.
    ///
    /// # Errors
    /// The problem with the record.
    pub fn read(&mut self, record: &[u8]) -> Result<Option<FromProcessor>, DecodeError> {
        let (head, content) = split::<WordBytes>(record)?;
        let bad = |field, value| Err(DecodeError::BadValue { field, value });
        let said = head.bytes.get() as usize;
        if head.kind != ASK && said != content.len() {
            return Err(DecodeError::WrongPayloadLength {
                declared: said as u64,
                have: content.len() as u64,
            });
        }
        let ticket = head.ticket.get();
        let is_small = self.parts.len() + content.len() <= MAX_VERDICT_PAYLOAD_BYTES;
        Ok(Some(match head.kind {
            ASK if content.is_empty() => FromProcessor::Ask(head.bytes.get()),
            PART if is_small => {
                self.parts.extend_from_slice(content);
                return Ok(None);
            }
            VERDICT if is_small && head.accepted <= 1 => {
                let payload = if self.parts.is_empty() {
                    Bytes::copy_from_slice(content)
                } else {
                    let mut whole = std::mem::take(&mut self.parts);
                    whole.extend_from_slice(content);
                    whole.into()
                };
                let tags = Tags(head.tags.get());
                FromProcessor::Verdict(ticket, Verdict { accepted: head.accepted == 1, tags, payload })
            }
            FAILED if content.len() <= MAX_FAILURE_BYTES => {
                FromProcessor::Failed(ticket, String::from_utf8_lossy(content).into_owned())
            }
            LEAVE => FromProcessor::Leave,
            TIMES => {
                let times = TimesBytes::read_from_bytes(content);
                let times =
                    times.map_err(|_| DecodeError::BadValue { field: "bytes", value: said as u64 })?;
                FromProcessor::Times(Times {
                    judged: times.judged.get(),
                    filter: Nanos(times.filter.get()),
                    worker: Nanos(times.worker.get()),
                    idle: Nanos(times.idle.get()),
                })
            }
            ASK | FAILED | PART | VERDICT => return bad("word", u64::from(head.accepted)),
            kind => return bad("kind", u64::from(kind)),
        }))
    }
}

/// Splits the first record off a processor's frame: returns the record, and the rest.
///
/// # Errors
/// If there is no complete record.
pub fn split_words(frame: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (head, content) = split::<WordBytes>(frame)?;
    let content_bytes = if head.kind == ASK { 0 } else { head.bytes.get() as usize };
    if content_bytes > content.len() {
        let (declared, have) = (content_bytes as u64, content.len() as u64);
        return Err(DecodeError::WrongPayloadLength { declared, have });
    }
    Ok(frame.split_at(size_of::<WordBytes>() + content_bytes))
}

#[doc(hidden)]
pub mod fuzz;

#[cfg(test)]
mod tests;
