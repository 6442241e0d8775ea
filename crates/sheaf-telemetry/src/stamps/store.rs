//! The stamps of the last seconds, taken out of the rings of all nodes.

use super::{NodeStamps, Stamp, StampHub, low};
use crate::ring::RingReader;
use crate::stamps;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Stamps that are kept of all nodes of a process, in 16 MiB. With some 50,000 stamps a second they are those of 20 s.
const KEPT: usize = 1 << 20;

/// Stamps that are searched or left out together. A question is about few events: the more there are, the more is read in vain.
const TOGETHER: usize = 1 << 9;

/// Events whose stamps are looked for and passed on together. It bounds the memory of an answer, and who waits for it sees it grow.
const AT_ONCE: usize = 256;

/// Stamps that were taken one after the other.
#[derive(Debug)]
struct Bundle {
    /// When the last of them were taken.
    taken_ns: u64,
    /// Lowest and highest of the events, low bits.
    events: (u64, u64),
    /// Index of its block.
    block: usize,
    /// Number of its stamps.
    count: usize,
}

/// Memory of all bundles, in blocks of [`TOGETHER`] stamps. It is one piece, because blocks that are allocated one by one while a store
/// fills up cost more than all the rest of it.
#[derive(Debug, Default)]
struct Blocks {
    words: Vec<[u64; 2]>,
    free: Vec<usize>,
}

impl Blocks {
    /// Allocates the memory, if that was not done. The operating system provides it where it is used.
    fn allocate(&mut self) {
        if self.words.is_empty() {
            self.words = vec![[0; 2]; KEPT];
            self.free = (0..KEPT / TOGETHER).rev().collect();
        }
    }

    fn of(&self, bundle: &Bundle) -> &[[u64; 2]] {
        &self.words[bundle.block * TOGETHER..][..bundle.count]
    }
}

/// The stamps of a node.
#[derive(Debug)]
struct Kept {
    node: Arc<NodeStamps>,
    stamps: RingReader<2>,
    remarks: RingReader<4>,
    bundles: VecDeque<Bundle>,
}

/// A stamp of an event that was looked for, and the node that made it.
#[derive(Clone, Copy, Debug)]
pub struct FoundStamp<'a> {
    /// The node.
    pub node: &'a NodeStamps,
    /// The stamp. It may be that of other events, too.
    pub stamp: Stamp,
}

/// The stamps of the last seconds.
///
/// It is here and not with its readers, because it looks at every stamp: this crate is optimised for that.
#[derive(Debug, Default)]
pub struct StampStore {
    /// By name; of a node that has begun again, the former life is first.
    nodes: Vec<Kept>,
    blocks: Blocks,
    overwritten: Overwritten,
}

/// Numbers of stamps and remarks that were overwritten before they were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwritten {
    /// Stamps.
    pub stamps: u64,
    /// Remarks.
    pub remarks: u64,
}

impl StampStore {
    /// Takes what nodes have published since the last call, at the time `now_ns` in nanoseconds since 1970. Remarks are passed to `note`, as words.
    pub fn take(&mut self, hub: &StampHub, now_ns: u64, note: &mut dyn FnMut([u64; 4])) {
        for node in hub.all() {
            if !self.nodes.iter().any(|kept| Arc::ptr_eq(&kept.node, &node)) {
                let (stamps, remarks) =
                    (RingReader::new(node.stamps.clone()), RingReader::new(node.remarks.clone()));
                self.nodes.push(Kept { node, stamps, remarks, bundles: VecDeque::new() });
            }
        }
        for index in 0..self.nodes.len() {
            self.make_room(self.nodes[index].stamps.capacity());
            let Self { nodes, blocks, overwritten } = self;
            nodes[index].take(blocks, overwritten, now_ns, note);
        }
        self.nodes.retain(|kept| !kept.bundles.is_empty() || Arc::strong_count(&kept.node) > 1);
    }

