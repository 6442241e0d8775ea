//! The side of a builder unit: distributes accepted events to the output nodes, and keeps each until it is stored.

use super::places::StoragePlace;
use crate::channel::{Channel, ChannelTimes, Received};
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::LinkStatus;
use crate::machine::{Deadline, Identity, Transmit, Why};
use sheaf_wire::message::{Body, Count, Delivered, Delivery, Message, Receipt, ReceiptEntry};
use sheaf_wire::{
    ByteCount, Event, Fragment, MissingSource, Nanos, NodeId, Payload, Role, Timestamp, Verdict,
};
use std::collections::VecDeque;

/// Configuration of a builder unit's sender to output nodes. Memory: none of its own; events belong to the builder and are
/// bounded there. Payload of events that were sent to a second output node stays in use until the first one returns, up to
/// that node's capacity.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Number of output nodes.
    pub outputs: u16,
    /// Maximum size of a message. It contains several events; a larger event takes several messages.
    pub message: ByteCount,
    /// Timeout after which the events of a silent output node are sent to others.
    pub peer_timeout: Nanos,
    /// Maximum interval between messages to an output node.
    pub heartbeat: Nanos,
    /// Times of the channels.
    pub channel: ChannelTimes,
}

/// Result of an event, which is returned to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderEvent<P> {
    /// The event is stored at this place.
    Stored(Event<P>, StoragePlace),
    /// No stream stores the event.
    LeftOut(Event<P>),
}

#[derive(Clone, Debug)]
struct Held<P> {
    event: Event<P>,
    verdict: Verdict,
    bytes: u64,
}

/// Connection to one output node.
#[derive(Debug)]
struct Lane<P> {
    channel: Channel<P>,
    /// Events sent to the current session of the output node, in the order of delivery. `None` for an event that was sent to
    /// another node, or whose place is known while that of an earlier one is not.
    out: VecDeque<Option<Held<P>>>,
    /// Number of the first of these events.
    first: u64,
    sent_bytes: u64,
    /// Number of events that the output node accepts in total.
    room_events: u64,
    room_bytes: u64,
    behind: bool,
    /// Whether the output node has exceeded the timeout for silence.
    silent: bool,
    /// Start of the silence timeout before the first message is received.
    since: Timestamp,
    beat_at: Timestamp,
}

impl<P: Payload> Lane<P> {
    fn new(node: NodeId, times: ChannelTimes, now: Timestamp) -> Self {
        Self {
            channel: Channel::new(node, times),
            out: VecDeque::new(),
            first: 0,
            sent_bytes: 0,
            room_events: 0,
            room_bytes: 0,
            behind: false,
            silent: false,
            since: now,
            beat_at: now,
        }
    }

    /// Returns the number of the next event.
    fn next(&self) -> u64 {
        self.first + self.out.len() as u64
    }

    /// Returns whether the output node is connected and not silent.
    fn is_there(&self) -> bool {
        !self.silent && self.channel.peer_session().is_some()
    }

    /// Returns the number of bytes that the output node accepts now; `None` if it accepts no event. A single event may exceed this
    /// number.
    fn room(&self) -> Option<u64> {
        let room = self.room_bytes.saturating_sub(self.sent_bytes);
        let open = self.is_there() && self.channel.is_open() && self.next() < self.room_events;
        (open && room > 0).then_some(room)
    }

    /// Removes and returns the event with this number, if it is still present.
    fn take(&mut self, number: u64) -> Result<Option<Held<P>>, NotDelivered> {
        let index = number.checked_sub(self.first).ok_or(NotDelivered)?;
        let index = usize::try_from(index).map_err(|_| NotDelivered)?;
        let held = self.out.get_mut(index).ok_or(NotDelivered)?.take();
        while self.out.front().is_some_and(Option::is_none) {
            self.out.pop_front();
            self.first += 1;
        }
        Ok(held)
    }

    fn silent_at(&self, timeout: Nanos) -> Timestamp {
        self.channel.liveness().quiet_since(self.since) + timeout
    }
}

/// Error: the number was not assigned, or its place was already reported.
struct NotDelivered;

/// See the [module](super) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct Sender<P> {
    me: Identity,
    config: SenderConfig,
    lanes: Vec<Lane<P>>,
    /// Events that have not been sent to any output node.
    queue: VecDeque<Held<P>>,
    /// Number of events held, sent or not.
    held: usize,
    events: VecDeque<SenderEvent<P>>,
    books: NodeBooks,
}

impl<P: Payload> Sender<P> {
    /// Creates a sender without any connection.
    #[must_use]
    pub fn new(me: Identity, config: SenderConfig, now: Timestamp) -> Self {
        assert!(config.outputs > 0, "{}: there is no output node", me.node);
        let lane = |index| Lane::new(NodeId::output(index), config.channel, now);
        let lanes = (0..config.outputs).map(lane).collect();
        let (queue, events) = (VecDeque::new(), VecDeque::new());
        Self { me, lanes, config, queue, held: 0, events, books: NodeBooks::default() }
    }

