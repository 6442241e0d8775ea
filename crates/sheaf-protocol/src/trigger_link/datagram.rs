//! The trigger protocol over datagrams, which can be lost, repeated and overtaken.
//!
//! | module | holds |
//! |---|---|
//! | [`door`] | [`DatagramDoor`]: the side of the event manager |
//! | [`caller`] | [`DatagramCaller`]: the side of a supervisor |
//!
//! A datagram is a head and messages. Datagrams with messages are numbered; the head also states the greatest number received from
//! the other side.
//!
//! Triggers are sent once. Numbers tell which datagrams were lost, repeated or overtaken, and so the accounts are exact: a supervisor in
//! firmware needs no memory of what it has sent. All other messages are kept and sent again, with the same number, until the head of a
//! datagram from the other side acknowledges them; until then their sender sends nothing new. So both sides see each busy signal, and
//! count the same intervals.
//!
//! This wait does not endanger triggers. While the end of a busy interval is not acknowledged, the supervisor has either not received it,
//! and sends no triggers, or its next datagram acknowledges it. So busy can be raised again as soon as triggers arrive, and those in
//! flight find the room that is reserved for them. Progress is not kept, because the next one replaces it.

pub mod caller;
pub mod door;

pub use caller::DatagramCaller;
pub use door::{DatagramDoor, DoorKey};

use crate::range_set::RangeSet;
use sheaf_wire::trigger_link::{DatagramHead, FromManager, FromSupervisor};
use sheaf_wire::{Nanos, Timestamp};

/// Pause before messages are sent again. It doubles with each repetition.
const REPEAT: Nanos = Nanos::from_millis(1);

/// Maximum of this pause.
const REPEAT_MAX: Nanos = Nanos::from_millis(50);

/// Number of separate ranges of received numbers that are remembered. Older gaps count as received.
const RANGES: usize = 4_096;

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<M> {
    /// Its head.
    pub head: DatagramHead,
    /// Its messages.
    pub messages: Vec<M>,
}

/// Message of one side.
trait Outgoing: Clone {
    /// Returns whether it is sent again until it is acknowledged.
    fn is_kept(&self) -> bool;
}

impl Outgoing for FromSupervisor {
    fn is_kept(&self) -> bool {
        !matches!(self, Self::Triggers(_))
    }
}

impl Outgoing for FromManager {
    fn is_kept(&self) -> bool {
        !matches!(self, Self::Progress { .. })
    }
}

/// Relation of a received datagram to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Novelty {
    /// It has no messages.
    Empty,
    /// Its number is above all before.
    New,
    /// It was overtaken by another.
    Overtaken,
    /// It was received before.
    Repeated,
}

/// Messages that are not acknowledged.
#[derive(Clone, Debug)]
struct Kept<M> {
    number: u64,
    messages: Vec<M>,
    repeat_at: Timestamp,
    pause: Nanos,
}

/// Numbers of one end of a connection. `M` are the messages that it sends.
#[derive(Clone, Debug)]
struct End<M> {
    link: u64,
    /// Number of the last datagram that it has sent with messages.
    number: u64,
    kept: Option<Kept<M>>,
    /// Numbers up to this one do not count: they came before the connection.
    base: u64,
    received: RangeSet,
    /// Number of datagrams received, repeats not counted.
    distinct: u64,
    /// Greatest number received.
    seen: u64,
    /// Greatest number in a head.
    announced: u64,
    owes_acknowledgement: bool,
    sent_at: Timestamp,
}

impl<M: Outgoing> End<M> {
    /// Begins a connection. `number` is the last number that it has used, `base` the last one of the other side that does not count.
    fn new(link: u64, number: u64, base: u64) -> Self {
        Self {
            link,
            number,
            kept: None,
            base,
            received: RangeSet::default(),
            distinct: 0,
            seen: base,
            announced: base,
            owes_acknowledgement: false,
            sent_at: Timestamp::ZERO,
        }
    }

    /// Takes the head of a datagram.
    fn receive(&mut self, head: &DatagramHead, has_messages: bool) -> Novelty {
        self.kept.take_if(|kept| head.seen >= kept.number);
        self.announced = self.announced.max(head.number);
        if !has_messages {
            return Novelty::Empty;
        }
        if head.number <= self.base || self.received.contains(head.number) {
            return Novelty::Repeated;
        }
        self.received.insert(head.number, head.number);
        if self.received.ranges() > RANGES {
            self.received.join_lowest();
        }
        self.distinct += 1;
        let is_new = head.number > self.seen;
        self.seen = self.seen.max(head.number);
        if is_new { Novelty::New } else { Novelty::Overtaken }
    }

    /// Returns the number of datagrams of the other side that did not arrive.
    fn lost(&self) -> u64 {
        self.announced.saturating_sub(self.base).saturating_sub(self.distinct)
    }

    fn head(&self, number: u64) -> DatagramHead {
        DatagramHead { link: self.link, number, seen: self.seen }
    }

    /// Returns a new datagram. Nothing may be kept.
    fn send(&mut self, now: Timestamp, messages: Vec<M>) -> Datagram<M> {
        debug_assert!(self.kept.is_none(), "what is not acknowledged comes first");
        self.number += 1;
        if messages.iter().any(M::is_kept) {
            let (number, messages) = (self.number, messages.clone());
            self.kept = Some(Kept { number, messages, repeat_at: now + REPEAT, pause: REPEAT });
        }
        self.note_sent(now);
        Datagram { head: self.head(self.number), messages }
    }

    /// Returns the kept messages again, if that is due.
    fn repeat(&mut self, now: Timestamp) -> Option<Datagram<M>> {
        let kept = self.kept.as_mut().filter(|kept| kept.repeat_at <= now)?;
        kept.pause = (kept.pause + kept.pause).min(REPEAT_MAX);
        kept.repeat_at = now + kept.pause;
        let (number, messages) = (kept.number, kept.messages.clone());
        self.note_sent(now);
        Some(Datagram { head: self.head(number), messages })
    }

    /// Returns a datagram without messages, which acknowledges.
    fn acknowledge(&mut self, now: Timestamp) -> Datagram<M> {
        self.note_sent(now);
        Datagram { head: self.head(self.number), messages: Vec::new() }
    }

    fn note_sent(&mut self, now: Timestamp) {
        (self.owes_acknowledgement, self.sent_at) = (false, now);
    }

    fn repeat_at(&self) -> Option<Timestamp> {
        self.kept.as_ref().map(|kept| kept.repeat_at)
    }
}

#[cfg(test)]
mod tests;
