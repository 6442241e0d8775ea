//! The side of a trigger supervisor.

use super::busy_time::BusyAccount;
use sheaf_wire::trigger_link::{
    Busy, BusyReason, FromManager, FromSupervisor, HEAD_BYTES, MAX_MESSAGE_BYTES, MAX_TRIGGERS, Phase,
    ReceivedTriggers, Refusal, Totals, Trigger,
};
use sheaf_wire::{EventId, RunNumber, Timestamp, TriggerType};
use std::collections::VecDeque;
use thiserror::Error;

/// Reason why a trigger was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The run takes no triggers: it has not started, or it ends.
    NotRunning,
    /// Busy.
    Busy(BusyReason),
}

/// Reason why a trigger of a device was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// The run takes no triggers: it has not started, or it ends.
    #[error("the run takes no triggers")]
    NotRunning,
    /// The id is below the next one.
    #[error("its id is below {next}, the next one; each trigger has a greater id than all before it")]
    IdTooLow {
        /// The next id.
        next: EventId,
    },
    /// No other trigger could follow the id.
    #[error("its id is the greatest of all numbers, so that no trigger could follow")]
    IdTooHigh,
}

/// Event for the driver of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupervisorEvent {
    /// The event manager has accepted the connection.
    Welcome {
        /// The run.
        run: RunNumber,
        /// Id of the first trigger.
        next: EventId,
        /// Maximum payload of a trigger in bytes.
        max_payload: u32,
    },
    /// The run has entered another phase.
    Phase(Phase),
    /// Triggers are held back, or are taken again.
    Busy(Busy),
    /// The event manager closes the connection.
    Refused {
        /// Reason.
        refusal: Refusal,
        /// Reason as a text.
        text: String,
    },
    /// Account of the event manager. The accounts have been exchanged, and no other event follows.
    Account(ReceivedTriggers),
}

/// See the [module](super) and the contract in the [crate documentation](crate). A supervisor has no deadlines.
#[derive(Debug)]
pub struct Supervisor {
    name: String,
    has_greeted: bool,
    phase: Option<Phase>,
    next: EventId,
    busy: BusyAccount,
    /// The last reason of busy from the last call of [`Self::handle_vetoes`] on.
    was_busy: Option<BusyReason>,
    offered: u64,
    sent: u64,
    own_vetoed: u64,
    outbox: VecDeque<Trigger>,
    /// Maximum length of a message of triggers, unless it has only one.
    max_message: usize,
    is_over: bool,
    is_end_sent: bool,
    account: Option<ReceivedTriggers>,
    are_totals_sent: bool,
    progress: (u64, u64),
    events: VecDeque<SupervisorEvent>,
}

