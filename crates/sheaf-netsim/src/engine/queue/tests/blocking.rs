//! Causes of waiting: slow receivers, paused links, circles.

use super::*;
use crate::engine::queue::Buffer;
use crate::network::{LinkEnd, LinkId, SwitchId};
use crate::scenario::{
    Assignment, EventTraffic, Fault, FaultKind, Placement, TableLink, TableTopology, WhenFull, Window,
};
use crate::traffic::pull::{Pull, PullShape};
use crate::traffic::push::Push;

fn output_queued(frames: Option<u64>, full: WhenFull) -> Switching {
    Switching::OutputQueued { buffer_bytes: frames.map(|frames| frames * u64::from(BYTES)), full }
}

fn events(placement: Placement) -> EventTraffic {
    EventTraffic {
        placement,
        size: SizeModel::Fixed(BYTES),
        correlation: 0.0,
        assignment: Assignment::RoundRobin,
        event_rate: None,
    }
}

/// Mean efficiency of the points of the evolution from slot `from` to slot `until`.
fn between(measured: &Measured, from: u64, until: u64) -> f64 {
    let inside = |&&(at, _): &&(Picos, f64)| at > slots(from) && at <= slots(until);
    let points: Vec<f64> =
        measured.evolution.iter().filter(inside).map(|&(_, efficiency)| efficiency).collect();
    assert!(!points.is_empty());
    points.iter().sum::<f64>() / f64::from(u32::try_from(points.len()).unwrap())
}

/// 16 hosts on one switch; builder 3 receives at half its rate from slot 6,000 to slot 12,000 of 18,000.
fn straggler<T: Traffic>(mut traffic: T) -> [f64; 3] {
    let mut scenario = scenario(Topology::Crossbar { ports: 16 }, output_queued(None, WhenFull::Drop));
    scenario.faults = vec![Fault {
        from: slots(6_000),
        until: Some(slots(12_000)),
        what: FaultKind::SlowReceiver { endpoint: 3, factor: 0.5 },
    }];
    let (measured, _) = run_with(&scenario, &mut traffic, slots(18_000));
    [(1_000, 5_500), (7_000, 11_500), (13_000, 17_500)].map(|(from, until)| between(&measured, from, until))
}

#[test]
fn one_slow_builder_slows_all_where_events_are_assigned_in_turn() {
    let push = Push::new(&events(Placement::Both), Window { events: 24 }, 16, 1).unwrap();
    let [before, during, after] = straggler(push);
    assert!(before > 0.97 && after > 0.97, "{before} {after}");
    assert!((0.47..0.53).contains(&during), "{during}");
}

#[test]
fn one_slow_builder_slows_only_itself_where_builders_ask() {
    let shape = PullShape { outstanding: 4, credit_bytes: None, request_bytes: 0 };
    let mut events = events(Placement::Both);
    events.assignment = Assignment::LeastLoaded;
    let [before, during, after] = straggler(Pull::new(&events, shape, 16, 1).unwrap());
    assert!(before > 0.9 && after > 0.9, "{before} {after}");
    // Fifteen builders as before and one at half its rate.
    let expected = before * 15.5 / 16.0;
    assert!((during - expected).abs() < 0.03, "{during}, not {expected}");
}

/// Event building by push on two stages of switches.
fn leaves(switching: Switching) -> Measured {
    let topology = Topology::FoldedClos { leaves: 4, ports: 8, spines: 4, uplinks: 1, uplink_rate: None };
    let scenario = scenario(topology, switching);
    let placement = Placement::Grouped { group: 8, readouts: 4, builders: 4, stay_inside: false };
    let mut push = Push::new(&events(placement), Window { events: 64 }, 32, 1).unwrap();
    let (measured, ended) = run_on(&scenario, &mut push, slots(6_000), |endpoint| endpoint % 8 >= 4);
    assert_eq!(ended.deadlock, None);
    measured
}

#[test]
fn pause_loses_nothing_where_small_queues_lose_a_third() {
    let dropped = leaves(output_queued(Some(4), WhenFull::Drop));
    assert!(dropped.efficiency < 0.75, "{}", dropped.efficiency);
    let paused = leaves(output_queued(Some(4), WhenFull::Pause));
    assert_eq!(paused.messages.lost, 0);
    // Held up by one another, the sources fall into an order in which they are never in each other's way.
    assert!(paused.efficiency > 0.98, "{}", paused.efficiency);
    assert!(paused.waiting.iter().any(|waiting| waiting.cause == "link of stage 1, paused"));
}

/// Random destinations on two stages of switches, with one receiver at a tenth of its rate: mean efficiency of the
/// other receivers.
fn others_beside_a_slow_one(full: WhenFull) -> f64 {
    let topology = Topology::FoldedClos { leaves: 4, ports: 8, spines: 8, uplinks: 1, uplink_rate: None };
    let mut scenario = scenario(topology, output_queued(Some(50), full));
    let slow = FaultKind::SlowReceiver { endpoint: 0, factor: 0.1 };
    scenario.faults = vec![Fault { from: Picos::ZERO, until: None, what: slow }];
    let measured = run(&scenario, 20_000);
    assert_eq!(measured.messages.lost == 0, full == WhenFull::Pause);
    measured.per_port[1..].iter().sum::<f64>() / 31.0
}

