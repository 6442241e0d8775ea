//! The barrel shifter: one sender for each receiver at any time. Figures from the wormhole model, see the parent.

use super::{assert_within, delta, layered};
use crate::run::tests::{checked, random};
use crate::scenario::{
    Assignment, BarrelShifter, EventTraffic, Placement, Routes, Scenario, SizeModel, Topology, TrafficModel,
};
use crate::units::Picos;

/// A free-running barrel shifter, one fragment in a block.
fn barrel(topology: Topology, routes: Routes, size: SizeModel, messages: u64) -> Scenario {
    let events = EventTraffic {
        placement: Placement::Both,
        size,
        correlation: 0.0,
        assignment: Assignment::RoundRobin,
        event_rate: None,
    };
    let shape = BarrelShifter {
        slot: None,
        block_bytes: 0,
        guard: Picos::ZERO,
        start_skew: Picos::ZERO,
        clock_ppm: 0,
        synchronised: false,
    };
    let traffic = TrafficModel::Barrel(events, shape);
    Scenario { routes, traffic, ..random(topology, messages) }
}

#[test]
fn a_barrel_shifter_fills_every_network_whose_routes_go_by_digits() {
    for routes in [Routes::SourceDigit, Routes::DestinationDigit] {
        for topology in [
            Topology::Crossbar { ports: 64 },
            delta(8, 2),
            Topology::Layered { radix: 4, stages: 3, spreading: 1 },
            Topology::Layered { radix: 4, stages: 3, spreading: 3 },
            Topology::Clos { leaves: 8, ports: 8, middles: 8 },
        ] {
            let report = checked(&barrel(topology, routes, SizeModel::Fixed(1_000), 2_500));
            assert_within(&report, 0.999, 1.001);
        }
    }
    let large = barrel(layered(3), Routes::DestinationDigit, SizeModel::Fixed(1_000), 1_500);
    assert_within(&checked(&large), 0.999, 1.001);
}

#[test]
fn routes_that_change_from_message_to_message_break_it() {
    for (spreading, routes, expected) in
        [(1, Routes::Random, 0.32), (3, Routes::Random, 0.23), (1, Routes::Adaptive, 0.38)]
    {
        let broken = barrel(layered(spreading), routes, SizeModel::Fixed(1_000), 600);
        assert_within(&checked(&broken), expected - 0.03, expected + 0.03);
    }
}

#[test]
fn a_small_spread_of_sizes_breaks_it_in_three_stages() {
    let size = SizeModel::Normal { mean: 10_000.0, rms: 1_000.0 };
    assert_within(&checked(&barrel(delta(8, 3), Routes::Random, size, 1_000)), 0.33, 0.36);
}
