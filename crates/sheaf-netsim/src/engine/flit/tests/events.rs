//! Event building: all sources begin with the same event, and the arbiter determines the outcome.

use super::{Kind, case, simulate};
use crate::engine::testing::delta;
use crate::scenario::{Arbiter, Assignment, EventTraffic, Placement, SizeModel, Window};
use crate::traffic::push::Push;

/// Efficiency of pushing the events to the builders in turn, one event in flight for each builder.
fn round_robin(radix: u32, stages: u32, arbiter: Arbiter, cycles: u64) -> f64 {
    let network = delta(radix, stages);
    let ports = radix.pow(stages);
    let events = EventTraffic {
        placement: Placement::Both,
        size: SizeModel::Fixed(32),
        correlation: 0.0,
        assignment: Assignment::RoundRobin,
        event_rate: None,
    };
    let mut traffic = Push::new(&events, Window { events: ports }, ports, 1).unwrap();
    let case = case(Kind::Wormhole, 2, cycles).with(|options| options.arbiter = arbiter);
    let (outcome, measured) = simulate(&network, case, &mut traffic);
    assert!(!outcome.course.stuck);
    measured.efficiency
}

#[test]
fn the_same_event_building_is_perfect_or_hopeless_by_the_arbiter_alone() {
    // From the start, all sources send their fragments of the same event: the largest numbers that could be won and lost.
    let priority = round_robin(8, 3, Arbiter::Priority, 30_000);
    assert!(priority > 0.99, "{priority}");
    let in_turn = round_robin(8, 3, Arbiter::RoundRobin, 60_000);
    assert!((0.0015..0.004).contains(&in_turn), "{in_turn}: one event at a time would be {}", 1.0 / 512.0);
}

#[test]
fn arbiters_by_chance_or_by_time_lie_between() {
    for arbiter in [Arbiter::Random, Arbiter::FirstCome] {
        let value = round_robin(8, 2, arbiter, 150_000);
        assert!((0.40..0.55).contains(&value), "{arbiter:?}: {value}");
    }
}
