//! Drives builder units: every event is stored at once.

use super::settings::Settings;
use super::{Descriptor, RUN, Roles, picos, timestamp};
use crate::traffic::Wake;
use crate::units::Picos;
use sheaf_protocol::Identity;
use sheaf_protocol::builder::{BuilderEvent, BuilderUnit, Decision, More, PartDecision};
use sheaf_protocol::ledger::NodeBooks;
use sheaf_wire::message::Message;
use sheaf_wire::{NodeId, SessionId, Timestamp};

/// A builder unit.
#[derive(Debug)]
pub(super) struct BuilderHost {
    node: NodeId,
    session: SessionId,
    /// Nothing while it is dead.
    unit: Option<BuilderUnit<Descriptor>>,
    /// When it is to be woken.
    wake_at: Option<Timestamp>,
    /// Events built, in all lives.
    pub(super) built: u64,
}

impl BuilderHost {
    pub(super) fn new(settings: &Settings, index: u16) -> Self {
        let node = NodeId::builder(index);
        let mut host = Self { node, session: SessionId(0), unit: None, wake_at: None, built: 0 };
        host.begin(settings, Picos::ZERO);
        host
    }

    /// Begins a life.
    pub(super) fn begin(&mut self, settings: &Settings, now: Picos) {
        if self.unit.is_some() {
            return;
        }
        self.session = SessionId(self.session.0 + 1);
        let me = Identity { node: self.node, run: RUN, session: self.session };
        self.unit = Some(BuilderUnit::new(me, settings.builder(), timestamp(now)));
    }

    /// Stops; returns whether it was alive.
    pub(super) fn die(&mut self) -> bool {
        self.wake_at = None;
        self.unit.take().is_some()
    }

    pub(super) fn books(&self) -> NodeBooks {
        self.unit.as_ref().map(BuilderUnit::books).unwrap_or_default()
    }
}

impl Roles {
    pub(super) fn arrive_at_builder(
        &mut self,
        index: usize,
        message: Message<Descriptor>,
        now: Picos,
        wake: &mut Wake,
    ) {
        if let Some(unit) = &mut self.builders[index].unit {
            unit.handle_input(timestamp(now), message);
            self.settle_builder(index, now, wake);
        }
    }

    pub(super) fn wake_builder(&mut self, index: usize, planned: Timestamp, now: Picos, wake: &mut Wake) {
        let host = &mut self.builders[index];
        if host.wake_at != Some(planned) {
            return;
        }
        host.wake_at = None;
        if let Some(unit) = &mut host.unit {
            unit.handle_timeout(timestamp(now));
            self.settle_builder(index, now, wake);
        }
    }

    /// Drains the unit, as its contract demands.
    pub(super) fn settle_builder(&mut self, index: usize, now: Picos, wake: &mut Wake) {
        let Self { builders, post, agenda, tally, settings, .. } = self;
        let host = &mut builders[index];
        let Some(unit) = &mut host.unit else {
            return;
        };
        let mut is_fenced = false;
        while let Some(event) = unit.poll_event() {
            match event {
                BuilderEvent::Built(built) => {
                    host.built += 1;
                    let (is_whole, time) = unit.lend(built, |event| (event.missing.is_empty(), event.time));
                    if is_whole {
                        let latency = now.since(picos(time)).0;
                        tally.latency.record(latency).expect("the histogram grows as it must");
                    }
                    unit.handle_decision(timestamp(now), built.event(), Decision::Stored);
                }
                // All sources are asked for at once.
                BuilderEvent::Part(part) => {
                    unit.handle_part_decision(timestamp(now), part, PartDecision::More(More::All));
                }
                BuilderEvent::Fenced => is_fenced = true,
                // The event manager has one life.
                BuilderEvent::Started
                | BuilderEvent::Record(_)
                | BuilderEvent::Closed
                | BuilderEvent::ManagerRestarted => {}
            }
        }
        while let Some(transmit) = unit.poll_transmit(timestamp(now)) {
            post.send(transmit, now, agenda, wake);
        }
        if is_fenced {
            // The event manager has given this life up: the next begins at once.
            tally.deaths += u64::from(host.die());
            host.begin(settings, now);
            self.settle_builder(index, now, wake);
            return;
        }
        agenda.wake_by(host.node, unit.poll_timeout(), &mut host.wake_at, now);
    }
}
