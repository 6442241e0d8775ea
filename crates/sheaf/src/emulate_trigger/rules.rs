//! Spills, and the dead-time rules of a trigger supervisor.

use crate::values::{ValueError, positive};
use sheaf_wire::{Nanos, Timestamp};
use std::str::FromStr;

/// Spills of an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spill {
    on: Nanos,
    off: Nanos,
}

/// Complex dead time: a bucket that each trigger fills by one, and that leaks steadily.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    triggers: f64,
    time: Nanos,
}

/// Returns two positive numbers with a comma between them.
fn pair(text: &str) -> Option<(f64, f64)> {
    let (first, second) = text.split_once(',')?;
    let number = |text: &str| positive(text, "a number").ok();
    number(first).zip(number(second)).filter(|(first, second)| *first < 1e9 && *second < 1e9)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and below 1e18")]
fn nanos(value: f64, unit: f64) -> Nanos {
    Nanos((value * unit) as u64)
}

impl FromStr for Spill {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (on, off) = pair(text).ok_or(ValueError::Pair("400,600"))?;
        Ok(Self { on: nanos(on, 1e6), off: nanos(off, 1e6) })
    }
}

impl FromStr for Bucket {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (triggers, time) = pair(text).ok_or(ValueError::Pair("8,80"))?;
        if triggers < 1.0 || time < 0.001 {
            return Err(ValueError::Bucket);
        }
        Ok(Self { triggers, time: nanos(time, 1e3) })
    }
}

impl Spill {
    /// Returns whether there is beam at this time after the start of the run.
    pub(super) fn has_beam(self, since_start: Nanos) -> bool {
        since_start.0 % (self.on.0 + self.off.0).max(1) < self.on.0
    }
}

/// Dead-time rules, with their state.
#[derive(Clone, Debug)]
pub(super) struct DeadTimeRules {
    simple: Nanos,
    bucket: Option<Bucket>,
    last: Option<Timestamp>,
    level: f64,
    level_at: Timestamp,
}

impl DeadTimeRules {
    pub(super) fn new(simple: Nanos, bucket: Option<Bucket>) -> Self {
        Self { simple, bucket, last: None, level: 0.0, level_at: Timestamp::ZERO }
    }

    /// Returns whether a trigger at this time is vetoed.
    pub(super) fn veto(&mut self, time: Timestamp) -> bool {
        if self.last.is_some_and(|last| time < last + self.simple) {
            return true;
        }
        self.leak(time);
        self.bucket.is_some_and(|bucket| self.level + 1.0 > bucket.triggers)
    }

    /// Takes note of a trigger that was sent.
    pub(super) fn note(&mut self, time: Timestamp) {
        self.last = Some(time);
        self.leak(time);
        self.level += 1.0;
    }

    #[expect(clippy::cast_precision_loss, reason = "the level of a bucket is exact enough")]
    fn leak(&mut self, time: Timestamp) {
        if let Some(bucket) = self.bucket {
            let passed = time.since(self.level_at).0 as f64;
            self.level = (self.level - passed * bucket.triggers / bucket.time.0 as f64).max(0.0);
        }
        self.level_at = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers a trigger in each microsecond; returns the microseconds of those that are sent.
    fn sent(mut rules: DeadTimeRules, microseconds: u64) -> Vec<u64> {
        let offer = |at: &u64| {
            let time = Timestamp(1_000_000 + at * 1_000);
            let is_sent = !rules.veto(time);
            if is_sent {
                rules.note(time);
            }
            is_sent
        };
        (0..microseconds).filter(offer).collect()
    }

    #[test]
    fn simple_dead_time_follows_each_trigger() {
        assert_eq!(sent(DeadTimeRules::new(Nanos(2_500), None), 10), [0, 3, 6, 9]);
    }

    #[test]
    fn a_bucket_lets_a_burst_pass_and_then_its_rate() {
        let bucket = "3,12".parse().unwrap();
        let sent = sent(DeadTimeRules::new(Nanos::ZERO, Some(bucket)), 4_000);
        assert_eq!(sent[..3], [0, 1, 2]);
        assert!(sent.len().abs_diff(1_000) < 5, "three in 12 microseconds: {}", sent.len());
    }

    #[test]
    fn there_is_beam_at_the_start_of_each_cycle() {
        let spill: Spill = "2,3".parse().unwrap();
        let beam = |ms| spill.has_beam(Nanos::from_millis(ms));
        assert_eq!((0..10).filter(|ms| beam(*ms)).collect::<Vec<_>>(), [0, 1, 5, 6]);
        for wrong in ["", "1", "1,", "0,1", "-1,1", "1,nan", "1,2,3"] {
            assert!(wrong.parse::<Spill>().is_err(), "{wrong}");
        }
    }
}
