//! Counts of faults and losses over all cases.

use std::ops::AddAssign;

/// Counts of one case, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of processes that were killed.
    pub(super) kills: u64,
    /// Number of processes that were stopped for a while.
    pub(super) freezes: u64,
    /// Number of events that are stored according to the books but in no file, or whose end is not booked.
    pub(super) lost: u64,
    /// Number of events that are stored twice.
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
