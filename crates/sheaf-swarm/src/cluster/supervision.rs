//! A trigger supervisor that gives the triggers of a run, and its link to the event manager.
//!
//! As in a real run, the event manager's end of the link works while the event manager itself is stalled. The link is a connection, or
//! consists of datagrams that can be lost, repeated and, on the way to the supervisor, overtaken. The supervisor's program may die and start
//! again.

mod link;

use super::post::{Happening, Post};
use super::{Cluster, RUN};
use crate::options::{Options, PLAIN_TYPE, SupervisorOptions, TriggerOptions};
use crate::payload::SimPayload;
use crate::source::FIRST_EVENT;
use crate::supervisor_link::{new_receiver, new_supervisor, trigger_reserve};
use link::Link;
use sheaf_protocol::manager::{DeadTimeCause, EventManager};
use sheaf_protocol::trigger_link::{
    Gate, LinkReport, Receiver, ReceiverConfig, ReceiverEvent, Supervisor, SupervisorEvent,
};
use sheaf_wire::trigger_link::{Phase, Refusal, Totals};
use sheaf_wire::{EventId, Nanos, Timestamp};

/// Time after which a supervisor starts again that was refused because its earlier life is still connected.
const ANOTHER_TRY: Nanos = Nanos::from_millis(500);

/// Both sides of the link.
#[derive(Debug)]
pub(super) struct Supervision {
    /// `None` between two lives of its program.
    supervisor: Option<Supervisor>,
    receiver: Receiver,
    link: Link,
    /// Number of triggers that were sent in its earlier lives.
    sent_before: u64,
    totals: Option<Totals>,
    /// Whether the event manager sent an account that does not balance.
    wrong_account: bool,
    /// Whether the run had ended before the supervisor reached it: no accounts are exchanged.
    is_too_late: bool,
}

impl Options {
    /// Returns the smallest time between two triggers of a supervisor.
    pub(crate) fn trigger_distance(&self) -> Nanos {
        match self.triggers {
            TriggerOptions::Driven { period, poisson: true } => Nanos(period.0 / 2),
            TriggerOptions::Driven { period, .. } => period,
            TriggerOptions::Free | TriggerOptions::Announced { .. } => Nanos(1),
        }
    }

    /// Returns the number of places that are kept free for triggers in flight.
    pub(crate) fn trigger_reserve(&self, supervisor: SupervisorOptions) -> u64 {
        trigger_reserve(supervisor.latency, self.trigger_distance())
    }
}

impl Supervision {
    pub(super) fn new(options: &Options) -> Option<Self> {
        let setup = options.supervisor?;
        let config = ReceiverConfig {
            queue: options.bounds.queue_events as u64,
            reserve: options.trigger_reserve(setup),
            first: FIRST_EVENT,
            max_payload: 0,
            is_lossy: setup.datagrams.is_some(),
        };
        let mut receiver = new_receiver(config, RUN);
        let link = Link::new(setup, &mut receiver);
        Some(Self {
            supervisor: Some(new_supervisor()),
            receiver,
            link,
            sent_before: 0,
            totals: None,
            wrong_account: false,
            is_too_late: false,
        })
    }

    /// Returns whether the accounts are exchanged, or none will be.
    pub(super) fn is_over(&self) -> bool {
        self.totals.is_some() || self.is_too_late
    }

    /// Returns the event manager's account of the link, and the number of triggers that found no room.
    pub(super) fn report(&self, now: Timestamp) -> (LinkReport, u64) {
        let mut report = LinkReport { datagrams: self.link.datagram_counts(), ..self.receiver.report(now) };
        if self.wrong_account {
            report.differences.push("the supervisor was sent an account that does not balance".into());
        }
        let late = self.link.late() + report.late;
        (report, late)
    }

    /// Returns the cause for which no triggers may be sent.
    pub(super) fn held_back(&self) -> Option<DeadTimeCause> {
        match self.receiver.gate() {
            Gate::Open => None,
            Gate::Busy(reason) => Some(reason.cause.into()),
            Gate::NoSupervisor => Some(DeadTimeCause::NoSupervisor),
        }
    }

    /// Returns the number of triggers that were held back, and of all that belong to the run. Of lives without an account, only those are
    /// known that have arrived.
    fn offered(&self, now: Timestamp) -> (u64, u64) {
        let triggers = self.receiver.report(now).triggers;
        let arrived = triggers.received - triggers.outside - triggers.lost;
        let Some(totals) = &self.totals else { return (0, arrived) };
        let vetoes = totals.busy.values().map(|time| time.vetoed).sum();
        (vetoes, arrived + totals.offered - totals.sent)
    }

    /// Makes a trigger.
    fn trigger(&mut self, now: Timestamp, limit: u64) {
        let Some(supervisor) = &mut self.supervisor else { return };
        if self.sent_before + supervisor.sent() < limit {
            let _ = supervisor.handle_trigger(now, PLAIN_TYPE, 0, |_| Vec::new());
        }
        if self.sent_before + supervisor.sent() >= limit {
            supervisor.handle_end();
        }
    }

    /// Ends the life of the supervisor, which starts again after a while.
    fn die(&mut self, post: &mut Post, absence: Nanos) {
        let Some(supervisor) = self.supervisor.take() else { return };
        self.sent_before += supervisor.sent();
        self.link.die(post);
        post.plan(post.now + absence, Happening::SupervisorStarts);
    }

    fn start(&mut self, post: &mut Post) {
        self.supervisor = Some(self.link.revive(post));
        self.transmit(post);
    }

