use super::Router;
use crate::network::{EndpointId, LinkEnd, Network};
use crate::scenario::{LinkModel, Numbering, Routes, Topology};
use crate::topology::compile;
use crate::units::{Picos, Rate};
use proptest::prelude::*;

const ALL: [Routes; 6] = [
    Routes::Hash,
    Routes::Random,
    Routes::Cyclic,
    Routes::SourceDigit,
    Routes::DestinationDigit,
    Routes::Adaptive,
];

fn network(topology: &Topology, rails: u32) -> Network {
    let link = LinkModel {
        rate: Rate::from_gigabits(1),
        delay: Picos::ZERO,
        frame_overhead: 0,
        frame_payload: None,
    };
    compile(topology, &Numbering::Identity, &link, rails).unwrap()
}

/// The links that a message takes, where all links are free.
fn path(network: &Network, router: &mut Router, source: u32, destination: u32) -> Vec<u32> {
    let journey = router.begin(EndpointId(source), EndpointId(destination));
    let mut links = vec![router.rail(network, &journey, |_| true).unwrap()];
    loop {
        match network.end(links[links.len() - 1]) {
            LinkEnd::Endpoint(end) => {
                assert_eq!(end.0, destination);
                return links.iter().map(|link| link.0).collect();
            }
            LinkEnd::Switch(at) => links.push(router.choose(network, at, &journey, |_| true).unwrap()),
        }
        assert!(links.len() < 100, "a message runs in circles");
    }
}

/// Returns the number of uses of the busiest link if every source sends to the one `shift` places on.
fn conflicts(network: &Network, routes: Routes, shift: u32) -> u32 {
    let mut router = Router::new(routes, network, 1);
    let ports = u32::try_from(network.endpoints()).unwrap();
    let mut used = vec![0; network.links.len()];
    for source in 0..ports {
        for link in path(network, &mut router, source, (source + shift) % ports) {
            used[link as usize] += 1;
        }
    }
    used.into_iter().max().unwrap()
}

proptest! {
    #[test]
    fn every_policy_leads_to_the_destination_on_one_rail(seed: u64, source in 0..27_u32, destination in 0..27_u32) {
        let network = network(&Topology::Layered { radix: 3, stages: 3, spreading: 3 }, 2);
        let per_plane = u32::try_from(network.switches.len() / 2).unwrap();
        for routes in ALL {
            let mut router = Router::new(routes, &network, seed);
            let links = path(&network, &mut router, source, destination);
            prop_assert_eq!(links.len(), 7);
            let planes = links.iter().filter_map(|&link| match network.links[link as usize].to {
                LinkEnd::Switch(at) => Some(at.0 / per_plane),
                LinkEnd::Endpoint(_) => None,
            });
            prop_assert_eq!(planes.collect::<std::collections::BTreeSet<_>>().len(), 1);
        }
    }

    #[test]
    fn a_fixed_hash_is_fixed(seed: u64, source in 0..64_u32, destination in 0..64_u32) {
        let network = network(&Topology::Clos { leaves: 8, ports: 8, middles: 8 }, 1);
        let mut router = Router::new(Routes::Hash, &network, seed);
        let first = path(&network, &mut router, source, destination);
        prop_assert_eq!(first, path(&network, &mut router, source, destination));
    }
}

#[test]
fn shifts_pass_without_conflict_where_routes_go_by_digits() {
    let layered = |spreading| Topology::Layered { radix: 4, stages: 3, spreading };
    let folded = Topology::FoldedClos { leaves: 6, ports: 4, spines: 4, uplinks: 1, uplink_rate: None };
    let doubled = Topology::FoldedClos { leaves: 6, ports: 4, spines: 2, uplinks: 2, uplink_rate: None };
    for topology in [
        layered(1),
        layered(2),
        layered(3),
        Topology::Clos { leaves: 5, ports: 4, middles: 4 },
        folded,
        doubled,
    ] {
        let network = network(&topology, 1);
        for shift in 0..u32::try_from(network.endpoints()).unwrap() {
            assert_eq!(conflicts(&network, Routes::DestinationDigit, shift), 1, "{topology:?}");
            assert_eq!(conflicts(&network, Routes::SourceDigit, shift), 1, "{topology:?}");
        }
    }
}

#[test]
fn random_and_cyclic_routes_use_all_ways_evenly() {
    let network = network(&Topology::Clos { leaves: 4, ports: 4, middles: 4 }, 1);
    for (routes, tolerance) in [(Routes::Cyclic, 0), (Routes::Random, 150)] {
        let mut router = Router::new(routes, &network, 3);
        let mut used = [0_u32; 4];
        for _ in 0..4_000 {
            used[path(&network, &mut router, 0, 7)[1] as usize % 4] += 1;
        }
        assert!(used.iter().all(|count| count.abs_diff(1_000) <= tolerance), "{routes:?}: {used:?}");
    }
}

#[test]
fn ways_in_turn_are_those_of_the_destinations_digits_when_destinations_are_in_turn() {
    let network = network(&Topology::Layered { radix: 4, stages: 2, spreading: 2 }, 1);
    let mut cyclic = Router::new(Routes::Cyclic, &network, 3);
    let mut by_digit = Router::new(Routes::DestinationDigit, &network, 3);
    for message in 0..40 {
        let cyclic = path(&network, &mut cyclic, 5, message % 16);
        assert_eq!(cyclic, path(&network, &mut by_digit, 5, message % 16));
    }
}

#[test]
fn adaptive_routes_take_a_free_way() {
    let network = network(&Topology::Clos { leaves: 4, ports: 4, middles: 4 }, 1);
    let mut router = Router::new(Routes::Adaptive, &network, 3);
    let journey = router.begin(EndpointId(0), EndpointId(7));
    let only = network.switches[0].outputs.start + 2;
    let at = crate::network::SwitchId(0);
    assert_eq!(router.choose(&network, at, &journey, |link| link.0 == only).unwrap().0, only);
}
