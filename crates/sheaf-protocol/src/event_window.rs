//! A map from event ids to values.

use crate::event_range::EventIdRange;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use sheaf_wire::EventId;
use std::ops::RangeInclusive;

/// Minimum and maximum length of a window.
const LENGTHS: RangeInclusive<usize> = 64..=1 << 20;

/// A window is too narrow if the events behind it are this fraction of its length.
const CROWDED_PART: usize = 16;

/// A place for an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Entry<T> {
    /// The place is free.
    Free,
    /// The place is taken by an event.
    Taken {
        /// Id of the event.
        event: EventId,
        /// Value of the event.
        value: T,
    },
}

impl<T> Entry<T> {
    /// Returns the value of an event, if it has this place.
    #[inline]
    pub(crate) fn of(&self, wanted: EventId) -> Option<&T> {
        match self {
            Self::Taken { event, value } if *event == wanted => Some(value),
            _ => None,
        }
    }

    /// See [`Self::of`].
    #[inline]
    pub(crate) fn of_mut(&mut self, wanted: EventId) -> Option<&mut T> {
        match self {
            Self::Taken { event, value } if *event == wanted => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    /// Returns the event at this place and its value.
    fn get(&self) -> Option<(EventId, &T)> {
        match self {
            Self::Free => None,
            Self::Taken { event, value } => Some((*event, value)),
        }
    }
}

/// An event whose place has changed because the window was widened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A map from event ids to values, for ids that mostly count up.
///
/// The events in flight are usually the last few thousand. So an event's place is in a window, a ring indexed by the low bits of
/// the id: consecutive events are adjacent, and an event is found by one access. An event whose place is taken, because ids are
/// sparse or it is older than the window is long, is stored behind the window, and a hash map contains its place.
///
/// The window is doubled when the number of events behind it reaches a sixteenth of its length, up to the number of places per event
/// that its owner allows, and never beyond 2^20 places. It is never shortened, so that nothing is allocated in a steady state.
///
/// Places are numbered from 0. An owner may keep further data of each event in lists of its own, by place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EventWindow<T> {
    /// The window. Its length is a power of two.
    window: Vec<Entry<T>>,
    /// Events whose place in the window is taken. Their places are numbered from its end on.
    others: Vec<Entry<T>>,
    /// Places of these events, and free places behind the window.
    behind: FxHashMap<EventId, usize>,
    free: Vec<usize>,
    /// Number of events.
    len: usize,
    /// The window may be doubled while it has fewer than this many places per event.
    spread: usize,
}

impl<T> EventWindow<T> {
    /// Creates an empty window for about `expected` events, with at most `2 * spread` places per event.
    pub(crate) fn new(expected: usize, spread: usize) -> Self {
        Self::with_length(expected.clamp(*LENGTHS.start(), *LENGTHS.end()).next_power_of_two(), spread)
    }

    fn with_length(length: usize, spread: usize) -> Self {
        Self {
            window: std::iter::repeat_with(|| Entry::Free).take(length).collect(),
            others: Vec::new(),
            behind: FxHashMap::default(),
            free: Vec::new(),
            len: 0,
            spread,
        }
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no event.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of places, including those behind the window.
    pub(crate) fn places(&self) -> usize {
        self.window.len() + self.others.len()
    }

    /// Returns whether every event is in the window.
    #[inline]
    pub(crate) fn is_regular(&self) -> bool {
        self.behind.is_empty()
    }

    /// Returns the place of an event in the window, whether or not the event is there.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
    pub(crate) fn home(&self, event: EventId) -> usize {
        event.0 as usize & (self.window.len() - 1)
    }

    /// Returns the place of an event that is present.
    #[inline]
    pub(crate) fn find(&self, event: EventId) -> Option<usize> {
        let home = self.home(event);
        if self.window[home].of(event).is_some() {
            return Some(home);
        }
        if self.behind.is_empty() { None } else { self.find_behind(event) }
    }

    #[cold]
    #[inline(never)]
    fn find_behind(&self, event: EventId) -> Option<usize> {
        self.behind.get(&event).copied()
    }

    /// Returns the value of an event.
    #[inline]
    pub(crate) fn get(&self, event: EventId) -> Option<&T> {
        let value = self.window[self.home(event)].of(event);
        if value.is_some() || self.behind.is_empty() { value } else { self.get_behind(event) }
    }

    #[cold]
    #[inline(never)]
    fn get_behind(&self, event: EventId) -> Option<&T> {
        self.find_behind(event).map(|place| self.at(place))
    }

    /// See [`Self::get`].
    #[inline]
    pub(crate) fn get_mut(&mut self, event: EventId) -> Option<&mut T> {
        let place = self.find(event)?;
        Some(self.at_mut(place))
    }

    /// Returns the value of the event at a place that was just found.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &T {
        let entry = match self.window.get(place) {
            Some(entry) => entry,
            None => &self.others[place - self.window.len()],
        };
        match entry {
            Entry::Taken { value, .. } => value,
            Entry::Free => unreachable!("the event was just found"),
        }
    }

