//! Sessions of peers: how they begin and end, and when too few are left for the run.

use super::EventManager;
use super::config::Triggers;
use super::events::ManagerEvent;
use super::flow::LostSession;
use super::phase::Phase;
use sheaf_wire::message::{Body, Command};
use sheaf_wire::{NodeId, Role, SessionId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Handles the first message of a peer, or of a new session of it.
    pub(super) fn meet(&mut self, now: Timestamp, node: NodeId, session: SessionId) {
        self.reopen(node);
        self.meet_for_records(node);
        match node.role {
            Role::Builder => {
                self.lose_builder(now, node);
                self.flow.begin_session(node.index, session);
                for order in self.excluded_nodes.orders() {
                    self.peers.push(node, Body::ExcludeReadout(order));
                }
            }
            Role::Readout => {
                if self.readouts.meet(node.index) {
                    self.events.push_back(ManagerEvent::ReadoutRestarted { readout: node });
                    self.forget_renumbering(node.index);
                }
                self.flow.queue_history(usize::from(node.index));
                self.meet_mirrored(node, session);
                // Before the command to join: no event is answered without the source for another reason.
                self.exclusions.note_session(node.index);
                self.exclude();
            }
            Role::Output => {
                if self.outputs.meet(node) {
                    self.events.push_back(ManagerEvent::OutputRestarted { output: node });
                }
            }
            Role::Manager | Role::Mirror => {}
        }
        match self.phase.get() {
            Phase::Running | Phase::Draining { .. } => {
                let join = Command::Join { floor: self.flow.floor() };
                let late = if node.role == Role::Readout { join } else { Command::Start };
                self.peers.push(node, Body::Command(late));
                if let Some(shape) = self.steering.shape(now).filter(|_| node.role != Role::Output) {
                    self.peers.push(node, Body::Shape(shape));
                    self.steering.check_at_once();
                }
            }
            // `advance` closes it, also if the run has closed without waiting for this node any longer.
            Phase::Closing { .. } | Phase::Closed | Phase::Waiting { .. } => {}
        }
    }

    /// Gives up builders that are lost. Returns whether one of them had events.
    pub(super) fn give_up_lost_builders(&mut self, now: Timestamp) -> bool {
        let mut had_events = false;
        for index in 0..self.config.builders {
            let node = NodeId::builder(index);
            let state = self.flow.builders().get(index);
            // A builder that has reported has finished, and closes its link.
            if state.lives() && !state.has_reported() && self.peers.is_lost(node, now) {
                // A process that exists and is silent is frozen or starved, which no event has caused.
                let has_died = self.peers.is_down(node);
                had_events |= state.outstanding() > 0;
                self.end_session(now, node, has_died);
                self.peers.reset(node);
            }
        }
        had_events
    }

    /// Ends the session of a builder that has died. One of its events may have been the cause.
    pub(super) fn lose_builder(&mut self, now: Timestamp, node: NodeId) {
        self.end_session(now, node, true);
    }

    /// Ends a builder's session: events that it has returned count, the others are built elsewhere. If it `has_died`, its
    /// events become suspects.
    pub(super) fn end_session(&mut self, now: Timestamp, node: NodeId, has_died: bool) {
        let Some(lost) = self.flow.end_session(now, node.index, has_died, &mut self.events) else {
            return;
        };
        self.steering.check_at_once();
        if lost.some_ended {
            self.phase.prolong_draining(now);
        }
        let LostSession { session, committed, reassigned, .. } = lost;
        if reassigned > 0 {
            self.phase.drain_again(now);
        }
        self.events.push_back(ManagerEvent::BuilderLost { builder: node, session, committed, reassigned });
    }

    /// Checks that a node of each necessary role is left. Ends the run if none has returned for the limit.
    pub(super) fn check_desertion(&mut self, now: Timestamp) {
        let role = if self.phase.is_running() { self.deserted_role(now) } else { None };
        let event = self.desertion.check(now, role);
        if matches!(event, Some(ManagerEvent::GivenUp { .. })) {
            self.dead_time.end(now);
            self.phase.give_up(now);
        }
        self.events.extend(event);
    }

    fn deserted_role(&self, now: Timestamp) -> Option<Role> {
        if self.flow.builders().iter().all(|(_, builder)| !builder.lives()) {
            Some(Role::Builder)
        } else {
            let is_gone = |node| self.is_gone(node, now) || self.excluded_nodes.has(node);
            self.readouts.nodes().all(is_gone).then_some(Role::Readout)
        }
    }

    /// Returns whether a node has never connected, or has died and was given up. A node whose link is up may be frozen and
    /// resume.
    pub(super) fn is_gone(&self, node: NodeId, now: Timestamp) -> bool {
        self.peers.is_lost(node, now) && !self.peers.is_up(node)
    }

    /// Returns whether the sources of all remaining readout units have ended.
    pub(super) fn all_sources_ended(&self, now: Timestamp) -> bool {
        // Sources that know the number of events are ahead of the triggers, and end before the last of them.
        if self.config.triggers != Triggers::Announced && self.config.max_events.is_some() {
            return false;
        }
        self.readouts.have_ended(|node| self.is_gone(node, now) || self.excluded_nodes.has(node))
    }
}
