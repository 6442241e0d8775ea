//! Events that are built in parts: each part is requested when the decision on the one before it asks for more.

use super::driver::QueuedEvent;
use super::{AssemblyKey, BuilderUnit, IncompletePolicy, More};
use crate::event_range::EventIdRange;
use crate::ledger::Counter;
use sheaf_wire::message::Assignment;
use sheaf_wire::{EventId, Payload, Timestamp};

impl<P: Payload> BuilderUnit<P> {
    pub(super) fn begin_in_parts(&mut self, now: Timestamp, assignments: &[Assignment]) {
        for assignment in assignments {
            if let Some(key) = self.assemblies.find(assignment.event) {
                self.parts.begin(&mut self.assemblies[key]);
                self.await_part(now, assignment.event);
            }
        }
    }

    /// Requests more of an event. Returns `false` if none of the wanted sources is left.
    pub(super) fn build_on(&mut self, now: Timestamp, key: AssemblyKey, more: &More) -> bool {
        if !self.parts.begin_next(&mut self.assemblies[key], more, &self.config.readouts) {
            return false;
        }
        self.assemblies[key].begun_at = now;
        self.books.count(Counter::ContinuedEvents, 1);
        self.await_part(now, key.event);
        true
    }

    /// Requests the part of an event that has begun, and completes the part if nothing is awaited for it.
    fn await_part(&mut self, now: Timestamp, event: EventId) {
        let Some(key) = self.assemblies.find(event) else {
            return;
        };
        let assembly = &self.assemblies[key];
        self.parts.ask(assembly, self.config.readouts.len(), &mut self.asks);
        if assembly.awaited == 0 {
            // No source answers triggers of this type, or all remaining ones were silent before.
            self.complete(now, key);
        } else {
            self.waits.begin(now, key, &self.assemblies);
            if self.absent.concern(EventIdRange::one(event)) {
                self.give_up_absent(now, key);
            }
        }
    }

    /// Gives a part to the driver. Returns `false` if the event needs no decision on this part.
    pub(super) fn hand_over_part(&mut self, key: AssemblyKey) -> bool {
        let assembly = &mut self.assemblies[key];
        let incomplete = assembly.is_incomplete(&self.config.optional);
        if assembly.is_last || (incomplete && self.config.incomplete == IncompletePolicy::Drop) {
            return false;
        }
        self.asks.give_up_all(assembly);
        assembly.sort();
        assembly.sum_up(incomplete);
        assembly.at_driver = true;
        self.queued.push_back(QueuedEvent::Part(key));
        true
    }
}