    /// See [`Self::at`].
    #[inline]
    pub(crate) fn at_mut(&mut self, place: usize) -> &mut T {
        match self.entry_mut(place) {
            Entry::Taken { value, .. } => value,
            Entry::Free => unreachable!("the event was just found"),
        }
    }

    #[inline]
    fn entry_mut(&mut self, place: usize) -> &mut Entry<T> {
        let length = self.window.len();
        match self.window.get_mut(place) {
            Some(entry) => entry,
            None => &mut self.others[place - length],
        }
    }

    /// Returns whether the place of an event in the window is free.
    #[inline]
    pub(crate) fn is_vacant(&self, event: EventId) -> bool {
        self.window[self.home(event)].is_free()
    }

    /// Adds an event that is not present. Others may move.
    #[inline(always)]
    pub(crate) fn insert(&mut self, event: EventId, value: T) {
        debug_assert!(self.find(event).is_none(), "event {event} has two places");
        let home = self.home(event);
        let entry = &mut self.window[home];
        if entry.is_free() {
            *entry = Entry::Taken { event, value };
            self.len += 1;
        } else {
            self.insert_crowded(event, value);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_crowded(&mut self, event: EventId, value: T) {
        self.widen_for(event);
        self.put(event, value);
    }

    /// Widens the window if an event's place in it is taken and the window may be doubled. Returns the events that have moved, for an
    /// owner that keeps further data of them. Such an owner then adds the event with [`Self::put`].
    #[cold]
    pub(crate) fn widen_for(&mut self, event: EventId) -> Option<Vec<Moved>> {
        let length = self.window.len();
        let is_crowded = CROWDED_PART * self.behind.len() >= length && length < self.spread * self.len;
        if self.is_vacant(event) || !is_crowded || length >= *LENGTHS.end() {
            return None;
        }
        let mut wider = Self::with_length(2 * length, self.spread);
        let mut moved = Vec::with_capacity(self.len);
        let window = std::mem::take(&mut self.window);
        for (from, entry) in window.into_iter().chain(std::mem::take(&mut self.others)).enumerate() {
            if let Entry::Taken { event, value } = entry {
                moved.push(Moved { from, to: wider.put(event, value) });
            }
        }
        *self = wider;
        Some(moved)
    }

    /// Adds an event that is not present, and returns its place. No other event moves.
    #[inline]
    pub(crate) fn put(&mut self, event: EventId, value: T) -> usize {
        debug_assert!(self.find(event).is_none(), "event {event} has two places");
        let home = self.home(event);
        let place = if self.window[home].is_free() { home } else { self.find_room(event) };
        *self.entry_mut(place) = Entry::Taken { event, value };
        self.len += 1;
        place
    }

    /// Returns a free place for an event whose place in the window is taken.
    #[cold]
    fn find_room(&mut self, event: EventId) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.others.push(Entry::Free);
            self.places() - 1
        });
        self.behind.insert(event, place);
        place
    }

