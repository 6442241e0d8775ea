//! Nodes, and sources in trouble.

use crate::description::{NodeDescription, RunDescription};
use serde::Serialize;
use sheaf_telemetry::{Kind, NodeSnapshot, Snapshot, catalog};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time without fragments after which a source of a run in progress is in trouble, if one is requested.
const SILENT: Duration = Duration::from_secs(5);

/// Maximum number of sources in trouble that are listed.
const LISTED: usize = 100;

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// `readout`, `builder`, `manager` or `output`.
    pub role: String,
    /// Address of the agent that starts it on another host.
    pub agent: Option<String>,
    /// Whether it has published and has not ended.
    pub up: bool,
    /// Age of its values; `null` if it has not published.
    pub age_ms: Option<u64>,
    /// Number of times that it began again.
    pub restarts: u64,
    /// Whether an operator has excluded it.
    pub excluded: bool,
    /// Whether its output does not work or has no room.
    pub output_failing: bool,
    /// Fill of its bounded buffers.
    pub fill: BTreeMap<&'static str, Fill>,
}

/// Fill of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fill {
    /// Amount that it holds.
    pub value: u64,
    /// Amount that it may hold.
    pub limit: u64,
    /// Unit of both.
    pub unit: &'static str,
}

/// A number of a node, by name and meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the metric, with its labels.
    pub name: String,
    /// Meaning.
    pub text: &'static str,
    /// The value, in the unit of the metric.
    pub value: f64,
}

/// A source in trouble.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceState {
    /// Its number.
    pub source: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its readout unit.
    pub node: Option<String>,
    /// Time since its last fragment.
    pub last_seen_seconds: Option<f64>,
    /// Whether its readout unit has no room for its next fragment.
    pub held_back: bool,
    /// Whether a fragment of it is requested that it has not given.
    pub behind: bool,
    /// Events built without it, by reason.
    pub missing: Vec<Missing>,
}

/// Events built without a source for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The reason.
    pub reason: String,
    /// Number of events.
    pub events: u64,
}

/// Returns all nodes that were expected, and those that have published, in the order of the description.
pub(super) fn compose(snapshot: &Snapshot, run: Option<&RunDescription>) -> Vec<NodeState> {
    let expected = run.map(|run| run.nodes.as_slice()).unwrap_or_default();
    let here = snapshot.nodes.values().filter(|node| !node.is_gone);
    let excluded: BTreeSet<_> = here.flat_map(|node| node.marked(&catalog::NODE_EXCLUDED, "peer")).collect();
    let state = |expected: &NodeDescription, node: Option<&NodeSnapshot>| NodeState {
        name: expected.name.clone(),
        role: expected.role.clone(),
        agent: expected.agent.clone(),
        up: node.is_some_and(|node| !node.is_gone),
        age_ms: node.map(|node| u64::try_from(node.age.as_millis()).unwrap_or(u64::MAX)),
        restarts: node.map_or(0, |node| node.restarts),
        excluded: excluded.contains(&*expected.name),
        output_failing: node.is_some_and(|node| node.sum(&catalog::OUTPUT_FAILING) > 0),
        fill: node.map(fill_of).unwrap_or_default(),
    };
    let published = |name: &str| snapshot.nodes.get(name).filter(|node| has_published(node));
    expected.iter().map(|node| state(node, published(&node.name))).collect()
}

/// Returns whether a node has published in this run, maybe before it began again.
fn has_published(node: &NodeSnapshot) -> bool {
    node.publications() > 0 || node.restarts > 0 || node.is_gone
}

fn fill_of(node: &NodeSnapshot) -> BTreeMap<&'static str, Fill> {
    let buffers = [
        ("buffer", &catalog::BUFFER_BYTES, &catalog::BUFFER_LIMIT, "B"),
        ("slots", &catalog::BUFFER_EVENTS, &catalog::BUFFER_EVENTS_LIMIT, "events"),
    ];
    let mut fill = BTreeMap::new();
    for (name, value, limit, unit) in buffers {
        let limit = node.sum(limit);
        if limit > 0 {
            fill.insert(name, Fill { value: node.sum(value), limit, unit });
        }
    }
    fill
}

