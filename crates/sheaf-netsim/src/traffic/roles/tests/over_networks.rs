//! The machines over networks in which something is in the way.

use super::scenario;
use crate::report::{EventCounts, Report};
use crate::run::tests::{checked, random};
use crate::scenario::{
    DigitOrder, Fault, FaultKind, Placement, RunLength, Scenario, SizeModel, Switching, Topology,
    TrafficModel, WhenFull,
};
use crate::units::Picos;

const EVENTS: u64 = 1_000;

/// 16 readout units and 16 builder units on the ports of a two-stage network of 4x4 switches.
fn on_delta(switching: Switching) -> Scenario {
    let topology = Topology::Delta { radix: 4, stages: 2, digits: DigitOrder::MostFirst };
    let mut traffic = scenario(Placement::Both);
    traffic.events = EVENTS;
    traffic.size = SizeModel::LogNormal { mean: 2000.0, rms: 1000.0 };
    Scenario {
        switching,
        traffic: TrafficModel::Roles(traffic),
        length: RunLength::Events(EVENTS),
        ..random(topology, 1)
    }
}

fn with_fault(scenario: Scenario, what: FaultKind) -> Scenario {
    let fault = Fault { from: Picos::from_micros(500), until: None, what };
    Scenario { faults: vec![fault], ..scenario }
}

const WORMHOLE: Switching = Switching::Wormhole { buffer_bytes: 0 };
const QUEUED: Switching = Switching::OutputQueued { buffer_bytes: Some(400_000), full: WhenFull::Pause };
/// Holds an answer of each readout unit. Nothing in the simulation is random but the sizes: answers to a repeated request that never fit
/// together would be lost in the same way each time.
const LOSSY: Switching = Switching::OutputQueued { buffer_bytes: Some(48_000), full: WhenFull::Drop };

fn events(report: &Report) -> EventCounts {
    report.events.expect("machines build events")
}

const ALL: EventCounts = EventCounts { complete: EVENTS, incomplete: 0, in_flight: 0 };

#[test]
fn sixteen_by_sixteen_build_all_events_over_every_kind_of_network_twice_alike() {
    for switching in [WORMHOLE, QUEUED] {
        let scenario = on_delta(switching);
        let report = checked(&scenario);
        assert_eq!(events(&report), ALL, "{switching:?}");
        let agree = report.checks.iter().find(|check| check.name == "events and fragments agree");
        assert!(agree.is_some_and(|check| !check.detail.contains("not comparable")), "{agree:?}");
        assert_eq!(report, checked(&scenario), "the same scenario gives the same report");
    }
}

#[test]
fn frames_that_the_network_loses_cost_time_and_no_event() {
    let lossy = with_fault(on_delta(QUEUED), FaultKind::FrameLoss(0.01));
    let report = checked(&lossy);
    assert!(report.messages.lost > 100, "{:?}", report.messages);
    assert_eq!(events(&report), ALL);
}

#[test]
fn switches_that_drop_what_they_cannot_hold_lose_messages_and_no_event() {
    let report = checked(&on_delta(LOSSY));
    assert!(report.messages.lost > 100, "{:?}", report.messages);
    assert_eq!(events(&report), ALL);
}

#[test]
fn a_builder_at_half_its_rate_gets_fewer_events_and_delays_none_for_ever() {
    // With control of its own: on shared links a slow builder's requests are slow to leave, and hide the effect.
    let mut scenario = on_delta(QUEUED);
    if let TrafficModel::Roles(machines) = &mut scenario.traffic {
        machines.control = Some(Picos::from_micros(5));
        machines.events = 4 * EVENTS;
        scenario.length = RunLength::Events(4 * EVENTS);
    }
    let slow = with_fault(scenario, FaultKind::SlowReceiver { endpoint: 3, factor: 0.5 });
    let report = checked(&slow);
    assert_eq!(events(&report), EventCounts { complete: 4 * EVENTS, ..ALL });
    let others = report.per_port.iter().sum::<f64>() / 16.0;
    assert!(report.per_port[3] < 0.9 * others, "{:?}", report.per_port);
}

#[test]
fn a_host_that_dies_takes_its_fragments_along_and_no_event() {
    let report = checked(&with_fault(on_delta(QUEUED), FaultKind::HostDead(7)));
    let counts = events(&report);
    assert_eq!(counts.complete + counts.incomplete, EVENTS);
    assert!(counts.incomplete > 0, "{counts:?}");
}
