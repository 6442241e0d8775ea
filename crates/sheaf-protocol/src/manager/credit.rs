//! Remaining credit of a builder.

use serde::{Deserialize, Serialize};
use sheaf_wire::ByteCount;

/// A builder's credit in events and bytes. The builder grants credit and an assignment takes it. When an event ends, the
/// builder grants its credit again, so that the sum stays constant.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Credit {
    slots: u64,
    bytes: u64,
}

impl Credit {
    pub(super) fn grant(&mut self, slots: u32, bytes: ByteCount) {
        self.slots += u64::from(slots);
        self.bytes = self.bytes.saturating_add(bytes.0);
    }

    /// Returns the slots and bytes that no event has taken.
    pub(super) fn rest(&self) -> (u64, ByteCount) {
        (self.slots, ByteCount(self.bytes))
    }

    /// Returns the charge for the next event, or `None` if there is no credit for it. An event larger than all credit
    /// is assigned to an idle builder, where it may fit.
    pub(super) fn offer(&self, mean_event: Option<u64>, outstanding: usize) -> Option<u32> {
        if self.slots == 0 {
            return None;
        }
        let expected = mean_event.unwrap_or_else(|| self.bytes / self.slots).max(1);
        let charged = if outstanding == 0 { expected.min(self.bytes) } else { expected };
        (charged <= self.bytes).then(|| u32::try_from(charged).unwrap_or(u32::MAX))
    }

    /// Returns the charge for each of the next events, as [`Self::offer`] does for the first of them, and their number.
    pub(super) fn offer_many(&self, mean_event: Option<u64>, outstanding: usize) -> Option<(u32, u64)> {
        let charged = self.offer(mean_event, outstanding)?;
        // Without a mean, or with a charge that was limited to the credit, the next event may have another charge.
        let is_mean = mean_event.is_some_and(|mean| mean.max(1) == u64::from(charged));
        let events = if is_mean { self.slots.min(self.bytes / u64::from(charged)) } else { 1 };
        Some((charged, events))
    }

    /// Takes credit for this number of events.
    pub(super) fn take(&mut self, charged: u32, events: u64) {
        self.slots -= events;
        self.bytes -= u64::from(charged) * events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_gives_more_than_was_granted(grants in prop::collection::vec((0..4_u32, 0..5_000_u64), 1..20), mean in prop::option::of(0..2_000_u64)) {
            let mut credit = Credit::default();
            let (mut slots, mut bytes, mut taken_slots, mut taken_bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
            for (more_slots, more_bytes) in grants {
                credit.grant(more_slots, ByteCount(more_bytes));
                slots += u64::from(more_slots);
                bytes += more_bytes;
                while let Some(charged) = credit.offer(mean, usize::try_from(taken_slots).unwrap()) {
                    credit.take(charged, 1);
                    taken_slots += 1;
                    taken_bytes += u64::from(charged);
                }
                prop_assert!(taken_slots <= slots && taken_bytes <= bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn many_are_offered_what_one_after_the_other_would_be(
            slots in 0..20_u32, bytes in 0..20_000_u64, mean in prop::option::of(0..2_000_u64), outstanding in 0..2_usize,
        ) {
            let mut credit = Credit::default();
            credit.grant(slots, ByteCount(bytes));
            let offer = credit.offer_many(mean, outstanding);
            prop_assert_eq!(offer.map(|(charged, _)| charged), credit.offer(mean, outstanding));
            if let Some((charged, events)) = offer {
                let mut single = credit;
                for event in 0..usize::try_from(events).unwrap() {
                    prop_assert_eq!(single.offer(mean, outstanding + event), Some(charged));
                    single.take(charged, 1);
                }
                credit.take(charged, events);
                prop_assert_eq!((credit.slots, credit.bytes), (single.slots, single.bytes));
                prop_assert!(events > 0 && (events == 1 || single.offer(mean, 1).is_none()));
            }
        }
    }

    #[test]
    fn an_idle_builder_gets_even_an_event_that_should_not_fit() {
        let mut credit = Credit::default();
        credit.grant(4, ByteCount(100));
        assert_eq!(credit.offer(Some(1000), 0), Some(100));
        assert_eq!(credit.offer(Some(1000), 1), None);
    }
}
