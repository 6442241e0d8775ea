//! Costs in hosts.

use super::*;
use crate::scenario::WhenFull;

/// Efficiency of eight hosts on a switch that never blocks, saturated, with these hosts and links.
fn efficiency(change: impl FnOnce(&mut Scenario)) -> f64 {
    let switching = Switching::OutputQueued { buffer_bytes: None, full: WhenFull::Drop };
    let mut scenario = scenario(Topology::Crossbar { ports: 8 }, switching);
    change(&mut scenario);
    run(&scenario, 30_000).efficiency
}

fn expect(change: impl FnOnce(&mut Scenario), expected: f64) {
    let found = efficiency(change);
    assert!((found - expected).abs() < 0.012, "{found}, not {expected}");
}

#[test]
fn overhead_is_idle_time_after_each_message() {
    expect(|scenario| scenario.endpoint.overhead = Picos(SLOT.0 / 4), 0.8);
}

#[test]
fn starting_a_message_costs_time_unless_the_next_one_is_prepared_meanwhile() {
    expect(|scenario| scenario.endpoint.start = Picos(SLOT.0 / 4), 0.8);
    let prepared = |scenario: &mut Scenario| {
        scenario.endpoint.start = Picos(SLOT.0 / 4);
        scenario.endpoint.queue_messages = 2;
    };
    expect(prepared, 0.99);
}

#[test]
fn a_bus_carries_what_is_sent_and_what_is_received() {
    expect(|scenario| scenario.endpoint.bus = Some(Rate::from_gigabits(15)), 0.75);
    expect(|scenario| scenario.endpoint.bus = Some(Rate::from_gigabits(40)), 0.99);
}

#[test]
fn frames_cost_what_they_have_beside_their_payload() {
    let framed = |scenario: &mut Scenario| {
        scenario.link.frame_payload = Some(500);
        scenario.link.frame_overhead = 125;
    };
    expect(framed, 0.8);
}

#[test]
fn two_rails_carry_twice_as_much() {
    let rails = |scenario: &mut Scenario| {
        scenario.endpoint.rails = 2;
        scenario.endpoint.queue_messages = 16;
        scenario.routes = Routes::Random;
    };
    // Of the rate of one link.
    let found = efficiency(rails);
    assert!(found > 1.9, "{found}");
}

#[test]
fn an_interface_that_looks_ahead_goes_round_a_blocked_message() {
    let switching = Switching::CutThrough { buffer_messages: 1, credit_delay: Picos::ZERO };
    let mut scenario = scenario(Topology::Crossbar { ports: 4 }, switching);
    scenario.endpoint.queue_messages = 4;
    let straight = run(&scenario, 20_000).efficiency;
    scenario.endpoint.look_ahead = true;
    let ahead = run(&scenario, 20_000).efficiency;
    assert!((straight - 0.6553).abs() < 0.006, "{straight}");
    assert!(ahead > straight + 0.05, "{ahead}");
}
