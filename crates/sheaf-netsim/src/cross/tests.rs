use super::{Cross, Difference, check, compare};
use crate::run::tests::random;
use crate::scenario::{
    Arbiter, DigitOrder, Fidelity, Routes, RunLength, Scenario, SizeModel, Switching, Topology, TrafficModel,
};
use crate::units::Picos;

fn delta(radix: u32, stages: u32) -> Topology {
    Topology::Delta { radix, stages, digits: DigitOrder::MostFirst }
}

#[track_caller]
fn agreed(scenario: &Scenario, fidelities: &[Fidelity]) -> Cross {
    let cross = check(scenario).unwrap();
    let ran: Vec<Fidelity> = cross.reports.iter().map(|report| report.fidelity).collect();
    assert_eq!(ran, fidelities, "{:?}", cross.unable);
    for difference in &cross.differences {
        assert!(difference.is_within(), "{difference:?}");
    }
    for report in &cross.reports {
        assert!(report.checks.iter().all(|check| check.pass), "{:?}", report.checks);
    }
    cross
}

const ALL: [Fidelity; 3] = [Fidelity::Analytic, Fidelity::Message, Fidelity::Flit];

#[test]
fn theory_messages_and_flits_agree_on_one_switch() {
    let cross = agreed(&random(Topology::Crossbar { ports: 4 }, 8_000), &ALL);
    assert!(cross.differences.iter().all(|difference| !difference.one_sided));
    let mut exponential = random(Topology::Crossbar { ports: 4 }, 20_000);
    exponential.traffic = TrafficModel::Random { size: SizeModel::Exponential(1_000.0), load: 1.0 };
    agreed(&exponential, &ALL);
}

#[test]
fn messages_and_flits_agree_on_layers_of_switches() {
    for topology in [delta(4, 2), Topology::Layered { radix: 4, stages: 2, spreading: 1 }, delta(2, 4)] {
        for arbiter in [Arbiter::Random, Arbiter::FirstCome] {
            let scenario = Scenario { arbiter, ..random(topology.clone(), 4_000) };
            let cross = agreed(&scenario, &ALL);
            let tolerance =
                cross.differences.iter().map(|difference| difference.tolerance).fold(0.0, f64::max);
            assert!(tolerance < 0.03, "{tolerance}: the runs are too short to tell anything");
        }
    }
}

#[test]
fn messages_and_flits_agree_where_buffers_hold_a_message() {
    let switching = Switching::CutThrough { buffer_messages: 2, credit_delay: Picos::ZERO };
    agreed(&Scenario { switching, ..random(delta(4, 2), 2_000) }, &ALL);
}

#[test]
fn slotted_switches_have_no_flits_and_agree_with_theory() {
    let scenario = Scenario { switching: Switching::Unbuffered, ..random(delta(4, 2), 20_000) };
    agreed(&scenario, &ALL[..2]);
}

#[test]
fn a_bound_may_be_far_above_but_not_below() {
    let between = |difference: f64, one_sided: bool| {
        let (model, reference) = (Fidelity::Analytic, Fidelity::Message);
        Difference { model, reference, difference, tolerance: 0.01, one_sided }.is_within()
    };
    assert!(between(0.5, true) && between(-0.009, true) && !between(-0.02, true));
    assert!(!between(0.5, false) && !between(-0.02, false) && between(0.005, false));
}

#[test]
fn runs_that_are_too_long_for_flits_are_cut_for_all() {
    let scenario = Scenario { routes: Routes::Hash, ..random(delta(8, 2), 1_000_000_000) };
    let cross =
        check(&Scenario { length: RunLength::Time(Picos::from_micros(1 << 40)), ..scenario }).unwrap();
    let ends: Vec<Picos> = cross.reports[1..].iter().map(|report| report.simulated).collect();
    assert!(ends[0] < Picos::from_micros(1 << 30), "{ends:?}");
    assert!(ends[0].since(ends[1]).0.max(ends[1].since(ends[0]).0) < 10_000, "{ends:?}");
    assert_eq!(compare(&cross.reports), cross.differences);
}
