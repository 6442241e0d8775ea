//! Highest event that a source has reached.
//!
//! A front end may once send a wrong number far ahead. Then all its right numbers are below the highest one, and the highest of them
//! is still known.

use sheaf_wire::EventId;

/// Number of events between two fragments of a source up to which their numbers are credible. A fragment that is further away
/// probably has a wrong number, which says nothing about the events in between.
pub(super) const MOST_AHEAD: u64 = 1_024;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    highest: Option<EventId>,
    /// The highest one before it, if the highest one is far ahead of that and no other event has confirmed it.
    near: Option<EventId>,
}

impl Reached {
    pub(super) fn highest(&self) -> Option<EventId> {
        self.highest
    }

    /// Returns the highest event apart from wrong numbers far ahead, if there were any.
    pub(super) fn highest_near(&self) -> Option<EventId> {
        self.near
    }

    /// Returns the highest event, apart from wrong numbers far ahead.
    pub(super) fn near(&self) -> Option<EventId> {
        self.near.or(self.highest)
    }

    /// Returns whether an event is below the highest one, apart from wrong numbers far ahead.
    pub(super) fn is_beyond(&self, event: EventId) -> bool {
        self.near().is_some_and(|reached| reached > event)
    }

    /// Records an event. Returns whether a higher one preceded it.
    pub(super) fn note(&mut self, event: EventId) -> bool {
        match self.highest.filter(|highest| event < *highest) {
            Some(highest) => self.note_late(event, highest),
            None => self.rise(event),
        }
        self.highest > Some(event)
    }

    /// Records an event that is not below the highest one.
    #[inline]
    pub(super) fn rise(&mut self, event: EventId) {
        let is_far = self.highest.is_some_and(|highest| event.0 - highest.0 > MOST_AHEAD);
        self.near = if is_far { self.near.or(self.highest) } else { None };
        self.highest = Some(event);
    }

    /// Records an event below the highest one, which was wrong if the event is far below. So was that before it, if the event is far
    /// below that as well.
    fn note_late(&mut self, event: EventId, highest: EventId) {
        let is_far_below = |other: EventId| other.0 - event.0 > MOST_AHEAD;
        if is_far_below(highest) {
            self.near = match self.near {
                Some(near) if event < near && !is_far_below(near) => Some(near),
                Some(near) if event > near && event.0 - near.0 > MOST_AHEAD => Some(near),
                _ => Some(event),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Numbers in any order within some distance, with wrong ones far ahead among them.
        #[test]
        fn the_highest_right_number_is_known(
            numbers in prop::collection::vec((0..5_u64, prop::option::weighted(0.2, (1_u64 << 40)..1 << 41)), 4..200),
        ) {
            let mut reached = Reached::default();
            let (mut right, mut wrong, mut are_two_right) = (None, None, false);
            for (number, (back, far)) in (100..).zip(numbers) {
                let event = EventId(far.unwrap_or(number - back));
                let before = reached.highest();
                prop_assert_eq!(reached.note(event), before > Some(event));
                match far {
                    Some(_) => wrong = wrong.max(Some(event)),
                    None => {
                        are_two_right = right.is_some();
                        right = right.max(Some(event));
                    }
                }
                prop_assert_eq!(reached.highest(), right.max(wrong));
                if far.is_none() && are_two_right && wrong.is_some() {
                    prop_assert_eq!(reached.highest_near(), right);
                }
            }
        }
    }

    #[test]
    fn a_source_that_jumps_goes_on_from_there() {
        let mut reached = Reached::default();
        for event in [10, 20_000, 20_001, 40_000] {
            assert!(!reached.note(EventId(event)));
        }
        assert_eq!(
            (reached.highest(), reached.highest_near()),
            (Some(EventId(40_000)), Some(EventId(20_001)))
        );
        assert!(reached.note(EventId(39_999)), "late");
        assert_eq!(reached.highest(), Some(EventId(40_000)));
    }
}