impl Supervisor {
    /// Creates a supervisor whose first message is its hello.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            has_greeted: false,
            phase: None,
            next: EventId(0),
            busy: BusyAccount::default(),
            was_busy: None,
            offered: 0,
            sent: 0,
            own_vetoed: 0,
            outbox: VecDeque::new(),
            max_message: MAX_MESSAGE_BYTES,
            is_over: false,
            is_end_sent: false,
            account: None,
            are_totals_sent: false,
            progress: (0, 0),
            events: VecDeque::new(),
        }
    }

    /// Limits the messages of triggers to a length, except those with a single one that is longer.
    #[must_use]
    pub fn with_messages_of(mut self, bytes: usize) -> Self {
        self.max_message = bytes.min(MAX_MESSAGE_BYTES);
        self
    }

    /// Returns whether the run takes triggers, unless it is busy.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase == Some(Phase::Running) && !self.is_over
    }

    /// Returns the number of triggers that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the reason to hold triggers back.
    #[must_use]
    pub fn busy(&self) -> Option<BusyReason> {
        self.busy.reason()
    }

    /// Returns the account so far. An interval of busy counts when it has ended.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            offered: self.offered,
            sent: self.sent,
            own_vetoed: self.own_vetoed,
            busy: self.busy.times().clone(),
        }
    }

    /// Returns the numbers of triggers that the event manager has received and accepted, by its last message.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.progress
    }

    /// Takes a trigger, unless the run is busy. It gets the next id. `payload` makes its payload from the id; it must not exceed
    /// the maximum of the welcome.
    ///
    /// # Errors
    /// Returns the reason for which it was not taken. Triggers during busy are counted as vetoed. Those outside the run are
    /// not counted.
    pub fn handle_trigger(
        &mut self,
        time: Timestamp,
        kind: TriggerType,
        bits: u64,
        payload: impl FnOnce(EventId) -> Vec<u8>,
    ) -> Result<EventId, Held> {
        if !self.is_running() {
            return Err(Held::NotRunning);
        }
        self.offered += 1;
        if let Some(reason) = self.busy.reason() {
            self.busy.veto(reason, 1);
            return Err(Held::Busy(reason));
        }
        let id = self.next;
        self.next = EventId(id.0 + 1);
        self.sent += 1;
        self.outbox.push_back(Trigger { id, time, kind, bits, payload: payload(id) });
        Ok(id)
    }

    /// Counts a trigger that the supervisor's own dead-time rules veto.
    pub fn veto_own(&mut self) {
        if self.is_running() {
            self.offered += 1;
            self.own_vetoed += 1;
        }
    }

    /// Takes a trigger of a device that gives ids itself. Ids that it leaves out are skipped. The trigger has happened, so it is sent
    /// even if the run is busy: the device was told too late, and the event manager has room for what is on its way.
    ///
    /// # Errors
    /// Returns the reason for which it was not taken. It is not counted then.
    pub fn handle_device_trigger(&mut self, trigger: Trigger) -> Result<(), NotTaken> {
        if !self.is_running() {
            return Err(NotTaken::NotRunning);
        }
        if trigger.id < self.next {
            return Err(NotTaken::IdTooLow { next: self.next });
        }
        self.next = EventId(trigger.id.0.checked_add(1).ok_or(NotTaken::IdTooHigh)?);
        self.offered = self.offered.saturating_add(1);
        self.sent += 1;
        self.outbox.push_back(trigger);
        Ok(())
    }

    /// Counts triggers that a device has held back since the last call: because of busy if the run is busy or was since then,
    /// otherwise by rules of its own.
    pub fn handle_vetoes(&mut self, triggers: u64) {
        let was_busy = std::mem::replace(&mut self.was_busy, self.busy.reason());
        if !self.is_running() {
            return;
        }
        self.offered = self.offered.saturating_add(triggers);
        match self.busy.reason().or(was_busy) {
            Some(reason) if triggers > 0 => self.busy.veto(reason, triggers),
            Some(_) => {}
            None => self.own_vetoed = self.own_vetoed.saturating_add(triggers),
        }
    }

    /// Skips ids, as a supervisor does whose counter has jumped.
    pub fn skip(&mut self, ids: u64) {
        self.next = EventId(self.next.0 + ids);
    }

    /// Ends the triggers.
    pub fn handle_end(&mut self) {
        self.is_over = true;
    }

    /// Takes a message of the event manager.
    pub fn handle_input(&mut self, now: Timestamp, message: FromManager) {
        match message {
            FromManager::Welcome { run, phase, next, max_payload } => {
                self.next = next;
                self.events.push_back(SupervisorEvent::Welcome { run, next, max_payload });
                self.enter(phase);
            }
            FromManager::Busy(busy) => {
                self.busy.turn(now, busy.reason);
                self.was_busy = busy.reason.or(self.was_busy);
                self.events.push_back(SupervisorEvent::Busy(busy));
            }
            FromManager::Progress { received, accepted } => self.progress = (received, accepted),
            FromManager::Phase(phase) => self.enter(phase),
            FromManager::Refused { refusal, text } => {
                self.events.push_back(SupervisorEvent::Refused { refusal, text });
            }
            FromManager::Account(account) => {
                self.busy.turn(now, None);
                self.account = Some(account);
            }
            // Between the connection and its driver, who has the key.
            FromManager::Challenge(_) | FromManager::Proof(_) => {}
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
        self.is_over |= matches!(phase, Phase::Stopping | Phase::Ended);
        self.events.push_back(SupervisorEvent::Phase(phase));
    }

    /// Returns the next message.
    pub fn poll_transmit(&mut self) -> Option<FromSupervisor> {
        if !std::mem::replace(&mut self.has_greeted, true) {
            return Some(FromSupervisor::Hello { name: self.name.clone() });
        }
        self.phase?;
        if !self.outbox.is_empty() {
            return Some(FromSupervisor::Triggers(self.take_message()));
        }
        if self.is_over && !std::mem::replace(&mut self.is_end_sent, true) {
            return Some(FromSupervisor::End { sent: self.sent });
        }
        if let Some(account) = &self.account
            && !std::mem::replace(&mut self.are_totals_sent, true)
        {
            self.events.push_back(SupervisorEvent::Account(account.clone()));
            return Some(FromSupervisor::Totals(self.totals()));
        }
        None
    }

    /// Returns the triggers of the next message.
    fn take_message(&mut self) -> Vec<Trigger> {
        let mut bytes = HEAD_BYTES;
        let fits = |trigger: &&Trigger| {
            bytes += trigger.message_bytes();
            bytes <= self.max_message
        };
        let number = self.outbox.iter().take(MAX_TRIGGERS).take_while(fits).count().max(1);
        self.outbox.drain(..number).collect()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SupervisorEvent> {
        self.events.pop_front()
    }
}
