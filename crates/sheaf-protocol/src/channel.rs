//! The ordered, repeated channel between the event manager and one other node.
//!
//! Every control message has a number. The receiver delivers messages once and in order, and keeps a bounded number of
//! early ones. It acknowledges the highest number without a gap, in its own messages if it has any to send. The sender
//! keeps unacknowledged messages and repeats them at intervals that double, so that repetitions do not fill the link of a
//! slow peer. TCP loses nothing within a connection, and there the channel costs two numbers for each message. It is
//! needed when a connection breaks, on transports that lose frames, and under simulated faults.
//!
//! A node that restarts has a new session. Numbers count from 1 for each pair of sessions. A message for another session
//! than the receiver's is dropped and counted.

use crate::liveness::{LinkStatus, Liveness};
use crate::machine::{Deadline, Identity, Why};
use serde::{Deserialize, Serialize};
use sheaf_wire::message::{Body, Header, Message};
use sheaf_wire::{Nanos, NodeId, SessionId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of messages in flight without acknowledgement. A role that finds the channel full keeps its entries,
/// whose number is bounded by credit, for one larger message later.
pub const WINDOW: usize = 256;

/// Maximum wait before a repetition, as a multiple of [`ChannelTimes::retransmit`].
const LONGEST_WAIT: u64 = 16;

/// Number of received messages after which an acknowledgement is sent at once.
const ACKNOWLEDGE_AFTER_MESSAGES: u32 = 16;

/// Times of a channel.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ChannelTimes {
    /// Time without acknowledgement after which a message is repeated. It doubles with every repetition.
    pub retransmit: Nanos,
    /// Time after which a message is acknowledged, unless a message in the other direction does it earlier.
    pub acknowledge: Nanos,
}

