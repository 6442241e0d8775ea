//! Agents that a configuration names: whether they answer, and with which software.

use crate::{SOFTWARE, agent};
use sheaf_config::Config;
use sheaf_machine::doctor::{Finding, Group, Remedy, Severity};
use std::collections::BTreeMap;
use std::thread;

/// Asks all agents at the same time.
pub(super) fn ask(config: &Config) -> Vec<Finding> {
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in &config.node {
        let of_agent = node.agent.iter().map(|agent| (agent.as_str(), node.name.as_str()));
        of_agent.for_each(|(agent, node)| nodes.entry(agent).or_default().push(node));
    }
    thread::scope(|scope| {
        let asked: Vec<_> =
            nodes.into_iter().map(|(agent, nodes)| scope.spawn(move || one(config, agent, &nodes))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()).collect()
    })
}

fn one(config: &Config, agent: &str, nodes: &[&str]) -> Finding {
    let starts = format!("starts {}", nodes.join(", "));
    let (severity, value, cost, advice) = match agent::ask(config, agent) {
        Ok((software, host)) if software == SOFTWARE => {
            (Severity::Good, format!("{software} on {host}"), starts, None)
        }
        Ok((software, host)) => (
            Severity::Problem,
            format!("{software} on {host}, and here is {SOFTWARE}"),
            format!("it {starts} only for runs of the same software"),
            Some("install the same release on all hosts"),
        ),
        Err(error) => (
            Severity::Problem,
            format!("does not answer: {}", crate::describe(&error)),
            format!("it {starts}, without which the run is refused"),
            Some("start `sheaf agent` on its host, or correct `agent` of these nodes and `agents.key_file`"),
        ),
    };
    Finding {
        group: Group::Agents,
        key: format!("agent {agent}"),
        severity,
        value,
        source: format!("a call of {agent}"),
        cost,
        remedy: advice.map(|advice| Remedy::Advice(advice.into())),
    }
}
