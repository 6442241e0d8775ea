//! Report of an import.

use crate::Format;
use serde::{Deserialize, Serialize};
use sheaf_wire::{EventId, SourceId};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Results of an import; also the JSON that `sheaf import --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// The format of the input.
    pub format: Format,
    /// The directory that holds the streams.
    pub output: PathBuf,
    /// The run number in the streams.
    pub run: u32,
    /// Sources, which is the number of streams.
    pub sources: u64,
    /// Distinct event ids.
    pub events: u64,
    /// Events in which at least one of these sources has no fragment.
    pub events_incomplete: u64,
    /// Fragments.
    pub fragments: u64,
    /// Fragments whose source had another fragment with that event id before. They are in the streams, too.
    pub fragments_repeated: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// The sources that lack events, in ascending order.
    pub missing: Vec<SourceGaps>,
}

/// In how many events a source has no fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceGaps {
    /// The source's id.
    pub source: u32,
    /// Number of the import's events that have no fragment of it.
    pub events: u64,
}

/// Which source has a fragment of which event: a bit per source and event.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Sources, with the bit that stands for each.
    bits: BTreeMap<SourceId, usize>,
    /// The sources of each event, 64 in a word; words are added when a source with a high bit comes.
    events: BTreeMap<EventId, Vec<u64>>,
    repeated: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, source: SourceId, event: EventId) {
        let next = self.bits.len();
        let bit = *self.bits.entry(source).or_insert(next);
        let words = self.events.entry(event).or_default();
        if words.len() <= bit / 64 {
            words.resize(bit / 64 + 1, 0);
        }
        let mask = 1 << (bit % 64);
        self.repeated += u64::from(words[bit / 64] & mask != 0);
        words[bit / 64] |= mask;
    }

    pub(crate) fn events(&self) -> u64 {
        self.events.len() as u64
    }

    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    pub(crate) fn incomplete(&self) -> u64 {
        let sources = self.bits.len();
        let answered = |words: &Vec<u64>| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        self.events.values().filter(|words| answered(words) < sources).count() as u64
    }

    pub(crate) fn missing(&self) -> Vec<SourceGaps> {
        let has = |words: &Vec<u64>, bit: usize| {
            words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
        };
        self.bits
            .iter()
            .map(|(source, &bit)| SourceGaps {
                source: source.0,
                events: self.events.values().filter(|words| !has(words, bit)).count() as u64,
            })
            .filter(|gaps| gaps.events > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest::proptest! {
        #[test]
        fn coverage_counts_what_a_set_of_pairs_counts(
            pairs in proptest::collection::vec((0_u32..150, 0_u64..20), 0..400),
        ) {
            let mut coverage = Coverage::default();
            for &(source, event) in &pairs {
                coverage.add(SourceId(source), EventId(event));
            }
            let distinct: BTreeSet<_> = pairs.iter().copied().collect();
            let sources: BTreeSet<_> = pairs.iter().map(|pair| pair.0).collect();
            let events: BTreeSet<_> = pairs.iter().map(|pair| pair.1).collect();
            let lacks = |source: u32| events.iter().filter(|event| !distinct.contains(&(source, **event))).count() as u64;
            let missing: BTreeMap<_, _> = sources.iter().map(|&source| (source, lacks(source))).collect();
            let incomplete = events
                .iter()
                .filter(|event| sources.iter().any(|source| !distinct.contains(&(*source, **event))))
                .count();

            proptest::prop_assert_eq!(coverage.events(), events.len() as u64);
            proptest::prop_assert_eq!(coverage.repeated(), (pairs.len() - distinct.len()) as u64);
            proptest::prop_assert_eq!(coverage.incomplete(), incomplete as u64);
            let found: BTreeMap<_, _> = coverage.missing().iter().map(|gaps| (gaps.source, gaps.events)).collect();
            let expected: BTreeMap<_, _> = missing.into_iter().filter(|gaps| gaps.1 > 0).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
