//! Stamps of an event manager.

use super::{Tracing, stamp_assignments};
use sheaf_protocol::machine::Transmit;
use sheaf_protocol::manager::Ended;
use sheaf_telemetry::stamps::{Remark, RemarkKind, Stage, StampLabels, Stamper};
use sheaf_wire::message::{Body, Release};
use sheaf_wire::{EventId, NodeId, Outcome, Timestamp};

/// Stamps of an event manager: assignments and ends. It knows which events are slow, incomplete or dropped.
#[derive(Debug)]
pub(crate) struct ManagerTrace {
    stamper: Stamper,
    tracing: Tracing,
}

impl ManagerTrace {
    pub(crate) fn begin(tracing: Tracing, name: &str, labels: StampLabels) -> Self {
        Self { stamper: tracing.hub.add(name, labels), tracing }
    }

    pub(crate) fn begin_round(&mut self, now: Timestamp) {
        self.stamper.begin_round(now.0);
    }

    pub(crate) fn end_round(&mut self) {
        self.stamper.flush();
    }

    /// Stamps the events of a message that leaves.
    pub(crate) fn send<P>(&mut self, Transmit { to, message }: &Transmit<P>) {
        match &message.body {
            Body::Assign(assignments) => {
                stamp_assignments(&mut self.stamper, Stage::Assigned, assignments, |_| to.index);
            }
            // All readout units get the same releases, and these have the reasons for drops.
            Body::Release(releases) if *to == NodeId::readout(0) => {
                releases.iter().filter(|release| release.reason.is_some()).for_each(|it| self.dropped(it));
            }
            _ => {}
        }
    }

    /// Makes remarks about dropped events.
    #[cold]
    fn dropped(&mut self, release: &Release) {
        let code = release.reason.map_or(0, |reason| reason.code());
        for place in 0..u64::from(release.count) {
            let event = release.first.0.saturating_add(place);
            self.stamper
                .remark(Remark { code, ..Remark::new(RemarkKind::Dropped, event, self.stamper.now_ns()) });
        }
    }

    /// Stamps events that have ended, and makes remarks about those that are traced.
    pub(crate) fn ended(&mut self, ended: &Ended) {
        let builder = ended.builder.unwrap_or(u16::MAX);
        let (first, count) = (ended.first.0, u64::from(ended.count));
        self.stamper.stamp_before(Stage::Triggered, first, count, ended.latency.0);
        self.stamper.stamp(Stage::Ended, builder, first, count);
        let bits = [
            (ended.incomplete, Remark::INCOMPLETE),
            (ended.latency >= self.tracing.slow, Remark::SLOW),
            (ended.outcome == Outcome::Dropped, Remark::DROPPED),
        ];
        let detail = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit);
        if detail != 0 {
            ended.events().for_each(|event| self.end(event, detail, ended));
        } else {
            let sample = self.tracing.sample;
            sample.each_within(ended.first, ended.count, |event| self.end(event, 0, ended));
        }
    }

    #[cold]
    fn end(&mut self, event: EventId, detail: u16, ended: &Ended) {
        let sampled = if self.tracing.sample.has(event) { Remark::SAMPLED } else { 0 };
        self.stamper.remark(Remark {
            code: ended.outcome.code(),
            detail: detail | sampled,
            duration_ns: ended.latency.0,
            ..Remark::new(RemarkKind::Ended, event.0, self.stamper.now_ns())
        });
    }
}
