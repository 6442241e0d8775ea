//! The other replica: its inputs at a standby, and how it joins or is dismissed at the active one.

use super::super::events::Retirement;
use super::super::standing::Standing;
use super::Pair;
use crate::channel::Received;
use sheaf_wire::message::{Body, Input, Message};
use sheaf_wire::{Payload, SessionId, Term, Timestamp};

impl<P: Payload> Pair<P> {
    /// Takes a message of the other replica.
    pub(super) fn handle_replica(&mut self, now: Timestamp, message: Message<P>) {
        let Message { header, body } = message;
        let session = header.session;
        let is_standby = matches!(self.standing, Standing::Joining | Standing::Following);
        if is_standby && (header.term < self.term || !self.heeds_term(header.term)) {
            return;
        }
        if is_standby && self.is_of_successor(session) {
            return;
        }
        match self.standing {
            Standing::Alone if self.spent < Some(session) => self.invite(now, session),
            Standing::Founding if self.only_joins => return self.retire(Retirement::RunExists),
            Standing::Founding => self.stream.partner = self.stream.partner.or(Some(session)),
            _ => {}
        }
        if self.is_active() && self.stream.partner != Some(session) {
            self.is_other_spent |= Some(session) <= self.spent;
            if self.stream.partner < Some(session) {
                // It has lost what it had: it is not the replica that is in sync.
                self.is_other_up = Some(false);
            }
            return;
        }
        if let Received::PeerRestarted { .. } = self.stream.channel.handle(now, &self.me, &header, body) {
            self.is_other_up = Some(false);
        }
        let mut has_inputs = false;
        while let Some(body) = self.stream.channel.poll_deliver() {
            if let (Body::Inputs(inputs), false) = (body, self.is_active()) {
                self.take_inputs(session, inputs);
                has_inputs = true;
            }
        }
        if has_inputs {
            self.stream.channel.acknowledge_now();
        }
        self.stream.send(self.manager);
        self.admit(now);
    }

    /// Takes note of a higher term, at a standby. Returns whether it goes on.
    fn heeds_term(&mut self, term: Term) -> bool {
        if term > self.term && self.is_admitted {
            self.retire(Retirement::StruckOff(term));
            return false;
        }
        // The first term of a run is that of the foundation, and a standby that has the first round is in sync by it.
        self.is_admitted |= term > self.term && self.term == Term(0) && self.manager.is_some();
        self.term = term;
        true
    }

    /// Returns whether a message of this session is not of the replica that this standby follows. A later session has none of what the standby
    /// was sent: it was started again, and may take itself for the first one of the run until the voters tell it otherwise.
    fn is_of_successor(&mut self, session: SessionId) -> bool {
        let is_later = self.followed.is_some_and(|followed| followed < session);
        if is_later {
            self.is_other_up = Some(false);
        }
        is_later || self.followed > Some(session)
    }

    fn take_inputs(&mut self, session: SessionId, inputs: Vec<Input<P>>) {
        let mut rounds = Vec::with_capacity(inputs.len());
        for input in inputs {
            match input {
                Input::Snapshot { manager, is_last, bytes } => match self.assembly.add(&bytes, is_last) {
                    Ok(None) => {}
                    Ok(Some(snapshot)) => {
                        (self.manager, self.followed) = (Some(manager), Some(session));
                        self.replay.begin(snapshot);
                        self.standing = Standing::Following;
                    }
                    Err(_) => self.retire(Retirement::Unreadable),
                },
                Input::Admitted => self.is_admitted = true,
                Input::StepsDown => self.is_called = true,
                Input::Dismissed => self.retire(Retirement::StruckOff(self.term)),
                input => rounds.push(input),
            }
        }
        if self.standing == Standing::Following && !rounds.is_empty() {
            self.manager.get_or_insert(session);
            self.followed.get_or_insert(session);
            self.replay.add(rounds);
        }
    }

    /// Sends a new session of the other replica a snapshot, and all inputs after it.
    fn invite(&mut self, now: Timestamp, session: SessionId) {
        let up = self.config.voters.iter().filter(|voter| self.is_up(**voter)).count();
        if 2 * up <= self.config.voters.len() {
            // Nobody could note that it is in sync.
            return;
        }
        self.stream.invite(now, session);
        self.is_other_up = Some(true);
        self.standing = Standing::Inviting;
    }

    /// Has the voters note that the other replica is in sync, once it has the whole snapshot.
    fn admit(&mut self, now: Timestamp) {
        if self.stream.completes_invitation(now) {
            self.standing = Standing::Admitting;
            self.watch(now);
        }
    }

    /// Goes on alone, and dismisses the other replica: what it was sent is void.
    pub(super) fn go_alone(&mut self) {
        self.standing = Standing::Alone;
        self.spent = self.spent.max(self.stream.stop());
    }

    /// Joins the run, which the other replica has begun.
    pub(super) fn join(&mut self) {
        self.standing = Standing::Joining;
        self.proposer.withdraw();
        self.held.clear();
        self.stream.stop();
        (self.manager, self.followed) = (None, None);
        self.replay.step_aside();
    }
}