    /// Removes an event from a place that was just found.
    #[inline]
    pub(crate) fn take(&mut self, place: usize) -> Option<T> {
        let Entry::Taken { event, value } = std::mem::replace(self.entry_mut(place), Entry::Free) else {
            return None;
        };
        self.len -= 1;
        if place >= self.window.len() {
            self.leave(event, place);
        }
        Some(value)
    }

    /// Frees the place of an event that was behind the window.
    #[cold]
    fn leave(&mut self, event: EventId, place: usize) {
        self.behind.remove(&event);
        self.free.push(place);
    }

    /// Removes an event.
    #[inline]
    pub(crate) fn remove(&mut self, event: EventId) -> Option<T> {
        self.remove_if(event, |_| true)
    }

    /// Removes an event if it is present and its value is `wanted`.
    #[inline]
    pub(crate) fn remove_if(&mut self, event: EventId, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let home = self.home(event);
        let entry = &mut self.window[home];
        if entry.of(event).is_none() {
            return if self.behind.is_empty() { None } else { self.remove_behind(event, wanted) };
        }
        if !entry.of(event).is_some_and(wanted) {
            return None;
        }
        self.len -= 1;
        match std::mem::replace(entry, Entry::Free) {
            Entry::Taken { value, .. } => Some(value),
            Entry::Free => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_behind(&mut self, event: EventId, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        let place = self.find_behind(event)?;
        if wanted(self.at(place)) { self.take(place) } else { None }
    }

    /// Returns the places of events in the window, as far as these are adjacent. If the window is [irregular](Self::is_regular), an
    /// event may nevertheless be behind it.
    #[inline]
    pub(crate) fn side_by_side(&self, events: EventIdRange) -> &[Entry<T>] {
        let from = events.first().map_or(0, |event| self.home(event));
        &self.window[from..from + self.count_side_by_side(from, events)]
    }

    /// See [`Self::side_by_side`].
    #[inline]
    pub(crate) fn side_by_side_mut(&mut self, events: EventIdRange) -> &mut [Entry<T>] {
        let from = events.first().map_or(0, |event| self.home(event));
        let count = self.count_side_by_side(from, events);
        &mut self.window[from..from + count]
    }

    #[inline]
    fn count_side_by_side(&self, from: usize, events: EventIdRange) -> usize {
        usize::try_from(events.len()).unwrap_or(usize::MAX).min(self.window.len() - from)
    }

    /// Records events that were added through [`Self::side_by_side_mut`].
    pub(crate) fn note_added(&mut self, events: usize) {
        self.len += events;
    }

    /// Records events that were removed through [`Self::side_by_side_mut`].
    pub(crate) fn note_taken(&mut self, events: usize) {
        self.len -= events;
    }

    /// Returns the number of events, from the first one on, that are not present or not `wanted`.
    pub(crate) fn count_until(&self, events: EventIdRange, wanted: impl Fn(&T) -> bool) -> u64 {
        let mut rest = events;
        while !rest.is_empty() {
            // One by one if some are behind the window; otherwise as many at a time as are adjacent.
            let (checked, found) = if self.is_regular() {
                let entries = self.side_by_side(rest);
                let mut ahead = rest;
                let checked = ahead.take(entries.len() as u64);
                // Exactly one of these events can have this place in the window. It does not matter which.
                let is_it = |entry: &Entry<T>| {
                    entry.get().is_some_and(|(event, it)| checked.has(event) && wanted(it))
                };
                (checked.len(), entries.iter().position(is_it))
            } else {
                let first = rest.first().and_then(|event| self.get(event));
                (1, first.is_some_and(&wanted).then_some(0))
            };
            if let Some(before) = found {
                rest.take(before as u64);
                break;
            }
            rest.take(checked);
        }
        events.len() - rest.len()
    }

    /// Returns all places in order.
    fn all(&self) -> impl Iterator<Item = &Entry<T>> {
        self.window.iter().chain(&self.others)
    }

    /// Returns all events in the order of their places, which is the same after the same calls.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EventId, &T)> {
        self.all().filter_map(Entry::get)
    }

    /// Returns the places of events that satisfy a condition, by a scan over all.
    pub(crate) fn places_where(
        &self,
        wanted: impl Fn(EventId, &T) -> bool,
    ) -> impl Iterator<Item = (EventId, usize)> {
        let taken = self.all().enumerate().filter_map(|(place, entry)| Some((place, entry.get()?)));
        taken
            .filter(move |(_, (event, value))| wanted(*event, value))
            .map(|(place, (event, _))| (event, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(steps in prop::collection::vec((any::<bool>(), 0..300_u64, 0..1000_u32), 0..400)) {
            let mut window = EventWindow::new(1, 2);
            let mut plain = BTreeMap::new();
            // Place of each event, as tracked by an owner that applies every `Moved`.
            let mut places: BTreeMap<usize, u64> = BTreeMap::new();
            for (insert, id, value) in steps {
                // Ids that share a place of the window, and the largest ones.
                let event = EventId(if id % 3 == 0 { u64::MAX - id } else { id });
                if insert && !plain.contains_key(&event) {
                    if let Some(moved) = window.widen_for(event) {
                        let of = |moved: &Moved| (moved.to, places[&moved.from]);
                        places = moved.iter().map(of).collect();
                    }
                    places.insert(window.put(event, value), event.0);
                    plain.insert(event, value);
                } else if !insert {
                    places.retain(|_, at| *at != event.0);
                    prop_assert_eq!(window.remove_if(event, |_| false), None);
                    prop_assert_eq!(window.remove(event), plain.remove(&event));
                }
                prop_assert_eq!(window.len(), plain.len());
            }
            for id in (0..300).flat_map(|id| [id, u64::MAX - id]) {
                prop_assert_eq!(window.get(EventId(id)), plain.get(&EventId(id)));
            }
            for (place, id) in &places {
                prop_assert_eq!(window.find(EventId(*id)), Some(*place));
            }
            let range = EventIdRange::new(EventId(20), 200);
            let is_odd = |value: &u32| value % 2 == 1;
            let before = range.events().take_while(|event| !plain.get(event).is_some_and(is_odd)).count();
            prop_assert_eq!(window.count_until(range, is_odd), before as u64);
            let entries: BTreeMap<EventId, u32> = window.iter().map(|(event, value)| (event, *value)).collect();
            prop_assert_eq!((window.iter().count(), entries), (plain.len(), plain));
        }
    }

    #[test]
    fn consecutive_events_are_counted_around_the_end_of_the_window() {
        let mut window = EventWindow::new(64, 2);
        for event in 40..90 {
            window.insert(EventId(event), event);
        }
        assert!(window.is_regular());
        let from = |first, count| EventIdRange::new(EventId(first), count);
        assert_eq!(window.count_until(from(30, 100), |value| *value >= 80), 50);
        assert_eq!(window.count_until(from(30, 100), |_| false), 100);
        assert_eq!(window.count_until(from(30, 0), |_| true), 0);
    }

    #[test]
    fn events_that_are_spread_wider_than_their_number_have_their_places_in_the_window() {
        // As with two builders of which one is slower: every other block of ids stays longer.
        let is_slow = |event: u64| (event / 256).is_multiple_of(2);
        let mut window = EventWindow::new(0, 2);
        for event in 0..100_000_u64 {
            window.insert(EventId(event), ());
            let ends = |age: u64, slow: bool| event.checked_sub(age).filter(|event| is_slow(*event) == slow);
            for ended in [ends(1_000, false), ends(3_000, true)].into_iter().flatten() {
                assert_eq!(window.remove(EventId(ended)), Some(()));
            }
        }
        assert!(window.is_regular(), "{} events in a window of {}", window.len(), window.window.len());
        assert!(window.window.len() <= 4 * window.len());
    }

    #[test]
    fn the_window_is_not_longer_than_consecutive_events_need() {
        let mut window = EventWindow::new(0, 2);
        for event in 0..100_000 {
            window.insert(EventId(event), ());
            if event >= 1_000 {
                window.remove(EventId(event - 1_000));
            }
        }
        assert_eq!((window.window.len(), window.places()), (1_024, 1_024 + window.free.len()));
        assert!(window.is_regular());
    }
}
