//! Runs that follow one another in this node without a gap.

use super::{Course, ManagerNode};
use crate::controls::Succession;
use crate::handover::Handover;
use crate::outbox::Outbox;
use crate::report::{Gauges, RunReport};
use crate::supervised::Supervised;
use crate::trigger::{TriggerClock, TriggerRate};
use bytes::Bytes;
use sheaf_protocol::manager::EventManager;
use sheaf_wire::{EventId, NodeId, Timestamp, TriggerType};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// Parts of an event manager that the next run in its node goes on with.
pub struct ManagerHandover {
    outbox: Outbox,
    triggers: Option<TriggerClock>,
    supervised: Option<Supervised>,
    /// First event of the next run.
    next_event: EventId,
    /// When its triggers begin.
    begins_at: Timestamp,
    /// Zero of the times of triggers that count from the start of the first run.
    zero: Timestamp,
}

impl ManagerHandover {
    /// Returns the first event of the next run.
    #[must_use]
    pub fn next_event(&self) -> EventId {
        self.next_event
    }
}

impl Handover for ManagerHandover {
    fn abandon(mut self: Box<Self>) {
        self.outbox.end_run(false);
    }

    fn waker(&mut self) -> Waker {
        self.outbox.endpoint().waker()
    }
}

/// Remains of the run before, of a run that follows it and has not started.
pub(super) struct Left {
    triggers: Option<TriggerClock>,
    begins_at: Timestamp,
}

impl ManagerNode {
    /// Makes the event manager of a run that follows another one in this node. The first event of `role` is that of the handover. Triggers
    /// since the end of the run before are taken once this one has started.
    #[must_use]
    pub fn following(
        mut role: EventManager<Bytes>,
        handover: ManagerHandover,
        course: Course,
        gauges: Arc<Gauges>,
        done: impl FnOnce(RunReport) + Send + 'static,
    ) -> Self {
        let ManagerHandover { mut outbox, triggers, mut supervised, begins_at, zero, .. } = handover;
        outbox.begin_run();
        supervised.iter_mut().for_each(Supervised::begin_run);
        role.begin_at(begins_at);
        let node = Self::with(role, outbox, course, gauges, Box::new(done));
        Self { left: Some(Left { triggers, begins_at }), zero, supervised, ..node }
    }

    /// Begins the run: now, or where the run before it has ended.
    pub(super) fn begin(&mut self, now: Timestamp, absent: Vec<NodeId>) {
        let (start, triggers) = match self.left.take() {
            Some(Left { triggers, begins_at }) => (begins_at, triggers),
            None => {
                self.zero = now;
                let clock = |(rate, _): &(TriggerRate, TriggerType)| TriggerClock::new(*rate, now);
                (now, self.course.triggers.as_ref().map(clock))
            }
        };
        self.started_at = Some(start);
        self.report.started(start, absent);
        self.triggers = triggers;
        if self.course.from_start {
            self.role.count_times_from(self.zero);
        }
    }

    /// Ends the run in favour of the next one, as the operator requests. No run follows one that is stopped.
    pub(super) fn heed_succession(&mut self, now: Timestamp) {
        let Succession { hands_over, next, is_due } = &self.course.controls.succession;
        let ends = next.load(Ordering::Acquire);
        let is_wanted = self.stopped_at.is_none() && !self.is_last;
        self.role.set_handover(is_wanted && hands_over.load(Ordering::Acquire));
        if self.role.hands_over() {
            if ends && self.role.is_running() {
                self.next_at.get_or_insert(now);
            }
            is_due.store(self.role.triggers_ended_at().is_some(), Ordering::Relaxed);
        }
    }

    /// Returns what the next run goes on with, if one follows.
    pub(super) fn leave(self: Box<Self>) -> Option<Box<dyn Handover>> {
        let Self { role, outbox, triggers, supervised, zero, course, .. } = *self;
        let begins_at = role.triggers_ended_at().filter(|_| role.hands_over())?;
        // The triggers of a short run may have ended in this round.
        course.controls.succession.is_due.store(true, Ordering::Relaxed);
        let next_event = role.next_event();
        Some(Box::new(ManagerHandover { outbox, triggers, supervised, next_event, begins_at, zero }))
    }
}
