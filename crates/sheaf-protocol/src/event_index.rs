//! Finds what belongs to an event, by its id.

use rustc_hash::FxHashMap;
use sheaf_wire::EventId;
use std::collections::BTreeMap;

/// The window is at least and at most this long.
const WINDOW: std::ops::RangeInclusive<usize> = 64..=1 << 20;

/// Marks a free place; places themselves are below it.
const FREE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    event: EventId,
    place: u32,
}

/// A map from event ids to places in a vector.
///
/// Event ids mostly count up, and the events in flight are mostly the last few thousand. So an id looks at one place of
/// a window, given by its low bits: consecutive ids lie side by side in memory, which a hash map's never do, and there
/// is nothing to compute. Ids that want the same place, because the detector's ids are sparse or an event is older than
/// the window is long, go into a hash map beside it. The map is only ever asked for single events.
#[derive(Clone, Debug)]
pub(crate) struct EventIndex {
    window: Vec<Entry>,
    beside: FxHashMap<EventId, u32>,
    len: usize,
}

impl EventIndex {
    /// An empty index for about so many events at a time.
    pub(crate) fn new(expected_events: usize) -> Self {
        let length = expected_events.clamp(*WINDOW.start(), *WINDOW.end()).next_power_of_two();
        let free = Entry { event: EventId(0), place: FREE };
        Self { window: vec![free; length], beside: FxHashMap::default(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
    fn slot(&self, event: EventId) -> usize {
        event.0 as usize & (self.window.len() - 1)
    }

    #[inline]
    pub(crate) fn get(&self, event: EventId) -> Option<u32> {
        let entry = self.window[self.slot(event)];
        if entry.event == event && entry.place != FREE {
            return Some(entry.place);
        }
        if self.beside.is_empty() { None } else { self.get_beside(event) }
    }

    #[cold]
    fn get_beside(&self, event: EventId) -> Option<u32> {
        self.beside.get(&event).copied()
    }

    /// Adds an event that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, event: EventId, place: u32) {
        debug_assert!(self.get(event).is_none(), "event {event} has two places");
        debug_assert!(place != FREE, "places are bounded far below 2^32 by the configuration");
        self.len += 1;
        let slot = self.slot(event);
        let entry = &mut self.window[slot];
        if entry.place == FREE {
            *entry = Entry { event, place };
        } else {
            self.insert_beside(event, place);
        }
    }

    #[cold]
    fn insert_beside(&mut self, event: EventId, place: u32) {
        self.beside.insert(event, place);
        if self.beside.len() > self.window.len() / 4 && self.window.len() < *WINDOW.end() {
            self.widen();
        }
    }

    /// More events are in flight than the window is long: doubles it.
    fn widen(&mut self) {
        let free = Entry { event: EventId(0), place: FREE };
        let longer = vec![free; 2 * self.window.len()];
        let window = std::mem::replace(&mut self.window, longer);
        let beside = std::mem::take(&mut self.beside);
        // In the order of the ids, so that the same calls lead to the same window.
        let beside: BTreeMap<EventId, u32> = beside.into_iter().collect();
        let beside = beside.into_iter().map(|(event, place)| Entry { event, place });
        for entry in window.into_iter().filter(|entry| entry.place != FREE).chain(beside) {
            let slot = self.slot(entry.event);
            if self.window[slot].place == FREE {
                self.window[slot] = entry;
            } else {
                self.beside.insert(entry.event, entry.place);
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, event: EventId) -> Option<u32> {
        let slot = self.slot(event);
        let entry = &mut self.window[slot];
        let place = if entry.event == event && entry.place != FREE {
            std::mem::replace(&mut entry.place, FREE)
        } else if self.beside.is_empty() {
            return None;
        } else {
            self.beside.remove(&event)?
        };
        self.len -= 1;
        Some(place)
    }
}

/// A table's window is at least and at most this long. It begins short and is widened, because what is known of an event lies in it.
const TABLE_WINDOW: std::ops::RangeInclusive<usize> = 64..=1 << 18;

/// Table of event states by id.
///
/// As in [`EventIndex`], an id looks at one place of a window, given by its low bits; here the place holds what is known of the
/// event itself, so that consecutive events are written and read one behind the other.
#[derive(Clone, Debug)]
pub(crate) struct EventTable<T> {
    window: Vec<Option<(EventId, T)>>,
    /// Walked too, with [`Self::iter`]: a hash map would have no order.
    beside: BTreeMap<EventId, T>,
    len: usize,
}

impl<T> EventTable<T> {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self { window: free(*TABLE_WINDOW.start()), beside: BTreeMap::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
    fn slot(&self, event: EventId) -> usize {
        event.0 as usize & (self.window.len() - 1)
    }

    pub(crate) fn get(&self, event: EventId) -> Option<&T> {
        match &self.window[self.slot(event)] {
            Some((id, entry)) if *id == event => Some(entry),
            _ => self.beside.get(&event),
        }
    }

    pub(crate) fn get_mut(&mut self, event: EventId) -> Option<&mut T> {
        let slot = self.slot(event);
        match &mut self.window[slot] {
            Some((id, entry)) if *id == event => Some(entry),
            _ => self.beside.get_mut(&event),
        }
    }

    /// Adds an event that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, event: EventId, entry: T) {
        debug_assert!(self.get(event).is_none(), "event {event} is in the table twice");
        self.len += 1;
        let slot = self.slot(event);
        let place = &mut self.window[slot];
        if place.is_none() {
            *place = Some((event, entry));
        } else {
            self.insert_beside(event, entry);
        }
    }

    #[cold]
    fn insert_beside(&mut self, event: EventId, entry: T) {
        self.beside.insert(event, entry);
        // Events of several builders lie further apart than they are many. A few ids may collide for good, because they are sparse.
        let is_narrow = self.beside.len() > self.window.len() / 16 && self.window.len() < 2 * self.len;
        if is_narrow && self.window.len() < *TABLE_WINDOW.end() {
            self.widen();
        }
    }

    /// More events are in flight than the window is long: doubles it.
    fn widen(&mut self) {
        let longer = free(2 * self.window.len());
        let window = std::mem::replace(&mut self.window, longer);
        let beside = std::mem::take(&mut self.beside);
        for (event, entry) in window.into_iter().flatten().chain(beside) {
            let slot = self.slot(event);
            let place = &mut self.window[slot];
            if place.is_none() {
                *place = Some((event, entry));
            } else {
                self.beside.insert(event, entry);
            }
        }
    }

    /// Takes an event out.
    pub(crate) fn remove(&mut self, event: EventId) -> Option<T> {
        self.remove_if(event, |_| true)
    }

    /// Takes an event out if it is there and its entry is `wanted`.
    #[inline]
    pub(crate) fn remove_if(&mut self, event: EventId, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let slot = self.slot(event);
        let place = &mut self.window[slot];
        let removed = if place.as_ref().is_some_and(|(id, _)| *id == event) {
            place.take_if(|(_, entry)| wanted(entry)).map(|(_, entry)| entry)
        } else if self.beside.is_empty() {
            None
        } else {
            self.remove_beside(event, wanted)
        };
        self.len -= usize::from(removed.is_some());
        removed
    }

    #[cold]
    fn remove_beside(&mut self, event: EventId, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let is_wanted = self.beside.get(&event).is_some_and(wanted);
        if is_wanted { self.beside.remove(&event) } else { None }
    }

    /// All events, in no particular order, but always in the same after the same calls.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EventId, &T)> {
        let window = self.window.iter().flatten().map(|(event, entry)| (*event, entry));
        window.chain(self.beside.iter().map(|(event, entry)| (*event, entry)))
    }
}

/// A window of places that nothing lies in.
fn free<T>(length: usize) -> Vec<Option<(EventId, T)>> {
    std::iter::repeat_with(|| None).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(steps in prop::collection::vec((any::<bool>(), 0..300_u64, 0..1000_u32), 0..400)) {
            let mut index = EventIndex::new(1);
            let mut table = EventTable::new();
            let mut plain = BTreeMap::new();
            for (insert, id, place) in steps {
                // Ids that share a place of the window, and the largest ones.
                let event = EventId(if id % 3 == 0 { u64::MAX - id } else { id });
                if insert && !plain.contains_key(&event) {
                    index.insert(event, place);
                    table.insert(event, place);
                    plain.insert(event, place);
                } else if !insert {
                    let place = plain.remove(&event);
                    prop_assert_eq!(index.remove(event), place);
                    prop_assert_eq!(table.remove_if(event, |_| false), None);
                    prop_assert_eq!(table.remove(event), place);
                }
                prop_assert_eq!(index.len(), plain.len());
                prop_assert_eq!(table.len(), plain.len());
            }
            for id in (0..300).flat_map(|id| [id, u64::MAX - id]) {
                prop_assert_eq!(index.get(EventId(id)), plain.get(&EventId(id)).copied());
                prop_assert_eq!(table.get(EventId(id)), plain.get(&EventId(id)));
            }
            let entries: BTreeMap<EventId, u32> = table.iter().map(|(event, place)| (event, *place)).collect();
            prop_assert_eq!((table.iter().count(), entries), (plain.len(), plain));
        }
    }

    #[test]
    fn events_that_lie_further_apart_than_they_are_many_have_their_places_in_the_window() {
        // As of two builders, one of which is slower: of its blocks of ids every other one is left for longer.
        let is_slow = |event: u64| (event / 256).is_multiple_of(2);
        let mut table = EventTable::new();
        for event in 0..100_000_u64 {
            table.insert(EventId(event), ());
            let ends = |age: u64, slow: bool| event.checked_sub(age).filter(|event| is_slow(*event) == slow);
            for ended in [ends(1_000, false), ends(3_000, true)].into_iter().flatten() {
                assert_eq!(table.remove(EventId(ended)), Some(()));
            }
        }
        assert_eq!(table.beside.len(), 0, "{} events in a window of {}", table.len(), table.window.len());
        assert!(table.window.len() <= 4 * table.len());
    }
}
