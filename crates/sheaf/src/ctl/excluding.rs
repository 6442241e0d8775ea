//! `sheaf ctl exclude`, `include` and `recover`: parts of a run.

use super::{Desk, PERIOD, WaitArguments, encode};
use crate::Verdict;
use crate::print::{print, print_json};
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use sheaf_key::make_token;
use sheaf_wire::Nanos;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(super) struct ExclusionArguments {
    /// Sources, by number or name, and readout units and builder units, by name.
    #[arg(value_name = "SOURCE|NODE", required = true)]
    parts: Vec<String>,
    #[command(flatten)]
    wait: WaitArguments,
    /// Wait at most this long for the run. A source is included with its next fragment.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = crate::arguments::parse_seconds)]
    timeout: Nanos,
}

#[derive(Debug, Args)]
pub(super) struct RecoverArguments {
    /// Nodes, by name. The event manager can only be started again if it has a standby, which takes over from it.
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    wait: WaitArguments,
    /// Wait at most this long.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = crate::arguments::parse_seconds)]
    timeout: Nanos,
}

/// A source or a node, as the controller has understood it, and what the user has called it.
struct Part<'a> {
    is_node: bool,
    known_as: Value,
    called: &'a str,
}

impl Desk {
    /// Excludes sources and nodes, or includes them, and waits until the run does so. Those before one that is refused have been changed.
    pub(super) fn include(&self, arguments: &ExclusionArguments, included: bool) -> anyhow::Result<Verdict> {
        let ExclusionArguments { parts, wait, timeout } = arguments;
        let changed = parts.iter().map(|part| self.include_one(part, included));
        let changed = changed.collect::<anyhow::Result<Vec<_>>>()?;
        let mut control = self.control()?;
        if !wait.no_wait {
            let waits = |control: &Value| parts_to_wait_for(control, &changed, included);
            let (done, why) = match included {
                true => ("included", "; a source is included with its next fragment"),
                false => ("excluded", ""),
            };
            control = self.wait_for_parts(timeout.to_std(), waits, (done, why))?;
        }
        self.show_parts(&control)
    }

    fn include_one<'a>(&self, called: &'a str, included: bool) -> anyhow::Result<Part<'a>> {
        let body = json!({ "included": included });
        let path = |kind: &str| format!("/api/v1/{kind}/{}/included", encode(called));
        if self.client.put_if_there(&path("nodes"), &body)?.is_some() {
            return Ok(Part { is_node: true, known_as: called.into(), called });
        }
        let mut answer = self.client.put(&path("sources"), &body)?;
        let known_as = answer["source"].take();
        known_as.as_u64().context("the controller does not say which source it has changed")?;
        Ok(Part { is_node: false, known_as, called })
    }

    /// Has nodes started again, and waits until that is done.
    pub(super) fn recover(&self, arguments: &RecoverArguments) -> anyhow::Result<Verdict> {
        let RecoverArguments { nodes, wait, timeout } = arguments;
        for node in nodes {
            let body = json!({ "request": make_token()? });
            self.client.post(&format!("/api/v1/nodes/{}/recover", encode(node)), &body)?;
        }
        let mut control = self.control()?;
        if !wait.no_wait {
            let is_due = |control: &Value, node: &str| {
                let mut listed = control["nodes"].as_array().into_iter().flatten();
                listed.any(|it| it["node"] == node && it["recovering"] == true)
            };
            let waits = |control: &Value| {
                nodes.iter().map(String::as_str).filter(|node| is_due(control, node)).collect()
            };
            control = self.wait_for_parts(timeout.to_std(), waits, ("started again", ""))?;
            if let Some((node, why)) =
                nodes.iter().find_map(|node| Some((node, not_recovered(&control, node)?)))
            {
                bail!("{node} was not started again: {why}");
            }
        }
        self.show_parts(&control)
    }

    /// Waits until the run, if there is one, has done what was commanded with all of them. Returns the state.
    ///
    /// # Errors
    /// That it takes longer than `timeout`. What was commanded stays in force.
    fn wait_for_parts<'a>(
        &self,
        timeout: Duration,
        waits: impl Fn(&Value) -> Vec<&'a str>,
        (done, why): (&str, &str),
    ) -> anyhow::Result<Value> {
        let until = Instant::now() + timeout;
        loop {
            let control = self.control()?;
            let left = waits(&control);
            if left.is_empty() || control["run"].is_null() {
                return Ok(control);
            }
            if Instant::now() > until {
                let left = left.join(", ");
                bail!(
                    "the run has not {done} {left} within {timeout:?}{why}; the command stays in force, and `sheaf ctl status` shows it"
                );
            }
            std::thread::sleep(PERIOD);
        }
    }

    fn show_parts(&self, control: &Value) -> anyhow::Result<Verdict> {
        if self.json {
            print_json(&json!({ "sources": control["sources"], "nodes": control["nodes"] }))?;
        } else {
            print(&describe(control))?;
        }
        Ok(Verdict::Good)
    }
}

