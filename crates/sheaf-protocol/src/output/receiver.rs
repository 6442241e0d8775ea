//! The output node's side: receives events, reports which are stored and where, and bounds the number it
//! accepts.

use crate::channel::{Channel, ChannelTimes, Received};
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::{LinkStatus, Liveness};
use crate::machine::{Deadline, Identity, Transmit, Why};
use sheaf_wire::message::{Body, Command, Count, Delivery, Message, Receipt, ReceiptEntry};
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{ByteCount, Event, Nanos, NodeId, Payload, Role, SessionId, Timestamp, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;

/// Configuration of an output node. Memory for each builder unit: payload of `window` and of one more event, and some 100
/// bytes per fragment.
#[derive(Clone, Debug)]
pub struct OutputConfig {
    /// Number of builder units.
    pub builders: u16,
    /// Maximum number of events accepted from one builder and not stored yet.
    pub window_events: u32,
    /// Maximum number of bytes of these events. One more event is accepted, so that none is too large.
    pub window: ByteCount,
    /// Maximum interval between messages to the event manager and to each builder.
    pub heartbeat: Nanos,
    /// Times of the channels.
    pub channel: ChannelTimes,
}

/// Event for the driver of an output node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent<P> {
    /// The run begins.
    Started,
    /// Store an event. The driver answers with [`OutputUnit::handle_stored`] when the event is durable, or with
    /// [`OutputUnit::handle_left_out`].
    Store(Ticket, Event<P>, Verdict),
    /// A run record for the files. Repeats have the same number.
    Record(Arc<RunRecord>),
    /// The run closes: no more events or run records follow.
    Closed,
    /// The event manager has restarted and has lost the state of this run.
    ManagerRestarted,
}

/// An event of a builder's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    builder: u16,
    session: SessionId,
    /// Number of the event between the two sessions, from 0.
    number: u64,
    bytes: u64,
}

impl Ticket {
    /// Returns the builder that sent the event, and its session.
    #[must_use]
    pub fn builder(&self) -> (NodeId, SessionId) {
        (NodeId::builder(self.builder), self.session)
    }
}

/// Connection from one builder.
#[derive(Debug)]
struct Lane<P> {
    channel: Channel<P>,
    /// Event that has been received only in part.
    partial: Option<(Event<P>, Verdict)>,
    /// Number of the next event.
    next: u64,
    /// Events and bytes that are stored, or were released for another reason.
    done_events: u64,
    done_bytes: u64,
    /// Receipts for the builder.
    entries: Vec<ReceiptEntry>,
    is_news: bool,
    beat_at: Timestamp,
}

impl<P: Payload> Lane<P> {
    /// Resets the state for a new session of the builder.
    fn begin(&mut self) {
        (self.partial, self.next, self.done_events, self.done_bytes) = (None, 0, 0, 0);
        self.entries.clear();
        self.is_news = true;
    }

    fn end(&mut self, ticket: &Ticket, place: Option<u64>) {
        self.done_events += 1;
        self.done_bytes += ticket.bytes;
        self.is_news = true;
        let number = ticket.number;
        if let Some(last) = self.entries.last_mut() {
            let count = u64::from(last.count);
            let follows = last.first + count == number
                && match (last.place, place) {
                    (Some(first), Some(place)) => first + count == place,
                    (None, None) => true,
                    _ => false,
                };
            if follows && last.count < u32::MAX {
                last.count += 1;
                return;
            }
        }
        self.entries.push(ReceiptEntry { first: number, count: 1, place });
    }
}

/// See the [module](super) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct OutputUnit<P> {
    me: Identity,
    config: OutputConfig,
    manager: Channel<P>,
    manager_beat_at: Timestamp,
    lanes: Vec<Lane<P>>,
    /// Number of events that the driver is storing, and their bytes.
    storing: (u64, ByteCount),
    behind: bool,
    events: VecDeque<OutputEvent<P>>,
    closed: bool,
    hands_over: bool,
    books: NodeBooks,
}

impl<P: Payload> OutputUnit<P> {
    /// Creates an output node without events.
    #[must_use]
    pub fn new(me: Identity, config: OutputConfig, now: Timestamp) -> Self {
        assert_eq!(me.node.role, Role::Output, "{} is not an output node", me.node);
        let lane = |index| Lane {
            channel: Channel::new(NodeId::builder(index), config.channel),
            partial: None,
            next: 0,
            done_events: 0,
            done_bytes: 0,
            entries: Vec::new(),
            is_news: false,
            beat_at: now,
        };
        Self {
            me,
            manager: Channel::new(NodeId::MANAGER, config.channel),
            manager_beat_at: now,
            lanes: (0..config.builders).map(lane).collect(),
            storing: (0, ByteCount::ZERO),
            behind: false,
            events: VecDeque::new(),
            closed: false,
            hands_over: false,
            books: NodeBooks::default(),
            config,
        }
    }

