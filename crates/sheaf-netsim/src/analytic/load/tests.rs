use super::{Demand, conflicts, link_load, shift_conflicts};
use crate::engine::testing::{RATE, delta, network};
use crate::network::{EndpointId, Network};
use crate::scenario::{DigitOrder, LinkModel, Numbering, Routes, Topology};
use crate::topology::compile;
use crate::units::Picos;

const ALL: [Routes; 6] = [
    Routes::Hash,
    Routes::Random,
    Routes::Cyclic,
    Routes::SourceDigit,
    Routes::DestinationDigit,
    Routes::Adaptive,
];

/// A delta network whose layers resolve the digits in any order, with endpoints where `numbering` puts them.
fn numbered(digits: &[u32], numbering: &Numbering) -> Network {
    let topology = Topology::Delta { radix: 4, stages: 3, digits: DigitOrder::Listed(digits.to_vec()) };
    let link = LinkModel { rate: RATE, delay: Picos::ZERO, frame_overhead: 0, frame_payload: None };
    compile(&topology, numbering, &link, 1).unwrap()
}

#[test]
fn a_delta_network_passes_every_shift_without_conflict_in_any_order_of_digits() {
    // Each line of a layer is determined by some digits of the source and the others of the destination; with the shift
    // either digit determines the other one, from the least significant on.
    for digits in [[2, 1, 0], [0, 1, 2], [1, 2, 0]] {
        let network = numbered(&digits, &Numbering::Identity);
        assert!((0..64).all(|shift| shift_conflicts(&network, Routes::Hash, 1, shift) == 0), "{digits:?}");
    }
}

#[test]
fn endpoints_in_no_order_make_shifts_collide() {
    for numbering in [Numbering::Shuffled(7), Numbering::Shuffled(8)] {
        let network = numbered(&[2, 1, 0], &numbering);
        assert!((0..64).any(|shift| shift_conflicts(&network, Routes::Hash, 1, shift) > 0), "{numbering:?}");
    }
}

#[test]
fn layers_that_spread_keep_shifts_free_of_conflict_with_routes_by_digits_only() {
    let layered = network(&Topology::Layered { radix: 4, stages: 2, spreading: 1 });
    for routes in [Routes::SourceDigit, Routes::DestinationDigit] {
        assert!((0..16).all(|shift| shift_conflicts(&layered, routes, 1, shift) == 0), "{routes:?}");
    }
    assert!((0..16).any(|shift| shift_conflicts(&layered, Routes::Hash, 1, shift) > 0));
}

#[test]
fn everybody_to_one_is_one_message_after_the_other_on_the_last_link() {
    let network = delta(2, 2);
    let pairs = (0..4).map(|source| (EndpointId(source), EndpointId(0)));
    // Two meet on each of the two links before the last, and four on the last.
    assert_eq!(conflicts(&network, Routes::Hash, 1, pairs), 1 + 1 + 3);
}

#[test]
fn what_leaves_the_sources_passes_every_stage_and_arrives() {
    for topology in [
        Topology::Layered { radix: 2, stages: 3, spreading: 2 },
        Topology::Clos { leaves: 4, ports: 4, middles: 3 },
    ] {
        let network = network(&topology);
        let endpoints = u32::try_from(network.endpoints()).unwrap();
        for routes in ALL {
            let load = link_load(&network, routes, 3, &Demand::all_to_all(endpoints));
            for stage in 0..network.stages {
                let at_stage = network.links.iter().zip(&load).filter(|(link, _)| link.stage == stage);
                let sum: f64 = at_stage.map(|(_, load)| load).sum();
                assert!((sum - f64::from(endpoints)).abs() < 1e-9, "{topology:?} {routes:?} {stage}: {sum}");
            }
        }
    }
}

#[test]
fn all_to_all_loads_the_uplinks_of_a_folded_network_by_the_share_that_leaves_the_leaf() {
    let folded = network(&Topology::FoldedClos {
        leaves: 4,
        ports: 6,
        spines: 2,
        uplinks: 1,
        uplink_rate: Some(RATE),
    });
    let load = link_load(&folded, Routes::Random, 1, &Demand::all_to_all(24));
    let most = load.iter().copied().fold(0.0, f64::max);
    // Six endpoints, of whose traffic three quarters leave, on two uplinks.
    assert!((most - 6.0 * 0.75 / 2.0).abs() < 1e-9, "{most}");
}
