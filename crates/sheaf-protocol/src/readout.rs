//! The readout unit: merges the fragments of its sources into one super-fragment an event, and holds them until the
//! event manager releases the event.
//!
//! Possible fates of a fragment here, and the names under which they are booked:
//!
//! | the fragment | outcome |
//! |---|---|
//! | is the first of its source for an event that is not released | held |
//! | finds its source's share of the buffer full | refused with no loss: the driver offers it again (back-pressure) |
//! | ... and is for an event that a builder has asked for | held, up to twice the share |
//! | has an id lower than the one before it | held; counted as `out_of_order` |
//! | repeats an id that is held | dropped, `duplicate` |
//! | is for an event that was released, or answered without it | dropped, `late` |
//! | is larger than allowed | dropped, `too_large`; its source is missing in the event at once |
//! | is of a source that this unit does not read | dropped, `unknown_source` |
//! | is of an event that ended without anybody having asked for it, or comes after that end | dropped, `not_requested` |
//! | is passed over: later ones are asked for, and its event is not within the orphan time | dropped, `unknown_event`; if the event is asked for later, nobody waits for it without limit |
//! | is still held when the run closes | dropped, `never_triggered` |

mod books;
mod config;
mod delay;
mod inputs;
mod orders;
mod orphans;
mod own_time;
mod ready;
mod released;
mod reports;
mod requests;
mod slots;

pub use config::{Announce, ReadoutConfig, SourceConfig};

use crate::channel::{Channel, Received};
use crate::event_range::EventIdRange;
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::{LinkStatus, Liveness};
use crate::machine::{Deadline, EventDeadlines, Identity, Transmit, Why};
use books::{Books, Ending};
use inputs::Inputs;
use orders::ShapeClock;
use orphans::Orphans;
use own_time::OwnTime;
use ready::Ready;
use released::Released;
use reports::Reports;
use requests::Wanted;
use sheaf_wire::message::{Announcement, Body, Message, SuperFragments};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, MissingReason, Nanos, NodeId, Payload, Role, SourceId,
    Timestamp,
};
use slots::{Answer, Cell, EventSlots, Filled, SlotKey};
use std::collections::VecDeque;

/// Event for the driver of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadoutEvent {
    /// All nodes are there: sources may send.
    Started,
    /// The run closes: stop the sources.
    Closed,
    /// The event manager lives anew; it knows nothing of this run any more.
    ManagerRestarted,
    /// Traffic is shaped so from now on. Where there is a barrel shifter this comes again and again, as the clocks of the two
    /// nodes drift apart.
    Shape {
        /// Whether the barrel turns.
        turning: bool,
        /// From when its slots are counted, on this node's clock.
        epoch: Timestamp,
    },
}

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct ReadoutUnit<P> {
    me: Identity,
    config: ReadoutConfig,
    channel: Channel<P>,
    slots: EventSlots<P>,
    released: Released,
    inputs: Inputs,
    orphans: Orphans,
    /// Super-fragments ready to go.
    ready: Ready,
    reports: Reports,
    shape_clock: ShapeClock,
    own_time: OwnTime,
    /// Waits for silent sources, by the part of the event that is asked for.
    merge_deadlines: EventDeadlines<u16>,
    /// Its driver processes fragments before they leave.
    processing: bool,
    books: Books,
    events: VecDeque<ReadoutEvent>,
    discarded: Vec<P>,
    /// The run was under way when this unit came: what its sources sent before is gone, and even where required sources
    /// are awaited without limit, `merge_timeout` ends the wait.
    /// It was told that the run has begun: sources send from then on.
    has_begun: bool,
    joined_late: bool,
    closed: bool,
}

impl<P: Payload> ReadoutUnit<P> {
    /// A readout unit that holds nothing yet. It speaks first: its state is due at `now`.
    #[must_use]
    pub fn new(me: Identity, config: ReadoutConfig, now: Timestamp) -> Self {
        assert_eq!(me.node.role, Role::Readout, "{} is not a readout unit", me.node);
        Self {
            me,
            channel: Channel::new(NodeId::MANAGER, config.channel),
            slots: EventSlots::new(config.sources.iter().map(|source| source.id)),
            released: Released::new(),
            inputs: Inputs::new(&config, now),
            orphans: Orphans::new(config.orphan_timeout),
            ready: Ready::default(),
            reports: Reports::new(&config, now),
            shape_clock: ShapeClock::default(),
            own_time: OwnTime::default(),
            merge_deadlines: EventDeadlines::new(),
            processing: false,
            books: Books::default(),
            events: VecDeque::new(),
            discarded: Vec::new(),
            has_begun: false,
            joined_late: false,
            closed: false,
            config,
        }
    }

