//! A link to one peer.
//!
//! The verbs of a machine, with datagrams in place of messages: [`Link::handle_datagram`], [`Link::handle_timeout`],
//! [`Link::poll_control`] and [`Link::poll_datagram`] (datagrams to be sent), [`Link::poll_event`],
//! [`Link::poll_timeout`]. After every call that changes it the driver drains the polls; datagrams of data only when it
//! is the peer's turn.

mod closing;

use super::meeting::{Arrived, Meeting, Met, OwnState};
use super::proving::Prover;
use super::receiving::{Numbered, Receiving};
use super::sending::Sending;
use super::{Control, Counts, Down, Happened, NotTaken, Origin, PartRange, Sender, Settings, Why};
use closing::{Closing, FAREWELLS, farewell};
use sheaf_wire::datagram::layout::Kind;
use sheaf_wire::datagram::{self, Greeting, Head, Key, Secret, View};
use sheaf_wire::machine::{Deadline, Identity};
use sheaf_wire::{Nanos, NodeId, SessionId, Timestamp};
use std::collections::VecDeque;

/// State of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The peer was not met in this life.
    Apart,
    Up,
    /// Up, and to be closed when all is sent.
    Closing(Closing),
    /// Closed by this side, for good.
    Over,
}

/// A link to one peer, over messages to send `M` and memory for messages that arrive `A`.
#[derive(Debug)]
pub struct Link<M, A> {
    peer: NodeId,
    settings: Settings,
    standing: Standing,
    meeting: Meeting,
    key: Option<Key>,
    /// The key of the life that the peer ended in good order.
    closed_key: Option<Key>,
    sending: Sending<M>,
    receiving: Receiving<A>,
    happened: VecDeque<Happened<A>>,
    /// A farewell to be confirmed: its rail, its key, and whether this node's own is to follow.
    confirm: Option<(usize, Key, bool)>,
    /// The rail of the peer's last datagram.
    received_on: usize,
    received_at: Timestamp,
    sent_at: Timestamp,
    looked_at: Timestamp,
    /// Time when a later session of the peer asked for the place of this one, if the peer has been silent since.
    rival_since: Option<Timestamp>,
    counts: Counts,
}

/// A datagram of data, whose head is in the driver's buffer.
#[derive(Debug)]
pub struct Departing<'a, M> {
    /// By which rail it goes.
    pub rail: usize,
    sending: &'a Sending<M>,
}

impl<M> Departing<'_, M> {
    /// Returns the content after the head: ranges of bytes by message, head and payload counted together.
    pub fn pieces(&self) -> impl Iterator<Item = (&M, std::ops::Range<usize>)> {
        self.sending.pieces()
    }
}

impl<M, A> Link<M, A> {
    /// A link of `me` to `peer`, which is not up.
    #[must_use]
    pub fn new(me: Identity, peer: NodeId, settings: &Settings, now: Timestamp) -> Self {
        Self {
            peer,
            settings: *settings,
            standing: Standing::Apart,
            meeting: Meeting::new(me, peer, settings, now),
            key: None,
            closed_key: None,
            sending: Sending::new(settings, now),
            receiving: Receiving::new(settings),
            happened: VecDeque::new(),
            confirm: None,
            received_on: 0,
            received_at: now,
            sent_at: now,
            looked_at: now,
            rival_since: None,
            counts: Counts::default(),
        }
    }

    /// Requires the peer to prove that it has the key of `prover`, and proves it to the peer. `seed` must be 32
    /// unpredictable bytes, new for each link.
    #[must_use]
    pub fn authenticated(mut self, prover: Box<dyn Prover>, seed: Secret) -> Self {
        self.meeting.authenticate(prover, seed);
        self
    }

    /// Refuses sessions of the peer beyond `latest` from now on: one of the far future would shut out the peer itself.
    pub fn bound_sessions(&mut self, latest: SessionId) {
        self.meeting.bound_sessions(latest);
    }

    /// The node at the other end.
    #[must_use]
    pub fn peer(&self) -> NodeId {
        self.peer
    }

    /// The key of the present life.
    pub(super) fn key(&self) -> Option<Key> {
        self.key
    }

