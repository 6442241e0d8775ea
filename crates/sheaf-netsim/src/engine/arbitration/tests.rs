use super::{Contender, Turn};
use crate::dice::{Dice, Purpose};
use crate::scenario::Arbiter;

fn all(inputs: &[u32]) -> Vec<Contender> {
    inputs.iter().map(|&input| Contender { input, since: 100 - u64::from(input) }).collect()
}

fn winners(arbiter: Arbiter, inputs: &[u32], rounds: usize) -> Vec<u32> {
    let mut turn = Turn::default();
    let mut dice = Dice::new(1, Purpose::Arbiter, 0);
    let contenders = all(inputs);
    (0..rounds).map(|_| contenders[turn.choose(arbiter, &contenders, &mut dice)].input).collect()
}

#[test]
fn in_turn_everybody_wins_once_before_anybody_wins_twice() {
    assert_eq!(winners(Arbiter::RoundRobin, &[0, 3, 5], 7), [0, 3, 5, 0, 3, 5, 0]);
}

#[test]
fn priority_is_the_lowest_number() {
    assert_eq!(winners(Arbiter::Priority, &[4, 2, 9], 3), [2, 2, 2]);
}

#[test]
fn first_come_is_the_longest_waiting() {
    assert_eq!(winners(Arbiter::FirstCome, &[4, 2, 9], 2), [9, 9]);
}

#[test]
fn by_chance_all_win_equally_often() {
    let won = winners(Arbiter::Random, &[0, 1, 2, 3], 40_000);
    for input in 0..4 {
        let share = won.iter().filter(|&&one| one == input).count();
        // Standard deviation 87.
        assert!((9_600..10_400).contains(&share), "input {input}: {share}");
    }
}
