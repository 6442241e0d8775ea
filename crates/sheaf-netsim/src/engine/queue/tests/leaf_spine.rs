//! Event building on lossy Ethernet in two stages: 25 leaves with 20 sources, 20 builders and 20 uplinks each, 20 spines
//! of 25 ports (`reference/simulation.md`, section 2.5).

use super::*;
use crate::scenario::{Assignment, BarrelShifter, EventTraffic, Placement, WhenFull, Window};
use crate::traffic::barrel::Barrel;
use crate::traffic::placement::Roster;
use crate::traffic::pull::{Pull, PullShape};
use crate::traffic::push::Push;

const ENDPOINTS: u32 = 1_000;

fn leaf_spine(routes: Routes, buffer_frames: u64) -> Scenario {
    let topology = Topology::FoldedClos { leaves: 25, ports: 40, spines: 20, uplinks: 1, uplink_rate: None };
    let switching = Switching::OutputQueued {
        buffer_bytes: Some(buffer_frames * u64::from(BYTES)),
        full: WhenFull::Drop,
    };
    Scenario { routes, ..scenario(topology, switching) }
}

fn placement() -> Placement {
    Placement::Grouped { group: 40, readouts: 20, builders: 20, stay_inside: false }
}

/// One frame for each fragment; events come so often that each source offers `load`.
fn events(load: f64) -> EventTraffic {
    EventTraffic {
        placement: placement(),
        size: SizeModel::Fixed(BYTES),
        correlation: 0.0,
        assignment: Assignment::RoundRobin,
        event_rate: Some(load / SLOT.as_secs_f64()),
    }
}

/// Each source offers `load`, slot by slot, to builders drawn by chance.
struct Pairs {
    roster: Roster,
    dice: Vec<Dice>,
    load: f64,
    due: Vec<u64>,
}

impl Pairs {
    fn new(load: f64) -> Self {
        let dice = |sender| Dice::new(1, Purpose::Destination, sender);
        Self {
            roster: Roster::new(&placement(), ENDPOINTS).unwrap(),
            dice: (0..ENDPOINTS).map(dice).collect(),
            load,
            due: vec![0; ENDPOINTS as usize],
        }
    }
}

impl Traffic for Pairs {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        if sender.0 % 40 >= 20 {
            return Next::Sleep;
        }
        let (dice, due) = (&mut self.dice[sender.index()], &mut self.due[sender.index()]);
        while SLOT.0 * *due <= now.0 {
            *due += 1;
            if dice.unit() < self.load {
                let builders = self.roster.builders();
                let destination = builders[dice.below(u32::try_from(builders.len()).unwrap()) as usize];
                return Next::Send(Message {
                    source: sender,
                    destination,
                    bytes: BYTES,
                    token: 0,
                    born: now,
                });
            }
        }
        Next::At(slots(*due))
    }

    fn delivered(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}

    fn lost(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}
}

#[expect(clippy::cast_precision_loss, reason = "a fraction of some millions")]
fn loss(measured: &Measured) -> f64 {
    measured.messages.lost as f64 / (measured.messages.lost + measured.messages.delivered) as f64
}

fn measure<T: Traffic>(scenario: &Scenario, mut traffic: T, length: u64) -> Measured {
    let (measured, ended) = run_on(scenario, &mut traffic, slots(length), |endpoint| endpoint % 40 >= 20);
    assert_eq!(ended.deadlock, None);
    measured
}

fn push(scenario: &Scenario, load: f64) -> Measured {
    let window = Window { events: 10_000 };
    measure(scenario, Push::new(&events(load), window, ENDPOINTS, 1).unwrap(), 1_500)
}

/// Builders ask for `credit` frames at a time, as fast as they can.
fn pull(scenario: &Scenario, credit: u64) -> Measured {
    let shape = PullShape { outstanding: 4, credit_bytes: Some(credit * u64::from(BYTES)), request_bytes: 0 };
    let events = EventTraffic { event_rate: None, ..events(1.0) };
    measure(scenario, Pull::new(&events, shape, ENDPOINTS, 1).unwrap(), 1_500)
}

/// A barrel shifter whose slots are used to 95 %.
fn barrel(scenario: &Scenario, length: u64) -> Measured {
    let shape = BarrelShifter {
        slot: Some(Picos(SLOT.0 * 20 / 19)),
        block_bytes: 0,
        guard: Picos::ZERO,
        start_skew: Picos::ZERO,
        clock_ppm: 0,
        synchronised: false,
    };
    let events = EventTraffic { event_rate: None, ..events(1.0) };
    measure(scenario, Barrel::new(&events, shape, RATE, ENDPOINTS, 1).unwrap(), length)
}

