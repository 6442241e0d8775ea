//! The messages between readout units, builder units, output nodes and the event manager.
//!
//! A message is a *head* (the [`Header`] and the entries of its kind) and, for [`Body::SuperFragments`], [`Body::Delivery`] and
//! [`Body::UnitInputs`] only, a *payload*: the fragments' bytes one after another, in the order of their entries.
//! Transports carry the two as opaque bytes and keep them apart, so that payload is never copied to make a message.
//!
//! [`Message::encode`] writes the head and returns the payload handles in order; [`Message::decode`] checks the head
//! completely (magic, version, lengths, checksum, every code) before it takes the first payload byte, so that a message
//! is either decoded as a whole or refused with a [`DecodeError`]. The field tables are on the structs in [`layout`];
//! `docs/reference/protocol.md` describes the same with the state diagrams.

mod codec;
mod delivery;
mod exclusion;
pub mod hello;
mod inputs;
pub mod layout;
mod mirror;
mod numbering;
mod record;
mod serial;
mod vote;

pub use codec::{DecodeError, PayloadSource};
pub(crate) use codec::{
    Entry, emit_record, fragment_to_bytes, missing_to_bytes, parse_fragment, parse_mark, parse_missing,
    parse_record, record_bytes, split, split_list,
};
pub use delivery::{Delivered, Delivery, Kept, Receipt, ReceiptEntry};
pub use exclusion::{Exclusion, ReadoutExclusion};
pub use inputs::{Input, Orders};
pub use mirror::{MirrorStep, UnitInput};
pub use numbering::{Disagreement, Renumber, Renumbered};
pub use record::Recorded;
pub use vote::{
    AcceptedManagers, Ballot, MAX_VOTERS, Managers, Replica, Vote, VoteAnswer, VoteRequest, VoteStep,
    VoterLife,
};

use crate::HitInterval;
use crate::run_record::RunRecord;
use crate::{
    ByteCount, DropReason, EventId, Fragment, MissingSource, NodeId, Outcome, RunNumber, SessionId, SourceId,
    SuperFragment, Term, Timestamp, TriggerType,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Sender, with its run and session, and the sequence number in the ordered channel to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The run that the message belongs to.
    pub run: RunNumber,
    /// The sending node.
    pub sender: NodeId,
    /// The sender's incarnation.
    pub session: SessionId,
    /// The message's number in the ordered channel from this session to the receiver, counted from 1;
    /// 0 for messages outside the channel (requests for fragments and their answers, acknowledgements).
    pub sequence: u64,
    /// The highest number up to which the sender has received the receiver's channel without a gap.
    pub acknowledged: u64,
    /// The receiver's session that `acknowledged` refers to, and that the message is for; 0 if none was seen yet.
    pub acknowledged_session: SessionId,
    /// The term of the event manager: its own in its messages, the highest one seen in messages to it. 0 without a standby.
    pub term: Term,
}

/// One message, with payload handles of type `P`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<P> {
    /// Sender, session, and sequence number in the channel.
    pub header: Header,
    /// Content of the message.
    pub body: Body<P>,
}

