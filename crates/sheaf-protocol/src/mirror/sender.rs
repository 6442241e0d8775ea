//! The part of a readout unit that has a mirror: what it sends there, and what waits for the confirmation.

use super::{MirrorConfig, MirrorEvent, MirrorStep};
use crate::channel::{Channel, Received};
use crate::liveness::LinkStatus;
use crate::machine::{Identity, Transmit};
use sheaf_wire::message::{Body, Message, UnitInput};
use sheaf_wire::{Fragment, Nanos, NodeId, Payload, Timestamp};
use std::collections::VecDeque;

/// Number of messages with inputs that may be on their way. Further inputs wait for one larger message.
const MESSAGES_ON_THE_WAY: usize = 4;

/// Number of rounds after which digests of the books are compared.
const ROUNDS_PER_DIGEST: u32 = 1_024;

/// Limit of the messages that wait, as a multiple of [`MESSAGES_ON_THE_WAY`], beyond which no fragments are taken.
const MOST_WAITING: usize = 8 * MESSAGES_ON_THE_WAY;

/// Fragments of a source that the mirror has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorFragments<P> {
    /// Place of the source among those of the unit.
    pub source: u16,
    /// Payloads of the fragments, in the order in which they were read.
    pub payloads: Vec<P>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The mirror has not appeared.
    Waiting,
    /// The mirror follows.
    Protected,
    /// The event manager is asked to strike the mirror off.
    Striking,
    /// The unit acts alone.
    Alone,
    /// The mirror has taken over.
    Superseded,
}

/// The part of a readout unit that has a mirror. `T` is what the driver sends once the mirror has its causes.
#[derive(Debug)]
pub struct MirrorSender<P, T> {
    me: Identity,
    mirror: NodeId,
    config: MirrorConfig,
    standing: Standing,
    channel: Channel<P>,
    is_mirror_up: Option<bool>,
    /// Inputs that were not sent yet, and their payload.
    batch: Vec<UnitInput<P>>,
    batch_bytes: u64,
    /// Time of the present round and the stall before it, until its first input.
    round: Option<(Timestamp, Nanos)>,
    /// Whether a round has inputs and has not ended.
    is_in_round: bool,
    /// Number of messages with inputs that were given to the channel.
    pushed: u64,
    /// Items to send, with the number of messages that the mirror must have.
    held: VecDeque<(u64, Timestamp, T)>,
    /// Fragments that were read, with the number of messages that the mirror must have. Those of the present round have none: the mirror has
    /// them when it has the whole round.
    read: VecDeque<(Option<u64>, MirrorFragments<P>)>,
    rounds: u32,
    /// Time of the last round.
    round_at: Timestamp,
    /// Whether no fragments were taken since then, because the mirror was behind.
    was_full: bool,
    /// Time for which no fragments were taken, and which the role does not know yet.
    held_up: Nanos,
    begun_at: Timestamp,
    heartbeat_at: Timestamp,
    heartbeats: VecDeque<NodeId>,
    /// Number of messages that the mirror had when it was started again: it has lost them.
    lost: Option<u64>,
    /// When the event manager is asked again.
    ask_at: Option<Timestamp>,
    events: VecDeque<MirrorEvent>,
}

impl<P: Payload, T> MirrorSender<P, T> {
    /// Creates the part of the readout unit `me`.
    #[must_use]
    pub fn new(me: Identity, config: MirrorConfig, now: Timestamp) -> Self {
        let mirror = NodeId::mirror(me.node.index);
        Self {
            me,
            mirror,
            config,
            standing: Standing::Waiting,
            channel: Channel::new(mirror, config.channel),
            is_mirror_up: None,
            batch: Vec::new(),
            batch_bytes: 0,
            round: None,
            is_in_round: false,
            pushed: 0,
            held: VecDeque::new(),
            read: VecDeque::new(),
            rounds: 0,
            round_at: now,
            was_full: false,
            held_up: Nanos::ZERO,
            begun_at: now,
            heartbeat_at: now,
            heartbeats: VecDeque::new(),
            lost: None,
            ask_at: None,
            events: VecDeque::new(),
        }
    }