    /// Who this is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// Whether the run has closed and the event manager has this unit's books.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closed && self.channel.is_settled()
    }

    /// Whether the event manager lives, as far as can be known.
    #[must_use]
    pub fn manager_liveness(&self) -> &Liveness {
        self.channel.liveness()
    }

    /// Payload bytes and events held now.
    #[must_use]
    pub fn held(&self) -> (ByteCount, usize) {
        (self.inputs.held(), self.slots.len())
    }

    /// The books as they stand; what is held counts as in flight.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.books.to_node_books();
        books.fragments.in_flight = self.slots.count_held();
        books.count(Counter::RepeatedMessages, self.channel.repeats());
        books
    }

    /// Takes a fragment from a source.
    ///
    /// # Errors
    /// Gives the fragment back while the source's share of the buffer is full, or after the run has closed: the
    /// driver keeps it and offers it again. That is the back-pressure; nothing is lost by it.
    pub fn handle_fragment(&mut self, now: Timestamp, fragment: Fragment<P>) -> Result<(), Fragment<P>> {
        if self.closed {
            return Err(fragment);
        }
        let Some(index) = self.inputs.find(fragment.source) else {
            self.books.receive(1, fragment.payload.len() as u64);
            self.drop_fragment(fragment, DropReason::UnknownSource);
            return Ok(());
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
            None if self.released.contains(event) => {
                self.drop_released(fragment);
                return Ok(());
            }
            None => self.orphans.open(event, &mut self.slots),
        };
        if self.inputs.is_announced(index) {
            self.announce(key, &fragment);
        }
        self.fill(index, key, fragment);
        Ok(())
    }

    /// Takes fragments one after another, as [`Self::handle_fragment`] does each, until one is refused. Returns how many it
    /// has taken; the driver offers the others again.
    pub fn handle_fragments(&mut self, now: Timestamp, fragments: &[Fragment<P>]) -> usize {
        let mut taken = 0;
        while let Some(rest) = fragments.get(taken..).filter(|rest| !rest.is_empty()) {
            let regular = self.take_regular(now, rest);
            taken += regular;
            if regular == 0 {
                if self.handle_fragment(now, rest[0].clone()).is_err() {
                    break;
                }
                taken += 1;
            }
        }
        taken
    }

    /// Takes note that a source will send nothing more.
    pub fn handle_source_end(&mut self, now: Timestamp, source: SourceId) {
        let Some(index) = self.inputs.end(source) else {
            return;
        };
        self.reports.report_at(now);
        for key in self.slots.asked_keys() {
            self.settle(key, index, MissingReason::SourceEnded);
        }
    }

    /// Takes a message.
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        if header.run != self.me.run {
            self.books.count(Counter::StaleMessages);
            return;
        }
        match (header.sender.role, message.body) {
            (Role::Builder, Body::FragmentRequest(ranges)) => {
                self.handle_requests(now, header.sender.index, &ranges, Wanted::All);
            }
            (Role::Builder, Body::PartRequest(request)) => {
                self.handle_part_request(now, header.sender.index, &request);
            }
            (Role::Manager, body) => {
                match self.channel.handle(now, &self.me, &header, body) {
                    Received::Stale => self.books.count(Counter::StaleMessages),
                    Received::PeerRestarted { .. } => self.events.push_back(ReadoutEvent::ManagerRestarted),
                    Received::Taken | Received::Duplicate | Received::BeyondWindow => {}
                }
                while let Some(body) = self.channel.poll_deliver() {
                    self.handle_manager(now, body);
                }
            }
            _ => self.books.count(Counter::UnexpectedMessages),
        }
    }

    /// Takes note that the data of a source wait until they are taken, as recorded data do: it has no deadline. It misses in an
    /// event only when it has ended or given a later one.
    pub fn wait_for_source(&mut self, source: SourceId) {
        self.inputs.keep_data(source);
    }

    /// Takes note that the node was held up itself for so long, and has not looked: no wait goes on meanwhile.
    pub fn handle_stall(&mut self, stall: Nanos) {
        self.own_time.note_stall(stall);
    }

    /// Takes note of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        if peer == NodeId::MANAGER {
            self.channel.note_link(now, link);
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
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

    /// The next message that is no answer. A driver that takes no more answers for now, because it is busy with those that
    /// it has, asks for this in place of [`Self::poll_transmit`]; requests then wait, as many as builder units have credit for.
    pub fn poll_control(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(builder) = self.ready.next_heard() {
            return Some(Transmit {
                to: NodeId::builder(builder),
                message: self.me.plain(Body::Acknowledge),
            });
        }
        self.fill_channel(now);
        let message = self.channel.poll_transmit(now, &self.me)?;
        Some(Transmit { to: NodeId::MANAGER, message })
    }

    /// Takes note of whether its driver processes fragments before they leave. The event manager hears of it with the next status:
    /// it matters to the end of a run alone, which waits for that.
    pub fn handle_processing(&mut self, processing: bool) {
        self.processing = processing;
    }

    /// Takes note that so many bytes less than were composed left the unit, because its driver has processed them.
    pub fn note_saved(&mut self, bytes: u64) {
        self.books.save(bytes);
    }

    /// Takes note that so many bytes more than were composed left the unit, because its driver has processed them.
    pub fn note_added(&mut self, bytes: u64) {
        self.books.send(bytes);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(control) = self.poll_control(now) {
            return Some(control);
        }
        // A queue may hold nothing but events that were released or given to another builder meanwhile.
        while let Some(builder) = self.ready.next_builder() {
            if let Some(parts) = self.compose(builder) {
                let message = self.me.plain(Body::SuperFragments(parts));
                return Some(Transmit { to: NodeId::builder(builder), message });
            }
        }
        None
    }

    /// The next thing for the driver to know.
    pub fn poll_event(&mut self) -> Option<ReadoutEvent> {
        self.events.pop_front()
    }

    /// The payloads that the unit has let go since the last call, because their events ended or they were dropped: to be
    /// taken after every call, where [`Payload::IS_COUNTED_ELSEWHERE`]. Empty for other payloads.
    pub fn discarded(&mut self) -> std::vec::Drain<'_, P> {
        self.discarded.drain(..)
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_transmit`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        let merge = self.merge_deadlines.peek(|events, part| self.slots.count_settled(events, part));
        let merge = merge.map(|(own, event, _)| (own, Why::SourceSilent(event)));
        let orphan = self.orphans.peek(&self.slots).map(|(own, event)| (own, Why::Orphan(event)));
        let [merge, orphan] = [merge, orphan]
            .map(|wait| wait.map(|(own, why)| Deadline { at: self.own_time.to_common(own), why }));
        // While the channel is full nothing can be said: the acknowledgement that opens it is the next chance.
        let heartbeat = self.reports.due_at().filter(|_| self.channel.is_open());
        let heartbeat = heartbeat.map(|at| Deadline { at, why: Why::Heartbeat });
        [merge, orphan, heartbeat].into_iter().fold(self.channel.poll_timeout(), Deadline::earliest)
    }

    // Fragments in.

    /// Whether a fragment is held when it is taken. One whose event has ended, or has it already, is dropped: it waits for no room,
    /// or events would wait for its source behind it.
    fn takes_room(&self, index: usize, event: EventId, known: Option<SlotKey>) -> bool {
        match known {
            Some(key) => matches!(self.slots.cells(key)[index], Cell::Waiting),
            None => !self.released.contains(event),
        }
    }

    /// Whether a fragment that does not fit its source's share is taken all the same: one that a builder waits for must not wait
    /// for room that fragments take up which nobody asks for. Still there is a bound: events that are answered stay until they
    /// are released, and that news may be slow.
    fn makes_way(&mut self, now: Timestamp, index: usize, bytes: usize, known: Option<SlotKey>) -> bool {
        if !known.is_some_and(|key| self.slots.found(key).is_asked()) {
            return false;
        }
        // What fills the source's share came earlier, and the builders are further on.
        self.orphans.pass_over_all(self.own_time.at(now), &self.slots);
        self.inputs.has_room_if_asked(index, bytes)
    }

    fn announce(&mut self, key: SlotKey, fragment: &Fragment<P>) {
        if !std::mem::replace(&mut self.slots.found_mut(key).announced, true) {
            self.reports.announce(Announcement { event: fragment.event, time: fragment.time });
        }
    }

    /// Takes fragments as long as they are as nearly all are: of the source that gave the last one, in order, with room for
    /// each and nothing to be said against it. Returns how many.
    fn take_regular(&mut self, now: Timestamp, fragments: &[Fragment<P>]) -> usize {
        let (mut taken, mut bytes) = (0, 0);
        let Some((index, source)) = self.inputs.last().filter(|_| !self.closed) else {
            return 0;
        };
        let announced = self.inputs.is_announced(index);
        for fragment in fragments {
            let (event, length) = (fragment.event, fragment.payload.len());
            if fragment.source != source
                || length as u64 > self.config.max_fragment.0
                || !self.inputs.goes_on(index, event, length)
            {
                break;
            }
            let key = match self.slots.find(event) {
                Some(key) => key,
                None if self.released.is_above_all(event) => self.orphans.open(event, &mut self.slots),
                None => break,
            };
            let Filled::Now(ready) = self.slots.fill(key, index, fragment) else {
                break;
            };
            if let Some(builder) = ready {
                self.ready.push(builder, EventIdRange::one(event));
            }
            if announced {
                self.announce(key, fragment);
            }
            self.inputs.go_on(index, event, length);
            taken += 1;
            bytes += length as u64;
        }
        if taken > 0 {
            self.inputs.note_given(index, self.own_time.at(now), &fragments[..taken]);
            self.books.receive(taken as u64, bytes);
        }
        taken
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
        let reason = match self.slots.cells(key)[index] {
            Cell::Here(_) | Cell::Missing(MissingReason::FragmentRefused) => DropReason::Duplicate,
            Cell::Missing(_) | Cell::Waiting => DropReason::Late,
        };
        self.drop_fragment(fragment, reason);
    }

    /// A fragment of an event that was released. What nobody wanted of an event that has ended cannot be too late for it.
    #[cold]
    fn drop_released(&mut self, fragment: Fragment<P>) {
        if self.released.is_passed_by(fragment.event) {
            self.books.pass_by(1, fragment.payload.len() as u64);
            self.discard(fragment);
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

    // Answers out.

    fn compose(&mut self, builder: u16) -> Option<SuperFragments<P>> {
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
            // One event goes in any case, however large it is.
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

#[cfg(test)]
mod tests;
