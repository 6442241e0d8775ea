//! The stamps of the last seconds, taken out of the rings of all nodes.

use super::model::TraceStamp;
use sheaf_telemetry::ring::RingReader;
use sheaf_telemetry::stamps::{MOST_DETAIL, NodeStamps, Stage, Stamp, StampHub, StampLabels, low};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Stamps that are kept of all nodes of a process, in 16 MiB. With some 50,000 stamps a second they are those of 20 s.
const KEPT: usize = 1 << 20;

/// Stamps that are searched or left out together.
const TOGETHER: usize = 1 << 12;

/// Events whose stamps are looked for and passed on together. It bounds the memory of an answer, and who waits for it sees it grow.
const AT_ONCE: usize = 256;

/// Stamps that were taken one after the other.
#[derive(Debug)]
struct Bundle {
    /// When the last of them were taken.
    taken_ns: u64,
    /// Lowest and highest of the events, low bits.
    events: (u64, u64),
    words: Vec<[u64; 2]>,
}

/// The stamps of a node.
#[derive(Debug)]
struct Kept {
    node: Arc<NodeStamps>,
    stamps: RingReader<2>,
    remarks: RingReader<4>,
    bundles: VecDeque<Bundle>,
}

/// The stamps of the last seconds.
#[derive(Debug, Default)]
pub(super) struct StampStore {
    /// By name; of a node that has begun again, the former life is first.
    nodes: Vec<Kept>,
    kept: usize,
    /// Stamps and remarks that were overwritten before they were taken.
    pub(super) lost: (u64, u64),
}

impl StampStore {
    /// Takes what nodes have published since the last call. Remarks are passed to `note`, with the node that made them.
    pub(super) fn take(&mut self, hub: &StampHub, now_ns: u64, mut note: impl FnMut(&str, [u64; 4])) {
        for node in hub.all() {
            if !self.nodes.iter().any(|kept| Arc::ptr_eq(&kept.node, &node)) {
                let (stamps, remarks) =
                    (RingReader::new(node.stamps.clone()), RingReader::new(node.remarks.clone()));
                self.nodes.push(Kept { node, stamps, remarks, bundles: VecDeque::new() });
            }
        }
        let Self { nodes, kept, lost } = self;
        for Kept { node, stamps, remarks, bundles } in &mut *nodes {
            // Stamps first: an event has those that were made before its remark.
            let mut remarked = Vec::new();
            lost.1 += remarks.read(|words| remarked.push(words));
            lost.0 += stamps.read(|words| {
                let Some(stamp) = Stamp::from_words(words, now_ns) else { return };
                let (first, last) = stamp.bounds();
                match bundles.back_mut().filter(|bundle| bundle.words.len() < TOGETHER) {
                    Some(Bundle { taken_ns, events, words: all }) => {
                        *taken_ns = now_ns;
                        *events = (events.0.min(first.min(last)), events.1.max(last.max(first)));
                        all.push(words);
                    }
                    None => bundles.push_back(Bundle {
                        taken_ns: now_ns,
                        events: (first.min(last), last.max(first)),
                        words: vec![words],
                    }),
                }
                *kept += 1;
            });
            remarked.into_iter().for_each(|words| note(&node.name, words));
        }
        self.forget();
        self.nodes.retain(|kept| !kept.bundles.is_empty() || Arc::strong_count(&kept.node) > 1);
    }

    /// Leaves out the oldest stamps beyond the limit.
    fn forget(&mut self) {
        while self.kept > KEPT {
            let oldest = self.nodes.iter_mut().filter(|kept| !kept.bundles.is_empty());
            let oldest = oldest.min_by_key(|kept| kept.bundles.front().map(|bundle| bundle.taken_ns));
            let Some(bundle) = oldest.and_then(|kept| kept.bundles.pop_front()) else { break };
            self.kept -= bundle.words.len();
        }
    }

    /// Passes on the stamps of those of these events that have some.
    pub(super) fn find(&self, events: impl Iterator<Item = u64>, mut pass: impl FnMut(u64, Vec<TraceStamp>)) {
        let mut wanted: Vec<(u64, u64)> = events.map(|event| (low(event), event)).collect();
        wanted.sort_unstable();
        for wanted in wanted.chunks(AT_ONCE) {
            self.find_together(wanted).into_iter().for_each(|(event, stamps)| pass(event, stamps));
        }
    }

