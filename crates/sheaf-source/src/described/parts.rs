//! Fragments over several packets.

use std::collections::BTreeMap;

/// Parts that a fragment has at most: as many as the index of a common packet counts.
const MOST_PARTS: usize = 65_536;

/// A fragment of which parts have come.
#[derive(Debug, Default)]
struct Open {
    /// The parts by index.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Number of all parts, once the last has come.
    count: Option<usize>,
    bytes: usize,
}

/// Result of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartTurn {
    /// Others are awaited.
    Waits,
    /// The fragment is whole: [`Parts::whole`] returns it.
    Whole,
    /// The part had come before.
    Repeated,
    /// The fragment would be too large, or its parts contradict each other: it was dropped.
    Refused,
}

/// The fragments of one source of which parts have come.
#[derive(Debug)]
pub struct Parts {
    open: BTreeMap<u64, Open>,
    most_open: usize,
    most_bytes: usize,
    whole: Vec<u8>,
}

impl Parts {
    /// Returns an empty set of at most `most_open` fragments, none larger than `most_bytes`.
    #[must_use]
    pub fn new(most_open: usize, most_bytes: usize) -> Self {
        Self { open: BTreeMap::new(), most_open: most_open.max(1), most_bytes, whole: Vec::new() }
    }

    /// Takes a part of the fragment of `event`. Without an index, parts come in order.
    pub fn handle(&mut self, event: u64, index: Option<u64>, is_last: bool, bytes: &[u8]) -> PartTurn {
        let open = self.open.entry(event).or_default();
        let index = index.map_or(open.parts.len(), |index| usize::try_from(index).unwrap_or(usize::MAX));
        if open.parts.contains_key(&index) {
            return PartTurn::Repeated;
        }
        let count = open.count.or_else(|| is_last.then(|| index.saturating_add(1)));
        let contradicts = count.is_some_and(|count| {
            index >= count
                || open.parts.last_key_value().is_some_and(|(last, _)| *last >= count)
                || (is_last && index.saturating_add(1) != count)
        });
        let all = open.bytes.saturating_add(bytes.len());
        if contradicts || index >= MOST_PARTS || all > self.most_bytes {
            self.open.remove(&event);
            return PartTurn::Refused;
        }
        (open.count, open.bytes) = (count, all);
        open.parts.insert(index, bytes.to_vec());
        if count != Some(open.parts.len()) {
            return PartTurn::Waits;
        }
        self.whole.clear();
        for part in self.open.remove(&event).unwrap_or_default().parts.values() {
            self.whole.extend_from_slice(part);
        }
        PartTurn::Whole
    }

    /// Returns the fragment that the last part has completed.
    #[must_use]
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// Gives up the oldest fragment while there are too many, and returns its event.
    pub fn give_up(&mut self) -> Option<u64> {
        (self.open.len() > self.most_open).then(|| self.open.pop_first().map(|(event, _)| event))?
    }

    /// Gives up all fragments, and returns their number.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.open).len()
    }
}
