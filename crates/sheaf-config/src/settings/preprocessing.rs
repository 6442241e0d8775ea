//! Active readout units.

use super::{HOUR, KIB, MIB, TIB};
use crate::codec::{
    bytes, maybe, milliseconds, parameters, path, source_list, switch, symbol, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::path::PathBuf;

section! {
    /// Active readout: readout units process requested fragments before they send them: compaction, zero suppression,
    /// features in place of samples. See [active readout](../concepts/active-readout.md).
    Preprocessing "preprocessing" {
        /// Shared library with the preprocessor, loaded when the run starts. Without it fragments are sent unchanged.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// Function of the library that returns the preprocessor.
        symbol: String = "sheaf_preprocessor".into(), "symbol", symbol();
        /// Text that is passed to the preprocessor, such as a threshold. Sheaf does not interpret it.
        parameters: String = String::new(), "parameters", parameters();
        /// Sources whose fragments are processed; empty: all.
        sources: Vec<SourceId> = Vec::new(), "sources", source_list();
        /// Number of workers of each readout unit; each is a thread with its own preprocessor.
        workers: u16 = 1, "workers", whole(1, 1_024);
        /// Whether each worker has its preprocessor in a process, which is restarted when it dies or hangs. Otherwise
        /// it is part of the readout unit's process: about ten microseconds a fragment faster, but a crash ends the
        /// unit.
        processes: bool = false, "processes", switch();
        /// A readout unit begins answers as long as fewer events than this are being processed; beyond, requests wait.
        outstanding_events: u32 = 1_024, "outstanding_events", whole(1, 1 << 20);
        /// Time with one fragment after which a worker counts as hung: it is replaced, and its fragments are sent
        /// unchanged. With `processes` its process is killed and restarted, and only that fragment is sent unchanged.
        /// Choose a time longer than any call of a working preprocessor. 0: no limit.
        time_limit: Option<Nanos> = Some(Nanos::from_secs(300)), "time_limit_ms",
            zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
        /// Number of bytes by which a result may exceed its fragment, for features in addition to the raw data. Larger
        /// answers are divided between messages; if the results of one event exceed a frame, its fragments are sent
        /// unchanged.
        extra: ByteCount = ByteCount::ZERO, "extra_bytes", bytes(0, 64 * MIB);
        /// Maximum memory for the results of one worker that builder units still use; one result may take an eighth
        /// of it. If it is full, fragments are sent unchanged.
        memory: ByteCount = ByteCount(8 * MIB), "memory_bytes", bytes(512 * KIB, TIB);
    }
}
