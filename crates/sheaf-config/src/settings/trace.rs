//! Traces of single events.

use super::{GIB, HOUR, MIB};
use crate::codec::{bytes, milliseconds, whole};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};

section! {
    /// [Traces](../operating/traces.md) of events that are slow, incomplete, dropped or quarantined.
    Trace "trace" {
        /// Maximum size of the file of traces of a run; 0: no traces. Events that are traced as a sample get a quarter of it.
        file: ByteCount = ByteCount(64 * MIB), "file_bytes", bytes(0, 64 * GIB);
        /// Time from a trigger to the end of its event from which on the event is slow.
        slow: Nanos = Nanos::from_secs(1), "slow_ms", milliseconds(Nanos::from_millis(1), HOUR);
        /// One in so many events is traced without being remarkable, for comparison; 0: none.
        sample: u64 = 1_000, "sample", whole(0, 1_000_000_000);
    }
}
