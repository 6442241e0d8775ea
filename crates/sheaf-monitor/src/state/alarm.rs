//! Conditions that an operator must know.

use serde::Serialize;

/// Importance of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run takes good data, and somebody should look at this.
    Warning,
    /// Data are being lost, or the run does not go on.
    Error,
}

/// A condition that an operator must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// Its code, which the documentation explains.
    pub code: &'static str,
    /// Its importance.
    pub severity: Severity,
    /// Description.
    pub text: String,
    /// The node or source that is the reason.
    pub culprit: Option<String>,
    /// Advice to the operator.
    pub remedy: String,
    /// When it was raised, in milliseconds since 1970.
    pub since_ms: u64,
}
