use super::*;
use proptest::prelude::*;

fn ids(list: &[EndpointId]) -> Vec<u32> {
    list.iter().map(|endpoint| endpoint.0).collect()
}

#[test]
fn groups_have_their_sources_first_and_then_their_builders() {
    let grouped = |stay_inside| Placement::Grouped { group: 5, readouts: 2, builders: 1, stay_inside };
    let roster = Roster::new(&grouped(true), 10).unwrap();
    assert_eq!(ids(roster.sources()), [0, 1, 5, 6]);
    assert_eq!(ids(roster.builders()), [2, 7]);
    assert_eq!((roster.sources_of(0), roster.sources_of(1)), (0..2, 2..4));
    assert_eq!((roster.builders_of(1), roster.builders_of(2)), (0..1, 1..2));
    let roster = Roster::new(&grouped(false), 10).unwrap();
    assert_eq!(roster.sources_of(1), 0..4);
    assert_eq!(roster.builders_of(0), 0..2);
}

#[test]
fn a_placement_without_room_is_refused_with_what_would_be_right() {
    let text = |placement: &Placement| Roster::new(placement, 8).unwrap_err().to_string();
    assert_eq!(
        text(&Placement::Apart { readouts: 6, builders: 3 }),
        "9 endpoints are wanted (6 sources, 3 builders): the network has 8"
    );
    assert_eq!(
        text(&Placement::Grouped { group: 3, readouts: 1, builders: 1, stay_inside: false }),
        "groups of 3 endpoints do not divide the network's 8"
    );
    assert_eq!(
        text(&Placement::Listed { readouts: vec![1], builders: vec![8] }),
        "endpoint 8 is listed as a builder: the network has endpoints 0 to 7"
    );
    assert_eq!(
        text(&Placement::Listed { readouts: vec![1, 2, 1], builders: vec![3] }),
        "endpoint 1 is listed twice as a source: once is right"
    );
    assert_eq!(
        text(&Placement::Apart { readouts: 3, builders: 0 }),
        "there is no builder: at least one is needed"
    );
    let nothing = Placement::Grouped { group: 0, readouts: 0, builders: 0, stay_inside: true };
    assert!(Roster::new(&nothing, 8).is_err());
}

proptest! {
    #[test]
    fn numbers_and_endpoints_tell_of_each_other(
        (readouts, builders) in (1..5_u32, 1..5_u32),
        (others, groups) in (0..5_u32, 1..6_u32),
        stay_inside in any::<bool>(),
    ) {
        let group = readouts + builders + others;
        let placement = Placement::Grouped { group, readouts, builders, stay_inside };
        let roster = Roster::new(&placement, group * groups).unwrap();
        for (number, endpoint) in (0..).zip(roster.sources()) {
            prop_assert_eq!(roster.source_at(*endpoint), Some(number));
            prop_assert_eq!(roster.builder_at(*endpoint), None);
            for builder in roster.builders_of(number) {
                prop_assert!(roster.sources_of(builder).contains(&number));
                let (source, builder) = (endpoint.0 / group, roster.builders()[builder as usize].0 / group);
                prop_assert!(!stay_inside || source == builder);
            }
        }
        for (number, endpoint) in (0..).zip(roster.builders()) {
            prop_assert_eq!(roster.builder_at(*endpoint), Some(number));
        }
    }
}
