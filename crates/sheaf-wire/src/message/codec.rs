//! Bytes to messages and back.

mod delivery;
mod entries;
mod fragments;
mod inputs;
mod mirror;
mod record;
mod status;
mod vote;

use super::hello::VersionRange;
use super::layout::{
    CommandBytes, ExclusionBytes, FenceBytes, FragmentBytes, HeaderBytes, Kind, MAGIC, MAX_HEAD_BYTES,
    MirrorBytes, OLDEST_VERSION, PartRequestBytes, ReadoutExclusionBytes, ReadoutStatusBytes, RecordedBytes,
    RenumberBytes, RenumberedBytes, RequestBytes, ShapeBytes, SuperFragmentsBytes, VERSION,
};
use super::{
    Body, Header, Message, PartRequest, Readiness, Request, SuperFragments, UnitInput, WindowRequest, Work,
};
use crate::checksum::{crc32c, crc32c_append};
use crate::{ByteCount, NodeId, Payload, RunNumber, SessionId, SourceId, Term};
use fragments::{emit_super_fragments_head, parse_super_fragments};
pub(crate) use fragments::{fragment_to_bytes, missing_to_bytes, parse_fragment, parse_mark, parse_missing};
pub(crate) use record::{emit_record, parse_record, record_bytes};
use std::mem::{offset_of, size_of};
use std::sync::Arc;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Reason why bytes are not a message. The receiver counts it and drops the message; nothing else is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the layout needs.
    #[error("message head ends after {have} bytes; {need} are needed")]
    Truncated {
        /// Bytes that the layout needs.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// More bytes than the entries account for.
    #[error("{0} bytes follow the last entry of the message head")]
    TrailingBytes(usize),
    /// Not a Sheaf message.
    #[error("message starts with {0:02x?}, not with the magic \"SF\"")]
    WrongMagic([u8; 2]),
    /// Another version of the protocol.
    #[error(
        "message has protocol version {0}, this node speaks {own}; run the same release on all nodes",
        own = VersionRange::OWN
    )]
    WrongVersion(u8),
    /// The head contains another size.
    #[error("message head says it has {declared} bytes and has {have}")]
    WrongHeadLength {
        /// The length in the header.
        declared: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// The head is damaged.
    #[error("message head checksum is {computed:08x}, the header says {declared:08x}")]
    WrongChecksum {
        /// The checksum in the header.
        declared: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A field holds a code or a count that has no meaning.
    #[error("message field `{field}` has the invalid value {value}")]
    BadValue {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The fragments' lengths and the payload disagree.
    #[error("payload has {have} bytes, the message head describes {declared}")]
    WrongPayloadLength {
        /// Bytes that the head describes.
        declared: u64,
        /// Bytes that there are.
        have: u64,
    },
}

/// Source from which decoding takes payload handles, in order.
pub trait PayloadSource<P> {
    /// Returns the total number of payload bytes.
    fn total(&self) -> u64;
    /// The next `bytes` bytes as one handle, or `None` if they are not there in one piece.
    fn take(&mut self, bytes: usize) -> Option<P>;
}

/// Payload of messages that have none.
pub(super) struct NoPayload;

impl<P> PayloadSource<P> for NoPayload {
    fn total(&self) -> u64 {
        0
    }

    fn take(&mut self, _: usize) -> Option<P> {
        None
    }
}

/// A payload that arrived in one piece.
impl PayloadSource<bytes::Bytes> for bytes::Bytes {
    fn total(&self) -> u64 {
        self.len() as u64
    }

    fn take(&mut self, bytes: usize) -> Option<bytes::Bytes> {
        (bytes <= self.len()).then(|| self.split_to(bytes))
    }
}

/// A payload in the pieces in which it was sent. Empty pieces may be left out by a transport.
impl PayloadSource<bytes::Bytes> for std::collections::VecDeque<bytes::Bytes> {
    fn total(&self) -> u64 {
        self.iter().map(|piece| piece.len() as u64).sum()
    }

    fn take(&mut self, bytes: usize) -> Option<bytes::Bytes> {
        if bytes == 0 {
            return Some(bytes::Bytes::new());
        }
        while self.front().is_some_and(bytes::Bytes::is_empty) {
            self.pop_front();
        }
        let front = self.front_mut()?;
        match front.len().cmp(&bytes) {
            std::cmp::Ordering::Equal => self.pop_front(),
            std::cmp::Ordering::Greater => Some(front.split_to(bytes)),
            std::cmp::Ordering::Less => None,
        }
    }
}

/// Bits of [`RequestBytes::flags`].
const REQUEST_BEHIND: u32 = 1;
const REQUEST_KEPT: u32 = 2;
const REQUEST_WORK: u32 = Work::Judging.flags() | Work::Storing.flags();
const REQUEST_READINESS: u32 = Readiness::Loading.flags() | Readiness::Failed.flags();

impl Kind {
    /// Returns whether fragments follow the head.
    pub(super) const fn has_payload(self) -> bool {
        matches!(self, Self::SuperFragments | Self::Delivery | Self::UnitInputs)
    }
}

/// A fixed-size entry of a message head.
pub(crate) trait Entry: Sized {
    type Bytes: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + 'static;
    fn emit(&self) -> Self::Bytes;
    fn parse(bytes: &Self::Bytes) -> Result<Self, DecodeError>;
}

impl<P: Payload> Message<P> {
    /// Appends the message's head to `head`, which must be empty, and gives each payload handle to `payload` in the
    /// order in which its bytes belong after the head.
    pub fn encode(self, head: &mut Vec<u8>, mut payload: impl FnMut(P)) {
        debug_assert!(head.is_empty(), "a message starts its buffer");
        let head_bytes = size_of::<HeaderBytes>() + self.body.head_bytes();
        head.reserve_exact(head_bytes);
        head.extend_from_slice(&[0; size_of::<HeaderBytes>()]);
        let kind = self.body.kind();
        let mut payload_bytes = 0_u64;
        match self.body {
            Body::Announce(entries) => emit_all(head, &entries),
            Body::Request(request) => {
                let fixed = RequestBytes {
                    slots: U32::new(request.slots),
                    finished: count(request.finished.len()),
                    bytes: U64::new(request.bytes.0),
                    absent: count(request.absent.len()),
                    flags: U32::new(
                        flag(request.output_behind, REQUEST_BEHIND)
                            | flag(!request.kept.is_empty(), REQUEST_KEPT)
                            | request.work.flags()
                            | request.readiness.flags(),
                    ),
                };
                head.extend_from_slice(fixed.as_bytes());
                emit_all(head, &request.finished);
                emit_all(head, &request.absent);
                emit_all(head, &request.kept);
            }
            Body::Assign(entries) => emit_all(head, &entries),
            Body::Release(entries) => emit_all(head, &entries),
            Body::FragmentRequest(entries) => emit_all(head, &entries),
            Body::SuperFragments(parts) => {
                emit_super_fragments_head(head, &parts);
                for fragment in parts.fragments {
                    payload_bytes += fragment.payload.len() as u64;
                    payload(fragment.payload);
                }
            }
            Body::ReadoutStatus(status) => head.extend_from_slice(status.emit().as_bytes()),
            Body::Command(command) => head.extend_from_slice(command.emit().as_bytes()),
            Body::Report(entries) => emit_all(head, &entries),
            Body::Acknowledge => {}
            Body::Fence(session) => {
                head.extend_from_slice(FenceBytes { session: U64::new(session.0) }.as_bytes());
            }
            Body::Dispatch(entries) => emit_all(head, &entries),
            Body::Shape(shape) => head.extend_from_slice(shape.emit().as_bytes()),
            Body::PartRequest(request) => {
                emit_wanted(head, request.part, &request.sources);
                emit_all(head, &request.ranges);
            }
            Body::WindowRequest(request) => {
                emit_wanted(head, request.part, &request.sources);
                emit_all(head, &request.events);
            }
            Body::Delivery(delivery) => {
                delivery::emit_head(head, &delivery);
                for fragment in delivery.fragments {
                    payload_bytes += fragment.payload.len() as u64;
                    payload(fragment.payload);
                }
            }
            Body::Receipt(receipt) => delivery::emit_receipt(head, &receipt),
            Body::Disagreements(entries) => emit_all(head, &entries),
            Body::Renumber(order) => head.extend_from_slice(order.emit().as_bytes()),
            Body::Renumbered(answer) => head.extend_from_slice(answer.emit().as_bytes()),
            Body::Exclude(exclusion) | Body::Excluded(exclusion) => {
                head.extend_from_slice(exclusion.emit().as_bytes());
            }
            Body::ExcludeReadout(exclusion) => head.extend_from_slice(exclusion.emit().as_bytes()),
            Body::Record(record) => emit_record(&record, head),
            Body::Recorded(answer) => head.extend_from_slice(answer.emit().as_bytes()),
            Body::Inputs(inputs) => inputs::emit(head, inputs),
            Body::UnitInputs(inputs) => mirror::emit(head, inputs, &mut |piece| {
                payload_bytes += piece.len() as u64;
                payload(piece);
            }),
            Body::Mirror(step) => mirror::emit_step(head, step),
            Body::Vote(request) => vote::emit_request(head, &request),
            Body::Voted(answer) => vote::emit_answer(head, &answer),
        }
        debug_assert_eq!(head.len(), head_bytes, "the head was measured before");
        finish_header(head, kind, payload_bytes, &self.header);
    }

    /// Decodes a message from its head and its payload.
    ///
    /// # Errors
    /// A [`DecodeError`] with the defect; the message is then to be counted and dropped.
    pub fn decode(head: &[u8], payload: &mut impl PayloadSource<P>) -> Result<Self, DecodeError> {
        let (kind, header, declared_payload) = check_header(head)?;
        let body_bytes = &head[size_of::<HeaderBytes>()..];
        if declared_payload != payload.total() || (!kind.has_payload() && declared_payload != 0) {
            return Err(DecodeError::WrongPayloadLength {
                declared: declared_payload,
                have: payload.total(),
            });
        }
        let body = match kind {
            Kind::Announce => Body::Announce(parse_all(body_bytes)?),
            Kind::Request => Body::Request(parse_request(body_bytes)?),
            Kind::Assign => Body::Assign(parse_all(body_bytes)?),
            Kind::Release => Body::Release(parse_all(body_bytes)?),
            Kind::FragmentRequest => Body::FragmentRequest(parse_all(body_bytes)?),
            Kind::SuperFragments => {
                Body::SuperFragments(parse_super_fragments(body_bytes, declared_payload, payload)?)
            }
            Kind::ReadoutStatus => Body::ReadoutStatus(parse_one(body_bytes)?),
            Kind::Command => Body::Command(parse_one(body_bytes)?),
            Kind::Report => Body::Report(parse_all(body_bytes)?),
            Kind::Acknowledge => match body_bytes.len() {
                0 => Body::Acknowledge,
                extra => return Err(DecodeError::TrailingBytes(extra)),
            },
            Kind::Fence => match split::<FenceBytes>(body_bytes)? {
                (fence, []) => Body::Fence(SessionId(fence.session.get())),
                (_, extra) => return Err(DecodeError::TrailingBytes(extra.len())),
            },
            Kind::Dispatch => Body::Dispatch(parse_all(body_bytes)?),
            Kind::Shape => Body::Shape(parse_one(body_bytes)?),
            Kind::PartRequest => Body::PartRequest(parse_part_request(body_bytes)?),
            Kind::WindowRequest => Body::WindowRequest(parse_window_request(body_bytes)?),
            Kind::Delivery => Body::Delivery(delivery::parse(body_bytes, declared_payload, payload)?),
            Kind::Receipt => Body::Receipt(delivery::parse_receipt(body_bytes)?),
            Kind::Disagreements => Body::Disagreements(parse_all(body_bytes)?),
            Kind::Renumber => Body::Renumber(parse_one(body_bytes)?),
            Kind::Renumbered => Body::Renumbered(parse_one(body_bytes)?),
            Kind::Exclude => Body::Exclude(parse_one(body_bytes)?),
            Kind::ExcludeReadout => Body::ExcludeReadout(parse_one(body_bytes)?),
            Kind::Excluded => Body::Excluded(parse_one(body_bytes)?),
            Kind::Record => Body::Record(Arc::new(parse_record(body_bytes)?)),
            Kind::Recorded => Body::Recorded(parse_one(body_bytes)?),
            Kind::Inputs => Body::Inputs(inputs::parse(body_bytes)?),
            Kind::UnitInputs => Body::UnitInputs(mirror::parse(body_bytes, declared_payload, payload)?),
            Kind::Mirror => Body::Mirror(mirror::parse_step(body_bytes)?),
            Kind::Vote => Body::Vote(vote::parse_request(body_bytes)?),
            Kind::Voted => Body::Voted(vote::parse_answer(body_bytes)?),
        };
        Ok(Self { header, body })
    }
}

impl<P> Body<P> {
    /// Returns the number of payload handles that encoding gives out.
    #[must_use]
    pub fn payload_pieces(&self) -> usize {
        match self {
            Self::SuperFragments(parts) => parts.fragments.len(),
            Self::Delivery(delivery) => delivery.fragments.len(),
            Self::UnitInputs(inputs) => inputs.iter().map(UnitInput::fragments).sum(),
            _ => 0,
        }
    }

    /// Returns the size of the head behind its header.
    fn head_bytes(&self) -> usize {
        match self {
            Self::Announce(entries) => bytes_of(entries),
            Self::Request(Request { finished, absent, kept, .. }) => {
                size_of::<RequestBytes>() + bytes_of(finished) + bytes_of(absent) + bytes_of(kept)
            }
            Self::Assign(entries) => bytes_of(entries),
            Self::Release(entries) => bytes_of(entries),
            Self::FragmentRequest(entries) => bytes_of(entries),
            Self::SuperFragments(SuperFragments { entries, fragments, missing }) => {
                let fragments = fragments.len() * size_of::<FragmentBytes>();
                size_of::<SuperFragmentsBytes>() + bytes_of(entries) + fragments + bytes_of(missing)
            }
            Self::ReadoutStatus(_) => size_of::<ReadoutStatusBytes>(),
            Self::Command(_) => size_of::<CommandBytes>(),
            Self::Report(entries) => bytes_of(entries),
            Self::Acknowledge => 0,
            Self::Fence(_) => size_of::<FenceBytes>(),
            Self::Dispatch(entries) => bytes_of(entries),
            Self::Shape(_) => size_of::<ShapeBytes>(),
            Self::PartRequest(PartRequest { sources, ranges, .. }) => {
                size_of::<PartRequestBytes>() + bytes_of(sources) + bytes_of(ranges)
            }
            Self::WindowRequest(WindowRequest { sources, events, .. }) => {
                size_of::<PartRequestBytes>() + bytes_of(sources) + bytes_of(events)
            }
            Self::Delivery(delivery) => delivery::head_bytes(delivery),
            Self::Receipt(receipt) => delivery::receipt_bytes(receipt),
            Self::Disagreements(entries) => bytes_of(entries),
            Self::Renumber(_) => size_of::<RenumberBytes>(),
            Self::Renumbered(_) => size_of::<RenumberedBytes>(),
            Self::Exclude(_) | Self::Excluded(_) => size_of::<ExclusionBytes>(),
            Self::ExcludeReadout(_) => size_of::<ReadoutExclusionBytes>(),
            Self::Record(record) => record_bytes(record),
            Self::Recorded(_) => size_of::<RecordedBytes>(),
            Self::Inputs(inputs) => inputs::bytes_of(inputs),
            Self::UnitInputs(inputs) => mirror::bytes_of(inputs),
            Self::Mirror(_) => size_of::<MirrorBytes>(),
            Self::Vote(request) => request.encoded_bytes(),
            Self::Voted(answer) => answer.encoded_bytes(),
        }
    }

    /// The kind's code.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Announce(_) => Kind::Announce,
            Self::Request(_) => Kind::Request,
            Self::Assign(_) => Kind::Assign,
            Self::Release(_) => Kind::Release,
            Self::FragmentRequest(_) => Kind::FragmentRequest,
            Self::SuperFragments(_) => Kind::SuperFragments,
            Self::ReadoutStatus(_) => Kind::ReadoutStatus,
            Self::Command(_) => Kind::Command,
            Self::Report(_) => Kind::Report,
            Self::Acknowledge => Kind::Acknowledge,
            Self::Fence(_) => Kind::Fence,
            Self::Dispatch(_) => Kind::Dispatch,
            Self::Shape(_) => Kind::Shape,
            Self::PartRequest(_) => Kind::PartRequest,
            Self::WindowRequest(_) => Kind::WindowRequest,
            Self::Delivery(_) => Kind::Delivery,
            Self::Receipt(_) => Kind::Receipt,
            Self::Disagreements(_) => Kind::Disagreements,
            Self::Renumber(_) => Kind::Renumber,
            Self::Renumbered(_) => Kind::Renumbered,
            Self::Exclude(_) => Kind::Exclude,
            Self::Excluded(_) => Kind::Excluded,
            Self::ExcludeReadout(_) => Kind::ExcludeReadout,
            Self::Record(_) => Kind::Record,
            Self::Recorded(_) => Kind::Recorded,
            Self::Inputs(_) => Kind::Inputs,
            Self::UnitInputs(_) => Kind::UnitInputs,
            Self::Mirror(_) => Kind::Mirror,
            Self::Vote(_) => Kind::Vote,
            Self::Voted(_) => Kind::Voted,
        }
    }
}