    /// Takes an accepted event. The driver must limit the number of events; the slots of a builder do.
    pub fn handle_event(&mut self, event: Event<P>, verdict: Verdict) {
        let bytes = event.payload_bytes() + verdict.payload.len() as u64;
        self.held += 1;
        self.queue.push_back(Held { event, verdict, bytes });
    }

    /// Returns the number of events held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns whether no output node is connected, or all connected ones report that their disks are behind.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.lanes.iter().all(|lane| !lane.is_there() || lane.behind)
    }

    /// Returns the current counters.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.books.clone();
        books.count(Counter::RepeatedMessages, self.lanes.iter().map(|lane| lane.channel.repeats()).sum());
        books
    }

    /// Passes the current counters to `line`, as the lines of a report, without allocation. Counts that are 0 may be absent.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.books.each_counter(line);
        line(Counter::RepeatedMessages.count(self.lanes.iter().map(|lane| lane.channel.repeats()).sum()));
    }

    /// Handles a message of an output node.
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        let index = usize::from(header.sender.index);
        if header.run != self.me.run {
            self.books.count(Counter::StaleMessages, 1);
            return;
        }
        if header.sender.role != Role::Output || index >= self.lanes.len() {
            self.books.count(Counter::UnexpectedMessages, 1);
            return;
        }
        let lane = &mut self.lanes[index];
        match lane.channel.handle(now, &self.me, &header, message.body) {
            Received::Stale => self.books.count(Counter::StaleMessages, 1),
            Received::PeerRestarted { .. } => self.lose(index),
            Received::Taken | Received::Duplicate | Received::BeyondWindow => {}
        }
        self.lanes[index].silent = false;
        while let Some(body) = self.lanes[index].channel.poll_deliver() {
            match body {
                Body::Receipt(receipt) => self.handle_receipt(index, &receipt),
                _ => self.books.count(Counter::UnexpectedMessages, 1),
            }
        }
        self.rescue();
    }

    /// Ends a session of an output node. Its events without a known place are sent first.
    fn lose(&mut self, index: usize) {
        let node = NodeId::output(index_u16(index));
        let lane = &mut self.lanes[index];
        let fresh = Lane::new(node, self.config.channel, lane.since);
        let old = std::mem::replace(lane, fresh);
        (lane.channel, lane.beat_at) = (old.channel, old.beat_at);
        self.send_again(old.out.into_iter().flatten().collect());
    }

    /// Puts unstored events back at the front of the queue, because they are the oldest.
    fn send_again(&mut self, held: Vec<Held<P>>) {
        self.books.count(Counter::ForwardedAgain, held.len() as u64);
        held.into_iter().rev().for_each(|held| self.queue.push_front(held));
    }

    /// Sends the events of a silent output node to others, if one is connected. Otherwise they wait for the silent one.
    fn rescue(&mut self) {
        if !self.lanes.iter().any(Lane::is_there) {
            return;
        }
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.silent {
                let held = lane.out.iter_mut().filter_map(Option::take).collect();
                self.send_again(held);
            }
        }
    }

    fn handle_receipt(&mut self, index: usize, receipt: &Receipt) {
        let lane = &mut self.lanes[index];
        (lane.room_events, lane.room_bytes, lane.behind) = (receipt.events, receipt.bytes.0, receipt.behind);
        let Some(session) = lane.channel.peer_session() else { return };
        for ReceiptEntry { first, count, place } in receipt.entries.iter().copied() {
            // Stops at the first number that was not assigned, so a false count does not cause a long loop.
            for offset in 0..u64::from(count) {
                let lane = &mut self.lanes[index];
                match lane.take(first.saturating_add(offset)) {
                    Ok(Some(Held { event, .. })) => {
                        self.held -= 1;
                        self.events.push_back(match place {
                            Some(place) => {
                                let number = place.saturating_add(offset);
                                SenderEvent::Stored(
                                    event,
                                    StoragePlace { output: index_u16(index), session, number },
                                )
                            }
                            None => SenderEvent::LeftOut(event),
                        });
                    }
                    Ok(None) => self.books.count(Counter::LateReceipts, 1),
                    Err(NotDelivered) if lane.first > first.saturating_add(offset) => {
                        self.books.count(Counter::LateReceipts, 1);
                    }
                    Err(NotDelivered) => {
                        self.books.count(Counter::UnexpectedMessages, 1);
                        break;
                    }
                }
            }
        }
    }

    /// Records the state of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        let lane = (peer.role == Role::Output).then(|| self.lanes.get_mut(usize::from(peer.index))).flatten();
        if let Some(lane) = lane {
            lane.channel.note_link(now, link);
        }
    }

    /// Records that the node itself was stalled and has been silent for longer than this machine's time
    /// shows.
    pub fn handle_stall(&mut self, now: Timestamp) {
        self.lanes.iter_mut().for_each(|lane| lane.beat_at = lane.beat_at.min(now));
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        for lane in &mut self.lanes {
            lane.silent |= lane.silent_at(self.config.peer_timeout) <= now;
            if lane.beat_at <= now {
                lane.channel.acknowledge_now();
                lane.beat_at = now + self.config.heartbeat;
            }
        }
        self.rescue();
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.share_out();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if let Some(message) = lane.channel.poll_transmit(now, &self.me) {
                return Some(Transmit { to: NodeId::output(index_u16(index)), message });
            }
        }
        None
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<SenderEvent<P>> {
        self.events.pop_front()
    }

    /// Returns when to call [`Self::handle_timeout`] and [`Self::poll_transmit`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        let timeout = self.config.peer_timeout;
        let of_lane = |(index, lane): (usize, &Lane<P>)| {
            let node = NodeId::output(index_u16(index));
            let beat = Some(Deadline { at: lane.beat_at, why: Why::KeepAlive(node) });
            let silent = Deadline { at: lane.silent_at(timeout), why: Why::PeerSilent(node) };
            let silent = (!lane.silent).then_some(silent);
            [beat, silent].into_iter().fold(lane.channel.poll_timeout(), Deadline::earliest)
        };
        self.lanes.iter().enumerate().map(of_lane).fold(None, Deadline::earliest)
    }

    /// Assigns queued events to the output node with the most room, one message at a time.
    fn share_out(&mut self) {
        while !self.queue.is_empty() {
            // The first one wins if several have equal room: the roles draw no random numbers.
            let rooms = self.lanes.iter().enumerate().filter_map(|(index, lane)| Some((lane.room()?, index)));
            let Some((_, index)) = rooms.max_by_key(|(room, index)| (*room, std::cmp::Reverse(*index)))
            else {
                return;
            };
            let lane = &mut self.lanes[index];
            let mut parcel = Packing::new(self.config.message.0);
            let mut full = false;
            while !full
                && let Some(held) = self.queue.front()
                && lane.room().is_some()
                && parcel.may_add(held)
            {
                let Some(held) = self.queue.pop_front() else { break };
                self.books.count(Counter::ForwardedEvents, 1);
                lane.sent_bytes += held.bytes;
                full = parcel.add(&held, |body| lane.channel.push(body));
                lane.out.push_back(Some(held));
            }
            parcel.end(|body| lane.channel.push(body));
        }
    }
}

