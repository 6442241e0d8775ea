//! Coincidences: items of several sources that belong together because they are close in time.

use crate::{Moment, Picos};
use std::collections::VecDeque;

/// Condition for an item to belong to the cluster before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At most this long after the last item of the cluster: a chain, ended by a gap.
    Gap(Picos),
    /// At most this long after the first item of the cluster.
    Window(Picos),
}

/// Definition of a coincidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoincidenceConfig {
    /// Rule by which items form a cluster.
    pub rule: Rule,
    /// Minimum number of different sources in a cluster. Clusters with fewer are counted and discarded.
    pub min_sources: usize,
    /// Maximum number of items in a cluster, at least 1. A larger cluster is cut and counted, and a new one begins.
    pub max_items: usize,
}

/// The first cluster of some items.
struct FirstCluster {
    /// Number of its items, at least 1.
    items: usize,
    /// Whether the next item would belong to it, but it is full.
    is_cut: bool,
}

impl CoincidenceConfig {
    /// Returns whether an item at `at` belongs to the cluster of these items.
    fn belongs<T>(&self, cluster: &[(usize, Moment, T)], at: Moment) -> bool {
        match (self.rule, cluster) {
            (Rule::Gap(gap), [.., (_, last, _)]) => at.since(*last) <= gap,
            (Rule::Window(window), [(_, first, _), ..]) => at.since(*first) <= window,
            (_, []) => false,
        }
    }

    /// Returns the cluster that begins with the first of these items, which are not empty and in order.
    fn cluster<T>(&self, items: &[(usize, Moment, T)]) -> FirstCluster {
        let mut count = 1;
        while let Some((_, at, _)) = items.get(count).filter(|(_, at, _)| self.belongs(&items[..count], *at))
        {
            if count >= self.max_items.max(1) {
                return FirstCluster { items: count, is_cut: self.belongs(&items[..count], *at) };
            }
            count += 1;
        }
        FirstCluster { items: count, is_cut: false }
    }

    /// Returns the number of different sources of a cluster. `None`: there are too few.
    fn enough_sources<T>(&self, cluster: &[(usize, Moment, T)]) -> Option<usize> {
        if cluster.len() < self.min_sources {
            return None;
        }
        let mut seen: Vec<usize> = cluster.iter().map(|(source, _, _)| *source).collect();
        seen.sort_unstable();
        seen.dedup();
        (seen.len() >= self.min_sources).then_some(seen.len())
    }
}

/// Items that belong together, in order of time. Items of the same moment are in order of their sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster<T> {
    /// Source index, moment and item.
    pub items: Vec<(usize, Moment, T)>,
    /// Number of different sources.
    pub sources: usize,
}

impl<T> Cluster<T> {
    /// Returns the moment of the first item.
    #[must_use]
    pub fn begin(&self) -> Moment {
        self.items.first().map_or(Moment::ZERO, |(_, at, _)| *at)
    }

    /// Returns the moment of the last item.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.items.last().map_or(Moment::ZERO, |(_, at, _)| *at)
    }
}

/// Counts of clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoincidenceStats {
    /// Number of clusters with any number of sources.
    pub clusters: u64,
    /// Number of clusters with enough sources.
    pub coincidences: u64,
    /// Number of clusters that were cut because they had too many items.
    pub cut: u64,
    /// Number of clusters of slices that reach the end of the overlap, so that later items may be missing.
    pub truncated: u64,
}

impl std::ops::AddAssign for CoincidenceStats {
    fn add_assign(&mut self, other: Self) {
        self.clusters += other.clusters;
        self.coincidences += other.coincidences;
        self.cut += other.cut;
        self.truncated += other.truncated;
    }
}

/// Collects items, passed in order, into clusters.
#[derive(Clone, Debug)]
struct Collector<T> {
    config: CoincidenceConfig,
    open: Vec<(usize, Moment, T)>,
    stats: CoincidenceStats,
}

impl<T> Collector<T> {
    fn new(config: CoincidenceConfig) -> Self {
        Self { config, open: Vec::new(), stats: CoincidenceStats::default() }
    }

    /// Returns whether an item at `at` would belong to the open cluster.
    fn belongs(&self, at: Moment) -> bool {
        self.config.belongs(&self.open, at)
    }

    /// Takes the next item. Returns the cluster that it ends, if any.
    fn push(&mut self, source: usize, at: Moment, item: T) -> Option<Vec<(usize, Moment, T)>> {
        let is_full = self.open.len() >= self.config.max_items.max(1);
        let belongs = self.belongs(at);
        self.stats.cut += u64::from(belongs && is_full);
        let ended = if belongs && !is_full { Vec::new() } else { std::mem::take(&mut self.open) };
        self.open.push((source, at, item));
        (!ended.is_empty()).then_some(ended)
    }

    /// Counts an ended cluster. Returns it if it has enough sources.
    fn book(&mut self, items: Vec<(usize, Moment, T)>) -> Option<Cluster<T>> {
        self.stats.clusters += 1;
        let sources = self.config.enough_sources(&items)?;
        self.stats.coincidences += 1;
        Some(Cluster { items, sources })
    }
}

