use super::*;
use crate::scenario::{Assignment, Placement, SizeModel};
use crate::traffic::tests::{Ideal, RATE, events};
use std::collections::BTreeMap;

fn free_running() -> BarrelShifter {
    BarrelShifter {
        slot: None,
        block_bytes: 0,
        guard: Picos::ZERO,
        start_skew: Picos::ZERO,
        clock_ppm: 0,
        synchronised: false,
    }
}

fn run(
    placement: Placement,
    size: SizeModel,
    shape: BarrelShifter,
    endpoints: u32,
    micros: u64,
) -> Ideal<Barrel> {
    let traffic = events(placement, size, Assignment::RoundRobin);
    let barrel = Barrel::new(&traffic, shape, RATE, endpoints, 5).unwrap();
    let mut ideal = Ideal::new(barrel, endpoints, RATE, Picos::ZERO);
    ideal.run_until(Picos::from_micros(micros));
    ideal.summary();
    ideal
}

/// The messages by the instant at which they were sent: source and destination.
fn by_instant(ideal: &Ideal<Barrel>) -> BTreeMap<Picos, Vec<(u32, u32)>> {
    let mut instants: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (message, at) in &ideal.messages {
        instants.entry(*at).or_default().push((message.source.0, message.destination.0));
    }
    instants
}

#[test]
fn in_every_slot_each_builder_has_one_source() {
    let slotted = BarrelShifter { slot: Some(Picos::from_nanos(1200)), ..free_running() };
    for (shape, period) in [(free_running(), 1000), (slotted, 1200)] {
        let ideal = run(Placement::Both, SizeModel::Fixed(1000), shape, 6, 100);
        for (slot, (at, pairs)) in (0_u64..).zip(by_instant(&ideal)) {
            assert_eq!(at, Picos::from_nanos(slot * period));
            for (source, builder) in pairs {
                assert_eq!(u64::from(builder), (u64::from(source) + slot) % 6);
            }
        }
        let latency = ideal.summary().event_latency.unwrap();
        assert_eq!(latency.count, ideal.traffic.complete_events());
        // A turn has 6 slots: the last fragment of an event begins 5 after the first.
        let turn = 5.0 * period as f64 + 1000.0;
        assert!((latency.mean / (turn * 1e3) - 1.0).abs() < 1e-3, "{latency:?}");
    }
}

#[test]
fn with_more_sources_than_builders_some_sources_pause_and_still_nobody_collides() {
    for synchronised in [false, true] {
        let shape = BarrelShifter { slot: Some(Picos::from_nanos(1000)), synchronised, ..free_running() };
        let apart = Placement::Apart { readouts: 5, builders: 3 };
        let ideal = run(apart, SizeModel::Fixed(1000), shape, 8, 100);
        for pairs in by_instant(&ideal).values() {
            let mut builders: Vec<_> = pairs.iter().map(|(_, builder)| *builder).collect();
            builders.sort_unstable();
            builders.dedup();
            assert_eq!(builders.len(), pairs.len(), "{pairs:?}");
        }
        assert!(ideal.traffic.complete_events() > 50);
    }
}

#[test]
fn packing_fills_every_block_whatever_the_fragments() {
    let shape = BarrelShifter { slot: Some(Picos::from_nanos(2100)), block_bytes: 2000, ..free_running() };
    let size = SizeModel::LogNormal { mean: 1500.0, rms: 1500.0 };
    let ideal = run(Placement::Both, size, shape, 8, 4_000);
    assert!(ideal.messages.iter().all(|(block, _)| block.bytes == 2000));
    let sent: u64 = (0..8).map(|source| ideal.bytes_of(source)).sum();
    let built = ideal.traffic.complete_events() as f64 * 8.0 * 1500.0;
    // Sources drift apart by the square root of what they have sent: the last events are not complete.
    assert!((0.85..1.0).contains(&(built / sent as f64)), "{built} of {sent}");
}

#[test]
fn a_fragment_in_several_blocks_is_there_with_the_last() {
    let shape = BarrelShifter { block_bytes: 400, ..free_running() };
    let apart = Placement::Apart { readouts: 1, builders: 2 };
    let ideal = run(apart, SizeModel::Fixed(1000), shape, 3, 3);
    // Blocks of 400 ns go to the builders in turn: the third of a builder has the end of its first event and the
    // beginning of its second.
    assert_eq!(ideal.traffic.complete_events(), 2);
    assert_eq!(ideal.summary().event_latency.unwrap().max.0 / 1_000_000, 2);
}

#[test]
fn a_block_is_cut_to_its_slot_without_the_guard() {
    let guard = Picos::from_nanos(200);
    let shape =
        BarrelShifter { slot: Some(Picos::from_nanos(1000)), block_bytes: 5000, guard, ..free_running() };
    let ideal = run(Placement::Both, SizeModel::Fixed(3000), shape, 4, 50);
    assert!(ideal.messages.iter().all(|(block, _)| block.bytes == 800));
    assert!(by_instant(&ideal).keys().all(|at| at.0 % 1_000_000 == 0));
    let too_long = BarrelShifter { guard: Picos::from_nanos(1000), ..shape };
    let traffic = events(Placement::Both, SizeModel::Fixed(1), Assignment::RoundRobin);
    assert!(matches!(Barrel::new(&traffic, too_long, RATE, 4, 1), Err(SetupError::Guard { .. })));
}

#[test]
fn without_slots_the_guard_follows_each_block() {
    let shape = BarrelShifter { guard: Picos::from_nanos(250), ..free_running() };
    let ideal = run(Placement::Both, SizeModel::Fixed(1000), shape, 4, 50);
    assert!(by_instant(&ideal).keys().all(|at| at.0 % 1_250_000 == 0));
}

#[test]
fn sources_start_within_the_skew_and_their_clocks_drift_apart() {
    let skew = Picos::from_nanos(700);
    let shape = BarrelShifter {
        slot: Some(Picos::from_nanos(1000)),
        start_skew: skew,
        clock_ppm: 1000,
        ..free_running()
    };
    let ideal = run(Placement::Both, SizeModel::Fixed(900), shape, 16, 2_000);
    let of_slot = |slot: usize| -> Vec<u64> {
        let times = |source: u32| {
            let mut own = ideal.messages.iter().filter(move |(message, _)| message.source.0 == source);
            own.nth(slot).expect("the run is long enough").1.0
        };
        (0..16).map(times).collect()
    };
    let spread = |times: &[u64]| times.iter().max().unwrap() - times.iter().min().unwrap();
    let (first, late) = (spread(&of_slot(0)), spread(&of_slot(1900)));
    assert!(first <= skew.0 && first > skew.0 / 2, "{first}");
    // 1900 slots of a microsecond at up to 1000 ppm: 1.9 microseconds at most, in addition to the skew.
    assert!(late > 1_000_000 && late <= 1_900_000 + skew.0, "{late}");
}

#[test]
fn synchronised_sources_begin_a_turn_together() {
    let shape = BarrelShifter { synchronised: true, ..free_running() };
    let size = SizeModel::Uniform(500, 1500);
    let ideal = run(Placement::Both, size, shape, 5, 200);
    let mut own: Vec<Vec<Picos>> = vec![Vec::new(); 5];
    for (message, at) in &ideal.messages {
        own[message.source.index()].push(*at);
    }
    for turn in 1..20 {
        let begins: Vec<_> = own.iter().map(|times| times[turn * 5]).collect();
        assert!(begins.iter().all(|at| *at == begins[0]), "turn {turn}: {begins:?}");
    }
}
