//! Operations: what becomes of a command.

use crate::request::Command;
use serde::{Deserialize, Serialize};

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The state that the command asks for was reached.
    Done,
    /// It was not.
    Failed,
    /// A later command asks for something else.
    Superseded,
}

impl Outcome {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
        }
    }
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How.
    pub result: Outcome,
    /// In words.
    pub text: String,
}

/// An accepted command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Number of the operation.
    pub id: u64,
    /// The command.
    pub command: Command,
    /// Name of the request.
    pub request: String,
    /// Who gave the command.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time at which it has failed, or at which the next means is used, in milliseconds since 1970.
    pub deadline_ms: u64,
    /// Its end; `None` while it lasts.
    pub end: Option<End>,
}
