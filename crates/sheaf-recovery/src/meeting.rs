//! Identity and session of the peer, and the rails that reach it.
//!
//! Each end sends questions on each of its rails, as long as the largest datagram: an answer proves that such datagrams
//! reach the peer. Now and then a question is short, to distinguish a path that passes only short ones from one that
//! passes none. Both ends know the link's key as soon as each knows the other's session.

use super::proving::{Ends, Proving, Worth};
use super::{Counts, Origin, Refused, Settings};
use sheaf_wire::datagram::{Credentials, Greeting, GreetingRefusal, Key, Kind, Life, Secret, Unproven, View};
use sheaf_wire::machine::Identity;
use sheaf_wire::mix::splitmix64;
use sheaf_wire::{NodeId, SessionId, Timestamp};
use std::collections::VecDeque;

/// Every so manieth question is short.
const SHORT_EVERY: u32 = 3;

/// Number of answers to short questions after which, without an answer to twice as many long ones, long datagrams are
/// known not to pass.
const SHORT_ANSWERS: u32 = 4;

/// Maximum number of answers that wait to be sent: further questions are repeated by their senders.
const ANSWERS: usize = 16;

/// Result of a question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Nothing to be done.
    Nothing,
    /// A node that may be the peer asks, and gets an answer.
    Asked,
    /// The peer is alive, and nothing is to be done.
    Alive,
    /// The peer has a later session than was known: the link of the earlier one is over.
    Later,
    /// As [`Met::Later`], but the earlier session may still be alive elsewhere.
    Rival,
    /// The peer does not accept this node, or this node the peer.
    Refused(Refused),
    /// The sender has proven nothing.
    Stranger(Refused),
    /// Datagrams of full size reach the peer by this rail.
    Proven(usize),
}

/// A question or an answer as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    /// By which rail, and whether from where the peer is.
    pub(super) origin: Origin,
    pub(super) view: View<'a>,
    /// Size, with its padding.
    pub(super) bytes: usize,
}

/// State of this end of a link when a greeting arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnState {
    /// The present grant of this node.
    pub(super) granted: u64,
    /// The link loses nothing by a later session of the peer.
    pub(super) is_apart: bool,
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
    /// The latest known session of the peer.
    peer_life: Option<Life>,
    /// Greeting of the peer.
    greeting: Option<Greeting>,
    asking: Vec<Asking>,
    /// No question is asked before this, however long it has been due.
    not_before: Timestamp,
    answers: VecDeque<Answer>,
    /// Proofs, where the run has a key.
    proving: Option<Proving>,
    /// The nonce that the peer's greeting came with.
    greeted_with: Secret,
    /// No session is later.
    latest_session: SessionId,
}

/// An answer that waits to be sent.
#[derive(Debug)]
struct Answer {
    rail: usize,
    /// To where the question came from, and not where the peer is known to be.
    is_aside: bool,
    number: u32,
    greeting: Greeting,
    /// The asker's nonce.
    echo: Option<Secret>,
}

