//! The run log: one line per occurrence, in order.
//!
//! A hash over all lines is always computed from their fields, without generating the text. The text is generated on demand;
//! `docs/concepts/simulation-testing.md` explains it.

use crate::network::Fate;
use crate::payload::SimPayload;
use sheaf_protocol::Why;
use sheaf_wire::feed::Refusal;
use sheaf_wire::message::layout::Kind;
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{Event, EventId, NodeId, Outcome, SessionId, SourceId, Timestamp};
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

/// A line of the run log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A message was passed to the network.
    Sent {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The message.
        note: Note,
        /// Time of its arrival.
        fate: Fate,
    },
    /// A message arrived.
    Arrived {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// The message.
        note: Note,
        /// Whether the message is lost because the receiver is down.
        lost: bool,
    },
    /// A node handled a deadline.
    Woken {
        /// Which.
        node: NodeId,
        /// Reason for the first deadline.
        why: Reason,
    },
    /// A source passed a fragment to its readout unit.
    Fragment {
        /// The readout unit.
        node: NodeId,
        /// The source.
        source: SourceId,
        /// The event.
        event: EventId,
        /// Outcome of the fragment.
        fate: FragmentFate,
    },
    /// The trigger process requested an event.
    Trigger {
        /// The event, unless it was vetoed.
        event: Option<EventId>,
    },
    /// An event reached a step at a builder.
    Built {
        /// The builder.
        node: NodeId,
        /// Its session.
        session: SessionId,
        /// The event.
        event: EventId,
        /// Step that happened.
        step: Step,
        /// Number of fragments.
        fragments: u32,
        /// Number of missing sources.
        missing: u32,
    },
    /// The event manager booked the end of an event.
    Ended {
        /// The event.
        event: EventId,
        /// How.
        outcome: Outcome,
    },
    /// The state of a node changed.
    Node {
        /// Which.
        node: NodeId,
        /// Its session.
        session: SessionId,
        /// What.
        what: Turn,
    },
    /// A link was cut or clogged.
    Link {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Whether messages are lost.
        cut: bool,
        /// End of the fault.
        until: Timestamp,
    },
    /// A node receives a report of its link to a peer.
    LinkReport {
        /// Which.
        node: NodeId,
        /// Its peer.
        peer: NodeId,
        /// Whether it is up.
        is_up: bool,
    },
    /// The connection of a program that feeds sources changed.
    Feed {
        /// The readout unit.
        node: NodeId,
        /// Number of the program.
        program: u16,
        /// What.
        what: FeedTurn,
    },
    /// The operator stops the run.
    Stop,
    /// The operator releases the start of the run.
    Release,
    /// The operator pauses the run (`true`) or resumes it.
    Pause(bool),
    /// The operator excludes a source (`true`), or includes it again.
    Exclude(SourceId, bool),
    /// The operator excludes a node (`true`), or includes it again.
    ExcludeNode(NodeId, bool),
    /// The network works without faults from now on.
    Healed,
    /// Sources of a readout unit are asked for windows of their hits, or the request for an event is cancelled.
    Windows {
        /// The readout unit.
        node: NodeId,
        /// The event.
        event: EventId,
        /// Number of sources; 0 if the request is cancelled.
        sources: u64,
    },
}

/// Outcome of a fragment at its readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentFate {
    /// Taken, and held or dropped for a reason.
    Taken,
    /// Refused for lack of room. It will be offered again.
    HeldBack,
    /// Lost, because the readout unit was down.
    Lost,
    /// Not had: the source no longer has the requested hits, or never had any.
    NotHad,
}

/// Change of the connection of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeedTurn {
    /// It is connected.
    Connected,
    /// The connection has ended.
    Left,
    /// The readout unit closes the connection.
    Refused(Refusal),
}

/// A step of an event at a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The builder has a part of it.
    Part,
    /// The builder has built it, complete or not.
    Built,
    /// It is on disk.
    Written,
    /// The builder received the decision that it is stored.
    Stored,
    /// The builder received the decision that the filter rejected it.
    Rejected,
    /// The builder received the decision that it could not be stored.
    Failed,
}

/// Change of a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// It began a session.
    Began,
    /// It received the start of the run.
    Started,
    /// It received the message that the run is paused.
    Paused,
    /// It received the message that the run is resumed.
    Resumed,
    /// It lost its state.
    Crashed,
    /// It is stalled until this time.
    Stalled(Timestamp),
    /// It received the message that its session has ended.
    Fenced,
    /// It received the message that the run closes.
    Closed,
    /// The event manager gave up its session; this number of events counts.
    GivenUp(u64),
}

