//! Hosts of which all nodes are away at once: silent, or gone. An operator gets one alarm for each host, with those of its nodes folded under it, and
//! one for all hosts that were lost at the same time.
//!
//! Only hosts of agents count: the page is on the host of all other nodes, so that what is wrong there is not the host. An excluded node does
//! not count, and a host with one node has the alarm of the node.

use super::{SILENT_MS, alarm};
use crate::state::{Alarm, NodeState, Severity, State};
use std::collections::{BTreeMap, BTreeSet};

/// Time for which the alarm of a node waits for those of the other nodes on its host, and the alarm of a host for those of other hosts.
const SETTLE_MS: u64 = 1_000;

/// Time in which the nodes of a host that returns come back together. Until then there is still one alarm.
const RETURN_MS: u64 = 10_000;

/// Time between the losses of two hosts that have a common reason.
const TOGETHER_MS: u64 = 10_000;

const OF_HOST: &str = "look at the host, its power and its network, and whether its agent runs: when the agent is back, its nodes are started again. `sheaf ctl exclude` leaves nodes out";

const OF_HOSTS: &str =
    "look at what these hosts have in common: a switch, a power line, or the network of the host of the run";

/// Numbers of the nodes on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCount {
    /// Nodes that have published and that nobody has excluded.
    pub(crate) nodes: u64,
    /// Those of them that are silent.
    silent: u64,
    /// Those of them that are gone.
    gone: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    lost: BTreeMap<String, Lost>,
}

/// A host of which all nodes are away, or were until a moment ago.
#[derive(Debug)]
struct Lost {
    since_ms: u64,
    /// When all of its nodes were away last.
    all_ms: u64,
    /// The first of the hosts that were lost with it, whether that is back or not.
    first: String,
    count: HostCount,
}

impl HostCount {
    /// Number of nodes that are silent or gone.
    pub(crate) fn away(&self) -> u64 {
        self.silent + self.gone
    }

    /// Returns whether all nodes are away, and are more than one.
    fn is_lost(&self) -> bool {
        self.nodes > 1 && self.away() == self.nodes
    }

    fn add(&mut self, node: &NodeState, age_ms: u64) {
        self.nodes += 1;
        if !node.up {
            self.gone += 1;
        } else if age_ms >= SILENT_MS {
            self.silent += 1;
        }
    }

    /// Returns what the nodes that are away do.
    fn verb(&self) -> &'static str {
        match (self.silent, self.gone) {
            (_, 0) => "are silent",
            (0, _) => "have ended",
            _ => "are silent or have ended",
        }
    }
}

/// Returns the host of each node that an agent starts: the name of the host, or the address of the agent if several run there.
fn hosts_of<'a>(nodes: &'a [NodeState]) -> BTreeMap<&'a str, &'a str> {
    let name = |agent: &'a str| agent.rsplit_once(':').map_or(agent, |(host, _)| host);
    let agents: BTreeSet<&str> = nodes.iter().filter_map(|node| node.agent.as_deref()).collect();
    let mut agents_of = BTreeMap::<&str, u32>::new();
    for agent in agents {
        *agents_of.entry(name(agent)).or_default() += 1;
    }
    let host = |node: &'a NodeState| {
        let agent = node.agent.as_deref()?;
        let host = name(agent);
        Some((&*node.name, if agents_of[host] == 1 { host } else { agent }))
    };
    nodes.iter().filter_map(host).collect()
}

/// Returns the numbers of nodes on each host, while the run is in progress.
fn count(state: &State, hosts: &BTreeMap<&str, &str>) -> BTreeMap<String, HostCount> {
    let mut counts = BTreeMap::<String, HostCount>::new();
    if !super::is_in_progress(state) {
        return counts;
    }
    for node in state.nodes.iter().filter(|node| !node.excluded) {
        if let (Some(host), Some(age_ms)) = (hosts.get(&*node.name), node.age_ms) {
            counts.entry((*host).to_owned()).or_default().add(node, age_ms);
        }
    }
    counts
}

/// The nodes and hosts of a run, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostFigures {
    /// Numbers of nodes by host.
    pub(crate) counts: BTreeMap<String, HostCount>,
    /// Hosts by node.
    pub(crate) hosts: BTreeMap<String, String>,
    /// Nodes that the run expects, while it is in progress.
    pub(crate) expected: Vec<String>,
}

