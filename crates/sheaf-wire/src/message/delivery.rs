//! Messages between builder units and output nodes.

use crate::verdict::Verdict;
use crate::{ByteCount, Event, EventId, Fragment, MissingSource, SessionId, Tags, Timestamp, TriggerType};
use bytes::Bytes;

/// Accepted events on their way from a builder unit to an output node, flat: for each entry in turn, its fragments and
/// missing sources follow each other in the two other lists. An event that is larger than a message is in several, one
/// after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// One for each event, or part of one.
    pub entries: Vec<Delivered>,
    /// All fragments, in the order of the entries.
    pub fragments: Vec<Fragment<P>>,
    /// All missing sources, in the order of the entries.
    pub missing: Vec<MissingSource>,
}

impl<P> Default for Delivery<P> {
    fn default() -> Self {
        Self { entries: Vec::new(), fragments: Vec::new(), missing: Vec::new() }
    }
}

/// An accepted event without its lists, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The event.
    pub event: EventId,
    /// Time of the trigger.
    pub time: Timestamp,
    /// Type of its trigger.
    pub trigger_type: TriggerType,
    /// Which attempt to build it this was.
    pub attempt: u16,
    /// Whether a required source is missing.
    pub incomplete: bool,
    /// Tags for which the filter has accepted it.
    pub tags: Tags,
    /// Payload of the filter's verdict, in the first part; at most [`crate::verdict::MAX_VERDICT_PAYLOAD_BYTES`].
    pub said: Bytes,
    /// Number of its fragments in this message.
    pub fragments: u32,
    /// Number of its missing sources in this message.
    pub missing: u32,
    /// Whether the next message continues it, as its first entry.
    pub more: bool,
}

impl Delivered {
    /// The head of `event`, of which nothing is in the message yet.
    #[must_use]
    pub fn new<P>(event: &Event<P>, verdict: &Verdict) -> Self {
        Self {
            event: event.id,
            time: event.time,
            trigger_type: event.trigger_type,
            attempt: event.attempt,
            incomplete: event.incomplete,
            tags: verdict.tags,
            said: verdict.payload.clone(),
            fragments: 0,
            missing: 0,
            more: false,
        }
    }

    /// The event and the verdict on it, without fragments and missing sources.
    #[must_use]
    pub fn into_event<P>(self) -> (Event<P>, Verdict) {
        let event = Event {
            id: self.event,
            time: self.time,
            trigger_type: self.trigger_type,
            attempt: self.attempt,
            incomplete: self.incomplete,
            fragments: Vec::new(),
            missing: Vec::new(),
        };
        (event, Verdict { accepted: true, tags: self.tags, payload: self.said })
    }
}

/// Further events of a builder that an output node takes, and the fates of those that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Total number of events that it takes, from the first that was delivered between these two sessions.
    pub events: u64,
    /// Total number of bytes of events that it takes.
    pub bytes: ByteCount,
    /// Whether its disk fails or is full, or half of its capacity waits for the disk.
    pub behind: bool,
    /// Fates of events, each named once.
    pub entries: Vec<ReceiptEntry>,
}

/// Consecutive events of a builder, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptEntry {
    /// The number of the first: events between two sessions are counted from 0, in the order of delivery.
    pub first: u64,
    /// Number of events.
    pub count: u32,
    /// The number of the first among all that this session of the output node has accepted, from 0: they are as durable
    /// as configured. `None`: no stream takes them.
    pub place: Option<u64>,
}

/// Stored events as places in the files of an output node's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The output node's index.
    pub output: u16,
    /// Its session.
    pub session: SessionId,
    /// The number of the first in that session.
    pub first: u64,
    /// Number of consecutive numbers.
    pub count: u32,
}
