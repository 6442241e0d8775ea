//! Stamps of a readout unit.

use super::{Sample, Tracing};
use sheaf_telemetry::stamps::{Remark, RemarkKind, Stage, StampLabels, Stamper};
use sheaf_wire::message::{Body, EventRange, Message, Release, SuperFragments};
use sheaf_wire::{EventId, Fragment, MissingReason, Timestamp};

/// Stamps of a readout unit: fragments that arrive, requests, answers, releases.
#[derive(Debug)]
pub(crate) struct ReadoutTrace {
    stamper: Stamper,
    /// Sample of which it makes remarks, if the event manager does not.
    alone: Option<Sample>,
}

impl ReadoutTrace {
    pub(crate) fn begin(tracing: &Tracing, name: &str, labels: StampLabels) -> Self {
        Self { stamper: tracing.hub.add(name, labels), alone: tracing.is_alone.then_some(tracing.sample) }
    }

    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        self.stamper.begin_round(now.0);
    }

    pub(crate) fn end_round(&mut self) {
        self.stamper.flush();
    }

    /// Stamps the events of fragments that were taken from a source, which gives consecutive events with few exceptions.
    pub(crate) fn arrived<P>(&mut self, source: usize, fragments: &[Fragment<P>]) {
        let (Some(first), Some(last)) = (fragments.first(), fragments.last()) else { return };
        let source = u16::try_from(source).unwrap_or(u16::MAX);
        let count = fragments.len() as u64;
        if last.event.0.wrapping_sub(first.event.0) == count - 1 {
            self.stamper.stamp(Stage::Arrived, source, first.event.0, count);
        } else {
            fragments
                .iter()
                .for_each(|fragment| self.stamper.stamp(Stage::Arrived, source, fragment.event.0, 1));
        }
    }

    /// Stamps the events of a message that has arrived.
    pub(crate) fn take<P>(&mut self, message: &Message<P>) {
        let builder = message.header.sender.index;
        match &message.body {
            Body::FragmentRequest(ranges) => self.requested(builder, ranges),
            Body::PartRequest(request) => self.requested(builder, &request.ranges),
            Body::WindowRequest(request) => {
                for event in &request.events {
                    self.stamper.stamp(Stage::Requested, builder, event.event.0, 1);
                }
            }
            Body::Dispatch(destinations) => {
                for destination in destinations {
                    self.requested(destination.builder, &[destination.events]);
                }
            }
            Body::Release(releases) => {
                for release in releases {
                    self.stamper.stamp(Stage::Released, 0, release.first.0, u64::from(release.count));
                    if let Some(sample) = self.alone {
                        self.released(release, sample);
                    }
                }
            }
            _ => {}
        }
    }

    /// Makes remarks that are the event manager's otherwise.
    fn released(&mut self, release: &Release, sample: Sample) {
        let now_ns = self.stamper.now_ns();
        let remark = |kind, event: EventId| Remark::new(kind, event.0, now_ns);
        let stamper = &mut self.stamper;
        if let Some(reason) = release.reason {
            let events = release.first.0..release.first.0.saturating_add(u64::from(release.count));
            for event in events.map(EventId) {
                stamper.remark(Remark { code: reason.code(), ..remark(RemarkKind::Dropped, event) });
            }
        } else {
            sample.each_within(release.first, release.count, |event| {
                stamper.remark(remark(RemarkKind::Sampled, event));
            });
        }
    }

    fn requested(&mut self, builder: u16, ranges: &[EventRange]) {
        for range in ranges {
            self.stamper.stamp(Stage::Requested, builder, range.first.0, u64::from(range.count));
        }
    }

    /// Stamps the events of an answer to a builder unit.
    pub(crate) fn send<P>(&mut self, builder: u16, body: &Body<P>) {
        let Body::SuperFragments(answer) = body else { return };
        for entry in &answer.entries {
            self.stamper.stamp(Stage::Sent, builder, entry.event.0, u64::from(entry.count));
        }
        if !answer.missing.is_empty() {
            self.remark_missing(answer);
        }
    }

    /// Makes remarks about the sources that are missing in an answer. An event that lacks what an operator has excluded is not remarkable.
    #[cold]
    fn remark_missing<P>(&mut self, answer: &SuperFragments<P>) {
        let mut missing = answer.missing.iter();
        for entry in &answer.entries {
            for event in entry.events() {
                let lacking = missing.by_ref().take(usize::from(entry.missing));
                for missing in lacking.filter(|missing| missing.reason != MissingReason::Excluded) {
                    self.stamper.remark(Remark {
                        code: missing.reason.code(),
                        source: missing.source.0,
                        ..Remark::new(RemarkKind::Missing, event.0, self.stamper.now_ns())
                    });
                }
            }
        }
    }
}
