//! A round of the event manager: triggers, orders of the operator, messages, and what follows from them.

use super::standby::refuse_to_step_down;
use super::{ManagerNode, TRIGGERS_PER_ROUND};
use crate::controls::{Exclusions, RunControls};
use crate::supervised::Supervised;
use crate::trigger::TriggerClock;
use crate::worker::Progress;
use sheaf_telemetry::log_as;
use sheaf_wire::message::Orders;
use sheaf_wire::{Nanos, NodeId, Timestamp};
use std::sync::atomic::Ordering;

impl ManagerNode {
    /// Does a round without a standby.
    pub(super) fn work_alone(&mut self, now: Timestamp) -> Progress {
        let stall = self.time.note_round(now);
        if self.course.controls.step_down.swap(false, Ordering::Relaxed) {
            refuse_to_step_down(&self.course.controls, NodeId::MANAGER, "it has no standby");
        }
        let orders = self.orders();
        self.begin_round(now, stall, orders);
        let mut busy = self.has_trigger_until(now);
        busy |= self.serve_supervisor(now);
        while let Some(message) = self.outbox.poll() {
            busy = true;
            self.role.handle_input(now, message);
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            self.role.handle_link(now, peer, link);
        }
        let stop = self.course.stop.swap(false, Ordering::Relaxed);
        self.end_round(now, stop);
        while let Some(transmit) = self.role.poll_transmit(now) {
            busy = true;
            if let Some(trace) = &mut self.trace {
                trace.send(&transmit);
            }
            self.outbox.send(transmit);
        }
        self.take_events(now);
        self.show_round();
        self.outbox.flush();
        if self.role.is_finished() {
            let hands_over = self.role.hands_over();
            let supervised = self.supervised.as_mut().filter(|_| !hands_over);
            let waits = supervised.and_then(|supervised| supervised.wait_at_end(now));
            return waits.map_or(Progress::Finished, Progress::Idle);
        }
        if busy {
            return Progress::Busy;
        }
        let next = self.next_round(now);
        self.time.rest_until(next);
        Progress::Idle(next)
    }

    /// Returns the orders of the operator.
    pub(super) fn orders(&mut self) -> Orders {
        let RunControls { hold, pause, excluded, .. } = &*self.course.controls;
        let changed = excluded.news(&mut self.exclusions_seen);
        let lists = |Exclusions { sources, nodes }: Exclusions| {
            (sources.into_iter().collect(), nodes.into_iter().collect())
        };
        Orders {
            hold: hold.load(Ordering::Relaxed),
            pause: pause.load(Ordering::Relaxed),
            exclusions: changed.map(lists),
        }
    }

    /// Begins a round: what happens before the messages that have arrived.
    pub(super) fn begin_round(&mut self, now: Timestamp, stall: Nanos, orders: Orders) {
        if let Some(trace) = &mut self.trace {
            trace.begin_round(now);
        }
        self.role.handle_stall(stall);
        self.supervised.iter_mut().for_each(|supervised| supervised.handle_stall(stall));
        self.take_triggers(now);
        self.heed_orders(now, orders);
        self.heed_succession(now);
    }

    /// Ends a round: what happens after the messages that have arrived. `stop` is a request to end the run.
    pub(super) fn end_round(&mut self, now: Timestamp, stop: bool) {
        self.role.handle_timeout(now);
        self.steer(now, stop);
    }

