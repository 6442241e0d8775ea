//! Phases of a run and their time limits.

use super::ManagerConfig;
use crate::machine::{Deadline, Why};
use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// The run waits for its nodes, at most until this time.
    Waiting {
        until: Timestamp,
    },
    Running,
    /// There are no more triggers. Events in flight may finish until this time, which is extended while there is progress.
    Draining {
        until: Timestamp,
    },
    /// All events have ended. Nodes may report until this time.
    Closing {
        until: Timestamp,
    },
    Closed,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RunPhase {
    phase: Phase,
    stop_asked: bool,
    /// Whether a second stop was requested: events in flight are dropped, even if a node works on them.
    is_cut: bool,
    /// Whether the start is held.
    is_held: bool,
    /// Whether an operator has paused the run, if it is in progress.
    is_paused: bool,
    /// Whether too few nodes are left, and triggers wait for others.
    is_held_back: bool,
    start_timeout: Nanos,
    stop_timeout: Nanos,
    /// Time that a connected node may take for its next message when the run closes.
    silence: Nanos,
}

impl RunPhase {
    pub(super) fn new(config: &ManagerConfig, now: Timestamp) -> Self {
        Self {
            phase: Phase::Waiting { until: now + config.start_timeout },
            stop_asked: false,
            is_cut: false,
            is_held: false,
            is_paused: false,
            is_held_back: false,
            start_timeout: config.start_timeout,
            stop_timeout: config.stop_timeout,
            silence: config.patience.silence,
        }
    }

    pub(super) fn get(self) -> Phase {
        self.phase
    }

    pub(super) fn is_running(self) -> bool {
        self.phase == Phase::Running
    }

    /// Returns whether the start is held.
    pub(super) fn is_held(self) -> bool {
        self.is_held && matches!(self.phase, Phase::Waiting { .. })
    }

    /// Returns whether the run is in progress and takes no triggers because it is paused, for whatever reason.
    pub(super) fn is_paused(self) -> bool {
        (self.is_paused || self.is_held_back) && self.is_running()
    }

    /// Returns whether the run is in progress and an operator has paused it.
    pub(super) fn is_paused_by_operator(self) -> bool {
        self.is_paused && self.is_running()
    }

    pub(super) fn is_closed(self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns whether events are built: the run is in progress or draining.
    pub(super) fn builds(self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Draining { .. })
    }

    /// Returns whether all events have ended.
    pub(super) fn is_over(self) -> bool {
        matches!(self.phase, Phase::Closing { .. } | Phase::Closed)
    }

    /// Returns whether a second stop was requested.
    pub(super) fn is_cut(self) -> bool {
        self.is_cut
    }

    /// Returns the deadline of the phase.
    pub(super) fn deadline(self) -> Option<Deadline> {
        match self.phase {
            Phase::Waiting { until } => Some(Deadline { at: until, why: Why::Start }),
            Phase::Draining { until } | Phase::Closing { until } => {
                Some(Deadline { at: until, why: Why::Drain })
            }
            Phase::Running | Phase::Closed => None,
        }
    }

    /// Restarts the time limit of a run that has not started.
    pub(super) fn wait_again(&mut self, now: Timestamp) {
        self.phase = Phase::Waiting { until: now + self.start_timeout };
    }

    /// Holds the start, or releases it: its time limit then begins.
    pub(super) fn hold(&mut self, now: Timestamp, held: bool) {
        if self.is_held != held && matches!(self.phase, Phase::Waiting { .. }) {
            self.is_held = held;
            self.wait_again(now);
        }
    }

    /// Pauses a run that is in progress, or resumes it.
    pub(super) fn pause(&mut self, paused: bool) {
        self.is_paused = paused && self.is_running();
    }

    /// Takes no triggers because too few nodes are left, or takes them again.
    pub(super) fn hold_back(&mut self, held_back: bool) {
        self.is_held_back = held_back && self.is_running();
    }

    pub(super) fn start(&mut self) {
        self.phase = Phase::Running;
    }

    /// Ends a run that cannot begin or has lost all nodes of a role. Events in flight have no time to finish.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        self.phase = Phase::Draining { until: now };
    }

    /// Ends the triggers, or restarts the time limit of events in flight.
    pub(super) fn drain(&mut self, now: Timestamp) {
        self.phase = Phase::Draining { until: now + self.stop_timeout };
    }

    /// Restarts the time limit of a draining run because there is progress, unless the limit has passed.
    pub(super) fn prolong_draining(&mut self, now: Timestamp) {
        if let Phase::Draining { until } = &mut self.phase
            && *until > now
        {
            *until = now + self.stop_timeout;
        }
    }

    /// Restarts the time limit of a draining run because events are assigned again, even if the limit has just passed.
    pub(super) fn drain_again(&mut self, now: Timestamp) {
        if matches!(self.phase, Phase::Draining { .. }) && !self.is_cut {
            self.drain(now);
        }
    }

    /// Excludes time for which this node itself was stalled: neither the arrival of a node nor progress could be reported to it.
    pub(super) fn exclude(&mut self, stall: Nanos) {
        match &mut self.phase {
            Phase::Waiting { until } | Phase::Draining { until } | Phase::Closing { until }
                if !self.is_cut =>
            {
                *until += stall;
            }
            _ => {}
        }
    }

    /// Extends the wait of a closing run for the next report, unless its time is over. A node that sends new
    /// messages is alive.
    pub(super) fn prolong_closing(&mut self, now: Timestamp) {
        if let Phase::Closing { until } = &mut self.phase
            && *until > now
        {
            *until = now + self.silence;
        }
    }

    /// Records a request to stop the run.
    pub(super) fn stop(&mut self, now: Timestamp) {
        let again = std::mem::replace(&mut self.stop_asked, true);
        match self.phase {
            Phase::Waiting { .. } | Phase::Running => self.drain(now),
            // A run that is already ending is not cut short by the first stop.
            Phase::Draining { .. } | Phase::Closing { .. } if !again => {}
            Phase::Draining { .. } => {
                self.is_cut = true;
                self.phase = Phase::Draining { until: now };
            }
            Phase::Closing { .. } => {
                self.is_cut = true;
                self.phase = Phase::Closing { until: now };
            }
            Phase::Closed => {}
        }
    }

    pub(super) fn begin_closing(&mut self, now: Timestamp) {
        self.phase = Phase::Closing { until: now + self.silence };
    }

    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
    }
}
