//! Pauses of a run: from a pause to the next resumption no trigger is taken, and events in flight are built.
//!
//! The time of a pause is dead time with the cause [`DeadTimeCause::Paused`]. Triggers of the driver are vetoed, free triggers stop,
//! and a trigger supervisor is sent busy ([`Receiver::handle_pause`]): triggers that it sent before are accepted.
//! A run that waits for lost nodes ([`LossAction::Pause`]) is paused in the same way, with the cause [`DeadTimeCause::TooFewNodes`]. It takes
//! triggers when there is neither reason.
//!
//! The event manager notifies readout units, because programs that feed their sources see the pause. The channel delivers each command
//! once and in order, and a new session of a readout unit begins with a command to join. So the event manager remembers the last state
//! that it sent in each session, and sends only changes. A unit that reads more slowly than pauses follow each other gets the latest state.

use super::{EventManager, readout_node};
#[cfg(doc)]
use crate::manager::{DeadTimeCause, LossAction};
#[cfg(doc)]
use crate::trigger_link::Receiver;
use sheaf_wire::Timestamp;
use sheaf_wire::message::{Body, Command};

impl<P: Clone> EventManager<P> {
    /// Returns whether the run [can be paused](super::config::Triggers::can_pause).
    #[must_use]
    pub fn can_pause(&self) -> bool {
        self.config.triggers.can_pause()
    }

    /// Returns whether the run is in progress and paused, by an operator or because too few nodes are left.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.phase.is_paused()
    }

    /// Returns whether the run is in progress and an operator has paused it.
    #[must_use]
    pub fn is_paused_by_operator(&self) -> bool {
        self.phase.is_paused_by_operator()
    }

    /// Pauses the run at `at`, or resumes it. The driver has passed all triggers that happened until then. No effect if the run is not
    /// in progress or [cannot be paused](Self::can_pause).
    pub fn handle_pause(&mut self, at: Timestamp, paused: bool) {
        if !self.phase.is_running() || !self.can_pause() || self.phase.is_paused_by_operator() == paused {
            return;
        }
        self.phase.pause(paused);
        self.dead_time.turn(at, self.shut());
    }

    /// Tells readout units whether the run is paused, unless they know.
    pub(super) fn announce_pause(&mut self) {
        if !self.phase.is_running() {
            return;
        }
        let paused = self.phase.is_paused();
        for index in 0..self.readouts.len() {
            let node = readout_node(index);
            if self.peers.is_open(node) && self.readouts.tell_pause(index, paused) {
                let command = if paused { Command::Pause } else { Command::Resume };
                self.peers.push(node, Body::Command(command));
            }
        }
    }
}
