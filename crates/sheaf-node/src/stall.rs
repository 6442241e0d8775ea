//! Time for which a node was held up itself: by a disk that took seconds for a write, by other processes that had the
//! processor, or because its own process was stopped.
//!
//! Deadlines that pass during a stall say nothing about peers: the messages they wait for may be in the queue. So a
//! role that judges peers by their silence uses the node's own time, which advances only while the node runs.
//! Everything else uses the actual time, such as when files are made durable and when heartbeats are due.
//!
//! After each round, a node returns when it will run again: at once, or after a sleep. Any delay beyond that is a
//! stall, be it a single one of a minute or one of 90 ms in each tenth of a second, as under a processor quota.

use sheaf_wire::{Nanos, Timestamp};

/// Lateness that a round may have: rounds under load take long, and the kernel ends sleeps late. Of a round that is later, only this much counts.
const GRACE: Nanos = Nanos::from_millis(5);

/// Longest sleep of a node between two rounds.
const LONGEST_SLEEP: Nanos = crate::worker::LONGEST_SLEEP;

/// Total length of stalls that the driver reports to the role. By its own clock the node may have sent a heartbeat just now;
/// by everybody else's it has been silent for that much longer.
const REPORTED_STALL: Nanos = Nanos::from_millis(200);

/// The time of a node, without its stalls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallFree {
    last: Option<Timestamp>,
    /// When the next round is to be at the latest, where that is not at once.
    due: Option<Timestamp>,
    stalled: Nanos,
    /// Part of `stalled` that was reported to the role.
    reported: Nanos,
}

impl StallFree {
    /// The node's time at `now`; to be called in every round.
    pub(crate) fn at(&mut self, now: Timestamp) -> Timestamp {
        self.note_round(now);
        Timestamp(now.0.saturating_sub(self.stalled.0))
    }

    /// Takes note of a round. Returns how long the node was held up before it.
    pub(crate) fn note_round(&mut self, now: Timestamp) -> Nanos {
        let last = self.last.replace(now).unwrap_or(now);
        let due = self.due.take().unwrap_or(last);
        let stall = Nanos(now.since(due).0.saturating_sub(GRACE.0));
        self.stalled = self.stalled + stall;
        stall
    }

    /// Returns whether to tell the role that the node was held up; called once per round.
    pub(crate) fn has_news(&mut self) -> bool {
        let has_news = self.stalled.0 - self.reported.0 >= REPORTED_STALL.0;
        if has_news {
            self.reported = self.stalled;
        }
        has_news
    }

    /// The node rests until this instant, if nothing happens before.
    pub(crate) fn rest_until(&mut self, at: Timestamp) {
        self.due = self.last.map(|last| at.max(last).min(last + LONGEST_SLEEP));
    }

    /// When it will be, by everybody's clock, this late by the node's.
    pub(crate) fn everybodys(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_add(self.stalled.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    fn ms(at: u64) -> Timestamp {
        Timestamp(at * MILLISECOND)
    }

    #[test]
    fn stalls_are_left_out_and_rests_are_not() {
        let mut time = StallFree::default();
        assert_eq!(time.at(ms(7_000)), ms(7_000));
        time.rest_until(ms(7_040));
        assert_eq!(time.at(ms(7_040)), ms(7_040), "it slept as long as it had said");
        assert_eq!(time.at(ms(7_044)), ms(7_044), "a round takes its time");
        assert_eq!(time.at(ms(9_044)), ms(7_049), "nobody looked for two seconds");
        assert_eq!(time.everybodys(ms(7_100)), ms(9_095));
        assert_eq!(time.everybodys(Timestamp::MAX), Timestamp::MAX);
        time.rest_until(Timestamp::MAX);
        assert_eq!(time.at(ms(19_044)), ms(7_104), "no rest is longer than the longest");
    }

    #[test]
    fn stalls_are_reported_when_they_add_up() {
        let mut time = StallFree::default();
        time.at(ms(1_000));
        assert!(!time.has_news());
        time.at(ms(1_105));
        assert!(!time.has_news(), "a tenth of a second");
        time.at(ms(1_210));
        assert!(time.has_news(), "another");
        assert!(!time.has_news(), "reported once");
    }

    #[test]
    fn a_node_that_has_a_tenth_of_a_processor_has_about_a_tenth_of_the_time() {
        let mut time = StallFree::default();
        let mut own = ms(0);
        // In each tenth of a second it runs for 10 ms.
        for period in 0..100 {
            for round in 0..100 {
                own = time.at(Timestamp((period * 1_000 + round) * MILLISECOND / 10));
            }
        }
        assert!(ms(1_000) <= own && own <= ms(1_600), "{own:?}");
    }
}
