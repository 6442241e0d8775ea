//! Bound on the steps of a run: a run that exceeds it repeats something without end.

use super::{Options, TriggerOptions};
use sheaf_wire::{Nanos, Timestamp};

/// Number of messages, datagrams and timers of a fragment in one attempt, each of which may occur twice.
const STEPS_OF_A_FRAGMENT: u64 = 10;

impl Options {
    /// Returns the maximum number of steps of the run: some for each fragment in each attempt, and some for each heartbeat of each
    /// pair of nodes.
    #[must_use]
    pub fn steps_until(&self, now: Timestamp) -> u64 {
        let nodes = u64::from(self.system.readouts + self.system.builders + self.system.outputs) + 1;
        let fragments = (self.events + self.sources.surplus) * u64::from(self.source_count());
        let attempts = u64::from(self.bounds.max_attempts) + 1;
        let times = [self.times.heartbeat, self.times.acknowledge, self.times.retry, self.times.merge];
        let shortest = times.into_iter().map(|time| time.0).min().unwrap_or(1).clamp(50_000, u64::MAX);
        let rails = self.recovery.map_or(1, |recovery| recovery.rails as u64 + 3);
        let triggers = match self.triggers {
            TriggerOptions::Driven { period, .. } => {
                // A trigger of a supervisor is a message, and may be followed by others.
                let steps = if self.supervisor.is_some() { 16 } else { 4 };
                steps * now.0 / period.0.max(1)
            }
            _ => 0,
        };
        let tries = self.feed.map_or(0, |setup| {
            10 * u64::from(self.system.readouts * setup.programs) * (now.0 / setup.retry.0.max(50_000) + 1)
        });
        // Each record goes to every node that writes, in each session of it.
        let records = self.run_records().map_or(0, |setup| {
            20 * rails
                * nodes
                * (self.faults.len() as u64 + 1)
                * (setup.count + 1)
                * u64::from(self.source_count())
        });
        // The end of the run waits for builder units that work, with a limit that may be far below the times of all else.
        let restarts = now.0 / self.times.stop.0.max(1);
        let of_time = nodes * nodes * rails * (now.0 / shortest + 1)
            + self.waiting_steps(now)
            + restarts
            + triggers
            + tries
            + records;
        10_000 + STEPS_OF_A_FRAGMENT * rails * attempts * (fragments + nodes * self.events) + of_time
    }

    /// Returns the maximum number of steps by `now` of events that wait, however long: for each event in flight and each readout
    /// unit, the repeated requests with their acknowledgements, and the deadline of silent sources, at which the unit offers the
    /// fragments of fed sources again.
    fn waiting_steps(&self, now: Timestamp) -> u64 {
        let in_flight = (u64::from(self.system.builders) * u64::from(self.bounds.slots)).min(self.events);
        let times = |interval: Nanos| now.0 / interval.0.max(1);
        let of_readout = 3 * times(self.times.retry) + times(self.times.merge);
        in_flight * u64::from(self.system.readouts) * of_readout
    }
}
