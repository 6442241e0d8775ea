use super::{Dice, Purpose};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_number_is_below_its_limit_and_comes_again_from_the_same_seed(
        seed: u64, entity: u32, limit in 1..u32::MAX
    ) {
        let mut first = Dice::new(seed, Purpose::Route, entity);
        let mut again = first.clone();
        let mut other = Dice::new(seed, Purpose::Route, entity);
        for _ in 0..20 {
            let number = first.below(limit);
            prop_assert!(number < limit);
            prop_assert_eq!(number, again.below(limit));
            prop_assert_eq!(number, other.below(limit));
        }
    }

    #[test]
    fn entities_purposes_and_seeds_have_streams_of_their_own(seed: u64, entity in 0..u32::MAX) {
        let mut all = [
            Dice::new(seed, Purpose::Route, entity),
            Dice::new(seed, Purpose::Route, entity + 1),
            Dice::new(seed, Purpose::Size, entity),
            Dice::new(seed ^ 1, Purpose::Route, entity),
        ]
        .map(|mut dice| (dice.bits(), dice.bits()));
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_shuffle_keeps_every_item(seed: u64, count in 0..200_u32) {
        let mut items: Vec<u32> = (0..count).collect();
        Dice::new(seed, Purpose::Numbering, 0).shuffle(&mut items);
        items.sort_unstable();
        prop_assert_eq!(items, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn all_numbers_are_equally_likely_in_all_streams() {
    // 4 sides, 40,000 draws over 400 streams: the expected count is 10,000 with a standard deviation of 87.
    let mut counts = [0_u32; 4];
    for entity in 0..400 {
        let mut dice = Dice::new(7, Purpose::Destination, entity);
        for _ in 0..100 {
            counts[dice.below(4) as usize] += 1;
        }
    }
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
}

#[test]
fn a_unit_number_is_spread_over_its_interval() {
    let mut dice = Dice::new(1, Purpose::Arrival, 0);
    let values: Vec<f64> = (0..10_000).map(|_| dice.unit()).collect();
    assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
    let mean = values.iter().sum::<f64>() / 10_000.0;
    assert!((mean - 0.5).abs() < 0.015, "{mean}");
}
