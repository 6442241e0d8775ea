//! Events with fragments or requests at a readout unit.

mod cell;
mod excluding;
mod exclusions;
mod regular;

use crate::event_range::EventIdRange;
use crate::event_window::{EventWindow, Moved};
pub(super) use cell::Cell;
use cell::{append, waiting_cells};
use exclusions::Exclusions;
pub(super) use regular::Taken;
use sheaf_wire::message::SuperFragments;
use sheaf_wire::{EventId, Fragment, MissingReason, Payload, SourceId, SuperFragment};

/// The window may be doubled while it has fewer than this many places per event. The value is small because each place has cells.
const SPREAD: usize = 2;

/// Identifies the slot of an event that was just found or opened. Opening another slot may move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotKey {
    pub(super) event: EventId,
    place: usize,
}

/// A builder's request for an event: its attempt and part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) builder: u16,
    pub(super) attempt: u16,
    /// Number of the part, if the request names sources; 0 for the whole event.
    pub(super) part: u16,
}

impl Asked {
    /// Returns whether this request precedes the other: it has an earlier attempt, or an earlier part of the
    /// same attempt.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.attempt, self.part) < (other.attempt, other.part)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Not answered. Sources may be awaited.
    Merging,
    /// In the queue for this builder.
    Ready(u16),
    /// Answered, and kept for a repeated request.
    Answered,
}

/// State of an event, apart from its fragments.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventSlot {
    /// Position in the order of first fragments; 0 if a request came first.
    pub(super) age: u64,
    /// Payload bytes of the present fragments.
    bytes: u64,
    /// Number of cells that wait.
    unsettled: u32,
    /// Number of these cells that belong to the requested part, if a part is requested.
    wanted: u32,
    /// Number of missing sources.
    missing: u16,
    pub(super) asked: Option<Asked>,
    pub(super) state: SlotState,
    pub(super) announced: bool,
}

impl EventSlot {
    /// Creates the slot of an event with `unsettled` cells to wait for.
    #[inline]
    fn new(age: u64, unsettled: u32) -> Self {
        Self {
            age,
            bytes: 0,
            unsettled,
            wanted: 0,
            missing: 0,
            asked: None,
            state: SlotState::Merging,
            announced: false,
        }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns whether the event was answered or is about to be, or a part of it.
    fn is_answered(&self) -> bool {
        self.state != SlotState::Merging || self.part() > 1
    }

    /// Returns the requested part; 0 for the whole event and for no request.
    pub(super) fn part(&self) -> u16 {
        self.asked.map_or(0, |asked| asked.part)
    }

    /// Returns whether all requested cells are settled.
    fn is_settled(&self) -> bool {
        self.has_all_of(self.part())
    }

    /// Returns whether no cell of a part waits; part 0 is the whole event.
    fn has_all_of(&self, part: u16) -> bool {
        if part == 0 { self.unsettled == 0 } else { self.wanted == 0 }
    }

    /// Marks the event as ready if it has a request and all cells are settled. Returns the builder to send it
    /// to.
    pub(super) fn get_ready(&mut self) -> Option<u16> {
        self.get_ready_as(self.asked?)
    }

    /// Does the same if the request is known.
    pub(super) fn get_ready_as(&mut self, asked: Asked) -> Option<u16> {
        let is_ready = self.state == SlotState::Merging && self.has_all_of(asked.part);
        is_ready.then(|| {
            self.state = SlotState::Ready(asked.builder);
            asked.builder
        })
    }

    /// Returns whether a part is requested and its sources are awaited. The whole event is part 0.
    #[inline]
    fn is_merging(&self, part: u16) -> bool {
        self.asked.is_some_and(|asked| asked.part == part)
            && self.state == SlotState::Merging
            && !self.is_settled()
    }
}

/// Result of settling a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// The cell was awaited. Contains the builder to send the event to, if this makes it ready.
    Now(Option<u16>),
    /// The cell was not awaited.
    Before,
}

/// Result of answering an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Number of payload bytes appended.
    Given(u64),
    /// The event has more payload than there is room for.
    TooLarge,
    /// The event was released, or belongs to another builder now.
    Void,
}

/// An ended event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Whether every source was requested.
    pub(super) is_all_asked: bool,
}

/// All slots, found by event in constant time, and their cells.
///
/// Cells are stored contiguously, grouped by slot, so that a fragment touches a single cache line. All iterations go over
/// places in order.
#[derive(Debug)]
pub(super) struct EventSlots<P> {
    /// Sources in the order of the configuration.
    sources: Vec<SourceId>,
    slots: EventWindow<EventSlot>,
    /// One cell for each source of each place.
    cells: Vec<Cell<P>>,
    /// Part in which each cell was requested, 0 for none. Empty as long as all events are requested as a
    /// whole.
    parts: Vec<u16>,
    exclusions: Exclusions,
}

