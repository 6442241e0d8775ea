//! Properties that every workload must have.

use super::{Ideal, RATE, events};
use crate::scenario::{Assignment, BarrelShifter, Placement, SizeModel, Window};
use crate::traffic::barrel::Barrel;
use crate::traffic::frames::Frames;
use crate::traffic::pull::{Pull, PullShape};
use crate::traffic::push::Push;
use crate::traffic::{Summary, Traffic};
use crate::units::Picos;
use proptest::prelude::*;

const ENDPOINTS: u32 = 12;

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Both),
        (1..7_u32, 1..6_u32).prop_map(|(readouts, builders)| Placement::Apart { readouts, builders }),
        (any::<bool>(), 1..3_u32, 1..3_u32).prop_map(|(stay_inside, readouts, builders)| {
            Placement::Grouped { group: 4, readouts, builders, stay_inside }
        }),
        Just(Placement::Listed { readouts: vec![3, 0, 7], builders: vec![7, 11] }),
    ]
}

fn size() -> impl Strategy<Value = SizeModel> {
    prop_oneof![
        (1..3000_u32).prop_map(SizeModel::Fixed),
        (1..100_u32, 0..3000_u32).prop_map(|(least, more)| SizeModel::Uniform(least, least + more)),
        (1.0..2000.0).prop_map(SizeModel::Exponential),
        (1.0..2000.0, 0.0..3.0).prop_map(|(mean, spread)| SizeModel::LogNormal { mean, rms: mean * spread }),
    ]
}

fn assignment() -> impl Strategy<Value = Assignment> {
    prop_oneof![Just(Assignment::RoundRobin), Just(Assignment::Random), Just(Assignment::LeastLoaded)]
}

/// Runs a workload twice, with losses and without, cut into frames and not; checks its books.
fn check<T: Traffic + Clone>(traffic: &T) -> Summary {
    let end = Picos::from_micros(300);
    let run = |loses: fn(usize) -> bool| {
        let mut ideal = Ideal::new(traffic.clone(), ENDPOINTS, RATE, Picos::from_nanos(700)).losing(loses);
        ideal.run_until(end);
        let summary = ideal.summary();
        (summary, ideal.messages)
    };
    let (summary, messages) = run(|_| false);
    let counts = summary.events.expect("event building has events");
    assert_eq!(counts.incomplete, 0, "nothing was lost");
    let again = run(|_| false);
    assert_eq!((&again.0, &again.1), (&summary, &messages), "the same calls give the same answers");
    let (lossy, _) = run(|number| number % 7 == 3);
    let counts = lossy.events.expect("event building has events");
    assert!(
        summary.events.is_some_and(|counts| counts.complete < 100) || counts.incomplete > 0,
        "{counts:?}"
    );
    let framed = Frames::new(traffic.clone(), ENDPOINTS, Some(256), 38);
    let mut ideal =
        Ideal::new(framed, ENDPOINTS, RATE, Picos::from_nanos(700)).losing(|number| number % 97 == 3);
    ideal.run_until(end);
    ideal.summary();
    assert!(ideal.messages.iter().all(|(frame, _)| (39..=256 + 38).contains(&frame.bytes)));
    summary
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(32))]

    #[test]
    fn push_keeps_its_books_and_its_window(
        placement in placement(), size in size(), assignment in assignment(), window in 1..40_u32,
        rate in prop::option::of(1e4..1e7_f64), seed in any::<u64>(),
    ) {
        let mut traffic = events(placement, size, assignment);
        traffic.event_rate = rate;
        let push = Push::new(&traffic, Window { events: window }, ENDPOINTS, seed).unwrap();
        let summary = check(&push);
        let counts = summary.events.unwrap();
        prop_assert!(counts.in_flight <= u64::from(window));
    }

    #[test]
    fn pull_keeps_its_books(
        placement in placement(), size in size(), assignment in assignment(), outstanding in 1..5_u32,
        credit in prop::option::of(1..10_000_u64), request_bytes in 0..100_u32,
        rate in prop::option::of(1e4..1e6_f64), seed in any::<u64>(),
    ) {
        let mut traffic = events(placement, size, assignment);
        traffic.event_rate = rate;
        let shape = PullShape { outstanding, credit_bytes: credit, request_bytes };
        check(&Pull::new(&traffic, shape, ENDPOINTS, seed).unwrap());
    }

    #[test]
    fn a_barrel_shifter_keeps_its_books(
        placement in placement(), size in size(), slot in prop::option::of(100..3000_u64), block in 0..4000_u32,
        guard in 0..90_u64, skew in 0..2000_u64, ppm in 0..1000_u32, synchronised in any::<bool>(),
        rate in prop::option::of(1e4..1e6_f64), seed in any::<u64>(),
    ) {
        let mut traffic = events(placement, size, Assignment::RoundRobin);
        traffic.event_rate = rate;
        let shape = BarrelShifter {
            slot: slot.map(Picos::from_nanos),
            block_bytes: block,
            guard: Picos::from_nanos(guard),
            start_skew: Picos::from_nanos(skew),
            clock_ppm: ppm,
            synchronised,
        };
        check(&Barrel::new(&traffic, shape, RATE, ENDPOINTS, seed).unwrap());
    }
}
