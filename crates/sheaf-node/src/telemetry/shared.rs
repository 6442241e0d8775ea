//! Series that several roles have: a bounded buffer, and mishaps of messages.

use super::BufferLimits;
use crate::outbox::OutboxStats;
use sheaf_telemetry::publication::Writing;
use sheaf_telemetry::{SeriesId, SeriesList, Severity, TALLY, catalog};
use sheaf_wire::ByteCount;

/// Series of a bounded buffer.
#[derive(Debug)]
pub(super) struct BufferSeries {
    bytes: SeriesId,
    events: SeriesId,
    limit_bytes: SeriesId,
    limit_events: SeriesId,
    limits: BufferLimits,
}

impl BufferSeries {
    pub(super) fn list(list: &mut SeriesList, buffer: &str, limits: BufferLimits) -> Self {
        let mut add = |metric| list.add(metric, &[buffer]);
        Self {
            bytes: add(&catalog::BUFFER_BYTES),
            events: add(&catalog::BUFFER_EVENTS),
            limit_bytes: add(&catalog::BUFFER_LIMIT),
            limit_events: add(&catalog::BUFFER_EVENTS_LIMIT),
            limits,
        }
    }

    /// Writes what the buffer holds, and its limits.
    pub(super) fn write(&self, to: &mut Writing<'_>, bytes: ByteCount, events: u64) {
        to.set(self.bytes, bytes.0);
        to.set(self.events, events);
        to.set(self.limit_bytes, self.limits.bytes.0);
        to.set(self.limit_events, self.limits.events);
    }
}

/// Series of messages: to other nodes, those that were not sent or not understood; to people, those of the log of this process, if it is
/// this node that publishes them.
#[derive(Debug)]
pub(super) struct MessageSeries {
    unsent: SeriesId,
    bad: SeriesId,
    log: Option<LogSeries>,
}

#[derive(Debug)]
struct LogSeries {
    messages: [(Severity, SeriesId); 3],
    dropped: SeriesId,
}

impl MessageSeries {
    pub(super) fn list(list: &mut SeriesList, node: &str) -> Self {
        let log = TALLY.is_published_by(node).then(|| LogSeries {
            messages: Severity::ALL
                .map(|severity| (severity, list.add(&catalog::LOG_MESSAGES, &[severity.name()]))),
            dropped: list.add(&catalog::LOG_DROPPED, &[]),
        });
        let mut add = |metric| list.add(metric, &[]);
        Self { unsent: add(&catalog::MESSAGES_UNSENT), bad: add(&catalog::MESSAGES_BAD), log }
    }

    pub(super) fn write(&self, to: &mut Writing<'_>, outbox: &OutboxStats) {
        to.set(self.unsent, outbox.dropped_frames);
        to.set(self.bad, outbox.bad_messages);
        if let Some(log) = &self.log {
            for (severity, series) in log.messages {
                to.set(series, TALLY.messages(severity));
            }
            to.set(log.dropped, TALLY.dropped());
        }
    }
}
