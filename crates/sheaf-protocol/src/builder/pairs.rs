//! Figures of each readout unit, as this builder unit sees it.

use super::BuilderUnit;
use sheaf_wire::{ByteCount, Nanos, Payload, Timestamp};

impl<P: Payload> BuilderUnit<P> {
    /// Writes for each readout unit the time since the assignment of the oldest event that waits for an answer of it; 0 if none does.
    /// Without credit for a request, an event does not wait for the readout unit. The time begins again with each part of an event.
    ///
    /// Its cost grows with the number of answers that are awaited: it is for reports, a few times a second. It does not allocate.
    pub fn write_waits(&self, now: Timestamp, waits: &mut [Nanos]) {
        waits.fill(Nanos::ZERO);
        self.assemblies.raise_waits(now, waits);
    }

    /// Returns the payload that each readout unit has sent in answers to this session, without answers that were not used.
    pub fn received(&self) -> impl ExactSizeIterator<Item = ByteCount> {
        self.readouts.iter().map(|readout| readout.received)
    }
}
