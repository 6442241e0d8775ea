//! Evolution of a run: events that ended at each builder unit in each interval.

use serde::{Deserialize, Serialize};
use sheaf_wire::{Nanos, Timestamp};

/// The first interval. It doubles when the run outgrows [`INTERVALS`] of them.
const SHORTEST: Nanos = Nanos::from_millis(50);

/// Intervals that are kept at most.
const INTERVALS: usize = 240;

/// Events by builder unit and interval. Memory: up to 240 numbers for each builder unit, however long the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evolution {
    begun_at: Option<Timestamp>,
    interval: Nanos,
    /// By builder unit, then interval from the beginning of the run.
    events: Vec<Vec<u64>>,
    /// When the last note was, and the interval that it was in: many are made at one time.
    latest: (Timestamp, usize),
}

impl Evolution {
    /// The run begins.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        (self.begun_at, self.interval, self.latest) = (Some(now), SHORTEST, (now, 0));
    }

    /// Records that a number of events have ended at a builder unit.
    pub(crate) fn note(&mut self, now: Timestamp, builder: u16, events: u64) {
        let Some(begun_at) = self.begun_at else {
            return;
        };
        if now != self.latest.0 {
            self.latest = (now, self.place_of(now.since(begun_at)));
        }
        let (place, builder) = (self.latest.1, usize::from(builder));
        if builder >= self.events.len() {
            self.events.resize(builder + 1, Vec::new());
        }
        let of_builder = &mut self.events[builder];
        if place >= of_builder.len() {
            of_builder.resize(place + 1, 0);
        }
        of_builder[place] += events;
    }

    /// Returns the index of the interval at a time since the beginning. Intervals double in length until there is one.
    fn place_of(&mut self, since: Nanos) -> usize {
        while since.0 / self.interval.0 >= INTERVALS as u64 {
            self.interval = self.interval + self.interval;
            self.events.iter_mut().for_each(join_pairs);
        }
        usize::try_from(since.0 / self.interval.0).unwrap_or(INTERVALS - 1)
    }

    /// The length of an interval.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Events that ended at each builder unit in each interval, all lists of one length. The last interval may not be over.
    #[must_use]
    pub fn events(&self) -> Vec<Vec<u64>> {
        let intervals = self.events.iter().map(Vec::len).max().unwrap_or(0);
        let mut events = self.events.clone();
        events.iter_mut().for_each(|of_builder| of_builder.resize(intervals, 0));
        events
    }
}

fn join_pairs(counts: &mut Vec<u64>) {
    *counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
}

#[cfg(test)]
mod tests;