    /// Frees the oldest blocks until there are enough for as many stamps of one node, with a first block that is in use already.
    fn make_room(&mut self, stamps: usize) {
        self.blocks.allocate();
        while self.blocks.free.len() < stamps.div_ceil(TOGETHER) {
            let oldest = self.nodes.iter_mut().filter(|kept| !kept.bundles.is_empty());
            let oldest = oldest.min_by_key(|kept| kept.bundles.front().map(|bundle| bundle.taken_ns));
            let Some(bundle) = oldest.and_then(|kept| kept.bundles.pop_front()) else { break };
            self.blocks.free.push(bundle.block);
        }
    }

    /// Returns the numbers of stamps and remarks that were overwritten since the last call.
    pub fn take_overwritten(&mut self) -> Overwritten {
        std::mem::take(&mut self.overwritten)
    }

    /// Passes on the stamps of those of these events that have some, in ascending order of their ids.
    pub fn find<'a>(&'a self, events: &[u64], pass: &mut dyn FnMut(u64, Vec<FoundStamp<'a>>)) {
        let mut wanted: Vec<(u64, u64)> = events.iter().map(|event| (low(*event), *event)).collect();
        wanted.sort_unstable();
        for wanted in wanted.chunks(AT_ONCE) {
            self.find_together(wanted).into_iter().for_each(|(event, stamps)| pass(event, stamps));
        }
    }

    /// Returns the stamps of events, in ascending order of their low bits.
    fn find_together(&self, wanted: &[(u64, u64)]) -> BTreeMap<u64, Vec<FoundStamp<'_>>> {
        let mut found: BTreeMap<u64, Vec<FoundStamp<'_>>> = BTreeMap::new();
        for kept in &self.nodes {
            for bundle in &kept.bundles {
                let near = within(wanted, bundle.events);
                let (Some((lowest, _)), Some((highest, _))) = (near.first(), near.last()) else { continue };
                for words in self.blocks.of(bundle) {
                    let (first, last) = stamps::bounds(words[0]);
                    // Nearly all stamps of a bundle are of events before or behind those that are looked for.
                    if first <= last && (last < *lowest || first > *highest) {
                        continue;
                    }
                    let Some(stamp) = Stamp::from_words(*words, bundle.taken_ns) else { continue };
                    let near = if first <= last { within(near, (first, last)) } else { near };
                    for (_, event) in near.iter().filter(|(_, event)| stamp.covers(*event)) {
                        found.entry(*event).or_default().push(FoundStamp { node: &kept.node, stamp });
                    }
                }
            }
        }
        found
    }
}

impl Kept {
    /// Takes what the node has published since the last call.
    fn take(
        &mut self,
        blocks: &mut Blocks,
        overwritten: &mut Overwritten,
        now_ns: u64,
        note: &mut dyn FnMut([u64; 4]),
    ) {
        let Self { stamps, remarks, bundles, .. } = self;
        // Stamps are kept before remarks are passed on: an event has those that were made before its remark.
        let (remarked, lost) = remarks.read();
        overwritten.remarks += lost;
        let (mut stamps, lost) = stamps.read();
        overwritten.stamps += lost;
        while !stamps.is_empty() {
            if bundles.back().is_none_or(|bundle| bundle.count == TOGETHER) {
                let Some(block) = blocks.free.pop() else { break };
                bundles.push_back(Bundle { taken_ns: now_ns, events: (u64::MAX, 0), block, count: 0 });
            }
            let Some(bundle) = bundles.back_mut() else { break };
            let (these, rest) = stamps.split_at(stamps.len().min(TOGETHER - bundle.count));
            blocks.words[bundle.block * TOGETHER + bundle.count..][..these.len()].copy_from_slice(these);
            bundle.note(these, now_ns);
            stamps = rest;
        }
        remarked.iter().for_each(|words| note(*words));
    }
}

