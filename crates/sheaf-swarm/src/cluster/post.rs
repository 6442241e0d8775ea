//! State that all drivers of the cluster share: the clock, the agenda, the network and the log.

mod link_reports;
mod links;

use super::turns::ProgramTurn;
use super::{RUN, Sabotage};
use crate::dice::Dice;
use crate::log::{Line, Note, RunLog};
use crate::network::{Fate, Network};
use crate::options::{Options, StorageOptions};
use crate::payload::{PayloadQueue, SimPayload};
use link_reports::LinkReports;
pub(super) use link_reports::talk;
pub(super) use links::Datagram;
use links::Links;
use sheaf_protocol::builder::Decision;
use sheaf_protocol::farm::{Seat, Ticket, Word};
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::{Deadline, Identity, Transmit};
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{EventId, Nanos, NodeId, SessionId, SourceId, SuperFragment, Timestamp};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Scheduled action.
#[derive(Debug)]
pub(super) enum Happening {
    Arrival(NodeId, Box<Message<SimPayload>>),
    /// Used if recovery is between roles and network.
    Datagram(NodeId, Box<Datagram>),
    /// The deadline of a node's end of the link to a peer. Void if it now waits for another instant.
    Link(NodeId, NodeId, Timestamp),
    /// A session of a node receives the report that its link to a peer is up or down.
    LinkReport(NodeId, SessionId, NodeId, LinkStatus),
    /// The link between two nodes is closed because it carries nothing, or made anew.
    Severed(NodeId, NodeId, LinkStatus),
    /// The node's deadline. Void if the node now waits for another instant.
    Wake(NodeId, Timestamp),
    /// A worker of a readout unit has finished an answer.
    Processed(usize, SessionId, u64),
    /// The open file of a node may be due to be closed.
    CloseFile(NodeId, SessionId),
    /// A file of a node is in the object store.
    Uploaded(NodeId, SessionId, u64),
    /// A consumer of a builder has processed an event.
    Looked(usize, SessionId, u32),
    /// Something happens to a program that feeds sources, or to its connection.
    Program(usize, ProgramTurn),
    /// A source of a readout unit has looked for its hits of an event.
    Windows(usize, SessionId, SourceId, EventId),
    /// A source's next fragment is ready.
    Source(usize),
    Trigger,
    /// A message between trigger supervisor and event manager may have arrived.
    TriggerLine,
    /// The program of the trigger supervisor starts again.
    SupervisorStarts,
    /// The event manager takes the triggers of its supervisor.
    TriggersTaken,
    /// The next event of a builder's queue to its disk is written, or judged by the filter.
    Written(usize, SessionId),
    /// The next event of a builder's queue back from its disk is reported to the builder.
    Decided(usize, SessionId),
    /// A part of an event is judged.
    Judged(usize, SessionId, EventId),
    /// The next event of an output node's queue to its disk is written.
    OutputWritten(usize, SessionId),
    /// The first written event of an output node is durable.
    OutputDurable(usize, SessionId),
    /// A step in the farm of a builder's session.
    Farm(usize, SessionId, FarmTurn),
    Fault(usize),
    /// A node returns.
    Back(NodeId),
    Stop,
    /// The operator releases the start of the run.
    Release,
    /// The operator pauses the run (`true`), or one of his pauses ends.
    Pause(bool),
    /// The operator excludes a source (`true`), or one of its exclusions ends.
    Exclude(SourceId, bool),
    /// The operator excludes a node (`true`), or one of its exclusions ends.
    ExcludeNode(NodeId, bool),
    Healed,
}

/// Step in the farm of a builder's session.
#[derive(Clone, Debug)]
pub(super) enum FarmTurn {
    /// The process at a place begins a life.
    Begin(usize),
    /// The process of a place has loaded its filter, or dies instead.
    Loaded(usize, u32),
    /// An event arrives at the process of a place, in this life of it.
    Down(usize, u32, Ticket, EventId),
    /// A message arrives at the dispatcher.
    Up(Seat, Word<Decision>),
    /// The process of a place has finished its first event.
    Done(usize, u32),
    /// The dispatcher is notified that the process of a seat is gone.
    Gone(Seat),
    /// The dispatcher's deadline.
    Wake(Timestamp),
}

/// Place among the actions of one instant: the time for which an action was first planned, and the order of planning. Actions that
/// a stall has postponed keep their place, so that they stay in order even if another stall postpones some of them again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PlanOrder {
    first_planned: Timestamp,
    order: u64,
}

#[derive(Debug)]
struct Entry {
    at: Timestamp,
    place: PlanOrder,
    happening: Happening,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns the greatest entry first, which must be the earliest.
        (other.at, other.place).cmp(&(self.at, self.place))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

/// State of a node, without its machine.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: NodeId,
    /// Its latest session.
    pub(super) session: SessionId,
    wake_at: Option<Timestamp>,
    pub(super) stalled_until: Timestamp,
    /// Begin of a stall whose end it has not noticed.
    pub(super) stalled_since: Option<Timestamp>,
    /// Length of the stalls of this life that have ended, and that it has noticed.
    stalled: Nanos,
    /// Whether it is permanently down.
    pub(super) is_gone: bool,
    has_begun: bool,
}