/// Returns why a node was not started again, if the run has refused that.
fn not_recovered<'a>(control: &'a Value, node: &str) -> Option<&'a str> {
    let mut listed = control["nodes"].as_array().into_iter().flatten();
    listed.find(|it| it["node"] == node)?["not_recovered"].as_str()
}

/// Returns what the user has called those parts that are in another state than they shall be.
fn parts_to_wait_for<'a>(control: &Value, parts: &[Part<'a>], included: bool) -> Vec<&'a str> {
    let find = |part: &Part<'a>| {
        let (list, key) = if part.is_node { ("nodes", "node") } else { ("sources", "source") };
        control[list].as_array().into_iter().flatten().find(|it| it[key] == part.known_as)
    };
    let waits = |part: &&Part<'a>| match find(part) {
        Some(listed) => (listed["excluded"] == true) == included || (included && !part.is_node),
        None => !included,
    };
    parts.iter().filter(waits).map(|part| part.called).collect()
}

/// Returns the sources and nodes that are not simply included, a line for each.
pub(super) fn describe(control: &Value) -> String {
    let mut lines = String::new();
    for source in control["sources"].as_array().into_iter().flatten() {
        let number = source["source"].as_u64().unwrap_or(0);
        let name = source["name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
        let state = match (source["included"] == true, source["excluded"] == true) {
            (false, true) => "excluded",
            (false, false) => "to be excluded",
            (true, _) => "to be included with its next fragment",
        };
        lines += &format!("source    {number}{name}: {state}\n");
    }
    for node in control["nodes"].as_array().into_iter().flatten() {
        let state = match (node["included"] == true, node["excluded"] == true) {
            (false, true) => "excluded",
            (false, false) => "to be excluded",
            (true, true) => "to be included",
            (true, false) => "included",
        };
        let again = match (node["recovering"] == true, node["not_recovered"].as_str()) {
            (true, _) => ", being started again".to_owned(),
            (false, Some(why)) => format!(", not started again: {why}"),
            (false, None) => String::new(),
        };
        lines += &format!("node      {}: {state}{again}\n", node["node"].as_str().unwrap_or_default());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_nodes_are_awaited_until_the_run_has_done_as_commanded() {
        let control = json!({
            "sources": [
                { "source": 3, "name": "ecal", "included": false, "excluded": true },
                { "source": 7, "name": null, "included": false, "excluded": false },
            ],
            "nodes": [
                { "node": "ru1", "included": false, "excluded": true, "recovering": false },
                { "node": "bu0", "included": true, "excluded": false, "recovering": true },
            ],
        });
        let source = |number: u64, called| Part { is_node: false, known_as: number.into(), called };
        let node = |called: &'static str| Part { is_node: true, known_as: called.into(), called };
        let waits = |parts: &[Part<'static>], included| parts_to_wait_for(&control, parts, included);
        assert_eq!(waits(&[source(3, "ecal"), source(3, "03"), node("ru1")], false), [""; 0]);
        assert_eq!(waits(&[source(3, "ecal"), source(7, "007"), node("bu1")], false), ["007", "bu1"]);
        let all = [source(3, "3"), source(7, "7"), source(8, "8"), node("ru1"), node("bu0"), node("bu1")];
        assert_eq!(waits(&all, true), ["3", "7", "ru1"]);
    }
}
