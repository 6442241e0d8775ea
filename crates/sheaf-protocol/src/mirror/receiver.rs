//! The part of a mirror: the rounds of its readout unit, which it repeats, and when it acts for the unit.

use super::{MirrorConfig, MirrorEvent, MirrorStep};
use crate::channel::Channel;
use crate::liveness::LinkStatus;
use crate::machine::{Identity, Transmit};
use sheaf_wire::message::{Body, Message, UnitInput};
use sheaf_wire::{Nanos, NodeId, Payload, SessionId, Timestamp};
use std::collections::VecDeque;

/// A round of a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRound<P> {
    /// Its time.
    pub now: Timestamp,
    /// Time for which the unit was held up before it.
    pub stall: Nanos,
    /// Its inputs, in order.
    pub inputs: Vec<UnitInput<P>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The unit has not sent its first round.
    Waiting,
    Following,
    /// The event manager has granted that it acts: it does when it has repeated all rounds.
    Granted,
    Active,
    Retired,
}

/// The part of a mirror.
#[derive(Debug)]
pub struct MirrorReceiver<P> {
    me: Identity,
    unit: NodeId,
    config: MirrorConfig,
    standing: Standing,
    channel: Channel<P>,
    is_unit_up: Option<bool>,
    /// Session of the unit that is followed.
    session: Option<SessionId>,
    /// Rounds that have arrived as a whole, with the digest that they must lead to.
    rounds: VecDeque<(UnitRound<P>, Option<u32>)>,
    /// The round of which the end has not arrived.
    open: Option<UnitRound<P>>,
    /// Digest that the round which was given last must lead to.
    expected: Option<u32>,
    heartbeat_at: Timestamp,
    is_heartbeat_due: bool,
    /// When the event manager is asked again.
    ask_at: Option<Timestamp>,
    /// Whether the run is over for the unit.
    is_concluded: bool,
    events: VecDeque<MirrorEvent>,
}

impl<P: Payload> MirrorReceiver<P> {
    /// Creates the part of the mirror `me`.
    #[must_use]
    pub fn new(me: Identity, config: MirrorConfig, now: Timestamp) -> Self {
        let unit = NodeId::readout(me.node.index);
        Self {
            me,
            unit,
            config,
            standing: Standing::Waiting,
            channel: Channel::new(unit, config.channel),
            is_unit_up: None,
            session: None,
            rounds: VecDeque::new(),
            open: None,
            expected: None,
            heartbeat_at: now,
            is_heartbeat_due: false,
            ask_at: None,
            is_concluded: false,
            events: VecDeque::new(),
        }
    }

    /// Returns the identity of the readout unit that it follows. `None` before its first round.
    #[must_use]
    pub fn unit(&self) -> Option<Identity> {
        self.session.map(|session| Identity { node: self.unit, session, ..self.me })
    }

