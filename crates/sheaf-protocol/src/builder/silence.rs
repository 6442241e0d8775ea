//! Readout units that do not answer: they are asked again, and given up when they are lost.

use super::owing::Owing;
use super::{AssemblyKey, BuilderUnit, IncompletePolicy};
use crate::ledger::Counter;
use sheaf_wire::message::{Assignment, ReadoutExclusion};
use sheaf_wire::{EventId, MissingReason, MissingSource, Nanos, Payload, Timestamp};

impl<P: Payload> BuilderUnit<P> {
    /// Returns whether a readout unit is given up. If the builder has received nothing from the event manager
    /// in the meantime either, the builder itself may be disconnected, and the readout unit is not given up.
    fn is_lost(&self, now: Timestamp, readout: u16) -> bool {
        let Some(readout) = self.readouts.get(usize::from(readout)) else {
            return true;
        };
        self.is_connected_without(readout) && readout.is_lost(now, self.config.patience)
    }

    /// Returns whether the event manager was heard while a readout unit was not. If the unit has a mirror, later than at the beginning of that
    /// time: long enough to let the mirror act.
    fn is_connected_without(&self, readout: &Owing) -> bool {
        let time = if self.config.mirrored { self.config.patience.absence.0 / 2 } else { 0 };
        let at_least = readout.quiet_since() + Nanos(time);
        self.channel.liveness().sign_at() >= Some(at_least)
    }

    /// Returns whether an event is not to wait for a readout unit any longer.
    fn is_in_vain(&self, now: Timestamp, event: EventId, readout: u16) -> bool {
        self.absent.is_excluded(readout, event)
            || self.absent.is_excluded_for(now, readout, self.config.event_timeout)
            || (self.gives_up() && (self.absent.is_given_up(readout) || self.is_lost(now, readout)))
    }

    /// Restarts the time limits of readout units whose links are down, if nothing was heard of the event manager for a good part of them: it
    /// could not let their mirrors act.
    pub(super) fn excuse_absent_readouts(&mut self, now: Timestamp) {
        let silence = now.since(self.channel.liveness().quiet_since(now));
        if !self.config.mirrored || silence.0 < self.config.patience.absence.0 / 2 {
            return;
        }
        for readout in self.absent.down() {
            self.readouts[usize::from(readout)].liveness.excuse(now);
        }
    }

    fn gives_up(&self) -> bool {
        self.config.incomplete != IncompletePolicy::Wait
    }

    pub(super) fn give_up_waiting(&mut self, now: Timestamp, event: EventId) {
        let Some(key) = self.assemblies.find(event) else {
            return;
        };
        if !self.give_up_absent(now, key) {
            // The remaining readout units are alive and will answer.
            self.waits.check_life_again(now, key, &self.assemblies);
        }
    }

    /// Ends the waits of an event for readout units that are absent. Returns whether it waits for no other, and is complete.
    pub(super) fn give_up_absent(&mut self, now: Timestamp, key: AssemblyKey) -> bool {
        let absent: Vec<u16> = {
            let is_in_vain = |readout: &u16| self.is_in_vain(now, key.event, *readout);
            self.assemblies[key].awaited_readouts().filter(is_in_vain).collect()
        };
        for readout in absent {
            let is_excluded = self.absent.is_excluded(readout, key.event);
            if !is_excluded {
                self.absent.give_up(readout);
            }
            self.give_up(key, readout, is_excluded);
        }
        let is_complete = self.assemblies[key].awaited == 0;
        if is_complete {
            self.complete(now, key);
        }
        is_complete
    }

    /// Ends the waits of events that are assigned for readout units that are absent.
    pub(super) fn build_without_absent(&mut self, now: Timestamp, assignments: &[Assignment]) {
        for assignment in assignments {
            if let Some(key) = self.assemblies.find(assignment.event) {
                self.give_up_absent(now, key);
            }
        }
    }

    /// Gives up readout units whose links have been down for too long, in all events at once.
    pub(super) fn give_up_the_lost(&mut self, now: Timestamp) {
        let lost: Vec<u16> = self.absent.down().filter(|readout| self.is_lost(now, *readout)).collect();
        if lost.is_empty() || !self.gives_up() {
            return;
        }
        lost.into_iter().for_each(|readout| self.absent.give_up(readout));
        for key in self.assemblies.waiting() {
            self.give_up_absent(now, key);
        }
    }

    /// Returns the time at which the next readout unit is lost whose link is down. `None` while the builder itself may be
    /// disconnected.
    pub(super) fn next_loss(&self) -> Option<Timestamp> {
        let at = |readout: u16| {
            let readout = &self.readouts[usize::from(readout)];
            self.is_connected_without(readout).then(|| readout.lost_at(self.config.patience))
        };
        if self.gives_up() { self.absent.down().filter_map(at).min() } else { None }
    }

    /// Follows an order of the event manager about a readout unit.
    pub(super) fn handle_exclusion(&mut self, now: Timestamp, order: ReadoutExclusion) {
        if usize::from(order.readout) >= self.readouts.len() {
            self.books.count(Counter::UnexpectedMessages, 1);
            return;
        }
        self.absent.exclude(now, order, self.assemblies.under_construction());
    }

    /// Stops waiting for a readout unit's answer for an event, which does not have the unit, or has not received its answer.
    fn give_up(&mut self, key: AssemblyKey, readout: u16, is_excluded: bool) {
        let assembly = &mut self.assemblies[key];
        let index = usize::from(readout);
        let sources = match &assembly.selection {
            Some(selection) => &selection.of(index)[..],
            None => &self.config.readouts[index].sources[..],
        };
        let reason = if is_excluded { MissingReason::Excluded } else { MissingReason::ReadoutSilent };
        assembly.missing.extend(sources.iter().map(|source| MissingSource { source: *source, reason }));
        if is_excluded {
            assembly.pass_over(readout);
        } else {
            assembly.end_wait(readout);
        }
        self.asks.give_up(readout, assembly);
    }

    /// Repeats all requests to a readout unit whose link is up again: those that were on their way are lost, or wait for its mirror.
    pub(super) fn ask_for_all_again(&mut self, readout: u16) {
        for key in self.assemblies.waiting() {
            let assembly = &mut self.assemblies[key];
            if assembly.awaited_readouts().any(|awaited| awaited == readout) && assembly.was_asked(readout) {
                self.books.count(Counter::RetriedRequests, 1);
                self.asks.ask_again(readout, assembly);
            }
        }
    }

    pub(super) fn ask_again(&mut self, now: Timestamp, event: EventId) {
        let Some(key) = self.assemblies.find(event) else {
            return;
        };
        self.waits.retry_again(now, key, &self.assemblies);
        let assembly = &mut self.assemblies[key];
        // If requests wait for credit, the time counts from the last request that was sent.
        let is_young = self.asks.is_bounded() && now.since(assembly.asked_at) < self.config.request_retry;
        if is_young || !assembly.note_silence() {
            return;
        }
        let silent: Vec<u16> =
            assembly.awaited_readouts().filter(|readout| assembly.was_asked(*readout)).collect();
        self.books.count(Counter::RetriedRequests, silent.len() as u64);
        for readout in silent {
            self.asks.ask_again(readout, &mut self.assemblies[key]);
        }
    }
}