fn finish_header(head: &mut [u8], kind: Kind, payload_bytes: u64, header: &Header) {
    let fixed = HeaderBytes {
        magic: MAGIC,
        version: VERSION,
        kind: kind as u8,
        head_bytes: U32::new(u32::try_from(head.len()).unwrap_or(u32::MAX)),
        payload_bytes: U32::new(u32::try_from(payload_bytes).unwrap_or(u32::MAX)),
        checksum: U32::ZERO,
        run: U32::new(header.run.0),
        sender: U32::new(header.sender.to_code()),
        session: U64::new(header.session.0),
        sequence: U64::new(header.sequence),
        acknowledged: U64::new(header.acknowledged),
        acknowledged_session: U64::new(header.acknowledged_session.0),
        term: U64::new(header.term.0),
    };
    head[..size_of::<HeaderBytes>()].copy_from_slice(fixed.as_bytes());
    let checksum = crc32c(head);
    let offset = offset_of!(HeaderBytes, checksum);
    head[offset..offset + 4].copy_from_slice(&checksum.to_le_bytes());
}

fn check_header(head: &[u8]) -> Result<(Kind, Header, u64), DecodeError> {
    let (fixed, _) = split::<HeaderBytes>(head)?;
    if fixed.magic != MAGIC {
        return Err(DecodeError::WrongMagic(fixed.magic));
    }
    if !(OLDEST_VERSION..=VERSION).contains(&fixed.version) {
        return Err(DecodeError::WrongVersion(fixed.version));
    }
    let declared = fixed.head_bytes.get() as usize;
    if declared != head.len() || declared > MAX_HEAD_BYTES {
        return Err(DecodeError::WrongHeadLength { declared, have: head.len() });
    }
    let offset = offset_of!(HeaderBytes, checksum);
    let computed = crc32c_append(crc32c_append(crc32c(&head[..offset]), &[0; 4]), &head[offset + 4..]);
    if computed != fixed.checksum.get() {
        return Err(DecodeError::WrongChecksum { declared: fixed.checksum.get(), computed });
    }
    let kind = Kind::from_code(fixed.kind)
        .ok_or(DecodeError::BadValue { field: "kind", value: u64::from(fixed.kind) })?;
    let sender = NodeId::from_code(fixed.sender.get())
        .ok_or(DecodeError::BadValue { field: "sender", value: u64::from(fixed.sender.get()) })?;
    if fixed.session.get() == 0 {
        return Err(DecodeError::BadValue { field: "session", value: 0 });
    }
    let header = Header {
        run: RunNumber(fixed.run.get()),
        sender,
        session: SessionId(fixed.session.get()),
        sequence: fixed.sequence.get(),
        acknowledged: fixed.acknowledged.get(),
        acknowledged_session: SessionId(fixed.acknowledged_session.get()),
        term: Term(fixed.term.get()),
    };
    Ok((kind, header, u64::from(fixed.payload_bytes.get())))
}

