use super::*;
use sheaf_config::LabFile;
use std::collections::BTreeSet;

fn of(text: &str) -> Script {
    let file = LabFile::parse(text, "lab.toml", "lab", |_| {}).unwrap_or_else(|errors| panic!("{errors}"));
    script(&crate::measure::plan(&file.points[0]), |name| format!("t.{name}"))
}

fn lines<'a>(batches: &'a [(String, String)], namespace: &str) -> Vec<&'a str> {
    batches.iter().filter(|(name, _)| name == namespace).flat_map(|(_, text)| text.lines()).collect()
}

#[test]
fn both_ends_of_a_cable_have_one_queue_and_carry_no_more_than_a_packet() {
    let script = of("[lab]\nunits = 1\nmtu_bytes = 1500\n");
    let cable =
        lines(&script.ip, "t.r0").into_iter().find(|line| line.contains("name ru0")).unwrap_or_default();
    let end = "mtu 1500 numtxqueues 1 numrxqueues 1 gso_max_segs 1";
    assert_eq!(
        cable,
        format!("link add name ru0 {end} type veth peer name r0 netns t.ru0 address 02:5e:af:50:00:02 {end}")
    );
}

#[test]
fn every_output_of_a_switch_and_every_card_has_the_line_rate_and_counts_gaps() {
    let script = of(
        "[lab]\nunits = 1\nmtu_bytes = 9000\nrate_mbps = 100\nport_buffer_bytes = 65536\nnic_buffer_bytes = 1000000\n",
    );
    let bucket = "tbf rate 100000000bit burst 18076 limit 65536 overhead 24";
    let outputs: Vec<String> =
        ["evm", "ru0", "bu0"].iter().map(|host| format!("qdisc add dev {host} root {bucket}")).collect();
    assert_eq!(lines(&script.tc, "t.r0"), outputs);
    let card = "qdisc add dev r0 root tbf rate 100000000bit burst 18076 limit 1000000 overhead 24";
    assert_eq!(lines(&script.tc, "t.bu0"), [card], "control has no line rate");
}

#[test]
fn every_switch_knows_every_host_and_every_host_every_other() {
    let script = of("[lab]\nunits = 2\nleaves = 2\nspines = 2\n");
    for switch in ["t.r0-leaf0", "t.r0-leaf1", "t.r0-spine0", "t.r0-spine1", "t.ctl"] {
        let known = lines(&script.bridge, switch).into_iter().filter(|line| line.starts_with("fdb add"));
        assert_eq!(known.count(), 5, "{switch}");
    }
    let neighbours = lines(&script.ip, "t.ru1").into_iter().filter(|line| line.starts_with("neigh add"));
    assert_eq!(neighbours.count(), 2 * 4, "on the rail and on the network of control");
}

#[test]
fn a_cable_between_switches_is_made_once_and_plugged_in_at_both_ends() {
    let script = of("[lab]\nunits = 2\nleaves = 2\nspines = 2\n");
    let made: Vec<&str> = script
        .ip
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter(|line| line.contains("peer name down"))
        .collect();
    assert_eq!(made.len(), 4);
    let plugged = |at: &str, port: &str| {
        lines(&script.ip, at).iter().any(|line| line.starts_with(&format!("link set dev {port} master br")))
    };
    assert!(plugged("t.r0-leaf1", "up0") && plugged("t.r0-leaf1", "up1"));
    assert!(plugged("t.r0-spine1", "down0") && plugged("t.r0-spine1", "down1"));
}

#[test]
fn every_namespace_that_is_configured_is_made() {
    let script = of("[lab]\nunits = 3\nrails = 2\nleaves = 2\n");
    let made: BTreeSet<&String> = script.namespaces.iter().collect();
    for (namespace, _) in script.ip.iter().chain(&script.bridge).chain(&script.tc) {
        assert!(made.contains(namespace), "{namespace}");
    }
    assert_eq!(made.len(), script.namespaces.len(), "each once");
}