/// Result of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The message was taken. [`Channel::poll_deliver`] may return messages.
    Taken,
    /// The message had been received before.
    Duplicate,
    /// The message was from or for a session that has ended.
    Stale,
    /// The message was too far ahead of a gap and was dropped. The peer will repeat it.
    BeyondWindow,
    /// The peer has a new session. The channel has been reset and the message taken.
    PeerRestarted {
        /// The session that has ended.
        old: SessionId,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
struct Sent<P> {
    sequence: u64,
    repeat_at: Timestamp,
    /// Interval from the last transmission to `repeat_at`.
    wait: Nanos,
    body: Body<P>,
}

/// One side of the channel to one peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
pub struct Channel<P> {
    peer: NodeId,
    peer_session: Option<SessionId>,
    times: ChannelTimes,
    /// Messages that have not been sent.
    queued: VecDeque<Body<P>>,
    /// Messages that have been sent and not acknowledged, in order of number.
    unacknowledged: VecDeque<Sent<P>>,
    next_sequence: u64,
    /// Highest number up to which there is no gap.
    received: u64,
    /// Messages received beyond a gap.
    early: BTreeMap<u64, Body<P>>,
    deliverable: VecDeque<Body<P>>,
    acknowledge_at: Option<Timestamp>,
    received_since_acknowledge: u32,
    liveness: Liveness,
    sent_at: Option<Timestamp>,
    repeats: u64,
    /// Whether this node has reported its books: what is repeated from then on is in none.
    has_reported: bool,
}

impl<P: Clone> Channel<P> {
    /// Creates a channel to `peer`, whose session is unknown.
    #[must_use]
    pub fn new(peer: NodeId, times: ChannelTimes) -> Self {
        Self {
            peer,
            peer_session: None,
            times,
            queued: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            next_sequence: 1,
            received: 0,
            early: BTreeMap::new(),
            deliverable: VecDeque::new(),
            acknowledge_at: None,
            received_since_acknowledge: 0,
            liveness: Liveness::default(),
            sent_at: None,
            repeats: 0,
            has_reported: false,
        }
    }

    /// Returns the peer's session, or `None` before its first message.
    #[must_use]
    pub fn peer_session(&self) -> Option<SessionId> {
        self.peer_session
    }

    /// Returns the liveness of the peer.
    #[must_use]
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Records the state of the link to the peer. After a broken link comes up again, unacknowledged messages are repeated
    /// at once.
    pub fn note_link(&mut self, now: Timestamp, link: LinkStatus) {
        if link == LinkStatus::Up && self.liveness.is_down() {
            for sent in &mut self.unacknowledged {
                (sent.repeat_at, sent.wait) = (now, self.times.retransmit);
            }
        }
        self.liveness.note_link(now, link);
    }

    /// Restarts the peer's timeouts, because this node was stalled itself and has not polled.
    pub fn excuse(&mut self, now: Timestamp) {
        self.liveness.excuse(now);
    }

    /// Extends the peer's timeouts by `stall`, the time for which this node was stalled itself. See [`Liveness::extend`].
    pub fn extend(&mut self, now: Timestamp, stall: Nanos) {
        self.liveness.extend(now, stall);
    }

    /// Returns the time of the last message to the peer.
    #[must_use]
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.sent_at
    }

    /// Returns the number of repeated messages, up to the report of this node's books.
    #[must_use]
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Returns whether the channel has room for another message.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.queued.len() + self.unacknowledged.len() < WINDOW
    }

    /// Returns whether all messages have been acknowledged.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.queued.is_empty() && self.unacknowledged.is_empty()
    }

    /// Returns whether an unacknowledged message satisfies `matches`. To a slow peer another such message would only wait
    /// behind it.
    #[must_use]
    pub fn awaits(&self, matches: impl Fn(&Body<P>) -> bool) -> bool {
        self.queued.iter().chain(self.unacknowledged.iter().map(|sent| &sent.body)).any(matches)
    }

    /// Returns the messages that have not been acknowledged.
    pub fn unsettled(&self) -> impl Iterator<Item = &Body<P>> {
        self.unacknowledged.iter().map(|sent| &sent.body).chain(&self.queued)
    }

    /// Queues a message. Callers check [`Self::is_open`] first, except for messages that occur once in a run (start,
    /// close, report).
    pub fn push(&mut self, body: Body<P>) {
        self.has_reported |= matches!(body, Body::Report(_));
        self.queued.push_back(body);
    }

    /// Resets the channel: discards unacknowledged messages, and starts the numbering of received messages
    /// anew.
    pub fn reset(&mut self) {
        let Self { peer, times, repeats, has_reported, liveness, .. } = *self;
        *self = Self { repeats, has_reported, liveness, ..Self::new(peer, times) };
    }

    /// Takes a message from the peer. `me` is the receiving machine.
    pub fn handle(&mut self, now: Timestamp, me: &Identity, header: &Header, body: Body<P>) -> Received {
        let mut outcome = Received::Taken;
        match self.peer_session {
            Some(known) if header.session < known => return Received::Stale,
            Some(known) if header.session > known => {
                self.reset();
                outcome = Received::PeerRestarted { old: known };
            }
            _ => {}
        }
        self.peer_session = Some(header.session);
        self.liveness.note_message(now);
        let for_me = header.acknowledged_session == me.session;
        if for_me {
            self.forget_acknowledged(header.acknowledged);
        }
        if matches!(body, Body::Acknowledge) && header.sequence == 0 {
            return outcome;
        }
        if !for_me && header.acknowledged_session != SessionId(0) {
            return Received::Stale;
        }
        if header.sequence == 0 {
            self.deliverable.push_back(body);
            return outcome;
        }
        match self.take_in_order(now, header.sequence, body) {
            Received::Taken => outcome,
            refused => refused,
        }
    }

    fn take_in_order(&mut self, now: Timestamp, sequence: u64, body: Body<P>) -> Received {
        let due = now + self.times.acknowledge;
        self.acknowledge_at = Some(self.acknowledge_at.map_or(due, |at| at.min(due)));
        self.received_since_acknowledge += 1;
        if self.received_since_acknowledge >= ACKNOWLEDGE_AFTER_MESSAGES {
            self.acknowledge_at = Some(now);
        }
        if sequence <= self.received || self.early.contains_key(&sequence) {
            return Received::Duplicate;
        }
        if sequence > self.received + WINDOW as u64 {
            return Received::BeyondWindow;
        }
        if sequence > self.received + 1 {
            self.early.insert(sequence, body);
            return Received::Taken;
        }
        self.received = sequence;
        self.deliverable.push_back(body);
        while let Some(body) = self.early.remove(&(self.received + 1)) {
            self.received += 1;
            self.deliverable.push_back(body);
        }
        Received::Taken
    }

    fn forget_acknowledged(&mut self, acknowledged: u64) {
        while self.unacknowledged.front().is_some_and(|sent| sent.sequence <= acknowledged) {
            self.unacknowledged.pop_front();
        }
    }

    /// Makes an acknowledgement due at once, even if no message was received.
    pub fn acknowledge_now(&mut self) {
        self.acknowledge_at = Some(Timestamp::ZERO);
    }

    /// Returns the next message from the peer, in order.
    pub fn poll_deliver(&mut self) -> Option<Body<P>> {
        self.deliverable.pop_front()
    }

    /// Returns the next message to send: a new one, a repeated one, or a bare acknowledgement that is due.
    pub fn poll_transmit(&mut self, now: Timestamp, me: &Identity) -> Option<Message<P>> {
        if let Some(body) = self.queued.pop_front() {
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let repeat_at = now + self.times.retransmit;
            let wait = self.times.retransmit;
            self.unacknowledged.push_back(Sent { sequence, repeat_at, wait, body: body.clone() });
            return Some(self.compose(now, me, sequence, body));
        }
        if let Some(sent) = self.unacknowledged.iter_mut().find(|sent| sent.repeat_at <= now) {
            sent.wait = Nanos(sent.wait.0.saturating_mul(2).min(LONGEST_WAIT * self.times.retransmit.0));
            sent.repeat_at = now + sent.wait;
            self.repeats += u64::from(!self.has_reported);
            let (sequence, body) = (sent.sequence, sent.body.clone());
            return Some(self.compose(now, me, sequence, body));
        }
        if self.acknowledge_at.is_some_and(|at| at <= now) {
            return Some(self.compose(now, me, 0, Body::Acknowledge));
        }
        None
    }

    fn compose(&mut self, now: Timestamp, me: &Identity, sequence: u64, body: Body<P>) -> Message<P> {
        self.acknowledge_at = None;
        self.received_since_acknowledge = 0;
        self.sent_at = Some(now);
        let mut message = me.plain(body);
        message.header.sequence = sequence;
        message.header.acknowledged = self.received;
        message.header.acknowledged_session = self.peer_session.unwrap_or(SessionId(0));
        message
    }

    /// Returns the time at which [`Channel::poll_transmit`] will return a message without further input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let repeat = self.unacknowledged.iter().map(|sent| sent.repeat_at).min();
        let repeat = repeat.map(|at| Deadline { at, why: Why::Retransmit(self.peer) });
        let acknowledge = self.acknowledge_at.map(|at| Deadline { at, why: Why::Acknowledge(self.peer) });
        Deadline::earliest(acknowledge, repeat)
    }
}

#[cfg(test)]
mod tests;
