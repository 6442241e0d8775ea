//! Turns of a builder unit that filters on its own thread: between two turns it reads and answers messages of the event
//! manager and its readout units.
//!
//! The length of a turn follows from the duration of the last ones. A filter that is slower than expected makes its
//! builder unit slow, but not unresponsive.

use sheaf_wire::{Nanos, Timestamp};

/// Maximum duration of a turn, approximately, unless a single event takes longer. Heartbeats are tens of times less
/// frequent, and a round costs a thousandth of it.
const LONGEST: Nanos = Nanos::from_millis(5);

/// Events in a turn, at most.
const MOST: u32 = 1 << 14;

/// The turns of a builder unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// Events that a turn may have.
    events: u32,
    /// Remainder of the present one.
    left: u32,
    began: Timestamp,
    /// Time and events of all turns that were used up.
    total: (Nanos, u64),
}

impl Default for Turns {
    fn default() -> Self {
        Self { events: 1, left: 1, began: Timestamp::ZERO, total: (Nanos::ZERO, 0) }
    }
}

impl Turns {
    /// Begins a turn.
    pub(super) fn begin(&mut self, now: Timestamp) {
        // A round with few events is no measurement: it may have slept.
        if self.is_over() {
            let took = now.since(self.began).0.max(1);
            self.total = (self.total.0 + Nanos(took), self.total.1 + u64::from(self.events));
            let fitting = u64::from(self.events).saturating_mul(LONGEST.0) / took;
            // At most twice as many as the last one, and as all before together: the first turns add up to powers of two, and batches of
            // events still end where those of the event manager do.
            let most = u64::from(self.events.saturating_mul(2).min(MOST)).min(self.total.1);
            let next = fitting.clamp(1, most);
            self.events = u32::try_from(next).unwrap_or(MOST);
        }
        (self.left, self.began) = (self.events, now);
    }

    /// Takes an event into the turn, which is not over. Returns whether it is by that.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.is_over()
    }

    /// Returns whether no further event fits into the turn: there may be more events.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Mean time of an event, where turns were used up.
    pub(super) fn mean(&self) -> Option<Nanos> {
        self.total.0.0.checked_div(self.total.1).map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of each of some turns, if an event takes this long and there are always more.
    fn turns(each: Nanos, count: usize) -> Vec<u32> {
        let (mut turns, mut now) = (Turns::default(), Timestamp(1));
        let turn = |_| {
            turns.begin(now);
            let mut events = 0;
            while !turns.is_over() {
                turns.take();
                events += 1;
            }
            now += Nanos(each.0 * u64::from(events));
            events
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn slow_events_are_judged_one_by_one_and_quick_ones_together() {
        assert_eq!(turns(Nanos::from_millis(20), 10), [1; 10]);
        assert_eq!(turns(Nanos::from_secs(38), 10), [1; 10]);
        assert_eq!(turns(Nanos::from_millis(1), 30)[10..], [5; 20]);
        assert_eq!(turns(Nanos(100), 30)[29], MOST);
    }

    #[test]
    fn a_filter_that_becomes_slow_shortens_the_next_turn() {
        let mut turns = Turns { events: 4096, left: 0, ..Turns::default() };
        turns.begin(Timestamp(Nanos::from_secs(80).0));
        assert_eq!(turns.events, 1);
        assert_eq!(turns.mean(), Some(Nanos(Nanos::from_secs(80).0 / 4096)));
    }

    #[test]
    fn a_round_that_slept_for_lack_of_events_says_nothing() {
        let mut turns = Turns { events: 64, left: 60, ..Turns::default() };
        turns.begin(Timestamp(Nanos::from_secs(1).0));
        assert_eq!(turns.events, 64);
    }
}