/// Reads a value. Returns it with the bytes that follow.
pub(crate) fn split<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
) -> Result<(&T, &[u8]), DecodeError> {
    T::ref_from_prefix(bytes).map_err(|_| DecodeError::Truncated { need: size_of::<T>(), have: bytes.len() })
}

/// Reads `count` values. Returns them with the bytes that follow.
pub(crate) fn split_list<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
    count: u32,
) -> Result<(&[T], &[u8]), DecodeError> {
    <[T]>::ref_from_prefix_with_elems(bytes, count as usize).map_err(|_| DecodeError::Truncated {
        need: (count as usize).saturating_mul(size_of::<T>()),
        have: bytes.len(),
    })
}

fn bytes_of<E: Entry>(entries: &[E]) -> usize {
    entries.len() * size_of::<E::Bytes>()
}

fn emit_all<E: Entry>(head: &mut Vec<u8>, entries: &[E]) {
    emit_each(head, entries, E::emit);
}

/// Size of the pieces in which entries are written: a piece is still in the first-level cache when its zeros are
/// overwritten.
const PIECE_BYTES: usize = 2_048;

/// Appends entries at their places in a list that is made long enough first, so that no entry asks for room.
fn emit_each<E, B>(head: &mut Vec<u8>, entries: &[E], emit: impl Fn(&E) -> B)
where
    B: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned,
{
    head.reserve(size_of::<B>() * entries.len());
    for piece in entries.chunks((PIECE_BYTES / size_of::<B>()).max(1)) {
        let start = head.len();
        head.resize(start + size_of::<B>() * piece.len(), 0);
        let places = <[B]>::mut_from_bytes(&mut head[start..]).expect("the list was made to measure");
        for (place, entry) in places.iter_mut().zip(piece) {
            *place = emit(entry);
        }
    }
}