/// A question or an answer to be sent, whose head is in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) rail: usize,
    pub(super) is_aside: bool,
    pub(super) padding: usize,
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
            proving: None,
            greeted_with: Secret::default(),
            latest_session: SessionId(u64::MAX),
        }
    }

    /// Demands from now on that the peer proves that it has the key.
    pub(super) fn authenticate(&mut self, prover: Box<dyn super::Prover>, seed: Secret) {
        self.proving = Some(Proving::new(prover, seed, self.settings.rails, self.life));
    }

    /// Refuses sessions beyond this one.
    pub(super) fn bound_sessions(&mut self, latest: SessionId) {
        self.latest_session = latest;
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
        if let Some(proving) = &self.proving {
            let [(me, life), (peer, peer_life)] = ends;
            let mut ends = [(me, life, proving.nonce()), (peer, peer_life, self.greeted_with)];
            ends.sort_by_key(|(node, ..)| node.to_code());
            return Some(Key(proving.link_key(&Ends { run: self.me.run, ends }).max(1)));
        }
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

    /// Begins a new session of the link: all rails ask anew, and the peer must identify itself anew. Ended sessions
    /// stay known.
    pub(super) fn begin_anew(&mut self, now: Timestamp) {
        self.life += 1;
        self.greeting = None;
        if let Some(proving) = &mut self.proving {
            proving.begin(self.life);
        }
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

    /// Handles a question or an answer.
    pub(super) fn handle(
        &mut self,
        now: Timestamp,
        arrived: &Arrived<'_>,
        own: OwnState,
        counts: &mut Counts,
    ) -> Met {
        let Ok(greeting) = Greeting::parse(&arrived.view) else {
            counts.malformed += 1;
            return Met::Nothing;
        };
        if greeting.node != self.peer || arrived.origin.rail >= self.asking.len() {
            counts.malformed += 1;
            return Met::Nothing;
        }
        let credentials = Credentials::parse(&arrived.view);
        let nonce = credentials.map(|it| it.nonces.nonce);
        if let Some(met) = self.unproven(arrived, &greeting, credentials.as_ref(), own.granted, counts) {
            return met;
        }
        if let (Some(proving), Some(nonce)) = (&mut self.proving, nonce) {
            let is_new = proving.note(nonce);
            if greeting.refusal == Some(GreetingRefusal::Unproven) {
                // Asked again at once, but once for each nonce.
                if is_new && self.asking[arrived.origin.rail].at.is_some() {
                    self.ask(arrived.origin.rail, now);
                }
                return Met::Nothing;
            }
        }
        self.handle_proven(now, arrived, &greeting, own, counts)
    }

    /// Takes a greeting again that was proven a moment ago, now that the link has begun anew.
    pub(super) fn handle_again(
        &mut self,
        now: Timestamp,
        arrived: &Arrived<'_>,
        granted: u64,
        counts: &mut Counts,
    ) -> Met {
        match Greeting::parse(&arrived.view) {
            Ok(greeting) => {
                let own = OwnState { granted, is_apart: true };
                self.handle_proven(now, arrived, &greeting, own, counts)
            }
            Err(_) => Met::Nothing,
        }
    }

    /// Handles senders that do not prove that they have the key now. Returns `None` if the sender has proven it, or
    /// need not.
    fn unproven(
        &mut self,
        arrived: &Arrived<'_>,
        greeting: &Greeting,
        credentials: Option<&Credentials<'_>>,
        granted: u64,
        counts: &mut Counts,
    ) -> Option<Met> {
        let (rail, head) = (arrived.origin.rail, arrived.view.head());
        let (proving, credentials) = match (&mut self.proving, credentials) {
            (None, None) => return None,
            (Some(proving), Some(credentials)) => (proving, credentials),
            (own, _) => {
                counts.refused += 1;
                counts.unproven += 1;
                // A node with a key does not answer nodes without one.
                if own.is_none() && head.kind == Kind::Question {
                    self.answer(arrived, granted, greeting, Some(GreetingRefusal::KeyOnOneSide));
                }
                return Some(stranger(greeting, GreetingRefusal::KeyOnOneSide));
            }
        };
        match proving.judge(self.me.node, rail, self.asking[rail].number, &arrived.view, credentials) {
            Worth::Fresh => None,
            Worth::Unproven => {
                self.answer(arrived, granted, greeting, Some(GreetingRefusal::Unproven));
                Some(Met::Asked)
            }
            Worth::Repeated => {
                counts.stale += 1;
                Some(Met::Nothing)
            }
            Worth::None => {
                counts.refused += 1;
                counts.unproven += 1;
                Some(stranger(greeting, GreetingRefusal::WrongKey))
            }
        }
    }

    fn handle_proven(
        &mut self,
        now: Timestamp,
        arrived: &Arrived<'_>,
        greeting: &Greeting,
        own: OwnState,
        counts: &mut Counts,
    ) -> Met {
        let OwnState { granted, is_apart } = own;
        let rail = arrived.origin.rail;
        if let Some(refusal) = greeting.refusal {
            return self.handle_refusal(greeting, refusal, counts);
        }
        if let Some(refusal) = self.objection(greeting) {
            self.answer(arrived, granted, greeting, Some(refusal));
            counts.refused += 1;
            return refused(greeting, refusal, greeting.life.session);
        }
        if self.peer_life.is_some_and(|known| greeting.life < known) {
            counts.stale += 1;
            self.answer(arrived, granted, greeting, Some(GreetingRefusal::Stale));
            return Met::Asked;
        }
        if let Some(known) = self.peer_life.filter(|known| greeting.life > *known && !is_apart) {
            let is_another = greeting.life.session != known.session && !arrived.origin.ends_earlier;
            return if is_another { Met::Rival } else { Met::Later };
        }
        self.peer_life = Some(greeting.life);
        let is_news = self.greeting.replace(*greeting).is_none_or(|known| known.life != greeting.life);
        if let Some(credentials) = Credentials::parse(&arrived.view) {
            self.greeted_with = credentials.nonces.nonce;
        }
        match greeting.to {
            None => {
                self.answer(arrived, granted, greeting, None);
                // A node that asks can be asked; but two nodes that ask must not make each other ask faster and faster.
                if is_news && self.asking[rail].at.is_some_and(|at| at > now) {
                    self.ask(rail, now);
                }
                Met::Alive
            }
            Some(to) if to != self.own_life() => {
                counts.stale += 1;
                Met::Alive
            }
            Some(_) => self.handle_answer(rail, greeting, counts),
        }
    }

    /// Tells a node that asks for the place of a live link that the link is alive.
    pub(super) fn keep_place(&mut self, arrived: &Arrived<'_>, granted: u64) -> Option<Met> {
        let greeting = Greeting::parse(&arrived.view).ok()?;
        self.answer(arrived, granted, &greeting, Some(GreetingRefusal::InUse));
        Some(refused(&greeting, GreetingRefusal::InUse, greeting.life.session))
    }

    fn handle_answer(&mut self, rail: usize, greeting: &Greeting, counts: &mut Counts) -> Met {
        let asking = &mut self.asking[rail];
        let size = self.settings.datagram_bytes;
        if greeting.question_bytes as usize >= size {
            let was_asking = asking.at.take().is_some();
            asking.short_answers = 0;
            return if was_asking { Met::Proven(rail) } else { Met::Alive };
        }
        asking.short_answers += 1;
        if asking.at.is_some() && asking.short_answers == SHORT_ANSWERS {
            counts.refused += 1;
            return Met::Refused(Refused::FullSize { rail, bytes: size });
        }
        Met::Alive
    }

    fn handle_refusal(&self, greeting: &Greeting, refusal: GreetingRefusal, counts: &mut Counts) -> Met {
        if greeting.to != Some(self.own_life()) {
            counts.stale += 1;
            return Met::Nothing;
        }
        counts.refused += 1;
        let is_own = matches!(refusal, GreetingRefusal::Stale | GreetingRefusal::Future);
        let session = if is_own { self.me.session } else { greeting.life.session };
        refused(greeting, refusal, session)
    }

    /// Returns the reason against a link with the sender of this greeting.
    fn objection(&self, greeting: &Greeting) -> Option<GreetingRefusal> {
        if greeting.run != self.me.run {
            Some(GreetingRefusal::WrongRun)
        } else if usize::from(greeting.rails) != self.settings.rails {
            Some(GreetingRefusal::WrongRails)
        } else if greeting.datagram_bytes as usize != self.settings.datagram_bytes {
            Some(GreetingRefusal::WrongDatagramBytes)
        } else if greeting.life.session > self.latest_session {
            Some(GreetingRefusal::Future)
        } else {
            None
        }
    }

    /// Answers a question; an answer needs no answer.
    fn answer(
        &mut self,
        arrived: &Arrived<'_>,
        granted: u64,
        asker: &Greeting,
        refusal: Option<GreetingRefusal>,
    ) {
        if asker.to.is_some() || self.answers.len() >= ANSWERS {
            return;
        }
        let question_bytes = u32::try_from(arrived.bytes).unwrap_or(u32::MAX);
        self.answers.push_back(Answer {
            rail: arrived.origin.rail,
            is_aside: !arrived.origin.is_home,
            number: arrived.view.head().number,
            greeting: Greeting { to: Some(asker.life), question_bytes, refusal, ..self.say(granted) },
            echo: Credentials::parse(&arrived.view).map(|it| it.nonces.nonce),
        });
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
            question_bytes: 0,
            rails: self.settings.rails as u16,
            refusal: None,
        }
    }

    /// The next question or answer, in `buffer`.
    pub(super) fn poll(&mut self, now: Timestamp, granted: u64, buffer: &mut Vec<u8>) -> Option<Said> {
        if let Some(Answer { rail, is_aside, number, greeting, echo }) = self.answers.pop_front() {
            match &self.proving {
                Some(proving) => {
                    let nonces = Unproven { nonce: proving.nonce(), echo };
                    proving.encode(&greeting, self.peer, number, &nonces, buffer);
                }
                None => greeting.encode(buffer, number),
            }
            return Some(Said { rail, is_aside, padding: 0 });
        }
        let is_due = |asking: &Asking| asking.at.is_some_and(|at| at.max(self.not_before) <= now);
        let rail = self.asking.iter().position(is_due)?;
        let question = self.say(granted);
        let asking = &mut self.asking[rail];
        asking.at = Some(now + asking.pause);
        asking.pause = sheaf_wire::Nanos((2 * asking.pause.0).min(self.settings.ask_max.0));
        asking.number = asking.number.wrapping_add(1);
        let number = asking.number;
        match &self.proving {
            Some(proving) => proving.encode(&question, self.peer, number, &proving.nonces(), buffer),
            None => question.encode(buffer, number),
        }
        let is_short = number.is_multiple_of(SHORT_EVERY);
        let padding = if is_short { 0 } else { self.settings.datagram_bytes - buffer.len() };
        Some(Said { rail, is_aside: false, padding })
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

fn stranger(greeting: &Greeting, why: GreetingRefusal) -> Met {
    Met::Stranger(Refused::Greeting { why, run: greeting.run, session: greeting.life.session })
}
