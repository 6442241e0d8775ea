//! Reasons why builder units are full while triggers are not taken.
//!
//! The event manager knows that builder units have no room. Their events may wait for the fragments of a source, a readout unit or a
//! link, for all fragments because there are too few slots, or for a filter. A single moment is ambiguous, because every event waits
//! for every source for a while. So moments of dead time are collected, and the reason is what most of them have in common.

use crate::description::RunDescription;
use crate::map;
use sheaf_telemetry::{NodeSnapshot, Snapshot, catalog};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Age of the values of a node from which on it is stopped: a readout unit is the reason then, and not its sources. Values come ten
/// times a second.
const STOPPED: Duration = Duration::from_millis(500);

/// A readout unit or a pair stands out if it is waited for this many times as long as the others.
const FACTOR: u64 = 3;

/// A reason must be there in this many of ten moments.
const OF_TEN: usize = 6;

/// Maximum number of reasons of one moment. More at once have a cause in common.
const REASONS: usize = 64;

/// Reason why builder units are full: the thing that their events wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holdup {
    /// Fragments of one source.
    Source {
        /// Name of the source, or its number.
        source: String,
        /// Its readout unit.
        readout: String,
    },
    /// Fragments of one readout unit.
    Readout(String),
    /// Fragments that one builder unit gets from one readout unit.
    Link {
        /// Name of the readout unit.
        readout: String,
        /// Name of the builder unit.
        builder: String,
    },
    /// Fragments of several readout units.
    Fragments,
    /// The filter, or the output behind it.
    Filter,
}

/// Moments of dead time, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Holdups {
    moments: VecDeque<(u64, BTreeSet<Holdup>)>,
}

impl Holdups {
    /// Adds a moment of dead time, and forgets those before `first_ms`.
    pub(super) fn add(&mut self, time_ms: u64, first_ms: u64, reasons: BTreeSet<Holdup>) {
        self.moments.push_back((time_ms, reasons));
        while self.moments.front().is_some_and(|(time_ms, _)| *time_ms < first_ms) {
            self.moments.pop_front();
        }
    }

    /// Returns what most moments since `first_ms` have in common; `None` if there is no moment.
    pub(super) fn reason(&self, first_ms: u64) -> Option<Holdup> {
        let recent =
            || self.moments.iter().filter(|(time_ms, _)| *time_ms >= first_ms).map(|(_, reasons)| reasons);
        let of_filter = recent().filter(|reasons| reasons.contains(&Holdup::Filter)).count();
        let of_fragments = recent().count() - of_filter;
        if of_filter + of_fragments == 0 {
            return None;
        }
        if of_filter > of_fragments {
            return Some(Holdup::Filter);
        }
        let named = recent().map(|reasons| reasons.iter().filter(|reason| reason.readout().is_some()));
        if let [only] = frequent(named, of_fragments).as_slice() {
            return Some((*only).clone());
        }
        // Sources or links may take turns, and have their readout unit in common.
        let readouts = recent().map(|reasons| reasons.iter().filter_map(Holdup::readout));
        Some(match frequent(readouts, of_fragments).as_slice() {
            [only] => Holdup::Readout((*only).to_owned()),
            _ => Holdup::Fragments,
        })
    }
}

/// Returns what is there in at least six of ten moments.
fn frequent<T: Ord>(moments: impl Iterator<Item: Iterator<Item = T>>, of_moments: usize) -> Vec<T> {
    let mut counts = BTreeMap::<T, usize>::new();
    for moment in moments {
        for thing in moment.collect::<BTreeSet<_>>() {
            *counts.entry(thing).or_default() += 1;
        }
    }
    counts.retain(|_, count| 10 * *count >= OF_TEN * of_moments);
    counts.into_keys().collect()
}

impl Holdup {
    /// Returns the readout unit that this reason is about, if it is about one.
    fn readout(&self) -> Option<&str> {
        match self {
            Self::Source { readout, .. } | Self::Readout(readout) | Self::Link { readout, .. } => {
                Some(readout)
            }
            Self::Fragments | Self::Filter => None,
        }
    }
}

/// Returns whether a node publishes its values.
fn reports(node: &NodeSnapshot) -> bool {
    !node.is_gone && node.age < STOPPED
}

