//! Several rails: all are used, one that dies is left, and taken again when it is back.

use super::small;
use super::world::{Faults, World, messages};
use crate::Settings;
use sheaf_wire::Nanos;

fn two_rails() -> World {
    let mut world = World::met(1, Settings { rails: 2, ..small() }, Faults::default());
    world.pass(Nanos::from_millis(100));
    world
}

#[test]
fn all_rails_carry_about_the_same() {
    let mut world = two_rails();
    world.recorded = Some(Vec::new());
    world.carry(0, &messages(1, 500, 8_000));
    let mut by_rail = [0; 2];
    for (to, rail, bytes) in world.recorded.unwrap_or_default() {
        by_rail[rail] += if to == 1 { bytes.len() } else { 0 };
    }
    assert!(by_rail[0] * 10 > by_rail[1] * 8 && by_rail[1] * 10 > by_rail[0] * 8, "{by_rail:?}");
}

#[test]
fn a_dead_rail_is_left_and_taken_again_when_it_is_back() {
    let mut world = two_rails();
    world.carry(0, &messages(1, 100, 8_000));
    world.faults.dead_rails = 2;
    world.carry(0, &messages(2, 300, 8_000));
    assert_eq!(world.counts()[0].rails_down, 1);
    let sent = world.counts()[0].datagrams_lost;
    world.carry(0, &messages(3, 300, 8_000));
    assert_eq!(world.counts()[0].datagrams_lost, sent, "nothing more goes by the dead rail");
    world.faults.dead_rails = 0;
    world.pass(Nanos::from_secs(1));
    let up = world.counts()[0].rails_up;
    assert_eq!(up, 2, "the second rail joined, and came back");
    world.recorded = Some(Vec::new());
    world.carry(0, &messages(4, 300, 8_000));
    let by_second = world.recorded.unwrap_or_default().iter().filter(|it| it.0 == 1 && it.1 == 1).count();
    assert!(by_second > 100, "{by_second} datagrams go by the rail that is back");
    assert!(world.ends.iter().all(|end| end.link.is_up()), "the link itself was up all the time");
}

#[test]
fn a_link_comes_up_with_the_rails_that_there_are() {
    for dead in [1, 2] {
        let faults = Faults { dead_rails: dead, ..Faults::default() };
        let mut world = World::met(1, Settings { rails: 2, ..small() }, faults);
        world.carry(0, &messages(1, 100, 8_000));
        world.carry(1, &messages(2, 100, 8_000));
        assert_eq!(world.counts()[0].rails_down, 0);
        world.faults.dead_rails = 0;
        world.pass(Nanos::from_secs(1));
        assert_eq!(world.counts()[0].rails_up, 1);
    }
}

#[test]
fn the_last_rail_is_never_left() {
    let mut world = two_rails();
    assert!(world.send(0, &messages(1, 1, 100)[0]).is_ok());
    world.faults.dead_rails = 3;
    world.pass(Nanos::from_secs(3));
    assert_eq!(world.counts()[0].rails_down, 0, "nobody progresses: it may be the peer");
    world.faults.dead_rails = 0;
    world.until("the message", |world| world.ends[1].received.len() == 1);
}
