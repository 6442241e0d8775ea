//! Time that a node was held up itself: by a disk that took seconds for a write, or because its process was stopped.
//!
//! Deadlines that pass meanwhile say nothing about others: what they wait for may lie in the queue. So a role that
//! judges others by their silence is driven by a time from which such stalls are left out.

use sheaf_wire::{Nanos, Timestamp};

/// From one round to the next it is microseconds under load, and at most the longest sleep without.
pub(crate) const STALL: Nanos = Nanos::from_millis(500);

/// The time of a node, without its stalls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StallFree {
    last: Option<Timestamp>,
    stalled: Nanos,
}

impl StallFree {
    /// The node's time at `now`; to be called in every round.
    pub(crate) fn at(&mut self, now: Timestamp) -> Timestamp {
        let since = self.last.replace(now).map_or(Nanos::ZERO, |last| now.since(last));
        if since >= STALL {
            self.stalled = self.stalled + since;
        }
        Timestamp(now.0.saturating_sub(self.stalled.0))
    }

    /// When it will be, by everybody's clock, this late by the node's.
    pub(crate) fn everybodys(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0.saturating_add(self.stalled.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_left_out_and_short_rounds_are_not() {
        let mut time = StallFree::default();
        assert_eq!(time.at(Timestamp(7_000_000_000)), Timestamp(7_000_000_000));
        assert_eq!(time.at(Timestamp(7_100_000_000)), Timestamp(7_100_000_000));
        assert_eq!(time.at(Timestamp(9_100_000_000)), Timestamp(7_100_000_000));
        assert_eq!(time.at(Timestamp(9_150_000_000)), Timestamp(7_150_000_000));
        assert_eq!(time.everybodys(Timestamp(7_200_000_000)), Timestamp(9_200_000_000));
        assert_eq!(time.everybodys(Timestamp::MAX), Timestamp::MAX);
    }
}
