//! Runs of a few messages, whose times are known to the cycle.

use super::{Case, Kind, case, near, saturated_throughout, simulate};
use crate::engine::testing::{crossbar, delta, network};
use crate::network::{EndpointId, LinkEnd, LinkId, SwitchId};
use crate::scenario::{SizeModel, TableLink, TableTopology, Topology};
use crate::traffic::{Message, Next, Traffic, Wake};
use crate::units::{Picos, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Each host sends a list of messages (destination, bytes), and deliveries are recorded.
pub(super) struct Listed {
    lists: Vec<VecDeque<(u32, u32)>>,
    arrived: Vec<(Message, Picos)>,
}

impl Listed {
    pub(super) fn new(lists: &[&[(u32, u32)]]) -> Self {
        Self { lists: lists.iter().map(|list| list.iter().copied().collect()).collect(), arrived: Vec::new() }
    }
}

impl Traffic for Listed {
    fn next(&mut self, sender: EndpointId, now: Picos) -> Next {
        match self.lists[sender.index()].pop_front() {
            Some((destination, bytes)) => {
                let destination = EndpointId(destination);
                Next::Send(Message { source: sender, destination, bytes, token: 0, born: now })
            }
            None => Next::Sleep,
        }
    }

    fn delivered(&mut self, message: &Message, now: Picos, _wake: &mut Wake) {
        self.arrived.push((*message, now));
    }

    fn lost(&mut self, _message: &Message, _now: Picos, _wake: &mut Wake) {}
}

/// A ring of four switches in one direction, with a host at each.
fn ring() -> Topology {
    let (host, switch) =
        (|number| LinkEnd::Endpoint(EndpointId(number)), |number| LinkEnd::Switch(SwitchId(number)));
    let link = |from, to| TableLink { from, to, rate: None };
    let links = (0..4).flat_map(|at| {
        [link(host(at), switch(at)), link(switch(at), host(at)), link(switch(at), switch((at + 1) % 4))]
    });
    let table = TableTopology { file: "ring".into(), endpoints: 4, switches: 4, links: links.collect() };
    Topology::Table(Box::new(table))
}

fn arrivals(topology: &Topology, case: Case, lists: &[&[(u32, u32)]]) -> Vec<u64> {
    let mut traffic = Listed::new(lists);
    let (outcome, _) = simulate(&network(topology), case, &mut traffic);
    assert!(!outcome.course.stuck);
    traffic.arrived.iter().map(|(_, at)| at.0 / 1_000).collect()
}

const LINE: Topology = Topology::Crossbar { ports: 1 };

#[test]
fn an_empty_network_takes_one_cycle_for_each_link_and_one_for_each_flit() {
    let case = case(Kind::Wormhole, 2, 1_000);
    // Two links, the second 9 flits behind the first.
    assert_eq!(arrivals(&LINE, case, &[&[(0, 10)]]), [11]);
    let delta = Topology::Delta { radix: 2, stages: 3, digits: crate::scenario::DigitOrder::MostFirst };
    assert_eq!(arrivals(&delta, case, &[&[(5, 10)], &[], &[], &[], &[], &[], &[], &[]]), [13]);
}

#[test]
fn messages_follow_one_another_without_a_gap() {
    let arrived = arrivals(&LINE, case(Kind::Wormhole, 2, 1_000), &[&[(0, 10), (0, 1), (0, 5)]]);
    assert_eq!(arrived, [11, 12, 17]);
}

#[test]
fn stored_messages_take_their_time_at_every_switch() {
    assert_eq!(arrivals(&LINE, case(Kind::StoreAndForward, 10, 1_000), &[&[(0, 10)]]), [20]);
    assert_eq!(arrivals(&LINE, case(Kind::CutThrough, 10, 1_000), &[&[(0, 10)]]), [11]);
}

#[test]
fn a_cable_makes_every_flit_late_by_its_length() {
    let mut long = network(&LINE);
    long.links.iter_mut().for_each(|link| link.delay = Picos::from_nanos(7));
    let mut traffic = Listed::new(&[&[(0, 10)]]);
    let case = case(Kind::Wormhole, 100, 1_000);
    assert!(!simulate(&long, case, &mut traffic).0.course.stuck);
    assert_eq!(traffic.arrived[0].1, Picos::from_nanos(11 + 2 * 7));
}

#[test]
fn a_host_pauses_after_each_message_and_before_each_message() {
    let case = case(Kind::Wormhole, 2, 1_000)
        .with(|options| (options.overhead, options.start) = (Picos::from_nanos(3), Picos::from_nanos(4)));
    assert_eq!(arrivals(&LINE, case, &[&[(0, 10), (0, 10)]]), [15, 32]);
}

#[test]
fn a_buffer_smaller_than_the_credit_loop_starves_the_link() {
    for (buffer, credit_cycles) in [(1, 1), (1, 3), (2, 3), (4, 9), (4, 3), (8, 3)] {
        let case = case(Kind::Wormhole, buffer, 20_000).with(|options| options.credit_cycles = credit_cycles);
        // Number of flits that leave in the time in which the room of the first returns.
        let expected = (f64::from(buffer) / f64::from(credit_cycles + 1)).min(1.0);
        near(saturated_throughout(&crossbar(1), case, SizeModel::Fixed(50)), expected, 0.004);
    }
}

#[test]
fn a_slower_link_takes_several_cycles_for_a_flit() {
    for rate in [2_000_000_000, 3_000_000_000, 7_500_000_000] {
        let mut slow = network(&LINE);
        slow.links[1].rate = Rate(rate);
        let value = saturated_throughout(&slow, case(Kind::Wormhole, 4, 20_000), SizeModel::Fixed(50));
        near(value, rate as f64 / 8e9, 0.003);
    }
}

#[test]
fn messages_in_a_ring_hold_one_another_and_the_loop_is_named() {
    let network = network(&ring());
    // Either they wait for the next link, or they have it and no room behind it.
    for buffer in [2, 50] {
        let case = case(Kind::Wormhole, buffer, 10_000);
        let (outcome, measured) = simulate(&network, case, &mut around());
        assert!(outcome.course.stuck);
        assert_eq!(measured.messages.in_flight, 4);
        let mut held = outcome.deadlock.expect("a loop holds the run");
        held.sort();
        let of_ring = |link: &LinkId| {
            let link = &network.links[link.index()];
            matches!((link.from, link.to), (LinkEnd::Switch(_), LinkEnd::Switch(_)))
        };
        assert_eq!(held.len(), 4, "{held:?}");
        assert!(held.iter().all(of_ring), "{held:?}");
    }
}

#[test]
fn buffers_that_take_two_messages_free_the_ring() {
    let mut traffic = around();
    let (outcome, _) = simulate(&network(&ring()), case(Kind::Wormhole, 100, 10_000), &mut traffic);
    assert!(!outcome.course.stuck);
    assert_eq!(traffic.arrived.len(), 4);
}

/// In the ring everybody sends to the opposite side.
fn around() -> Listed {
    let lists: Vec<[(u32, u32); 1]> = (0..4).map(|host| [((host + 2) % 4, 50)]).collect();
    Listed::new(&[&lists[0], &lists[1], &lists[2], &lists[3]])
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Wormhole), Just(Kind::CutThrough), Just(Kind::StoreAndForward)]
}

