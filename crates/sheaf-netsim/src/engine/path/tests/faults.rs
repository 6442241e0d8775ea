//! Faults, and messages that wait for one another in a circle.

use crate::network::{EndpointId, LinkEnd, SwitchId};
use crate::run::run;
use crate::run::tests::{checked, random};
use crate::scenario::{Fault, FaultKind, Scenario, TableLink, TableTopology, Topology};
use crate::units::Picos;

fn crossbar(faults: Vec<Fault>, messages: u64) -> Scenario {
    Scenario { faults, ..random(Topology::Crossbar { ports: 4 }, messages) }
}

fn always(what: FaultKind) -> Vec<Fault> {
    vec![Fault { from: Picos::ZERO, until: None, what }]
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[test]
fn what_is_sent_to_a_dead_output_is_lost_and_booked() {
    // Links 0 to 3 lead in, 4 to 7 out.
    let report = checked(&crossbar(always(FaultKind::LinkDead(6)), 5_000));
    let lost = share(report.messages.lost, report.messages.offered);
    assert!((lost - 0.25).abs() < 0.01, "{lost}");
    assert_eq!(report.losses.len(), 1);
    assert_eq!(report.losses[0].messages, report.messages.lost);
    assert!(report.per_port[2] < 1e-9, "{:?}", report.per_port);
}

#[test]
fn a_dead_switch_takes_what_is_on_its_links_and_heals() {
    // Messages end at whole microseconds, so that nothing begins while the switch is dead.
    let short = Fault { from: Picos(500_100), until: Some(Picos(500_200)), what: FaultKind::SwitchDead(0) };
    let report = checked(&crossbar(vec![short], 200));
    assert_eq!(report.messages.lost, 4, "the message of each sender, and no other");
}

#[test]
fn every_link_of_a_chain_may_lose_a_frame() {
    let report = checked(&crossbar(always(FaultKind::FrameLoss(0.1)), 5_000));
    // Two links: 1 - 0.9^2.
    let lost = share(report.messages.lost, report.messages.offered);
    assert!((lost - 0.19).abs() < 0.01, "{lost}");
}

#[test]
fn a_slow_receiver_slows_all_and_the_network_recovers() {
    let what = FaultKind::SlowReceiver { endpoint: 1, factor: 0.5 };
    let slow = Fault { from: Picos::from_micros(3_000), until: Some(Picos::from_micros(6_000)), what };
    let report = checked(&crossbar(vec![slow], 6_000));
    let mean = |from: u64, to: u64| {
        let inside = |at: Picos| Picos::from_micros(from) < at && at < Picos::from_micros(to);
        let values: Vec<f64> =
            report.evolution.iter().filter(|(at, _)| inside(*at)).map(|&(_, value)| value).collect();
        values.iter().sum::<f64>() / share(values.len() as u64, 1)
    };
    let (before, during, after) = (mean(200, 3_000), mean(3_500, 6_000), mean(6_600, 9_000));
    assert!((before - 0.655).abs() < 0.02, "{before}");
    // The slow port takes at most half of its rate, and in random traffic all ports get the same.
    assert!(during < 0.5, "{during}");
    assert!((after - 0.655).abs() < 0.02, "{after}");
}

#[test]
fn messages_that_wait_in_a_circle_are_found_and_the_circle_is_named() {
    // A ring of four switches that goes one way round: two links are held by each of those that go two places on.
    let links = (0..4_u32).flat_map(|number| {
        let (host, switch) = (LinkEnd::Endpoint(EndpointId(number)), LinkEnd::Switch(SwitchId(number)));
        let next = LinkEnd::Switch(SwitchId((number + 1) % 4));
        [(host, switch), (switch, host), (switch, next)].map(|(from, to)| TableLink { from, to, rate: None })
    });
    let table = TableTopology { file: "ring.toml".into(), endpoints: 4, switches: 4, links: links.collect() };
    for delay in [0, 1_000] {
        let mut scenario = random(Topology::Table(Box::new(table.clone())), 1_000_000);
        scenario.link.delay = Picos(delay);
        let report = run(&scenario).unwrap();
        let failed: Vec<_> = report.checks.iter().filter(|check| !check.pass).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].name, "deadlock");
        assert!(failed[0].detail.contains("from switch 0 to switch 1"), "{}", failed[0].detail);
        assert!(report.messages.in_flight >= 4);
    }
}

#[test]
fn a_message_to_an_endpoint_that_only_sends_is_lost_at_the_switch() {
    let (first, second) = (LinkEnd::Endpoint(EndpointId(0)), LinkEnd::Endpoint(EndpointId(1)));
    let switch = LinkEnd::Switch(SwitchId(0));
    let links = [(first, switch), (second, switch), (switch, second)];
    let links = links.map(|(from, to)| TableLink { from, to, rate: None }).to_vec();
    let table = TableTopology { file: "one-way.toml".into(), endpoints: 2, switches: 1, links };
    for delay in [0, 1_000] {
        let mut scenario = random(Topology::Table(Box::new(table.clone())), 500);
        scenario.link.delay = Picos(delay);
        let report = checked(&scenario);
        assert_eq!(report.losses.len(), 1);
        assert_eq!(report.losses[0].cause, "no way to the destination");
        assert!(report.losses[0].messages > 300);
    }
}