    /// Returns whether it acts for the readout unit.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.standing == Standing::Active
    }

    /// Returns whether the link to the unit is down.
    #[must_use]
    pub fn is_unit_gone(&self) -> bool {
        self.is_unit_up == Some(false)
    }

    /// Takes note that the run is over: it takes over no more.
    pub fn conclude(&mut self) {
        self.is_concluded = true;
        self.ask_at = None;
    }

    /// Returns the next round to repeat. The one before it was repeated, and has led to books with this digest.
    pub fn poll_round(&mut self, digest: impl FnOnce() -> u32) -> Option<UnitRound<P>> {
        if self.standing == Standing::Retired {
            return None;
        }
        if self.expected.take().is_some_and(|expected| expected != digest()) {
            self.retire(MirrorEvent::Diverged);
            return None;
        }
        let Some((round, expected)) = self.rounds.pop_front() else {
            if self.standing == Standing::Granted {
                self.standing = Standing::Active;
                self.open = None;
                self.events.push_back(MirrorEvent::TookOver);
            }
            return None;
        };
        self.expected = expected;
        Some(round)
    }

    // Messages and links.

    /// Takes a message of the unit, or a step of the event manager. Returns a message that is for the role.
    pub fn handle_message(&mut self, now: Timestamp, message: Message<P>) -> Option<Message<P>> {
        if self.standing == Standing::Retired || message.header.run != self.me.run {
            return None;
        }
        let Message { header, body } = message;
        match body {
            Body::Mirror(step) => self.heed(step),
            body if header.sender == self.unit => self.handle_unit(now, Message { header, body }),
            body => return self.is_active().then_some(Message { header, body }),
        }
        None
    }

    fn handle_unit(&mut self, now: Timestamp, message: Message<P>) {
        if !matches!(self.standing, Standing::Waiting | Standing::Following) {
            // What it takes now is not confirmed.
            return;
        }
        let Message { header, body } = message;
        if self.session.is_some_and(|session| header.session > session) {
            self.retire(MirrorEvent::StruckOff);
            return;
        }
        self.channel.handle(now, &self.me, &header, body);
        self.ask_at = None;
        let mut has_inputs = false;
        while let Some(body) = self.channel.poll_deliver() {
            if let Body::UnitInputs(inputs) = body {
                has_inputs = true;
                inputs.into_iter().for_each(|input| self.add(input));
            }
        }
        if has_inputs {
            self.channel.acknowledge_now();
            if self.session.is_none() {
                self.session = Some(header.session);
                self.standing = Standing::Following;
                self.events.push_back(MirrorEvent::Protected);
            }
        }
    }

    fn add(&mut self, input: UnitInput<P>) {
        match input {
            UnitInput::Round { now, stall } => {
                self.open = Some(UnitRound { now, stall, inputs: Vec::new() });
            }
            UnitInput::End { digest } => {
                self.rounds.extend(self.open.take().map(|round| (round, digest)));
            }
            input => {
                if let Some(round) = &mut self.open {
                    round.inputs.push(input);
                }
            }
        }
    }

    fn heed(&mut self, step: MirrorStep) {
        match step {
            MirrorStep::Granted(session)
                if self.standing == Standing::Following && self.session == Some(session) =>
            {
                self.standing = Standing::Granted;
                self.ask_at = None;
            }
            MirrorStep::StruckOff if matches!(self.standing, Standing::Waiting | Standing::Following) => {
                self.retire(MirrorEvent::StruckOff);
            }
            _ => {}
        }
    }

    fn retire(&mut self, event: MirrorEvent) {
        self.standing = Standing::Retired;
        self.ask_at = None;
        self.rounds.clear();
        self.events.push_back(event);
    }

    /// Records the state of the link to the unit.
    pub fn handle_link(&mut self, now: Timestamp, link: LinkStatus) {
        self.channel.note_link(now, link);
        self.is_unit_up = Some(link == LinkStatus::Up);
        self.watch(now);
    }

    /// Extends the time limit of the unit: this mirror was held up itself for `stall`, and what the unit has sent may be in the queue. A mirror
    /// that is often held up for a short time still finds its unit silent.
    pub fn handle_stall(&mut self, now: Timestamp, stall: Nanos) {
        self.channel.extend(now, stall);
    }

    /// Handles all timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.standing == Standing::Retired {
            return;
        }
        self.watch(now);
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + self.config.heartbeat();
            self.is_heartbeat_due = true;
        }
    }

    /// Asks the event manager to act for the unit, if the unit is gone or silent.
    fn watch(&mut self, now: Timestamp) {
        if self.standing != Standing::Following || self.is_concluded {
            return;
        }
        let silence = now.since(self.channel.liveness().quiet_since(now));
        let is_missing = self.is_unit_up == Some(false) || silence >= self.config.suspicion;
        match is_missing {
            true => self.ask_at = Some(self.ask_at.unwrap_or(now)),
            false => self.ask_at = None,
        }
    }

    // Output.

    /// Returns the next message to send, other than those of the role.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if self.standing == Standing::Retired {
            return None;
        }
        if let (Some(_), Some(session)) = (self.ask_at.filter(|at| *at <= now), self.session) {
            self.ask_at = Some(now + self.config.heartbeat());
            let message = self.me.plain(Body::Mirror(MirrorStep::TakeOver(session)));
            return Some(Transmit { to: NodeId::MANAGER, message });
        }
        if !matches!(self.standing, Standing::Waiting | Standing::Following) {
            return None;
        }
        if std::mem::take(&mut self.is_heartbeat_due) {
            self.channel.acknowledge_now();
        }
        let message = self.channel.poll_transmit(now, &self.me)?;
        Some(Transmit { to: self.unit, message })
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<MirrorEvent> {
        self.events.pop_front()
    }

    /// Returns the latest time for the next call of [`Self::handle_timeout`] and [`Self::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Waiting | Standing::Following => {
                let channel = self.channel.poll_timeout().map(|deadline| deadline.at);
                [Some(self.heartbeat_at), channel, self.ask_at].into_iter().flatten().min()
            }
            Standing::Granted | Standing::Active | Standing::Retired => None,
        }
    }
}