    /// Returns the counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns whether messages can be sent.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    /// Returns whether the link was closed by this side and has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.standing == Standing::Over
    }

    /// Returns the number of messages that were accepted and are not yet received whole by the peer.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.sending.unfinished()
    }

    /// Takes a message of `total` bytes, of which the first `head_bytes` are its head.
    ///
    /// # Errors
    /// Why it was not taken; it is returned.
    pub fn send(
        &mut self,
        now: Timestamp,
        message: M,
        head_bytes: usize,
        total: usize,
    ) -> Result<(), (NotTaken, M)> {
        debug_assert!(head_bytes <= total, "a head is part of its message");
        if self.standing != Standing::Up {
            return Err((NotTaken::NotUp, message));
        }
        self.sending.push(message, head_bytes, total)?;
        self.sending.note_waiting(now);
        Ok(())
    }

    /// Handles a datagram. Calls `store` with the destination of its bytes in a message, and `done` with each message
    /// of this node that the peer has received. Returns the knowledge about the sender, from which the driver learns
    /// the peer's address.
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        origin: Origin,
        bytes: &[u8],
        store: impl FnMut(&mut Option<A>, PartRange),
        done: impl FnMut(M),
    ) -> Sender {
        self.look(now);
        if self.standing == Standing::Over && self.closed_key.is_none() {
            return Sender::Unknown;
        }
        let Ok(view) = View::new(bytes) else {
            self.counts.malformed += 1;
            return Sender::Unknown;
        };
        match view.head().kind {
            Kind::Question | Kind::Answer => {
                self.handle_greeting(now, &Arrived { origin, view, bytes: bytes.len() })
            }
            Kind::Data | Kind::Report | Kind::Farewell | Kind::FarewellReceived => {
                self.handle_keyed(now, origin.rail, &view, store, done);
                // Another node may have recorded it and replayed it.
                Sender::Unknown
            }
        }
    }

    fn handle_greeting(&mut self, now: Timestamp, arrived: &Arrived<'_>) -> Sender {
        if !arrived.view.is_sealed_with(Key::OPEN) {
            self.counts.damaged += 1;
            return Sender::Unknown;
        }
        if matches!(self.standing, Standing::Over) {
            return Sender::Unknown;
        }
        let own = OwnState { granted: self.receiving.granted(), is_apart: self.standing == Standing::Apart };
        let mut met = self.meeting.handle(now, arrived, own, &mut self.counts);
        if met == Met::Rival && !self.gives_way(now) {
            self.counts.refused += 1;
            let Some(refusal) = self.meeting.keep_place(arrived, own.granted) else { return Sender::Unknown };
            met = refusal;
        }
        if matches!(met, Met::Later | Met::Rival) {
            self.end_earlier(now, arrived);
            if self.standing == Standing::Over {
                return Sender::Unknown;
            }
            let granted = self.receiving.granted();
            met = self.meeting.handle_again(now, arrived, granted, &mut self.counts);
        }
        match met {
            Met::Nothing => return Sender::Unknown,
            Met::Asked => return Sender::Asks,
            Met::Refused(refused) => {
                self.happened.push_back(Happened::Refused(refused));
                return Sender::Asks;
            }
            Met::Stranger(refused) => {
                self.happened.push_back(Happened::Refused(refused));
                return Sender::Unknown;
            }
            Met::Alive | Met::Proven(_) | Met::Later | Met::Rival => {}
        }
        if let Some(greeting) = self.meeting.greeting() {
            self.sending.greeted(greeting);
            self.key = self.meeting.key();
            self.received_at = now;
        }
        if let Met::Proven(rail) = met {
            self.counts.rails_up += u64::from(self.standing != Standing::Apart);
            self.sending.rails[rail].prove(now);
            self.meet(now);
        }
        Sender::IsPeer
    }

    /// Ends this life of the link: the peer lives anew.
    fn end_earlier(&mut self, now: Timestamp, arrived: &Arrived<'_>) {
        let known = self.meeting.greeting().map(|greeting| greeting.life.session);
        let session = Greeting::parse(&arrived.view).map(|greeting| greeting.life.session);
        let is_newer = known.zip(session.ok()).is_some_and(|(known, session)| session > known);
        self.go_down(
            now,
            match is_newer {
                // It has received the farewell: only the confirmation was lost.
                _ if self.is_settled() => Down::Closed,
                true => Down::Replaced,
                false => Down::Lost,
            },
        );
    }

    /// Returns whether the link is being closed and has nothing left to lose.
    fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Closing(_)) && self.sending.unfinished() == 0
    }

    /// Returns whether the peer's session of this link is proven dead: another session has asked for its place, it was
    /// asked for a sign of life since, and gave none for [`Settings::rival`]. Asking begins the proof.
    fn gives_way(&mut self, now: Timestamp) -> bool {
        if self.is_settled() {
            return true;
        }
        match self.rival_since {
            Some(since) if self.received_at <= since && now.since(since) >= self.settings.rival => true,
            Some(since) if self.received_at <= since => {
                self.sending.ping();
                false
            }
            _ => {
                self.rival_since = Some(now);
                self.sending.ping();
                false
            }
        }
    }

    /// Handles the connection of the peer.
    fn meet(&mut self, now: Timestamp) {
        if self.standing == Standing::Apart {
            self.standing = Standing::Up;
            self.received_at = now;
            self.counts.links_up += 1;
            self.happened.push_back(Happened::Up);
        }
    }

    fn handle_keyed(
        &mut self,
        now: Timestamp,
        rail: usize,
        view: &View<'_>,
        store: impl FnMut(&mut Option<A>, PartRange),
        done: impl FnMut(M),
    ) {
        let Some(key) = self.key.filter(|key| view.belongs_to(*key)) else {
            self.handle_stranger(rail, view);
            return;
        };
        if !view.is_sealed_with(key) {
            self.counts.damaged += 1;
            return;
        }
        self.received_at = now;
        self.received_on = rail.min(self.settings.rails - 1);
        if let Standing::Closing(closing) = &mut self.standing {
            closing.unanswered = 0;
        }
        self.meet(now);
        let is_possible = match view.head().kind {
            Kind::Data => self.handle_data(now, rail, view, store),
            Kind::Report => self.handle_report(now, view, done),
            Kind::Farewell => {
                self.handle_farewell(now, rail, key);
                true
            }
            Kind::FarewellReceived => {
                if let Standing::Closing(closing) = &mut self.standing {
                    closing.is_confirmed = true;
                    closing.is_answered |= view.head().number == 0;
                }
                true
            }
            Kind::Question | Kind::Answer => false,
        };
        self.counts.malformed += u64::from(!is_possible);
        self.go_on_closing(now);
    }

    /// A datagram that is not of this life. Of the last one, a farewell is confirmed again: the confirmation was lost.
    fn handle_stranger(&mut self, rail: usize, view: &View<'_>) {
        let last = self.closed_key.filter(|key| view.is_sealed_with(*key));
        match last {
            Some(key) if view.head().kind == Kind::Farewell => {
                self.confirm = Some((rail.min(self.settings.rails - 1), key, false));
            }
            _ => self.counts.stale += 1,
        }
    }

    fn handle_data(
        &mut self,
        now: Timestamp,
        rail: usize,
        view: &View<'_>,
        store: impl FnMut(&mut Option<A>, PartRange),
    ) -> bool {
        let Ok(parts) = view.parts() else { return false };
        let happened = &mut self.happened;
        let whole = |arrived| happened.push_back(Happened::Message(arrived));
        let Head { number, behind, .. } = view.head();
        let datagram = Numbered { rail, number, behind, parts };
        self.receiving.handle_data(now, datagram, &mut self.counts, store, whole)
    }

    fn handle_report(&mut self, now: Timestamp, view: &View<'_>, done: impl FnMut(M)) -> bool {
        let Ok(report) = view.report() else { return false };
        self.counts.reports_received += 1;
        let is_possible = self.sending.handle_report(now, &report, &mut self.counts, done);
        self.sending.note_waiting(now);
        is_possible
    }

    /// Withholds grants for further messages until this is called, because the driver has no memory for more than it
    /// took.
    pub fn grant(&mut self, now: Timestamp) {
        self.receiving.open(now);
    }

    /// Returns whether some of the messages that the driver took are not granted anew.
    #[must_use]
    pub fn is_withholding(&self) -> bool {
        self.receiving.is_withholding()
    }

    /// Records the time of this call. After a pause of its own, a node knows nothing about its peer's silence.
    fn look(&mut self, now: Timestamp) {
        if now.since(self.looked_at) > Nanos(self.settings.dead_peer.0 / 2) {
            self.received_at = self.received_at.max(now);
        }
        self.looked_at = now;
    }

    /// Runs the due timers. To be called after received datagrams were handled.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.look(now);
        if matches!(self.standing, Standing::Apart | Standing::Over) {
            return;
        }
        if now.since(self.received_at) >= self.settings.dead_peer {
            self.go_down(now, Down::Lost);
            return;
        }
        for rail in self.sending.handle_timeout(now, &mut self.counts) {
            self.meeting.ask(rail, now);
        }
        if self.ask_silent_at().is_some_and(|at| at <= now) {
            self.sending.ping();
        }
        if now.since(self.sent_at) >= self.keep_alive() {
            self.receiving.report_within(now, Nanos::ZERO);
        }
        if let Standing::Closing(closing) = &mut self.standing
            && !closing.is_confirmed
            && closing.unanswered >= FAREWELLS
            && closing.next_at.is_some_and(|at| at <= now)
        {
            closing.is_confirmed = true;
            closing.is_answered = true;
        }
        self.go_on_closing(now);
    }

    /// Returns the time of silence after which a sign of life is sent to the peer.
    fn keep_alive(&self) -> Nanos {
        Nanos(self.settings.dead_peer.0 / 8)
    }

    /// Returns the time at which a silent peer is asked for a sign of life. The question is a datagram of data, and so is
    /// repeated until it is answered: of the few signs of life of an idle link, all may be lost by chance.
    fn ask_silent_at(&self) -> Option<Timestamp> {
        let silence = Nanos(2 * self.keep_alive().0);
        self.sending.may_ping().then(|| self.received_at + silence)
    }

    /// Sets the earliest time of the next question to the peer. A question is as long as the largest datagram, and many
    /// links may share a line. Everything else is sent at once.
    pub fn ask_not_before(&mut self, at: Timestamp) {
        self.meeting.ask_not_before(at);
    }

    /// The next datagram without message bytes: its head in `buffer`.
    pub fn poll_control(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<Control> {
        buffer.clear();
        if let Some((rail, key, number)) = self.confirm.take() {
            return Some(farewell(buffer, Kind::FarewellReceived, rail, key, number));
        }
        if self.standing == Standing::Over {
            return None;
        }
        if let Some(said) = self.meeting.poll(now, self.receiving.granted(), buffer) {
            return Some(Control { rail: said.rail, is_aside: said.is_aside, padding: said.padding });
        }
        let key = self.key.filter(|_| self.standing != Standing::Apart)?;
        self.report(now, key, buffer).or_else(|| self.farewell(now, key, buffer)).inspect(|_| {
            self.sent_at = now;
        })
    }

    fn report(&mut self, now: Timestamp, key: Key, buffer: &mut Vec<u8>) -> Option<Control> {
        self.receiving.report_at().filter(|at| *at <= now)?;
        let report = self.receiving.report(now);
        let rail = self.received_on;
        let head = Head { kind: Kind::Report, number: 0, behind: 0 };
        datagram::begin(buffer, key, head);
        report.append(buffer);
        datagram::seal(buffer, key);
        self.counts.reports_sent += 1;
        Some(Control { rail, is_aside: false, padding: 0 })
    }

    /// Returns the number of bytes that could leave now, and whether they may: the peer's window and flight are not
    /// used up.
    #[must_use]
    pub fn waiting(&self) -> (u64, bool) {
        if matches!(self.standing, Standing::Apart | Standing::Over) {
            return (0, true);
        }
        let ping = u64::from(self.sending.has_ping());
        (self.sending.waiting() + ping, ping > 0 || self.sending.may_send())
    }

    /// The next datagram of data: its head in `buffer`. For when it is the peer's turn.
    pub fn poll_datagram(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<Departing<'_, M>> {
        self.poll_datagram_within(now, usize::MAX, buffer)
    }

    /// As [`Self::poll_datagram`], limited to `most` bytes, but at least 256.
    pub fn poll_datagram_within(
        &mut self,
        now: Timestamp,
        most: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Departing<'_, M>> {
        let key = self.key.filter(|_| !matches!(self.standing, Standing::Apart | Standing::Over))?;
        let rail = self.sending.cut(now, key, most, buffer, &mut self.counts)?;
        self.sent_at = now;
        Some(Departing { rail, sending: &self.sending })
    }

    /// Returns the next event, in order. A returned message counts as taken.
    pub fn poll_event(&mut self) -> Option<Happened<A>> {
        let happened = self.happened.pop_front()?;
        if let Happened::Message(arrived) = &happened {
            self.receiving.taken(arrived.bytes);
        }
        Some(happened)
    }

    /// When [`Self::handle_timeout`] or [`Self::poll_control`] has something to do, if nothing arrives before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline<Why>> {
        if self.standing == Standing::Over {
            return None;
        }
        let at = |at: Option<Timestamp>, why| at.map(|at| Deadline { at, why });
        let meet = at(self.meeting.poll_timeout(), Why::Meet);
        if self.standing == Standing::Apart {
            return meet;
        }
        let closing = match &self.standing {
            Standing::Closing(closing) => closing.next_at.filter(|_| !closing.is_confirmed),
            _ => None,
        };
        let others = [
            at(self.receiving.report_at(), Why::Acknowledge),
            at(self.sending.poll_timeout(), Why::Retransmit),
            at(closing, Why::Farewell),
            at(Some(self.sent_at + self.keep_alive()), Why::KeepAlive),
            at(self.ask_silent_at(), Why::KeepAlive),
            at(Some(self.received_at + self.settings.dead_peer), Why::PeerSilent),
        ];
        others.into_iter().fold(meet, Deadline::earliest)
    }
}
