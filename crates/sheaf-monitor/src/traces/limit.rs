//! Limit of the traces that begin in a second.

use sheaf_telemetry::stamps::Remark;
use std::time::{Duration, Instant};

/// Events whose traces may begin in a second. More would cost the run more than some per cent of a processor.
pub(super) const MOST_IN_A_SECOND: u64 = 1_000;

/// Events of the sample among these. With 700,000 events/s, the sample has 700 in a second.
const MOST_SAMPLED: u64 = 50;

/// Traces that have begun in the present second.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// Beginning of the present second, from the first trace on.
    second: Option<Instant>,
    traces: u64,
    samples: u64,
}

/// Result for a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is for the collector.
    Passed,
    /// The event is of the sample, which is large enough.
    SampleLeftOut,
    /// The event is only slow, and there are too many traces in this second.
    SlowLeftOut,
}

impl Limit {
    /// Returns whether another trace may begin in this second.
    pub(super) fn has_room(&mut self, remark: &Remark, now: Instant) -> bool {
        if self.second.is_none_or(|second| now.duration_since(second) >= Duration::from_secs(1)) {
            *self = Self { second: Some(now), traces: 0, samples: 0 };
        }
        self.traces < MOST_IN_A_SECOND && (!remark.is_sample() || self.samples < MOST_SAMPLED)
    }

    /// Counts a trace that begins.
    pub(super) fn count(&mut self, remark: &Remark) {
        self.traces += 1;
        self.samples += u64::from(remark.is_sample());
    }

    /// Decides about a remark that may be left out. One about an event that has others as well is always for the collector.
    pub(super) fn take(&mut self, words: [u64; 4], now: Instant) -> Taken {
        Remark::from_words(words).map_or(Taken::Passed, |remark| self.take_remark(&remark, now))
    }

    fn take_remark(&mut self, remark: &Remark, now: Instant) -> Taken {
        let (is_sample, is_only_slow) = (remark.is_sample(), remark.is_only_slow());
        if !is_sample && !is_only_slow {
            return Taken::Passed;
        }
        if self.has_room(remark, now) {
            self.count(remark);
            return Taken::Passed;
        }
        if is_sample { Taken::SampleLeftOut } else { Taken::SlowLeftOut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_telemetry::stamps::RemarkKind;

    fn end(event: u64, detail: u16) -> Remark {
        Remark { detail, ..Remark::new(RemarkKind::Ended, event, 1) }
    }

    /// Returns how many of 2,000 such remarks are passed, and how many are left out of the sample and of the slow ones.
    fn take(limit: &mut Limit, detail: u16, now: Instant) -> (u64, u64, u64) {
        let mut numbers = (0, 0, 0);
        for event in 0..2_000 {
            match limit.take_remark(&end(event, detail), now) {
                Taken::Passed => numbers.0 += 1,
                Taken::SampleLeftOut => numbers.1 += 1,
                Taken::SlowLeftOut => numbers.2 += 1,
            }
        }
        numbers
    }

    #[test]
    fn each_second_has_room_for_a_part_of_the_sample_and_of_slow_events() {
        let (mut limit, now) = (Limit::default(), Instant::now());
        assert_eq!(take(&mut limit, Remark::SAMPLED, now), (50, 1_950, 0));
        assert_eq!(take(&mut limit, Remark::SLOW, now), (950, 0, 1_050));
        assert_eq!(take(&mut limit, Remark::SAMPLED, now + Duration::from_millis(999)), (0, 2_000, 0));
        assert_eq!(
            take(&mut limit, Remark::SLOW | Remark::SAMPLED, now + Duration::from_secs(1)),
            (1_000, 0, 1_000)
        );
    }

    #[test]
    fn no_remark_about_a_defect_is_left_out() {
        let (mut limit, now) = (Limit::default(), Instant::now());
        for detail in [Remark::INCOMPLETE, Remark::DROPPED, Remark::INCOMPLETE | Remark::SLOW] {
            assert_eq!(take(&mut limit, detail, now), (2_000, 0, 0));
        }
        for kind in [RemarkKind::Dropped, RemarkKind::Missing, RemarkKind::Quarantined] {
            assert_eq!(limit.take_remark(&Remark::new(kind, 5, 1), now), Taken::Passed);
        }
    }
}
