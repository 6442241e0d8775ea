//! The process of a node, on this host or on another one, as whoever looks after the run sees it.
//!
//! | module | holds |
//! |---|---|
//! | this | the [`NodeProcess`] and its [`ProcessEnd`] |
//! | `local` | a process that this one has started |

mod local;

pub(crate) use local::{Launch, LocalProcess, NodeKey};

use crate::EXIT_NOT_GOOD;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::process::ExitStatus;

/// Exit status of a process that has panicked.
const EXIT_PANICKED: i32 = 101;

/// First output of a node on standard output, written once the node handles signals: a signal before that ends it. It
/// is white space in front of the JSON that follows.
pub(crate) const READY: &str = "\n";

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    /// In words: `exit status: 1`, or `signal: 9 (SIGKILL)`.
    pub(crate) status: String,
    pub(crate) is_success: bool,
    /// Whether it died. One that ended with a message of its own would end the same way again.
    pub(crate) has_died: bool,
    /// Whether it says that it has no more part in the run: a replica of the event manager that was superseded or dismissed.
    pub(crate) is_retired: bool,
}

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> Self {
        Self {
            status: status.to_string(),
            is_success: status.success(),
            has_died: matches!(status.code(), None | Some(EXIT_PANICKED)),
            is_retired: status.code() == Some(EXIT_NOT_GOOD.into()),
        }
    }
}

/// Values that change while a process is at work: the number of its last lines, and its processor time in ticks, where it is known.
pub(crate) type Life = (u64, Option<u64>);

/// A process of a node that has been started.
pub(crate) trait NodeProcess {
    /// Sends a signal, unless the process has ended.
    ///
    /// # Errors
    /// Why the system refuses it.
    fn signal(&self, signal: Signal) -> Result<(), String>;

    /// Kills it, if it has not ended.
    fn kill(&mut self);

    /// Returns its end, if it has ended.
    fn try_wait(&mut self) -> anyhow::Result<Option<ProcessEnd>>;

    /// Returns whether it handles signals.
    fn handles_signals(&self) -> bool;

    /// Returns whether its node has ended. The process may still answer requests.
    fn node_has_ended(&self) -> bool;

    /// Returns what tells that it is at work.
    fn life(&self) -> Life;

    /// Returns whether [`text`](Self::text) need not wait.
    fn is_read(&self) -> bool;

    /// Returns its whole standard output but for the records in it. Waits until that is read, which is soon after the end.
    fn text(&mut self) -> anyhow::Result<String>;
}
