//! Windows of hits.

use super::{GIB, HOUR, KIB, TIB};
use crate::codec::{bytes, maybe, microseconds, path};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos};
use std::path::PathBuf;

section! {
    /// Windows of hits around the times of triggers, with `source.build_by = "window"`. Readout units keep the hits of free-running front
    /// ends, and only hits in windows leave them. See [time windows](../concepts/time-windows.md).
    Windows "windows" {
        /// Time before the trigger that belongs to its window. A type of trigger may have its own.
        before: Nanos = Nanos::from_micros(1), "before_us", microseconds(Nanos::ZERO, HOUR);
        /// Time from the trigger on that belongs to its window. A hit at the end of this time does not.
        after: Nanos = Nanos::from_micros(1), "after_us", microseconds(Nanos::ZERO, HOUR);
        /// Memory for the hits of each source, of 16 bytes each. It bounds how late a trigger may be: the time between its hits and its
        /// arrival.
        memory: ByteCount = ByteCount(64 << 20), "memory_bytes", bytes(64 * KIB, TIB);
        /// Directory of a hit spool, which takes the hits that no longer fit in memory. Each readout unit has a directory in it, `ru0` and so
        /// on, that `sheaf extract` reads. Relative paths start at the working directory of the process. Default: none; the oldest
        /// hits are deleted.
        spool: Option<PathBuf> = None, "spool", maybe(path());
        /// Maximum size of the hit spool of each readout unit. The oldest hits are deleted to keep it.
        spool_bytes: ByteCount = ByteCount(16 * GIB), "spool_bytes", bytes(8 << 20, 1024 * TIB);
    }
}