/// Returns what the builder units that report wait for at this moment; `None` if they hold no events.
pub(crate) fn at(snapshot: &Snapshot, run: &RunDescription) -> Option<BTreeSet<Holdup>> {
    let nodes = |role: &'static str| {
        let of_role = run.nodes.iter().filter(move |node| node.role == role);
        of_role.filter_map(|node| Some((&*node.name, snapshot.nodes.get(&node.name)?)))
    };
    // The alarm `node-silent` is about the others.
    let builders: Vec<_> = nodes("builder").filter(|(_, node)| reports(node)).collect();
    let sum = |metric| builders.iter().map(|(_, node)| node.sum(metric)).sum::<u64>();
    let (building, held) = (sum(&catalog::EVENTS_BUILDING), sum(&catalog::BUFFER_EVENTS));
    if held == 0 {
        return None;
    }
    if 2 * building < held {
        return Some(BTreeSet::from([Holdup::Filter]));
    }
    let names = run.nodes.iter().filter(|node| node.role == "readout").map(|node| &*node.name).collect();
    let waits = Waits::of(names, &builders);
    let stopped = waits.stopped(snapshot);
    if !stopped.is_empty() {
        return Some(stopped);
    }
    let behind = sources_behind(nodes("readout"), run);
    Some(if behind.is_empty() { BTreeSet::from([waits.longest()]) } else { behind })
}

/// Returns the sources that have not given what is requested, although their readout units have room for it.
fn sources_behind<'a>(
    readouts: impl Iterator<Item = (&'a str, &'a NodeSnapshot)>,
    run: &RunDescription,
) -> BTreeSet<Holdup> {
    let of_readout = readouts.flat_map(|(name, node)| {
        let not: BTreeSet<_> = [&catalog::SOURCE_HELD_BACK, &catalog::SOURCE_EXCLUDED]
            .into_iter()
            .flat_map(|metric| node.marked(metric, "source"))
            .collect();
        let behind = node.marked(&catalog::SOURCE_BEHIND, "source").filter(move |id| !not.contains(id));
        behind.map(move |id| (name, id))
    });
    let reason = |(readout, id): (&str, &str)| {
        let name = id.parse().ok().and_then(|id: u64| run.sources.get(&id)?.clone());
        Holdup::Source { source: name.unwrap_or_else(|| id.to_owned()), readout: readout.to_owned() }
    };
    of_readout.map(reason).take(REASONS).collect()
}

/// Time for which each builder unit waits for each readout unit.
struct Waits<'a> {
    readouts: Vec<&'a str>,
    builders: Vec<&'a str>,
    /// Nanoseconds, builder unit by builder unit.
    waits: Vec<&'a [u64]>,
}

impl<'a> Waits<'a> {
    fn of(readouts: Vec<&'a str>, builders: &[(&'a str, &'a NodeSnapshot)]) -> Self {
        let column = |(_, node): &(&'a str, &'a NodeSnapshot)| {
            map::row(node, &catalog::PAIR_WAITS).unwrap_or_default()
        };
        Self {
            readouts,
            builders: builders.iter().map(|(name, _)| *name).collect(),
            waits: builders.iter().map(column).collect(),
        }
    }

    /// Returns the waits of all builder units for a readout unit.
    fn row(&self, readout: usize) -> impl Iterator<Item = u64> {
        self.waits.iter().map(move |column| column.get(readout).copied().unwrap_or(0))
    }

    /// Returns the readout units that do not report and that are waited for.
    fn stopped(&self, snapshot: &Snapshot) -> BTreeSet<Holdup> {
        let is_stopped = |name: &str| !snapshot.nodes.get(name).is_some_and(reports);
        let readouts = self.readouts.iter().enumerate();
        let stopped =
            readouts.filter(|(index, name)| is_stopped(name) && self.row(*index).any(|wait| wait > 0));
        stopped.map(|(_, name)| Holdup::Readout((*name).to_owned())).take(REASONS).collect()
    }

    /// Returns the readout unit that is waited for much longer than the others, or the builder unit that alone waits for it.
    fn longest(&self) -> Holdup {
        let mut rows: Vec<(u64, usize)> =
            (0..self.readouts.len()).map(|index| (self.row(index).max().unwrap_or(0), index)).collect();
        rows.sort_unstable_by(|one, other| other.cmp(one));
        let Some(&(longest, readout)) = rows.first().filter(|(wait, _)| *wait > 0) else {
            return Holdup::Fragments;
        };
        if rows.get(1).is_some_and(|(wait, _)| longest < FACTOR * wait) {
            return Holdup::Fragments;
        }
        let name = self.readouts[readout].to_owned();
        let mut column: Vec<(u64, usize)> = self.row(readout).zip(0..).collect();
        column.sort_unstable_by(|one, other| other.cmp(one));
        match column.as_slice() {
            [(first, builder), (second, _), ..] if *first >= FACTOR * second => {
                Holdup::Link { readout: name, builder: self.builders[*builder].to_owned() }
            }
            _ => Holdup::Readout(name),
        }
    }
}

#[cfg(test)]
mod tests;
