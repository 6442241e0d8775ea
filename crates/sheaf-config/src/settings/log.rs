//! The log of a run.

use super::{GIB, KIB, MIB};
use crate::choice::choice;
use crate::codec::{bytes, pick};
use crate::knob::section;
use sheaf_wire::ByteCount;

choice! {
    /// Form of messages on standard error.
    LogFormat {
        /// for people: severity, text, and the code of a warning or an error
        Text = "text",
        /// for programs: one JSON object a line
        Json = "json",
    }
}

section! {
    /// The [log](log.md) of a run.
    Log "log" {
        /// Form of messages on standard error. Flag: `--log`.
        format: LogFormat = LogFormat::Text, "format", pick();
        /// Upper limit of the log in the directory of a run. Messages beyond it are on standard error only.
        max: ByteCount = ByteCount(64 * MIB), "max_bytes", bytes(64 * KIB, GIB);
    }
}
