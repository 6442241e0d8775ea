//! Stamps of a builder unit.

use super::{Sample, Tracing};
use sheaf_telemetry::stamps::{Remark, RemarkKind, Stage, StampLabels, Stamper};
use sheaf_wire::message::{Body, Message};
use sheaf_wire::{DropReason, EventId, MissingSource, Role, Timestamp};

/// Stamps of a builder unit: assignments, super-fragments, filter, output.
#[derive(Debug)]
pub(crate) struct BuilderTrace {
    stamper: Stamper,
    /// Events that the filter on the thread of the node judged in the last round, as first and count of ranges. The round says when the
    /// filter began; the next one says when it has ended.
    judged: Vec<(EventId, u64)>,
    /// Events that were decided in a round in which the filter was asked, for the same reason.
    decided: Vec<(EventId, u64)>,
    /// Sample of which it makes remarks, if the event manager does not.
    alone: Option<Sample>,
}

impl BuilderTrace {
    pub(crate) fn begin(tracing: &Tracing, name: &str, labels: StampLabels) -> Self {
        Self {
            stamper: tracing.hub.add(name, labels),
            judged: Vec::new(),
            decided: Vec::new(),
            alone: tracing.is_alone.then_some(tracing.sample),
        }
    }

    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        self.stamper.begin_round(now.0);
        for (first, count) in self.judged.drain(..) {
            self.stamper.stamp(Stage::Judged, 0, first.0, count);
        }
        for (first, count) in self.decided.drain(..) {
            self.stamper.stamp(Stage::Decided, 0, first.0, count);
        }
    }

    /// Publishes the stamps of a round. Returns whether another round should follow at once, for the time at which the filter ended.
    pub(crate) fn end_round(&mut self) -> bool {
        self.stamper.flush();
        !self.judged.is_empty()
    }

    /// Stamps the events of a message that has arrived.
    pub(crate) fn take<P>(&mut self, message: &Message<P>) {
        match (message.header.sender.role, &message.body) {
            (Role::Readout, Body::SuperFragments(answer)) => {
                let readout = message.header.sender.index;
                for entry in &answer.entries {
                    self.stamper.stamp(Stage::Answered, readout, entry.event.0, u64::from(entry.count));
                }
            }
            (Role::Manager, Body::Assign(assignments)) => {
                for assignment in assignments {
                    self.stamper.stamp(Stage::Began, assignment.attempt, assignment.event.0, 1);
                }
            }
            _ => {}
        }
    }

    /// Stamps an event that the filter on this thread has judged.
    #[inline]
    pub(crate) fn judged_here(&mut self, event: EventId) {
        self.stamper.stamp(Stage::Judging, 0, event.0, 1);
        add(&mut self.judged, event);
    }

    /// Stamps an event that goes to the farm.
    #[inline]
    pub(crate) fn offered(&mut self, event: EventId) {
        self.stamper.stamp(Stage::Judging, 0, event.0, 1);
    }

    /// Stamps an event on which the farm has a verdict.
    #[inline]
    pub(crate) fn judged(&mut self, event: EventId) {
        self.stamper.stamp(Stage::Judged, 0, event.0, 1);
    }

    /// Stamps an event that needs nothing more here.
    #[inline]
    pub(crate) fn decided(&mut self, event: EventId) {
        if self.judged.is_empty() {
            self.stamper.stamp(Stage::Decided, 0, event.0, 1);
        } else {
            add(&mut self.decided, event);
        }
        if self.alone.is_some_and(|sample| sample.has(event)) {
            self.stamper.remark(Remark::new(RemarkKind::Sampled, event.0, self.stamper.now_ns()));
        }
    }

    /// Makes remarks about the sources that an event lacks.
    #[cold]
    pub(crate) fn lacks(&mut self, event: EventId, missing: &MissingSource, is_required: bool) {
        self.stamper.remark(Remark {
            code: missing.reason.code(),
            detail: u16::from(is_required),
            source: missing.source.0,
            ..Remark::new(RemarkKind::Missing, event.0, self.stamper.now_ns())
        });
    }

    /// Makes a remark about an event that is dropped.
    #[cold]
    pub(crate) fn dropped(&mut self, event: EventId, reason: DropReason) {
        let remark = Remark::new(RemarkKind::Dropped, event.0, self.stamper.now_ns());
        self.stamper.remark(Remark { code: reason.code(), ..remark });
    }

    /// Makes a remark about an event that its filter had no verdict about.
    #[cold]
    pub(crate) fn quarantined(&mut self, event: EventId) {
        self.stamper.remark(Remark::new(RemarkKind::Quarantined, event.0, self.stamper.now_ns()));
    }
}

/// Adds an event to ranges.
#[inline]
fn add(ranges: &mut Vec<(EventId, u64)>, event: EventId) {
    match ranges.last_mut() {
        Some((first, count)) if first.0.wrapping_add(*count) == event.0 => *count += 1,
        _ => ranges.push((event, 1)),
    }
}