/// Returns all numbers of a node that are not 0, except those of its sources.
pub(crate) fn figures(node: &NodeSnapshot) -> Vec<Figure> {
    let series = node.series().filter(|(series, values)| {
        !matches!(series.metric.kind, Kind::Histogram | Kind::Row)
            && !series.metric.labels.contains(&"source")
            && values.first().is_some_and(|value| *value > 0)
    });
    let figure = series.map(|(series, values)| {
        let labels: Vec<_> = series.labels.iter().filter(|label| !label.is_empty()).cloned().collect();
        let labels = if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) };
        let name = series.metric.name.trim_start_matches("sheaf_").trim_end_matches("_total");
        let value = series.metric.unit.scale(values.first().copied().unwrap_or(0));
        Figure { name: format!("{name}{labels}"), text: series.metric.help, value }
    });
    figure.collect()
}

/// Returns the sources that are silent or missing in events, and that no operator has excluded; those that are missing most come first. A
/// source that is held back is not silent: that is ordinary back-pressure, and is said of those in trouble only.
///
pub(super) fn sources_in_trouble(
    snapshot: &Snapshot,
    run: Option<&RunDescription>,
    in_progress: bool,
) -> Vec<SourceState> {
    let mut sources = seen_sources(snapshot);
    for (series, values) in snapshot.nodes.values().flat_map(|node| node.of(&catalog::SOURCE_MISSING)) {
        let (Some(Ok(id)), Some(reason)) = (series.label("source").map(str::parse), series.label("reason"))
        else {
            continue;
        };
        let events = values.first().copied().unwrap_or(0);
        let source = sources.entry(id).or_insert_with(|| SourceState::unseen(id));
        match source.missing.iter_mut().find(|missing| missing.reason == reason) {
            Some(missing) => missing.events += events,
            None => source.missing.push(Missing { reason: reason.to_owned(), events }),
        }
    }
    let excluded = excluded_sources(snapshot);
    sources.retain(|source, _| !excluded.contains(source));
    let names = run.map(|run| &run.sources);
    let in_trouble = |source: &SourceState| !source.missing.is_empty() || in_progress && source.is_silent();
    let mut listed: Vec<_> = sources.into_values().filter(in_trouble).collect();
    listed.sort_by_key(|source| {
        std::cmp::Reverse(source.missing.iter().map(|missing| missing.events).sum::<u64>())
    });
    listed.truncate(LISTED);
    for source in &mut listed {
        source.name = names.and_then(|names| names.get(&source.source).cloned().flatten());
    }
    listed
}

impl SourceState {
    /// Returns whether it has not given for some time what is requested, although its readout unit has room for it.
    pub(crate) fn is_silent(&self) -> bool {
        let is_old = self.last_seen_seconds.is_some_and(|age| age >= SILENT.as_secs_f64());
        self.behind && !self.held_back && is_old
    }

    /// Returns its name, or else its number.
    pub(crate) fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.source.to_string())
    }

    fn unseen(source: u64) -> Self {
        Self {
            source,
            name: None,
            node: None,
            last_seen_seconds: None,
            held_back: false,
            behind: false,
            missing: Vec::new(),
        }
    }
}

fn excluded_sources(snapshot: &Snapshot) -> BTreeSet<u64> {
    let excluded = snapshot.nodes.values().flat_map(|node| node.marked(&catalog::SOURCE_EXCLUDED, "source"));
    excluded.filter_map(|source| source.parse().ok()).collect()
}

/// Returns the sources that have series at their readout units.
fn seen_sources(snapshot: &Snapshot) -> BTreeMap<u64, SourceState> {
    let mut sources: BTreeMap<u64, SourceState> = BTreeMap::new();
    for (name, node) in &snapshot.nodes {
        let held_back: BTreeSet<_> = node.marked(&catalog::SOURCE_HELD_BACK, "source").collect();
        let behind: BTreeSet<_> = node.marked(&catalog::SOURCE_BEHIND, "source").collect();
        for (series, values) in node.of(&catalog::SOURCE_AGE) {
            let Some(label) = series.label("source") else { continue };
            let Ok(id) = label.parse() else { continue };
            let age = values.first().map(|age| series.metric.unit.scale(*age));
            let state = SourceState {
                node: Some(name.clone()),
                last_seen_seconds: age,
                held_back: held_back.contains(label),
                behind: behind.contains(label),
                ..SourceState::unseen(id)
            };
            sources.insert(id, state);
        }
    }
    sources
}