    /// Returns the node's identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// Returns whether the run has closed and the event manager has this node's books.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closed && self.manager.is_settled()
    }

    /// Returns whether the run has closed and another one follows in this node.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Returns the signs of life of the event manager.
    #[must_use]
    pub fn manager_liveness(&self) -> &Liveness {
        self.manager.liveness()
    }

    /// Returns the number of events that are not yet durable, and their bytes, without partially received events.
    #[must_use]
    pub fn held(&self) -> (u64, ByteCount) {
        let waiting = self.events.iter().filter_map(|event| match event {
            OutputEvent::Store(ticket, ..) => Some(ticket.bytes),
            _ => None,
        });
        waiting.fold(self.storing, |(events, sum), bytes| (events + 1, sum + ByteCount(bytes)))
    }

    /// Returns whether the events that the driver is storing fill half of one builder's window.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        let (events, bytes) = self.storing;
        2 * events >= u64::from(self.config.window_events) || 2 * bytes.0 >= self.config.window.0
    }

    /// Returns the current counters.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.books.clone();
        let repeats = self.lanes.iter().map(|lane| lane.channel.repeats()).sum::<u64>();
        books.count(Counter::RepeatedMessages, repeats + self.manager.repeats());
        books
    }

    /// Passes the current counters to `line`, as the lines of a report, without allocation. Counts that are 0 may be absent.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.books.each_counter(line);
        let repeats = self.lanes.iter().map(|lane| lane.channel.repeats()).sum::<u64>();
        line(Counter::RepeatedMessages.count(repeats + self.manager.repeats()));
    }

    /// Handles a message.
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        if header.run != self.me.run {
            self.books.count(Counter::StaleMessages, 1);
            return;
        }
        let index = usize::from(header.sender.index);
        match header.sender.role {
            Role::Manager => {
                match self.manager.handle(now, &self.me, &header, message.body) {
                    Received::Stale => self.books.count(Counter::StaleMessages, 1),
                    Received::PeerRestarted { .. } => self.events.push_back(OutputEvent::ManagerRestarted),
                    Received::Taken | Received::Duplicate | Received::BeyondWindow => {}
                }
                while let Some(body) = self.manager.poll_deliver() {
                    self.handle_manager(body);
                }
            }
            Role::Builder if index < self.lanes.len() => {
                let lane = &mut self.lanes[index];
                let before = lane.channel.peer_session();
                if lane.channel.handle(now, &self.me, &header, message.body) == Received::Stale {
                    self.books.count(Counter::StaleMessages, 1);
                }
                if lane.channel.peer_session() != before {
                    lane.begin();
                }
                while let Some(body) = self.lanes[index].channel.poll_deliver() {
                    match body {
                        Body::Delivery(delivery) => self.handle_delivery(index, delivery),
                        _ => self.books.count(Counter::UnexpectedMessages, 1),
                    }
                }
            }
            Role::Builder | Role::Readout | Role::Output | Role::Mirror => {
                self.books.count(Counter::UnexpectedMessages, 1)
            }
        }
    }

    fn handle_manager(&mut self, body: Body<P>) {
        match body {
            Body::Command(Command::Start | Command::Join { .. }) => {
                self.events.push_back(OutputEvent::Started)
            }
            Body::Command(command @ (Command::Close | Command::HandOver { .. })) => {
                self.hands_over |= matches!(command, Command::HandOver { .. });
                if !std::mem::replace(&mut self.closed, true) {
                    self.manager.push(Body::Report(self.books().to_counts()));
                    self.events.push_back(OutputEvent::Closed);
                }
            }
            Body::Record(record) => self.events.push_back(OutputEvent::Record(record)),
            _ => self.books.count(Counter::UnexpectedMessages, 1),
        }
    }

    fn handle_delivery(&mut self, index: usize, delivery: Delivery<P>) {
        let lane = &mut self.lanes[index];
        let Some(session) = lane.channel.peer_session() else { return };
        let (mut fragments, mut missing) = (delivery.fragments.into_iter(), delivery.missing.into_iter());
        for entry in delivery.entries {
            let own_fragments = fragments.by_ref().take(entry.fragments as usize);
            let (more, own_missing) = (entry.more, entry.missing as usize);
            let (mut event, verdict) = match lane.partial.take() {
                Some(begun) if begun.0.id == entry.event => begun,
                begun => {
                    // A channel neither loses nor reorders messages, and a builder sends the parts of an event one after another.
                    self.books.count(Counter::UnexpectedMessages, u64::from(begun.is_some()));
                    entry.into_event()
                }
            };
            event.fragments.extend(own_fragments);
            event.missing.extend(missing.by_ref().take(own_missing));
            if more {
                lane.partial = Some((event, verdict));
                continue;
            }
            let bytes = event.payload_bytes() + verdict.payload.len() as u64;
            let ticket = Ticket { builder: lane_index(index), session, number: lane.next, bytes };
            lane.next += 1;
            self.books.count(Counter::TakenEvents, 1);
            self.events.push_back(OutputEvent::Store(ticket, event, verdict));
        }
    }

    /// Records that an event is as durable as configured. `number` is its index among all events that the driver has written to
    /// the files of this session.
    pub fn handle_stored(&mut self, ticket: Ticket, number: u64) {
        self.end(&ticket, Some(number));
    }

    /// Records that no stream stores an event.
    pub fn handle_left_out(&mut self, ticket: Ticket) {
        self.end(&ticket, None);
    }

    /// Records whether writing to the files is currently blocked.
    pub fn handle_trouble(&mut self, behind: bool) {
        if std::mem::replace(&mut self.behind, behind) != behind {
            self.lanes.iter_mut().for_each(|lane| lane.is_news = true);
        }
    }

    /// Releases the memory of an event, and notifies its builder if that session is still alive.
    fn end(&mut self, ticket: &Ticket, place: Option<u64>) {
        self.storing.0 -= 1;
        self.storing.1 -= ByteCount(ticket.bytes);
        let lane = &mut self.lanes[usize::from(ticket.builder)];
        if lane.channel.peer_session() == Some(ticket.session) {
            lane.end(ticket, place);
        }
    }

    /// Records the state of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        if peer == NodeId::MANAGER {
            self.manager.note_link(now, link);
        }
    }

    /// Records that the node itself was stalled and has been silent for longer than this machine's time
    /// shows.
    pub fn handle_stall(&mut self, now: Timestamp) {
        self.manager_beat_at = self.manager_beat_at.min(now);
        self.lanes.iter_mut().for_each(|lane| lane.beat_at = lane.beat_at.min(now));
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let next = now + self.config.heartbeat;
        if self.manager_beat_at <= now {
            self.manager_beat_at = next;
            self.manager.acknowledge_now();
        }
        for lane in self.lanes.iter_mut().filter(|lane| lane.beat_at <= now) {
            lane.beat_at = next;
            lane.channel.acknowledge_now();
        }
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(message) = self.manager.poll_transmit(now, &self.me) {
            return Some(Transmit { to: NodeId::MANAGER, message });
        }
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let is_met = lane.channel.peer_session().is_some();
            // A message without a known session could reach a later session than the intended one.
            if is_met && lane.channel.is_open() && std::mem::take(&mut lane.is_news) {
                lane.channel.push(Body::Receipt(Receipt {
                    events: lane.done_events + u64::from(self.config.window_events),
                    bytes: ByteCount(lane.done_bytes) + self.config.window,
                    behind: self.behind,
                    entries: std::mem::take(&mut lane.entries),
                }));
            }
            if let Some(message) = lane.channel.poll_transmit(now, &self.me) {
                return Some(Transmit { to: NodeId::builder(lane_index(index)), message });
            }
        }
        None
    }

    /// Returns the next event for the driver. Skips events of builder sessions that have ended: their places
    /// would never be counted.
    pub fn poll_event(&mut self) -> Option<OutputEvent<P>> {
        while let Some(event) = self.events.pop_front() {
            if let OutputEvent::Store(ticket, ..) = &event {
                let session = self.lanes[usize::from(ticket.builder)].channel.peer_session();
                if session != Some(ticket.session) {
                    self.books.count(Counter::VoidEvents, 1);
                    continue;
                }
                self.storing.0 += 1;
                self.storing.1 += ByteCount(ticket.bytes);
            }
            return Some(event);
        }
        None
    }

    /// Returns when to call [`Self::handle_timeout`] and [`Self::poll_transmit`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        let heartbeat = (!self.closed).then_some(Deadline { at: self.manager_beat_at, why: Why::Heartbeat });
        let of_lane = |(index, lane): (usize, &Lane<P>)| {
            let why = Why::KeepAlive(NodeId::builder(lane_index(index)));
            let beat = Some(Deadline { at: lane.beat_at, why });
            Deadline::earliest(lane.channel.poll_timeout(), beat)
        };
        let lanes = self.lanes.iter().enumerate().map(of_lane);
        lanes.fold(Deadline::earliest(self.manager.poll_timeout(), heartbeat), Deadline::earliest)
    }
}

fn lane_index(index: usize) -> u16 {
    u16::try_from(index).expect("the configuration has at most 65,535 builder units")
}
