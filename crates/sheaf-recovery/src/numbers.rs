//! Which numbers of a rail have arrived.

use super::{expand, low_half};
use sheaf_wire::datagram::{Gap, RailReport};
use std::collections::VecDeque;

/// Maximum number of gaps per rail. A datagram that would make one more is not taken, and is retransmitted.
const MAX_GAPS: usize = 4_096;

/// Number of later datagrams after which a gap is reported at once: before that they may have overtaken it.
const OVERTAKEN: u64 = 3;

/// The numbers that arrived by a rail.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The number after the last one that arrived.
    end: u64,
    /// Missing numbers below, ascending, as first number and the one after the last.
    missing: VecDeque<(u64, u64)>,
    /// Gaps that end at or below this were reported, or need not be.
    newest_reported: u64,
}

/// Result of the arrival of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It may be added.
    New,
    /// It has been.
    Duplicate,
    /// It would make one gap too many, or is out of all proportion.
    TooFar,
}

impl Numbers {
    /// Returns whether nothing has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// The whole number of a lower half.
    pub(super) fn expand(&self, low: u32) -> u64 {
        expand(low, self.end)
    }

    /// Returns the result that adding `number` would have.
    pub(super) fn look(&self, number: u64) -> Arrival {
        if number >= self.end {
            let gap = number > self.end;
            let is_too_far = number - self.end > 1 << 30 || gap && self.missing.len() >= MAX_GAPS;
            return if is_too_far { Arrival::TooFar } else { Arrival::New };
        }
        match self.gap_of(number) {
            None => Arrival::Duplicate,
            Some(_) if self.missing.len() >= MAX_GAPS => Arrival::TooFar,
            Some(_) => Arrival::New,
        }
    }

    fn gap_of(&self, number: u64) -> Option<usize> {
        let place = self.missing.partition_point(|gap| gap.1 <= number);
        self.missing.get(place).filter(|gap| gap.0 <= number).map(|_| place)
    }

    /// Adds a new number; numbers below `oldest` are not expected any more. Returns whether a gap is to be reported at
    /// once.
    pub(super) fn add(&mut self, number: u64, oldest: u64) -> bool {
        if number >= self.end {
            if number > self.end {
                self.missing.push_back((self.end, number));
            }
            self.end = number + 1;
        } else if let Some(place) = self.gap_of(number) {
            let (first, end) = self.missing[place];
            match (first == number, number + 1 == end) {
                (true, true) => drop(self.missing.remove(place)),
                (true, false) => self.missing[place].0 = number + 1,
                (false, true) => self.missing[place].1 = number,
                (false, false) => {
                    self.missing[place].1 = number;
                    self.missing.insert(place + 1, (number + 1, end));
                }
            }
        }
        while let Some(gap) = self.missing.front_mut().filter(|gap| gap.0 < oldest) {
            gap.0 = oldest.min(gap.1);
            if gap.0 == gap.1 {
                self.missing.pop_front();
            }
        }
        let surely = self.end.saturating_sub(OVERTAKEN);
        let newest = self.missing.iter().rev().find(|gap| gap.1 <= surely).map_or(0, |gap| gap.1);
        let is_news = newest > self.newest_reported;
        self.newest_reported = self.newest_reported.max(newest);
        is_news
    }

    /// Returns the report, with at most `most` gaps.
    pub(super) fn report(&self, rail: u8, most: usize) -> RailReport {
        let end = self.missing.get(most).map_or(self.end, |gap| gap.0);
        let gap = |(first, end): &(u64, u64)| Gap {
            first: low_half(*first),
            count: u32::try_from(end - first).unwrap_or(u32::MAX),
        };
        RailReport { rail, end: low_half(end), gaps: self.missing.iter().take(most).map(gap).collect() }
    }
}
