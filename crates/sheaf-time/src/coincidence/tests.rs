use super::*;
use proptest::prelude::*;

const CONFIG: CoincidenceConfig =
    CoincidenceConfig { rule: Rule::Gap(Picos(20)), min_sources: 1, max_items: 1000 };

const QUEUE_ITEMS: usize = 1000;

type Item = (usize, Moment, usize);

/// Reference implementation: sorts all items, then divides them.
fn plainly(items: &[Item], rule: Rule) -> Vec<Vec<Item>> {
    let mut sorted = items.to_vec();
    sorted.sort_by_key(|(source, at, number)| (*at, *source, *number));
    let mut clusters: Vec<Vec<Item>> = Vec::new();
    for item in sorted {
        let joins = clusters.last().is_some_and(|cluster| match rule {
            Rule::Gap(gap) => item.1.since(cluster[cluster.len() - 1].1) <= gap,
            Rule::Window(window) => item.1.since(cluster[0].1) <= window,
        });
        match clusters.last_mut() {
            Some(cluster) if joins => cluster.push(item),
            _ => clusters.push(vec![item]),
        }
    }
    clusters
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec((0..3_usize, 0..60_u64), 0..200).prop_map(|steps| {
        let mut at = 500;
        let item = |(number, (source, step)): (usize, (usize, u64))| {
            at += step;
            (source, Moment(at), number)
        };
        steps.into_iter().enumerate().map(item).collect()
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (0..80_u64).prop_map(|gap| Rule::Gap(Picos(gap))),
        (0..200_u64).prop_map(|window| Rule::Window(Picos(window))),
    ]
}

#[test]
fn a_silent_source_that_is_advanced_does_not_block() {
    let mut coincidence = Coincidence::new(2, QUEUE_ITEMS, CONFIG);
    coincidence.push(0, Moment(100), 0).unwrap();
    assert!(coincidence.poll().is_none(), "the other may still see something at this time");
    coincidence.advance(1, Moment(200));
    assert!(coincidence.poll().is_none(), "the first may still see something");
    coincidence.advance(0, Moment(121));
    let cluster = coincidence.poll().unwrap();
    assert_eq!((cluster.begin(), cluster.sources), (Moment(100), 1));
}

#[test]
fn a_source_that_is_far_ahead_is_held_back() {
    let mut coincidence = Coincidence::new(2, 2, CONFIG);
    coincidence.push(0, Moment(1), 0).unwrap();
    coincidence.push(0, Moment(2), 1).unwrap();
    assert_eq!(coincidence.push(0, Moment(3), 2), Err(2));
    coincidence.advance(1, Moment(3));
    assert!(coincidence.poll().is_none());
    coincidence.push(0, Moment(3), 2).unwrap();
}

#[test]
fn a_cluster_of_too_few_sources_is_counted_and_discarded() {
    let mut coincidence = Coincidence::new(2, QUEUE_ITEMS, CoincidenceConfig { min_sources: 2, ..CONFIG });
    for (source, at) in [(0, 100), (0, 200), (1, 205), (0, 210)] {
        coincidence.push(source, Moment(at), ()).unwrap();
    }
    (0..2).for_each(|source| coincidence.end(source));
    let cluster = coincidence.poll().unwrap();
    assert_eq!((cluster.begin(), cluster.end(), cluster.items.len()), (Moment(200), Moment(210), 3));
    assert!(coincidence.poll().is_none());
    assert_eq!(coincidence.stats().clusters, 2);
    assert_eq!(coincidence.stats().coincidences, 1);
}

#[test]
fn an_endless_cluster_is_cut_and_counted() {
    let mut coincidence = Coincidence::new(1, QUEUE_ITEMS, CoincidenceConfig { max_items: 4, ..CONFIG });
    (0..10).for_each(|number| coincidence.push(0, Moment(number * 10), ()).unwrap());
    coincidence.end(0);
    let lengths: Vec<_> = std::iter::from_fn(|| coincidence.poll()).map(|found| found.items.len()).collect();
    assert_eq!(lengths, [4, 4, 2]);
    assert_eq!(coincidence.stats().cut, 2);
}

proptest! {
    #[test]
    fn clusters_equal_those_of_the_reference_implementation(given in items(), rule in rule()) {
        let mut coincidence = Coincidence::new(3, QUEUE_ITEMS, CoincidenceConfig { rule, ..CONFIG });
        let mut found = Vec::new();
        for (source, at, number) in &given {
            coincidence.push(*source, *at, *number).unwrap();
            found.extend(std::iter::from_fn(|| coincidence.poll()));
        }
        (0..3).for_each(|source| coincidence.end(source));
        found.extend(std::iter::from_fn(|| coincidence.poll()));
        let found: Vec<_> = found.into_iter().map(|cluster| cluster.items).collect();
        prop_assert_eq!(found, plainly(&given, rule));
    }

    #[test]
    fn with_overlaps_that_are_long_enough_every_cluster_is_found_in_exactly_one_slice(
        given in items(),
        gap in 0..40_u64,
        length in 50..2000_u64,
    ) {
        let rule = Rule::Gap(Picos(gap));
        let mut sorted = given.clone();
        sorted.sort_by_key(|(source, at, number)| (*at, *source, *number));
        let expected = plainly(&given, rule);
        let longest = expected.iter().map(|cluster| cluster[cluster.len() - 1].1.since(cluster[0].1).0).max();
        let after = longest.unwrap_or(0) + gap;
        let (mut found, mut stats) = (Vec::new(), CoincidenceStats::default());
        let last = sorted.last().map_or(0, |(_, at, _)| at.0);
        for begin in (0..=last).step_by(usize::try_from(length).unwrap()) {
            let end = begin + length;
            let held = begin.saturating_sub(gap)..end + after + 1;
            let seen: Vec<_> = sorted.iter().filter(|(_, at, _)| held.contains(&at.0)).copied().collect();
            let config = CoincidenceConfig { rule, ..CONFIG };
            let range = (Moment(begin), Moment(end));
            let (clusters, more) = of_slice(config, &seen, range, Moment(held.end));
            found.extend(clusters.into_iter().map(|cluster| cluster.items));
            stats += more;
        }
        prop_assert_eq!(stats.clusters, expected.len() as u64);
        prop_assert_eq!(stats.truncated, 0);
        prop_assert_eq!(found, expected);
    }
}
