//! Conditions that an operator must know.

use serde::{Deserialize, Serialize};

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
    /// The silence that suppresses its notices, if there is one.
    pub silence: Option<AlarmSilence>,
}

/// A silence of alarms, which somebody has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmSilence {
    /// Number of the silence.
    pub id: u64,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When it ends, in milliseconds since 1970.
    pub until_ms: u64,
}

/// An alarm of the run that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastAlarm {
    /// The alarm, as it was last.
    #[serde(flatten)]
    pub alarm: Alarm,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Number of times that it was raised.
    pub times: u64,
}
