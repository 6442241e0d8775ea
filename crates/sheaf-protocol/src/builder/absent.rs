//! Readout units for which events do not wait: those that are given up, until there is a sign of them, and those that an operator has excluded.
//!
//! An event that is assigned afterwards is built without them at once. Otherwise each event would wait for its own `event_timeout`, and
//! one dead readout unit would keep all slots occupied.

use crate::event_range::EventIdRange;
use crate::liveness::LinkStatus;
use sheaf_wire::message::ReadoutExclusion;
use sheaf_wire::{EventId, Nanos, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Number of exclusions of a readout unit that are kept. Events of earlier ones have ended.
const KEPT: usize = 8;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct AbsentReadouts {
    /// Those whose links are down, and that are not given up.
    down: BTreeSet<u16>,
    given_up: BTreeSet<u16>,
    excluded: BTreeMap<u16, Vec<Excluded>>,
    /// Events that were assigned before an exclusion and have wrong numbers far above its first event. They are not of it.
    excepted: BTreeSet<EventId>,
}

/// One exclusion of a readout unit.
#[derive(Clone, Copy, Debug)]
struct Excluded {
    first: EventId,
    /// The first event with it again. `None` while the exclusion lasts.
    end: Option<EventId>,
    since: Timestamp,
}

impl Excluded {
    fn has(&self, event: EventId) -> bool {
        self.first <= event && self.end.is_none_or(|end| event < end)
    }

    /// Returns whether one of these events is of the exclusion. While it lasts, older events may be built without the unit, too.
    fn may_concern(&self, events: EventIdRange) -> bool {
        self.end.is_none_or(|end| {
            events.first().is_some_and(|first| first < end)
                && events.last().is_some_and(|last| self.first <= last)
        })
    }
}

impl AbsentReadouts {
    /// Records a message of a readout unit.
    #[inline]
    pub(super) fn note_message(&mut self, readout: u16) {
        if !(self.down.is_empty() && self.given_up.is_empty()) {
            self.down.remove(&readout);
            self.given_up.remove(&readout);
        }
    }

    /// Records the state of the link to a readout unit.
    pub(super) fn note_link(&mut self, readout: u16, link: LinkStatus) {
        match link {
            LinkStatus::Up => self.note_message(readout),
            LinkStatus::Down if self.given_up.contains(&readout) => {}
            LinkStatus::Down => {
                self.down.insert(readout);
            }
        }
    }

    /// Returns the readout units whose links are down, and that are not given up.
    pub(super) fn down(&self) -> impl Iterator<Item = u16> {
        self.down.iter().copied()
    }

    /// Records that a readout unit is given up.
    pub(super) fn give_up(&mut self, readout: u16) {
        self.down.remove(&readout);
        self.given_up.insert(readout);
    }

    /// Records an exclusion, or its end. `here` are the events under construction.
    pub(super) fn exclude(
        &mut self,
        now: Timestamp,
        order: ReadoutExclusion,
        here: impl Iterator<Item = EventId>,
    ) {
        let ReadoutExclusion { readout, excluded, event } = order;
        if excluded {
            self.excepted.extend(here.filter(|here| *here >= event));
        }
        let all = self.excluded.entry(readout).or_default();
        let last = all.last_mut().filter(|last| last.end.is_none());
        match (excluded, last) {
            (true, None) => all.push(Excluded { first: event, end: None, since: now }),
            (false, Some(last)) => last.end = Some(event.max(last.first)),
            (true, Some(_)) | (false, None) => {}
        }
        if all.len() > KEPT {
            all.remove(0);
        }
    }

    /// Records that an event is assigned. It is of the exclusions that are known.
    #[inline]
    pub(super) fn note_assigned(&mut self, event: EventId) {
        if !self.excepted.is_empty() {
            self.excepted.remove(&event);
        }
    }

    /// Returns whether a readout unit is given up.
    pub(super) fn is_given_up(&self, readout: u16) -> bool {
        self.given_up.contains(&readout)
    }

    /// Returns whether an event does not have a readout unit, because it is excluded.
    pub(super) fn is_excluded(&self, readout: u16, event: EventId) -> bool {
        let all = self.excluded.get(&readout);
        all.is_some_and(|all| all.iter().any(|excluded| excluded.has(event)))
            && !self.excepted.contains(&event)
    }

    /// Returns whether one of these events may be built without some readout unit at once.
    #[inline]
    pub(super) fn concern(&self, events: EventIdRange) -> bool {
        let has = |excluded: &Excluded| excluded.may_concern(events);
        !self.given_up.is_empty() || self.excluded.values().flatten().any(has)
    }

    /// Returns whether all these events are of one exclusion of a readout unit.
    pub(super) fn exclude_all(&self, readout: u16, events: EventIdRange) -> bool {
        let has = |excluded: &Excluded| {
            events.first().is_some_and(|first| excluded.has(first))
                && events.last().is_some_and(|last| excluded.has(last))
        };
        self.excluded.get(&readout).is_some_and(|all| all.iter().any(has))
    }

    /// Returns whether a readout unit has been excluded for a time, so that even events that are not of the exclusion do not wait for it any
    /// longer: it may hang.
    pub(super) fn is_excluded_for(&self, now: Timestamp, readout: u16, time: Nanos) -> bool {
        let last = self.excluded.get(&readout).and_then(|all| all.last());
        last.is_some_and(|last| last.end.is_none() && last.since + time <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn order(excluded: bool, event: u64) -> ReadoutExclusion {
        ReadoutExclusion { readout: 1, excluded, event: EventId(event) }
    }

    #[test]
    fn an_exclusion_has_its_events_and_no_others() {
        let mut absent = AbsentReadouts::default();
        let one = |event: u64| EventIdRange::one(EventId(event));
        assert!(!absent.concern(one(5)));
        for (excluded, event) in [(true, 5), (true, 7), (false, 9), (false, 11), (true, 20)] {
            absent.exclude(NOW, order(excluded, event), std::iter::empty());
        }
        let excluded: Vec<_> = (0..23).filter(|event| absent.is_excluded(1, EventId(*event))).collect();
        assert_eq!(excluded, [5, 6, 7, 8, 20, 21, 22]);
        assert!(!absent.is_excluded(0, EventId(5)));
        assert!(absent.concern(one(1)), "the last exclusion may end the waits of older events");
        absent.exclude(NOW, order(false, 23), std::iter::empty());
        assert_eq!(
            [4, 5, 8, 9, 22, 23].map(|event| absent.concern(one(event))),
            [false, true, true, false, true, false]
        );
        let range = |first: u64, count| EventIdRange::new(EventId(first), count);
        assert_eq!(
            [range(5, 4), range(5, 5), range(8, 13)].map(|it| absent.exclude_all(1, it)),
            [true, false, false]
        );
    }

    #[test]
    fn an_event_with_a_wrong_number_is_not_of_an_exclusion_that_began_later() {
        let mut absent = AbsentReadouts::default();
        absent.exclude(NOW, order(true, 5), [4, 99].map(EventId).into_iter());
        assert_eq!([4, 5, 99].map(|event| absent.is_excluded(1, EventId(event))), [false, true, false]);
        absent.note_assigned(EventId(99));
        assert!(absent.is_excluded(1, EventId(99)), "it is assigned again, to be built without the unit");
    }

    #[test]
    fn older_events_wait_for_an_excluded_unit_for_a_time() {
        let mut absent = AbsentReadouts::default();
        absent.exclude(NOW, order(true, 5), std::iter::empty());
        assert!(!absent.is_excluded_for(NOW + Nanos(9), 1, Nanos(10)));
        assert!(absent.is_excluded_for(NOW + Nanos(10), 1, Nanos(10)));
        absent.exclude(NOW, order(false, 9), std::iter::empty());
        assert!(!absent.is_excluded_for(NOW + Nanos(10), 1, Nanos(10)));
    }

    #[test]
    fn a_sign_of_a_unit_that_was_given_up_brings_it_back() {
        let mut absent = AbsentReadouts::default();
        absent.note_link(1, LinkStatus::Down);
        assert_eq!(absent.down().collect::<Vec<_>>(), [1]);
        absent.give_up(1);
        absent.note_link(1, LinkStatus::Down);
        assert!(absent.down().next().is_none() && absent.is_given_up(1));
        assert!(absent.concern(EventIdRange::one(EventId(5))));
        absent.note_message(1);
        assert!(!absent.concern(EventIdRange::one(EventId(5))));
    }
}
