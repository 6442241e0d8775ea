//! Which type an emulated trigger has.

use crate::mix::splitmix64;
use crate::{EventId, TriggerType};
use serde::{Deserialize, Serialize};

/// A mix of trigger types. The type of an event is a function of its id and the seed, so that every node with both
/// knows the type: the event manager, which triggers, and the emulated sources, which answer or do not. If triggers
/// come at random times with a mean rate, so do the triggers of each type, with its share of the rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerMix {
    seed: u64,
    /// Types, each with the sum of its weight and those before it.
    ends: Vec<(TriggerType, u64)>,
}

impl TriggerMix {
    /// A mix of types with their weights. A type without weight never comes.
    #[must_use]
    pub fn new(seed: u64, weights: impl IntoIterator<Item = (TriggerType, u32)>) -> Self {
        let mut end = 0;
        let ends = weights.into_iter().filter(|(_, weight)| *weight > 0).map(|(kind, weight)| {
            end += u64::from(weight);
            (kind, end)
        });
        Self { seed, ends: ends.collect() }
    }

    /// The type of an event; `None` where there is no mix.
    #[must_use]
    pub fn of(&self, event: EventId) -> Option<TriggerType> {
        let (_, total) = self.ends.last()?;
        let draw = splitmix64(self.seed ^ splitmix64(event.0)) % total;
        self.ends.iter().find(|(_, end)| draw < *end).map(|(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn types_come_as_often_as_they_weigh() {
        let weights = [(TriggerType(1), 6), (TriggerType(2), 3), (TriggerType(9), 0), (TriggerType(3), 1)];
        let mix = TriggerMix::new(5, weights);
        let mut counts = BTreeMap::new();
        for event in 0..100_000 {
            *counts.entry(mix.of(EventId(event)).map_or(0, |kind| kind.0)).or_insert(0_i64) += 1;
        }
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        // Five standard deviations of a binomial distribution are 775, 725 and 474.
        for (kind, expected, bound) in [(1, 60_000, 775), (2, 30_000, 725), (3, 10_000, 474)] {
            assert!((counts[&kind] - expected).abs() < bound, "type {kind}: {}", counts[&kind]);
        }
    }

    #[test]
    fn the_type_is_a_function_of_seed_and_event() {
        let weights = [(TriggerType(1), 1), (TriggerType(2), 1)];
        let types = |seed| {
            let mix = TriggerMix::new(seed, weights);
            (0..64).map(|event| mix.of(EventId(event))).collect::<Vec<_>>()
        };
        assert_eq!(types(1), types(1));
        assert_ne!(types(1), types(2));
        assert_eq!(TriggerMix::default().of(EventId(1)), None);
    }
}
