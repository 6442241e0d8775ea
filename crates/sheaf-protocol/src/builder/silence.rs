//! Readout units that do not answer: they are asked again, and given up when they are lost.

use super::{AssemblyKey, BuilderUnit};
use crate::ledger::Counter;
use sheaf_wire::{EventId, MissingReason, MissingSource, Payload, Timestamp};

impl<P: Payload> BuilderUnit<P> {
    /// Returns whether a readout unit is given up. If the builder has received nothing from the event manager
    /// in the meantime either, the builder itself may be disconnected, and the readout unit is not given up.
    fn is_lost(&self, now: Timestamp, readout: u16) -> bool {
        let Some(readout) = self.readouts.get(usize::from(readout)) else {
            return true;
        };
        let is_connected = self.channel.liveness().sign_at() >= Some(readout.quiet_since());
        is_connected && readout.is_lost(now, self.config.patience)
    }

    pub(super) fn give_up_waiting(&mut self, now: Timestamp, event: EventId) {
        let Some(key) = self.assemblies.find(event) else {
            return;
        };
        let lost: Vec<u16> = {
            let is_lost = |readout: &u16| self.is_lost(now, *readout);
            self.assemblies[key].awaited_readouts().filter(is_lost).collect()
        };
        for readout in lost {
            self.give_up(key, readout);
        }
        if self.assemblies[key].awaited > 0 {
            // The remaining readout units are alive and will answer.
            self.waits.check_life_again(now, key, &self.assemblies);
            return;
        }
        self.complete(now, key);
    }

    /// Stops waiting for a readout unit's answer for an event.
    fn give_up(&mut self, key: AssemblyKey, readout: u16) {
        let assembly = &mut self.assemblies[key];
        let index = usize::from(readout);
        let sources = match &assembly.selection {
            Some(selection) => &selection.of(index)[..],
            None => &self.config.readouts[index].sources[..],
        };
        let reason = MissingReason::ReadoutSilent;
        assembly.missing.extend(sources.iter().map(|source| MissingSource { source: *source, reason }));
        assembly.end_wait(readout);
        self.asks.give_up(readout, assembly);
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
