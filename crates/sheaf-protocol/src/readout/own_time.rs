//! A node's own time, in which it measures timeouts.

use sheaf_wire::{Nanos, Timestamp};

/// The common time without the intervals in which the node was stalled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnTime {
    held_up: Nanos,
}

impl OwnTime {
    /// Records a stall of this duration.
    pub(super) fn note_stall(&mut self, stall: Nanos) {
        self.held_up = self.held_up + stall;
    }

    /// Returns the own time at an instant of the common time.
    #[inline]
    pub(super) fn at(self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(self.held_up.0))
    }

    /// Returns the instant of the common time, provided that the node is not stalled again before it.
    pub(super) fn to_common(self, own: Timestamp) -> Timestamp {
        Timestamp(own.0.saturating_add(self.held_up.0))
    }
}