    /// Returns the stamps of events, in ascending order of their low bits.
    fn find_together(&self, wanted: &[(u64, u64)]) -> BTreeMap<u64, Vec<TraceStamp>> {
        let mut found: BTreeMap<u64, Vec<TraceStamp>> = BTreeMap::new();
        for kept in &self.nodes {
            for bundle in kept.bundles.iter().filter(|bundle| !within(wanted, bundle.events).is_empty()) {
                let stamps =
                    bundle.words.iter().filter_map(|words| Stamp::from_words(*words, bundle.taken_ns));
                for stamp in stamps {
                    let (first, last) = stamp.bounds();
                    let near = if first <= last { within(wanted, (first, last)) } else { wanted };
                    for (_, event) in near.iter().filter(|(_, event)| stamp.covers(*event)) {
                        found.entry(*event).or_default().push(translate(&kept.node, &stamp));
                    }
                }
            }
        }
        found
    }
}

/// Returns the events in an interval, with both ends.
fn within(wanted: &[(u64, u64)], (first, last): (u64, u64)) -> &[(u64, u64)] {
    let from = wanted.partition_point(|(low, _)| *low < first);
    let to = wanted.partition_point(|(low, _)| *low <= last);
    &wanted[from..to.max(from)]
}

/// Writes out the meaning of a stamp's detail.
fn translate(node: &NodeStamps, stamp: &Stamp) -> TraceStamp {
    let StampLabels { readouts, builders, sources } = &node.labels;
    let detail = (stamp.detail < MOST_DETAIL).then_some(stamp.detail);
    let of = |names: &[String]| detail.and_then(|index| names.get(usize::from(index)).cloned());
    let peer = match stamp.stage {
        Stage::Assigned | Stage::Requested | Stage::Sent | Stage::Ended => of(builders),
        Stage::Answered => of(readouts),
        _ => None,
    };
    let is = |stage| stamp.stage == stage;
    let source = detail.filter(|_| is(Stage::Arrived));
    TraceStamp {
        node: node.name.clone(),
        at_ns: stamp.at_ns,
        stage: stamp.stage.name().to_owned(),
        peer,
        source: source.and_then(|index| sources.get(usize::from(index)).copied()),
        attempt: detail.filter(|_| is(Stage::Began)),
        clock: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(store: &StampStore, events: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Vec<TraceStamp>> {
        let mut found = BTreeMap::new();
        store.find(events.into_iter(), |event, stamps| {
            assert!(found.insert(event, stamps).is_none(), "{event} is passed on twice");
        });
        found
    }

    #[test]
    fn stamps_of_an_event_are_found_among_those_of_others() {
        let hub = StampHub::default();
        let sources = vec![40, 41];
        let mut unit =
            hub.add("ru0", StampLabels { sources, builders: vec!["bu0".into()], ..StampLabels::default() });
        let mut builder =
            hub.add("bu0", StampLabels { readouts: vec!["ru0".into()], ..StampLabels::default() });
        let mut store = StampStore::default();
        for round in 0..100 {
            let first = round * 100;
            unit.begin_round(round);
            unit.stamp(Stage::Arrived, 1, first, 100);
            unit.stamp(Stage::Sent, 0, first, 100);
            unit.flush();
            builder.begin_round(round + 1);
            builder.stamp(Stage::Answered, 0, first, 50);
            builder.stamp(Stage::Answered, 0, first + 60, 40);
            builder.flush();
            store.take(&hub, round + 2, |_, _| {});
        }
        let found = find(&store, [777, 755, 1_000_000]);
        let stages = |event| {
            let stamps: &Vec<TraceStamp> = &found[&event];
            stamps.iter().map(|stamp| (&*stamp.node, &*stamp.stage, stamp.at_ns)).collect::<Vec<_>>()
        };
        let mut of_777 = stages(777);
        of_777.sort_unstable();
        assert_eq!(of_777, [("bu0", "answered", 8), ("ru0", "arrived", 7), ("ru0", "sent", 7)]);
        assert_eq!(stages(755).len(), 2);
        assert!(!found.contains_key(&1_000_000));
        let arrived = found[&777].iter().find(|stamp| stamp.stage == "arrived").expect("it was stamped");
        assert_eq!(arrived.source, Some(41));
        let all = find(&store, (0..10_000).rev());
        assert!(all.len() > 2 * AT_ONCE && all.keys().copied().eq(0..10_000));
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let hub = StampHub::default();
        let mut node = hub.add("ru0", StampLabels::default());
        let mut store = StampStore::default();
        let last = KEPT as u64 + 100_000;
        for event in 0..=last {
            node.begin_round(event);
            node.stamp(Stage::Sent, 0, event * 2, 1);
            if event.is_multiple_of(10_000) {
                node.flush();
                store.take(&hub, event, |_, _| {});
            }
        }
        node.flush();
        store.take(&hub, last, |_, _| {});
        assert!(store.kept <= KEPT && store.kept > KEPT - 2 * TOGETHER, "{}", store.kept);
        assert!(find(&store, [0]).is_empty());
        assert_eq!(find(&store, [last * 2]).len(), 1);
        assert_eq!(store.lost, (0, 0));
    }
}
