use super::*;

#[test]
fn round_robin_goes_round() {
    let mut assigner = Assigner::new(Assignment::RoundRobin, 3, 0);
    let builders: Vec<_> = (0..7).map(|event| assigner.assign(event)).collect();
    assert_eq!(builders, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn by_chance_all_builders_get_their_share() {
    let mut assigner = Assigner::new(Assignment::Random, 8, 3);
    let mut counts = [0_i32; 8];
    for event in 0..80_000 {
        counts[assigner.assign(event) as usize] += 1;
    }
    // 5 standard deviations of a binomial distribution: 94 each.
    assert!(counts.iter().all(|count| (count - 10_000).abs() < 470), "{counts:?}");
}

#[test]
fn the_least_loaded_is_one_with_the_fewest_unfinished_events() {
    let mut assigner = Assigner::new(Assignment::LeastLoaded, 4, 0);
    let first: Vec<_> = (0..8).map(|event| assigner.assign(event)).collect();
    assert_eq!(first, [0, 1, 2, 3, 0, 1, 2, 3], "equals are taken in turn");
    assigner.ended(2);
    assigner.ended(2);
    assigner.ended(1);
    let next: Vec<_> = (8..11).map(|event| assigner.assign(event)).collect();
    assert_eq!(next[0], 2);
    assert!(next[1..].contains(&1) && next[1..].contains(&2), "{next:?}");
}

#[test]
fn triggers_come_by_chance_at_their_rate() {
    let mut triggers = Triggers::new(Some(1e6), 5);
    let (mut counts, mut before) = (Vec::new(), 0);
    for microsecond in 1..=50_000 {
        let count = triggers.count(Picos::from_micros(microsecond));
        assert!(triggers.next() > Picos::from_micros(microsecond));
        counts.push(count - before);
        before = count;
    }
    // 50,000 expected, 224 the standard deviation; a Poisson process has none in e^-1 of the intervals of its mean.
    assert!(before.abs_diff(50_000) < 1_200, "{before}");
    let empty = counts.iter().filter(|count| **count == 0).count();
    assert!(empty.abs_diff(18_394) < 600, "{empty}");
    assert_eq!(Triggers::new(None, 5).count(Picos::ZERO), u64::MAX);
}
