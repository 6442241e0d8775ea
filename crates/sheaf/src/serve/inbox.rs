//! Inputs of the desk, and the counter at which requests over HTTP are handed in.

use crate::controlled::Ended;
use sheaf_control::Report;
use sheaf_control::link::Launch;
use sheaf_monitor::RunVerdict;
use sheaf_monitor::control::{Answer, Asked, Call, Control};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::oneshot;

/// Inputs that wait for the desk. Beyond it, requests are refused, and threads that listen to runs wait.
const WAITING: usize = 256;

/// Something that happened.
pub(super) enum Input {
    /// A request over HTTP, and where its answer goes.
    Asked(Asked, oneshot::Sender<Answer>),
    /// The process of a run is reached.
    Reached(Launch, UnixStream),
    /// The link to it is lost.
    Lost(Launch),
    /// It says what it is doing.
    Report(Launch, Report),
    /// No process of it is left.
    Gone(Launch, Departure),
    /// Who has which partition; null if it is not known.
    Partitions(serde_json::Value),
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The end of a run, as far as it can be known.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) ended: Option<Ended>,
    pub(super) how: String,
    pub(super) look: String,
}

impl Departure {
    pub(super) fn verdict(&self) -> Option<RunVerdict> {
        self.ended.as_ref().and_then(|ended| ended.verdict.clone())
    }
}

/// A request that reads the records of runs.
pub(super) type Lookup = (Call, oneshot::Sender<Answer>);

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Counter {
    desk: SyncSender<Input>,
    lookup: SyncSender<Lookup>,
}

pub(super) fn open(lookup: SyncSender<Lookup>) -> (Counter, Receiver<Input>) {
    let (desk, inbox) = sync_channel(WAITING);
    (Counter { desk, lookup }, inbox)
}

impl Counter {
    pub(super) fn sender(&self) -> SyncSender<Input> {
        self.desk.clone()
    }
}

impl Control for Counter {
    fn ask(&self, asked: Asked, answer: oneshot::Sender<Answer>) -> bool {
        match asked.call {
            Call::Runs(_) | Call::Run(_) | Call::Configurations => {
                self.lookup.try_send((asked.call, answer)).is_ok()
            }
            _ => self.desk.try_send(Input::Asked(asked, answer)).is_ok(),
        }
    }
}
