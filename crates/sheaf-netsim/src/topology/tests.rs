use super::{CompileError, compile, endpoints, links_into};
use crate::network::{EndpointId, LinkEnd, Network, SwitchId};
use crate::scenario::{DigitOrder, LinkModel, Numbering, TableLink, TableTopology, Topology};
use crate::units::{Picos, Rate};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn link() -> LinkModel {
    LinkModel { rate: Rate::from_gigabits(1), delay: Picos(7), frame_overhead: 0, frame_payload: None }
}

fn digit_order(stages: u32) -> impl Strategy<Value = DigitOrder> {
    prop_oneof![
        Just(DigitOrder::MostFirst),
        Just(DigitOrder::LeastFirst),
        Just((0..stages).collect::<Vec<_>>()).prop_shuffle().prop_map(DigitOrder::Listed),
    ]
}

fn topologies() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (1..20_u32).prop_map(|ports| Topology::Crossbar { ports }),
        (2..4_u32, 1..4_u32).prop_flat_map(|(radix, stages)| digit_order(stages)
            .prop_map(move |digits| Topology::Delta { radix, stages, digits })),
        (2..4_u32, 1..4_u32).prop_flat_map(|(radix, stages)| (0..=stages)
            .prop_map(move |spreading| Topology::Layered { radix, stages, spreading })),
        (1..6_u32, 1..6_u32, 1..6_u32).prop_map(|(leaves, ports, middles)| Topology::Clos {
            leaves,
            ports,
            middles
        }),
        (1..6_u32, 1..6_u32, 1..4_u32, 1..4_u32).prop_map(|(leaves, ports, spines, uplinks)| {
            Topology::FoldedClos { leaves, ports, spines, uplinks, uplink_rate: None }
        }),
        (1..6_u32, 1..6_u32).prop_map(|(slots, ports)| Topology::Chassis {
            slots,
            ports,
            backplane: Rate::from_gigabits(8)
        }),
        (1..4_u32, 2..4_u32, 2..4_u32, 1..3_u32, 1..3_u32).prop_map(
            |(units, leaves, ports, spines, trunks)| {
                let endpoints = (leaves * ports).saturating_sub(units * trunks).max(1);
                let leaves = (endpoints + units * trunks).div_ceil(ports);
                let endpoints = leaves * ports - units * trunks;
                Topology::ClosOfClos { units, leaves, ports, spines, endpoints }
            }
        ),
    ]
}

/// Follows every way from `at` and returns the endpoints where they end; no way may be longer than there are switches.
fn ends(network: &Network, at: SwitchId, destination: EndpointId, left: usize) -> BTreeSet<u32> {
    assert!(left > 0, "a way runs in circles");
    let ways = network.ways(at, destination);
    assert!(!ways.is_empty(), "no way on");
    let next = |way| match network.end(way) {
        LinkEnd::Endpoint(end) => BTreeSet::from([end.0]),
        LinkEnd::Switch(next) => ends(network, next, destination, left - 1),
    };
    ways.iter().flat_map(next).collect()
}

proptest! {
    #[test]
    fn every_way_leads_to_its_destination(topology in topologies(), rails in 1..3_u32, seed: u64, pick: prop::sample::Index) {
        let network = compile(&topology, &Numbering::Shuffled(seed), &link(), rails).unwrap();
        prop_assert_eq!(network.endpoints(), endpoints(&topology).unwrap() as usize);
        let destination = EndpointId(u32::try_from(pick.index(network.endpoints())).unwrap());
        for injection in &network.injection {
            prop_assert_eq!(injection.len(), rails as usize);
            for rail in injection.clone() {
                let LinkEnd::Switch(first) = network.links[rail as usize].to else {
                    panic!("an endpoint sends to a switch");
                };
                prop_assert_eq!(
                    ends(&network, first, destination, network.switches.len()),
                    BTreeSet::from([destination.0])
                );
            }
        }
        prop_assert_eq!(links_into(&network, destination).len(), rails as usize);
    }

    #[test]
    fn links_are_numbered_by_their_senders(topology in topologies(), rails in 1..3_u32) {
        let network = compile(&topology, &Numbering::Identity, &link(), rails).unwrap();
        let mut next = 0;
        for (endpoint, own) in (0..).zip(&network.injection) {
            prop_assert_eq!(own.start, next);
            next = own.end;
            for link in own.clone() {
                prop_assert_eq!(network.links[link as usize].from, LinkEnd::Endpoint(EndpointId(endpoint)));
                prop_assert_eq!(network.links[link as usize].stage, 0);
            }
        }
        for (switch, own) in (0..).zip(network.switches.iter().map(|switch| &switch.outputs)) {
            prop_assert_eq!(own.start, next);
            next = own.end;
            for link in own.clone() {
                prop_assert_eq!(network.links[link as usize].from, LinkEnd::Switch(SwitchId(switch)));
                prop_assert!(network.links[link as usize].stage < network.stages);
            }
        }
        prop_assert_eq!(next as usize, network.links.len());
    }
}

