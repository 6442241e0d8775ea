//! Means by which a run is ended, one after the other.

use crate::limits::Limits;
use serde::{Deserialize, Serialize};
use sheaf_wire::Timestamp;

/// Means by which a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The events in flight are built and stored.
    Drain,
    /// They are dropped.
    Cut,
    /// Every process is killed.
    Kill,
}

/// The means in use, and when the next one follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    step: Step,
    until: Timestamp,
    /// Attempts to kill so far.
    attempts: u32,
}

/// Attempts to kill after which somebody has to look.
pub(crate) const ATTEMPTS: u32 = 10;

impl Ending {
    pub(crate) fn at(step: Step, limits: &Limits, now: Timestamp) -> Self {
        let time = match step {
            Step::Drain => limits.drain,
            Step::Cut => limits.cut,
            Step::Kill => limits.kill,
        };
        Self { step, until: now + time, attempts: 0 }
    }

    pub(crate) fn step(self) -> Step {
        self.step
    }

    pub(crate) fn until(self) -> Timestamp {
        self.until
    }

    /// Returns the means after another attempt.
    pub(crate) fn again(self, limits: &Limits, now: Timestamp) -> Self {
        Self { attempts: self.attempts + 1, ..Self::at(self.step, limits, now) }
    }

    pub(crate) fn attempts(self) -> u32 {
        self.attempts
    }
}
