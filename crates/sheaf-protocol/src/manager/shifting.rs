//! Coordination about event numbers that do not agree: reports of builder units, orders to readout units, and the end of the run.

use super::shifts::{Answered, Shifts};
use super::{EventManager, ManagerEvent, Phase};
use crate::ledger::Counter;
use crate::numbering::Shift;
use sheaf_wire::message::{Body, Disagreement, Renumbered};
use sheaf_wire::{NodeId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Returns the shifts found so far.
    #[must_use]
    pub fn shifts(&self) -> &[Shift] {
        self.shifts.as_ref().map_or(&[], |shifts| shifts.found())
    }

    pub(super) fn handle_disagreements(&mut self, reports: &[Disagreement]) {
        if matches!(self.phase.get(), Phase::Closing { .. } | Phase::Closed) {
            // Reports precede the end of their event, and all have ended.
            self.counters.count(Counter::StaleMessages, 1);
            return;
        }
        match &mut self.shifts {
            Some(shifts) => shifts.note(reports),
            None => self.counters.count(Counter::UnexpectedMessages, 1),
        }
    }

    pub(super) fn handle_renumbered(&mut self, now: Timestamp, answer: Renumbered) {
        if self.records.is_closed() {
            // No event has these fragments, and event files could not say that they are renumbered.
            self.counters.count(Counter::StaleMessages, 1);
            return;
        }
        match self.shifts.as_mut().map(|shifts| shifts.note_renumbered(answer)) {
            Some(Answered::Announced(shift)) => self.events.push_back(ManagerEvent::ShiftRepaired(shift)),
            Some(Answered::Unannounced) => {}
            Some(Answered::Unexpected) | None => self.counters.count(Counter::UnexpectedMessages, 1),
        }
        self.record_shifts(now);
    }

    /// Has every event file that is not closed say what is known of the announced shifts.
    fn record_shifts(&mut self, now: Timestamp) {
        while !self.records.is_closed()
            && let Some(shift) = self.shifts.as_mut().and_then(Shifts::next_to_record)
        {
            self.records.keep_own(shift.to_run_record(now));
        }
    }

    /// A readout unit that begins anew has no orders.
    pub(super) fn forget_renumbering(&mut self, readout: u16) {
        if let Some(shifts) = &mut self.shifts {
            shifts.note_restart(readout);
        }
    }

    /// Reports shifts whose beginning is certain, and ends the run where that is wanted.
    pub(super) fn announce_shifts(&mut self, now: Timestamp) {
        let Some(shifts) = self.shifts.as_mut().filter(|shifts| shifts.has_news()) else { return };
        let oldest = self.flow.oldest();
        let mut some = false;
        while let Some(shift) = shifts.announce(oldest) {
            self.events.extend(news_of(shift));
            some = true;
        }
        self.record_shifts(now);
        let Some(shifts) = &self.shifts else { return };
        if some && shifts.stops() && self.phase.is_running() {
            self.dead_time.end(now);
            self.phase.drain(now);
        }
    }

    fn announce_all_shifts(&mut self) {
        while let Some(shift) = self.shifts.as_mut().and_then(|shifts| shifts.announce(None)) {
            self.events.extend(news_of(shift));
        }
    }

    /// Looks for shifts in the last events of a run.
    pub(super) fn finish_shifts(&mut self, now: Timestamp) {
        if let Some(shifts) = &mut self.shifts {
            shifts.finish();
            self.announce_all_shifts();
            self.record_shifts(now);
        }
    }

    /// Sends orders to readout units.
    pub(super) fn renumber(&mut self) {
        let Self { shifts: Some(shifts), peers, .. } = self else { return };
        while let Some((readout, order)) = shifts.next_order(|index| peers.is_open(NodeId::readout(index))) {
            peers.push(NodeId::readout(readout), Body::Renumber(order));
        }
    }
}

/// Returns the events for the driver about a shift whose beginning is certain. It may have been repaired before that.
fn news_of(shift: Shift) -> impl Iterator<Item = ManagerEvent> {
    let found = ManagerEvent::ShiftFound(Shift { repaired_from: None, ..shift });
    let repaired = shift.repaired_from.map(|_| ManagerEvent::ShiftRepaired(shift));
    [Some(found), repaired].into_iter().flatten()
}
