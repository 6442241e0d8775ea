//! A trigger supervisor on another host, and the event manager's end of its connection.
//!
//! That end is a thread in the process of the event manager's node: it works while the node's own thread is held up, and is stopped with
//! the process.

use super::options::{DriverOptions, SupervisorOptions};
use crate::dice::Dice;
use crate::supervisor_link::{Connection, new_receiver, new_supervisor, trigger_reserve};
use bytes::Bytes;
use sheaf_node::trigger_input::{self, LinkState, TriggerInput, TriggerLink};
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::trigger_link::{LinkReport, Receiver, ReceiverConfig, Room, Supervisor, SupervisorEvent};
use sheaf_wire::trigger_link::{Phase, Trigger};
use sheaf_wire::{EventId, Nanos, RunNumber, TimeBase, Timestamp, TriggerType};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl DriverOptions {
    /// Returns the number of places that are kept free for triggers in flight.
    pub(super) fn trigger_reserve(&self, setup: SupervisorOptions) -> u64 {
        trigger_reserve(setup.latency, self.trigger_period.unwrap_or_default())
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Supervision {
    period: Nanos,
    /// Number of triggers of all lives.
    limit: u64,
    dice: Dice,
    /// `None` between two lives.
    supervisor: Option<Supervisor>,
    sent_before: u64,
    /// Number of its lives that ended early.
    deaths: u64,
    receiver: Receiver,
    connection: Connection,
    next_trigger: Timestamp,
    frozen_until: Timestamp,
    door_frozen_until: Timestamp,
    /// Times at which something may happen, not yet taken.
    due: Vec<Timestamp>,
}

/// A handle of the supervision.
#[derive(Clone, Debug)]
pub(super) struct SupervisionHandle(Arc<Mutex<Supervision>>);

impl SupervisionHandle {
    pub(super) fn new(options: &DriverOptions, first: EventId, now: Timestamp) -> Option<Self> {
        let (setup, period) = (options.supervisor?, options.trigger_period?);
        let config = ReceiverConfig {
            queue: options.queue_events as u64,
            reserve: options.trigger_reserve(setup),
            first,
            max_payload: 0,
            is_lossy: false,
        };
        let mut receiver = new_receiver(config, RunNumber(7));
        let connection = Connection::new(setup.latency, &mut receiver);
        Some(Self(Arc::new(Mutex::new(Supervision {
            period,
            limit: options.events,
            dice: Dice::new(options.seed, 27),
            supervisor: Some(new_supervisor()),
            sent_before: 0,
            deaths: 0,
            receiver,
            connection,
            next_trigger: now,
            frozen_until: now,
            door_frozen_until: now,
            due: vec![now],
        }))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Supervision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the input of the event manager.
    pub(super) fn input(&self) -> Box<dyn TriggerInput> {
        Box::new(SimInput(self.clone()))
    }
}

impl Supervision {
    /// Does all that is due. Returns whether the event manager has something to do.
    pub(super) fn turn(&mut self, now: Timestamp) -> bool {
        if self.frozen_until > now {
            self.due.push(self.frozen_until);
        } else {
            self.connection.deliver_back(now, self.supervisor.as_mut());
            self.make_triggers(now);
            if let Some(supervisor) = &mut self.supervisor {
                while supervisor
                    .poll_event()
                    .is_some_and(|event| !matches!(event, SupervisorEvent::Account(_)))
                {}
                self.connection.transmit(now, &mut self.dice, supervisor);
            }
        }
        let mut has_news = false;
        if self.door_frozen_until <= now {
            has_news = self.connection.hand_over(now, &mut self.receiver);
            self.connection.transmit_back(now, &mut self.dice, &mut self.receiver);
        } else {
            self.due.push(self.door_frozen_until);
        }
        let arrivals = self.connection.take_arrivals();
        self.due.extend(arrivals);
        has_news
    }

    /// Makes the triggers that are due. A frozen supervisor has seen none.
    fn make_triggers(&mut self, now: Timestamp) {
        let Some(supervisor) = &mut self.supervisor else { return };
        if self.sent_before + supervisor.sent() >= self.limit {
            supervisor.handle_end();
            return;
        }
        if !supervisor.is_running() {
            self.next_trigger = now;
            return;
        }
        if self.next_trigger <= now {
            let _ = supervisor.handle_trigger(now, TriggerType(0), 0, |_| Vec::new());
            self.next_trigger = now + self.period;
        }
        self.due.push(self.next_trigger);
    }

    pub(super) fn freeze(&mut self, until: Timestamp) {
        self.frozen_until = self.frozen_until.max(until);
        self.due.push(self.frozen_until);
    }

    /// Stops the process of the event manager's node, and with it this end of the connection.
    ///
    /// When the process continues, either thread may be the first.
    pub(super) fn freeze_door(&mut self, until: Timestamp) {
        let until = until + Nanos(self.dice.below(2_000_000));
        self.door_frozen_until = self.door_frozen_until.max(until);
        self.due.push(self.door_frozen_until);
    }

    /// Ends the life of the supervisor. Returns whether it was alive.
    pub(super) fn die(&mut self, now: Timestamp) -> bool {
        let Some(supervisor) = self.supervisor.take() else { return false };
        self.sent_before += supervisor.sent();
        self.deaths += 1;
        self.frozen_until = now;
        self.connection.die(now, &mut self.dice);
        self.due.push(now);
        true
    }

    /// Begins another life.
    pub(super) fn start(&mut self, now: Timestamp) {
        self.supervisor = Some(new_supervisor());
        self.connection.connect(now, &mut self.dice);
        self.due.push(now);
    }

    /// Returns the times at which something may happen that were added since the last call.
    pub(super) fn take_due(&mut self) -> Vec<Timestamp> {
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Returns the number of triggers that found no room when they arrived, and that of lives that ended early.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.connection.late(), self.deaths)
    }
}

/// The supervision, as the event manager's node sees it.
#[derive(Debug)]
struct SimInput(SupervisionHandle);

impl TriggerInput for SimInput {
    fn exchange(
        &mut self,
        now: Timestamp,
        phase: Phase,
        role: &mut EventManager<Bytes>,
        most: usize,
    ) -> LinkState {
        let mut supervision = self.0.lock();
        let state = trigger_input::exchange(&mut *supervision, now, phase, role, most);
        if supervision.connection.holds() {
            supervision.due.push(now);
        }
        state
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.0.lock().receiver.poll_timeout()
    }

    fn report(&self, now: Timestamp) -> LinkReport {
        self.0.lock().receiver.report(now)
    }

    fn address(&self) -> String {
        "a simulated connection".to_owned()
    }
}

impl TriggerLink for Supervision {
    fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    fn transmit(&mut self, now: Timestamp) {
        self.connection.transmit_back(now, &mut self.dice, &mut self.receiver);
        let arrivals = self.connection.take_arrivals();
        self.due.extend(arrivals);
    }

    fn is_flushed(&self) -> bool {
        self.connection.is_flushed()
    }

    fn take(&mut self, _trigger: Trigger, _time: Timestamp) {}

    fn end(&mut self) {}

    fn time_base(&self) -> TimeBase {
        TimeBase::NANOSECONDS
    }

    fn room(&self) -> Option<Room> {
        None
    }
}
