//! Conditions that an operator must know.

use super::State;
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
    /// Alarms that this one stands for: those of the nodes of a host, or of several hosts. They are not alarms of their own as long as it lasts.
    pub folded: Vec<Alarm>,
}

impl Alarm {
    /// Calls a function with the alarm and with those that it stands for.
    pub(crate) fn for_each(&self, call: &mut impl FnMut(&Self)) {
        call(self);
        self.folded.iter().for_each(|alarm| alarm.for_each(call));
    }
}

/// The alarms of a state, for programs that need nothing else.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AlarmList<'a> {
    /// When the state was composed, in milliseconds since 1970.
    time_ms: u64,
    /// Number of the run.
    run: Option<u64>,
    alarms: &'a [Alarm],
    past_alarms: &'a [PastAlarm],
}

impl<'a> AlarmList<'a> {
    pub(crate) fn of(state: &'a State) -> Self {
        let State { time_ms, alarms, past_alarms, .. } = state;
        Self { time_ms: *time_ms, run: state.run.number, alarms, past_alarms }
    }
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
