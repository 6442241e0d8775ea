//! Handling of consecutive events together.
//!
//! Usually events arrive, are requested, answered and released in order. This module handles such events a
//! range at a time. Their slots and cells are adjacent, so no lookup is needed. Each function stops at the
//! first irregular event, returns how far it got, and leaves the rest to the functions for single events.

use super::{Asked, Cell, EventSlot, EventSlots, SlotState};
use crate::event_range::EventIdRange;
use crate::event_window::Entry;
use sheaf_wire::message::SuperFragments;
use sheaf_wire::{EventId, Payload, SourceId, SuperFragment};

/// Requested events, from the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::readout) struct Taken {
    /// Number of events.
    pub(in crate::readout) events: u64,
    /// Whether they are ready to go; else they wait for sources.
    pub(in crate::readout) are_ready: bool,
    /// Age of the youngest of them.
    pub(in crate::readout) age: u64,
}

/// Events, from the first one on, that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::readout) struct Answered {
    pub(in crate::readout) events: u32,
    /// Their payload.
    pub(in crate::readout) bytes: u64,
}

/// Where an event would have its slot and its cells.
struct SlotView<'a, P> {
    event: EventId,
    slot: &'a mut Entry<EventSlot>,
    cells: &'a mut [Cell<P>],
}

impl<P: Payload> EventSlots<P> {
    /// The places of events as far as they lie side by side, and all sources.
    #[inline]
    fn side_by_side(&mut self, events: EventIdRange) -> (impl Iterator<Item = SlotView<'_, P>>, &[SourceId]) {
        let from = events.first().map_or(0, |event| self.slots.home(event));
        let slots = self.slots.side_by_side_mut(events);
        let sources = self.sources.len();
        let cells = &mut self.cells[from * sources..(from + slots.len()) * sources];
        // Where there are no sources there are no cells: nothing is regular.
        let places = slots.iter_mut().zip(cells.chunks_exact_mut(sources.max(1)));
        let places =
            places.zip(events.events()).map(|((slot, cells), event)| SlotView { event, slot, cells });
        (places, &self.sources)
    }

    /// Records the request of a builder for whole events without an earlier request. Stops where a ready
    /// event follows events that wait, or the reverse. Creates slots for events without one if `may_open` is
    /// set.
    pub(in crate::readout) fn ask(&mut self, events: EventIdRange, asked: Asked, may_open: bool) -> Taken {
        let may_open = may_open && self.slots.is_regular();
        let unsettled = self.unsettled();
        let exclusions = std::mem::take(&mut self.exclusions);
        let (mut taken, mut opened) = (Taken::default(), 0);
        for SlotView { event, slot, cells } in self.side_by_side(events).0 {
            let is_new = slot.is_free();
            let is_ready = match slot.of(event) {
                Some(slot) if !slot.is_asked() => slot.unsettled == 0,
                None if is_new && may_open => unsettled == u32::from(exclusions.count(event)),
                _ => break,
            };
            if taken.events > 0 && is_ready != taken.are_ready {
                break;
            }
            if is_new {
                let missing = exclusions.count(event);
                let value = EventSlot { missing, ..EventSlot::new(0, unsettled - u32::from(missing)) };
                *slot = Entry::Taken { event, value };
                exclusions.settle(event, cells);
                opened += 1;
            }
            let Some(slot) = slot.of_mut(event) else { break };
            slot.asked = Some(asked);
            if is_ready {
                slot.state = SlotState::Ready(asked.builder);
            }
            taken = Taken { events: taken.events + 1, are_ready: is_ready, age: taken.age.max(slot.age) };
        }
        self.slots.note_added(opened);
        self.exclusions = exclusions;
        taken
    }

    /// Answers whole events of which every source is here: at most `most`, with at most `room` bytes.
    pub(in crate::readout) fn answer_complete(
        &mut self,
        mut events: EventIdRange,
        builder: u16,
        most: usize,
        room: u64,
        answers: &mut SuperFragments<P>,
    ) -> Answered {
        let (mut answered, first) = (Answered::default(), events.first());
        let (places, sources) = self.side_by_side(events.take(most as u64));
        for SlotView { event, slot, cells } in places {
            let Some(slot) = slot.of_mut(event) else { break };
            let bytes = answered.bytes + slot.bytes;
            let is_complete = slot.unsettled == 0 && slot.missing == 0;
            let is_to_go = slot.state == SlotState::Ready(builder) && slot.part() == 0;
            if !(is_to_go && is_complete && bytes <= room) {
                break;
            }
            slot.state = SlotState::Answered;
            for (cell, source) in cells.iter().zip(sources) {
                if let Cell::Here(held) = cell {
                    answers.fragments.push(held.to_fragment(event, *source));
                }
            }
            answered = Answered { events: answered.events + 1, bytes };
        }
        if let Some(event) = first.filter(|_| answered.events > 0) {
            let fragments = u16::try_from(sources.len()).unwrap_or(u16::MAX);
            let count = answered.events;
            answers.push_entry(SuperFragment { event, count, attempt: 0, part: 0, fragments, missing: 0 });
        }
        answered
    }

    /// Closes the slots of events that were requested as a whole. Returns their number, and passes on each
    /// payload with the index of its source.
    #[inline]
    pub(in crate::readout) fn end_asked(
        &mut self,
        events: EventIdRange,
        mut give: impl FnMut(usize, P),
    ) -> u64 {
        let mut ended = 0;
        for SlotView { event, slot, cells } in self.side_by_side(events).0 {
            let asked = slot.of(event).and_then(|slot| slot.asked);
            if !matches!(asked, Some(Asked { part: 0, .. })) {
                break;
            }
            *slot = Entry::Free;
            for (source, cell) in cells.iter_mut().enumerate() {
                if let Some(payload) = cell.empty() {
                    give(source, payload);
                }
            }
            ended += 1;
        }
        self.slots.note_taken(ended);
        ended as u64
    }
}
