//! The estimate of the event manager's clock.

use super::*;

/// A tick every 10 ms of a clock that is `ahead` behind this one, with ways of such lengths.
fn run(clock: &mut SlotClock, begin: u64, ahead: u64, ways: &[u64]) -> Vec<u64> {
    let mut estimates = Vec::new();
    for (tick, way) in ways.iter().enumerate() {
        let sent = Timestamp(begin + tick as u64 * 10_000_000);
        clock.note(Timestamp(sent.0 + ahead + way), sent);
        estimates.push(clock.to_own(Timestamp(1_000)).0 - 1_000);
    }
    estimates
}

proptest! {
    #[test]
    fn the_estimate_comes_to_the_shortest_way_and_moves_slowly(
        ahead in 1_000_000..1_000_000_000_u64,
        ways in prop::collection::vec(20_000..2_000_000_u64, 200),
    ) {
        let mut clock = SlotClock::default();
        let estimates = run(&mut clock, 1_000_000_000, ahead, &ways);
        for (tick, pair) in estimates.windows(2).enumerate() {
            let most = (10_000_000 + ways[tick + 1]) / 1_000;
            prop_assert!(pair[0].abs_diff(pair[1]) <= most, "{:?} at tick {}", pair, tick);
        }
        // A step is up to 10 us, a way up to 2 ms long: after 200 ticks the first way is forgotten, whatever it was.
        let longest_of_the_shortest = ways.windows(16).map(|ways| ways.iter().min().unwrap()).max().unwrap();
        let last = estimates.last().unwrap() - ahead;
        prop_assert!(last <= longest_of_the_shortest + 10_000, "{last}");
    }
}

#[test]
fn one_tick_that_was_held_up_says_nothing_and_a_clock_that_was_set_is_believed() {
    let mut clock = SlotClock::default();
    let steady = run(&mut clock, 1_000_000_000, 5_000_000, &[50_000; 20]);
    assert_eq!(steady.last(), Some(&5_050_000));
    let held_up = run(&mut clock, 1_200_000_000, 5_000_000, &[400_000_000]);
    assert_eq!(held_up, [5_050_000]);
    assert_eq!(run(&mut clock, 1_650_000_000, 5_000_000, &[50_000]), [5_050_000]);
    let set = run(&mut clock, 1_700_000_000, 9_000_000_000, &[50_000; 5]);
    assert_eq!(set, [5_050_000, 5_050_000, 5_050_000, 9_000_050_000, 9_000_050_000]);
}

#[test]
fn before_any_tick_clocks_are_taken_for_equal() {
    assert_eq!(SlotClock::default().to_own(Timestamp(77)), Timestamp(77));
}