proptest! {
    #![proptest_config(sheaf_wire::property_cases!(64))]

    #[test]
    fn everything_that_is_sent_arrives_once_and_with_one_lane_in_the_order_of_its_pair(
        kind in kinds(), buffer in 12_u32..40, lanes in 1_u32..4, credit_cycles in 1_u32..6, cable in 0_u64..4,
        messages in proptest::collection::vec((0_u32..8, 0_u32..8, 1_u32..12), 1..120),
    ) {
        let mut network = delta(2, 3);
        network.links.iter_mut().for_each(|link| link.delay = Picos::from_nanos(cable));
        let mut lists = vec![Vec::new(); 8];
        for &(source, destination, bytes) in &messages {
            lists[source as usize].push((destination, bytes));
        }
        let slices: Vec<&[(u32, u32)]> = lists.iter().map(Vec::as_slice).collect();
        let mut traffic = Listed::new(&slices);
        let case = case(kind, buffer, 1_000_000).with(|options| (options.lanes, options.credit_cycles) = (lanes, credit_cycles));
        let (outcome, measured) = simulate(&network, case, &mut traffic);
        prop_assert!(!outcome.course.stuck);
        prop_assert_eq!(measured.messages.delivered, messages.len() as u64);
        for source in 0..8_u32 {
            for destination in 0..8_u32 {
                let sent = messages.iter().filter(|one| (one.0, one.1) == (source, destination)).map(|one| one.2);
                let pair = |message: &Message| (message.source.0, message.destination.0) == (source, destination);
                let arrived = traffic.arrived.iter().map(|one| one.0).filter(pair).map(|message| message.bytes);
                prop_assert!(lanes > 1 || sent.eq(arrived), "from {} to {}", source, destination);
            }
        }
    }
}