#[test]
fn the_documents_networks_have_their_shapes() {
    let shape = |topology: Topology| {
        let network = compile(&topology, &Numbering::Identity, &link(), 1).unwrap();
        (network.endpoints(), network.switches.len(), network.stages)
    };
    assert_eq!(shape(Topology::Delta { radix: 8, stages: 3, digits: DigitOrder::MostFirst }), (512, 192, 4));
    assert_eq!(shape(Topology::Layered { radix: 8, stages: 3, spreading: 1 }), (512, 256, 5));
    assert_eq!(shape(Topology::Layered { radix: 8, stages: 3, spreading: 3 }), (512, 384, 7));
    let leaf_spine =
        Topology::FoldedClos { leaves: 25, ports: 40, spines: 20, uplinks: 1, uplink_rate: None };
    assert_eq!(shape(leaf_spine), (1_000, 45, 4));
    let rows = Topology::ClosOfClos { units: 8, leaves: 16, ports: 8, spines: 8, endpoints: 64 };
    assert_eq!(shape(rows).0, 512);
}

#[test]
fn numbers_that_make_no_network_are_refused_with_what_would_be_right() {
    let error =
        |topology: Topology| compile(&topology, &Numbering::Identity, &link(), 1).unwrap_err().to_string();
    assert_eq!(error(Topology::Crossbar { ports: 0 }), "topology: ports is 0, but must be 1 or more");
    assert_eq!(
        error(Topology::Layered { radix: 8, stages: 2, spreading: 3 }),
        "topology: spreading layers is 3, but must be between 0 and 2"
    );
    assert_eq!(
        error(Topology::Delta { radix: 2, stages: 2, digits: DigitOrder::Listed(vec![1, 1]) }),
        "topology: digits [1, 1] of a delta network must name each of 0 to 1 once"
    );
    let huge = Topology::Delta { radix: 1_000, stages: 20, digits: DigitOrder::MostFirst };
    assert_eq!(compile(&huge, &Numbering::Identity, &link(), 1), Err(CompileError::TooLarge));
    let wide = Topology::FoldedClos {
        leaves: 1_000,
        ports: 1_000,
        spines: 4_000_000,
        uplinks: 900,
        uplink_rate: None,
    };
    assert_eq!(compile(&wide, &Numbering::Identity, &link(), 1), Err(CompileError::TooLarge));
}

fn table(endpoints: u32, switches: u32, links: &[(LinkEnd, LinkEnd)]) -> Topology {
    let links = links.iter().map(|&(from, to)| TableLink { from, to, rate: None }).collect();
    Topology::Table(Box::new(TableTopology { file: "wiring.toml".into(), endpoints, switches, links }))
}

fn endpoint(number: u32) -> LinkEnd {
    LinkEnd::Endpoint(EndpointId(number))
}

fn switch(number: u32) -> LinkEnd {
    LinkEnd::Switch(SwitchId(number))
}

#[test]
fn a_table_offers_all_shortest_ways() {
    // Two switches joined by two cables and by a way around.
    let topology = table(
        2,
        3,
        &[
            (endpoint(0), switch(0)),
            (switch(0), switch(1)),
            (switch(0), switch(2)),
            (switch(0), switch(1)),
            (switch(2), switch(1)),
            (switch(1), endpoint(1)),
        ],
    );
    let network = compile(&topology, &Numbering::Identity, &link(), 1).unwrap();
    let ways: Vec<u32> = network.ways(SwitchId(0), EndpointId(1)).iter().map(|way| way.0).collect();
    assert_eq!(ways, [1, 3]);
    assert!(network.ways(SwitchId(0), EndpointId(0)).is_empty(), "endpoint 0 only sends");
}

#[test]
fn a_table_with_broken_links_is_refused() {
    let error = |topology: Topology| compile(&topology, &Numbering::Identity, &link(), 1).unwrap_err();
    assert_eq!(
        error(table(1, 1, &[(endpoint(0), switch(1))])),
        CompileError::NoSuchEnd { link: 0, end: switch(1) }
    );
    assert_eq!(error(table(2, 1, &[(endpoint(0), endpoint(1))])), CompileError::NoSwitch { link: 0 });
    assert_eq!(
        error(table(2, 2, &[(endpoint(0), switch(0)), (switch(1), endpoint(1))])),
        CompileError::NoWay { from: 0, to: 1 }
    );
    assert_eq!(
        error(table(1, 2, &[(endpoint(0), switch(0)), (endpoint(0), switch(1))])),
        CompileError::SeveralLinks { endpoint: 0, links: 2 }
    );
}