fn parse_all<E: Entry>(bytes: &[u8]) -> Result<Vec<E>, DecodeError> {
    let extra = bytes.len() % size_of::<E::Bytes>();
    let entries = <[E::Bytes]>::ref_from_bytes(bytes).map_err(|_| DecodeError::TrailingBytes(extra))?;
    parse_each(entries)
}

/// Collecting into a `Result` cannot know the number of entries beforehand, and would allocate again and again.
fn parse_each<E: Entry>(entries: &[E::Bytes]) -> Result<Vec<E>, DecodeError> {
    let mut parsed = Vec::with_capacity(entries.len());
    for entry in entries {
        parsed.push(E::parse(entry)?);
    }
    Ok(parsed)
}

fn parse_one<E: Entry>(bytes: &[u8]) -> Result<E, DecodeError> {
    let (entry, rest) = split::<E::Bytes>(bytes)?;
    match rest.len() {
        0 => E::parse(entry),
        extra => Err(DecodeError::TrailingBytes(extra)),
    }
}

fn parse_list<E: Entry>(bytes: &[u8], count: u32) -> Result<(Vec<E>, &[u8]), DecodeError> {
    let (entries, rest) = split_list::<E::Bytes>(bytes, count)?;
    Ok((parse_each(entries)?, rest))
}