    /// Delivers the messages that have arrived.
    fn deliver(&mut self, post: &mut Post) {
        self.link.deliver(post.now, self.supervisor.as_mut(), &mut self.receiver);
        let Some(supervisor) = &mut self.supervisor else { return };
        let mut is_taken = false;
        while let Some(event) = supervisor.poll_event() {
            match event {
                SupervisorEvent::Refused { refusal, .. } => {
                    self.is_too_late |= refusal == Refusal::RunEnded;
                    is_taken |= refusal == Refusal::SupervisorTaken;
                }
                SupervisorEvent::Account(account) if !account.is_balanced() => self.wrong_account = true,
                _ => {}
            }
        }
        if is_taken {
            self.die(post, ANOTHER_TRY);
        }
    }

    /// Sends the messages of both sides.
    fn transmit(&mut self, post: &mut Post) {
        self.link.transmit(post, self.supervisor.as_mut(), &mut self.receiver);
        if !self.is_over() {
            self.link.plan(post, self.supervisor.is_some());
        }
    }

    /// Gives the triggers that have arrived to the event manager, and states its phase and room. Returns the new events, with the times of
    /// their triggers.
    fn exchange(
        &mut self,
        now: Timestamp,
        has_started: bool,
        machine: &mut EventManager<SimPayload>,
    ) -> Vec<(EventId, Timestamp)> {
        let mut events = Vec::new();
        self.link.hand_over(now, &mut self.receiver);
        while let Some(trigger) = self.receiver.poll_trigger() {
            let taken = machine.handle_external_trigger(now, trigger.id, trigger.time, trigger.kind);
            self.receiver.handle_taken(taken.is_ok());
            events.extend(taken.is_ok().then_some((trigger.id, trigger.time)));
        }
        let phase = match (has_started, machine.is_running()) {
            (_, true) => Phase::Running,
            (true, false) => Phase::Ended,
            (false, false) if machine.is_finished() => Phase::Ended,
            (false, false) => Phase::Waiting,
        };
        self.receiver.handle_phase(phase);
        self.receiver.handle_pause(now, machine.pause_reason());
        self.receiver.handle_rooms(now, machine.rooms(now));
        events
    }

    /// Books busy, and handles the events of the receiver.
    fn conclude(&mut self, now: Timestamp, machine: &mut EventManager<SimPayload>) {
        machine.handle_turns(&mut self.receiver);
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::TriggersEnded if machine.is_running() => {
                    machine.handle_end_of_triggers(now, now);
                }
                ReceiverEvent::Totals(totals) => {
                    for (reason, time) in &totals.busy {
                        machine.add_vetoes(reason.cause.into(), time.vetoed);
                    }
                    self.totals = Some(totals);
                }
                _ => {}
            }
        }
    }
}

impl Cluster {
    /// Makes the next trigger of the supervisor, and plans the one after it.
    pub(super) fn happen_supervised_trigger(&mut self, period: Nanos, poisson: bool) {
        let now = self.post.now;
        let Some(supervision) = &mut self.supervision else { return };
        supervision.trigger(now, self.options.events);
        supervision.transmit(&mut self.post);
        if let Some(deaths) = self.options.supervisor.and_then(|setup| setup.deaths)
            && now < self.options.faults_until
            && !supervision.is_over()
            && self.post.dice.chance(deaths.dies)
        {
            let absence = Nanos(self.post.dice.below(deaths.absence.0 + 1));
            supervision.die(&mut self.post, absence);
        }
        self.look_at_gate();
        let ends = self.manager.has_started() && !self.manager.machine.is_running();
        if ends || self.manager.machine.is_finished() {
            self.manager.triggers_end = true;
            self.schedule_sources();
            return;
        }
        let distance = self.options.trigger_distance();
        let random = Nanos(period.0 - distance.0);
        let wait = if poisson { distance + self.post.dice.exponential(random) } else { period };
        self.post.plan(now + wait, Happening::Trigger);
    }

    /// Books busy, and the absence of a supervisor, before the event manager handles anything else, which may end the run.
    pub(super) fn book_busy(&mut self) {
        let Self { manager, supervision: Some(supervision), .. } = self else { return };
        manager.machine.handle_turns(&mut supervision.receiver);
    }

    /// Starts the program of the supervisor again.
    pub(super) fn happen_supervisor_start(&mut self) {
        let Some(supervision) = &mut self.supervision else { return };
        supervision.start(&mut self.post);
    }

    /// Delivers messages between supervisor and event manager.
    pub(super) fn happen_trigger_line(&mut self) {
        let Some(supervision) = &mut self.supervision else { return };
        supervision.deliver(&mut self.post);
        supervision.transmit(&mut self.post);
        self.look_at_gate();
        self.watch_triggers();
        self.post.plan(self.post.now, Happening::TriggersTaken);
    }

    /// The event manager takes the triggers that have arrived.
    pub(super) fn exchange_triggers(&mut self) {
        let Self { post, manager, supervision: Some(supervision), watch, .. } = self else { return };
        let has_started = manager.has_started();
        manager.machine.handle_turns(&mut supervision.receiver);
        let events = supervision.exchange(post.now, has_started, &mut manager.machine);
        supervision.transmit(post);
        supervision.conclude(post.now, &mut manager.machine);
        if !events.is_empty() {
            manager.accepted.extend(std::iter::repeat_n(post.now, events.len()));
            events.iter().for_each(|(event, time)| watch.windows.see_trigger(*event, *time));
            self.schedule_sources();
        }
        self.watch_triggers();
    }

    /// Shows the number of triggers to the independent account, when it is known.
    fn watch_triggers(&mut self) {
        if let Some(supervision) = self.supervision.as_ref().filter(|supervision| supervision.is_over()) {
            (self.watch.vetoes, self.watch.offered) = supervision.offered(self.post.now);
        }
    }
}
