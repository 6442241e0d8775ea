//! A replica of the event manager: what it sends to the other one, what it holds back, and when it takes over.
//!
//! The driver of the active replica passes each input to [`Pair::take`] before the role has it, and each message of the role to
//! [`Pair::hold`]. The driver of the standby repeats the steps of [`Pair::poll_step`], and drops the messages of its role, except for
//! their digest.
//!
//! Whatever is to be sent comes from [`Pair::poll_transmit`], with the term.

mod other;
#[cfg(test)]
mod tests;
mod voters;

use super::change::Change;
use super::config::StandbyConfig;
use super::events::{PairEvent, Retirement};
use super::joining::Assembly;
use super::member::voter_of;
use super::proposer::{Outcome, Proposer};
use super::replay::{Digest, Replay, Step};
use super::standing::Standing;
use super::stream::InputStream;
use crate::liveness::LinkStatus;
use crate::machine::{Identity, Transmit};
use bytes::Bytes;
use sheaf_wire::message::{Body, Input, Managers, Message, Replica, VoterLife};
use sheaf_wire::{Nanos, NodeId, Payload, Role, SessionId, Term, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    stream: InputStream<P>,
    is_other_up: Option<bool>,
    /// Latest session of the other replica that has had its part in the run. Only a later one can join.
    spent: Option<SessionId>,
    /// Whether a replica with a spent session is to be told so.
    is_other_spent: bool,
    assembly: Assembly,
    /// Whether the standby knows that it is in sync. A higher term then means that it was struck off.
    is_admitted: bool,
    /// Nodes to which there is a link.
    up: BTreeSet<NodeId>,
    /// Identity of the event manager: the session of the replica that was active at first.
    manager: Option<SessionId>,
    /// Session of the active replica whose inputs this standby takes.
    followed: Option<SessionId>,
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
    /// Whether the active replica steps down in favour of this standby.
    is_called: bool,
    /// Whether the run is over for this standby.
    is_concluded: bool,
    /// Whether the run has begun before, so that this replica joins and does not begin it.
    only_joins: bool,
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
            stream: InputStream::new(me.node.other_replica(), config.channel),
            is_other_up: None,
            spent: None,
            is_other_spent: false,
            assembly: Assembly::default(),
            is_admitted: false,
            up: BTreeSet::new(),
            manager: is_first.then_some(me.session),
            followed: None,
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
            is_called: false,
            is_concluded: false,
            only_joins: false,
            events: VecDeque::new(),
            me,
            config,
        }
    }

    /// Makes this a replica of a run that has begun before: it joins, and retires if the other replica has no part in the run either.
    pub fn only_join(&mut self) {
        self.only_joins = true;
    }

    /// Returns whether this replica acts as the event manager.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.standing.is_active()
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

    /// Returns whether there is a link to a node.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up.contains(&node)
    }

    /// Returns whether the other replica is in sync, and the voters know that: it can take over.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.standing == Standing::Protected
    }

    /// Returns the number of messages that wait for the standby.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns when the first of these messages was made.
    #[must_use]
    pub fn held_since(&self) -> Option<Timestamp> {
        self.held.front().map(|(_, since, _)| *since)
    }

    // The active replica.

    /// Takes an input of the role, which is made only if there is a standby. A round begins with [`Input::Round`].
    pub fn take(&mut self, input: impl FnOnce() -> Input<P>) {
        if self.replicates() {
            self.stream.push(input());
        }
    }

    /// Takes a message of the role, to be sent once the standby has what led to it.
    pub fn hold(&mut self, now: Timestamp, transmit: Transmit<P>) {
        if self.replicates() {
            self.digest.add(&transmit, &mut self.buffer);
        }
        self.held.push_back((self.stream.needed(), now, transmit));
    }

    /// Ends a round of the role.
    pub fn end_round(&mut self) {
        if !self.replicates() {
            return;
        }
        self.rounds += 1;
        if self.rounds >= self.config.rounds_per_digest {
            self.rounds = 0;
            self.stream.push(Input::Digest(self.digest.value()));
        }
        self.stream.send(self.manager);
    }

    fn replicates(&self) -> bool {
        match self.standing {
            Standing::Founding | Standing::Protected | Standing::Admitting => true,
            Standing::Inviting => !self.wants_snapshot(),
            Standing::Alone | Standing::Joining | Standing::Following | Standing::Retired => false,
        }
    }

    /// Returns whether a replica is to join, for which the driver makes a snapshot between two rounds.
    #[must_use]
    pub fn wants_snapshot(&self) -> bool {
        self.stream.wants_snapshot()
    }

    /// Takes a snapshot of the state after the last round.
    pub fn give_snapshot(&mut self, now: Timestamp, snapshot: Bytes) {
        if let Some(invitation) = self.stream.invitation() {
            invitation.give(now, snapshot);
            (self.digest, self.rounds) = (Digest::default(), 0);
            self.stream.send(self.manager);
        }
    }

    /// Returns a message of the role that may leave.
    fn release(&mut self) -> Option<Transmit<P>> {
        let may_leave = match self.standing {
            Standing::Alone | Standing::Inviting => true,
            Standing::Protected | Standing::Admitting => self.held.front()?.0 <= self.stream.acknowledged(),
            Standing::Founding | Standing::Joining | Standing::Following | Standing::Retired => false,
        };
        let (_, _, mut transmit) = if may_leave { self.held.pop_front()? } else { return None };
        transmit.message.header.term = self.term;
        Some(transmit)
    }

    /// Calls the standby to take over, which it does when it has repeated all that was sent before. This replica acts until a majority has
    /// noted that. Returns whether there is a standby.
    pub fn step_down(&mut self) -> bool {
        let is_protected = self.is_protected() && !self.is_concluded;
        if is_protected {
            self.stream.push(Input::StepsDown);
            self.stream.send(self.manager);
        }
        is_protected
    }

    // The standby.

    /// Returns the next step to repeat. The one before it was repeated, with all messages that followed from it.
    pub fn poll_step(&mut self) -> Option<Step<P>> {
        if self.replay.has_diverged(self.digest) && self.standing == Standing::Following {
            self.retire(Retirement::Diverged);
        }
        // Also when this replica has just become active: it acts once it has repeated all that it had.
        let step = if self.standing == Standing::Retired { None } else { self.replay.next() };
        if let Some(Step::Snapshot(_)) = step {
            self.digest = Digest::default();
        }
        step
    }

    /// Takes note that a snapshot cannot be read.
    pub fn refuse_snapshot(&mut self) {
        self.retire(Retirement::Unreadable);
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
            if self.standing != Standing::Founding {
                self.retire(Retirement::Superseded(term));
                return None;
            }
            self.join();
        }
        if let Body::Voted(answer) = message.body {
            self.handle_vote(
                now,
                VoterLife { node: voter_of(from), session: message.header.session },
                answer,
            );
            return None;
        }
        if from.role != Role::Manager {
            self.note_voter(now, from, message.header.session);
            return self.is_active().then_some(message);
        }
        self.handle_replica(now, message);
        None
    }

    /// Records the state of the link to a node, or to the other replica.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        match link {
            LinkStatus::Up => self.up.insert(peer),
            LinkStatus::Down => self.up.remove(&peer),
        };
        if peer == self.me.node.other_replica() {
            self.stream.channel.note_link(now, link);
            self.is_other_up = Some(link == LinkStatus::Up);
            self.watch(now);
        }
    }

    /// Extends the time limits of the other replica and of the voters: this one was held up itself for `stall`, and what they have sent
    /// may be in the queue. A replica that is often held up for a short time still finds the other one silent.
    pub fn handle_stall(&mut self, now: Timestamp, stall: Nanos) {
        self.stream.channel.extend(now, stall);
        self.asking_since = self.asking_since.map(|since| now.min(since + stall));
        self.stream.invitation().into_iter().for_each(|invitation| invitation.extend(now, stall));
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
            Standing::Protected | Standing::Admitting if self.is_standby_missing(now) => {
                self.propose_for_partner(now, Change::StrikeOff);
            }
            Standing::Admitting => self.propose_for_partner(now, Change::Admit),
            Standing::Inviting if self.is_standby_missing(now) => self.go_alone(),
            Standing::Following if self.term == Term(0) && self.is_other_up != Some(false) => {}
            Standing::Following | Standing::Joining
                if self.manager.is_none() && self.is_other_up == Some(false) =>
            {
                self.retire(Retirement::Unfounded);
            }
            Standing::Joining if self.is_other_up != Some(true) && self.is_start_over(now) => {
                self.retire(Retirement::Unfounded);
            }
            Standing::Following if self.manager.is_some() && self.is_active_missing(now) => {
                self.propose(now, Change::TakeOver { steps_down: false })
            }
            Standing::Following if self.is_called && self.replay.is_empty() => {
                self.propose(now, Change::TakeOver { steps_down: true })
            }
            _ => {}
        }
        let is_over = |since: Timestamp| now.since(since) >= self.config.times.quorum;
        if self.standing != Standing::Founding && self.asking_since.is_some_and(is_over) {
            self.retire(Retirement::NoQuorum);
        }
    }

    fn propose_for_partner(&mut self, now: Timestamp, change: impl FnOnce(Replica) -> Change) {
        if let Some(session) = self.stream.partner {
            let partner = Replica { index: self.me.node.other_replica().index, session };
            self.propose(now, change(partner));
        }
    }

    fn propose(&mut self, now: Timestamp, change: Change) {
        self.asking_since.get_or_insert(now);
        self.proposer.propose(now, change);
    }

    /// Returns whether too much has waited too long for the standby, or its link is down.
    fn is_standby_missing(&self, now: Timestamp) -> bool {
        self.is_other_up == Some(false)
            || self.stream.is_overfull()
            || self.late_at().is_some_and(|at| at <= now)
    }

    /// Returns when the standby is too slow, if it has nothing new until then.
    fn late_at(&self) -> Option<Timestamp> {
        let lag = self.config.times.lag;
        match self.standing {
            Standing::Inviting => self.stream.late_at(lag),
            Standing::Protected | Standing::Admitting => self.held.front().map(|(_, since, _)| *since + lag),
            _ => None,
        }
    }

    /// Returns whether the active replica is silent, or its link is down.
    fn is_active_missing(&self, now: Timestamp) -> bool {
        let liveness = self.stream.channel.liveness();
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
                // The active replica goes on.
                Outcome::NoMajority if std::mem::take(&mut self.is_called) => {
                    self.events.push_back(PairEvent::StayedStandby);
                }
                Outcome::Decided(managers) => self.follow(now, &managers),
                Outcome::Refused { managers } => self.refused(&managers),
                // The active replica lives, and only this one does not hear it: that one strikes it off, or is heard again.
                Outcome::Heard => self.quiet_until = now + self.config.times.heartbeat(),
                // Voters may be back soon, and restored.
                Outcome::NoMajority => {
                    self.asking_since = Some(asking_since.unwrap_or(now));
                    self.quiet_until = now + self.config.times.heartbeat();
                }
                Outcome::AlreadyFounded => self.join(),
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
                if is_protected {
                    self.standing = Standing::Protected;
                } else {
                    self.go_alone();
                }
                self.events.push_back(PairEvent::Founded { protected: is_protected });
            }
            Standing::Admitting if is_protected => {
                self.standing = Standing::Protected;
                self.stream.push(Input::Admitted);
                self.events.push_back(PairEvent::Protected(managers.term));
            }
            Standing::Admitting => self.go_alone(),
            Standing::Protected if !is_protected => {
                self.go_alone();
                self.events.push_back(PairEvent::Unprotected(managers.term));
            }
            Standing::Following => {
                self.go_alone();
                // Whoever has nothing to acknowledge hears of the term now.
                self.heartbeats = self.config.nodes.iter().copied().collect();
                self.heartbeat_at = now + self.config.times.heartbeat();
                let was_called = std::mem::take(&mut self.is_called);
                self.events.push_back(PairEvent::TookOver { term: managers.term, was_called });
            }
            Standing::Protected
            | Standing::Alone
            | Standing::Inviting
            | Standing::Joining
            | Standing::Retired => {}
        }
    }

    fn refused(&mut self, managers: &Managers) {
        self.retire(match self.standing {
            Standing::Following | Standing::Joining => Retirement::StruckOff(managers.term),
            _ => Retirement::Superseded(managers.term),
        });
    }

    fn retire(&mut self, why: Retirement) {
        if self.standing != Standing::Retired {
            self.standing = Standing::Retired;
            self.proposer.withdraw();
            self.held.clear();
            self.stream.stop();
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
        let has_other = !matches!(self.standing, Standing::Alone | Standing::Retired);
        if has_other && let Some(message) = self.stream.channel.poll_transmit(now, &self.me) {
            return Some(self.compose(self.me.node.other_replica(), message));
        }
        while let Some(to) = self.heartbeats.pop_front() {
            if to == self.me.node.other_replica() && has_other {
                self.stream.channel.acknowledge_now();
                if let Some(message) = self.stream.channel.poll_transmit(now, &self.me) {
                    return Some(self.compose(to, message));
                }
            } else if to == self.me.node.other_replica() {
                if std::mem::take(&mut self.is_other_spent) {
                    let mut message = self.me.plain(Body::Inputs(vec![Input::Dismissed]));
                    // It is not for a later session, which may join.
                    message.header.acknowledged_session = self.spent.unwrap_or(SessionId(0));
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
        let lag = self.late_at().filter(|_| !self.proposer.is_proposing());
        let lag = lag.map(|at| at.max(self.quiet_until));
        let channel = self.stream.channel.poll_timeout().map(|deadline| deadline.at);
        let times = [Some(self.heartbeat_at), lag, channel, self.proposer.poll_timeout()];
        times.into_iter().flatten().min()
    }
}
