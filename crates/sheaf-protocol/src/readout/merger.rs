//! Merging of the fragments of an event into one super-fragment. Fragments are held until their event is
//! released, and requests are answered from them.
//!
//! The merger identifies sources, events and builders by number. It handles no messages of the event manager
//! and no channel. The [readout unit](super::ReadoutUnit) handles these, and passes on requests and releases.

mod excluding;
mod releases;
mod requests;

pub(super) use requests::Wanted;

use super::books::{Books, Ending};
use super::inputs::{DriverState, Inputs};
use super::orphans::Orphans;
use super::own_time::OwnTime;
use super::ready::Ready;
use super::released::Released;
use super::renumbering::Delivered;
use super::reports::Reports;
use super::room::{Room, RoomReports};
use super::slots::{Answer, Cell, EventSlots, Filled, SlotKey};
use super::windows::{WindowOrder, Windows};
use super::{Blockage, ReadoutConfig};
use crate::event_range::EventIdRange;
use crate::ledger::{Counter, NodeBooks};
use crate::machine::{Deadline, EventDeadlines, Why};
use sheaf_wire::message::{Announcement, Count, ReadoutStatus, SuperFragments};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, MissingReason, Nanos, Payload, SourceId, Timestamp,
};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Merger<P> {
    config: ReadoutConfig,
    slots: EventSlots<P>,
    released: Released,
    inputs: Inputs,
    orphans: Orphans,
    /// Super-fragments that are ready to be sent.
    ready: Ready,
    own_time: OwnTime,
    rooms: RoomReports,
    /// Deadlines of the waits for silent sources, by the requested part of the event.
    merge_deadlines: EventDeadlines<u16>,
    windows: Windows,
    books: Books,
    /// Payloads released here that another component counts.
    discarded: Vec<P>,
    /// Whether the run has begun, so that sources send.
    has_begun: bool,
    /// Whether the run had begun before this unit connected. Earlier fragments of its sources are lost, so `merge_timeout` ends
    /// the wait even for required sources that are otherwise awaited without limit.
    joined_late: bool,
    /// An event below which all had ended when this unit joined late.
    floor: EventId,
    closed: bool,
    /// Fragments of the next run, once this one has closed.
    held_for_next: Vec<Fragment<P>>,
}

impl<P: Payload> Merger<P> {
    /// Creates an empty merger.
    pub(super) fn new(config: ReadoutConfig, now: Timestamp) -> Self {
        Self {
            slots: EventSlots::new(config.sources.iter().map(|source| source.id)),
            released: Released::new(),
            inputs: Inputs::new(&config, now),
            orphans: Orphans::new(config.orphan_timeout),
            ready: Ready::default(),
            own_time: OwnTime::default(),
            rooms: RoomReports::new(),
            merge_deadlines: EventDeadlines::new(),
            windows: Windows::default(),
            books: Books::default(),
            discarded: Vec::new(),
            has_begun: false,
            joined_late: false,
            floor: EventId(0),
            closed: false,
            held_for_next: Vec::new(),
            config,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the payload bytes and the number of events currently held.
    pub(super) fn held(&self) -> (ByteCount, usize) {
        (self.inputs.held(), self.slots.len())
    }

    /// Returns the first source for whose next fragment there is no room.
    pub(super) fn blockage(&self) -> Option<Blockage> {
        let awaited = || {
            let first = self
                .slots
                .asked_keys()
                .into_iter()
                .filter(|key| self.slots.is_merging(key.event, self.slots.found(*key).part()));
            let key = first.min_by_key(|key| key.event)?;
            let waits = |(index, cell): (usize, &Cell<P>)| {
                let is_awaited = matches!(cell, Cell::Waiting) && self.slots.is_wanted(key, index);
                is_awaited.then(|| self.inputs.id_of(index))
            };
            Some((key.event, self.slots.cells(key).iter().enumerate().filter_map(waits).collect()))
        };
        self.inputs.blockage().map(|blockage| Blockage { awaited: awaited(), ..blockage })
    }

    /// Returns the current books. Held fragments count as in flight.
    pub(super) fn books(&self) -> NodeBooks {
        let mut books = self.books.to_node_books();
        books.fragments.in_flight = self.slots.count_held();
        books
    }

    /// Passes the current books to `line`, without allocation.
    pub(super) fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.books.each_count(line);
        line(Counter::InFlight.count(self.slots.count_held()));
    }

    /// Returns the books, for counting.
    pub(super) fn books_mut(&mut self) -> &mut Books {
        &mut self.books
    }

    /// Returns the status to report. Fragments that are refused from now on count for the next report.
    pub(super) fn take_status(&mut self, state: DriverState) -> ReadoutStatus {
        let room = self.room();
        self.rooms.state(room);
        let Self { inputs, slots, .. } = self;
        inputs.take_status(slots.len(), room, state, |index| slots.exclusions().returning(index).is_some())
    }

    /// Returns whether the event manager must know the room earlier than by the next regular status.
    pub(super) fn is_room_due(&self) -> bool {
        self.config.room_from.is_some() && self.rooms.is_due()
    }

    /// Takes note that the source which delivered last has delivered more.
    pub(super) fn note_room_after_fragments(&mut self) {
        if self.config.room_from.is_none() {
            return;
        }
        // The others have the room that they had.
        if let Some((index, _)) = self.inputs.last()
            && self.rooms.concerns(self.inputs.room_of(index, self.released.highest()))
        {
            self.note_room();
        }
    }

    /// Takes note that the room of some sources may have changed.
    pub(super) fn note_room(&mut self) {
        if self.config.room_from.is_some() && !self.closed {
            let room = self.room();
            self.rooms.check(room);
        }
    }

    fn room(&self) -> Room {
        self.inputs.room(self.released.highest())
    }

    /// Returns the payloads that were freed since the last call.
    pub(super) fn discarded(&mut self) -> std::vec::Drain<'_, P> {
        self.discarded.drain(..)
    }

