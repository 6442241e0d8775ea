//! Who the peer is, in which life, and which rails reach it.
//!
//! Each end asks on each of its rails, with a question as long as the largest datagram: an answer proves that such datagrams
//! reach the peer. Now and then a question is short, so that a path that only short ones pass is told from one that none
//! passes. Both ends know the link's key as soon as each has heard of the other's life.

use super::{Counts, Refused, Settings};
use crate::Identity;
use sheaf_wire::datagram::{GREETING_BYTES, Greeting, GreetingRefusal, Key, Life, View};
use sheaf_wire::mix::splitmix64;
use sheaf_wire::{NodeId, SessionId, Timestamp};
use std::collections::VecDeque;

/// Every so manieth question is short.
const SHORT_EVERY: u32 = 3;

/// So many answers to short questions, and none to a long one of which there are twice as many, mean that long ones do not
/// pass.
const SHORT_ANSWERS: u32 = 4;

/// No more answers wait to be sent: further questions come again.
const ANSWERS: usize = 16;

/// Result of a question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Nothing to be done.
    Nothing,
    /// The peer is in a later life than was known: what this link was is over.
    Later,
    /// The peer does not accept this node, or this node the peer.
    Refused(Refused),
    /// Datagrams of full size reach the peer by this rail.
    Proven(usize),
}

/// A question or an answer as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    /// By which rail.
    pub(super) rail: usize,
    pub(super) view: View<'a>,
    /// Size, with its padding.
    pub(super) bytes: usize,
}

/// The questions by one rail.
#[derive(Clone, Copy, Debug)]
struct Asking {
    /// When the next is due; `None` while the rail is proven.
    at: Option<Timestamp>,
    pause: sheaf_wire::Nanos,
    number: u32,
    short_answers: u32,
}

#[derive(Debug)]
pub(super) struct Meeting {
    me: Identity,
    peer: NodeId,
    settings: Settings,
    life: u32,
    /// The latest life of the peer that was heard of.
    peer_life: Option<Life>,
    /// Greeting of the peer.
    greeting: Option<Greeting>,
    asking: Vec<Asking>,
    /// No question is asked before this, however long it has been due.
    not_before: Timestamp,
    answers: VecDeque<(usize, u32, Greeting)>,
}

impl Meeting {
    pub(super) fn new(me: Identity, peer: NodeId, settings: &Settings, now: Timestamp) -> Self {
        let asking = Asking { at: Some(now), pause: settings.ask_min, number: 0, short_answers: 0 };
        Self {
            me,
            peer,
            settings: *settings,
            life: 1,
            peer_life: None,
            greeting: None,
            asking: vec![asking; settings.rails],
            not_before: Timestamp::ZERO,
            answers: VecDeque::new(),
        }
    }

    fn own_life(&self) -> Life {
        Life { session: self.me.session, count: self.life }
    }

