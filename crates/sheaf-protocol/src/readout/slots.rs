//! The events that a readout unit holds fragments of, or is asked for.

use crate::event_index::EventIndex;
use sheaf_wire::message::SuperFragments;
use sheaf_wire::{EventId, Fragment, MissingReason, MissingSource, Payload, SourceId, SuperFragment};
use std::ops::{Index, IndexMut};

/// Names a slot. The event is part of the key, so that a key that outlived its slot is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotKey {
    pub(super) event: EventId,
    index: u32,
}

/// Which builder wants an event, in which attempt, and what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) builder: u16,
    pub(super) attempt: u16,
    /// Which part, where the request names sources; 0 for the whole.
    pub(super) part: u16,
}

impl Asked {
    /// Whether this came to be known before the other could: an earlier attempt, or an earlier part of the same.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.attempt, self.part) < (other.attempt, other.part)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Not answered; sources may be awaited.
    Merging,
    /// In the queue to this builder.
    Ready(u16),
    /// Answered; kept for a repeated request.
    Answered,
}

/// What is known of one source in one event.
#[derive(Clone, Debug)]
pub(super) enum Cell<P> {
    Waiting,
    Here(Fragment<P>),
    Missing(MissingReason),
}

/// What is known of an event, apart from its fragments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) event: EventId,
    /// Its place in the order in which first fragments came; 0 where a request came first.
    pub(super) age: u64,
    /// Payload of the fragments that are here.
    pub(super) bytes: u64,
    /// How many cells wait.
    unsettled: u32,
    /// How many of them are of the part that is asked for, where one is.
    wanted: u32,
    pub(super) asked: Option<Asked>,
    pub(super) state: SlotState,
    pub(super) announced: bool,
    /// Whether there is such an event; if not, the slot is free.
    lives: bool,
}

impl Slot {
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// The part that is asked for, where one is; 0 for the whole, and for nothing.
    pub(super) fn part(&self) -> u16 {
        self.asked.map_or(0, |asked| asked.part)
    }

    /// Whether no cell waits of what is asked for.
    fn is_settled(&self) -> bool {
        self.has_all_of(self.part())
    }

    /// Whether no cell waits of a part, or of the whole where that is 0.
    fn has_all_of(&self, part: u16) -> bool {
        if part == 0 { self.unsettled == 0 } else { self.wanted == 0 }
    }

    /// Makes the event ready to go, if it is to be answered and waits for nothing. Returns to whom it is to go.
    pub(super) fn get_ready(&mut self) -> Option<u16> {
        self.get_ready_as(self.asked?)
    }

    /// The same where it is known what is asked for.
    pub(super) fn get_ready_as(&mut self, asked: Asked) -> Option<u16> {
        let is_ready = self.state == SlotState::Merging && self.has_all_of(asked.part);
        is_ready.then(|| {
            self.state = SlotState::Ready(asked.builder);
            asked.builder
        })
    }

    fn is(&self, key: SlotKey) -> bool {
        self.lives && self.event == key.event
    }
}

/// What came of answering an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// So many bytes of payload were appended.
    Given(u64),
    /// It has more payload than there is room for.
    TooLarge,
    /// It was released, or is another builder's by now.
    Void,
}

/// An event that has ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Whether every source was asked for.
    pub(super) is_all_asked: bool,
}

/// All slots, found by event in constant time. Slots and their cells are reused: in a steady state nothing is
/// allocated. Cells lie side by side, those of one slot together, so that a fragment touches one line of memory of its
/// own. Every walk goes over the vector, in its order.
#[derive(Debug)]
pub(super) struct Slots<P> {
    sources: usize,
    slots: Vec<Slot>,
    /// `sources` for each slot, in the order of the configuration.
    cells: Vec<Cell<P>>,
    /// Beside each cell the part in which it was asked for, 0 for none. Empty as long as events are asked for as a whole.
    parts: Vec<u16>,
    free: Vec<u32>,
    by_event: EventIndex,
}

impl<P: Payload> Slots<P> {
    pub(super) fn new(sources: usize, expected_events: usize) -> Self {
        Self {
            sources,
            slots: Vec::new(),
            cells: Vec::new(),
            parts: Vec::new(),
            free: Vec::new(),
            by_event: EventIndex::new(expected_events),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_event.len()
    }

    pub(super) fn find(&self, event: EventId) -> Option<SlotKey> {
        self.by_event.get(event).map(|index| SlotKey { event, index })
    }

    /// Opens a slot for an event that has none.
    #[inline]
    pub(super) fn insert(&mut self, event: EventId, age: u64) -> SlotKey {
        let slot = Slot {
            event,
            age,
            bytes: 0,
            unsettled: u32::try_from(self.sources).expect("the configuration has at most 65,535 sources"),
            wanted: 0,
            asked: None,
            state: SlotState::Merging,
            announced: false,
            lives: true,
        };
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            index
        } else {
            self.slots.push(slot);
            self.cells.resize_with(self.slots.len() * self.sources, || Cell::Waiting);
            if !self.parts.is_empty() {
                self.parts.resize(self.cells.len(), 0);
            }
            u32::try_from(self.slots.len() - 1)
                .expect("slots are bounded far below 2^32 by the configuration")
        };
        self.by_event.insert(event, index);
        SlotKey { event, index }
    }

