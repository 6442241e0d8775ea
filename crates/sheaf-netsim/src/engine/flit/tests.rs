//! Reproduction of known results at the flit level: values of the literature and of other simulators, times to the
//! cycle, and the loop of a deadlock.

mod events;
mod small;

use super::{FlitRun, Kind, Options, names, run};
use crate::analytic::saturation::saturation_exponential;
use crate::engine::Limit;
use crate::engine::testing::{RATE, Uniform, crossbar, delta, loosened, measured, meter, shortened};
use crate::meter::Measured;
use crate::network::Network;
use crate::scenario::{Arbiter, Routes, RunLength, SizeModel};
use crate::traffic::Traffic;
use crate::units::Picos;

/// A run of a number of cycles.
#[derive(Clone, Copy)]
struct Case {
    options: Options,
    cycles: u64,
}

impl Case {
    fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }
}

/// Flits of one byte, one nanosecond each.
fn case(kind: Kind, buffer_flits: u32, cycles: u64) -> Case {
    let options = Options {
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
        seed: 1,
    };
    Case { options, cycles }
}

fn simulate<T: Traffic>(network: &Network, case: Case, traffic: &mut T) -> (FlitRun, Measured) {
    let mut meter = meter(network, names(network, &case.options));
    let limit = Limit::new(RunLength::Time(Picos::from_nanos(case.cycles)), 1);
    let run = run(network, &case.options, limit, traffic, &mut meter);
    let measured = measured(meter, run.course.end);
    (run, measured)
}

/// Efficiency if every host always has a message for a random destination.
fn saturated(network: &Network, case: Case, size: SizeModel) -> f64 {
    saturated_throughout(network, Case { cycles: shortened(case.cycles), ..case }, size)
}

/// The same over the whole length, for runs that are short already.
fn saturated_throughout(network: &Network, case: Case, size: SizeModel) -> f64 {
    let mut traffic = Uniform::saturated(size, network.endpoints(), case.options.seed);
    let (run, measured) = simulate(network, case, &mut traffic);
    assert!(!run.course.stuck && run.deadlock.is_none());
    measured.efficiency
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} +- {tolerance}");
}

/// The same for a figure of [`saturated`].
#[track_caller]
fn about(value: f64, expected: f64, tolerance: f64) {
    near(value, expected, loosened(tolerance));
}

#[test]
fn four_ports_saturate_where_karol_says() {
    about(saturated(&crossbar(4), case(Kind::Wormhole, 2, 1_500_000), SizeModel::Fixed(64)), 0.655, 0.004);
}

#[test]
fn sizes_that_differ_cost_throughput() {
    let long = case(Kind::Wormhole, 2, 6_000_000);
    about(saturated(&crossbar(4), long, SizeModel::Exponential(64.0)), saturation_exponential(4), 0.005);
    about(saturated(&crossbar(4), long, SizeModel::Uniform(1, 128)), 0.617, 0.005);
}

#[test]
fn sixteen_ports_in_two_layers_have_what_was_simulated_for_the_demonstrator() {
    for (flits, buffer) in [(32, 2), (64, 4), (256, 2)] {
        let case = case(Kind::Wormhole, buffer, 1_000_000.max(u64::from(flits) * 10_000));
        about(saturated(&delta(4, 2), case, SizeModel::Fixed(flits)), 0.4825, 0.005);
    }
}

#[test]
fn five_hundred_and_twelve_ports_in_three_layers_have_what_was_simulated_for_the_full_system() {
    let value = saturated(&delta(8, 3), case(Kind::Wormhole, 4, 40_000), SizeModel::Fixed(64));
    assert!((0.342..=0.351).contains(&value), "{value}");
}

#[test]
fn buffers_of_whole_messages_help() {
    let run = |kind: Kind, messages: u32| {
        saturated(&delta(4, 2), case(kind, 64 * messages, 800_000), SizeModel::Fixed(64))
    };
    about(run(Kind::CutThrough, 1), 0.500, 0.005);
    about(run(Kind::Wormhole, 1), 0.531, 0.006);
    about(run(Kind::StoreAndForward, 2), 0.509, 0.006);
}

#[test]
fn throughput_hardly_depends_on_who_goes_first() {
    for arbiter in [Arbiter::RoundRobin, Arbiter::FirstCome, Arbiter::Priority] {
        let case = case(Kind::Wormhole, 2, 600_000).with(|options| options.arbiter = arbiter);
        about(saturated(&delta(4, 2), case, SizeModel::Fixed(32)), 0.4825, 0.008);
    }
}

#[test]
fn a_second_lane_lets_messages_overtake_those_that_are_blocked() {
    let value = |lanes: u32| {
        let case = case(Kind::Wormhole, 4, 60_000).with(|options| options.lanes = lanes);
        saturated(&delta(2, 6), case, SizeModel::Fixed(32))
    };
    let (one, two) = (value(1), value(2));
    assert!(two > one + 0.05, "{one}, {two}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let network = delta(2, 3);
    let once = |seed: u64| {
        let case = case(Kind::Wormhole, 3, 20_000).with(|options| (options.seed, options.lanes) = (seed, 2));
        simulate(&network, case, &mut Uniform::saturated(SizeModel::Uniform(3, 30), 8, seed))
    };
    assert_eq!(once(5), once(5));
    assert_ne!(once(5), once(6));
}
