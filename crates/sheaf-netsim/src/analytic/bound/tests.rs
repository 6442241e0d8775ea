use super::{Limit, bound, exact};
use crate::analytic::saturation::saturation;
use crate::run::tests::random;
use crate::scenario::{
    Assignment, BarrelShifter, EventTraffic, InputQueue, Placement, Routes, Scenario, SizeModel, Switching,
    Topology, TrafficModel, Window,
};
use crate::topology::compile;
use crate::units::{Picos, Rate};

fn bounded(scenario: &Scenario) -> (f64, Limit) {
    let rails = scenario.endpoint.rails;
    let network = compile(&scenario.topology, &scenario.numbering, &scenario.link, rails).unwrap();
    let bound = bound(&network, scenario);
    (bound.efficiency, bound.limit)
}

fn known(scenario: &Scenario) -> Option<f64> {
    let rails = scenario.endpoint.rails;
    let network = compile(&scenario.topology, &scenario.numbering, &scenario.link, rails).unwrap();
    exact(&network, scenario).map(|bound| bound.efficiency)
}

#[track_caller]
fn near(value: (f64, Limit), expected: f64, limit: Limit) {
    assert!(
        (value.0 - expected).abs() < 1e-9 && value.1 == limit,
        "{value:?}, expected {expected} {limit:?}"
    );
}

fn events(placement: Placement) -> EventTraffic {
    EventTraffic {
        placement,
        size: SizeModel::Fixed(1_000),
        correlation: 0.0,
        assignment: Assignment::RoundRobin,
        event_rate: None,
    }
}

fn queues(queue: InputQueue) -> Switching {
    Switching::InputQueued { queue, buffer_messages: None, speed_up: 1 }
}

#[test]
fn thin_uplinks_bound_what_leaves_the_leaves() {
    let folded = |rate: u64| Topology::FoldedClos {
        leaves: 4,
        ports: 8,
        spines: 1,
        uplinks: 1,
        uplink_rate: Some(Rate::from_gigabits(rate)),
    };
    let out = |rate: u64| Scenario {
        switching: Switching::CutThrough { buffer_messages: 1, credit_delay: Picos::ZERO },
        ..random(folded(rate), 10)
    };
    // Of the traffic of 8 hosts at 8 Gbit/s three quarters leave, on one cable.
    near(bounded(&out(24)), 24.0 / (64.0 * 0.75), Limit::Stage(1));
    near(bounded(&out(64)), 1.0, Limit::Receivers);
}

#[test]
fn a_placement_that_stays_inside_needs_no_backplane() {
    let chassis = Topology::Chassis { slots: 4, ports: 8, backplane: Rate::from_gigabits(8) };
    let placed = |stay_inside: bool| {
        let placement = Placement::Grouped { group: 8, readouts: 4, builders: 4, stay_inside };
        let traffic = TrafficModel::Push(events(placement), Window { events: 8 });
        bounded(&Scenario { traffic, ..random(chassis.clone(), 10) })
    };
    near(placed(true), 1.0, Limit::Receivers);
    // Four sources, three quarters of whose traffic leave by a link of the same rate.
    near(placed(false), 1.0 / 3.0, Limit::Stage(1));
}

#[test]
fn one_queue_is_bounded_by_what_is_first_in_it() {
    let crossbar = random(Topology::Crossbar { ports: 4 }, 10);
    let expected = saturation(4, 1).unwrap();
    near(bounded(&crossbar), expected, Limit::HeadOfLine);
    let fifo = Scenario { switching: queues(InputQueue::Fifo), ..crossbar.clone() };
    near(bounded(&fifo), expected, Limit::HeadOfLine);
    assert_eq!(known(&fifo), Some(expected));
    let virtual_output = Scenario { switching: queues(InputQueue::VirtualOutput(1)), ..crossbar };
    near(bounded(&virtual_output), 1.0, Limit::Receivers);
    assert_eq!(known(&virtual_output), None);
}

#[test]
fn offered_load_overhead_and_buses_bound_whatever_the_network() {
    let sound = Scenario {
        switching: queues(InputQueue::VirtualOutput(1)),
        ..random(Topology::Crossbar { ports: 4 }, 10)
    };
    let mut light = sound.clone();
    light.traffic = TrafficModel::Random { size: SizeModel::Fixed(1_000), load: 0.3 };
    near(bounded(&light), 0.3, Limit::Load);
    let mut slow = sound.clone();
    slow.endpoint.overhead = Picos::from_nanos(250);
    near(bounded(&slow), 0.8, Limit::Overhead);
    let mut narrow = sound;
    narrow.endpoint.bus = Some(Rate::from_gigabits(12));
    near(bounded(&narrow), 0.75, Limit::Bus);
}

#[test]
fn a_barrel_shifter_fills_its_slots_where_shifts_are_free_of_conflict() {
    let shifter = BarrelShifter {
        slot: Some(Picos::from_nanos(1_250)),
        block_bytes: 0,
        guard: Picos::ZERO,
        start_skew: Picos::ZERO,
        clock_ppm: 0,
        synchronised: false,
    };
    let traffic = TrafficModel::Barrel(events(Placement::Both), shifter);
    let layered = Topology::Layered { radix: 2, stages: 2, spreading: 1 };
    let with = |routes: Routes| Scenario { routes, traffic: traffic.clone(), ..random(layered.clone(), 10) };
    near(bounded(&with(Routes::DestinationDigit)), 0.8, Limit::Slots);
    assert!((known(&with(Routes::DestinationDigit)).unwrap() - 0.8).abs() < 1e-9);
    assert_eq!(known(&with(Routes::Random)), None);
}
