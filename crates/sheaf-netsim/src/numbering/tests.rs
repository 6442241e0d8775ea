use super::{NumberingError, positions};
use crate::scenario::Numbering;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_numbering_gives_each_endpoint_a_place_of_its_own(
        radices in prop::collection::vec(1..6_u32, 0..5), seed: u64
    ) {
        let endpoints: u32 = radices.iter().product();
        for numbering in [Numbering::Identity, Numbering::DigitReversed, Numbering::Shuffled(seed)] {
            let mut places = positions(&numbering, &radices, endpoints).unwrap();
            places.sort_unstable();
            prop_assert_eq!(places, (0..endpoints).collect::<Vec<_>>());
        }
    }

    #[test]
    fn reversing_equal_digits_twice_changes_nothing(radix in 2..6_u32, digits in 1..5_u32) {
        let radices = vec![radix; digits as usize];
        let places = positions(&Numbering::DigitReversed, &radices, radix.pow(digits)).unwrap();
        for (endpoint, &place) in (0_u32..).zip(&places) {
            prop_assert_eq!(places[place as usize], endpoint);
        }
    }
}

#[test]
fn reversed_digits_deal_endpoints_out_to_the_leaves_in_turn() {
    // 3 leaves of 2 ports.
    let places = positions(&Numbering::DigitReversed, &[2, 3], 6).unwrap();
    assert_eq!(places, [0, 2, 4, 1, 3, 5]);
}

#[test]
fn a_list_that_is_not_a_permutation_is_refused() {
    let listed = |places: &[u32]| positions(&Numbering::Listed(places.to_vec()), &[], 3);
    assert_eq!(listed(&[2, 0, 1]), Ok(vec![2, 0, 1]));
    assert_eq!(listed(&[0, 1]), Err(NumberingError::Length { given: 2, endpoints: 3 }));
    assert_eq!(listed(&[0, 1, 1]), Err(NumberingError::LinkEnd { endpoint: 2, place: 1, last: 2 }));
    assert_eq!(listed(&[0, 3, 1]), Err(NumberingError::LinkEnd { endpoint: 1, place: 3, last: 2 }));
}
