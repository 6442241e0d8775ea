//! The same machines, switch and events under every shaping.

use super::scenario;
use crate::report::Report;
use crate::run::tests::{checked, random};
use crate::scenario::{
    Fault, FaultKind, LinkModel, Placement, RolesShaping, RunLength, Scenario, SizeModel, Switching,
    Topology, TrafficModel, WhenFull,
};
use crate::units::{Picos, Rate};

const NODES: u32 = 8;

/// Fragments, capacity of one output of the switch, and events: fixed fragments of 2 kB, or fragments with a mean of 16
/// kB and an rms of 8 kB.
type Case = (SizeModel, u64, u64);
const SMALL: Case = (SizeModel::Fixed(2_000), 64 << 10, 8_000);
const LARGE: Case = (SizeModel::LogNormal { mean: 16_000.0, rms: 8_000.0 }, 512 << 10, 2_000);

/// 8 readout units and 8 builder units on Gigabit Ethernet with jumbo frames, a switch that drops frames that do not
/// fit, and a control network of its own.
fn on_a_switch(shaping: RolesShaping, (size, buffer_bytes, events): Case) -> Scenario {
    let mut traffic = scenario(Placement::Apart { readouts: NODES, builders: NODES });
    (traffic.size, traffic.events, traffic.shaping) = (size, events, shaping);
    traffic.control = Some(Picos::from_micros(20));
    traffic.slots = 256;
    // Losing any part of a message loses all of it. Slots are filled by one message of many small fragments, or by many
    // messages of one large fragment.
    let fills_slot = matches!((shaping, size), (RolesShaping::Barrel { .. }, SizeModel::Fixed(_)));
    traffic.message_bytes = if fills_slot { 64 << 10 } else { 8_000 };
    Scenario {
        switching: Switching::OutputQueued { buffer_bytes: Some(buffer_bytes), full: WhenFull::Drop },
        link: LinkModel {
            rate: Rate::from_gigabits(1),
            delay: Picos::from_nanos(300),
            frame_overhead: 38,
            frame_payload: Some(9_000),
        },
        traffic: TrafficModel::Roles(traffic),
        length: RunLength::Events(events),
        ..random(Topology::Crossbar { ports: 2 * NODES }, 1)
    }
}

/// The share of the builders' links that payload has filled.
fn efficiency(report: &Report) -> f64 {
    report.per_port.iter().sum::<f64>() / f64::from(NODES)
}

fn complete(report: &Report) -> u64 {
    report.events.expect("machines build events").complete
}

/// Runs; returns the number of lost messages and the filled share of the links. Every event is complete.
fn run(shaping: RolesShaping, case: Case) -> (u64, f64) {
    let report = checked(&on_a_switch(shaping, case));
    assert_eq!(complete(&report), case.2, "{shaping:?}");
    let result = (report.messages.lost, efficiency(&report));
    println!("{shaping:?}, {:?}: {} lost, {:.3} filled", case.0, result.0, result.1);
    result
}

fn barrel(synchronised: bool, (_, buffer_bytes, _): Case) -> RolesShaping {
    RolesShaping::Barrel {
        // 16 to 32 fragments of mean size.
        block_bytes: u32::try_from(buffer_bytes).unwrap().min(256 << 10),
        guard: Picos::from_micros(2),
        synchronised,
        credit_bytes: buffer_bytes / 2,
    }
}

#[test]
fn push_overflows_the_outputs_of_a_switch_and_no_event_is_lost_by_it() {
    let (lost, filled) = run(RolesShaping::Push, SMALL);
    assert!(lost > 1_000 && filled < 0.5, "{lost} lost, {filled}");
}

#[test]
fn paced_pull_with_a_credit_of_half_the_buffer_loses_nothing_and_fills_the_links() {
    // Half: sizes are expected, not known, and heads of messages and frames count too.
    for (case, least) in [(SMALL, 0.93), (LARGE, 0.85)] {
        let (lost, filled) = run(RolesShaping::Paced { credit_bytes: case.1 / 2 }, case);
        assert!(lost == 0 && filled > least, "{lost} lost, {filled}");
    }
}

#[test]
fn a_credit_of_many_buffers_loses_as_push_does() {
    let (lost, _) = run(RolesShaping::Paced { credit_bytes: 32 * SMALL.1 }, SMALL);
    assert!(lost > 1_000, "{lost} lost");
}

#[test]
fn a_barrel_shifter_loses_nothing_and_fills_the_links() {
    for (case, least) in [(SMALL, 0.93), (LARGE, 0.85)] {
        for synchronised in [false, true] {
            let (lost, filled) = run(barrel(synchronised, case), case);
            assert!(lost == 0 && filled > least, "{lost} lost, {filled}");
        }
    }
}

/// The document slowed one builder by 50 %: the event manager adapts to its capacity.
#[test]
fn a_builder_at_half_its_rate_gives_the_rest_of_its_share_to_the_others_and_takes_it_back() {
    let mut scenario = on_a_switch(RolesShaping::Paced { credit_bytes: SMALL.1 / 2 }, SMALL);
    let (from, until) = (Picos::from_micros(40_000), Picos::from_micros(80_000));
    let what = FaultKind::SlowReceiver { endpoint: NODES + 3, factor: 0.5 };
    scenario.faults = vec![Fault { from, until: Some(until), what }];
    let report = checked(&scenario);
    assert_eq!((report.messages.lost, complete(&report)), (0, SMALL.2));
    let mean = |from: u64, until: u64| {
        let slices =
            report.evolution.iter().filter(|(end, _)| (from..until).contains(&(end.0 / 1_000_000_000)));
        let slices: Vec<f64> = slices.map(|(_, efficiency)| *efficiency).collect();
        slices.iter().sum::<f64>() / slices.len() as f64
    };
    // The first milliseconds fill the network; a change takes some to work through the data in flight.
    let (before, slowed, after) = (mean(15, 40), mean(50, 80), mean(90, 115));
    let fair = (f64::from(NODES) - 0.5) / f64::from(NODES);
    println!("{before:.3} before, {slowed:.3} slowed, {after:.3} after");
    assert!(slowed >= before * fair * 0.99, "{before} before, {slowed} slowed, fair is {fair}");
    assert!(after >= before * 0.98, "{before} before, {after} after");
}
