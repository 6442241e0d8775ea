use super::*;
use crate::testing::report;
use std::time::Duration;

#[test]
fn results_are_in_the_order_of_the_items_whatever_the_number_of_threads() {
    let items: Vec<u64> = (0..50).collect();
    let expected: Vec<u64> = items.iter().map(|item| item * 3).collect();
    for threads in [1, 2, 3, 8, 100] {
        // The first items take longest, so that with several threads they end last.
        let work = |item: &u64| {
            std::thread::sleep(Duration::from_micros(50 - item));
            item * 3
        };
        let mut seen = Vec::new();
        assert_eq!(in_parallel(&items, threads, work, |done| seen.push(done)), expected);
        assert_eq!(seen, (1..=50).collect::<Vec<_>>(), "each finished item is told once, in order");
    }
}

#[test]
fn nothing_to_do_is_done() {
    assert!(in_parallel(&[] as &[u8], 4, |item| *item, |_| panic!("nothing was done")).is_empty());
}

#[test]
fn a_point_that_cannot_be_simulated_leaves_the_others_alone() {
    let text = "seed = [1, 2, 3]\n[topology]\nkind = \"crossbar\"\nports = 4\n";
    let file = crate::testing::parse(text);
    let simulate = |scenario: &Scenario| match scenario.seed {
        2 => Err("no such luck"),
        seed => Ok(report(seed, 0.5)),
    };
    let outcomes = run(&file.points, 2, simulate, |_| ());
    let good: Vec<bool> = outcomes.iter().map(|outcome| outcome.result.is_ok()).collect();
    assert_eq!(good, [true, false, true]);
    assert_eq!(outcomes[1].result, Err(PointError::refused("no such luck")));
}
