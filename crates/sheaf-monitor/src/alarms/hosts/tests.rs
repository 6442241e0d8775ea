//! When the alarms of nodes are folded under those of their hosts.

use crate::alarms::Alarms;
use crate::alarms::tests::{node, state};
use crate::state::{Alarm, NodeState, State};

/// A run with one node of its own host and these on the hosts of agents, each with the age of its values in milliseconds; `None`: it is gone.
struct World {
    alarms: Alarms,
    nodes: Vec<NodeState>,
}

impl World {
    fn new(nodes: &[(&str, &str)]) -> Self {
        let of = |(name, agent): &(&str, &str)| NodeState { agent: Some((*agent).into()), ..node(name) };
        let nodes = std::iter::once(node("evm")).chain(nodes.iter().map(of)).collect();
        Self { alarms: Alarms::default(), nodes }
    }

    fn node(&mut self, name: &str) -> &mut NodeState {
        self.nodes.iter_mut().find(|node| node.name == name).expect("it is one of them")
    }

    fn set(&mut self, name: &str, age_ms: u64) {
        self.node(name).age_ms = Some(age_ms);
    }

    fn at(&self, time_ms: u64) -> State {
        State { nodes: self.nodes.clone(), ..state(time_ms) }
    }

    /// Returns the alarms at a time.
    fn judge(&mut self, time_ms: u64) -> Vec<Alarm> {
        let state = self.at(time_ms);
        self.alarms.judge(&state)
    }

    /// Returns code, culprit and number of folded alarms of each alarm at a time.
    fn short(&mut self, time_ms: u64) -> Vec<(&'static str, String, usize)> {
        let short = |alarm: Alarm| (alarm.code, alarm.culprit.unwrap_or_default(), alarm.folded.len());
        self.judge(time_ms).into_iter().map(short).collect()
    }
}

fn three() -> World {
    World::new(&[("ru0", "daq07:7071"), ("bu0", "daq07:7071"), ("bu1", "daq07:7071"), ("bu2", "daq08:7071")])
}

#[test]
fn a_host_of_which_all_nodes_are_silent_has_one_alarm_that_names_it() {
    let mut world = three();
    world.set("ru0", 2_100);
    assert_eq!(world.short(0), [], "those of the other nodes may follow");
    world.set("bu0", 2_000);
    world.set("bu1", 2_500);
    assert_eq!(world.short(500), [], "other hosts may follow");
    let alarms = world.judge(1_500);
    assert_eq!(alarms.len(), 1, "{alarms:#?}");
    assert_eq!((alarms[0].code, alarms[0].culprit.as_deref()), ("host-silent", Some("daq07")));
    assert_eq!(alarms[0].text, "all 3 nodes on daq07 are silent");
    assert!(alarms[0].remedy.contains("power") && alarms[0].remedy.contains("agent"), "{}", alarms[0].remedy);
    let folded: Vec<_> = alarms[0].folded.iter().filter_map(|alarm| alarm.culprit.as_deref()).collect();
    assert_eq!(folded, ["ru0", "bu0", "bu1"]);
}

#[test]
fn a_node_that_is_alone_in_its_trouble_or_on_its_host_has_its_own_alarm() {
    let mut world = three();
    world.set("bu0", 2_000);
    world.set("bu2", 2_000);
    assert_eq!(world.short(0), [("node-silent", "bu2".into(), 0)]);
    let two = [("node-silent", "bu0".into(), 0), ("node-silent", "bu2".into(), 0)];
    assert_eq!(world.short(1_000), two);
}

#[test]
fn excluded_nodes_do_not_count() {
    let mut world = three();
    world.set("bu0", 9_000);
    world.set("bu1", 9_000);
    world.node("ru0").excluded = true;
    world.short(0);
    let alarms = world.judge(1_000);
    assert_eq!(alarms[0].text, "all 2 nodes on daq07 are silent");
    // The only node that is left.
    world.node("bu1").excluded = true;
    world.short(20_000);
    assert_eq!(world.short(21_000), [("node-silent", "bu0".into(), 0)]);
}

#[test]
fn nodes_that_are_silent_or_gone_and_nodes_that_come_back_have_one_alarm() {
    let mut world = three();
    world.set("ru0", 3_000);
    world.set("bu0", 3_000);
    world.node("bu1").up = false;
    world.short(0);
    let alarms = world.judge(1_000);
    assert_eq!(alarms[0].text, "all 3 nodes on daq07 are silent or have ended");
    assert_eq!((alarms[0].since_ms, world.short(19_900).len()), (0, 1));
    // The agent is back, and starts one after the other.
    world.set("ru0", 0);
    let alarms = world.judge(20_000);
    assert_eq!((alarms.len(), &*alarms[0].text), (1, "2 of 3 nodes on daq07 are silent or have ended"));
    assert_eq!(alarms[0].since_ms, 0, "it is the same alarm");
    assert_eq!(alarms[0].folded.len(), 2);
    world.set("bu0", 0);
    world.node("bu1").up = true;
    assert_eq!(world.short(21_000), []);
}

