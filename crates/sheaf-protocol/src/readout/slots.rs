//! The events that a readout unit holds fragments of, or is asked for.

use rustc_hash::FxHashMap;
use sheaf_wire::{EventId, Fragment, MissingReason, Payload};
use std::ops::{Index, IndexMut};

/// Names a slot. The event is part of the key, so that a key that outlived its slot is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotKey {
    pub(super) event: EventId,
    index: u32,
}

/// Which builder wants an event, in which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) builder: u16,
    pub(super) attempt: u16,
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

#[derive(Clone, Debug)]
pub(super) struct Slot<P> {
    pub(super) event: EventId,
    /// Its place in the order in which first fragments came; 0 where a request came first.
    pub(super) age: u64,
    /// One cell a source, in the order of the configuration.
    pub(super) cells: Vec<Cell<P>>,
    /// How many cells wait.
    pub(super) unsettled: usize,
    pub(super) asked: Option<Asked>,
    pub(super) state: SlotState,
    pub(super) announced: bool,
}

impl<P: Payload> Slot<P> {
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        let size = |cell: &Cell<P>| match cell {
            Cell::Here(fragment) => fragment.payload.len() as u64,
            Cell::Waiting | Cell::Missing(_) => 0,
        };
        self.cells.iter().map(size).sum()
    }
}

/// All slots, found by event in constant time. Slots and their cells are reused: in a steady state nothing is
/// allocated. The map is only ever asked for single events; every walk goes over the vector, in its order.
#[derive(Debug)]
pub(super) struct Slots<P> {
    sources: usize,
    slots: Vec<Option<Slot<P>>>,
    free: Vec<u32>,
    spare_cells: Vec<Vec<Cell<P>>>,
    by_event: FxHashMap<EventId, u32>,
}

impl<P: Payload> Slots<P> {
    pub(super) fn new(sources: usize, expected_events: usize) -> Self {
        let mut by_event = FxHashMap::default();
        by_event.reserve(expected_events);
        Self {
            sources,
            slots: Vec::with_capacity(expected_events),
            free: Vec::new(),
            spare_cells: Vec::new(),
            by_event,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_event.len()
    }

    pub(super) fn find(&self, event: EventId) -> Option<SlotKey> {
        self.by_event.get(&event).map(|index| SlotKey { event, index: *index })
    }

    /// Opens a slot for an event that has none.
    pub(super) fn insert(&mut self, event: EventId, age: u64) -> SlotKey {
        let mut cells = self.spare_cells.pop().unwrap_or_default();
        cells.resize_with(self.sources, || Cell::Waiting);
        let slot = Slot {
            event,
            age,
            cells,
            unsettled: self.sources,
            asked: None,
            state: SlotState::Merging,
            announced: false,
        };
        let index = if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(slot);
            index
        } else {
            self.slots.push(Some(slot));
            u32::try_from(self.slots.len() - 1)
                .expect("slots are bounded far below 2^32 by the configuration")
        };
        let before = self.by_event.insert(event, index);
        assert!(before.is_none(), "event {event} has two slots");
        SlotKey { event, index }
    }

    /// Closes a slot. Give it to [`Self::recycle`] when its fragments are booked.
    pub(super) fn remove(&mut self, key: SlotKey) -> Slot<P> {
        let slot = self.slots[key.index as usize].take().expect("a key is removed once");
        assert_eq!(slot.event, key.event, "a key outlived its slot");
        self.by_event.remove(&key.event);
        self.free.push(key.index);
        slot
    }

    pub(super) fn recycle(&mut self, mut slot: Slot<P>) {
        slot.cells.clear();
        self.spare_cells.push(slot.cells);
    }

    fn get(&self, key: SlotKey) -> Option<&Slot<P>> {
        self.slots[key.index as usize].as_ref().filter(|slot| slot.event == key.event)
    }

    /// Whether the slot still lives, is asked for, and waits for sources.
    pub(super) fn is_merging(&self, key: SlotKey) -> bool {
        self.get(key)
            .is_some_and(|slot| slot.is_asked() && slot.state == SlotState::Merging && slot.unsettled > 0)
    }

    /// Whether the slot still lives and nobody has asked for it.
    pub(super) fn is_orphan(&self, key: SlotKey) -> bool {
        self.get(key).is_some_and(|slot| !slot.is_asked())
    }

    pub(super) fn is_ready_for(&self, key: SlotKey, builder: u16) -> bool {
        self.get(key).is_some_and(|slot| slot.state == SlotState::Ready(builder))
    }

    pub(super) fn asked_keys(&self) -> Vec<SlotKey> {
        self.keys_where(Slot::is_asked)
    }

    pub(super) fn all_keys(&self) -> Vec<SlotKey> {
        self.keys_where(|_| true)
    }

    /// The slots of `count` ids from `first`, found by whichever is less work: asking for each id, or walking over
    /// all slots.
    pub(super) fn keys_in(&self, first: EventId, count: u32) -> Vec<SlotKey> {
        let last = first.0.saturating_add(u64::from(count).saturating_sub(1));
        if count as usize <= self.slots.len() {
            (first.0..=last).filter_map(|id| self.find(EventId(id))).collect()
        } else {
            self.keys_where(|slot| (first.0..=last).contains(&slot.event.0))
        }
    }

    fn keys_where(&self, wanted: impl Fn(&Slot<P>) -> bool) -> Vec<SlotKey> {
        let key = |(index, slot): (usize, &Option<Slot<P>>)| {
            let slot = slot.as_ref().filter(|slot| wanted(slot))?;
            Some(SlotKey { event: slot.event, index: u32::try_from(index).unwrap_or(u32::MAX) })
        };
        self.slots.iter().enumerate().filter_map(key).collect()
    }

    /// Counts the fragments really held, for the ledger.
    pub(super) fn count_held(&self) -> u64 {
        let cells = self.slots.iter().flatten().flat_map(|slot| &slot.cells);
        cells.filter(|cell| matches!(cell, Cell::Here(_))).count() as u64
    }
}

impl<P: Payload> Index<SlotKey> for Slots<P> {
    type Output = Slot<P>;
    fn index(&self, key: SlotKey) -> &Slot<P> {
        self.get(key).expect("the key's slot lives")
    }
}

impl<P: Payload> IndexMut<SlotKey> for Slots<P> {
    fn index_mut(&mut self, key: SlotKey) -> &mut Slot<P> {
        let slot = self.slots[key.index as usize].as_mut();
        slot.filter(|slot| slot.event == key.event).expect("the key's slot lives")
    }
}
