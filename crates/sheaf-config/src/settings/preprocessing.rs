//! Active readout units.

use super::{HOUR, KIB, MIB, TIB};
use crate::codec::{
    bytes, id_list, maybe, milliseconds, parameters, path, switch, symbol, whole, zero_is_none,
};
use crate::knob::section;
use sheaf_wire::{ByteCount, Nanos, SourceId};
use std::path::PathBuf;

section! {
    /// Active readout: readout units process fragments that were asked for, before they leave: compaction, zero suppression,
    /// features in place of samples. See [active readout](../concepts/active-readout.md).
    Preprocessing "preprocessing" {
        /// The shared library that processes fragments, which is loaded when the run starts. Without it fragments leave as their
        /// sources sent them.
        path: Option<PathBuf> = None, "path", maybe(path());
        /// The function of the library that gives the preprocessor.
        symbol: String = "sheaf_preprocessor".into(), "symbol", symbol();
        /// A text for the preprocessor alone, such as a threshold; what is in it is the preprocessor's choice.
        parameters: String = String::new(), "parameters", parameters();
        /// The sources whose fragments are processed; none stands for all. Numbers, or ranges such as `"10-19"`.
        sources: Vec<SourceId> = Vec::new(), "sources", id_list(u64::from(u32::MAX));
        /// How many workers each readout unit has; each is a thread with a preprocessor of its own.
        workers: u16 = 1, "workers", whole(1, 1_024);
        /// Whether each worker has its preprocessor in a process, which is started again when it dies or hangs. Otherwise it is a
        /// part of the readout unit's process: some ten microseconds a fragment faster, but one that crashes takes the unit with it.
        processes: bool = false, "processes", switch();
        /// A readout unit begins answers as long as fewer events than this are being processed; beyond, requests wait.
        outstanding_events: u32 = 1_024, "outstanding_events", whole(1, 1 << 20);
        /// A worker that is with one fragment for this time is given up, and replaced: what it has leaves as it is. With
        /// `processes` its process is ended, and that one fragment leaves as it is. 0: it may take any time.
        time_limit: Option<Nanos> = Some(Nanos::from_secs(1)), "time_limit_ms",
            zero_is_none(milliseconds(Nanos::from_millis(1), HOUR));
        /// By how many bytes a result may be larger than its fragment: for features beside the raw data. Answers that have grown are
        /// divided between messages; where the results of one event were more than a frame can carry its fragments leave as they are.
        extra: ByteCount = ByteCount::ZERO, "extra_bytes", bytes(0, 64 * MIB);
        /// The memory that the results of one worker are in, at most, until builder units have let go of them; one result
        /// has at most an eighth of it. Where that is not enough fragments leave as they are.
        memory: ByteCount = ByteCount(8 * MIB), "memory_bytes", bytes(512 * KIB, TIB);
    }
}
