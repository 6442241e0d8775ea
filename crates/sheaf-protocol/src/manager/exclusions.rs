//! Sources that an operator has excluded, and the events in which they are.
//!
//! The driver passes the complete set of sources to exclude. The event manager sends what has changed to the readout units of these sources,
//! again in each session of a unit, and books their answers: the first event without a source, and the first one with it again.

use serde::{Deserialize, Serialize};
use sheaf_wire::exclusion_record::ExclusionRecord;
use sheaf_wire::message::Exclusion;
use sheaf_wire::{EventId, SourceId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of exclusions that are listed. Further ones take effect as well.
const MOST_LISTED: usize = 4_096;

/// See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Exclusions {
    readout_of: BTreeMap<SourceId, u16>,
    wanted: BTreeSet<SourceId>,
    /// Last order about each source in the session of its readout unit.
    told: BTreeMap<SourceId, bool>,
    /// Sources about which a readout unit may have to be told something.
    due: BTreeSet<SourceId>,
    /// Exclusions that have begun and not ended, with the first event and the place in the list.
    lasting: BTreeMap<SourceId, (EventId, Option<usize>)>,
    /// Sources whose readout units are excluded, with the place of each in the list.
    with_readouts: BTreeMap<SourceId, Option<usize>>,
    listed: Vec<ExclusionRecord>,
    /// Places in the list that have changed since run records said it.
    unrecorded: VecDeque<usize>,
    /// Readout units that have had a session.
    met: BTreeSet<u16>,
    /// Those that have had another one before.
    restarted: BTreeSet<u16>,
}

/// Result of an answer of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Nothing of the kind was ordered.
    Unexpected,
    /// It was known.
    Known,
    /// The exclusion has begun.
    Begun,
    /// It has ended.
    Ended,
}

impl Exclusions {
    pub(super) fn new(readout_of: BTreeMap<SourceId, u16>) -> Self {
        Self { readout_of, ..Self::default() }
    }

    /// Takes the sources that are to be excluded. Those that no readout unit reads are left out.
    pub(super) fn want(&mut self, sources: impl IntoIterator<Item = SourceId>) {
        let wanted: BTreeSet<_> =
            sources.into_iter().filter(|source| self.readout_of.contains_key(source)).collect();
        self.due.extend(wanted.symmetric_difference(&self.wanted));
        self.wanted = wanted;
    }

    /// Returns the exclusions so far, in the order in which they began.
    pub(super) fn listed(&self) -> &[ExclusionRecord] {
        &self.listed
    }

    /// Returns the sources that are excluded now, with the first event without each.
    pub(super) fn lasting(&self) -> impl Iterator<Item = (SourceId, EventId)> {
        self.lasting.iter().map(|(source, (first, _))| (*source, *first))
    }

    /// Takes note of a new session of a readout unit, which has no orders.
    pub(super) fn note_session(&mut self, readout: u16) {
        let Self { readout_of, told, due, wanted, lasting, met, restarted, .. } = self;
        if !met.insert(readout) {
            restarted.insert(readout);
        }
        let its = |source: &&SourceId| readout_of.get(*source) == Some(&readout);
        told.retain(|source, _| !its(&source));
        due.extend(wanted.iter().chain(lasting.keys()).filter(its));
    }

    /// Returns the next order, for a readout unit for which `is_open` holds, with its index. `earliest` returns an event that is
    /// below all that its readout unit may still answer, or above all that were triggered if that unit has restarted.
    pub(super) fn next_order(
        &mut self,
        is_open: impl Fn(u16) -> bool,
        earliest: impl Fn(bool) -> EventId,
    ) -> Option<(u16, Exclusion)> {
        let readout_of = |source: &SourceId| self.readout_of.get(source).copied().filter(|it| is_open(*it));
        let mut due = self.due.iter();
        let (source, readout) = due.find_map(|source| Some((*source, readout_of(source)?)))?;
        let is_wanted = self.wanted.contains(&source);
        // What an earlier session has answered is not known.
        let floor = || earliest(self.restarted.contains(&readout));
        let known = self.lasting.get(&source).map(|(first, _)| *first);
        let order = match self.told.get(&source) {
            // A session that begins while a source is returning first receives the order to exclude it.
            None | Some(false) if is_wanted || (known.is_some() && !self.told.contains_key(&source)) => {
                Some(Exclusion { source, excluded: true, event: known.unwrap_or_else(floor) })
            }
            Some(true) if !is_wanted => Some(Exclusion { source, excluded: false, event: floor() }),
            _ => None,
        };
        if let Some(order) = order {
            self.told.insert(source, order.excluded);
        }
        if order.is_none_or(|order| order.excluded == is_wanted) {
            self.due.remove(&source);
        }
        match order {
            Some(order) => Some((readout, order)),
            None => self.next_order(is_open, earliest),
        }
    }

    /// Takes the answer of a readout unit.
    pub(super) fn note(&mut self, answer: Exclusion) -> Answered {
        let Exclusion { source, excluded, event } = answer;
        match (excluded, self.lasting.get(&source)) {
            (true, Some(_)) => Answered::Known,
            (true, None) if self.told.contains_key(&source) => {
                let place = self.list(source, event);
                self.lasting.insert(source, (event, place));
                Answered::Begun
            }
            (false, Some((_, place))) => {
                if let Some(place) = *place {
                    self.listed[place].included_from = Some(event);
                    self.unrecorded.push_back(place);
                }
                self.lasting.remove(&source);
                Answered::Ended
            }
            (true | false, None) => Answered::Unexpected,
        }
    }