    /// Closes the slot of an event, if it has one. The payloads that it holds are given away, with the index of their source, and
    /// the part in which they were asked for: 0 if the whole was, `None` if it was not.
    #[inline]
    pub(super) fn end(
        &mut self,
        event: EventId,
        mut give: impl FnMut(usize, Option<u16>, P),
    ) -> Option<Ended> {
        let index = self.by_event.remove(event)?;
        self.free.push(index);
        let slot = &mut self.slots[index as usize];
        slot.lives = false;
        let first = index as usize * self.sources;
        let cells = &mut self.cells[first..first + self.sources];
        let whole = match slot.asked {
            None => None,
            Some(Asked { part: 0, .. }) => Some(0),
            Some(_) => {
                let parts = &self.parts[first..first + self.sources];
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

    /// What is known of each source, in the order of the configuration.
    pub(super) fn cells(&self, key: SlotKey) -> &[Cell<P>] {
        let first = key.index as usize * self.sources;
        &self.cells[first..first + self.sources]
    }

    /// Begins a part of an event: the cells of `inputs`, which are ascending, are wanted in it. Those of earlier parts stay
    /// what they are, or are wanted no more where it is `afresh`.
    pub(super) fn want(&mut self, key: SlotKey, part: u16, afresh: bool, inputs: &[usize]) {
        if self.parts.is_empty() {
            self.parts.resize(self.cells.len(), 0);
        }
        let first = key.index as usize * self.sources;
        if afresh {
            self.parts[first..first + self.sources].fill(0);
        }
        let mut waiting = 0;
        for input in inputs {
            self.parts[first + input] = part;
            waiting += u32::from(matches!(self.cells[first + input], Cell::Waiting));
        }
        self.found_mut(key).wanted = waiting;
    }

    /// Whether a source is among those that are asked for.
    pub(super) fn is_wanted(&self, key: SlotKey, source: usize) -> bool {
        let part = self.found(key).part();
        part == 0 || self.parts[key.index as usize * self.sources + source] == part
    }

    /// Answers an event: appends what is here of what is asked for, if it is to go to this builder and has at most `room` bytes.
    /// Events with consecutive ids that have as much to say share an entry. `ids` are the sources in the order of the
    /// configuration.
    #[inline]
    pub(super) fn answer(
        &mut self,
        key: SlotKey,
        builder: u16,
        room: u64,
        ids: impl Fn(usize) -> SourceId,
        answers: &mut SuperFragments<P>,
    ) -> Answer {
        let Some(slot) = self.slots.get_mut(key.index as usize).filter(|slot| slot.is(key)) else {
            return Answer::Void;
        };
        let asked = match (slot.state, slot.asked) {
            (SlotState::Ready(to), Some(asked)) if to == builder => asked,
            _ => return Answer::Void,
        };
        let first = key.index as usize * self.sources;
        let cells = &self.cells[first..first + self.sources];
        let parts = self.parts.get(first..first + self.sources).unwrap_or_default();
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
        let (fragments, missing) = (answers.fragments.len(), answers.missing.len());
        match asked.part {
            0 => append(key.event, cells, |_| true, ids, answers),
            _ => append(key.event, cells, is_wanted, ids, answers),
        }
        // A readout unit has at most 65,535 sources: the configuration sees to it.
        let count = |from: usize, to: usize| u16::try_from(to - from).unwrap_or(u16::MAX);
        answers.push_entry(SuperFragment {
            event: key.event,
            count: 1,
            attempt: if asked.part == 0 { 0 } else { asked.attempt },
            part: asked.part,
            fragments: count(fragments, answers.fragments.len()),
            missing: count(missing, answers.missing.len()),
        });
        Answer::Given(bytes)
    }

    /// Settles the cell of a source that is awaited. Returns whom the event is to go to, if it is ready by that.
    #[inline]
    #[must_use]
    pub(super) fn settle(&mut self, key: SlotKey, source: usize, cell: Cell<P>) -> Option<u16> {
        let place = key.index as usize * self.sources + source;
        let slot = &mut self.slots[key.index as usize];
        debug_assert!(slot.is(key), "event {}: the key was not just found", key.event);
        slot.bytes += cell.bytes();
        slot.unsettled -= 1;
        let part = slot.part();
        slot.wanted -= u32::from(part > 0 && self.parts[place] == part);
        let waiting = &mut self.cells[place];
        debug_assert!(matches!(waiting, Cell::Waiting), "event {}: source settled twice", key.event);
        *waiting = cell;
        slot.get_ready()
    }

    fn get(&self, key: SlotKey) -> Option<&Slot> {
        self.slots.get(key.index as usize).filter(|slot| slot.is(key))
    }

    fn get_mut(&mut self, key: SlotKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.is(key))
    }

    /// Whether this part of an event is asked for, and sources are awaited for it; the whole is part 0.
    pub(super) fn is_merging(&self, event: EventId, part: u16) -> bool {
        self.find(event).is_some_and(|key| {
            let slot = self.found(key);
            slot.asked.is_some_and(|asked| asked.part == part)
                && slot.state == SlotState::Merging
                && !slot.is_settled()
        })
    }

    /// Whether the slot still lives and nobody has asked for it.
    pub(super) fn is_orphan(&self, key: SlotKey) -> bool {
        self.get(key).is_some_and(|slot| !slot.is_asked())
    }

    /// The slot of a key that was just found or opened: nothing can have outlived anything.
    pub(super) fn found(&self, key: SlotKey) -> &Slot {
        let slot = &self.slots[key.index as usize];
        debug_assert!(slot.is(key), "event {}: the key was not just found", key.event);
        slot
    }

    /// See [`Self::found`].
    pub(super) fn found_mut(&mut self, key: SlotKey) -> &mut Slot {
        let slot = &mut self.slots[key.index as usize];
        debug_assert!(slot.is(key), "event {}: the key was not just found", key.event);
        slot
    }

    pub(super) fn asked_keys(&self) -> Vec<SlotKey> {
        self.keys_where(Slot::is_asked)
    }

    pub(super) fn all_keys(&self) -> Vec<SlotKey> {
        self.keys_where(|_| true)
    }

    /// Whether asking for each of `count` ids is less work than walking over all slots.
    pub(super) fn is_short(&self, count: u32) -> bool {
        count as usize <= self.slots.len()
    }

    /// The slots with ids from `first` to `last`, by a walk over all.
    pub(super) fn keys_between(&self, first: EventId, last: EventId) -> Vec<SlotKey> {
        self.keys_where(|slot| (first..=last).contains(&slot.event))
    }

    fn keys_where(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<SlotKey> {
        let key = |(index, slot): (usize, &Slot)| SlotKey {
            event: slot.event,
            index: u32::try_from(index).unwrap_or(u32::MAX),
        };
        self.slots.iter().enumerate().filter(|(_, slot)| slot.lives && wanted(slot)).map(key).collect()
    }

    /// Counts the fragments really held, for the ledger.
    pub(super) fn count_held(&self) -> u64 {
        self.cells.iter().filter(|cell| matches!(cell, Cell::Here(_))).count() as u64
    }
}

/// Appends what is known of the sources that are wanted.
fn append<P: Payload>(
    event: EventId,
    cells: &[Cell<P>],
    is_wanted: impl Fn(usize) -> bool,
    ids: impl Fn(usize) -> SourceId,
    answers: &mut SuperFragments<P>,
) {
    for (source, cell) in cells.iter().enumerate() {
        match cell {
            _ if !is_wanted(source) => {}
            Cell::Here(fragment) => answers.fragments.push(fragment.clone()),
            Cell::Missing(reason) => {
                answers.missing.push(MissingSource { source: ids(source), reason: *reason });
            }
            Cell::Waiting => debug_assert!(false, "event {event}: answered while a source is awaited"),
        }
    }
}

impl<P: Payload> Cell<P> {
    /// Lets the source be awaited again; the payload that was here, if there was one.
    #[inline]
    fn empty(&mut self) -> Option<P> {
        match std::mem::replace(self, Self::Waiting) {
            Self::Here(fragment) => Some(fragment.payload),
            Self::Waiting | Self::Missing(_) => None,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Here(fragment) => fragment.payload.len() as u64,
            Self::Waiting | Self::Missing(_) => 0,
        }
    }
}

impl<P: Payload> Index<SlotKey> for Slots<P> {
    type Output = Slot;
    fn index(&self, key: SlotKey) -> &Slot {
        self.get(key).expect("the key's slot lives")
    }
}

impl<P: Payload> IndexMut<SlotKey> for Slots<P> {
    fn index_mut(&mut self, key: SlotKey) -> &mut Slot {
        self.get_mut(key).expect("the key's slot lives")
    }
}
