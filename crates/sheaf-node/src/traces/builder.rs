//! Stamps of a builder unit.

use super::{Sample, Tracing, stamp_assignments};
use sheaf_telemetry::stamps::{Remark, RemarkKind, Stage, StampLabels, Stamper};
use sheaf_wire::message::{Assignment, Body, Message};
use sheaf_wire::{DropReason, EventId, MissingSource, Role, Timestamp};

/// Stamps of a builder unit: assignments, super-fragments, filter, output.
#[derive(Debug)]
pub(crate) struct BuilderTrace {
    stamper: Stamper,
    /// Events that the filter on the thread of the node judged in the last round. That round says when the
    /// filter began; the next one says when it has ended.
    judged: Ranges,
    /// Events that were decided in this round. If the filter was asked in it, the next round says when, for the same reason.
    decided: Ranges,
    /// Sample of which it makes remarks, if the event manager does not.
    alone: Option<Sample>,
}

impl BuilderTrace {
    pub(crate) fn begin(tracing: &Tracing, name: &str, labels: StampLabels) -> Self {
        Self {
            stamper: tracing.hub.add(name, labels),
            judged: Ranges::default(),
            decided: Ranges::default(),
            alone: tracing.is_alone.then_some(tracing.sample),
        }
    }

    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        self.stamper.begin_round(now.0);
        let Self { stamper, judged, .. } = self;
        judged.each(|first, count| stamper.stamp(Stage::Judged, 0, first, count));
        judged.clear();
        self.stamp_decided();
    }

    fn stamp_decided(&mut self) {
        let Self { stamper, decided, alone, .. } = self;
        decided.each(|first, count| {
            stamper.stamp(Stage::Decided, 0, first, count);
            if let Some(sample) = alone {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                sample.each_within(EventId(first), count, |event| {
                    stamper.remark(Remark::new(RemarkKind::Sampled, event.0, stamper.now_ns()));
                });
            }
        });
        decided.clear();
    }

    /// Publishes the stamps of a round. Returns whether another round should follow at once, for the time at which the filter ended.
    pub(crate) fn end_round(&mut self) -> bool {
        if self.judged.is_empty() {
            self.stamp_decided();
        }
        let Self { stamper, judged, .. } = self;
        judged.each(|first, count| stamper.stamp(Stage::Judging, 0, first, count));
        stamper.flush();
        !judged.is_empty()
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
                let attempt = |assignment: &Assignment| assignment.attempt;
                stamp_assignments(&mut self.stamper, Stage::Began, assignments, attempt);
            }
            _ => {}
        }
    }

    /// Stamps an event that the filter on this thread has judged.
    #[inline]
    pub(crate) fn judged_here(&mut self, event: EventId) {
        self.judged.add(event);
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
        self.decided.add(event);
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

/// Events as ranges, to which most are added at the end of the last one.
#[derive(Debug, Default)]
struct Ranges {
    /// First event and number of events of all ranges but the last.
    done: Vec<(u64, u64)>,
    /// First event of the last range, and the event behind its last; equal if it is empty.
    last: (u64, u64),
}

impl Ranges {
    #[inline]
    fn add(&mut self, event: EventId) {
        if self.last.1 == event.0 && self.last.0 != self.last.1 {
            self.last.1 = event.0.wrapping_add(1);
        } else {
            self.begin(event.0);
        }
    }

    fn begin(&mut self, event: u64) {
        if !self.is_empty() {
            self.done.push((self.last.0, self.last.1.wrapping_sub(self.last.0)));
        }
        self.last = (event, event.wrapping_add(1));
    }

    const fn is_empty(&self) -> bool {
        self.last.0 == self.last.1
    }

    /// Passes all ranges to `stamp`.
    fn each(&self, mut stamp: impl FnMut(u64, u64)) {
        if !self.is_empty() {
            self.done.iter().for_each(|(first, count)| stamp(*first, *count));
            stamp(self.last.0, self.last.1.wrapping_sub(self.last.0));
        }
    }

    fn clear(&mut self) {
        self.done.clear();
        self.last = (0, 0);
    }
}
