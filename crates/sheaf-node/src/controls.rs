//! Requests of an operator to a run, and its pauses.

use sheaf_wire::{Nanos, Timestamp};
use std::sync::atomic::AtomicBool;

/// Requests to the event manager of a run. It reads them in every round, and at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunControls {
    /// Hold the start: the run waits for its nodes without a time limit, and does not start before this is false.
    pub hold: AtomicBool,
    /// Pause the run, once it has started: no triggers are taken until this is false.
    pub pause: AtomicBool,
}

/// The pauses of a run, which do not count in its duration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    /// When the change that comes next was asked for. Triggers until then come before it.
    pub(crate) asked_at: Option<Timestamp>,
    /// Whether it was said that this run cannot be paused.
    pub(crate) is_refusal_told: bool,
    since: Option<Timestamp>,
    past: Nanos,
}

impl Pauses {
    /// Begins or ends a pause.
    pub(crate) fn turn(&mut self, at: Timestamp, is_paused: bool) {
        self.asked_at = None;
        match self.since.take() {
            Some(since) => self.past = self.past + at.since(since),
            None => self.since = is_paused.then_some(at),
        }
    }

    /// Returns the time at which the run will have lasted for `lasted` since `start`, without its pauses. `None` during a pause.
    pub(crate) fn reached(&self, start: Timestamp, lasted: Nanos) -> Option<Timestamp> {
        self.since.is_none().then(|| start + lasted + self.past)
    }
}