    /// Lists the sources of a readout unit that is excluded from an event on.
    pub(super) fn begin_readout(&mut self, readout: u16, first: EventId) {
        let sources = self.readout_of.iter().filter(|(_, of)| **of == readout).map(|(source, _)| *source);
        for source in sources.collect::<Vec<_>>() {
            let place = self.list(source, first);
            self.with_readouts.insert(source, place);
        }
    }

    /// Records that the sources of a readout unit are included again.
    pub(super) fn end_readout(&mut self, readout: u16, event: EventId) {
        let Self { readout_of, with_readouts, listed, unrecorded, .. } = self;
        with_readouts.retain(|source, place| {
            let its = readout_of.get(source) == Some(&readout);
            if let Some(place) = place.filter(|_| its) {
                listed[place].included_from = Some(event);
                unrecorded.push_back(place);
            }
            !its
        });
    }

    /// Lists an exclusion that begins. Returns its place in the list, if there is room.
    fn list(&mut self, source: SourceId, first: EventId) -> Option<usize> {
        let place = (self.listed.len() < MOST_LISTED).then_some(self.listed.len())?;
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        self.listed.push(ExclusionRecord { index, source, first, included_from: None });
        self.unrecorded.push_back(place);
        Some(place)
    }

    /// Returns the next exclusion of which run records say something else, or nothing. They say this from now on.
    pub(super) fn next_to_record(&mut self) -> Option<ExclusionRecord> {
        self.unrecorded.pop_front().map(|place| self.listed[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(3);

    fn exclusions() -> Exclusions {
        Exclusions::new([(SOURCE, 1), (SourceId(4), 0)].into())
    }

    fn order(excluded: bool, event: u64) -> Exclusion {
        Exclusion { source: SOURCE, excluded, event: EventId(event) }
    }

    fn orders(exclusions: &mut Exclusions) -> Vec<Exclusion> {
        let next = |exclusions: &mut Exclusions| {
            exclusions.next_order(|_| true, |again| EventId(if again { 70 } else { 7 }))
        };
        std::iter::from_fn(|| next(exclusions).map(|(readout, order)| (assert_eq!(readout, 1), order).1))
            .collect()
    }

    #[test]
    fn the_difference_is_ordered_once() {
        let mut exclusions = exclusions();
        exclusions.want([SOURCE, SourceId(99)]);
        assert_eq!(exclusions.next_order(|readout| readout == 0, |_| EventId(7)), None, "not connected");
        assert_eq!(orders(&mut exclusions), [order(true, 7)]);
        exclusions.want([SOURCE]);
        assert_eq!(orders(&mut exclusions), []);
        assert_eq!(exclusions.note(order(true, 120)), Answered::Begun);
        assert_eq!(exclusions.lasting().collect::<Vec<_>>(), [(SOURCE, EventId(120))]);
        exclusions.want([]);
        exclusions.want([SOURCE]);
        assert_eq!(orders(&mut exclusions), [], "it has not changed");
        exclusions.want([]);
        assert_eq!(orders(&mut exclusions), [order(false, 7)]);
        assert_eq!(exclusions.note(order(false, 500)), Answered::Ended);
        let (first, included_from) = (EventId(120), Some(EventId(500)));
        let listed = ExclusionRecord { index: 0, source: SOURCE, first, included_from };
        assert_eq!(exclusions.listed(), [listed]);
        assert_eq!(exclusions.next_to_record(), Some(listed));
        assert_eq!(exclusions.lasting().count(), 0);
    }

    #[test]
    fn a_new_session_of_the_readout_unit_is_told_what_was_known() {
        let mut exclusions = exclusions();
        exclusions.want([SOURCE]);
        exclusions.note_session(1);
        assert_eq!(orders(&mut exclusions), [order(true, 7)]);
        exclusions.note(order(true, 120));
        exclusions.note_session(0);
        assert_eq!(orders(&mut exclusions), [], "another unit");
        exclusions.note_session(1);
        assert_eq!(orders(&mut exclusions), [order(true, 120)]);
        assert_eq!(exclusions.note(order(true, 120)), Answered::Known);
        exclusions.want([]);
        assert_eq!(orders(&mut exclusions), [order(false, 70)], "above all events");
        exclusions.note_session(1);
        assert_eq!(orders(&mut exclusions), [order(true, 120), order(false, 70)], "it has not returned");
        exclusions.note(order(false, 300));
        exclusions.note_session(1);
        assert_eq!(orders(&mut exclusions), []);
    }

    #[test]
    fn answers_without_an_order_are_unexpected() {
        let mut exclusions = exclusions();
        assert_eq!(exclusions.note(order(true, 1)), Answered::Unexpected);
        assert_eq!(exclusions.note(order(false, 1)), Answered::Unexpected);
        assert!(exclusions.listed().is_empty());
    }

    #[test]
    fn the_list_is_bounded_and_further_exclusions_take_effect() {
        let mut exclusions = exclusions();
        for turn in 0..=MOST_LISTED {
            exclusions.want([SOURCE]);
            assert_eq!(orders(&mut exclusions).len(), 1);
            assert_eq!(exclusions.note(order(true, turn as u64)), Answered::Begun);
            exclusions.want([]);
            assert_eq!(orders(&mut exclusions).len(), 1);
            assert_eq!(exclusions.note(order(false, turn as u64)), Answered::Ended);
        }
        assert_eq!(exclusions.listed().len(), MOST_LISTED);
    }
}
