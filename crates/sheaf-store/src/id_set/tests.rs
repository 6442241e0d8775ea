//! The set against the standard library's.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, (u64::MAX - 300)..=u64::MAX, any::<u64>()]
}

proptest! {
    #[test]
    fn it_behaves_as_a_set(ids in prop::collection::vec(id(), 0..200), more in prop::collection::vec(id(), 0..50)) {
        let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
        for id in &ids {
            prop_assert_eq!(set.insert(EventId(*id)), model.insert(*id));
        }
        let mut other = IdSet::default();
        for id in &more {
            other.insert(EventId(*id));
            model.insert(*id);
        }
        let mut common = set.clone();
        common.retain_common(&other);
        let is_common = |id: &u64| ids.contains(id) && more.contains(id);
        let expected: BTreeSet<u64> = ids.iter().copied().filter(is_common).collect();
        prop_assert_eq!(common.len(), expected.len() as u64);
        let ranges: Vec<_> = common.runs().collect();
        prop_assert!(expected.iter().all(|id| ranges.iter().any(|run| (run.first..=run.last).contains(id))));
        set.merge(&other);
        prop_assert_eq!(set.len(), model.len() as u64);
        prop_assert_eq!(set.is_empty(), model.is_empty());
        let bounds = model.first().zip(model.last()).map(|(first, last)| IdRange { first: *first, last: *last });
        prop_assert_eq!(set.bounds(), bounds);
        let runs: Vec<_> = set.runs().collect();
        let counted: u128 = runs.iter().map(|run| u128::from(run.last - run.first) + 1).sum();
        prop_assert_eq!(counted, model.len() as u128);
        prop_assert!(runs.iter().all(|run| (run.first..=run.last).all(|id| model.contains(&id))));
        prop_assert!(runs.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
        let gaps: Vec<_> = set.gaps().collect();
        prop_assert_eq!(gaps.len(), runs.len().saturating_sub(1));
        for (gap, pair) in gaps.iter().zip(runs.windows(2)) {
            prop_assert_eq!((gap.first, gap.last), (pair[0].last + 1, pair[1].first - 1));
        }
    }
}
