//! The publications of a process, and snapshots of all of them.

use crate::metric::Metric;
use crate::publication::{Publication, Series};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The publications of all nodes that this process knows, its own ones and those of its children.
///
/// Nodes are added and removed under a lock, when they begin; threads that publish never take it.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    nodes: Arc<Mutex<BTreeMap<String, Known>>>,
}

/// A node and its last values.
#[derive(Debug)]
struct Known {
    publication: Arc<Publication>,
    values: Vec<u64>,
    at_ns: u64,
    /// Number of publications before the values were read.
    publications: u64,
    /// When a snapshot first had these values.
    seen_at: Instant,
    /// Number of times that the node began again.
    restarts: u64,
    is_gone: bool,
}

/// Values of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The nodes, by name.
    pub nodes: BTreeMap<String, NodeSnapshot>,
}

/// Values of a node that were published together.
#[derive(Clone, Debug)]
pub struct NodeSnapshot {
    publication: Arc<Publication>,
    publications: u64,
    values: Vec<u64>,
    /// When the values were published, in nanoseconds on the clock of the node.
    pub at_ns: u64,
    /// Time since a snapshot first had these values. Nodes publish several times a second, so a long time means that the node does not
    /// work.
    pub age: Duration,
    /// Number of times that the node began again.
    pub restarts: u64,
    /// Whether the node has ended.
    pub is_gone: bool,
}

impl Hub {
    /// Adds a node, or replaces the publication of one that begins again.
    pub fn add(&self, node: &str, publication: Arc<Publication>) {
        let mut nodes = self.nodes();
        let restarts = nodes.get(node).map_or(0, |before| before.restarts + 1);
        let known = Known {
            publication,
            values: Vec::new(),
            at_ns: 0,
            publications: 0,
            seen_at: Instant::now(),
            restarts,
            is_gone: false,
        };
        nodes.insert(node.to_owned(), known);
    }

    /// Notes that a node has ended. Its last values stay.
    pub fn note_gone(&self, node: &str) {
        if let Some(known) = self.nodes().get_mut(node) {
            known.is_gone = true;
        }
    }

    /// Notes that a node has ended whose publication this is, unless another one has taken its place.
    pub fn note_end_of(&self, node: &str, publication: &Arc<Publication>) {
        if let Some(known) = self.nodes().get_mut(node)
            && Arc::ptr_eq(&known.publication, publication)
        {
            known.is_gone = true;
        }
    }

    /// Removes all nodes, before another run.
    pub fn clear(&self) {
        self.nodes().clear();
    }

    /// Returns the values of all nodes. Of a node that was suspended while it published, these are its values of the snapshot before.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = |known: &mut Known| {
            let publications = known.publication.publications();
            if let Some(at_ns) = known.publication.read(&mut known.values) {
                known.at_ns = at_ns;
                if publications != known.publications {
                    (known.publications, known.seen_at) = (publications, Instant::now());
                }
            }
            NodeSnapshot {
                publication: known.publication.clone(),
                publications: known.publications,
                values: known.values.clone(),
                at_ns: known.at_ns,
                age: known.seen_at.elapsed(),
                restarts: known.restarts,
                is_gone: known.is_gone,
            }
        };
        let mut nodes = self.nodes();
        let nodes = nodes.iter_mut().map(|(name, known)| (name.clone(), snapshot(known))).collect();
        Snapshot { nodes }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeSnapshot {
    /// Returns the publication of which these are values.
    #[must_use]
    pub fn publication(&self) -> &Arc<Publication> {
        &self.publication
    }

    /// Returns the number of publications up to these values. If it has not grown, neither have the values changed. The last one may
    /// not be counted yet, but none is counted whose values are not here.
    #[must_use]
    pub fn publications(&self) -> u64 {
        self.publications
    }

    /// Returns all values, in the order of the publication's series.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Returns each series with its values. Of a metric that is [sparse](Metric::sparse), only series that are not 0, and those whose last
    /// label is empty.
    pub fn series(&self) -> impl Iterator<Item = (&Series, &[u64])> {
        self.shown(self.publication.series().iter())
    }

    /// Returns the series of a metric with their values, as [`series`](Self::series) does.
    pub fn of(&self, metric: &'static Metric) -> impl Iterator<Item = (&Series, &[u64])> {
        self.shown(self.publication.series_of(metric))
    }

    fn shown<'a>(
        &'a self,
        series: impl Iterator<Item = &'a Series>,
    ) -> impl Iterator<Item = (&'a Series, &'a [u64])> {
        series.map(|series| (series, series.values(&self.values))).filter(|(series, values)| {
            let has_occurred = values.iter().any(|value| *value > 0);
            let is_general = series.labels.last().is_none_or(String::is_empty);
            !values.is_empty() && (has_occurred || is_general || !series.metric.sparse)
        })
    }

    /// Returns a label of each series of a metric that is 1, as a state that holds is.
    pub fn marked<'a>(
        &'a self,
        metric: &'static Metric,
        label: &'a str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let marked = self.of(metric).filter(|(_, values)| values.first() == Some(&1));
        marked.filter_map(move |(series, _)| series.label(label))
    }

    /// Returns the sum of a metric's series; 0 if there are none. Not for histograms.
    #[must_use]
    pub fn sum(&self, metric: &'static Metric) -> u64 {
        self.of(metric).filter_map(|(_, values)| values.first()).sum()
    }

    /// Returns the value of the series with this value of the metric's first label.
    #[must_use]
    pub fn value(&self, metric: &'static Metric, label: &str) -> Option<u64> {
        let mut series = self.of(metric);
        series
            .find(|(series, _)| series.labels.first().is_some_and(|value| value == label))?
            .1
            .first()
            .copied()
    }
}

