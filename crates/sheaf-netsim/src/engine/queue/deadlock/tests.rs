use super::*;

fn waits(others: &[usize]) -> State {
    State::Waits(others.to_vec())
}

#[test]
fn a_circle_is_stuck_and_so_is_what_waits_for_it() {
    let states = [waits(&[1]), waits(&[2]), waits(&[0]), waits(&[1]), State::Moves, waits(&[4])];
    assert_eq!(stuck(&states), [true, true, true, true, false, false]);
}

#[test]
fn one_way_out_is_enough() {
    let states = [waits(&[1]), waits(&[0, 2]), State::Moves];
    assert_eq!(stuck(&states), [false, false, false]);
    let states = [waits(&[1]), waits(&[0, 2]), waits(&[1])];
    assert_eq!(stuck(&states), [true, true, true]);
}