fn parse_request(bytes: &[u8]) -> Result<Request, DecodeError> {
    let (fixed, rest) = split::<RequestBytes>(bytes)?;
    let (finished, rest) = parse_list(rest, fixed.finished.get())?;
    let (absent, rest) = parse_list(rest, fixed.absent.get())?;
    let flags = fixed.flags.get();
    let bad_flags = DecodeError::BadValue { field: "request flags", value: u64::from(flags) };
    if flags & !(REQUEST_BEHIND | REQUEST_KEPT | REQUEST_WORK | REQUEST_READINESS) != 0 {
        return Err(bad_flags);
    }
    let Some(work) = Work::from_flags(flags & REQUEST_WORK) else { return Err(bad_flags) };
    let Some(readiness) = Readiness::from_flags(flags & REQUEST_READINESS) else { return Err(bad_flags) };
    let (slots, bytes) = (fixed.slots.get(), ByteCount(fixed.bytes.get()));
    let kept = match (flags & REQUEST_KEPT != 0, rest.len()) {
        (false, 0) => Vec::new(),
        (false, extra) => return Err(DecodeError::TrailingBytes(extra)),
        (true, 0) => return Err(bad_flags),
        (true, _) => parse_all(rest)?,
    };
    let output_behind = flags & REQUEST_BEHIND != 0;
    Ok(Request { slots, bytes, finished, absent, kept, output_behind, work, readiness })
}

