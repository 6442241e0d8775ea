//! Room for events: which ones go back to the event manager.

use super::returns::Room;
use super::{AssemblyKey, BuilderUnit};
use sheaf_wire::{ByteCount, DropReason, Payload, Timestamp};

impl<P: Payload> BuilderUnit<P> {
    /// Frees memory when an event has grown beyond the limit. The youngest events are given back first. If
    /// there are no younger ones, the event itself is given back.
    pub(super) fn make_room(&mut self, now: Timestamp, key: AssemblyKey) {
        while self.held > self.config.memory {
            let youngest =
                self.assemblies.youngest(|assembly| assembly.bytes > ByteCount::ZERO).unwrap_or(key);
            // Events that exceed the memory limit on their own are tried a bounded number of times, even if others
            // could make way: otherwise they would return without end.
            let is_too_large = self.assemblies[youngest].bytes > self.config.memory;
            let reason = is_too_large.then_some(DropReason::BuilderOutOfMemory);
            let charged = ByteCount(u64::from(self.assemblies[youngest].charged));
            let Room { slots, bytes } = self.returns.withheld();
            self.give_back(now, youngest, reason);
            if !is_too_large {
                self.returns.withhold(Room { slots: slots + 1, bytes: bytes + charged });
            }
            if youngest == key {
                return;
            }
        }
        if self.assemblies[key].awaited == 0 {
            self.complete(now, key);
        }
    }

    /// Gives the youngest event back at once, because an older event waits for a slot and may block all others. Its room is for the
    /// older one. Room that is withheld stays so: if the older event was given back for lack of memory, both would come back, and
    /// exceed the memory again.
    pub(super) fn give_way(&mut self, now: Timestamp) {
        if let Some(youngest) = self.assemblies.youngest(|_| true) {
            let withheld = self.returns.withheld();
            self.give_back(now, youngest, None);
            if withheld.slots > 0 {
                self.returns.withhold(withheld);
            }
            self.returns.hurry(now);
        }
    }
}
