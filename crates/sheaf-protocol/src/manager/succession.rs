//! Runs that follow one another in the same nodes, without a gap: the one that ends hands over to the next.
//!
//! The triggers of one run end at an instant, and those of the next begin at the same instant, with the event that follows. In between
//! lies the time in which the last events of the first run end, nodes report, and the roles of the next run are made; the driver keeps the
//! triggers of that time and passes them, with their times, once the next run has started. Readout units keep the fragments of the next
//! run ([`Command::HandOver`]). Each run has roles, sessions, files and books of its own.
//!
//! Where the data announce the triggers, readout units have reached different events when the triggers end. The event manager then fixes
//! the first event of the next run: the one above all events that were announced so far. While the present run ends, it accepts
//! announcements of earlier events, even beyond the maximum number of events of the run. It ignores announcements of later events: the
//! readout unit keeps their fragments, and its role in the next run announces them again. When no event is in flight, the event manager
//! sends [`Command::Divide`]. Each readout unit sends its pending announcements, then a status that confirms the command. The run closes
//! when all units have confirmed. Fragments of earlier events that arrive after that belong to neither run, and are dropped.

use super::{EventManager, Triggers, readout_node};
use sheaf_wire::message::{Announcement, Body, Command};
use sheaf_wire::{EventId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Sets whether another run follows in the same nodes. Has an effect until the run closes. None follows if the data have ended: it
    /// would be empty, and so would all that follow it.
    pub fn set_handover(&mut self, hands_over: bool) {
        self.hands_over = hands_over && !self.is_exhausted;
    }

    /// Takes note that the sources have ended, before the run had all its events.
    pub(super) fn note_end_of_data(&mut self) {
        (self.is_exhausted, self.hands_over) = (true, false);
    }

    /// Accepts announced events of this run once its triggers have ended: those below the first event of the next run, if one follows.
    pub(super) fn accept_before_next(&mut self, now: Timestamp, announcements: &[Announcement]) {
        if self.hands_over {
            let next = self.divide();
            if self.flow.accept_announced_below(now, announcements, next) {
                self.phase.prolong_draining(now);
            }
        }
    }

    /// Returns whether readout units have announced all events of this run, and tells them to. True if that does not matter.
    pub(super) fn is_divided(&mut self, now: Timestamp) -> bool {
        if !self.hands_over || self.config.triggers != Triggers::Announced {
            return true;
        }
        self.divide();
        for index in 0..self.readouts.len() {
            let node = readout_node(index);
            if self.peers.is_open(node) && self.readouts.mark_divide_sent(index) {
                self.peers.push(node, Body::Command(Command::Divide));
            }
        }
        self.readouts
            .have_divided(|node| self.peers.is_lost(node, now) || self.is_excluded_and_silent(node, now))
    }

    /// Returns the first event of the next run. It stays the same from now on.
    fn divide(&mut self) -> EventId {
        *self.next_event.get_or_insert_with(|| self.flow.above_all())
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
        self.next_event.unwrap_or_else(|| self.flow.above_all())
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
