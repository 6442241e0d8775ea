//! Requests of an operator to a run, and its pauses.

use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, NodeId, SourceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests to the event manager of a run. It reads them in every round, and at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunControls {
    /// Hold the start: the run waits for its nodes without a time limit, and does not start before this is false.
    pub hold: AtomicBool,
    /// Pause the run, once it has started: no triggers are taken until this is false.
    pub pause: AtomicBool,
    /// Step down, so that the standby of the event manager takes over. The event manager clears it when it reads it.
    pub step_down: Arc<AtomicBool>,
    /// Why it does not, for the process that has passed on the request.
    pub step_down_refused: Mutex<Option<String>>,
    /// Sources and nodes to exclude; all others are to be included.
    pub excluded: WantedExclusions,
    /// Nodes to start again, for the process that has started them.
    pub recovery: Recovery,
    /// The run that follows without a gap.
    pub succession: Succession,
}

impl RunControls {
    /// Notes why the event manager does not step down.
    pub fn refuse_to_step_down(&self, why: &str) {
        *self.refusal() = Some(why.to_owned());
    }

    /// Returns why the event manager does not step down, once.
    #[must_use]
    pub fn take_refusal(&self) -> Option<String> {
        self.refusal().take()
    }

    fn refusal(&self) -> MutexGuard<'_, Option<String>> {
        self.step_down_refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run that follows in the same nodes, without a gap.
#[derive(Debug, Default)]
pub struct Succession {
    /// Whether one follows when this run ends.
    pub hands_over: AtomicBool,
    /// End this run in favour of the next one, if one follows.
    pub next: AtomicBool,
    /// Set by the event manager when the triggers of this run have ended, and another one follows.
    pub is_due: AtomicBool,
}

impl Succession {
    /// Begins a run, which another one follows or not.
    pub fn begin_run(&self, hands_over: bool) {
        self.is_due.store(false, Ordering::Relaxed);
        self.next.store(false, Ordering::Relaxed);
        self.hands_over.store(hands_over, Ordering::Release);
    }

    /// Returns whether another run follows when this one ends.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// Ends the run in favour of the next one, which is ready.
    pub fn end_run(&self) {
        self.hands_over.store(true, Ordering::Relaxed);
        self.next.store(true, Ordering::Release);
    }
}

/// Nodes that an operator wants to be started again.
#[derive(Debug, Default)]
pub struct Recovery {
    asked: Mutex<BTreeMap<NodeId, Request>>,
}

/// Request to start a node again that has not been followed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Request {
    New,
    /// Somebody has taken it.
    Taken,
    /// It will not be followed, for this reason.
    Refused(String),
}

impl Recovery {
    /// Asks for a node to be started again. Without effect if that has been asked for and may still be done.
    pub fn ask(&self, node: NodeId) {
        let mut asked = self.lock();
        if !matches!(asked.get(&node), Some(Request::New | Request::Taken)) {
            asked.insert(node, Request::New);
        }
    }

    /// Returns the nodes that are to be started again, once.
    #[must_use]
    pub fn take(&self) -> Vec<NodeId> {
        let mut asked = self.lock();
        let new = asked.iter_mut().filter(|(_, request)| **request == Request::New);
        new.map(|(node, request)| {
            *request = Request::Taken;
            *node
        })
        .collect()
    }

    /// Notes that a node has been started again.
    pub fn note_done(&self, node: NodeId) {
        self.lock().remove(&node);
    }

    /// Notes why a node is not started again. Without effect if nobody has asked for that.
    pub fn refuse(&self, node: NodeId, why: String) {
        if let Some(request) = self.lock().get_mut(&node) {
            *request = Request::Refused(why);
        }
    }

    /// Returns whether a node is to be started again and has not been. Such a request may have been refused.
    #[must_use]
    pub fn is_due(&self, node: NodeId) -> bool {
        self.lock().contains_key(&node)
    }

    /// Returns why a node was not started again, if the latest request was refused.
    #[must_use]
    pub fn refusal(&self, node: NodeId) -> Option<String> {
        match self.lock().get(&node)? {
            Request::Refused(why) => Some(why.clone()),
            Request::New | Request::Taken => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Request>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sources and nodes that an operator has excluded from a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Sources.
    pub sources: BTreeSet<SourceId>,
    /// Readout units and builder units.
    pub nodes: BTreeSet<NodeId>,
}

/// The exclusions that an operator wants.
#[derive(Debug, Default)]
pub struct WantedExclusions {
    /// Number of changes, by which a reader sees without the lock that there is none.
    changes: AtomicU64,
    exclusions: Mutex<Exclusions>,
}

impl WantedExclusions {
    /// Replaces the exclusions.
    pub fn set(&self, exclusions: Exclusions) {
        *self.lock() = exclusions;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the exclusions.
    #[must_use]
    pub fn get(&self) -> Exclusions {
        self.lock().clone()
    }

    /// Returns the exclusions if they have changed since the last call with this number, which is 0 before the first.
    pub(crate) fn news(&self, seen: &mut u64) -> Option<Exclusions> {
        let changes = self.changes.load(Ordering::Acquire);
        (std::mem::replace(seen, changes) != changes).then(|| self.get())
    }

    fn lock(&self) -> MutexGuard<'_, Exclusions> {
        self.exclusions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pauses of a run, which do not count in its duration.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pauses {
    /// When the change that comes next was asked for. Triggers until then come before it.
    pub(crate) asked_at: Option<Timestamp>,
    /// Whether it was said that this run cannot be paused.
    pub(crate) is_refusal_told: bool,
    since: Option<Timestamp>,
    past: Nanos,
}

impl Pauses {
    /// Begins or ends a pause, unless it has begun or ended before.
    pub(crate) fn follow(&mut self, at: Timestamp, is_paused: bool) {
        match (self.since, is_paused) {
            (None, true) => self.since = Some(at),
            (Some(since), false) => {
                self.past = self.past + at.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// Returns the time at which the run will have lasted for `lasted` since `start`, without its pauses. `None` during a pause.
    pub(crate) fn reached(&self, start: Timestamp, lasted: Nanos) -> Option<Timestamp> {
        self.since.is_none().then(|| start + lasted + self.past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_refused_is_known_until_the_next_one() {
        let (recovery, node) = (Recovery::default(), NodeId::MANAGER);
        recovery.ask(node);
        assert_eq!((recovery.take(), recovery.take()), (vec![node], vec![]), "once");
        assert!(recovery.is_due(node) && recovery.refusal(node).is_none());
        recovery.refuse(node, "its standby is not ready".to_owned());
        assert_eq!(recovery.refusal(node).as_deref(), Some("its standby is not ready"));
        recovery.ask(node);
        assert!(recovery.is_due(node) && recovery.refusal(node).is_none());
        assert_eq!(recovery.take(), [node]);
        recovery.note_done(node);
        assert!(!recovery.is_due(node));
        recovery.refuse(node, "its standby is not ready".to_owned());
        assert!(!recovery.is_due(node) && recovery.refusal(node).is_none(), "nobody has asked");
    }
}