/// Content of a message. The order of variants is the order of their codes in [`layout::Kind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<P> {
    /// Readout unit to event manager: event ids seen for the first time (where triggers come from sources).
    Announce(Vec<Announcement>),
    /// Builder to event manager: returns finished events and asks for new ones.
    Request(Request),
    /// Event manager to builder: events to build.
    Assign(Vec<Assignment>),
    /// Event manager to readout unit: events that ended; their fragments may go.
    Release(Vec<Release>),
    /// Builder to readout unit: requests its fragments of these events.
    FragmentRequest(Vec<EventRange>),
    /// Readout unit to builder: super-fragments of requested events. A message with payload.
    SuperFragments(SuperFragments<P>),
    /// Readout unit to event manager: announces it, with the state of its buffers and sources.
    ReadoutStatus(ReadoutStatus),
    /// Event manager to any node: the run's course.
    Command(Command),
    /// Any node to event manager: the node's books, when it closes.
    Report(Vec<Count>),
    /// Nothing but the header's acknowledgement.
    Acknowledge,
    /// Event manager to a builder whose session it has given up: stop, your unreported events are assigned again.
    Fence(SessionId),
    /// Event manager to readout unit, where readout units send unasked: which builder has these events.
    Dispatch(Vec<Destination>),
    /// Event manager to readout units and builders: how traffic is shaped from now on.
    Shape(Shape),
    /// Builder to readout unit: requests the fragments of some of its sources.
    PartRequest(PartRequest),
    /// Builder to output node: store these events. A message with payload.
    Delivery(Delivery<P>),
    /// Output node to builder: the outcome of its events, and the new window.
    Receipt(Receipt),
    /// Builder to event manager: fragments whose check values disagree with those of their events.
    Disagreements(Vec<Disagreement>),
    /// Event manager to readout unit: renumber the further fragments of a source.
    Renumber(Renumber),
    /// Readout unit to event manager: the first fragment with another number.
    Renumbered(Renumbered),
    /// Readout unit to event manager, and event manager to nodes that store events: a run record.
    Record(Arc<RunRecord>),
    /// Event manager to readout unit: answer to a run record.
    Recorded(Recorded),
    /// Builder to readout unit: requests the hits of windows of time, as fragments of these events.
    WindowRequest(WindowRequest),
    /// Event manager to readout unit: exclude a source from the further events, or include it again.
    Exclude(Exclusion),
    /// Readout unit to event manager: the first event without a source, or with it again.
    Excluded(Exclusion),
    /// Event manager to builder: do not wait for a readout unit from an event on, or ask it again.
    ExcludeReadout(ReadoutExclusion),
    /// Event manager to voter: a step of a ballot about the active replica of the event manager.
    Vote(VoteRequest),
    /// Voter to event manager: answer to such a step.
    Voted(VoteAnswer),
    /// Active event manager to its standby: the inputs that it has taken.
    Inputs(Vec<Input<P>>),
    /// Readout unit to its mirror: the inputs that it has taken. A message with payload.
    UnitInputs(Vec<UnitInput<P>>),
    /// Between a readout unit or its mirror and the event manager: which of the two acts.
    Mirror(MirrorStep),
}

/// An event id that a source has delivered for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The event.
    pub event: EventId,
    /// The source's time of it.
    pub time: Timestamp,
}

/// A builder returns finished events and asks for new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Number of further events that the builder takes.
    pub slots: u32,
    /// Number of further bytes of events that the builder takes.
    pub bytes: ByteCount,
    /// Events that ended at this builder since the last request, in the order in which they ended.
    pub finished: Vec<Finished>,
    /// For finished events built without an answer of a readout unit: which, so that the readout unit can book the
    /// fragments that it still holds as not built.
    pub absent: Vec<AbsentReadout>,
    /// With output nodes: which of their events are the stored ones among `finished`.
    pub kept: Vec<Kept>,
    /// Whether its output holds it up: it fails, or events that wait for it have half of the builder's slots or more.
    /// If triggers are refused for lack of credit, this identifies the responsible builder.
    pub output_behind: bool,
    /// Work in progress on events of this builder.
    pub work: Work,
    /// Whether the workers that judge its events have loaded their filters.
    pub readiness: Readiness,
}

/// Work of a builder unit on events that it has built. It may take any time, and the end of a run waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// None: events are still being gathered, or the worker that would process them has failed or is absent.
    #[default]
    None,
    /// The filter judges events.
    Judging,
    /// The output writes events.
    Storing,
}

impl Work {
    /// Its bits in the flags of a request.
    const fn flags(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Judging => 4,
            Self::Storing => 8,
        }
    }

    /// The work with these bits.
    fn from_flags(flags: u32) -> Option<Self> {
        [Self::None, Self::Judging, Self::Storing].into_iter().find(|work| work.flags() == flags)
    }
}

/// Whether a builder unit can have its events judged. The start of a run waits for it, and a builder unit that joins a run in
/// progress grants no credit before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// The workers that it starts have loaded their filters, or it has none.
    #[default]
    Ready,
    /// Workers are loading their filters.
    Loading,
    /// A worker has ended several times while it loaded its filter.
    Failed,
}

impl Readiness {
    /// Its bits in the flags of a request.
    const fn flags(self) -> u32 {
        match self {
            Self::Ready => 0,
            Self::Loading => 16,
            Self::Failed => 32,
        }
    }

    /// The readiness with these bits.
    fn from_flags(flags: u32) -> Option<Self> {
        [Self::Ready, Self::Loading, Self::Failed].into_iter().find(|readiness| readiness.flags() == flags)
    }
}

/// Number of parts in [`AbsentReadout::parts`] and [`Release::parts`] with the meaning that the builder that ended the
/// event has not requested anything from this readout unit, whatever another one did before.
pub const PARTS_NOT_ASKED: u16 = u16::MAX;

