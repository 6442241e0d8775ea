//! A replica of the event manager: what it sends to the other one, what it holds back, and when it takes over.
//!
//! The driver of the active replica passes each input to [`Pair::take`] before the role has it, and each message of the role to
//! [`Pair::hold`]. The driver of the standby repeats the rounds of [`Pair::poll_round`], and drops the messages of its role, except for
//! their digest.
//!
//! Whatever is to be sent comes from [`Pair::poll_transmit`], with the term.

use super::change::Change;
use super::config::StandbyConfig;
use super::proposer::{Outcome, Proposer};
use super::replay::{Digest, Replay, Round};
use crate::channel::{Channel, Received};
use crate::liveness::LinkStatus;
use crate::machine::{Identity, Transmit};
use sheaf_wire::message::{Body, Input, Managers, Message, Replica};
use sheaf_wire::{NodeId, Payload, Role, SessionId, Term, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Number of messages with inputs that may be on their way. Further inputs wait for one larger message.
const MESSAGES_ON_THE_WAY: usize = 4;

/// Number of inputs that are sent at once, even if as many messages are on their way.
const INPUTS_AT_ONCE: usize = 1_024;

/// Reason for which a replica has no more part in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// The other replica is active, in this term.
    Superseded(Term),
    /// The active replica goes on without this one, which was too slow or unreachable.
    StruckOff(Term),
    /// This standby has other messages than the active replica.
    Diverged,
    /// The active replica has ended before the voters knew the replicas.
    Unfounded,
    /// There was no majority of the voters.
    NoQuorum,
    /// It leaves the run on request.
    Left,
}

/// Event for the driver of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEvent {
    /// The voters know the active replica, which is protected by a standby or not.
    Founded {
        /// Whether there is a standby.
        protected: bool,
    },
    /// This replica takes over: it has all that the other one has acknowledged or sent.
    TookOver(Term),
    /// The standby was struck off: the run goes on without one.
    Unprotected(Term),
    /// This replica has no more part in the run.
    Retired(Retirement),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Active, and the voters do not know that yet.
    Founding,
    /// Active, and the other replica is in sync.
    Protected,
    /// Active alone.
    Alone,
    /// Standby.
    Following,
    Retired,
}

/// A replica of the event manager. See the [module documentation](super).
#[derive(Debug)]
pub struct Pair<P> {
    me: Identity,
    config: StandbyConfig,
    standing: Standing,
    term: Term,
    proposer: Proposer,
    /// Sessions of the voters that have sent messages.
    voters: BTreeMap<NodeId, SessionId>,
    /// The channel to the other replica.
    channel: Channel<P>,
    is_other_up: Option<bool>,
    /// Identity of the event manager: the session of the replica that was active at first.
    manager: Option<SessionId>,
    /// Inputs that were not sent yet.
    batch: Vec<Input<P>>,
    /// Number of messages with inputs that were given to the channel.
    pushed: u64,
    /// Messages of the role, with the number of messages with inputs that the standby must have.
    held: VecDeque<(u64, Timestamp, Transmit<P>)>,
    digest: Digest,
    buffer: Vec<u8>,
    rounds: u32,
    replay: Replay<P>,
    /// When the next signs of life are due.
    heartbeat_at: Timestamp,
    heartbeats: VecDeque<NodeId>,
    begun_at: Timestamp,
    /// Since when a majority of the voters is needed.
    asking_since: Option<Timestamp>,
    /// Time before which no voter is asked: they hear the active replica.
    quiet_until: Timestamp,
    /// Whether the run is over for this standby.
    is_concluded: bool,
    events: VecDeque<PairEvent>,
}

