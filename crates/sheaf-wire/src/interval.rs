//! Intervals of the timeline that the hits of all sources share.

/// An interval of the timeline, in picoseconds since the run's time 0: from a moment on, and before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HitInterval {
    /// First moment.
    pub from_ps: u64,
    /// End, exclusive; not before `from_ps`.
    pub until_ps: u64,
}

impl HitInterval {
    /// The empty interval at the end of the timeline, which stands for none on it.
    pub const NONE: Self = Self { from_ps: u64::MAX, until_ps: u64::MAX };

    /// Returns whether a moment is in the interval.
    #[must_use]
    pub const fn contains(self, time_ps: u64) -> bool {
        self.from_ps <= time_ps && time_ps < self.until_ps
    }

    /// Returns the common part of two intervals, if there is one.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let common =
            Self { from_ps: self.from_ps.max(other.from_ps), until_ps: self.until_ps.min(other.until_ps) };
        (common.from_ps < common.until_ps).then_some(common)
    }

    /// Returns the smallest interval that contains both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self { from_ps: self.from_ps.min(other.from_ps), until_ps: self.until_ps.max(other.until_ps) }
    }
}
