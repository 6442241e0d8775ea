//! A fragment, generic over the handle that carries its payload.
//!
//! Roles pass payload as handles and never access its bytes. On real nodes the handle is [`bytes::Bytes`], a counted
//! reference into a pooled buffer; in simulation it is a few numbers that represent the bytes.

use crate::{EventId, MissingReason, NumberMark, SourceId, Timestamp, TriggerType};

/// A handle to a fragment's payload. Cloning it must be cheap and must not copy the bytes.
pub trait Payload: Clone {
    /// Whether other code counts which payloads are in use, and must be notified of each release. Handles that
    /// count themselves are just dropped.
    const IS_COUNTED_ELSEWHERE: bool = false;

    /// The payload's size in bytes.
    fn len(&self) -> usize;

    /// Returns whether the payload has no bytes. A zero-length fragment is a fragment: the source has answered.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Payload for bytes::Bytes {
    fn len(&self) -> usize {
        self.len()
    }
}

/// A payload as a range of a parcel: a piece of memory that holds the payloads of many fragments, one after another,
/// and that the reader of the source keeps and counts. A span is a few numbers, so that handling a fragment touches no
/// counter that other processors touch as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Which parcel, in its keeper's numbering.
    pub parcel: u32,
    /// Offset of the payload in it, in bytes.
    pub offset: u32,
    /// Size of the payload, in bytes.
    pub length: u32,
}

impl Payload for Span {
    const IS_COUNTED_ELSEWHERE: bool = true;

    fn len(&self) -> usize {
        self.length as usize
    }
}

/// The data of one source for one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<P> {
    /// The event that this is a fragment of.
    pub event: EventId,
    /// Its source.
    pub source: SourceId,
    /// The source's own time of the event, nanoseconds in the source's time base; zero where it has none.
    pub time: Timestamp,
    /// CRC-32C of the payload, as the source computed it if it did; of a processed payload as the readout unit did.
    pub checksum: Option<u32>,
    /// Whether the payload is the output of the readout unit's preprocessor, instead of the source's data.
    pub processed: bool,
    /// Result of the comparison of its event number with those of other sources.
    pub mark: NumberMark,
    /// The bytes.
    pub payload: P,
}

/// A source without a fragment in an event, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingSource {
    /// Which source.
    pub source: SourceId,
    /// Reason why it has no fragment.
    pub reason: MissingReason,
}

/// Part of one event that one readout unit has, or the parts of events with consecutive ids if they are alike: the
/// boundaries of the part in the flat lists in [`crate::message::SuperFragments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperFragment {
    /// The event; the first of them.
    pub event: EventId,
    /// Number of consecutive events: 1, or more if others follow.
    pub count: u32,
    /// The attempt of the request that this answers, where it named sources; else 0.
    pub attempt: u16,
    /// The part of the event that was asked for: that of the request, where it named sources; else 0, which is the
    /// whole.
    pub part: u16,
    /// Number of fragments of each event that follow.
    pub fragments: u16,
    /// Number of missing sources of each event that follow.
    pub missing: u16,
}

impl SuperFragment {
    /// Returns whether nothing follows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments == 0 && self.missing == 0
    }

    /// The events, ascending; decoding has seen to it that they do not pass the largest id.
    pub fn events(&self) -> impl Iterator<Item = EventId> + use<> {
        let first = self.event.0;
        (0..u64::from(self.count)).map(move |offset| EventId(first.wrapping_add(offset)))
    }
}

/// A built event: one fragment of every source that answered, and why the others are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<P> {
    /// The event's id.
    pub id: EventId,
    /// Time of the trigger.
    pub time: Timestamp,
    /// Type of its trigger.
    pub trigger_type: TriggerType,
    /// Number of the attempt to build it, from 1.
    pub attempt: u16,
    /// Whether a *required* source is missing. Optional sources may be missing in a complete event.
    pub incomplete: bool,
    /// The fragments, in ascending order of source id.
    pub fragments: Vec<Fragment<P>>,
    /// The missing sources, in ascending order of source id.
    pub missing: Vec<MissingSource>,
}

impl<P> Event<P> {
    /// Takes the content out of the event, which is left without fragments and missing sources.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let (fragments, missing) = (std::mem::take(&mut self.fragments), std::mem::take(&mut self.missing));
        Self { fragments, missing, ..*self }
    }
}

impl<P: Payload> Event<P> {
    /// The payload bytes of all fragments.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.payload.len() as u64).sum()
    }
}