    /// Shows outside what has come of a round.
    pub(super) fn show_round(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.end_round();
        }
        if let Some(signal) = &mut self.signal {
            signal.set(!self.role.takes_triggers() || self.role.gate().is_some());
        }
    }

    /// Returns the latest time for the next round.
    pub(super) fn next_round(&mut self, now: Timestamp) -> Timestamp {
        let deadline = self.role.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        let trigger = self.triggers.as_ref().map_or(Timestamp::MAX, TriggerClock::next);
        let trigger = if self.role.is_running() { trigger } else { Timestamp::MAX };
        let end = self.end_of_triggers().filter(|end| *end > now).unwrap_or(Timestamp::MAX);
        let link = self.supervised.as_ref().and_then(Supervised::poll_timeout).unwrap_or(Timestamp::MAX);
        deadline.min(trigger).min(end).min(link)
    }

    /// Hands over the triggers that are due, with their times. The role books vetoes.
    ///
    /// Runs before messages are read: the content of these messages, such as credit, was not known when the triggers
    /// happened.
    fn take_triggers(&mut self, now: Timestamp) {
        let end = self.end_of_triggers();
        if self.supervised.is_none() {
            self.role.expect_end_of_triggers(end);
        }
        let until = end.into_iter().chain(self.pauses.asked_at).fold(now, Timestamp::min);
        let (Some(clock), Some((_, kind))) = (&mut self.triggers, self.course.triggers) else { return };
        for _ in 0..TRIGGERS_PER_ROUND {
            if !self.role.takes_triggers() {
                break;
            }
            let Some(time) = clock.pop_due(until) else { break };
            *self.report.offered.get_or_insert_default() += 1;
            let _ = self.role.handle_trigger(now, time, kind);
        }
    }

    /// Holds the start of the run, pauses it or resumes it, and excludes sources and nodes, as the operator requests.
    fn heed_orders(&mut self, now: Timestamp, orders: Orders) {
        let Orders { hold, pause: wanted, exclusions } = orders;
        if let Some((sources, nodes)) = exclusions {
            self.role.handle_exclusions(sources);
            self.role.handle_excluded_nodes(nodes);
        }
        self.role.handle_hold(now, hold);
        let ends = self.end_of_triggers().is_some_and(|end| end <= now);
        if ends || !self.role.is_running() || wanted == self.role.is_paused_by_operator() {
            self.pauses.asked_at = None;
        } else if !self.role.can_pause() {
            if !std::mem::replace(&mut self.pauses.is_refusal_told, true) {
                log_as!(
                    PAUSE_REFUSED, node = NodeId::MANAGER;
                    "the run cannot be paused: its data announce the triggers, and each readout unit would stop at another \
                     event; it goes on. Stop it instead, and start another run"
                );
            }
        } else {
            let at = *self.pauses.asked_at.get_or_insert(now);
            if !self.has_trigger_until(at) {
                self.role.handle_pause(at, wanted);
                self.pauses.asked_at = None;
                self.pauses.follow(at, self.role.is_paused());
                log_as!(
                    RUN_PAUSED, node = NodeId::MANAGER;
                    "the run is {}", if wanted { "paused: no triggers are taken" } else { "resumed" }
                );
            }
        }
    }

    /// Ends the run when its time is over, or when it is asked to end.
    fn steer(&mut self, now: Timestamp, stop: bool) {
        if self.report.warm_at.is_none()
            && self.course.warm_up > Nanos::ZERO
            && self.time_after(self.course.warm_up).is_some_and(|end| now >= end)
        {
            self.report.end_warm_up(now);
        }
        if stop {
            self.hear_stop(now);
        }
        if self.supervised.is_some() {
            self.steer_supervised(now);
            return;
        }
        if let Some(end) = self.end_of_triggers()
            && end <= now
            && self.role.is_running()
            && !self.has_trigger_until(end)
        {
            self.role.handle_end_of_triggers(now, end);
            if self.stopped_at.is_some() {
                self.role.handle_stop(now);
            }
        }
    }

    /// Ends the run when the supervisor has no more triggers. At the end of the run's time, asks the supervisor to stop and waits for
    /// its last triggers.
    fn steer_supervised(&mut self, now: Timestamp) {
        let end = self.end_of_triggers().filter(|end| *end <= now);
        let Some(supervised) = &mut self.supervised else { return };
        // The supervisor goes on, unless it has no more triggers.
        if self.role.hands_over() && self.role.is_running() {
            if supervised.has_no_more(now) {
                self.is_last = true;
                self.role.set_handover(false);
            } else {
                if end.is_some() {
                    self.role.handle_end_of_triggers(now, now);
                }
                return;
            }
        }
        if self.role.is_running() && supervised.has_ended(now, end) {
            self.role.handle_end_of_triggers(now, now);
            if self.stopped_at.is_some() {
                self.role.handle_stop(now);
            }
        }
    }

    /// Takes the triggers of the supervisor, and tells it the state of the run. Returns whether there was anything.
    fn serve_supervisor(&mut self, now: Timestamp) -> bool {
        let has_started = self.started_at.is_some();
        // Between two runs, triggers wait where they arrive.
        let is_between =
            self.left.is_some() || (self.role.hands_over() && has_started && !self.role.is_running());
        let Some(supervised) = self.supervised.as_mut().filter(|_| !is_between) else { return false };
        let is_busy = supervised.exchange(now, has_started, &mut self.role, TRIGGERS_PER_ROUND);
        for (cause, triggers) in supervised.take_vetoes() {
            self.role.add_vetoes(cause, triggers);
        }
        is_busy
    }

    fn hear_stop(&mut self, now: Timestamp) {
        let again = self.stopped_at.is_some();
        let next = if again {
            "dropping in-flight events as stopped"
        } else {
            "finishing in-flight events; a second Ctrl-C drops them"
        };
        log_as!(RUN_STOPS, node = NodeId::MANAGER; "stopping: {next}");
        self.report.interrupted = true;
        self.stopped_at.get_or_insert(now);
        // Triggers that are due are handed over before a run stops: `steer` does that. Cutting a run takes a stop before.
        let stops = match (self.role.is_running(), again) {
            (true, false) => 0,
            (false, _) => 1,
            (true, true) => 2,
        };
        for _ in 0..stops {
            self.role.handle_stop(now);
        }
    }

    /// Returns whether a trigger that happened before `end` has not been handed over.
    fn has_trigger_until(&self, end: Timestamp) -> bool {
        self.role.takes_triggers() && self.triggers.as_ref().is_some_and(|clock| clock.next() <= end)
    }

    fn end_of_triggers(&self) -> Option<Timestamp> {
        let by_duration = self.course.duration.and_then(|duration| self.time_after(duration));
        by_duration.into_iter().chain(self.stopped_at).chain(self.next_at).min()
    }

    /// Returns the time at which the run will have lasted this long, without its pauses. `None` before its start and during a pause.
    fn time_after(&self, lasted: Nanos) -> Option<Timestamp> {
        self.started_at.and_then(|start| self.pauses.reached(start, lasted))
    }
}