    /// Returns the peer's greeting.
    pub(super) fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref()
    }

    /// The key of the present life, once the peer's is known.
    pub(super) fn key(&self) -> Option<Key> {
        let greeting = self.greeting.as_ref()?;
        let mut ends = [(self.me.node, self.own_life()), (self.peer, greeting.life)];
        ends.sort_by_key(|(node, _)| node.to_code());
        let mut key = u64::from(self.me.run.0);
        for (node, life) in ends {
            for word in [u64::from(node.to_code()), life.session.0, u64::from(life.count)] {
                key = splitmix64(key ^ word);
            }
        }
        // The open key is that of questions.
        Some(Key(key.max(1)))
    }

    /// Begins a new life: all rails ask anew, and the peer must be heard of anew. Which lives of it are over stays known.
    pub(super) fn begin_anew(&mut self, now: Timestamp) {
        self.life += 1;
        self.greeting = None;
        self.answers.clear();
        for rail in 0..self.asking.len() {
            self.ask(rail, now);
        }
    }

    /// Asks by a rail from now on.
    pub(super) fn ask(&mut self, rail: usize, now: Timestamp) {
        let asking = &mut self.asking[rail];
        *asking =
            Asking { at: Some(now), pause: self.settings.ask_min, short_answers: 0, number: asking.number };
    }

    /// Asks by no rail before `at`.
    pub(super) fn ask_not_before(&mut self, at: Timestamp) {
        self.not_before = at;
    }

    /// Takes a question or an answer. `granted` is what this node grants at present; a link that `is_apart` has nothing to
    /// lose by a later life of the peer.
    pub(super) fn handle(
        &mut self,
        now: Timestamp,
        heard: &Heard<'_>,
        granted: u64,
        is_apart: bool,
        counts: &mut Counts,
    ) -> Met {
        let Heard { rail, view, bytes } = *heard;
        let Ok(greeting) = Greeting::parse(&view) else {
            counts.malformed += 1;
            return Met::Nothing;
        };
        if greeting.node != self.peer || rail >= self.asking.len() {
            counts.malformed += 1;
            return Met::Nothing;
        }
        let number = view.head().number;
        if let Some(refusal) = greeting.refusal {
            return self.handle_refusal(&greeting, refusal, counts);
        }
        if let Some(refusal) = self.objection(&greeting) {
            if greeting.to.is_none() {
                self.answer(rail, number, bytes, granted, &greeting, Some(refusal));
            }
            counts.refused += 1;
            return refused(&greeting, refusal, greeting.life.session);
        }
        if self.peer_life.is_some_and(|known| greeting.life < known) {
            counts.stale += 1;
            if greeting.to.is_none() {
                self.answer(rail, number, bytes, granted, &greeting, Some(GreetingRefusal::Stale));
            }
            return Met::Nothing;
        }
        if self.peer_life.is_some_and(|known| greeting.life > known) && !is_apart {
            return Met::Later;
        }
        self.peer_life = Some(greeting.life);
        let is_news = self.greeting.replace(greeting).is_none_or(|known| known.life != greeting.life);
        match greeting.to {
            None => {
                self.answer(rail, number, bytes, granted, &greeting, None);
                // Who asks is there to be asked; but two that ask must not hurry each other for ever.
                if is_news && self.asking[rail].at.is_some_and(|at| at > now) {
                    self.ask(rail, now);
                }
                Met::Nothing
            }
            Some(to) if to != self.own_life() => {
                counts.stale += 1;
                Met::Nothing
            }
            Some(_) => self.handle_answer(rail, &greeting, counts),
        }
    }

    fn handle_answer(&mut self, rail: usize, greeting: &Greeting, counts: &mut Counts) -> Met {
        let asking = &mut self.asking[rail];
        let size = self.settings.datagram_bytes;
        if greeting.heard_bytes as usize >= size {
            let was_asking = asking.at.take().is_some();
            asking.short_answers = 0;
            return if was_asking { Met::Proven(rail) } else { Met::Nothing };
        }
        asking.short_answers += 1;
        if asking.at.is_some() && asking.short_answers == SHORT_ANSWERS {
            counts.refused += 1;
            return Met::Refused(Refused::FullSize { rail, bytes: size });
        }
        Met::Nothing
    }

    fn handle_refusal(&self, greeting: &Greeting, refusal: GreetingRefusal, counts: &mut Counts) -> Met {
        if greeting.to != Some(self.own_life()) {
            counts.stale += 1;
            return Met::Nothing;
        }
        counts.refused += 1;
        let session = if refusal == GreetingRefusal::Stale { self.me.session } else { greeting.life.session };
        refused(greeting, refusal, session)
    }

    /// Why there is no link with whoever says this.
    fn objection(&self, greeting: &Greeting) -> Option<GreetingRefusal> {
        if greeting.run != self.me.run {
            Some(GreetingRefusal::WrongRun)
        } else if usize::from(greeting.rails) != self.settings.rails {
            Some(GreetingRefusal::WrongRails)
        } else if greeting.datagram_bytes as usize != self.settings.datagram_bytes {
            Some(GreetingRefusal::WrongDatagramBytes)
        } else {
            None
        }
    }

    fn answer(
        &mut self,
        rail: usize,
        number: u32,
        heard: usize,
        granted: u64,
        asker: &Greeting,
        refusal: Option<GreetingRefusal>,
    ) {
        if self.answers.len() < ANSWERS {
            let heard_bytes = u32::try_from(heard).unwrap_or(u32::MAX);
            let answer = Greeting { to: Some(asker.life), heard_bytes, refusal, ..self.say(granted) };
            self.answers.push_back((rail, number, answer));
        }
    }

    /// Returns the greeting of this node.
    fn say(&self, granted: u64) -> Greeting {
        Greeting {
            node: self.me.node,
            run: self.me.run,
            life: self.own_life(),
            to: None,
            datagram_bytes: self.settings.datagram_bytes as u32,
            message_bytes: u32::try_from(self.settings.message_bytes.0).unwrap_or(u32::MAX),
            flight_bytes: u32::try_from(self.settings.flight.0).unwrap_or(u32::MAX).max(1),
            granted,
            heard_bytes: 0,
            rails: self.settings.rails as u16,
            refusal: None,
        }
    }

    /// The next question or answer, in `buffer`: the rail that it is for, and its padding.
    pub(super) fn poll(
        &mut self,
        now: Timestamp,
        granted: u64,
        buffer: &mut Vec<u8>,
    ) -> Option<(usize, usize)> {
        if let Some((rail, number, answer)) = self.answers.pop_front() {
            answer.encode(buffer, number);
            return Some((rail, 0));
        }
        let is_due = |asking: &Asking| asking.at.is_some_and(|at| at.max(self.not_before) <= now);
        let rail = self.asking.iter().position(is_due)?;
        let question = self.say(granted);
        let asking = &mut self.asking[rail];
        asking.at = Some(now + asking.pause);
        asking.pause = sheaf_wire::Nanos((2 * asking.pause.0).min(self.settings.ask_max.0));
        asking.number = asking.number.wrapping_add(1);
        question.encode(buffer, asking.number);
        let is_short = asking.number.is_multiple_of(SHORT_EVERY);
        Some((rail, if is_short { 0 } else { self.settings.datagram_bytes - GREETING_BYTES }))
    }

    /// When [`Self::poll`] has something.
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let answer = self.answers.front().map(|_| Timestamp::ZERO);
        let question = self.asking.iter().filter_map(|asking| asking.at).min();
        question.map(|at| at.max(self.not_before)).into_iter().chain(answer).min()
    }
}

fn refused(greeting: &Greeting, why: GreetingRefusal, session: SessionId) -> Met {
    Met::Refused(Refused::Greeting { why, run: greeting.run, session })
}
