use super::*;

/// Returns the inputs in the order in which they get output 0, if `inputs` arrived in this order.
fn served(rule: Arbiter, inputs: &[u32]) -> Vec<u32> {
    let mut waiters = Waiters::new(rule, 1, 3);
    inputs.iter().for_each(|&input| waiters.join(0, input));
    let mut served = Vec::new();
    while let Some((place, input)) = waiters.choose(0) {
        waiters.take(0, place);
        served.push(input);
    }
    assert!(waiters.is_empty(0));
    served
}

#[test]
fn first_come_is_first_served() {
    assert_eq!(served(Arbiter::FirstCome, &[5, 2, 9, 1]), [5, 2, 9, 1]);
}

#[test]
fn the_lowest_number_has_priority() {
    assert_eq!(served(Arbiter::Priority, &[5, 2, 9, 1]), [1, 2, 5, 9]);
}

#[test]
fn round_robin_goes_on_above_the_last_one() {
    let mut waiters = Waiters::new(Arbiter::RoundRobin, 1, 3);
    [5, 2, 9].iter().for_each(|&input| waiters.join(0, input));
    let mut served = Vec::new();
    for again in [2, 5, 9, 2, 5, 9] {
        let (place, input) = waiters.choose(0).unwrap();
        waiters.take(0, place);
        served.push(input);
        waiters.join(0, again);
    }
    assert_eq!(served, [2, 5, 9, 2, 5, 9]);
}

#[test]
fn by_chance_all_are_equally_likely() {
    let mut waiters = Waiters::new(Arbiter::Random, 1, 3);
    (0..4).for_each(|input| waiters.join(0, input));
    let mut times = [0u32; 4];
    for _ in 0..40_000 {
        let (place, input) = waiters.choose(0).unwrap();
        waiters.take(0, place);
        times[input as usize] += 1;
        waiters.join(0, input);
    }
    // Five standard deviations of 40,000 throws at 1/4 are 433.
    assert!(times.iter().all(|times| times.abs_diff(10_000) < 433), "{times:?}");
}
