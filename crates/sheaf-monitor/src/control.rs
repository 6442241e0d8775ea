//! Run control, as the server sees it.

use crate::credentials::Credentials;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt::Debug;
use tokio::sync::oneshot;

/// A request, without its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The state of run control, as it is now. The state of a run has it too, as it was at the last tick.
    Status,
    /// Who the token belongs to.
    Me,
    /// Whether the token is good for publications.
    Publish,
    /// A command, as JSON.
    Operate(Bytes),
    /// The state of an operation.
    Operation(u64),
    /// The sequence, with all of its rows.
    Sequence,
    /// A new sequence, as JSON.
    BeginSequence(Bytes),
    /// A command to the sequence, as JSON.
    DirectSequence(Bytes),
    /// Excluding a source, given by number or name, or including it again, as JSON.
    Include(String, Bytes),
    /// Excluding a node, given by name, or including it again, as JSON.
    IncludeNode(String, Bytes),
    /// Starting a node again, given by name, as JSON.
    Recover(String, Bytes),
    /// Taking or renewing the lock, as JSON.
    Lock(Bytes),
    /// Giving the lock back.
    Unlock,
    /// A fault has been seen.
    Seen(u64),
    /// A silence of alarms, as JSON.
    Silence(Bytes),
    /// The end of a silence.
    EndSilence(u64),
    /// The alarms that have ended have been seen.
    AlarmsSeen,
    /// The last runs.
    Runs(usize),
    /// One run.
    Run(u32),
    /// A comment on a run, as JSON.
    Comment(u32, Bytes),
    /// Configurations with names.
    Configurations,
    /// Giving a name to the configuration of a run, as JSON.
    NameConfiguration(Bytes),
    /// The last commands.
    Audit(usize),
}

/// A request to run control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The request.
    pub call: Call,
    /// Who sends it.
    pub credentials: Credentials,
    /// The header `If-Match`, if there is one: the revision of the state that the client has seen, in quotes.
    pub revision: Option<String>,
}

/// An answer of run control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code of HTTP.
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
    /// Whether an operation that was asked for goes on.
    pub lasts: bool,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, "application/json")], self.body).into_response()
    }
}

/// Run control, behind a bounded queue.
pub trait Control: Send + Sync + Debug {
    /// Asks. The answer comes later. Returns `false` if too many requests wait.
    fn ask(&self, asked: Asked, answer: oneshot::Sender<Answer>) -> bool;
}

impl Answer {
    /// Makes an error from its parts.
    #[must_use]
    pub fn error(status: u16, code: &str, text: &str, remedy: &str) -> Self {
        Self::json(status, &serde_json::json!({ "code": code, "text": text, "remedy": remedy }))
    }

    /// Makes an answer that is complete.
    #[must_use]
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self { status, body: value.to_string().into_bytes(), lasts: false }
    }
}
