//! A value, as the configuration declares it.

use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// A value from outside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeclaredValue {
    /// Its name.
    pub name: String,
    /// Unit, as it is shown.
    pub unit: Option<String>,
    /// File that it is read from. Without one, programs send it.
    pub file: Option<ValueFile>,
    /// Age from which on it is stale.
    pub stale: Duration,
    /// Whether a value that is not fresh raises an alarm.
    pub stale_alarm: bool,
    /// Limits, outside of which it raises an alarm.
    pub limits: ValueLimits,
    /// Time for which it must be outside of its limits before that.
    pub hold: Duration,
    /// Advice to the operator.
    pub remedy: Option<String>,
}

/// A file with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// The file.
    pub path: PathBuf,
    /// Interval at which it is read.
    pub period: Duration,
    /// Whether its content is of the moment at which it is read. Otherwise it is as old as the last change of the file.
    pub is_live: bool,
}

/// Limits of a value; `None`: there is no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ValueLimits {
    /// A lower value is a warning.
    pub warning_below: Option<f64>,
    /// A higher value is a warning.
    pub warning_above: Option<f64>,
    /// A lower value is an error.
    pub error_below: Option<f64>,
    /// A higher value is an error.
    pub error_above: Option<f64>,
}
