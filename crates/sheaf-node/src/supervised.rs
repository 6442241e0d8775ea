//! A run whose triggers come from a trigger supervisor, as the event manager's node conducts it.

use crate::programs::ProgramView;
use crate::trigger_input::{LinkState, TriggerInput};
use bytes::Bytes;
use sheaf_protocol::manager::{DeadTimeCause, EventManager};
use sheaf_protocol::trigger_link::{LinkReport, ReceiverEvent};
use sheaf_telemetry::log_as;
use sheaf_wire::times::Times;
use sheaf_wire::trigger_link::Phase;
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::collections::BTreeMap;

/// Time that a supervisor whose connection is up may take to stop, and then to give its account: a busy machine makes it slow, and
/// the end of its connection is reported at once.
const PATIENCE: Nanos = Nanos::from_secs(120);

/// See the [module](self).
pub(crate) struct Supervised {
    input: Box<dyn TriggerInput>,
    /// The supervisor, if this run has started it.
    program: Option<ProgramView>,
    state: LinkState,
    has_ended: bool,
    /// When the supervisor was told to stop.
    stopping_since: Option<Timestamp>,
    /// When the event manager had finished.
    finished_at: Option<Timestamp>,
    is_announced: bool,
    refused: u64,
    vetoes: BTreeMap<DeadTimeCause, u64>,
    /// Account at the end of the run before, if this one follows it.
    before: LinkReport,
    now: Timestamp,
}

impl Supervised {
    pub(crate) fn new(input: Box<dyn TriggerInput>, program: Option<ProgramView>) -> Self {
        Self {
            input,
            program,
            state: LinkState::default(),
            has_ended: false,
            stopping_since: None,
            finished_at: None,
            is_announced: false,
            refused: 0,
            vetoes: BTreeMap::new(),
            before: LinkReport::default(),
            now: Timestamp::ZERO,
        }
    }

    /// Begins a run that follows another one. The supervisor sees one run.
    pub(crate) fn begin_run(&mut self) {
        self.before = self.input.report(self.now);
    }

    /// Returns whether the supervisor has ended its triggers.
    pub(crate) fn has_no_more(&mut self, now: Timestamp) -> bool {
        self.has_ended(now, None)
    }

    /// Excludes time for which this process was stopped: nothing that the supervisor sent could be received.
    pub(crate) fn handle_stall(&mut self, stall: Nanos) {
        for since in self.stopping_since.iter_mut().chain(&mut self.finished_at) {
            *since += stall;
        }
    }

    /// Takes triggers, at most `most`, and tells the supervisor the state of the run. Returns whether there was anything.
    pub(crate) fn exchange(
        &mut self,
        now: Timestamp,
        has_started: bool,
        role: &mut EventManager<Bytes>,
        most: usize,
    ) -> bool {
        self.now = now;
        if !std::mem::replace(&mut self.is_announced, true) {
            log_as!(
                TRIGGER_SUPERVISOR_AWAITED, node = NodeId::MANAGER;
                "waiting for a trigger supervisor at {}", self.input.address()
            );
        }
        let phase = match (has_started, role.is_running(), self.stopping_since) {
            (_, true, None) => Phase::Running,
            (_, true, Some(_)) => Phase::Stopping,
            (true, false, _) => Phase::Ended,
            (false, false, _) if role.is_finished() => Phase::Ended,
            (false, false, _) => Phase::Waiting,
        };
        self.state = self.input.exchange(now, phase, role, most);
        let events = std::mem::take(&mut self.state.events);
        let is_busy = self.state.taken > 0 || !events.is_empty();
        events.into_iter().for_each(|event| self.handle_event(event, phase));
        is_busy
    }

    fn handle_event(&mut self, event: ReceiverEvent, phase: Phase) {
        match event {
            ReceiverEvent::Joined { name } => log_as!(
                TRIGGER_SUPERVISOR_JOINED, node = NodeId::MANAGER, peer = name;
                "the trigger supervisor `{name}` is connected"
            ),
            ReceiverEvent::Gone { name, early: true } if phase == Phase::Running => {
                log_as!(
                    TRIGGER_SUPERVISOR_GONE, node = NodeId::MANAGER, peer = name;
                    "the trigger supervisor `{name}` has gone; the run waits for one (Ctrl-C ends it)"
                );
            }
            ReceiverEvent::Gone { name, early: true } => log_as!(
                TRIGGER_SUPERVISOR_GONE, node = NodeId::MANAGER, peer = name;
                "the trigger supervisor `{name}` has gone"
            ),
            ReceiverEvent::Gone { early: false, .. } => {}
            ReceiverEvent::TriggersEnded => self.has_ended = true,
            ReceiverEvent::Totals(totals) => {
                for (reason, time) in totals.busy {
                    let sum = self.vetoes.entry(reason.cause.into()).or_default();
                    *sum = sum.saturating_add(time.vetoed);
                }
            }
            ReceiverEvent::Refused { name, refusal, .. } => {
                self.refused += 1;
                if let Some(times) = Times::to_log(self.refused) {
                    log_as!(
                        TRIGGER_SUPERVISOR_REFUSED, node = NodeId::MANAGER, peer = name;
                        "a connection `{name}` to the trigger address was refused: {refusal}{times}"
                    );
                }
            }
        }
    }

    /// Returns whether all triggers of the run were taken. `end` is the end of the run's time, if it has passed.
    pub(crate) fn has_ended(&mut self, now: Timestamp, end: Option<Timestamp>) -> bool {
        if end.is_some() {
            let since = *self.stopping_since.get_or_insert(now);
            if !self.state.expects_triggers {
                return true;
            }
            if now.since(since) >= PATIENCE {
                log_as!(
                    TRIGGER_SUPERVISOR_SLOW, node = NodeId::MANAGER;
                    "the trigger supervisor has not stopped within {PATIENCE}"
                );
                self.has_ended = true;
            }
        }
        let has_gone = self.program.as_ref().is_some_and(ProgramView::have_ended);
        if has_gone && !self.state.has_supervisor && !self.state.expects_triggers && !self.has_ended {
            log_as!(
                TRIGGER_PROGRAM_ENDED, node = NodeId::MANAGER;
                "the program that gives the triggers has ended, and so does the run"
            );
            self.has_ended = true;
        }
        self.has_ended
    }

    /// Returns until when the finished event manager waits for the supervisor's account.
    pub(crate) fn wait_at_end(&mut self, now: Timestamp) -> Option<Timestamp> {
        let since = *self.finished_at.get_or_insert(now);
        if self.state.is_settled {
            return None;
        }
        let waits = now.since(since) < PATIENCE;
        if !waits {
            log_as!(
                TRIGGER_SUPERVISOR_SLOW, node = NodeId::MANAGER;
                "the trigger supervisor has not given its account within {PATIENCE}"
            );
        }
        waits.then_some(since + PATIENCE)
    }

    /// Returns the vetoes that the supervisor has reported since the last call.
    pub(crate) fn take_vetoes(&mut self) -> BTreeMap<DeadTimeCause, u64> {
        std::mem::take(&mut self.vetoes)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let awaits_triggers = !self.has_ended && self.state.expects_triggers;
        let stop = self.stopping_since.filter(|_| awaits_triggers).map(|since| since + PATIENCE);
        self.input.poll_timeout().into_iter().chain(stop).min()
    }

    pub(crate) fn report(&self) -> LinkReport {
        self.input.report(self.now).since(&self.before)
    }
}

#[cfg(test)]
mod tests;
