//! Values from outside of the run: slow control.

use super::HOUR;
use crate::choice::choice;
use crate::codec::{maybe, milliseconds, path, pick, prose, real, switch};
use crate::knob::section;
use sheaf_wire::Nanos;
use std::path::PathBuf;

/// Largest magnitude of a value and its limits: single precision, in which values over time are kept, has room for it.
const MOST: f64 = 1e30;

choice! {
    /// Moment from which on the age of a value in a file is counted.
    AgeFrom {
        /// since the file was written; one that nobody writes any more is stale
        Written = "written",
        /// since it was read; for files that show the present value without being written, such as those in `/sys`
        Read = "read",
    }
}

section! {
    /// A [value from outside](../howto/slow-control.md), such as a voltage or a temperature. Its name is that of the table. It is read from a file, or
    /// programs send it over HTTP.
    SlowValue "value.NAME" {
        /// Unit, as it is shown. Default: none.
        unit: Option<String> = None, "unit", maybe(prose());
        /// File with the number. Default: none, programs send the value.
        read: Option<PathBuf> = None, "read", maybe(path());
        /// Interval at which the file is read.
        period: Nanos = Nanos::from_secs(1), "period_ms", milliseconds(Nanos::from_millis(100), HOUR);
        /// Moment from which on the age of a value in a file is counted.
        age: AgeFrom = AgeFrom::Written, "age", pick();
        /// Age from which on a value is stale: its last number is not taken for the present one.
        stale: Nanos = Nanos::from_secs(30), "stale_ms", milliseconds(Nanos::from_millis(500), Nanos::from_secs(86_400));
        /// Whether a value that is stale or was never known raises an alarm.
        stale_alarm: bool = true, "stale_alarm", switch();
        /// A lower value raises a warning. Default: none.
        warning_below: Option<f64> = None, "warning_below", maybe(real(-MOST, MOST));
        /// A higher value raises a warning. Default: none.
        warning_above: Option<f64> = None, "warning_above", maybe(real(-MOST, MOST));
        /// A lower value raises an alarm that is an error. Default: none.
        error_below: Option<f64> = None, "error_below", maybe(real(-MOST, MOST));
        /// A higher value raises an alarm that is an error. Default: none.
        error_above: Option<f64> = None, "error_above", maybe(real(-MOST, MOST));
        /// Time for which a value must be outside of its limits before an alarm is raised.
        hold: Nanos = Nanos::ZERO, "for_ms", milliseconds(Nanos::ZERO, HOUR);
        /// Advice to the operator in each alarm of this value. Default: none.
        remedy: Option<String> = None, "remedy", maybe(prose());
    }
}