/// Encodes the reason why a node was woken in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub Why);

impl Hash for Reason {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (code, about) = match self.0 {
            Why::Acknowledge(node) => (1_u64, u64::from(node.to_code())),
            Why::Retransmit(node) => (2, u64::from(node.to_code())),
            Why::Heartbeat => (3, 0),
            Why::Batch => (4, 0),
            Why::SourceSilent(event) => (5, event.0),
            Why::Orphan(event) => (6, event.0),
            Why::EventTimeout(event) => (7, event.0),
            Why::RequestRetry(event) => (8, event.0),
            Why::PeersSilent => (9, 0),
            Why::Start => (10, 0),
            Why::Drain => (11, 0),
            Why::Tick => (12, 0),
            Why::Slot => (13, 0),
            Why::KeepAlive(node) => (16, u64::from(node.to_code())),
            Why::PeerSilent(node) => (17, u64::from(node.to_code())),
            Why::Verdict(seat) => (18, u64::from(seat.life) << 16 | u64::from(seat.place)),
            Why::NoProcessor => (19, 0),
            Why::Question(seat) => (20, u64::from(seat.life) << 16 | u64::from(seat.place)),
        };
        state.write_u64(code);
        state.write_u64(about);
    }
}

/// A message in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    kind: Kind,
    session: SessionId,
    sequence: u64,
    acknowledged: u64,
    entries: u64,
    first: Option<EventId>,
    detail: u64,
}

impl Hash for Note {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let first = self.first.map_or(u64::MAX, |event| event.0);
        let acknowledged = self.acknowledged;
        for word in
            [self.kind as u64, self.session.0, self.sequence, acknowledged, self.entries, first, self.detail]
        {
            state.write_u64(word);
        }
    }
}

impl Note {
    /// A message in a few numbers.
    #[must_use]
    pub fn of(message: &Message<SimPayload>) -> Self {
        let (entries, first, detail) = match &message.body {
            Body::Announce(list) => (list.len(), list.first().map(|entry| entry.event), 0),
            Body::Request(request) => {
                let finished = request.finished.first().map(|entry| entry.event);
                (request.finished.len(), finished, u64::from(request.slots))
            }
            Body::Assign(list) => {
                let attempt = list.first().map_or(0, |entry| u64::from(entry.attempt));
                (list.len(), list.first().map(|entry| entry.event), attempt)
            }
            Body::Release(list) => {
                let events = list.iter().map(|range| u64::from(range.count)).sum();
                (list.len(), list.first().map(|entry| entry.first), events)
            }
            Body::FragmentRequest(list) => {
                let attempt = list.first().map_or(0, |entry| u64::from(entry.attempt));
                (list.len(), list.first().map(|entry| entry.first), attempt)
            }
            Body::SuperFragments(parts) => (
                parts.entries.len(),
                parts.entries.first().map(|entry| entry.event),
                parts.fragments.len() as u64,
            ),
            Body::ReadoutStatus(status) => {
                (status.buffered_events as usize, None, u64::from(status.sources_ended))
            }
            Body::Command(command) => (0, None, u64::from(command.code())),
            Body::Report(list) => (list.len(), None, 0),
            Body::Acknowledge => (0, None, 0),
            Body::Fence(session) => (0, None, session.0),
            Body::Dispatch(list) => {
                let builder = list.first().map_or(0, |entry| u64::from(entry.builder));
                (list.len(), list.first().map(|entry| entry.events.first), builder)
            }
            Body::Shape(shape) => (0, None, u64::from(shape.turning)),
            Body::PartRequest(request) => {
                let first = request.ranges.first().map(|entry| entry.first);
                (request.ranges.len(), first, u64::from(request.part))
            }
            Body::WindowRequest(request) => {
                let first = request.events.first().map(|entry| entry.event);
                (request.events.len(), first, u64::from(request.part))
            }
            Body::Delivery(delivery) => (
                delivery.entries.len(),
                delivery.entries.first().map(|entry| entry.event),
                delivery.fragments.len() as u64,
            ),
            Body::Receipt(receipt) => {
                let events = receipt.entries.iter().map(|entry| u64::from(entry.count)).sum();
                (receipt.entries.len(), None, events)
            }
            Body::Disagreements(list) => {
                let source = list.first().map_or(0, |entry| u64::from(entry.source.0));
                (list.len(), list.first().map(|entry| entry.event), source)
            }
            Body::Renumber(order) => (0, None, u64::from(order.source.0)),
            Body::Renumbered(answer) => (0, Some(answer.first), u64::from(answer.source.0)),
            Body::Exclude(order) => (usize::from(order.excluded), None, u64::from(order.source.0)),
            Body::Excluded(answer) => {
                (usize::from(answer.excluded), Some(answer.event), u64::from(answer.source.0))
            }
            Body::ExcludeReadout(exclusion) => {
                (usize::from(exclusion.excluded), Some(exclusion.event), u64::from(exclusion.readout))
            }
            Body::Record(record) => (0, None, record.number),
            Body::Recorded(answer) => (0, None, answer.number),
            Body::Inputs(inputs) => (inputs.len(), None, 0),
            Body::UnitInputs(inputs) => (inputs.len(), None, 0),
            Body::Mirror(_) => (0, None, 0),
            Body::Vote(request) => (0, None, request.ballot.0),
            Body::Voted(answer) => (0, None, answer.ballot.0),
        };
        Self {
            kind: message.body.kind(),
            session: message.header.session,
            sequence: message.header.sequence,
            acknowledged: message.header.acknowledged,
            entries: entries as u64,
            first,
            detail,
        }
    }
}

