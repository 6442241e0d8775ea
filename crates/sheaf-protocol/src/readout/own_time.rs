//! A node's own time, in which it measures its waits.

use sheaf_wire::{Nanos, Timestamp};

/// The common time without the intervals in which the node was held up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnTime {
    held_up: Nanos,
}

impl OwnTime {
    /// Takes note that the node was held up for so long.
    pub(super) fn note_stall(&mut self, stall: Nanos) {
        self.held_up = self.held_up + stall;
    }

    /// The own time at an instant of the common time.
    #[inline]
    pub(super) fn at(self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(self.held_up.0))
    }

    /// The instant of the common time, if the node is not held up again before it.
    pub(super) fn to_common(self, own: Timestamp) -> Timestamp {
        Timestamp(own.0.saturating_add(self.held_up.0))
    }
}
