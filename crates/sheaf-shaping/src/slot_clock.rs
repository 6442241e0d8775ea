//! The event manager's clock, as estimated by a readout unit from ticks.
//!
//! A tick contains the time at which the event manager sent it. When it arrives, this clock is ahead of that by the
//! difference of the two clocks and the transit time. Of the last ticks, the one with the shortest transit is used. Its
//! remaining transit time is about equal for all readout units, so that their slots begin together. The estimate
//! changes slowly: slots that jump would collide with those of other sources.

use sheaf_wire::{Nanos, Timestamp};
use std::collections::VecDeque;

/// Number of ticks of which the one with the shortest transit is used.
const TICKS: usize = 16;

/// Inverse of the maximum relative rate of change of the estimate: 1000 ppm, ten times the error of clocks.
const SLOWNESS: u64 = 1_000;

/// A larger difference from the estimate is not drift: the tick was delayed, or a clock was set.
const JUMP: u64 = 100_000_000;

/// Number of such ticks in a row that show a clock that was set.
const STRANGE_TICKS: usize = 4;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct SlotClock {
    /// By how much this clock is ahead, as the last ticks showed it.
    shown: VecDeque<i64>,
    estimate: Option<i64>,
    received_at: Timestamp,
    /// Number of such ticks in a row so far.
    strange: usize,
}

impl SlotClock {
    /// Takes note of a tick of `theirs` that came at `now`.
    pub fn note(&mut self, now: Timestamp, theirs: Timestamp) {
        let shown = now.0.wrapping_sub(theirs.0).cast_signed();
        let is_strange = self.estimate.is_some_and(|estimate| shown.abs_diff(estimate) > JUMP);
        self.strange = if is_strange { self.strange + 1 } else { 0 };
        if self.strange >= STRANGE_TICKS {
            self.shown.clear();
            (self.estimate, self.strange) = (None, 0);
        } else if is_strange {
            return;
        }
        if self.shown.len() == TICKS {
            self.shown.pop_front();
        }
        self.shown.push_back(shown);
        let target = self.shown.iter().copied().min().unwrap_or(shown);
        let passed = now.since(std::mem::replace(&mut self.received_at, now));
        let most = i64::try_from(passed.0 / SLOWNESS).unwrap_or(i64::MAX);
        self.estimate = Some(match self.estimate {
            None => target,
            Some(estimate) => estimate.saturating_add(target.saturating_sub(estimate).clamp(-most, most)),
        });
    }

    /// The instant on this clock at which the event manager's shows `theirs`, as far as is known. Before any tick the
    /// clocks are taken for equal.
    #[must_use]
    pub fn to_own(&self, theirs: Timestamp) -> Timestamp {
        match self.estimate {
            Some(ahead) if ahead < 0 => Timestamp(theirs.0.saturating_sub(ahead.unsigned_abs())),
            Some(ahead) => theirs + Nanos(ahead.unsigned_abs()),
            None => theirs,
        }
    }
}