impl Host {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            session: SessionId(1),
            wake_at: None,
            stalled_until: Timestamp::ZERO,
            stalled_since: None,
            stalled: Nanos::ZERO,
            is_gone: false,
            has_begun: false,
        }
    }

    /// Begins a life, each after the first with another session.
    pub(super) fn begin(&mut self) -> Identity {
        if std::mem::replace(&mut self.has_begun, true) {
            self.session = SessionId(self.session.0 + 1);
        }
        Identity { node: self.node, run: RUN, session: self.session }
    }

    /// Resets timers and stalls for the node's next life.
    pub(super) fn go_down(&mut self) {
        (self.wake_at, self.stalled_until, self.stalled_since) = (None, Timestamp::ZERO, None);
        self.stalled = Nanos::ZERO;
    }

    /// Takes note of a stall that has ended, and returns its length.
    pub(super) fn note_end_of_stall(&mut self) -> Option<Nanos> {
        let stall = self.stalled_until.since(self.stalled_since.take()?);
        self.stalled = self.stalled + stall;
        Some(stall)
    }

    /// Returns the time without the stalls of this life, as drivers pass it to roles that judge others by their silence.
    pub(super) fn own_time(&self, now: Timestamp) -> Timestamp {
        let pending =
            self.stalled_since.map_or(Nanos::ZERO, |since| now.min(self.stalled_until).since(since));
        Timestamp(now.0 - self.stalled.0 - pending.0)
    }

    /// Returns the common time at which it is this late by the node's own time, unless it stalls before.
    pub(super) fn common_time(&self, own: Timestamp) -> Timestamp {
        own + self.stalled
    }
}

/// The clock, the agenda, the network and the log.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) now: Timestamp,
    agenda: BinaryHeap<Entry>,
    next_order: u64,
    /// Place of the current action.
    current: PlanOrder,
    pub(super) network: Network,
    /// Recovery, if the network loses datagrams and not messages.
    pub(super) links: Option<Links>,
    /// Reports of links, in runs in which drivers receive them.
    link_reports: Option<LinkReports>,
    pub(super) log: RunLog,
    pub(super) dice: Dice,
    timer_slack: Nanos,
    through_codec: bool,
    /// Error of the codec.
    pub(super) codec_failure: Option<String>,
    pub(super) sabotage: Option<Sabotage>,
}

impl Post {
    pub(super) fn new(options: &Options) -> Self {
        let system = &options.system;
        let network = Network::new(
            options.seed,
            options.network.clone(),
            system.readouts,
            system.builders,
            system.outputs,
        );
        Self {
            now: Timestamp::ZERO,
            agenda: BinaryHeap::new(),
            next_order: 0,
            current: PlanOrder::default(),
            network,
            links: Links::new(options),
            link_reports: options.times.silence.map(|_| LinkReports::default()),
            log: RunLog::default(),
            dice: Dice::new(options.seed, 2),
            timer_slack: options.timer_slack,
            through_codec: options.through_codec,
            codec_failure: None,
            sabotage: None,
        }
    }

    pub(super) fn plan(&mut self, at: Timestamp, happening: Happening) {
        debug_assert!(at >= self.now, "the past is over");
        self.next_order += 1;
        let place = PlanOrder { first_planned: at, order: self.next_order };
        self.agenda.push(Entry { at, place, happening });
    }

    /// Postpones the current action, which keeps its place among the actions at `at`.
    pub(super) fn postpone(&mut self, at: Timestamp, happening: Happening) {
        debug_assert!(at >= self.now, "the past is over");
        self.agenda.push(Entry { at, place: self.current, happening });
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.agenda.peek().map(|entry| entry.at)
    }

    /// Advances to the next entry of the agenda.
    pub(super) fn advance(&mut self) -> Option<Happening> {
        let entry = self.agenda.pop()?;
        (self.now, self.current) = (entry.at, entry.place);
        Some(entry.happening)
    }

    pub(super) fn note(&mut self, line: Line) {
        self.log.write(self.now, line);
    }

    /// Passes a message to the network.
    pub(super) fn carry(&mut self, transmit: Transmit<SimPayload>) {
        let (from, to) = (transmit.message.header.sender, transmit.to);
        let note = Note::of(&transmit.message);
        // With recovery, the network delays and loses datagrams, so the arrival time of a message is not known in advance.
        let fate = if self.links.is_some() { Fate::default() } else { self.network.send(self.now, from, to) };
        self.note(Line::Sent { from, to, note, fate });
        if fate.arrives.is_none() && self.links.is_none() {
            return;
        }
        let mut message = transmit.message;
        if self.sabotage == Some(Sabotage::NeverFence) && matches!(message.body, Body::Fence(_)) {
            return;
        }
        self.damage(&mut message);
        if self.through_codec {
            message = self.through_codec(message);
        }
        let Some(arrives) = fate.arrives else {
            self.carry_by_link(from, Transmit { to, message });
            return;
        };
        if let Some(again) = fate.again {
            self.plan(again, Happening::Arrival(to, Box::new(message.clone())));
        }
        self.plan(arrives, Happening::Arrival(to, Box::new(message)));
    }