/// A readout unit that had no part in a finished event, or only in the first parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentReadout {
    /// The event.
    pub event: EventId,
    /// The readout unit's index.
    pub readout: u16,
    /// Of how many parts the event has its answer: it was silent from the next one on. 0 where the event was built at
    /// once. [`PARTS_NOT_ASKED`] where it was not silent, but not asked.
    pub parts: u16,
}

/// An event that ended at a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The event.
    pub event: EventId,
    /// The attempt that this answers.
    pub attempt: u16,
    /// Outcome of the event.
    pub outcome: Outcome,
    /// Reason, if the outcome is [`Outcome::Dropped`]. If it is [`Outcome::GivenBack`], `None` if the event only made
    /// way for others: it was not too large for the builder.
    pub reason: Option<DropReason>,
    /// The event's payload bytes.
    pub bytes: ByteCount,
    /// Number of its fragments.
    pub fragments: u32,
    /// Number of its missing sources, required or not.
    pub missing: u32,
    /// Whether a required source is missing.
    pub incomplete: bool,
}

/// An event for a builder to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The event.
    pub event: EventId,
    /// Time of the trigger.
    pub time: Timestamp,
    /// Type of its trigger.
    pub trigger_type: TriggerType,
    /// Number of builders that have been given it, including this one.
    pub attempt: u16,
    /// Bytes of the builder's credit that it takes; the builder grants them again when the event ends.
    pub charged: u32,
}

/// A range of events that ended alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The first event.
    pub first: EventId,
    /// Number of consecutive ids.
    pub count: u32,
    /// Outcome of the events; never [`Outcome::GivenBack`].
    pub outcome: Outcome,
    /// Reason, if they were dropped.
    pub reason: Option<DropReason>,
    /// Number of their parts that contain this readout unit's answer; 0 if all that was requested is in them, and
    /// [`PARTS_NOT_ASKED`] if nothing was requested of it in the attempt that ended them.
    pub parts: u16,
}

/// Some sources of a readout unit, in some events. The whole of an event is asked for in [`Body::FragmentRequest`]; an
/// event that is built in steps is asked for in parts, which are counted from 1 in each attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRequest {
    /// Which part. Of two requests with one attempt, the higher part has the event.
    pub part: u16,
    /// The sources whose fragments are wanted, each once. None: the events are under construction, and nothing is to be
    /// sent.
    pub sources: Vec<SourceId>,
    /// The events.
    pub ranges: Vec<EventRange>,
}

/// A range of events that a builder asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRange {
    /// The first event.
    pub first: EventId,
    /// Number of consecutive ids.
    pub count: u32,
    /// The attempt of the assignment: of two builders that ask for one event, the higher attempt has it.
    pub attempt: u16,
}

impl EventRange {
    /// A range of one event.
    #[must_use]
    pub fn one(event: EventId, attempt: u16) -> Self {
        Self { first: event, count: 1, attempt }
    }

    /// Takes other events in if they are the next ones, of the same attempt.
    #[inline]
    pub fn join(&mut self, next: Self) -> bool {
        let is_next = self.attempt == next.attempt
            && self.first.0.checked_add(u64::from(self.count)) == Some(next.first.0);
        if is_next && let Some(count) = self.count.checked_add(next.count) {
            self.count = count;
            return true;
        }
        false
    }
}

/// Some sources of a readout unit in some events, each of which is a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRequest {
    /// Which part, as in [`PartRequest`]; 0 for whole events.
    pub part: u16,
    /// The sources whose hits are wanted, each once; none for whole events, which have all sources.
    pub sources: Vec<SourceId>,
    /// The events.
    pub events: Vec<EventWindow>,
}

/// An event and its window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventWindow {
    /// The event.
    pub event: EventId,
    /// The attempt of the assignment, as in [`EventRange`].
    pub attempt: u16,
    /// The window. [`HitInterval::NONE`] if it is not on the timeline.
    pub window: HitInterval,
}

/// A range of events that a builder has, for readout units that send without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// The events, and the attempt of their assignment.
    pub events: EventRange,
    /// The builder's index.
    pub builder: u16,
}

/// Traffic shaping wanted by the event manager. Sent when it changes, in the channel, and to readout units as a tick
/// now and then, outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Whether the barrel shifter is running. While it is stopped, builders keep to their credit and readout units use
    /// no slots.
    pub turning: bool,
    /// From when the slots are counted, on the event manager's clock.
    pub epoch: Timestamp,
    /// The event manager's clock when it sent this.
    pub clock: Timestamp,
}

