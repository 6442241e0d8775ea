//! Counts over all cases: what was done to runs, and what they lost.

use std::ops::AddAssign;

/// Counts of one case, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Processes that were killed.
    pub(super) kills: u64,
    /// Processes that were stopped for a while.
    pub(super) freezes: u64,
    /// Events that the books say are stored and that are in no file, or that have no end in the books.
    pub(super) lost: u64,
    /// Events that are stored twice.
    pub(super) twice: u64,
}

impl Tally {
    /// Number of processes that were killed or stopped.
    pub(super) fn faults(&self) -> u64 {
        self.kills + self.freezes
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.lost += other.lost;
        self.twice += other.twice;
    }
}
