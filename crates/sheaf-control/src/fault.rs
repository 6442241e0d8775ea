//! Faults: what is wrong with the system, beside its state.

use serde::{Deserialize, Serialize};

/// Most faults that are kept; older ones leave.
pub const FAULTS: usize = 64;

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The process of a run died.
    RunDied,
    /// A run ended although no operator and no setting had asked for it, or with losses.
    RunFailed,
    /// A command was not carried out within its time limit.
    Late,
    /// A run did not end in time, and its events in flight were dropped.
    StopCut,
    /// A run did not end in time, and its processes were killed.
    Killed,
    /// Processes of a run do not end although they were killed.
    CannotKill,
}

impl FaultCode {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunDied => "run_died",
            Self::RunFailed => "run_failed",
            Self::Late => "late",
            Self::StopCut => "stop_cut",
            Self::Killed => "killed",
            Self::CannotKill => "cannot_kill",
        }
    }
}

/// A fault. It stays until an operator has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Number of the fault.
    pub id: u64,
    /// When it occurred, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its kind.
    pub code: FaultCode,
    /// Description.
    pub text: String,
    /// Remedy.
    pub remedy: String,
}