impl Bundle {
    /// Takes note of further stamps, which were taken now.
    fn note(&mut self, stamps: &[[u64; 2]], now_ns: u64) {
        self.count += stamps.len();
        self.taken_ns = now_ns;
        for words in stamps {
            let (first, last) = stamps::bounds(words[0]);
            // A stamp whose ids pass zero may be of any event.
            let (first, last) = if first <= last { (first, last) } else { (0, u64::MAX) };
            self.events = (self.events.0.min(first), self.events.1.max(last));
        }
    }
}

/// Returns the events in an interval, with both ends.
fn within(wanted: &[(u64, u64)], (first, last): (u64, u64)) -> &[(u64, u64)] {
    let from = wanted.partition_point(|(low, _)| *low < first);
    let to = wanted.partition_point(|(low, _)| *low <= last);
    &wanted[from..to.max(from)]
}

#[cfg(test)]
mod tests {
    use super::super::{Stage, StampLabels};
    use super::*;
    use std::collections::BTreeSet;

    fn find(store: &StampStore, events: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Vec<FoundStamp<'_>>> {
        let (mut found, events) = (BTreeMap::new(), events.into_iter().collect::<Vec<_>>());
        store.find(&events, &mut |event, stamps| {
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
            store.take(&hub, round + 2, &mut |_| {});
        }
        let found = find(&store, [777, 755, 1_000_000]);
        let stages = |event| {
            let stamps = found[&event].iter();
            stamps
                .map(|found| (&*found.node.name, found.stamp.stage.name(), found.stamp.at_ns))
                .collect::<Vec<_>>()
        };
        let mut of_777 = stages(777);
        of_777.sort_unstable();
        assert_eq!(of_777, [("bu0", "answered", 8), ("ru0", "arrived", 7), ("ru0", "sent", 7)]);
        assert_eq!(stages(755).len(), 2);
        assert!(!found.contains_key(&1_000_000));
        let all = find(&store, (0..10_000).rev());
        assert!(all.len() > 2 * AT_ONCE && all.keys().copied().eq(0..10_000));
    }

    #[test]
    fn stamps_whose_ids_pass_zero_in_their_low_bits_are_found() {
        let hub = StampHub::default();
        let mut node = hub.add("ru0", StampLabels::default());
        let mut store = StampStore::default();
        let last = low(u64::MAX);
        node.begin_round(1);
        node.stamp(Stage::Arrived, 0, 500, 10);
        node.stamp(Stage::Sent, 0, last - 9, 20);
        node.flush();
        store.take(&hub, 2, &mut |_| {});
        let found = find(&store, [last - 10, last - 5, last + 1, last + 10, last + 11, 505]);
        let events: Vec<_> =
            found.into_iter().map(|(event, stamps)| (event, stamps[0].stamp.stage)).collect();
        assert_eq!(
            events,
            [
                (505, Stage::Arrived),
                (last - 5, Stage::Sent),
                (last + 1, Stage::Sent),
                (last + 10, Stage::Sent)
            ]
        );
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
                store.take(&hub, event, &mut |_| {});
            }
        }
        node.flush();
        store.take(&hub, last, &mut |_| {});
        let kept: usize = store.nodes[0].bundles.iter().map(|bundle| bundle.count).sum();
        let ring = store.nodes[0].stamps.capacity();
        assert!(kept <= KEPT && kept > KEPT - ring - 2 * TOGETHER, "{kept}");
        let used: BTreeSet<_> = store.nodes[0].bundles.iter().map(|bundle| bundle.block).collect();
        assert_eq!(used.len(), store.nodes[0].bundles.len(), "no block is used twice");
        assert_eq!(used.len() + store.blocks.free.len(), KEPT / TOGETHER, "and none is lost");
        assert!(find(&store, [0]).is_empty());
        assert_eq!(find(&store, [last * 2]).len(), 1);
        assert_eq!(store.take_overwritten(), Overwritten::default());
    }
}