/// The log of one run.
#[derive(Clone, Debug)]
pub struct RunLog {
    hash: LineHash,
    lines: u64,
    text: Option<String>,
}

impl Default for RunLog {
    fn default() -> Self {
        Self { hash: LineHash(0xcbf2_9ce4_8422_2325), lines: 0, text: None }
    }
}

impl RunLog {
    /// Generates the text of every line from now on.
    pub fn keep_text(&mut self) {
        self.text.get_or_insert_default();
    }

    /// Adds a line.
    pub fn write(&mut self, now: Timestamp, line: Line) {
        self.lines += 1;
        now.hash(&mut self.hash);
        line.hash(&mut self.hash);
        if let Some(text) = &mut self.text {
            writeln!(text, "{now} {line}").expect("a string takes every text");
        }
    }

    /// Returns the hash over all lines so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.0
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the text, if it was kept.
    pub fn take_text(&mut self) -> String {
        self.text.take().unwrap_or_default()
    }
}

/// FNV-1a applied to words, with a rotation so that high bits affect low ones. All integers are widened to 64 bits, so that the
/// hash is the same on every machine.
#[derive(Clone, Copy, Debug)]
struct LineHash(u64);

impl Hasher for LineHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    fn write_isize(&mut self, value: isize) {
        #[expect(clippy::cast_sign_loss, reason = "the discriminant of an enum is not negative")]
        self.write_u64(value as u64);
    }
}

