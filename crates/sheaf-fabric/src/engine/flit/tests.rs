//! What the flit level must show: the values of the literature and of other simulators, times to the cycle, and the loop
//! of a deadlock.

mod events;
mod small;

use super::{FlitOutcome, Kind, Options, names, run};
use crate::engine::testing::{RATE, Uniform, crossbar, delta, measured, meter};
use crate::meter::Measured;
use crate::network::Network;
use crate::scenario::{Arbiter, Routes, RunLength, SizeModel};
use crate::traffic::Traffic;
use crate::units::Picos;

/// Flits of one byte, one nanosecond each.
fn options(kind: Kind, buffer_flits: u32, cycles: u64) -> Options {
    Options {
        flit_bytes: 1,
        rate: RATE,
        kind,
        buffer_flits,
        credit_cycles: 1,
        lanes: 1,
        arbiter: Arbiter::Random,
        routes: Routes::Random,
        overhead: Picos::ZERO,
        start: Picos::ZERO,
        length: RunLength::Time(Picos::from_nanos(cycles)),
        seed: 1,
    }
}

fn simulate<T: Traffic>(network: &Network, options: &Options, traffic: &mut T) -> (FlitOutcome, Measured) {
    let mut meter = meter(network, names(network, options));
    let outcome = run(network, options, traffic, &mut meter);
    let measured = measured(meter, outcome.run.end);
    (outcome, measured)
}

/// Efficiency where every host always has a message for anybody.
fn saturated(network: &Network, options: &Options, size: SizeModel) -> f64 {
    let mut traffic = Uniform::saturated(size, network.endpoints(), options.seed);
    let (outcome, measured) = simulate(network, options, &mut traffic);
    assert!(!outcome.run.stuck && outcome.deadlock.is_none());
    measured.efficiency
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} +- {tolerance}");
}

#[test]
fn four_ports_saturate_where_karol_says() {
    near(saturated(&crossbar(4), &options(Kind::Wormhole, 2, 1_500_000), SizeModel::Fixed(64)), 0.655, 0.004);
}

#[test]
fn sizes_that_differ_cost_throughput() {
    let long = options(Kind::Wormhole, 2, 6_000_000);
    // A closed queueing network of four stations with exponential service and four customers is busy 4 / 7 of the time.
    near(saturated(&crossbar(4), &long, SizeModel::Exponential(64.0)), 4.0 / 7.0, 0.005);
    near(saturated(&crossbar(4), &long, SizeModel::Uniform(1, 128)), 0.617, 0.005);
}

#[test]
fn sixteen_ports_in_two_layers_have_what_was_simulated_for_the_demonstrator() {
    for (flits, buffer) in [(32, 2), (64, 4), (256, 2)] {
        let options = options(Kind::Wormhole, buffer, 1_000_000.max(u64::from(flits) * 10_000));
        near(saturated(&delta(4, 2), &options, SizeModel::Fixed(flits)), 0.4825, 0.005);
    }
}

#[test]
fn five_hundred_and_twelve_ports_in_three_layers_have_what_was_simulated_for_the_full_system() {
    let value = saturated(&delta(8, 3), &options(Kind::Wormhole, 4, 40_000), SizeModel::Fixed(64));
    assert!((0.342..=0.351).contains(&value), "{value}");
}

#[test]
fn buffers_of_whole_messages_help() {
    let run = |kind: Kind, messages: u32| {
        saturated(&delta(4, 2), &options(kind, 64 * messages, 800_000), SizeModel::Fixed(64))
    };
    near(run(Kind::CutThrough, 1), 0.500, 0.005);
    near(run(Kind::Wormhole, 1), 0.531, 0.006);
    near(run(Kind::StoreAndForward, 2), 0.509, 0.006);
}

#[test]
fn throughput_hardly_depends_on_who_goes_first() {
    for arbiter in [Arbiter::RoundRobin, Arbiter::FirstCome, Arbiter::Priority] {
        let options = Options { arbiter, ..options(Kind::Wormhole, 2, 600_000) };
        near(saturated(&delta(4, 2), &options, SizeModel::Fixed(32)), 0.4825, 0.008);
    }
}

#[test]
fn a_second_lane_lets_messages_overtake_those_that_are_blocked() {
    let value = |lanes: u32| {
        let options = Options { lanes, ..options(Kind::Wormhole, 4, 60_000) };
        saturated(&delta(2, 6), &options, SizeModel::Fixed(32))
    };
    let (one, two) = (value(1), value(2));
    assert!(two > one + 0.05, "{one}, {two}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let network = delta(2, 3);
    let once = |seed: u64| {
        let options = Options { seed, lanes: 2, ..options(Kind::Wormhole, 3, 20_000) };
        simulate(&network, &options, &mut Uniform::saturated(SizeModel::Uniform(3, 30), 8, seed))
    };
    assert_eq!(once(5), once(5));
    assert_ne!(once(5), once(6));
}
