//! Places in the files of output nodes, and the set of those that count.

use crate::range_set::RangeSet;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::Kept;
use sheaf_wire::{NodeId, SessionId};

/// Location of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoragePlace {
    /// Index of the output node.
    pub output: u16,
    /// Session of the output node.
    pub session: SessionId,
    /// Number of the event in that session, from 0.
    pub number: u64,
}

impl StoragePlace {
    /// Returns the node and its session.
    #[must_use]
    pub fn owner(&self) -> (NodeId, SessionId) {
        (NodeId::output(self.output), self.session)
    }
}

/// Adds a place to a list in which consecutive places share an entry. Only places that are added in succession are merged, in the
/// order in which output nodes report them.
pub(crate) fn note_kept(list: &mut Vec<Kept>, place: StoragePlace) {
    let StoragePlace { output, session, number } = place;
    match list.last_mut() {
        Some(last)
            if (last.output, last.session) == (output, session)
                && last.first + u64::from(last.count) == number
                && last.count < u32::MAX =>
        {
            last.count += 1;
        }
        _ => list.push(Kept { output, session, first: number, count: 1 }),
    }
}

/// A set of numbers of one session, stored as ranges. Usually it is one range with gaps for events that were written but never
/// reported. During a session there are a few more, because builders report at different times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    ranges: RangeSet,
}

impl Places {
    /// Adds `count` consecutive numbers. A range that would exceed the largest number is cut there.
    pub fn insert(&mut self, first: u64, count: u32) {
        if let Some(more) = count.checked_sub(1) {
            self.ranges.insert(first, first.saturating_add(u64::from(more)));
        }
    }

    /// Returns whether the set contains a number.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.contains(number)
    }

    /// Returns one more than the largest number, or 0 if the set is empty.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ranges.largest().map_or(0, |last| last.saturating_add(1))
    }

    /// Returns the numbers below [`Self::end`] that are not in the set, as first and last of each gap.
    pub fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut next = 0;
        self.ranges.iter().filter_map(move |(first, last)| {
            let from = std::mem::replace(&mut next, last.saturating_add(1));
            (from < first).then(|| (from, first - 1))
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| (last - first).saturating_add(1)).fold(0, u64::saturating_add)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.ranges() == 0
    }
}