#[test]
fn pause_makes_one_slow_receiver_everybodys_problem() {
    let dropped = others_beside_a_slow_one(WhenFull::Drop);
    assert!(dropped > 0.9, "{dropped}");
    // Each sender sends a 32nd of its messages to the slow one, and the others wait behind these.
    let paused = others_beside_a_slow_one(WhenFull::Pause);
    assert!((0.08..0.15).contains(&paused), "{paused}");
}

#[test]
fn a_shared_memory_gives_to_whoever_needs_it() {
    // Every output may use the memory of four outputs: the same memory loses less if it is shared.
    let own = leaves(output_queued(Some(4), WhenFull::Drop));
    let shared = leaves(Switching::SharedMemory {
        buffer_bytes: 4 * 12 * u64::from(BYTES),
        output_bytes: 16 * u64::from(BYTES),
        full: WhenFull::Drop,
    });
    assert!(own.messages.lost > 0);
    assert!(shared.messages.lost * 2 < own.messages.lost, "{} {}", shared.messages.lost, own.messages.lost);
}

/// Three switches in a ring that goes one way, a host at each.
pub(super) fn ring() -> Topology {
    let host = |number| LinkEnd::Endpoint(EndpointId(number));
    let switch = |number| LinkEnd::Switch(SwitchId(number % 3));
    let link = |from, to| TableLink { from, to, rate: None };
    let links = (0..3).flat_map(|number| {
        [
            link(host(number), switch(number)),
            link(switch(number), host(number)),
            link(switch(number), switch(number + 1)),
        ]
    });
    Topology::Table(Box::new(TableTopology {
        file: "ring.toml".into(),
        endpoints: 3,
        switches: 3,
        links: links.collect(),
    }))
}

fn is_ring_link(network: &Network, link: LinkId) -> bool {
    let link = network.links[link.index()];
    matches!((link.from, link.to), (LinkEnd::Switch(_), LinkEnd::Switch(_)))
}

#[test]
fn a_circle_of_credits_is_a_deadlock_and_is_named() {
    for switching in [
        Switching::CutThrough { buffer_messages: 1, credit_delay: Picos::ZERO },
        Switching::StoreAndForward { buffer_messages: 2, credit_delay: SLOT },
    ] {
        let scenario = scenario(ring(), switching);
        let (measured, ended) = run_with(&scenario, &mut uniform(&scenario), slots(100_000));
        assert!(ended.at < slots(100_000), "nothing can happen any more");
        assert!(measured.messages.in_flight > 0);
        let network = network(&scenario);
        let deadlock = ended.deadlock.unwrap();
        assert_eq!(deadlock.cycle.len(), 3, "{deadlock}");
        for buffer in &deadlock.cycle {
            assert!(
                matches!(buffer, Buffer::Input { link, .. } if is_ring_link(&network, *link)),
                "{deadlock}"
            );
        }
        let check = ended.checks.iter().find(|check| check.name == "deadlock").unwrap();
        assert!(!check.pass && check.detail.contains("at switch 2 waits for"), "{check:?}");
    }
}

#[test]
fn a_circle_of_paused_links_is_a_deadlock_and_dropping_is_none() {
    let shared = |full| Switching::SharedMemory {
        buffer_bytes: 4 * u64::from(BYTES),
        output_bytes: 3 * u64::from(BYTES),
        full,
    };
    for switching in [output_queued(Some(2), WhenFull::Pause), shared(WhenFull::Pause)] {
        let scenario = scenario(ring(), switching);
        let (measured, ended) = run_with(&scenario, &mut uniform(&scenario), slots(100_000));
        let deadlock = ended.deadlock.expect("three paused links in a circle");
        assert!(deadlock.cycle.iter().any(|buffer| matches!(buffer, Buffer::Queue { .. })), "{deadlock}");
        assert_eq!(measured.messages.lost, 0);
    }
    for switching in [output_queued(Some(2), WhenFull::Drop), shared(WhenFull::Drop)] {
        let scenario = scenario(ring(), switching);
        let (measured, ended) = run_with(&scenario, &mut uniform(&scenario), slots(10_000));
        assert_eq!(ended.deadlock, None);
        assert!(measured.messages.lost > 0);
    }
}

#[test]
fn a_dead_link_loses_what_is_sent_into_it_until_it_comes_back() {
    let mut scenario = scenario(Topology::Crossbar { ports: 4 }, output_queued(None, WhenFull::Drop));
    let dead = network(&scenario).injection[2].start;
    scenario.faults =
        vec![Fault { from: slots(1_000), until: Some(slots(3_000)), what: FaultKind::LinkDead(dead) }];
    let measured = run(&scenario, 4_000);
    // Host 2 continues to send: one message in each slot; the first was on the link already.
    assert!(measured.messages.lost.abs_diff(2_000) <= 1, "{:?}", measured.losses);
    assert_eq!(measured.losses[0].cause, "link of stage 0 dead");
}
