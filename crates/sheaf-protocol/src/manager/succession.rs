//! Runs that follow one another in the same nodes, without a gap: the one that ends hands over to the next.
//!
//! The triggers of one run end at an instant, and those of the next begin at the same instant, with the event that follows. In between
//! lies the time in which the last events of the first run end, nodes report, and the roles of the next run are made; the driver keeps the
//! triggers of that time and passes them, with their times, once the next run has started. Readout units keep the fragments of the next
//! run ([`Command::HandOver`]). Each run has roles, sessions, files and books of its own.

use super::EventManager;
use sheaf_wire::message::Command;
use sheaf_wire::{EventId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Sets whether another run follows in the same nodes. Has an effect until the run closes, if it
    /// [can be paused](Self::can_pause): where the data announce the triggers, readout units would not agree on the first event.
    pub fn set_handover(&mut self, hands_over: bool) {
        self.hands_over = hands_over && self.can_pause();
    }

    /// Returns the command by which a node closes.
    pub(super) fn closing_command(&self) -> Command {
        match self.hands_over {
            true => Command::HandOver { first: self.next_event() },
            false => Command::Close,
        }
    }

    /// Returns whether another run follows in the same nodes.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Returns an event above all that were triggered: the first one of the next run.
    #[must_use]
    pub fn next_event(&self) -> EventId {
        self.flow.above_all()
    }

    /// Returns the time at which the triggers of the run ended.
    #[must_use]
    pub fn triggers_ended_at(&self) -> Option<Timestamp> {
        self.dead_time.ended_at()
    }

    /// Begins the time of the run at `at`, where the run before it has ended, although it starts later. The driver passes the triggers since
    /// then after the start. Must be called before the start.
    pub fn begin_at(&mut self, at: Timestamp) {
        self.begins_at = Some(at);
    }
}