/// Sizes of the entries of an event, a fragment and a missing source in a message, without payload.
const ENTRY_BYTES: u64 = 48;
const FRAGMENT_BYTES: u64 = 24;
const MISSING_BYTES: u64 = 8;

/// A message that is being filled.
struct Packing<P> {
    delivery: Delivery<P>,
    bytes: u64,
    limit: u64,
}

impl<P: Payload> Packing<P> {
    fn new(limit: u64) -> Self {
        Self { delivery: Delivery::default(), bytes: 0, limit }
    }

    /// Returns whether an event fits into this message. The first event always does.
    fn may_add(&self, held: &Held<P>) -> bool {
        self.bytes == 0 || self.bytes + held.bytes + ENTRY_BYTES <= self.limit
    }

    /// Adds an event, in as many messages as it needs. Returns whether it has filled one.
    fn add(&mut self, held: &Held<P>, mut push: impl FnMut(Body<P>)) -> bool {
        let mut filled = false;
        self.begin(Delivered::new(&held.event, &held.verdict));
        for fragment in &held.event.fragments {
            filled |= self.make_room(held, FRAGMENT_BYTES + fragment.payload.len() as u64, &mut push);
            self.add_fragment(fragment);
        }
        for missing in &held.event.missing {
            filled |= self.make_room(held, MISSING_BYTES, &mut push);
            self.add_missing(*missing);
        }
        filled
    }

    fn begin(&mut self, entry: Delivered) {
        self.bytes += ENTRY_BYTES + entry.said.len() as u64;
        self.delivery.entries.push(entry);
    }

    /// Continues in another message if this one is full.
    fn make_room(&mut self, held: &Held<P>, bytes: u64, push: &mut impl FnMut(Body<P>)) -> bool {
        self.bytes += bytes;
        let Some(entry) = self.delivery.entries.last_mut() else { return false };
        let has_part = entry.fragments > 0 || entry.missing > 0 || self.delivery.entries.len() > 1;
        if self.bytes <= self.limit || !has_part {
            return false;
        }
        if let Some(entry) = self.delivery.entries.last_mut() {
            entry.more = true;
        }
        push(Body::Delivery(std::mem::take(&mut self.delivery)));
        self.bytes = bytes;
        let verdict = Verdict::accept().with_tags(held.verdict.tags);
        self.begin(Delivered::new(&held.event, &verdict));
        true
    }

    fn add_fragment(&mut self, fragment: &Fragment<P>) {
        if let Some(entry) = self.delivery.entries.last_mut() {
            entry.fragments += 1;
            self.delivery.fragments.push(fragment.clone());
        }
    }

    fn add_missing(&mut self, missing: MissingSource) {
        if let Some(entry) = self.delivery.entries.last_mut() {
            entry.missing += 1;
            self.delivery.missing.push(missing);
        }
    }

    fn end(self, push: impl FnOnce(Body<P>)) {
        if !self.delivery.entries.is_empty() {
            push(Body::Delivery(self.delivery));
        }
    }
}

fn index_u16(index: usize) -> u16 {
    u16::try_from(index).expect("the configuration has at most 65,535 output nodes")
}