#[test]
fn nodes_that_do_not_come_back_with_their_host_have_their_own_alarms() {
    let mut world = three();
    for name in ["ru0", "bu0", "bu1"] {
        world.set(name, 3_000);
    }
    world.short(0);
    assert_eq!(world.short(1_000), [("host-silent", "daq07".into(), 3)]);
    world.set("ru0", 0);
    assert_eq!(world.short(10_900), [("host-silent", "daq07".into(), 2)]);
    assert_eq!(world.short(11_000), [("node-silent", "bu0".into(), 0), ("node-silent", "bu1".into(), 0)]);
}

#[test]
fn hosts_that_are_lost_together_have_one_alarm() {
    let nodes = [
        ("a0", "daq1:7"),
        ("a1", "daq1:7"),
        ("b0", "daq2:7"),
        ("b1", "daq2:7"),
        ("c0", "daq3:7"),
        ("c1", "daq3:7"),
    ];
    let mut world = World::new(&nodes);
    for name in ["b0", "b1", "c0", "c1"] {
        world.set(name, 2_000);
    }
    assert_eq!(world.short(0), []);
    let alarms = world.judge(1_000);
    assert_eq!((alarms.len(), alarms[0].code), (1, "hosts-silent"), "{alarms:#?}");
    assert_eq!(alarms[0].text, "all 4 nodes on 2 hosts are silent: daq2, daq3");
    assert_eq!(alarms[0].folded.iter().map(|host| host.folded.len()).collect::<Vec<_>>(), [2, 2]);
    assert!(alarms[0].remedy.contains("switch"));
    // The alarm is the same one when the host that was first is back.
    world.set("a0", 2_000);
    world.set("a1", 2_000);
    assert_eq!(world.short(2_000), [("hosts-silent", "daq2".into(), 2)]);
    assert_eq!(world.short(3_000), [("hosts-silent", "daq2".into(), 3)]);
    world.set("b0", 0);
    world.set("b1", 0);
    assert_eq!(world.short(4_000), [("hosts-silent", "daq2".into(), 2)]);
    world.set("a0", 0);
    world.set("a1", 0);
    assert_eq!(world.short(5_000), [("host-silent", "daq3".into(), 2)]);
}

#[test]
fn a_host_that_is_lost_long_after_another_has_its_own_alarm() {
    let mut world = World::new(&[("a0", "daq1:7"), ("a1", "daq1:7"), ("b0", "daq2:7"), ("b1", "daq2:7")]);
    world.set("a0", 2_000);
    world.set("a1", 2_000);
    world.short(0);
    world.short(1_000);
    world.set("b0", 2_000);
    world.set("b1", 2_000);
    world.short(60_000);
    let two = [("host-silent", "daq1".into(), 2), ("host-silent", "daq2".into(), 2)];
    assert_eq!(world.short(61_000), two);
}

#[test]
fn agents_that_share_a_host_are_told_apart() {
    let mut world = World::new(&[
        ("a0", "daq1:7"),
        ("a1", "daq1:7"),
        ("b0", "daq1:8"),
        ("c0", "[::1]:7"),
        ("c1", "[::1]:7"),
    ]);
    for name in ["a0", "a1", "c0", "c1"] {
        world.set(name, 2_000);
    }
    world.short(0);
    let names: Vec<_> = world.judge(1_000)[0].folded.iter().filter_map(|host| host.culprit.clone()).collect();
    assert_eq!(names, ["[::1]", "daq1:7"]);
}

#[test]
fn the_nodes_of_the_host_of_the_run_have_their_own_alarms_and_none_after_the_end() {
    let mut world = three();
    world.nodes.extend(["ru1", "ru2"].map(node));
    for name in ["evm", "ru1", "ru2", "ru0", "bu0", "bu1"] {
        world.set(name, 2_000);
    }
    world.short(0);
    let codes: Vec<_> = world.short(1_000).into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, ["node-silent", "node-silent", "node-silent", "host-silent"]);
    let mut closed = world.at(2_000);
    closed.run.phase = "closed".into();
    assert_eq!(world.alarms.judge(&closed), []);
}