/// The largest content of a queue, in frames.
fn peak(measured: &Measured) -> u64 {
    measured.occupancy.iter().map(|occupancy| occupancy.max_bytes).max().unwrap() / u64::from(BYTES)
}

#[test]
fn random_destinations_are_no_problem() {
    let measured = measure(&leaf_spine(Routes::DestinationDigit, 100), Pairs::new(0.95), 1_500);
    assert_eq!(measured.messages.lost, 0);
    assert!((0.94..0.96).contains(&measured.efficiency), "{}", measured.efficiency);
    assert!(peak(&measured) <= 100);
}

#[test]
fn unshaped_event_building_loses_most_of_its_frames_at_half_load() {
    // All sources send to one builder at once. Everything is lost where ways come together, in the last two hops.
    for (routes, lost) in [(Routes::DestinationDigit, 0.72), (Routes::Random, 0.82), (Routes::Hash, 0.82)] {
        let measured = push(&leaf_spine(routes, 100), 0.5);
        assert!((loss(&measured) - lost).abs() < 0.02, "{routes:?}: {}", loss(&measured));
        for lost in &measured.losses {
            assert!(lost.cause.ends_with("stage 2") || lost.cause.ends_with("stage 3"), "{lost:?}");
        }
    }
}

#[test]
fn larger_fragments_lose_more() {
    // Four frames for each fragment, at the same load: more of an event comes at once.
    let mut scenario = leaf_spine(Routes::Random, 100);
    scenario.link.frame_payload = Some(BYTES);
    let events = EventTraffic {
        size: SizeModel::Fixed(4 * BYTES),
        event_rate: Some(0.5 / (4.0 * SLOT.as_secs_f64())),
        ..events(0.5)
    };
    let push = Push::new(&events, Window { events: 10_000 }, ENDPOINTS, 1).unwrap();
    let measured = measure(&scenario, push, 3_000);
    assert!((0.86..0.97).contains(&loss(&measured)), "{}", loss(&measured));
}

#[test]
fn a_run_that_loses_nearly_everything_ends_all_the_same() {
    let scenario = Scenario {
        traffic: TrafficModel::Push(events(0.5), Window { events: 10_000 }),
        length: RunLength::Events(200),
        ..leaf_spine(Routes::Random, 100)
    };
    let report = crate::run::run(&scenario).unwrap();
    let counts = report.events.unwrap();
    assert!(counts.incomplete > counts.complete && counts.complete + counts.incomplete >= 200, "{counts:?}");
    assert!(report.checks.iter().all(|check| check.pass), "{:?}", report.checks);
}

#[test]
fn queues_that_hold_an_event_lose_nothing() {
    let measured = push(&leaf_spine(Routes::DestinationDigit, 600), 0.5);
    assert_eq!(measured.messages.lost, 0);
    assert!((400..=600).contains(&peak(&measured)), "{}", peak(&measured));
}

#[test]
fn credit_of_twenty_frames_for_each_builder_loses_nothing_and_fills_the_links() {
    for routes in [Routes::DestinationDigit, Routes::Random, Routes::Hash] {
        let measured = pull(&leaf_spine(routes, 100), 20);
        assert_eq!(measured.messages.lost, 0, "{routes:?}");
        assert!(measured.efficiency > 0.88, "{routes:?}: {}", measured.efficiency);
    }
    let starved = pull(&leaf_spine(Routes::Random, 100), 8);
    assert_eq!(starved.messages.lost, 0);
    assert!((0.74..0.88).contains(&starved.efficiency), "{}", starved.efficiency);
}

#[test]
fn a_barrel_shifter_needs_no_buffers_where_its_routes_are_its_destinations() {
    let measured = barrel(&leaf_spine(Routes::DestinationDigit, 100), 1_500);
    assert_eq!(measured.messages.lost, 0);
    assert!((0.94..0.96).contains(&measured.efficiency), "{}", measured.efficiency);
    assert!(peak(&measured) <= 3, "{}", peak(&measured));
}

#[test]
fn a_barrel_shifter_with_hashed_routes_loses_a_little() {
    let measured = barrel(&leaf_spine(Routes::Hash, 100), 4_000);
    assert!((0.000_01..0.01).contains(&loss(&measured)), "{}", loss(&measured));
}
