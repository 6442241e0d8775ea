//! Types that all machines share.

use crate::event_range::EventIdRange;
use serde::{Deserialize, Serialize};
pub use sheaf_wire::machine::Identity;
use sheaf_wire::message::Message;
use sheaf_wire::{EventId, NodeId, Timestamp};
use std::fmt;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
pub struct Transmit<P> {
    /// Receiver.
    pub to: NodeId,
    /// Message to send.
    pub message: Message<P>,
}

/// Latest time at which a role needs a call of `handle_timeout`, with the reason.
pub type Deadline = sheaf_wire::machine::Deadline<Why>;

/// Seat of a processor at a dispatcher. A place is reused, a seat is not: each joining processor has a different `life`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Place, counted from zero.
    pub place: u16,
    /// Number of processors that had this place before.
    pub life: u32,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.life)
    }
}

/// Reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A peer waits for an acknowledgement.
    Acknowledge(NodeId),
    /// A peer has not acknowledged a message.
    Retransmit(NodeId),
    /// A heartbeat to the event manager is due, or one of the event manager to all nodes.
    Heartbeat,
    /// A batch is closed although it is not full.
    Batch,
    /// A source has not sent its fragment of a requested event.
    SourceSilent(EventId),
    /// A fragment waits for a trigger that has not arrived.
    Orphan(EventId),
    /// Readout units have not answered for an event.
    EventTimeout(EventId),
    /// The request for an event's fragments is repeated.
    RequestRetry(EventId),
    /// Peers are checked: one that is silent for too long is given up.
    PeersSilent,
    /// Expected nodes have not appeared.
    Start,
    /// The time limit for finishing the run expires.
    Drain,
    /// The time is sent to readout units, whose slots depend on it.
    Tick,
    /// A message waits for its time slot, or for the line.
    Slot,
    /// A keep-alive to a peer is due.
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
            Self::RequestRetry(event) => write!(f, "event {event}: retry the request"),
            Self::PeersSilent => f.write_str("check for silent peers"),
            Self::Start => f.write_str("waiting for nodes"),
            Self::Slot => f.write_str("time slot or line is free"),
            Self::Tick => f.write_str("send the time of the slots"),
            Self::Drain => f.write_str("the run is closing"),
            Self::KeepAlive(peer) => write!(f, "send a keep-alive to {peer}"),
            Self::PeerSilent(peer) => write!(f, "{peer} is silent"),
            Self::Verdict(seat) => write!(f, "processor {seat} gives no verdict"),
            Self::Question(seat) => write!(f, "processor {seat} requests nothing"),
            Self::NoProcessor => f.write_str("there is no processor"),
        }
    }
}

/// Minimum length of a queue that is swept.
const SWEEP_FLOOR: usize = 64;

/// Deadlines of events, added in chronological order. Events with consecutive ids and the same deadline, such as those of one
/// message, share an entry. So a deadline that never expires costs next to nothing.
///
/// `T` distinguishes several waits for an event. Events that no longer wait are skipped when they reach the front. All entries are
/// swept when their number has doubled since the last time, so that the queue does not grow behind one event that waits long.
#[derive(Clone, Debug)]
pub(crate) struct EventDeadlines<T> {
    queue: std::collections::VecDeque<Waiting<T>>,
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    at: Timestamp,
    events: EventIdRange,
    wait: T,
}

impl<T: Copy + PartialEq> Waiting<T> {
    /// Skips events that no longer wait. Returns false if none is left.
    #[inline]
    fn skip(&mut self, count_over: &impl Fn(EventIdRange, T) -> u64) -> bool {
        self.events.take(count_over(self.events, self.wait));
        !self.events.is_empty()
    }
}

impl<T: Copy + PartialEq> EventDeadlines<T> {
    pub(crate) fn new() -> Self {
        Self { queue: std::collections::VecDeque::new(), sweep_at: SWEEP_FLOOR }
    }