/// Super-fragments, flat: for each event of each entry of `entries` in turn, its `fragments` and `missing` follow each
/// other in the two other lists. Flat lists cost an allocation a message, not one a super-fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperFragments<P> {
    /// One per event, or per range of consecutive events with entries of equal size.
    pub entries: Vec<SuperFragment>,
    /// All fragments, in the order of the entries.
    pub fragments: Vec<Fragment<P>>,
    /// All missing sources, in the order of the entries.
    pub missing: Vec<MissingSource>,
}

impl<P> Default for SuperFragments<P> {
    fn default() -> Self {
        Self { entries: Vec::new(), fragments: Vec::new(), missing: Vec::new() }
    }
}

impl<P> SuperFragments<P> {
    /// Appends the entry of an event whose fragments and missing sources have been appended. Events with consecutive
    /// ids that have as many of both share an entry.
    pub fn push_entry(&mut self, entry: SuperFragment) {
        if let Some(last) = self.entries.last_mut()
            && (last.attempt, last.part) == (entry.attempt, entry.part)
            && (last.fragments, last.missing) == (entry.fragments, entry.missing)
            && last.event.0.checked_add(u64::from(last.count)) == Some(entry.event.0)
            && let Some(count) = last.count.checked_add(entry.count)
            && !entry.is_empty()
        {
            last.count = count;
            return;
        }
        self.entries.push(entry);
    }
}

/// The state of a readout unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadoutStatus {
    /// Number of sources that it reads.
    pub sources: u32,
    /// Number of these that have ended, or are excluded and not to be included again. When all have, and all ids are announced, this unit
    /// announces no more events.
    pub sources_ended: u32,
    /// Events that it holds fragments of.
    pub buffered_events: u32,
    /// Payload bytes that it holds.
    pub buffered: ByteCount,
    /// Whether a full buffer holds its sources back.
    pub busy: bool,
    /// Whether it is processing fragments that builder units requested. That may take any time, and the end of a run
    /// waits for it.
    pub processing: bool,
    /// Whether programs that feed its sources are awaited: the run cannot start.
    pub waiting: bool,
    /// Whether one of these programs declines the start of the run.
    pub declines: bool,
    /// Whether it was told to [divide](Command::Divide) the runs, and has announced every event that it had a fragment of at that time.
    pub has_divided: bool,
    /// Highest event for which each required source that has not ended has room, if it delivers one fragment of each event, none larger
    /// than its largest so far. The maximum if there is no such source.
    pub room_until: EventId,
    /// Number of such events for which there is room when nothing is held.
    pub room_events: u32,
}

/// The run's course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Every expected node is connected: sources may send.
    Start = 1,
    /// Every trigger has ended: sources stop, the node reports its books and closes.
    Close = 2,
    /// To a readout unit that joins, or rejoins, during the run: sources may send; missing fragments of earlier events
    /// are not to be awaited.
    Join {
        /// An event below which all have ended: nobody needs fragments of lower ones.
        floor: EventId,
    } = 3,
    /// To a builder: an older event waits for a place. It gives back the youngest event that it has under construction,
    /// if it has one.
    GiveWay = 4,
    /// To a readout unit: the run takes no triggers until it is resumed. Events that were triggered before are built.
    Pause = 5,
    /// To a readout unit: the run takes triggers again.
    Resume = 6,
    /// In place of `Close`: another run follows in the same nodes. Sources go on, and a readout unit keeps the fragments of the next run.
    HandOver {
        /// First event of the next run.
        first: EventId,
    } = 7,
    /// To a readout unit, where the data announce the triggers and another run follows: all events that are known have ended. It announces
    /// every event that it has a fragment of, and says so in a status.
    Divide = 8,
}

impl Command {
    /// Returns the code in messages.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::Close => 2,
            Self::Join { .. } => 3,
            Self::GiveWay => 4,
            Self::Pause => 5,
            Self::Resume => 6,
            Self::HandOver { .. } => 7,
            Self::Divide => 8,
        }
    }
}

/// One number of a node's books: which count, of which reason (0 where the count has none), and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Count {
    /// The count's code, given in `sheaf_protocol::ledger`.
    pub code: u16,
    /// The code of the [`DropReason`] that it is counted for, or 0.
    pub reason: u16,
    /// Value of the counter.
    pub value: u64,
}

#[cfg(test)]
mod tests;
