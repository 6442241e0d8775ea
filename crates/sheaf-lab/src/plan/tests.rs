use super::*;
use proptest::prelude::*;
use sheaf_config::{Config, LabFile};
use std::collections::BTreeSet;

fn plan(text: &str) -> Plan {
    // Memory for the connections of many hosts.
    let text = format!("{text}[transport]\nreceive_bytes = 4294967296\n");
    let file = LabFile::parse(&text, "lab.toml", "lab", |_| {}).unwrap_or_else(|errors| panic!("{errors}"));
    crate::measure::plan(&file.points[0])
}

/// The switches that a packet passes from one host to another, or `None` if it circles.
fn way(plan: &Plan, network: &Network, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut at = network.leaf_of_host[from];
    let mut way = vec![at];
    loop {
        let port = network.port_to(at, to, &plan.hosts);
        if port == plan.hosts[to].name && network.leaf_of_host[to] == at {
            return Some(way);
        }
        at = network.switches[at].trunks.iter().find(|trunk| trunk.port == port)?.to;
        if way.contains(&at) {
            return None;
        }
        way.push(at);
    }
}

#[test]
fn every_node_has_a_host_of_its_own_and_the_event_manager_s_is_the_first() {
    let plan = plan("[lab]\nunits = 3\n");
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["evm", "ru0", "ru1", "ru2", "bu0", "bu1", "bu2"]);
    assert!(plan.control().is_some());
}

#[test]
fn a_readout_unit_and_a_builder_unit_share_a_host_where_they_are_paired() {
    let plan = plan("[lab]\nplacement = \"paired\"\n[readout]\ncount = 3\n[builder]\ncount = 2\n");
    let hosts: Vec<(&str, usize)> =
        plan.hosts.iter().map(|host| (host.name.as_str(), host.nodes.len())).collect();
    assert_eq!(hosts, [("evm", 1), ("h0", 2), ("h1", 2), ("h2", 1)]);
    assert_eq!(plan.host_of(NodeId::builder(1)), Some(2));
}

#[test]
fn names_fit_into_those_of_interfaces() {
    let plan = plan("[lab]\nunits = 128\nrails = 4\nleaves = 32\nspines = 32\n");
    let trunks = plan.networks.iter().flat_map(|network| &network.switches).flat_map(|switch| &switch.trunks);
    let ports = trunks.map(|trunk| trunk.port.len()).chain(plan.hosts.iter().map(|host| host.name.len()));
    assert!(ports.max() < Some(16), "the kernel takes names of 15 bytes");
}

#[test]
fn an_uplink_is_as_fast_as_the_hosts_of_a_leaf_where_nothing_is_said() {
    let plan = plan("[lab]\nunits = 4\nleaves = 3\nspines = 2\nrate_mbps = 100\n");
    // Nine hosts on three leaves make three a leaf, shared by two spines.
    let uplink = plan.networks[0].switches[0].trunks[0].shape.map(|shape| shape.rate_bps);
    assert_eq!(uplink, Some(150e6));
}

proptest! {
    #[test]
    fn every_host_reaches_every_other_over_three_switches_at_most_and_by_one_spine(
        units in 1_u16..20, leaves in 1_u16..6, spines in 1_u16..4, rails in 1_u16..3,
    ) {
        let spines = if leaves == 1 { 1 } else { spines };
        let plan = plan(&format!("[lab]\nunits = {units}\nleaves = {leaves}\nspines = {spines}\nrails = {rails}\n"));
        for network in &plan.networks {
            for from in 0..plan.hosts.len() {
                for to in (0..plan.hosts.len()).filter(|to| *to != from) {
                    let way = way(&plan, network, from, to);
                    prop_assert!(way.as_ref().is_some_and(|way| way.len() == 1 || way.len() == 3), "{way:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_meant_for_all_goes_along_a_tree(leaves in 2_usize..8, spines in 1_usize..5) {
        let plan = plan(&format!("[lab]\nunits = 8\nleaves = {leaves}\nspines = {spines}\n"));
        let network = &plan.networks[0];
        let edges: BTreeSet<(usize, usize)> = network.switches.iter().enumerate().flat_map(|(index, switch)| {
            let floods = switch.trunks.iter().filter(|trunk| trunk.floods);
            floods.map(move |trunk| (index.min(trunk.to), index.max(trunk.to)))
        }).collect();
        // All leaves hang on the first spine, and nothing else is joined.
        prop_assert_eq!(edges.len(), leaves);
        prop_assert!(edges.iter().all(|(_, spine)| *spine == leaves));
    }

    #[test]
    fn no_two_interfaces_have_the_same_address(units in 1_u16..128, rails in 1_u16..5) {
        let plan = plan(&format!("[lab]\nunits = {units}\nrails = {rails}\n"));
        let mut seen = BTreeSet::new();
        for network in &plan.networks {
            for host in 0..plan.hosts.len() {
                prop_assert!(seen.insert(network.kind.address(host).to_string()));
                prop_assert!(seen.insert(network.kind.mac(host)));
            }
        }
    }
}

#[test]
fn a_transport_that_has_one_network_for_all_has_no_network_of_control() {
    let file = LabFile::parse("", "lab.toml", "lab", |_| {}).unwrap();
    let nodes = Config::default().nodes().unwrap();
    assert!(Plan::new(&file.points[0].lab, &nodes, false).control().is_none());
}
