//! What all machines have in common.

use crate::farm::Seat;
use sheaf_wire::message::{Body, Header, Message};
use sheaf_wire::{EventId, NodeId, RunNumber, SessionId, Timestamp};
use std::fmt;

/// Who a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its role and index.
    pub node: NodeId,
    /// The run that it takes part in. Messages of other runs are refused.
    pub run: RunNumber,
    /// Its incarnation: greater than that of any earlier life of this node.
    pub session: SessionId,
}

impl Identity {
    /// A message outside any channel.
    #[must_use]
    pub fn plain<P>(&self, body: Body<P>) -> Message<P> {
        let header = Header {
            run: self.run,
            sender: self.node,
            session: self.session,
            sequence: 0,
            acknowledged: 0,
            acknowledged_session: SessionId(0),
        };
        Message { header, body }
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit<P> {
    /// The receiver.
    pub to: NodeId,
    /// What to send.
    pub message: Message<P>,
}

/// When a machine wants `handle_timeout` to be called at the latest, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The instant.
    pub at: Timestamp,
    /// The reason, for logs: an idle or stuck system explains itself.
    pub why: Why,
}

impl Deadline {
    /// The earlier of two deadlines; on a tie the first.
    #[must_use]
    pub fn earliest(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// Why a deadline was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A peer waits for an acknowledgement.
    Acknowledge(NodeId),
    /// A peer has not acknowledged a message.
    Retransmit(NodeId),
    /// The event manager is to hear that this node lives.
    Heartbeat,
    /// A batch is closed although it is not full.
    Batch,
    /// A source has not sent its fragment of a requested event.
    SourceSilent(EventId),
    /// A fragment waits for a trigger that does not come.
    Orphan(EventId),
    /// Readout units have not answered for an event.
    EventTimeout(EventId),
    /// The request for an event's fragments is repeated.
    RequestRetry(EventId),
    /// Peers are looked after: one that is silent for too long is given up.
    PeersSilent,
    /// Expected nodes have not appeared.
    Start,
    /// The time to finish the run is limited.
    Drain,
    /// Readout units are told the time, by which their slots begin.
    Tick,
    /// Something waits for its time slot, or for the line.
    Slot,
    /// A peer is not met yet by one of the rails.
    Meet(NodeId),
    /// A peer is to hear that its link is closed.
    Farewell(NodeId),
    /// A peer is to hear that this node lives.
    KeepAlive(NodeId),
    /// A peer that stays silent counts as lost.
    PeerSilent(NodeId),
    /// A processor has events and gives no verdict.
    Verdict(Seat),
    /// A processor has no events and asks for none.
    Question(Seat),
    /// Events wait, and there is no processor.
    NoProcessor,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledge(peer) => write!(f, "acknowledge {peer}"),
            Self::Retransmit(peer) => write!(f, "{peer} has not acknowledged"),
            Self::Heartbeat => f.write_str("heartbeat"),
            Self::Batch => f.write_str("close a batch"),
            Self::SourceSilent(event) => write!(f, "event {event}: a source is silent"),
            Self::Orphan(event) => write!(f, "event {event}: no trigger"),
            Self::EventTimeout(event) => write!(f, "event {event}: readout units are silent"),
            Self::RequestRetry(event) => write!(f, "event {event}: ask again"),
            Self::PeersSilent => f.write_str("see who is silent"),
            Self::Start => f.write_str("nodes are awaited"),
            Self::Slot => f.write_str("somebody may send"),
            Self::Tick => f.write_str("tell the time of the slots"),
            Self::Drain => f.write_str("the run is closing"),
            Self::Meet(peer) => write!(f, "ask for {peer}"),
            Self::Farewell(peer) => write!(f, "say farewell to {peer}"),
            Self::KeepAlive(peer) => write!(f, "tell {peer} that this node lives"),
            Self::PeerSilent(peer) => write!(f, "{peer} is silent"),
            Self::Verdict(seat) => write!(f, "processor {seat} gives no verdict"),
            Self::Question(seat) => write!(f, "processor {seat} asks for nothing"),
            Self::NoProcessor => f.write_str("there is no processor"),
        }
    }
}

/// Deadlines that were set in the order in which they end, for things that mostly settle before.
///
/// Settled entries are dropped when they come to the front, and all at once when they are more than half of the queue,
/// so that one entry that waits long does not let the queue grow behind it.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineQueue<K> {
    queue: std::collections::VecDeque<(Timestamp, K)>,
    sweep_at: usize,
}

/// A queue of fewer entries is never swept.
const SWEEP_FLOOR: usize = 64;

impl<K: Copy> DeadlineQueue<K> {
    pub(crate) fn new() -> Self {
        Self { queue: std::collections::VecDeque::new(), sweep_at: SWEEP_FLOOR }
    }

    /// Adds an entry that ends not before the ones already there. `is_live` tells entries that still matter.
    pub(crate) fn push(&mut self, at: Timestamp, key: K, is_live: impl Fn(K) -> bool) {
        debug_assert!(self.queue.back().is_none_or(|(last, _)| *last <= at), "deadlines come in order");
        if self.queue.len() >= self.sweep_at {
            self.queue.retain(|(_, key)| is_live(*key));
            self.sweep_at = SWEEP_FLOOR.max(2 * self.queue.len());
        }
        self.queue.push_back((at, key));
    }

    /// The first entry that still matters, if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Timestamp, is_live: impl Fn(K) -> bool) -> Option<K> {
        let (at, key) = self.peek(is_live)?;
        if at > now {
            return None;
        }
        self.queue.pop_front();
        Some(key)
    }

    /// The first entry that still matters.
    pub(crate) fn peek(&mut self, is_live: impl Fn(K) -> bool) -> Option<(Timestamp, K)> {
        while let Some((at, key)) = self.queue.front().copied() {
            if is_live(key) {
                return Some((at, key));
            }
            self.queue.pop_front();
        }
        None
    }
}
