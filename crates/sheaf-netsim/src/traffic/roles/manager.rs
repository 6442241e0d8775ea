//! Drives the event manager and its triggers.

use super::agenda::Happening;
use super::settings::Settings;
use super::{Descriptor, RUN, Roles, timestamp};
use crate::traffic::Wake;
use crate::units::Picos;
use sheaf_protocol::Identity;
use sheaf_protocol::manager::{EventManager, ManagerEvent, Veto};
use sheaf_wire::message::Message;
use sheaf_wire::{NodeId, Outcome, SessionId, Timestamp, TriggerType};

/// The event manager.
#[derive(Debug)]
pub(super) struct ManagerHost {
    pub(super) machine: EventManager<Descriptor>,
    /// When it is to be woken.
    wake_at: Option<Timestamp>,
    has_started: bool,
}

impl ManagerHost {
    pub(super) fn new(settings: &Settings) -> Self {
        let me = Identity { node: NodeId::MANAGER, run: RUN, session: SessionId(1) };
        let machine = EventManager::new(me, settings.manager(), Timestamp::ZERO);
        Self { machine, wake_at: None, has_started: false }
    }

    /// Returns the number of events so far.
    pub(super) fn triggered(&self) -> u64 {
        self.machine.ledger().received
    }
}

impl Roles {
    pub(super) fn arrive_at_manager(&mut self, message: Message<Descriptor>, now: Picos, wake: &mut Wake) {
        self.manager.machine.handle_input(timestamp(now), message);
        self.settle_manager(now, wake);
    }

    pub(super) fn wake_manager(&mut self, planned: Timestamp, now: Picos, wake: &mut Wake) {
        if self.manager.wake_at == Some(planned) {
            self.manager.wake_at = None;
            self.manager.machine.handle_timeout(timestamp(now));
            self.settle_manager(now, wake);
        }
    }

    /// Takes all triggers that have come, and plans the next.
    pub(super) fn trigger(&mut self, now: Picos, wake: &mut Wake) {
        let before = self.triggers.taken();
        for _ in before..self.triggers.count(now) {
            let taken = self.manager.machine.handle_trigger(timestamp(now), timestamp(now), TriggerType(1));
            if taken == Err(Veto::NotRunning) && self.manager.has_started {
                // The run has all its events.
                return;
            }
        }
        self.agenda.plan(self.triggers.next(), Happening::Trigger);
        self.settle_manager(now, wake);
    }

    /// Drains the machine, as its contract demands.
    pub(super) fn settle_manager(&mut self, now: Picos, wake: &mut Wake) {
        let Self { manager, post, agenda, tally, .. } = self;
        while let Some(transmit) = manager.machine.poll_transmit(timestamp(now)) {
            post.send(transmit, now, agenda, wake);
        }
        while let Some(event) = manager.machine.poll_event() {
            match event {
                ManagerEvent::Started { .. } => manager.has_started = true,
                ManagerEvent::Ended(ended) => {
                    let is_complete = ended.outcome == Outcome::Stored && !ended.incomplete;
                    tally.ended += u64::from(ended.count);
                    tally.complete += if is_complete { u64::from(ended.count) } else { 0 };
                }
                // Lost builders are in its ledger, and reports of nodes are in their own accounts.
                ManagerEvent::StartDeclined { .. }
                | ManagerEvent::StartFailed { .. }
                | ManagerEvent::Deserted { .. }
                | ManagerEvent::GivenUp { .. }
                | ManagerEvent::BuilderLost { .. }
                | ManagerEvent::ReadoutRestarted { .. }
                | ManagerEvent::MirrorTookOver { .. }
                | ManagerEvent::MirrorLost { .. }
                | ManagerEvent::NodeExcluded { .. }
                | ManagerEvent::OutputRestarted { .. }
                | ManagerEvent::ShiftFound(_)
                | ManagerEvent::ShiftRepaired(_)
                | ManagerEvent::SourceExcluded { .. }
                | ManagerEvent::SourceIncluded { .. }
                | ManagerEvent::RequirementUnmet { .. }
                | ManagerEvent::RequirementMet { .. }
                | ManagerEvent::Reported { .. }
                | ManagerEvent::Closed => {}
            }
        }
        agenda.wake_by(NodeId::MANAGER, manager.machine.poll_timeout(), &mut manager.wake_at, now);
    }
}