impl HostFigures {
    pub(crate) fn of(state: &State) -> Self {
        let hosts = hosts_of(&state.nodes);
        let owned = |(node, host): (&str, &str)| (node.to_owned(), host.to_owned());
        let expected = state.nodes.iter().filter(|_| super::is_in_progress(state));
        Self {
            counts: count(state, &hosts),
            hosts: hosts.into_iter().map(owned).collect(),
            expected: expected.map(|node| node.name.clone()).collect(),
        }
    }
}

impl Hosts {
    /// Folds the alarms of nodes under those of their hosts, and these under that of hosts that were lost together.
    pub(super) fn fold(&mut self, state: &State, raised: Vec<Alarm>) -> Vec<Alarm> {
        let hosts = hosts_of(&state.nodes);
        let counts = count(state, &hosts);
        self.follow(state.time_ms, &counts);
        let mut folded = BTreeMap::<&str, Vec<Alarm>>::new();
        let mut alarms = Vec::new();
        for alarm in raised {
            let of_node = matches!(alarm.code, "node-silent" | "node-gone");
            let host = alarm.culprit.as_deref().filter(|_| of_node).and_then(|node| hosts.get(node));
            match host {
                Some(host) if self.lost.contains_key(*host) => folded.entry(host).or_default().push(alarm),
                // Those of the other nodes on its host may follow.
                Some(host) if counts.get(*host).is_some_and(|count| count.nodes > 1) => {
                    alarms.extend(Some(alarm).filter(|alarm| state.time_ms >= alarm.since_ms + SETTLE_MS));
                }
                _ => alarms.push(alarm),
            }
        }
        let mut together = BTreeMap::<&str, Vec<Alarm>>::new();
        for (host, nodes) in folded {
            let lost = &self.lost[host];
            if state.time_ms >= lost.since_ms + SETTLE_MS {
                together.entry(&lost.first).or_default().push(of_host(host, lost, nodes));
            }
        }
        for (first, mut hosts) in together {
            alarms.extend(match hosts.len() {
                1 => hosts.pop(),
                _ => Some(self.of_hosts(first, hosts)),
            });
        }
        alarms
    }

    /// Notes which hosts are lost.
    fn follow(&mut self, now_ms: u64, counts: &BTreeMap<String, HostCount>) {
        self.lost.retain(|host, lost| {
            let Some(count) = counts.get(host).filter(|count| count.away() > 0) else { return false };
            lost.count = count.clone();
            if count.is_lost() {
                lost.all_ms = now_ms;
            }
            now_ms < lost.all_ms + RETURN_MS
        });
        for (host, count) in counts.iter().filter(|(_, count)| count.is_lost()) {
            if self.lost.contains_key(host) {
                continue;
            }
            let recent = self.lost.values().filter(|other| now_ms <= other.since_ms + TOGETHER_MS);
            let first = recent.min_by_key(|other| other.since_ms).map_or(host, |other| &other.first).clone();
            let lost = Lost { since_ms: now_ms, all_ms: now_ms, first, count: count.clone() };
            self.lost.insert(host.clone(), lost);
        }
    }

    /// Returns the alarm of hosts that were lost together. It has the name of the first one, also when that is back.
    fn of_hosts(&self, first: &str, hosts: Vec<Alarm>) -> Alarm {
        let names: Vec<&str> = hosts.iter().filter_map(|alarm| alarm.culprit.as_deref()).collect();
        let mut sum = HostCount::default();
        for HostCount { nodes, silent, gone } in names.iter().map(|host| &self.lost[*host].count) {
            sum = HostCount { nodes: sum.nodes + nodes, silent: sum.silent + silent, gone: sum.gone + gone };
        }
        let text = format!("{} on {} hosts {}: {}", share(&sum), names.len(), sum.verb(), names.join(", "));
        let since_ms = hosts.iter().map(|alarm| alarm.since_ms).min().unwrap_or_default();
        let alarm = alarm("hosts-silent", Severity::Error, text, Some(first), OF_HOSTS);
        Alarm { since_ms, folded: hosts, ..alarm }
    }
}

fn of_host(host: &str, lost: &Lost, nodes: Vec<Alarm>) -> Alarm {
    let text = format!("{} on {host} {}", share(&lost.count), lost.count.verb());
    let alarm = alarm("host-silent", Severity::Error, text, Some(host), OF_HOST);
    Alarm { since_ms: lost.since_ms, folded: nodes, ..alarm }
}

/// Returns which part of the nodes is away.
fn share(count: &HostCount) -> String {
    match count.away() {
        away if away == count.nodes => format!("all {away} nodes"),
        away => format!("{away} of {} nodes", count.nodes),
    }
}

#[cfg(test)]
mod tests;
