//! What a builder may still be given.

use sheaf_wire::ByteCount;

/// A builder's credit in events and bytes. The builder grants, an assignment takes; what an event took is granted
/// anew when it ends, so that the sum is the builder's at any time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    slots: u64,
    bytes: u64,
}

impl Credit {
    pub(super) fn grant(&mut self, slots: u32, bytes: ByteCount) {
        self.slots += u64::from(slots);
        self.bytes = self.bytes.saturating_add(bytes.0);
    }

    /// What the next event would be charged, or `None` if there is no credit for it. An event larger than all credit
    /// is given to a builder that has nothing else to do: it may fit all the same.
    pub(super) fn offer(&self, mean_event: Option<u64>, outstanding: usize) -> Option<u32> {
        if self.slots == 0 {
            return None;
        }
        let expected = mean_event.unwrap_or_else(|| self.bytes / self.slots).max(1);
        let charged = if outstanding == 0 { expected.min(self.bytes) } else { expected };
        (charged <= self.bytes).then(|| u32::try_from(charged).unwrap_or(u32::MAX))
    }

    pub(super) fn take(&mut self, charged: u32) {
        self.slots -= 1;
        self.bytes -= u64::from(charged);
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
                    credit.take(charged);
                    taken_slots += 1;
                    taken_bytes += u64::from(charged);
                }
                prop_assert!(taken_slots <= slots && taken_bytes <= bytes);
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