/// Finds the coincidences of several sources, each of which delivers its items in order. An item is processed when all sources
/// have reached its time, so silent sources must be [advanced](Coincidence::advance).
#[derive(Clone, Debug)]
pub struct Coincidence<T> {
    queues: Vec<Queue<T>>,
    /// Maximum number of waiting items per source.
    queue_items: usize,
    collector: Collector<T>,
}

#[derive(Clone, Debug)]
struct Queue<T> {
    items: VecDeque<(Moment, T)>,
    /// Watermark: later items are at this moment or after it.
    reached: Moment,
}

impl<T> Coincidence<T> {
    /// Creates a search among `sources` sources, which are numbered from 0. Up to `queue_items` items (at least 1) of each
    /// source wait while other sources have not reached their time.
    #[must_use]
    pub fn new(sources: usize, queue_items: usize, config: CoincidenceConfig) -> Self {
        let queues = (0..sources).map(|_| Queue { items: VecDeque::new(), reached: Moment::ZERO }).collect();
        Self { queues, queue_items: queue_items.max(1), collector: Collector::new(config) }
    }

    /// Takes an item that is not earlier than the previous one of the same source.
    ///
    /// # Errors
    /// Returns the item if the queue is full because another source has not reached its time. Poll, or advance that source.
    pub fn push(&mut self, source: usize, at: Moment, item: T) -> Result<(), T> {
        let queue = &mut self.queues[source];
        if queue.items.len() >= self.queue_items {
            return Err(item);
        }
        debug_assert!(at >= queue.reached, "items of a source come in order");
        queue.reached = at;
        queue.items.push_back((at, item));
        Ok(())
    }

    /// Declares that `source` delivers no more items before `at`.
    pub fn advance(&mut self, source: usize, at: Moment) {
        let queue = &mut self.queues[source];
        queue.reached = queue.reached.max(at);
    }

    /// Declares that `source` delivers no more items.
    pub fn end(&mut self, source: usize) {
        self.queues[source].reached = Moment::MAX;
    }

    /// Returns the next coincidence.
    pub fn poll(&mut self) -> Option<Cluster<T>> {
        while let Some((source, at, item)) = self.next_item() {
            let ended = self.collector.push(source, at, item);
            if let Some(cluster) = ended.and_then(|items| self.collector.book(items)) {
                return Some(cluster);
            }
        }
        let reached = self.queues.iter().map(Queue::earliest).min().unwrap_or(Moment::MAX);
        if self.collector.open.is_empty() || (self.collector.belongs(reached) && reached != Moment::MAX) {
            return None;
        }
        let items = std::mem::take(&mut self.collector.open);
        self.collector.book(items).or_else(|| self.poll())
    }

    /// Returns the earliest item, if no earlier one can follow.
    fn next_item(&mut self) -> Option<(usize, Moment, T)> {
        let (source, earliest) = self.queues.iter().enumerate().min_by_key(|(_, queue)| queue.earliest())?;
        let at = earliest.earliest();
        // A source that has reached this moment without an item may still deliver one of the same moment.
        let undecided = |queue: &Queue<T>| queue.items.is_empty() && queue.reached <= at;
        if earliest.items.is_empty() || self.queues[..source].iter().any(undecided) {
            return None;
        }
        let (at, item) = self.queues[source].items.pop_front()?;
        Some((source, at, item))
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> CoincidenceStats {
        self.collector.stats
    }
}

impl<T> Queue<T> {
    /// Returns the moment of the next item, or the earliest possible one.
    fn earliest(&self) -> Moment {
        self.items.front().map_or(self.reached, |(at, _)| *at)
    }
}

/// Returns the coincidences that begin in `[begin, end)`, given the items of a time slice with overlaps, sorted by moment.
///
/// For [`Rule::Gap`], every cluster of the timeline is found in exactly one slice if the overlap before a slice is at
/// least the gap, and that after it at least as long as the longest cluster and the gap. Clusters that reach beyond
/// `seen_to`, the end of the overlap, are counted as truncated. For [`Rule::Window`], the begin of a cluster depends on all
/// earlier clusters; there, the first cluster of a slice begins with its first item.
pub fn of_slice<T: Clone>(
    config: CoincidenceConfig,
    items: &[(usize, Moment, T)],
    (begin, end): (Moment, Moment),
    seen_to: Moment,
) -> (Vec<Cluster<T>>, CoincidenceStats) {
    let from = match config.rule {
        Rule::Gap(_) => 0,
        Rule::Window(_) => items.partition_point(|(_, at, _)| *at < begin),
    };
    let (mut found, mut stats) = (Vec::new(), CoincidenceStats::default());
    let mut first = from;
    while let Some((_, at, _)) = items.get(first).filter(|(_, at, _)| *at < end) {
        let cluster = config.cluster(&items[first..]);
        // A cluster in the overlap is in another slice, and counted there.
        if *at >= begin {
            let of_cluster = &items[first..first + cluster.items];
            stats.clusters += 1;
            stats.cut += u64::from(cluster.is_cut);
            let is_open = first + cluster.items == items.len();
            stats.truncated += u64::from(is_open && config.belongs(of_cluster, seen_to));
            if let Some(sources) = config.enough_sources(of_cluster) {
                stats.coincidences += 1;
                found.push(Cluster { items: of_cluster.to_vec(), sources });
            }
        }
        first += cluster.items;
    }
    (found, stats)
}

#[cfg(test)]
mod tests;
