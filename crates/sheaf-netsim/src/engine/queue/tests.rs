//! Numbers that theory and other programs found, conservation under everything, deadlock.

mod blocking;
mod conservation;
mod hosts;
mod leaf_spine;
mod saturation;

use super::{Ended, names, prepare};
use crate::dice::{Dice, Purpose};
use crate::meter::{Measured, Meter};
use crate::network::{EndpointId, Network};
use crate::scenario::{
    Arbiter, EndpointModel, Fidelity, LinkModel, Numbering, Routes, RunLength, Scenario, SizeModel,
    Switching, Topology, TrafficModel,
};
use crate::topology::compile;
use crate::traffic::random::Random;
use crate::traffic::{Message, Next, Traffic, Wake};
use crate::units::{Picos, Rate};

/// 10 Gbit/s: 800 ps for a byte, 800 ns for a message of 1,000 bytes.
const RATE: Rate = Rate::from_gigabits(10);
const BYTES: u32 = 1_000;
/// The time that one message occupies a link.
const SLOT: Picos = Picos(800_000);

/// A run of messages of one slot each between random endpoints; tests change the relevant fields.
fn scenario(topology: Topology, switching: Switching) -> Scenario {
    Scenario {
        name: String::from("test"),
        topology,
        numbering: Numbering::Identity,
        link: LinkModel { rate: RATE, delay: Picos::ZERO, frame_overhead: 0, frame_payload: None },
        switching,
        arbiter: Arbiter::Random,
        routes: Routes::DestinationDigit,
        endpoint: EndpointModel::default(),
        traffic: TrafficModel::Random { size: SizeModel::Fixed(BYTES), load: 1.0 },
        faults: Vec::new(),
        length: RunLength::Time(Picos::ZERO),
        flits: crate::scenario::FlitModel::default(),
        fidelity: Fidelity::Message,
        seed: 1,
    }
}

fn slots(count: u64) -> Picos {
    Picos(count * SLOT.0)
}

fn network(scenario: &Scenario) -> Network {
    compile(&scenario.topology, &scenario.numbering, &scenario.link, scenario.endpoint.rails).unwrap()
}

/// Simulates `traffic` for `limit`, with the self-checks that must hold in every run; the deadlock check is the
/// caller's. Throughput is that of the endpoints for which `receives` returns `true`.
fn run_on<T: Traffic>(
    scenario: &Scenario,
    traffic: &mut T,
    limit: Picos,
    receives: impl Fn(usize) -> bool,
) -> (Measured, Ended) {
    let network = network(scenario);
    let receives: Vec<bool> = (0..network.endpoints()).map(receives).collect();
    let senders = u32::try_from(receives.len()).unwrap();
    let mut meter = Meter::new(receives, senders, RATE, names(&network, scenario).unwrap());
    let simulation = prepare(&network, scenario, traffic, &mut meter).unwrap();
    let ended = super::run(simulation, limit, |_, _| false);
    for check in ended.checks.iter().filter(|check| check.name != "deadlock") {
        assert!(check.pass, "{check:?}");
    }
    let measured = meter.finish(ended.at);
    let messages = measured.messages;
    assert_eq!(messages.offered, messages.delivered + messages.lost + messages.in_flight);
    assert_eq!(measured.losses.iter().map(|loss| loss.messages).sum::<u64>(), messages.lost);
    (measured, ended)
}

/// The same for traffic in which everybody receives.
fn run_with<T: Traffic>(scenario: &Scenario, traffic: &mut T, limit: Picos) -> (Measured, Ended) {
    run_on(scenario, traffic, limit, |_| true)
}

/// The same with saturated random traffic, for a number of slots.
fn run(scenario: &Scenario, slots: u64) -> Measured {
    let mut traffic = uniform(scenario);
    let (measured, ended) = run_with(scenario, &mut traffic, self::slots(slots));
    assert_eq!(ended.deadlock, None);
    measured
}

/// Every sender has always something for a destination drawn by chance.
fn uniform(scenario: &Scenario) -> Random {
    let endpoints = crate::topology::endpoints(&scenario.topology).unwrap();
    Random::new(SizeModel::Fixed(BYTES), 1.0, RATE, endpoints, scenario.seed).unwrap()
}