impl<P: Payload> Pair<P> {
    /// Creates a replica. Replica 0 is the active one at the start of the run.
    #[must_use]
    pub fn new(me: Identity, config: StandbyConfig, now: Timestamp) -> Self {
        let replica = Replica { index: me.node.index, session: me.session };
        let is_first = me.node == NodeId::MANAGER;
        Self {
            standing: if is_first { Standing::Founding } else { Standing::Following },
            term: Term(0),
            proposer: Proposer::new(replica, config.voters.clone(), config.times.votes()),
            voters: BTreeMap::new(),
            channel: Channel::new(me.node.other_replica(), config.channel),
            is_other_up: None,
            manager: is_first.then_some(me.session),
            batch: Vec::new(),
            pushed: 0,
            held: VecDeque::new(),
            digest: Digest::default(),
            buffer: Vec::new(),
            rounds: 0,
            replay: Replay::default(),
            heartbeat_at: now,
            heartbeats: VecDeque::new(),
            begun_at: now,
            asking_since: None,
            quiet_until: now,
            is_concluded: false,
            events: VecDeque::new(),
            me,
            config,
        }
    }

    /// Returns whether this replica acts as the event manager.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.standing, Standing::Founding | Standing::Protected | Standing::Alone)
    }

    /// Returns whether the voters know the replicas.
    #[must_use]
    pub fn is_founded(&self) -> bool {
        self.standing != Standing::Founding
    }

    /// Returns the session of the event manager. `None` at a standby that has heard of none.
    #[must_use]
    pub fn manager_session(&self) -> Option<SessionId> {
        self.manager
    }

    /// Returns the number of messages that wait for the standby.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    // The active replica.

    /// Takes an input of the role, which is made only if there is a standby. A round begins with [`Input::Round`].
    pub fn take(&mut self, input: impl FnOnce() -> Input<P>) {
        if self.replicates() {
            self.batch.push(input());
        }
    }

    /// Takes a message of the role, to be sent once the standby has what led to it.
    pub fn hold(&mut self, now: Timestamp, transmit: Transmit<P>) {
        if self.replicates() {
            self.digest.add(&transmit, &mut self.buffer);
        }
        let after = self.pushed + u64::from(!self.batch.is_empty());
        self.held.push_back((after, now, transmit));
    }

    /// Ends a round of the role.
    pub fn end_round(&mut self) {
        if !self.replicates() {
            return;
        }
        self.rounds += 1;
        if self.rounds >= self.config.rounds_per_digest {
            self.rounds = 0;
            self.batch.push(Input::Digest(self.digest.value()));
        }
        self.send_batch();
    }

    fn replicates(&self) -> bool {
        matches!(self.standing, Standing::Founding | Standing::Protected)
    }

    /// Sends inputs, unless enough messages are on their way: those that come meanwhile then go in one.
    fn send_batch(&mut self) {
        let on_the_way = self.channel.unsettled().count();
        let is_due = on_the_way < MESSAGES_ON_THE_WAY || self.batch.len() >= INPUTS_AT_ONCE;
        if !self.batch.is_empty() && is_due && self.channel.is_open() {
            self.channel.push(Body::Inputs(std::mem::take(&mut self.batch)));
            self.pushed += 1;
        }
    }

    /// Returns the number of messages with inputs that the standby has.
    fn acknowledged(&self) -> u64 {
        self.pushed - self.channel.unsettled().count() as u64
    }

    /// Returns a message of the role that may leave.
    fn release(&mut self) -> Option<Transmit<P>> {
        let may_leave = match self.standing {
            Standing::Alone => true,
            Standing::Protected => self.held.front()?.0 <= self.acknowledged(),
            Standing::Founding | Standing::Following | Standing::Retired => false,
        };
        let (_, _, mut transmit) = if may_leave { self.held.pop_front()? } else { return None };
        transmit.message.header.term = self.term;
        Some(transmit)
    }

    // The standby.

    /// Returns the next round to repeat. The one before it was repeated, with all messages that followed from it.
    pub fn poll_round(&mut self) -> Option<Round<P>> {
        if self.replay.has_diverged(self.digest) && self.standing == Standing::Following {
            self.retire(Retirement::Diverged);
        }
        // Also when this replica has just become active: it acts once it has repeated all that it had.
        if self.standing == Standing::Retired { None } else { self.replay.next() }
    }

    /// Leaves the run, which goes on without a standby.
    pub fn leave(&mut self) {
        self.retire(Retirement::Left);
    }

    /// Takes note that the run is over for this standby: it takes over no more.
    pub fn conclude(&mut self) {
        self.is_concluded = true;
    }

    /// Takes a message that the role of the standby has made. It is not sent: the active replica sends it.
    pub fn note_repeated(&mut self, transmit: &Transmit<P>) {
        self.digest.add(transmit, &mut self.buffer);
    }

    // Messages and links.

    /// Takes a message of the other replica, or the answer of a voter. Returns a message that is for the role.
    pub fn handle_message(
        &mut self,
        now: Timestamp,
        from: NodeId,
        message: Message<P>,
    ) -> Option<Message<P>> {
        if self.standing == Standing::Retired || message.header.run != self.me.run {
            return None;
        }
        let term = message.header.term;
        if self.is_active() && term > self.term {
            // A majority has decided: nobody else tells nodes of a higher term.
            self.retire(Retirement::Superseded(term));
            return None;
        }
        if let Body::Voted(answer) = message.body {
            self.proposer.handle_answer(now, from, message.header.session, answer);
            self.heed_outcomes(now);
            return None;
        }
        if from.role != Role::Manager {
            self.note_voter(now, from, message.header.session);
            return self.is_active().then_some(message);
        }
        self.handle_replica(now, message);
        None
    }

    /// Has the vote of a voter restored that has restarted.
    fn note_voter(&mut self, now: Timestamp, node: NodeId, session: SessionId) {
        if !self.is_active() || !self.config.voters.contains(&node) {
            return;
        }
        let before = self.voters.insert(node, session);
        if before.is_some_and(|before| before < session) && self.standing != Standing::Founding {
            self.proposer.restore(now, node, session);
        }
    }

    fn handle_replica(&mut self, now: Timestamp, message: Message<P>) {
        let Message { header, body } = message;
        if header.term < self.term && self.standing != Standing::Protected {
            // Of a replica that was succeeded: what it takes now is not acknowledged.
            return;
        }
        if self.standing == Standing::Following && header.term > self.term {
            if self.term > Term(0) || self.manager.is_none() {
                self.retire(Retirement::StruckOff(header.term));
                return;
            }
            self.term = header.term;
        }
        if let Received::PeerRestarted { .. } = self.channel.handle(now, &self.me, &header, body) {
            // It has lost what it had: it is not the replica that is in sync.
            self.is_other_up = Some(false);
        }
        let mut has_inputs = false;
        while let Some(body) = self.channel.poll_deliver() {
            if let (Body::Inputs(inputs), Standing::Following) = (body, self.standing) {
                self.manager.get_or_insert(header.session);
                self.replay.add(inputs);
                has_inputs = true;
            }
        }
        if has_inputs {
            self.channel.acknowledge_now();
        }
        self.send_batch();
    }

    /// Records the state of the link to a node, or to the other replica.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        if peer == self.me.node.other_replica() {
            self.channel.note_link(now, link);
            self.is_other_up = Some(link == LinkStatus::Up);
            self.watch(now);
        }
    }

    /// Restarts the time limits of the other replica and of the voters: this one was held up itself, and what they have sent may be in
    /// the queue.
    pub fn handle_stall(&mut self, now: Timestamp) {
        self.channel.excuse(now);
        self.asking_since = self.asking_since.map(|_| now);
    }

    // Suspicion and votes.

    /// Handles all timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.standing == Standing::Retired {
            return;
        }
        self.proposer.handle_timeout(now);
        self.heed_outcomes(now);
        self.watch(now);
        if self.heartbeat_at <= now {
            self.heartbeat_at = now + self.config.times.heartbeat();
            self.heartbeats.clear();
            self.heartbeats.push_back(self.me.node.other_replica());
            if self.is_active() {
                self.heartbeats.extend(&self.config.voters);
            }
        }
    }

    /// Asks the voters for what has become necessary.
    fn watch(&mut self, now: Timestamp) {
        match self.standing {
            Standing::Founding => self.found(now),
            _ if self.proposer.is_proposing() || now < self.quiet_until || self.is_concluded => {}
            Standing::Protected if self.is_standby_missing(now) => {
                let other = self.proposer.managers().and_then(|managers| {
                    managers.in_sync.iter().find(|replica| replica.index != self.me.node.index).copied()
                });
                if let Some(other) = other {
                    self.propose(now, Change::StrikeOff(other));
                }
            }
            Standing::Following if self.term == Term(0) && self.is_other_up != Some(false) => {}
            Standing::Following if self.manager.is_none() && self.is_other_up == Some(false) => {
                self.retire(Retirement::Unfounded);
            }
            Standing::Following if self.is_active_missing(now) => {
                self.propose(now, Change::TakeOver { handed_over: false })
            }
            _ => {}
        }
        let is_over = |since: Timestamp| now.since(since) >= self.config.times.quorum;
        if self.standing != Standing::Founding && self.asking_since.is_some_and(is_over) {
            self.retire(Retirement::NoQuorum);
        }
    }

    fn propose(&mut self, now: Timestamp, change: Change) {
        self.asking_since.get_or_insert(now);
        self.proposer.propose(now, change);
    }

    /// Has the voters note the replicas, once the standby is there or its time is over.
    fn found(&mut self, now: Timestamp) {
        // It must have the first round, and with it the session of the event manager.
        let has_begun = self.is_other_up != Some(false) && self.acknowledged() > 0;
        let standby = self.channel.peer_session().filter(|_| has_begun);
        let is_late = now.since(self.begun_at) >= self.config.times.start;
        if self.proposer.is_proposing() || (standby.is_none() && !is_late) {
            return;
        }
        let me = Replica { index: self.me.node.index, session: self.me.session };
        let standby = standby.map(|session| Replica { index: self.me.node.other_replica().index, session });
        let in_sync = std::iter::once(me).chain(standby).collect();
        self.proposer.found(now, Managers { term: Term(0), active: me, in_sync });
    }

    /// Returns whether messages have waited too long for the standby, or its link is down.
    fn is_standby_missing(&self, now: Timestamp) -> bool {
        let waits =
            |(_, since, _): &(u64, Timestamp, Transmit<P>)| now.since(*since) >= self.config.times.lag;
        self.is_other_up == Some(false) || self.held.front().is_some_and(waits)
    }

    /// Returns whether the active replica is silent, or its link is down.
    fn is_active_missing(&self, now: Timestamp) -> bool {
        let liveness = self.channel.liveness();
        let silent = now.since(liveness.quiet_since(now)) >= self.config.times.suspicion;
        self.replay.is_empty() && (self.is_other_up == Some(false) || silent)
    }

    fn heed_outcomes(&mut self, now: Timestamp) {
        while let Some(outcome) = self.proposer.poll_outcome() {
            let asking_since = self.asking_since.take();
            let is_unknown = self.standing == Standing::Following && self.term == Term(0);
            match outcome {
                // The active replica has ended, and no majority knows the replicas. So it has sent nothing.
                Outcome::NoMajority if is_unknown => self.retire(Retirement::Unfounded),
                Outcome::Decided(managers) => self.follow(now, &managers),
                Outcome::Refused { managers } => self.refused(&managers),
                // The active replica lives, and only this one does not hear it: that one strikes it off, or is heard again.
                Outcome::Heard => self.quiet_until = now + self.config.times.heartbeat(),
                // Voters may be back soon, and restored.
                Outcome::NoMajority => {
                    self.asking_since = Some(asking_since.unwrap_or(now));
                    self.quiet_until = now + self.config.times.heartbeat();
                }
                Outcome::AlreadyFounded => self.retire(Retirement::Unfounded),
                Outcome::Restored(_) => self.asking_since = asking_since,
            }
        }
    }

    /// Acts by what the voters have decided.
    fn follow(&mut self, now: Timestamp, managers: &Managers) {
        let is_protected = managers.in_sync.len() > 1;
        self.term = managers.term;
        match self.standing {
            Standing::Founding => {
                self.standing = if is_protected { Standing::Protected } else { Standing::Alone };
                self.events.push_back(PairEvent::Founded { protected: is_protected });
            }
            Standing::Protected if !is_protected => {
                self.standing = Standing::Alone;
                self.events.push_back(PairEvent::Unprotected(managers.term));
            }
            Standing::Following => {
                self.standing = Standing::Alone;
                // Whoever has nothing to acknowledge hears of the term now.
                self.heartbeats = self.config.nodes.iter().copied().collect();
                self.heartbeat_at = now + self.config.times.heartbeat();
                self.events.push_back(PairEvent::TookOver(managers.term));
            }
            Standing::Protected | Standing::Alone | Standing::Retired => {}
        }
        if self.standing == Standing::Alone {
            self.batch = Vec::new();
            self.channel.reset();
        }
    }

    fn refused(&mut self, managers: &Managers) {
        self.retire(match self.standing {
            Standing::Following => Retirement::StruckOff(managers.term),
            _ => Retirement::Superseded(managers.term),
        });
    }

    fn retire(&mut self, why: Retirement) {
        if self.standing != Standing::Retired {
            self.standing = Standing::Retired;
            self.proposer.withdraw();
            self.held.clear();
            self.batch = Vec::new();
            self.events.push_back(PairEvent::Retired(why));
        }
    }

    // Output.

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(transmit) = self.release() {
            return Some(transmit);
        }
        if self.standing == Standing::Retired {
            return None;
        }
        if let Some((to, request)) = self.proposer.poll_request() {
            return Some(self.compose(to, self.me.plain(Body::Vote(request))));
        }
        let has_other =
            matches!(self.standing, Standing::Founding | Standing::Protected | Standing::Following);
        if has_other && let Some(message) = self.channel.poll_transmit(now, &self.me) {
            return Some(self.compose(self.me.node.other_replica(), message));
        }
        while let Some(to) = self.heartbeats.pop_front() {
            if to == self.me.node.other_replica() && has_other {
                self.channel.acknowledge_now();
                if let Some(message) = self.channel.poll_transmit(now, &self.me) {
                    return Some(self.compose(to, message));
                }
            } else if let Some(manager) = self.manager.filter(|_| self.term > Term(0) && self.is_active()) {
                let identity = Identity { node: NodeId::MANAGER, session: manager, ..self.me };
                return Some(self.compose(to, identity.plain(Body::Acknowledge)));
            }
        }
        None
    }

    fn compose(&self, to: NodeId, mut message: Message<P>) -> Transmit<P> {
        message.header.term = self.term;
        Transmit { to, message }
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<PairEvent> {
        self.events.pop_front()
    }

    /// Returns the latest time for the next call of [`Self::handle_timeout`] and [`Self::poll_transmit`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.standing == Standing::Retired {
            return None;
        }
        let may_ask = self.standing == Standing::Protected && !self.proposer.is_proposing();
        let held = self.held.front().filter(|_| may_ask);
        let lag = held.map(|(_, since, _)| (*since + self.config.times.lag).max(self.quiet_until));
        let channel = self.channel.poll_timeout().map(|deadline| deadline.at);
        let times = [Some(self.heartbeat_at), lag, channel, self.proposer.poll_timeout()];
        times.into_iter().flatten().min()
    }
}
