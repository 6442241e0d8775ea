//! Run control by `sheaf serve`.

use super::HOUR;
use crate::codec::milliseconds;
use crate::knob::section;
use sheaf_wire::Nanos;

section! {
    /// [Run control](../operating/control.md) by `sheaf serve`.
    Control "control" {
        /// Time from a command to stop until the events in flight are dropped. A run that makes progress for longer needs more.
        stop_timeout: Nanos = Nanos::from_secs(300), "stop_timeout_ms", milliseconds(Nanos::from_millis(100), HOUR);
        /// Time from then until the processes of the run are killed.
        cut_timeout: Nanos = Nanos::from_secs(60), "cut_timeout_ms", milliseconds(Nanos::from_millis(100), HOUR);
        /// Time for which an operator has the lock, unless it is renewed.
        lock: Nanos = Nanos::from_secs(300), "lock_ms", milliseconds(Nanos::from_secs(1), HOUR);
    }
}