/// Writes the part and the sources of a request.
fn emit_wanted(head: &mut Vec<u8>, part: u16, sources: &[SourceId]) {
    let fixed = PartRequestBytes { part: U16::new(part), reserved: U16::ZERO, sources: count(sources.len()) };
    head.extend_from_slice(fixed.as_bytes());
    emit_all(head, sources);
}

fn parse_part_request(bytes: &[u8]) -> Result<PartRequest, DecodeError> {
    let (fixed, rest) = split::<PartRequestBytes>(bytes)?;
    let part = fixed.part.get();
    if part == 0 {
        return Err(DecodeError::BadValue { field: "part", value: 0 });
    }
    let (sources, rest) = parse_list(rest, fixed.sources.get())?;
    Ok(PartRequest { part, sources, ranges: parse_all(rest)? })
}

fn parse_window_request(bytes: &[u8]) -> Result<WindowRequest, DecodeError> {
    let (fixed, rest) = split::<PartRequestBytes>(bytes)?;
    let (part, wanted) = (fixed.part.get(), fixed.sources.get());
    if part == 0 && wanted > 0 {
        return Err(DecodeError::BadValue { field: "sources of whole events", value: u64::from(wanted) });
    }
    let (sources, rest) = parse_list(rest, wanted)?;
    Ok(WindowRequest { part, sources, events: parse_all(rest)? })
}

fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

fn count(length: usize) -> U32 {
    U32::new(u32::try_from(length).unwrap_or(u32::MAX))
}