impl Line {
    /// Line of a step that a node has taken with an event.
    pub(crate) fn built(node: NodeId, session: SessionId, event: &Event<SimPayload>, step: Step) -> Self {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Self::Built {
            node,
            session,
            event: event.id,
            step,
            fragments: count(event.fragments.len()),
            missing: count(event.missing.len()),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent { from, to, note, fate } => {
                write!(f, "{from} > {to} {note}")?;
                match (fate.arrives, fate.again) {
                    (None, _) => write!(f, " LOST"),
                    (Some(at), None) => write!(f, " at {at}"),
                    (Some(at), Some(again)) => write!(f, " at {at} TWICE at {again}"),
                }
            }
            Self::Arrived { from, to, note, lost } => {
                write!(f, "{to} < {from} {note}{}", if *lost { " DOWN" } else { "" })
            }
            Self::Woken { node, why } => write!(f, "{node} ! {}", why.0),
            Self::Fragment { node, source, event, fate } => {
                let fate = match fate {
                    FragmentFate::Taken => "",
                    FragmentFate::HeldBack => " HELD BACK",
                    FragmentFate::Lost => " LOST",
                    FragmentFate::NotHad => " NOT HAD",
                };
                write!(f, "{node} + source {source} event {event}{fate}")
            }
            Self::Windows { node, event, sources: 0 } => write!(f, "{node} ? event {event} cancelled"),
            Self::Windows { node, event, sources } => {
                write!(f, "{node} ? windows of event {event} of {sources} sources")
            }
            Self::Feed { node, program, what } => match what {
                FeedTurn::Connected => write!(f, "{node} = program {program} CONNECTED"),
                FeedTurn::Left => write!(f, "{node} = program {program} LEFT"),
                FeedTurn::Refused(refusal) => write!(f, "{node} = program {program} REFUSED {refusal}"),
            },
            Self::Trigger { event: Some(event) } => write!(f, "evm + trigger event {event}"),
            Self::Trigger { event: None } => write!(f, "evm + trigger VETOED"),
            Self::Built { node, session, event, step, fragments, missing } => {
                write!(
                    f,
                    "{node}/{session} = event {event} {step:?} ({fragments} fragments, {missing} missing)"
                )
            }
            Self::Ended { event, outcome } => write!(f, "evm = event {event} {outcome}"),
            Self::Node { node, session, what } => match what {
                Turn::Stalled(until) => write!(f, "{node}/{session} * stalled until {until}"),
                Turn::GivenUp(committed) => {
                    write!(f, "{node}/{session} * given up, {committed} events count")
                }
                what => write!(f, "{node}/{session} * {}", format!("{what:?}").to_lowercase()),
            },
            Self::Link { from, to, cut, until } => {
                write!(f, "{from} > {to} * {} until {until}", if *cut { "cut" } else { "clogged" })
            }
            Self::LinkReport { node, peer, is_up } => {
                write!(f, "{node} < {peer} * link {}", if *is_up { "up" } else { "down" })
            }
            Self::Stop => write!(f, "operator * stop"),
            Self::Release => write!(f, "operator * release of the start"),
            Self::Pause(true) => write!(f, "operator * pause"),
            Self::Pause(false) => write!(f, "operator * end of a pause"),
            Self::Exclude(source, true) => write!(f, "operator * exclusion of source {source}"),
            Self::Exclude(source, false) => write!(f, "operator * end of an exclusion of source {source}"),
            Self::ExcludeNode(node, true) => write!(f, "operator * exclusion of {node}"),
            Self::ExcludeNode(node, false) => write!(f, "operator * end of an exclusion of {node}"),
            Self::Healed => write!(f, "network * healed"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sequence {
            0 => write!(f, "/{} ", self.session)?,
            sequence => write!(f, "/{} #{sequence} ", self.session)?,
        }
        let (entries, detail) = (self.entries, self.detail);
        match self.kind {
            Kind::Announce => write!(f, "announce {entries} events")?,
            Kind::Request => write!(f, "request {detail} slots, {entries} finished")?,
            Kind::Assign => write!(f, "assign {entries} events, attempt {detail}")?,
            Kind::Release => write!(f, "release {detail} events")?,
            Kind::FragmentRequest => write!(f, "ask {entries} ranges, attempt {detail}")?,
            Kind::SuperFragments => write!(f, "answer {entries} events, {detail} fragments")?,
            Kind::ReadoutStatus => write!(f, "status {entries} events held, {detail} sources ended")?,
            Kind::Command => f.write_str(match detail {
                1 => "start",
                2 => "close",
                3 => "join",
                _ => "give way",
            })?,
            Kind::Report => write!(f, "report {entries} counts")?,
            Kind::Acknowledge => write!(f, "acknowledge")?,
            Kind::Fence => write!(f, "fence session {detail}")?,
            Kind::Dispatch => write!(f, "dispatch {entries} ranges to builder {detail}")?,
            Kind::PartRequest => write!(f, "ask {entries} ranges for part {detail}")?,
            Kind::WindowRequest => write!(f, "ask {entries} windows for part {detail}")?,
            Kind::Delivery => write!(f, "deliver {entries} events, {detail} fragments")?,
            Kind::Receipt => write!(f, "receipt of {detail} events")?,
            Kind::Disagreements => write!(f, "{entries} disagreements, the first of source {detail},")?,
            Kind::Renumber => write!(f, "renumber source {detail}")?,
            Kind::Renumbered => write!(f, "source {detail} renumbered")?,
            Kind::Exclude => {
                let verb = if entries > 0 { "exclude" } else { "include" };
                write!(f, "{verb} source {detail}")?;
            }
            Kind::Excluded => {
                let state = if entries > 0 { "excluded" } else { "included" };
                write!(f, "source {detail} {state}")?;
            }
            Kind::ExcludeReadout => {
                let verb = if entries > 0 { "exclude" } else { "include" };
                write!(f, "{verb} readout unit {detail}")?;
            }
            Kind::Record => write!(f, "record {detail:x}")?,
            Kind::Inputs | Kind::UnitInputs => write!(f, "{entries} inputs")?,
            Kind::Mirror => f.write_str("mirror")?,
            Kind::Recorded => write!(f, "record {detail:x} answered")?,
            Kind::Vote => write!(f, "ballot {detail}")?,
            Kind::Voted => write!(f, "answer to ballot {detail}")?,
            Kind::Shape => f.write_str(if detail == 0 { "the barrel stands" } else { "the barrel turns" })?,
        }
        if let Some(first) = self.first {
            write!(f, " from {first}")?;
        }
        if self.acknowledged > 0 { write!(f, " (has {})", self.acknowledged) } else { Ok(()) }
    }
}