impl Snapshot {
    /// Returns the sum of a metric over all nodes. Not for histograms.
    #[must_use]
    pub fn sum(&self, metric: &'static Metric) -> u64 {
        self.nodes.values().map(|node| node.sum(metric)).sum()
    }

    /// Returns the sums of a metric's series over all nodes, by the first label.
    #[must_use]
    pub fn by_label(&self, metric: &'static Metric) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (series, values) in self.nodes.values().flat_map(|node| node.of(metric)) {
            let (Some(label), Some(value)) = (series.labels.first(), values.first()) else { continue };
            *sums.entry(label.clone()).or_default() += value;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::publication::{Publisher, SeriesList};

    fn node(drops: &[(&str, u64)]) -> Publisher {
        let mut list = SeriesList::default();
        let ids: Vec<_> =
            drops.iter().map(|(reason, _)| list.add(&catalog::EVENT_DROPS, &[reason])).collect();
        let mut publisher = list.publish();
        publisher.publish(0, |to| {
            for (id, (_, value)) in ids.iter().zip(drops) {
                to.set(*id, *value);
            }
        });
        publisher
    }

    #[test]
    fn sums_are_over_all_nodes() {
        let hub = Hub::default();
        hub.add("a", node(&[("stopped", 1), ("late", 2)]).publication());
        hub.add("b", node(&[("stopped", 10)]).publication());
        let snapshot = hub.snapshot();
        assert_eq!(snapshot.sum(&catalog::EVENT_DROPS), 13);
        assert_eq!(snapshot.by_label(&catalog::EVENT_DROPS)["stopped"], 11);
        assert_eq!(snapshot.nodes["a"].value(&catalog::EVENT_DROPS, "late"), Some(2));
        assert_eq!(snapshot.nodes["b"].value(&catalog::EVENT_DROPS, "late"), None);
    }

    #[test]
    fn the_series_of_a_metric_are_those_of_all_series_that_have_it() {
        let mut list = SeriesList::default();
        list.add(&catalog::EVENT_DROPS, &["late"]);
        list.add(&catalog::TRIGGERS, &[]);
        list.add(&catalog::EVENT_DROPS, &["stopped"]);
        let never = list.add(&catalog::SOURCE_MISSING, &["7", "late"]);
        list.add(&catalog::SOURCE_MISSING, &["8", "late"]);
        let mut publisher = list.publish();
        let hub = Hub::default();
        hub.add("a", publisher.publication());
        publisher.publish(0, |to| to.set(never.plus(1), 3));
        let node = &hub.snapshot().nodes["a"];
        for metric in catalog::ALL {
            let of_all = node.series().filter(|(series, _)| series.metric.name == metric.name);
            assert!(node.of(metric).eq(of_all), "{}", metric.name);
        }
        let missing: Vec<_> =
            node.of(&catalog::SOURCE_MISSING).map(|(series, _)| &*series.labels[0]).collect();
        assert_eq!(missing, ["8"], "a source that never lacked is left out");
        assert_eq!(node.of(&catalog::EVENT_DROPS).count(), 2);
    }

    #[test]
    fn a_node_that_begins_again_is_counted() {
        let hub = Hub::default();
        hub.add("a", node(&[("late", 5)]).publication());
        hub.note_gone("a");
        assert!(hub.snapshot().nodes["a"].is_gone);
        hub.add("a", node(&[("late", 1)]).publication());
        let snapshot = hub.snapshot();
        assert_eq!((snapshot.nodes["a"].restarts, snapshot.nodes["a"].is_gone), (1, false));
        hub.note_end_of("a", &node(&[("late", 5)]).publication());
        assert!(!hub.snapshot().nodes["a"].is_gone, "the end of another one");
        hub.note_end_of("a", snapshot.nodes["a"].publication());
        assert!(hub.snapshot().nodes["a"].is_gone);
        assert_eq!(snapshot.sum(&catalog::EVENT_DROPS), 1);
    }
}
