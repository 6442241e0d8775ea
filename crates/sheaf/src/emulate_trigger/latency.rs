//! Latency of busy: from the moment at which room becomes short to the moment at which the supervisor knows.

use serde::Serialize;
use sheaf_wire::trigger_link::Busy;
use sheaf_wire::{Nanos, Timestamp};

/// Maximum number of latencies that are kept. Of later ones, each replaces an older one.
const SAMPLES: usize = 1 << 16;

/// Latencies of the messages that raise busy.
#[derive(Debug)]
pub(super) struct BusyLatencies {
    /// Whether both sides have the same clock.
    is_same_host: bool,
    is_busy: bool,
    samples: Vec<Nanos>,
    count: u64,
    longest: Nanos,
}

/// Summary of the latencies. Names carry their units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BusyLatency {
    pub(super) count: u64,
    pub(super) median_ns: u64,
    pub(super) max_ns: u64,
}

impl BusyLatencies {
    /// Latencies of a connection. They are known only if both ends are on the same host.
    pub(super) fn new(is_same_host: bool) -> Self {
        Self { is_same_host, is_busy: false, samples: Vec::new(), count: 0, longest: Nanos::ZERO }
    }

    /// Records a message. A change of the reason while busy holds back no trigger, and does not count.
    pub(super) fn note(&mut self, now: Timestamp, busy: &Busy) {
        let was_busy = std::mem::replace(&mut self.is_busy, busy.reason.is_some());
        if was_busy || !self.is_busy || !self.is_same_host || busy.at == Timestamp::ZERO {
            return;
        }
        let latency = now.since(busy.at);
        self.longest = self.longest.max(latency);
        match usize::try_from(self.count).unwrap_or(usize::MAX) {
            count if count < SAMPLES => self.samples.push(latency),
            count => self.samples[count % SAMPLES] = latency,
        }
        self.count += 1;
    }

    /// Returns the summary. `None` if there is no latency.
    pub(super) fn summary(&self) -> Option<BusyLatency> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let median_ns = sorted.get(sorted.len() / 2)?.0;
        Some(BusyLatency { count: self.count, median_ns, max_ns: self.longest.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_wire::trigger_link::{BusyCause, BusyReason};

    #[test]
    fn only_messages_that_begin_a_busy_time_count() {
        let mut latencies = BusyLatencies::new(true);
        let reason = |cause| Some(BusyReason { cause, culprit: None });
        let mut note = |now, at, reason| {
            latencies.note(Timestamp(now), &Busy { sequence: 1, reason, at: Timestamp(at) });
        };
        note(100, 90, reason(BusyCause::BuilderCredit));
        note(200, 90, reason(BusyCause::Output));
        note(300, 250, None);
        note(450, 400, reason(BusyCause::Output));
        note(500, 490, None);
        note(900, 0, reason(BusyCause::Output));
        note(950, 940, None);
        note(1_000, 980, reason(BusyCause::Output));
        let summary = latencies.summary().expect("there are some");
        assert_eq!((summary.count, summary.median_ns, summary.max_ns), (3, 20, 50));
    }
}