    /// Records that the data of a source wait until they are taken.
    pub(super) fn keep_data(&mut self, source: SourceId) {
        self.inputs.keep_data(source);
    }

    /// Records that a source gives its hits on request.
    pub(super) fn answer_on_request(&mut self, source: SourceId) {
        self.inputs.answer_on_request(source);
    }

    /// Returns the next order for sources that give their hits on request.
    pub(super) fn poll_window(&mut self) -> Option<WindowOrder> {
        self.windows.poll()
    }

    /// Settles a source as missing in an event, if it is awaited there.
    pub(super) fn handle_missing(&mut self, source: SourceId, event: EventId, reason: MissingReason) {
        if let (Some(index), Some(key)) = (self.inputs.index_of(source), self.slots.find(event)) {
            self.settle(key, index, reason);
        }
    }

    /// Notes that the program that feeds a source has gone, or is back.
    pub(super) fn note_gone(&mut self, now: Timestamp, source: SourceId, gone: bool) {
        self.inputs.note_gone(self.own_time.at(now), source, gone);
    }

    /// Records a stall of the node itself.
    pub(super) fn note_stall(&mut self, stall: Nanos) {
        self.own_time.note_stall(stall);
    }

    /// Ends the waits that are over at `now`.
    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        let own = self.own_time.at(now);
        while let Some((event, part)) =
            self.merge_deadlines.pop_due(own, |events, part| self.slots.count_settled(events, part))
        {
            self.give_up_waiting(now, event, part);
        }
        while let Some(event) = self.orphans.pop_due(own, &self.slots) {
            self.end_event(event, Ending::dropped(DropReason::UnknownEvent));
        }
    }

    /// Returns the next deadlines: of a silent source, and of an orphan.
    pub(super) fn deadlines(&mut self) -> [Option<Deadline>; 2] {
        let merge = self.merge_deadlines.peek(|events, part| self.slots.count_settled(events, part));
        let merge = merge.map(|(own, event, _)| (own, Why::SourceSilent(event)));
        let orphan = self.orphans.peek(&self.slots).map(|(own, event)| (own, Why::Orphan(event)));
        [merge, orphan].map(|wait| wait.map(|(own, why)| Deadline { at: self.own_time.to_common(own), why }))
    }

    // Incoming fragments.

    /// Takes a fragment from a source. Returns it as an error if the source's share of the buffer is full, or the run has closed.
    pub(super) fn handle_fragment(
        &mut self,
        now: Timestamp,
        fragment: Fragment<P>,
        reports: &mut Reports,
    ) -> Result<(), Fragment<P>> {
        if self.closed {
            return Err(fragment);
        }
        let Some(index) = self.inputs.find(fragment.source) else {
            self.books.receive(1, fragment.payload.len() as u64);
            self.drop_fragment(fragment, DropReason::UnknownSource);
            return Ok(());
        };
        let fragment = match self.take_excluded(now, index, fragment, reports) {
            Some(fragment) => fragment,
            None => return Ok(()),
        };
        let event = fragment.event;
        let bytes = fragment.payload.len();
        let known = self.slots.find(event);
        if !self.inputs.has_room(index, bytes)
            && self.takes_room(index, event, known)
            && !self.makes_way(now, index, bytes, known)
        {
            self.inputs.refuse(index, event);
            return Err(fragment);
        }
        self.books.receive(1, bytes as u64);
        if self.inputs.note(index, self.own_time.at(now), event) {
            self.books.count(Counter::OutOfOrder);
        }
        let key = match known {
            Some(key) => key,
            // The request was given up meanwhile: nothing of the event is lost.
            None if self.released.contains(event) && self.inputs.answers_on_request(index) => {
                self.drop_fragment(fragment, DropReason::NotRequested);
                return Ok(());
            }
            None if self.released.contains(event) => {
                self.drop_released(fragment);
                return Ok(());
            }
            None => self.orphans.open(event, &mut self.slots),
        };
        if self.inputs.is_announced(index) {
            self.announce(key, &fragment, reports);
        }
        self.fill(index, key, fragment);
        Ok(())
    }

    /// Takes fragments until one is refused. Returns the number taken.
    pub(super) fn handle_fragments(
        &mut self,
        now: Timestamp,
        fragments: &[Fragment<P>],
        reports: &mut Reports,
    ) -> usize {
        let mut taken = 0;
        while let Some(rest) = fragments.get(taken..).filter(|rest| !rest.is_empty()) {
            let regular = self.take_regular(now, rest, reports);
            taken += regular;
            if regular == 0 {
                if self.handle_fragment(now, rest[0].clone(), reports).is_err() {
                    break;
                }
                taken += 1;
            }
        }
        taken
    }

    /// Returns whether this unit reads a source.
    pub(super) fn reads(&self, source: SourceId) -> bool {
        self.inputs.index_of(source).is_some()
    }

    /// Returns the events of the fragments that a source has delivered.
    pub(super) fn delivered(&self, source: SourceId) -> Delivered {
        self.inputs.index_of(source).map(|index| self.inputs.delivered(index)).unwrap_or_default()
    }

    /// Settles a source as missing in the `count` events before `first`, which no fragment of it can have any more.
    pub(super) fn leave_out(&mut self, source: SourceId, first: EventId, count: u64) {
        let Some(index) = self.inputs.index_of(source) else { return };
        for event in (first.0.saturating_sub(count)..first.0).map(EventId) {
            let key = match self.slots.find(event) {
                Some(key) => key,
                None if self.released.contains(event) => continue,
                None => self.orphans.open(event, &mut self.slots),
            };
            self.settle(key, index, MissingReason::Renumbered);
        }
    }

    /// Drops a fragment whose event has one of the same source from before the source was renumbered.
    pub(super) fn refuse_repeated(&mut self, now: Timestamp, fragment: Fragment<P>) {
        if let Some(index) = self.inputs.index_of(fragment.source) {
            self.inputs.note_dropped(index, self.own_time.at(now));
        }
        self.books.receive(1, fragment.payload.len() as u64);
        self.drop_fragment(fragment, DropReason::Renumbered);
    }

    /// Records the end of a source. Returns false if it was recorded before.
    pub(super) fn handle_source_end(&mut self, source: SourceId) -> bool {
        let Some(index) = self.inputs.end(source) else {
            return false;
        };
        self.settle_end(index);
        true
    }

    /// Settles a source that has ended in the events that were requested.
    fn settle_end(&mut self, index: usize) {
        for key in self.slots.asked_keys() {
            self.settle(key, index, self.reason_of_end(index, key.event));
        }
    }

    /// Returns the reason for which a source that has ended is missing in an event. A unit that has joined the run late does not know
    /// what its sources had delivered before.
    fn reason_of_end(&self, index: usize, event: EventId) -> MissingReason {
        match self.inputs.reason_of_end(index, event) {
            MissingReason::SourceSkipped if self.joined_late => MissingReason::ReadoutRestarted,
            MissingReason::SourceAbsent if self.joined_late => MissingReason::SourceEnded,
            reason => reason,
        }
    }

    /// Returns whether a fragment would be held. A fragment whose event has ended, or already has one of the source, is dropped. It
    /// does not wait for room, because later events would then wait for its source.
    fn takes_room(&self, index: usize, event: EventId, known: Option<SlotKey>) -> bool {
        match known {
            Some(key) => matches!(self.slots.cells(key)[index], Cell::Waiting),
            None => !self.released.contains(event),
        }
    }

    /// Returns whether to accept a fragment that exceeds its source's share. A fragment that a builder waits
    /// for must not be blocked by fragments that are not requested. Requested fragments have a bound
    /// too: they are held until their events are released, and releases may be slow.
    ///
    /// The first requested event has room beyond all bounds. Otherwise two sources that are out of order, of two units, could fill
    /// their shares with fragments of events that each lack a fragment of the other one, and wait for each other.
    ///
    /// A source that gives on request has nothing but what builders wait for, in any order. So its fragments are never refused: their
    /// number is limited by the slots of the builder units, and their bytes by the source's own memory.
    fn makes_way(&mut self, now: Timestamp, index: usize, bytes: usize, known: Option<SlotKey>) -> bool {
        if !known.is_some_and(|key| self.slots.found(key).is_asked()) {
            return false;
        }
        if self.inputs.answers_on_request(index) {
            return true;
        }
        // The fragments that fill the source's share are older, and the builders have moved on.
        self.orphans.pass_over_all(self.own_time.at(now), &self.slots);
        self.inputs.has_room_if_asked(index, bytes)
            || known.is_some_and(|key| self.slots.is_first_asked(key.event))
    }

    fn announce(&mut self, key: SlotKey, fragment: &Fragment<P>, reports: &mut Reports) {
        if !std::mem::replace(&mut self.slots.found_mut(key).announced, true) {
            reports.announce(Announcement { event: fragment.event, time: fragment.time });
        }
    }

    /// Takes fragments as long as they are regular: of the same source as the last one, in order, with room
    /// for each, and valid. Returns the number taken.
    fn take_regular(&mut self, now: Timestamp, fragments: &[Fragment<P>], reports: &mut Reports) -> usize {
        let is_taken = |index: usize| !self.closed && !self.slots.exclusions().lasts(index);
        let Some((index, source)) = self.inputs.last().filter(|(index, _)| is_taken(*index)) else {
            return 0;
        };
        let announced = self.inputs.is_announced(index);
        let (mut taken, mut run) = (0, self.inputs.begin_run(index));
        let (mut opened, mut ready_for) = (EventIdRange::default(), None);
        for fragment in fragments {
            let (event, length) = (fragment.event, fragment.payload.len());
            if fragment.source != source
                || length as u64 > self.config.max_fragment.0
                || !run.takes(event, length)
            {
                break;
            }
            let key = match self.slots.find(event) {
                Some(key) => key,
                None if self.released.is_above_all(event) => {
                    if !opened.join(EventIdRange::one(event)) {
                        self.orphans.note_opened(opened, &self.slots);
                        opened = EventIdRange::one(event);
                    }
                    self.orphans.open_slot(event, &mut self.slots)
                }
                None => break,
            };
            let Filled::Now(ready) = self.slots.fill(key, index, fragment) else {
                break;
            };
            if let Some(builder) = ready {
                self.note_ready(&mut ready_for, builder, event);
            }
            if announced {
                self.announce(key, fragment, reports);
            }
            run.hold(event, length);
            taken += 1;
        }
        self.orphans.note_opened(opened, &self.slots);
        if let Some((builder, events)) = ready_for {
            self.ready.push(builder, events);
        }
        if taken > 0 {
            self.books.receive(taken as u64, run.bytes());
            self.inputs.end_run(index, self.own_time.at(now), run, &fragments[..taken]);
        }
        taken
    }

    /// Adds an event to the ready ones of a run of fragments, which are queued together: those of one builder, if they follow each
    /// other.
    #[inline]
    fn note_ready(&mut self, ready: &mut Option<(u16, EventIdRange)>, builder: u16, event: EventId) {
        let next = EventIdRange::one(event);
        let is_joined = ready.as_mut().is_some_and(|(of, events)| *of == builder && events.join(next));
        if !is_joined && let Some((builder, events)) = ready.replace((builder, next)) {
            self.ready.push(builder, events);
        }
    }

    fn fill(&mut self, index: usize, key: SlotKey, fragment: Fragment<P>) {
        if fragment.payload.len() as u64 > self.config.max_fragment.0 {
            let is_awaited = matches!(self.slots.cells(key)[index], Cell::Waiting);
            if is_awaited {
                self.drop_fragment(fragment, DropReason::TooLarge);
                self.settle(key, index, MissingReason::FragmentRefused);
                return;
            }
        } else if let Filled::Now(ready) = self.slots.fill(key, index, &fragment) {
            self.inputs.hold(index, fragment.payload.len());
            if let Some(builder) = ready {
                self.ready.push(builder, EventIdRange::one(key.event));
            }
            return;
        }
        let reason = match &self.slots.cells(key)[index] {
            Cell::Here(held) => {
                if held.conflicts_with(&fragment) {
                    self.books.count(Counter::ConflictingFragments);
                }
                DropReason::Duplicate
            }
            Cell::Missing(MissingReason::FragmentRefused) => DropReason::Duplicate,
            Cell::Missing(_) | Cell::Waiting => DropReason::Late,
        };
        self.drop_fragment(fragment, reason);
    }

    /// Drops a fragment of an event that was released. If the event ended without a request for it, the
    /// fragment is not counted as late.
    #[cold]
    fn drop_released(&mut self, fragment: Fragment<P>) {
        if self.released.is_passed_by(fragment.event) {
            self.books.pass_by(1, fragment.payload.len() as u64);
            self.discard(fragment);
        } else if self.released.is_excluded(fragment.event) {
            self.drop_fragment(fragment, DropReason::Excluded);
        } else {
            self.drop_fragment(fragment, DropReason::Late);
        }
    }

    #[cold]
    fn drop_fragment(&mut self, fragment: Fragment<P>, reason: DropReason) {
        self.books.drop_one(reason);
        self.discard(fragment);
    }

    fn discard(&mut self, fragment: Fragment<P>) {
        if P::IS_COUNTED_ELSEWHERE {
            self.discarded.push(fragment.payload);
        }
    }

    // Outgoing answers.

    /// Returns the next builder that is to receive an acknowledgement.
    pub(super) fn next_requester(&mut self) -> Option<u16> {
        self.ready.next_requester()
    }

    /// Returns the next builder with ready events that has room for an answer, and advances the turn.
    pub(super) fn next_builder(&mut self, has_room: impl Fn(u16) -> bool) -> Option<u16> {
        self.ready.next_builder(has_room)
    }

    /// Returns the next message for a builder, unless all its ready events have ended or belong to another builder.
    pub(super) fn compose(&mut self, builder: u16) -> Option<SuperFragments<P>> {
        let Self { slots, inputs, ready, config, .. } = self;
        let most = config.message_events;
        let mut answers = SuperFragments {
            entries: Vec::new(),
            fragments: Vec::with_capacity(ready.count(builder, most) * inputs.len()),
            missing: Vec::new(),
        };
        let (mut bytes, mut answered) = (0_u64, 0);
        while let Some(events) = ready.head(builder) {
            let room = config.message_bytes.0.saturating_sub(bytes);
            let complete = slots.answer_complete(*events, builder, most - answered, room, &mut answers);
            events.take(u64::from(complete.events));
            (bytes, answered) = (bytes + complete.bytes, answered + complete.events as usize);
            let Some(event) = events.first() else {
                ready.pop(builder);
                continue;
            };
            // A single event is sent regardless of its size.
            let room = match answered {
                0 => u64::MAX,
                full if full >= most => break,
                _ => config.message_bytes.0.saturating_sub(bytes),
            };
            match slots.answer(event, builder, room, &mut answers) {
                Answer::Given(more) => (bytes, answered) = (bytes + more, answered + 1),
                Answer::TooLarge => break,
                Answer::Void => {}
            }
            events.take(1);
            if events.is_empty() {
                ready.pop(builder);
            }
        }
        self.books.send(bytes);
        (answered > 0).then_some(answers)
    }
}
