//! Room for further events: reported to the event manager in time, so that it can hold triggers back.
//!
//! The room of a source is stated as the highest event that it can still take: its position plus the number of fragments that fit. When it
//! delivers the next event, its position rises by one and the number falls by one. So a status that is old states too little room,
//! and the event manager needs no message in order to raise busy. It needs one in order to release busy, and before the stated
//! room is used up: an early status, each time the room has grown by a part of the whole.

use sheaf_wire::EventId;

/// An early status is due when the room has grown by this part of the whole. A larger part lets the stated room run out between
/// two reports, a smaller one costs messages.
const PART: u64 = 4;

/// Steps between two powers of two to which sizes of fragments are rounded up. They bound the number of times that the room shrinks
/// because a source sends a larger fragment than before.
const SIZE_STEPS: u64 = 8;

/// Room for fragments of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Highest event for which there is room.
    pub(super) until: EventId,
    /// Number of events for which there is room when nothing is held.
    pub(super) events: u64,
}

impl Room {
    /// Room that nothing limits.
    pub(super) const UNLIMITED: Self = Self { until: EventId(u64::MAX), events: u64::MAX };

    /// Returns the room for the events that find room in both.
    pub(super) fn least(self, other: Self) -> Self {
        Self { until: self.until.min(other.until), events: self.events.min(other.events) }
    }
}

/// Decides when a status is due because of the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomReports {
    /// The room that the event manager knows.
    stated: Room,
    is_due: bool,
}

impl RoomReports {
    pub(super) fn new() -> Self {
        Self { stated: Room::UNLIMITED, is_due: false }
    }

    /// Returns whether a status is due.
    pub(super) fn is_due(self) -> bool {
        self.is_due
    }

    /// Returns whether the room of one source may make a status due.
    pub(super) fn concerns(self, source: Room) -> bool {
        !self.is_due && source.until < self.stated.until
    }

    /// Compares the room with the stated one.
    pub(super) fn check(&mut self, room: Room) {
        let grown = room.until.0.saturating_sub(self.stated.until.0);
        self.is_due |= room.until < self.stated.until || grown >= (room.events / PART).max(1);
    }

    /// Records that this room was stated.
    pub(super) fn state(&mut self, room: Room) {
        (self.stated, self.is_due) = (room, false);
    }
}

/// Size as which the fragments of a source count for its room: that of the largest of the last ones.
///
/// If the largest ever counted, a single large fragment would leave little room for the rest of the run. Fragments that arrive
/// together belong to one window, which may therefore be longer than configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedSize {
    /// Smallest number of fragments in a window.
    window: u32,
    /// Number of fragments until this window ends.
    left: u32,
    /// Largest of this window, and of the one before.
    now: u64,
    before: u64,
}

impl CountedSize {
    /// Begins without a fragment.
    pub(super) fn new(window: u32) -> Self {
        let window = window.max(1);
        Self { window, left: window, now: 1, before: 1 }
    }

    /// Takes the size of the largest of the next `fragments` fragments.
    #[inline]
    pub(super) fn note(&mut self, fragments: usize, largest: u64) {
        if self.left == 0 {
            *self = Self { left: self.window, now: 1, before: self.now, ..*self };
        }
        self.left = self.left.saturating_sub(u32::try_from(fragments).unwrap_or(u32::MAX));
        if largest > self.now {
            self.now = counted_size(largest);
        }
    }

    /// Returns the size.
    pub(super) fn get(self) -> u64 {
        self.now.max(self.before)
    }
}

/// Returns the size as which fragments of up to `bytes` count: at most an eighth larger.
fn counted_size(bytes: u64) -> u64 {
    let step = (1 << bytes.max(1).ilog2()) / SIZE_STEPS;
    bytes.max(1).checked_next_multiple_of(step.max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_largest_of_the_last_window_counts_and_none_that_is_two_windows_old(
            window in 1..9_u32,
            runs in prop::collection::vec(prop::collection::vec(1..5_000_u64, 1..6), 1..40),
        ) {
            let mut size = CountedSize::new(window);
            let longest = runs.iter().map(Vec::len).max().unwrap_or(1);
            let mut sizes: Vec<u64> = Vec::new();
            for run in runs {
                size.note(run.len(), run.iter().copied().max().unwrap_or(0));
                sizes.extend(run);
                let largest_of = |last: usize| {
                    let first = sizes.len().saturating_sub(last);
                    sizes[first..].iter().copied().map(counted_size).max().unwrap_or(1)
                };
                prop_assert!(size.get() >= largest_of(window as usize + 1));
                prop_assert!(size.get() <= largest_of(2 * (window as usize + longest - 1)));
            }
        }

        #[test]
        fn a_counted_size_is_not_smaller_and_at_most_an_eighth_larger(bytes in 1..=1_u64 << 40) {
            let counted = counted_size(bytes);
            prop_assert!(counted >= bytes && counted - bytes <= bytes / SIZE_STEPS);
            prop_assert_eq!(counted_size(counted), counted);
        }
    }
}