    /// Adds a wait for consecutive events that ends not before those already there. `count_over` returns the number of events, from the
    /// first one on, that wait no more.
    #[inline]
    pub(crate) fn push(
        &mut self,
        at: Timestamp,
        events: EventIdRange,
        wait: T,
        count_over: impl Fn(EventIdRange, T) -> u64,
    ) {
        if let Some(last) = self.queue.back_mut() {
            debug_assert!(last.at <= at, "deadlines come in order");
            if last.at == at && last.wait == wait && last.events.join(events) {
                return;
            }
        }
        if self.queue.len() >= self.sweep_at {
            self.sweep(count_over);
        }
        self.queue.push_back(Waiting { at, events, wait });
    }

    fn sweep(&mut self, count_over: impl Fn(EventIdRange, T) -> u64) {
        self.queue.retain_mut(|waiting| waiting.skip(&count_over));
        self.sweep_at = SWEEP_FLOOR.max(2 * self.queue.len());
    }

    /// The first wait that still matters, if it is over at `now`.
    #[inline]
    pub(crate) fn pop_due(
        &mut self,
        now: Timestamp,
        count_over: impl Fn(EventIdRange, T) -> u64,
    ) -> Option<(EventId, T)> {
        // Usually nothing is due, and the first wait need not be checked.
        if self.queue.front().is_none_or(|waiting| waiting.at > now) {
            return None;
        }
        let (at, event, wait) = self.peek(count_over)?;
        if at > now {
            return None;
        }
        self.queue.front_mut()?.events.take(1);
        Some((event, wait))
    }

    /// The first wait that still matters.
    #[inline]
    pub(crate) fn peek(
        &mut self,
        count_over: impl Fn(EventIdRange, T) -> u64,
    ) -> Option<(Timestamp, EventId, T)> {
        while let Some(waiting) = self.queue.front_mut() {
            if waiting.skip(&count_over) {
                return waiting.events.first().map(|event| (waiting.at, event, waiting.wait));
            }
            self.queue.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_wait_that_still_matters_ends_once_and_in_order(
            waits in prop::collection::vec((0..4_u64, 0..3_u64, 0..2_u16, any::<bool>()), 0..300),
        ) {
            let (mut at, mut event) = (0, 0);
            let mut plain = Vec::new();
            let mut live = BTreeSet::new();
            for (later, step, wait, matters) in waits {
                (at, event) = (at + later / 3, event + step);
                // One event may wait twice, for two things.
                live.extend(matters.then_some((EventId(event), wait)));
                plain.push((Timestamp(at), EventId(event), wait));
            }
            let is_live = |event, wait| live.contains(&(event, wait));
            let count_over = |events: EventIdRange, wait| {
                events.events().take_while(|event| !is_live(*event, wait)).count() as u64
            };
            let mut deadlines = EventDeadlines::new();
            for (at, event, wait) in &plain {
                deadlines.push(*at, EventIdRange::one(*event), *wait, count_over);
            }
            plain.retain(|(_, event, wait)| is_live(*event, *wait));
            for (at, event, wait) in plain {
                if at > Timestamp::ZERO {
                    prop_assert_eq!(deadlines.pop_due(Timestamp(at.0 - 1), count_over), None);
                }
                prop_assert_eq!(deadlines.peek(count_over), Some((at, event, wait)));
                prop_assert_eq!(deadlines.pop_due(at, count_over), Some((event, wait)));
            }
            prop_assert_eq!(deadlines.pop_due(Timestamp::MAX, count_over), None);
        }
    }

    #[test]
    fn one_event_that_waits_long_keeps_no_others() {
        let mut deadlines = EventDeadlines::new();
        for event in 0..100_000 {
            let event = EventId(event);
            let is_over = |event: EventId| event != EventId(0);
            let count_over =
                |events: EventIdRange, ()| events.events().take_while(|event| is_over(*event)).count() as u64;
            deadlines.push(Timestamp(event.0), EventIdRange::one(event), (), count_over);
        }
        assert!(deadlines.queue.len() <= 2 * SWEEP_FLOOR, "{}", deadlines.queue.len());
    }
}