    fn through_codec(&mut self, message: Message<SimPayload>) -> Message<SimPayload> {
        let (mut head, mut payload) = (Vec::new(), PayloadQueue::default());
        message.clone().encode(&mut head, |handle| payload.0.push_back(handle));
        match Message::decode(&head, &mut payload) {
            Ok(decoded) if decoded == message => decoded,
            Ok(decoded) => {
                self.codec_failure = Some(format!("the codec made {decoded:?} of {message:?}"));
                message
            }
            Err(error) => {
                self.codec_failure = Some(format!("the codec refuses {message:?}: {error}"));
                message
            }
        }
    }

    /// Corrupts a message if a test of the checker requests it.
    fn damage(&mut self, message: &mut Message<SimPayload>) {
        if let (Some(_), Body::SuperFragments(parts)) = (self.sabotage, &mut message.body) {
            // Corrupts a single event, not a range of events.
            let single = |entry: &SuperFragment| {
                let entry = *entry;
                entry.events().map(move |event| SuperFragment { event, count: 1, ..entry })
            };
            parts.entries = parts.entries.iter().flat_map(single).collect();
        }
        match (self.sabotage, &mut message.body) {
            (Some(Sabotage::ForgetRelease), Body::Release(list)) if !list.is_empty() => list.clear(),
            (Some(Sabotage::LoseFragment), Body::SuperFragments(parts)) if !parts.fragments.is_empty() => {
                parts.entries[0].fragments -= 1;
                parts.fragments.remove(0);
            }
            (Some(Sabotage::SwapEvents), Body::SuperFragments(parts)) if parts.entries.len() >= 2 => {
                let (first, second) = (parts.entries[0].event, parts.entries[1].event);
                (parts.entries[0].event, parts.entries[1].event) = (second, first);
            }
            (Some(Sabotage::MoveWindow), Body::WindowRequest(request)) => {
                request.events[0].window.until_ps += 1;
            }
            (Some(Sabotage::LieAboutFragments), Body::Request(request)) if !request.finished.is_empty() => {
                request.finished[0].fragments += 1;
            }
            _ => return,
        }
        self.sabotage = None;
    }

    /// Returns the time by which an output is late with a write.
    pub(super) fn lateness(&mut self, storage: &StorageOptions) -> Nanos {
        if self.dice.chance(storage.late) { storage.late_time } else { Nanos::ZERO }
    }

    /// Schedules a node's wake-up at its deadline.
    pub(super) fn arm(&mut self, host: &mut Host, deadline: Option<Deadline>) {
        let Some(deadline) = deadline else {
            return;
        };
        let slack = match self.timer_slack {
            Nanos::ZERO => Nanos::ZERO,
            slack => self.dice.time_between(Nanos::ZERO, slack),
        };
        let at = deadline.at.max(self.now) + slack;
        // An entry for an earlier instant stays: the node checks its deadlines then and is scheduled again.
        if host.wake_at.is_none_or(|planned| at < planned) {
            host.wake_at = Some(at);
            self.plan(at, Happening::Wake(host.node, at));
        }
    }

    /// Returns whether a wake-up is the one that the node waits for.
    pub(super) fn is_awaited(host: &mut Host, planned: Timestamp) -> bool {
        let awaited = host.wake_at == Some(planned);
        if awaited {
            host.wake_at = None;
        }
        awaited
    }
}

/// Returns the payload of an answer.
pub(super) fn payload_bytes(transmit: &Transmit<SimPayload>) -> u64 {
    match &transmit.message.body {
        Body::SuperFragments(parts) => {
            parts.fragments.iter().map(|fragment| u64::from(fragment.payload.length)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next action, a turn of a source.
    fn next(post: &mut Post) -> (Timestamp, usize) {
        match post.advance() {
            Some(Happening::Source(source)) => (post.now, source),
            other => panic!("not a turn of a source: {other:?}"),
        }
    }

    /// A message that two stalls postpone is not overtaken by a later message of the same connection, which arrives when the
    /// second stall is known.
    #[test]
    fn postponed_actions_stay_in_order() {
        let mut post = Post::new(&Options::default());
        let [first_end, second_end] = [20, 30].map(Timestamp);
        for (at, source) in [(5, 0), (6, 1), (10, 2), (30, 3)] {
            post.plan(Timestamp(at), Happening::Source(source));
        }
        for end in [first_end, first_end, second_end] {
            let (_, source) = next(&mut post);
            post.postpone(end, Happening::Source(source));
        }
        for source in [0, 1] {
            assert_eq!(next(&mut post), (first_end, source));
            post.postpone(second_end, Happening::Source(source));
        }
        assert_eq!([(); 4].map(|()| next(&mut post)), [0, 1, 2, 3].map(|source| (second_end, source)));
    }
}