impl<P: Payload> EventSlots<P> {
    pub(super) fn new(sources: impl IntoIterator<Item = SourceId>) -> Self {
        let sources: Vec<SourceId> = sources.into_iter().collect();
        let slots = EventWindow::new(0, SPREAD);
        let cells = waiting_cells(slots.places() * sources.len());
        Self { sources, slots, cells, parts: Vec::new(), exclusions: Exclusions::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn find(&self, event: EventId) -> Option<SlotKey> {
        self.slots.find(event).map(|place| SlotKey { event, place })
    }

    /// Opens a slot for an event that has none.
    #[inline]
    pub(super) fn insert(&mut self, event: EventId, age: u64) -> SlotKey {
        let is_vacant = self.slots.is_vacant(event);
        if !is_vacant && let Some(moved) = self.slots.widen_for(event) {
            self.follow(&moved);
        }
        let place = self.slots.put(event, EventSlot::new(age, self.unsettled()));
        if !is_vacant {
            self.add_cells();
        }
        let key = SlotKey { event, place };
        if !self.exclusions.is_empty() {
            self.settle_excluded(key);
        }
        key
    }

    /// Returns the number of cells of a new event that wait.
    fn unsettled(&self) -> u32 {
        u32::try_from(self.sources.len()).unwrap_or(u32::MAX)
    }

    /// Adds cells for new places.
    #[cold]
    fn add_cells(&mut self) {
        let cells = self.slots.places() * self.sources.len();
        self.cells.resize_with(cells, || Cell::Waiting);
        if !self.parts.is_empty() {
            self.parts.resize(cells, 0);
        }
    }

    /// Moves the cells of slots that have moved.
    #[cold]
    fn follow(&mut self, moved: &[Moved]) {
        let sources = self.sources.len();
        let cells = waiting_cells(self.slots.places() * sources);
        let mut old_cells = std::mem::replace(&mut self.cells, cells);
        let parts = if self.parts.is_empty() { Vec::new() } else { vec![0; self.cells.len()] };
        let old_parts = std::mem::replace(&mut self.parts, parts);
        for Moved { from, to } in moved {
            let (from, to) = (from * sources..(from + 1) * sources, to * sources..(to + 1) * sources);
            self.cells[to.clone()].swap_with_slice(&mut old_cells[from.clone()]);
            if !old_parts.is_empty() {
                self.parts[to].copy_from_slice(&old_parts[from]);
            }
        }
    }

    /// Closes the slot of an event, if it has one. Returns each payload with the index of its source and the
    /// part in which it was requested: 0 for the whole event, `None` if it was not requested.
    #[inline]
    pub(super) fn end(
        &mut self,
        event: EventId,
        mut give: impl FnMut(usize, Option<u16>, P),
    ) -> Option<Ended> {
        let key = self.find(event)?;
        let asked = self.slots.take(key.place)?.asked;
        let first = key.first_cell(self.sources.len());
        let cells = &mut self.cells[first..first + self.sources.len()];
        let whole = match asked {
            None => None,
            Some(Asked { part: 0, .. }) => Some(0),
            Some(_) => {
                let parts = &self.parts[first..first + self.sources.len()];
                for (source, cell) in cells.iter_mut().enumerate() {
                    if let Some(payload) = cell.empty() {
                        give(source, Some(parts[source]).filter(|part| *part > 0), payload);
                    }
                }
                return Some(Ended { is_all_asked: parts.iter().all(|part| *part > 0) });
            }
        };
        for (source, cell) in cells.iter_mut().enumerate() {
            if let Some(payload) = cell.empty() {
                give(source, whole, payload);
            }
        }
        Some(Ended { is_all_asked: whole.is_some() })
    }

    /// Returns the state of each source, in the order of the configuration.
    pub(super) fn cells(&self, key: SlotKey) -> &[Cell<P>] {
        let first = key.first_cell(self.sources.len());
        &self.cells[first..first + self.sources.len()]
    }

    /// Returns the fragments of an event that are here.
    pub(super) fn fragments(&self, key: SlotKey) -> impl Iterator<Item = Fragment<P>> {
        self.sources.iter().zip(self.cells(key)).filter_map(move |(source, cell)| match cell {
            Cell::Here(held) => Some(held.to_fragment(key.event, *source)),
            Cell::Waiting | Cell::Missing(_) => None,
        })
    }

    /// Returns whether one of these sources has neither a fragment in an event nor been given up there.
    pub(super) fn awaits_any(&self, event: EventId, sources: &[usize]) -> bool {
        self.find(event).is_some_and(|key| {
            let cells = self.cells(key);
            sources.iter().any(|source| matches!(cells[*source], Cell::Waiting))
        })
    }

    /// Begins a part of an event, in which the cells of `inputs` (ascending) are requested. Requests of earlier parts remain, or are
    /// removed if the event begins `afresh`.
    pub(super) fn want(&mut self, key: SlotKey, part: u16, afresh: bool, inputs: &[usize]) {
        if self.parts.is_empty() {
            self.parts.resize(self.cells.len(), 0);
        }
        let first = key.first_cell(self.sources.len());
        if afresh {
            self.parts[first..first + self.sources.len()].fill(0);
        }
        let mut waiting = 0;
        for input in inputs {
            self.parts[first + input] = part;
            waiting += u32::from(matches!(self.cells[first + input], Cell::Waiting));
        }
        self.found_mut(key).wanted = waiting;
    }

    /// Returns whether a source is requested.
    pub(super) fn is_wanted(&self, key: SlotKey, source: usize) -> bool {
        let part = self.found(key).part();
        part == 0 || self.parts[key.first_cell(self.sources.len()) + source] == part
    }

    /// Answers an event: appends the requested fragments that are present, if the event is for this builder
    /// and fits in `room` bytes. Events with consecutive ids and equal numbers of fragments share an entry.
    #[inline]
    pub(super) fn answer(
        &mut self,
        event: EventId,
        builder: u16,
        room: u64,
        answers: &mut SuperFragments<P>,
    ) -> Answer {
        let Some(key) = self.find(event) else {
            return Answer::Void;
        };
        let slot = self.slots.at_mut(key.place);
        let asked = match (slot.state, slot.asked) {
            (SlotState::Ready(to), Some(asked)) if to == builder => asked,
            _ => return Answer::Void,
        };
        let sources = &self.sources[..];
        let first = key.first_cell(sources.len());
        let cells = &self.cells[first..first + sources.len()];
        let parts = self.parts.get(first..first + sources.len()).unwrap_or_default();
        let is_wanted = |source: usize| parts[source] == asked.part;
        let bytes = match asked.part {
            0 => slot.bytes,
            _ => {
                (0..cells.len()).filter(|source| is_wanted(*source)).map(|source| cells[source].bytes()).sum()
            }
        };
        if bytes > room {
            return Answer::TooLarge;
        }
        slot.state = SlotState::Answered;
        let (fragments, missing) = match asked.part {
            0 => append(event, sources, cells, |_| true, answers),
            _ => append(event, sources, cells, is_wanted, answers),
        };
        answers.push_entry(SuperFragment {
            event,
            count: 1,
            attempt: if asked.part == 0 { 0 } else { asked.attempt },
            part: asked.part,
            fragments,
            missing,
        });
        Answer::Given(bytes)
    }

    /// Takes a fragment if its source is awaited. Inlined because every fragment passes here.
    #[inline(always)]
    pub(super) fn fill(&mut self, key: SlotKey, source: usize, fragment: &Fragment<P>) -> Filled {
        let place = key.first_cell(self.sources.len()) + source;
        let cell = &mut self.cells[place];
        if !matches!(cell, Cell::Waiting) {
            return Filled::Before;
        }
        *cell = Cell::of(fragment);
        Filled::Now(self.settle(key, place, fragment.payload.len() as u64))
    }

    /// Gives up a source if it is awaited.
    pub(super) fn give_up(&mut self, key: SlotKey, source: usize, reason: MissingReason) -> Filled {
        let place = key.first_cell(self.sources.len()) + source;
        if !matches!(self.cells[place], Cell::Waiting) {
            return Filled::Before;
        }
        self.cells[place] = Cell::Missing(reason);
        self.found_mut(key).missing += 1;
        Filled::Now(self.settle(key, place, 0))
    }

    /// Settles a cell. Returns the builder to send the event to, if this makes it ready.
    #[inline]
    fn settle(&mut self, key: SlotKey, cell: usize, bytes: u64) -> Option<u16> {
        let slot = self.slots.at_mut(key.place);
        slot.bytes += bytes;
        slot.unsettled -= 1;
        let asked = slot.asked?;
        if asked.part > 0 {
            slot.wanted -= u32::from(self.parts[cell] == asked.part);
        }
        slot.get_ready_as(asked)
    }

    /// Returns whether a part of an event is requested and its sources are awaited. The whole event is part
    /// 0.
    pub(super) fn is_merging(&self, event: EventId, part: u16) -> bool {
        self.slots.get(event).is_some_and(|slot| slot.is_merging(part))
    }

    /// Returns the number of events, from the first one on, of which this part is not awaited.
    pub(super) fn count_settled(&self, events: EventIdRange, part: u16) -> u64 {
        self.slots.count_until(events, |slot| slot.is_merging(part))
    }

    /// Returns the number of events, from the first one, that are requested or have no slot.
    pub(super) fn count_no_orphans(&self, events: EventIdRange) -> u64 {
        self.slots.count_until(events, |slot| !slot.is_asked())
    }

    /// Returns the slot of an event without a request, if it exists.
    pub(super) fn orphan(&self, event: EventId) -> Option<&EventSlot> {
        self.slots.get(event).filter(|slot| !slot.is_asked())
    }

    /// Returns the slot of a key that was just found or opened, so that the key is still valid.
    #[inline]
    pub(super) fn found(&self, key: SlotKey) -> &EventSlot {
        debug_assert_eq!(self.slots.find(key.event), Some(key.place), "event {}", key.event);
        self.slots.at(key.place)
    }

    /// See [`Self::found`].
    #[inline]
    pub(super) fn found_mut(&mut self, key: SlotKey) -> &mut EventSlot {
        debug_assert_eq!(self.slots.find(key.event), Some(key.place), "event {}", key.event);
        self.slots.at_mut(key.place)
    }

    /// Returns whether no earlier event is requested and not released.
    pub(super) fn is_first_asked(&self, event: EventId) -> bool {
        self.slots.iter().all(|(other, slot)| other >= event || !slot.is_asked())
    }

    pub(super) fn asked_keys(&self) -> Vec<SlotKey> {
        self.keys_where(|_, slot| slot.is_asked())
    }

    pub(super) fn all_keys(&self) -> Vec<SlotKey> {
        self.keys_where(|_, _| true)
    }

    /// Returns whether looking up each of `count` ids is less work than scanning all slots.
    pub(super) fn is_short(&self, count: u32) -> bool {
        count as usize <= self.slots.places()
    }

    /// Returns the slots of events in a range, by a scan over all.
    pub(super) fn keys_within(&self, events: EventIdRange) -> Vec<SlotKey> {
        self.keys_where(|event, _| events.has(event))
    }

    /// Returns the slots that satisfy a condition, by a scan over all.
    fn keys_where(&self, wanted: impl Fn(EventId, &EventSlot) -> bool) -> Vec<SlotKey> {
        self.slots.places_where(wanted).map(|(event, place)| SlotKey { event, place }).collect()
    }

    /// Counts the fragments that are actually held, for the ledger.
    pub(super) fn count_held(&self) -> u64 {
        self.cells.iter().filter(|cell| matches!(cell, Cell::Here(_))).count() as u64
    }
}

impl SlotKey {
    fn first_cell(self, sources: usize) -> usize {
        self.place * sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sheaf_wire::{NumberMark, Span, Timestamp};
    use std::collections::BTreeMap;

    fn fragment(event: u64, source: u32, length: u32) -> Fragment<Span> {
        Fragment {
            event: EventId(event),
            source: SourceId(source),
            time: Timestamp(event),
            checksum: None,
            processed: false,
            mark: NumberMark::NONE,
            payload: Span { length, ..Span::default() },
        }
    }

    proptest! {
        #![proptest_config(sheaf_wire::property_cases!(64))]

        /// Consecutive ids, and such as want the same place of the window; far more than the window has at first.
        #[test]
        fn agrees_with_a_plain_map(
            steps in prop::collection::vec((0..3_u8, 0..400_u64, prop::sample::select(vec![1_u64, 64, 100])), 0..1_500),
        ) {
            let mut slots = EventSlots::new([SourceId(7), SourceId(8)]);
            // Of each event its age, and the length of what is here of the second source.
            let mut plain: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
            for (age, (act, id, stride)) in (1..).zip(steps) {
                let id = if id % 5 == 0 { u64::MAX - id * stride } else { id * stride };
                let known = slots.find(EventId(id));
                prop_assert_eq!(known.is_some(), plain.contains_key(&id));
                if let (0, Some(_)) = (act, known) {
                    let mut given = Vec::new();
                    let ended = slots.end(EventId(id), |source, part, payload: Span| {
                        given.push((source, part, payload.len()));
                    });
                    prop_assert_eq!(ended, Some(Ended { is_all_asked: false }));
                    prop_assert_eq!(given, [(1, None, plain.remove(&id).unwrap().1)]);
                } else if known.is_none() {
                    let key = slots.insert(EventId(id), age);
                    let length = age as u32 % 9;
                    prop_assert_eq!(slots.fill(key, 1, &fragment(id, 8, length)), Filled::Now(None));
                    plain.insert(id, (age, length as usize));
                }
                prop_assert_eq!(slots.len(), plain.len());
                prop_assert_eq!(slots.count_held(), plain.len() as u64);
            }
            for (id, (age, length)) in plain {
                let key = slots.find(EventId(id)).expect("it was not ended");
                prop_assert_eq!((slots.found(key).age, slots.found(key).bytes), (age, length as u64));
                prop_assert!(matches!(slots.cells(key)[0], Cell::Waiting));
                prop_assert_eq!(slots.cells(key)[1].bytes(), length as u64);
            }
        }
    }
}