    /// Returns whether everything that the mirror is to have was confirmed, or there is no mirror.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_sent = self.held.is_empty() && self.batch.is_empty() && self.channel.is_settled();
        is_sent || self.standing == Standing::Superseded
    }

    /// Returns whether the unit may take further fragments. Otherwise the mirror is behind.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.replicates() || self.channel.unsettled().count() < MOST_WAITING
    }

    /// Returns whether fragments that the role has refused may be offered again. Without another input it would refuse them again, and the
    /// mirror need not know.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        !self.replicates() || self.is_in_round
    }

    fn replicates(&self) -> bool {
        matches!(self.standing, Standing::Waiting | Standing::Protected | Standing::Striking)
    }

    /// Returns the time for which no fragments were taken because the mirror was behind: sources are not silent meanwhile. `stall` is the time
    /// for which the unit was held up otherwise before this round. While the mirror is behind, the time is returned when a time limit of
    /// the role `is_due`.
    pub fn take_hold_up(&mut self, now: Timestamp, stall: Nanos, is_due: bool) -> Nanos {
        let before = std::mem::replace(&mut self.round_at, now);
        if self.was_full {
            self.held_up = self.held_up + Nanos(now.since(before).0.saturating_sub(stall.0));
        }
        self.was_full = !self.has_room();
        if is_due || !self.was_full { std::mem::take(&mut self.held_up) } else { Nanos::ZERO }
    }

    // Inputs.

    /// Begins a round. It is sent if it has an input.
    pub fn begin_round(&mut self, now: Timestamp, stall: Nanos) {
        self.round = Some((now, stall));
        if stall > Nanos::ZERO {
            self.enter_round();
        }
    }

    /// Sends the round even if it has no input, because a time limit has passed.
    pub fn enter_round(&mut self) {
        if let Some((now, stall)) = self.round.take()
            && self.replicates()
        {
            self.is_in_round = true;
            self.batch.push(UnitInput::Round { now, stall });
        }
    }

    /// Takes an input of the role, which is made only if there is a mirror.
    pub fn take(&mut self, input: impl FnOnce() -> UnitInput<P>) {
        if self.replicates() {
            self.enter_round();
            self.batch.push(input());
        }
    }

    /// Takes fragments that were read from a source. [`Self::poll_confirmed`] returns them when the mirror has them.
    pub fn take_fragments(&mut self, source: u16, fragments: &[Fragment<P>]) {
        let mut rest = fragments;
        while !rest.is_empty() {
            let room = self.config.message_bytes.0.saturating_sub(self.batch_bytes);
            let (mut count, mut bytes) = (0, 0);
            while let Some(fragment) = rest.get(count)
                && (count == 0 || bytes + fragment.payload.len() as u64 <= room)
            {
                bytes += fragment.payload.len() as u64;
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            if self.replicates() && bytes > room && self.batch_bytes > 0 {
                self.push_batch();
                continue;
            }
            self.batch_bytes += bytes;
            self.take(|| UnitInput::Fragments { source, fragments: now.to_vec() });
            let payloads = now.iter().map(|fragment| fragment.payload.clone()).collect();
            self.read.push_back((None, MirrorFragments { source, payloads }));
            rest = later;
        }
    }

    /// Takes something to send, which waits until the mirror has what led to it.
    pub fn hold(&mut self, now: Timestamp, item: T) {
        if self.standing == Standing::Superseded {
            return;
        }
        self.enter_round();
        let after = self.after();
        self.held.push_back((after, now, item));
    }

    /// Returns the number of messages that the mirror must have for all that was taken so far.
    fn after(&self) -> u64 {
        self.pushed + u64::from(!self.batch.is_empty())
    }

    /// Ends a round. `digest` is the digest of the books of the role.
    pub fn end_round(&mut self, digest: impl FnOnce() -> u32) {
        self.round = None;
        if std::mem::take(&mut self.is_in_round) && self.replicates() {
            self.rounds += 1;
            let is_due = self.rounds >= ROUNDS_PER_DIGEST;
            if is_due {
                self.rounds = 0;
            }
            self.batch.push(UnitInput::End { digest: is_due.then(digest) });
        }
        let after = self.after();
        for (number, _) in self.read.iter_mut().rev().take_while(|(number, _)| number.is_none()) {
            *number = Some(after);
        }
        self.send_batch();
    }

    /// Sends inputs, unless enough messages are on their way: those that come meanwhile then go in one.
    fn send_batch(&mut self) {
        let on_the_way = self.channel.unsettled().count();
        let is_due = on_the_way < MESSAGES_ON_THE_WAY || self.batch_bytes >= self.config.message_bytes.0;
        if is_due && !self.is_in_round && self.lost.is_none() {
            self.push_batch();
        }
    }

    fn push_batch(&mut self) {
        if !self.batch.is_empty() {
            self.batch_bytes = 0;
            self.channel.push(Body::UnitInputs(std::mem::take(&mut self.batch)));
            self.pushed += 1;
        }
    }

    // Confirmation.

    /// Returns the number of messages with inputs that the mirror has.
    fn confirmed(&self) -> u64 {
        match (self.standing, self.lost) {
            (Standing::Alone, _) => u64::MAX,
            (Standing::Waiting, _) => 0,
            (_, Some(before)) => before,
            _ => self.pushed - self.channel.unsettled().count() as u64,
        }
    }

    /// Returns what may be sent next.
    pub fn release(&mut self) -> Option<T> {
        let may_leave = match self.standing {
            Standing::Alone => true,
            Standing::Protected | Standing::Striking => self.held.front()?.0 <= self.confirmed(),
            Standing::Waiting | Standing::Superseded => false,
        };
        if may_leave { self.held.pop_front().map(|(_, _, item)| item) } else { None }
    }

    /// Returns the next fragments that the mirror has, or that need no mirror.
    pub fn poll_confirmed(&mut self) -> Option<MirrorFragments<P>> {
        let confirmed = self.confirmed();
        let is_confirmed = |(after, _): &mut (Option<u64>, _)| after.is_some_and(|after| after <= confirmed);
        self.read.pop_front_if(is_confirmed).map(|(_, fragments)| fragments)
    }

    // Messages and links.

    /// Takes a message of the mirror, or a step of the event manager. Returns a message that is for the role.
    pub fn handle_message(&mut self, now: Timestamp, message: Message<P>) -> Option<Message<P>> {
        if message.header.run != self.me.run {
            return Some(message);
        }
        let Message { header, body } = message;
        match body {
            Body::Mirror(step) => self.heed(step),
            body if header.sender == self.mirror => self.handle_mirror(now, Message { header, body }),
            body => return (self.standing != Standing::Superseded).then_some(Message { header, body }),
        }
        None
    }

    fn handle_mirror(&mut self, now: Timestamp, message: Message<P>) {
        if !self.replicates() || self.lost.is_some() {
            return;
        }
        let Message { header, body } = message;
        let confirmed = self.confirmed();
        if let Received::PeerRestarted { .. } = self.channel.handle(now, &self.me, &header, body) {
            self.lost = Some(confirmed);
            self.strike_off(now);
            return;
        }
        while self.channel.poll_deliver().is_some() {}
        if self.standing == Standing::Waiting && self.confirmed_once() {
            self.standing = Standing::Protected;
            self.events.push_back(MirrorEvent::Protected);
        }
        self.send_batch();
        self.watch(now);
    }

    /// Returns whether the mirror has confirmed inputs.
    fn confirmed_once(&self) -> bool {
        self.pushed > self.channel.unsettled().count() as u64
    }

    fn heed(&mut self, step: MirrorStep) {
        match step {
            MirrorStep::Alone if matches!(self.standing, Standing::Waiting | Standing::Striking) => {
                self.go_alone()
            }
            MirrorStep::Superseded if self.standing != Standing::Superseded => {
                self.standing = Standing::Superseded;
                self.held.clear();
                self.batch = Vec::new();
                self.ask_at = None;
                self.events.push_back(MirrorEvent::Superseded);
            }
            _ => {}
        }
    }

    fn go_alone(&mut self) {
        self.standing = Standing::Alone;
        (self.batch, self.batch_bytes, self.is_in_round) = (Vec::new(), 0, false);
        self.ask_at = None;
        self.channel.reset();
        self.events.push_back(MirrorEvent::Unprotected);
    }

    /// Records the state of the link to the mirror.
    pub fn handle_link(&mut self, now: Timestamp, link: LinkStatus) {
        self.channel.note_link(now, link);
        self.is_mirror_up = Some(link == LinkStatus::Up);
        self.watch(now);
    }

    /// Handles all timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if !self.replicates() {
            return;
        }
        self.watch(now);
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + self.config.heartbeat();
            self.heartbeats.clear();
            self.heartbeats.extend([self.mirror, NodeId::MANAGER]);
        }
    }

    /// Asks the event manager to strike off a mirror that is gone, or too slow.
    fn watch(&mut self, now: Timestamp) {
        let is_missing = match self.standing {
            Standing::Waiting => now.since(self.begun_at) >= self.config.start,
            Standing::Protected => {
                let is_late = |(_, since, _): &(u64, Timestamp, T)| now.since(*since) >= self.config.lag;
                self.is_mirror_up == Some(false) || self.held.front().is_some_and(is_late)
            }
            Standing::Striking | Standing::Alone | Standing::Superseded => false,
        };
        if is_missing {
            self.strike_off(now);
        }
    }

    fn strike_off(&mut self, now: Timestamp) {
        self.standing = Standing::Striking;
        self.ask_at.get_or_insert(now);
    }

    // Output.

    /// Returns the next message to send at once: to the mirror, or to the event manager about it.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(at) = self.ask_at.filter(|at| *at <= now) {
            self.ask_at = Some(at.max(now) + self.config.heartbeat());
            let message = self.me.plain(Body::Mirror(MirrorStep::StrikeOff));
            return Some(Transmit { to: NodeId::MANAGER, message });
        }
        if !self.replicates() || self.lost.is_some() {
            return None;
        }
        if let Some(message) = self.channel.poll_transmit(now, &self.me) {
            return Some(Transmit { to: self.mirror, message });
        }
        let to = self.heartbeats.pop_front()?;
        if to == self.mirror {
            self.channel.acknowledge_now();
            let message = self.channel.poll_transmit(now, &self.me)?;
            return Some(Transmit { to, message });
        }
        Some(Transmit { to, message: self.me.plain(Body::Acknowledge) })
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<MirrorEvent> {
        self.events.pop_front()
    }

    /// Returns the latest time for the next call of [`Self::handle_timeout`] and [`Self::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if !self.replicates() {
            return None;
        }
        let limit = match self.standing {
            Standing::Waiting => Some(self.begun_at + self.config.start),
            Standing::Protected => self.held.front().map(|(_, since, _)| *since + self.config.lag),
            _ => None,
        };
        let channel = self.channel.poll_timeout().map(|deadline| deadline.at);
        [Some(self.heartbeat_at), limit, channel, self.ask_at].into_iter().flatten().min()
    }
}
