//! Readout units that events under construction wait for.

use super::{Assemblies, NOT_ASKED, Stage};
use sheaf_wire::{Nanos, Payload, Timestamp};

impl<P: Payload> Assemblies<P> {
    /// Raises the entry of each readout unit to the time since the assignment of the oldest event that waits for it. Requests that wait
    /// for credit do not count. Visits all events, and of each only the readout units that it waits for.
    pub(in crate::builder) fn raise_waits(&self, now: Timestamp, waits: &mut [Nanos]) {
        let waiting = |assembly: &&_| is_waiting(assembly);
        for assembly in self.assemblies.iter().filter(waiting) {
            let age = now.since(assembly.begun_at);
            assembly.answered.each_absent(|readout| {
                let is_asked = assembly.charges.get(readout).is_none_or(|charge| *charge != NOT_ASKED);
                if let Some(wait) = waits.get_mut(readout).filter(|wait| is_asked && **wait < age) {
                    *wait = age;
                }
            });
        }
    }
}

fn is_waiting<P>(assembly: &super::Assembly<P>) -> bool {
    assembly.stage == Stage::Building && assembly.awaited > 0
}
