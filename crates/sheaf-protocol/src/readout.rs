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
mod orders;
mod ready;
mod requests;
mod slots;
mod stretch;

use crate::channel::{Channel, ChannelTimes, Received};
use crate::event_set::EventSet;
use crate::flow::SlotClock;
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::{Link, Liveness};
use crate::machine::{Deadline, EventDeadlines, Identity, Transmit, Why};
use books::{Books, Ending};
use ready::Ready;
use requests::Wanted;
use rustc_hash::FxHashMap;
use sheaf_wire::message::{Announcement, Body, Message, SuperFragments};
use sheaf_wire::{
    ByteCount, DropReason, EventId, Fragment, MissingReason, Nanos, NodeId, Payload, Role, SourceId,
    Timestamp,
};
use slots::{Answer, Cell, Filled, SlotKey, Slots};
use std::collections::VecDeque;
use stretch::Stretch;

/// Number of separate ranges of released events that a readout unit remembers. Older gaps count as released.
const RELEASED_RANGES: usize = 4096;

/// Number of separate ranges of expired events that a readout unit remembers. For older gaps, too, it does not wait
/// without limit.
const EXPIRED_RANGES: usize = 4096;

/// One source of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Its number.
    pub id: SourceId,
    /// Whether an event without it is complete all the same.
    pub optional: bool,
}

/// Which new event ids a readout unit tells the event manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// None: triggers come from elsewhere.
    Never,
    /// Those of this source.
    Source(SourceId),
    /// Those of all its sources, each once.
    All,
}

/// Configuration of a readout unit. Memory: payload up to `buffer`, and up to as much again for events that builders
/// have requested (a source may hold one fragment in any case); bookkeeping of some 100 bytes a held fragment.
#[derive(Clone, Debug)]
pub struct ReadoutConfig {
    /// The sources that it reads.
    pub sources: Vec<SourceConfig>,
    /// Payload that it holds at most, shared out evenly to the sources; twice that with events that are asked for.
    pub buffer: ByteCount,
    /// Fragments that it holds at most of one source; twice that with events that are asked for.
    pub buffer_events: usize,
    /// The largest fragment that it takes.
    pub max_fragment: ByteCount,
    /// Which ids it announces.
    pub announce: Announce,
    /// Time for which it waits for silent sources after the request for an event. A source that sends lower ids is
    /// behind but not silent; the builder's timeout for the event bounds the wait for it.
    pub merge_timeout: Nanos,
    /// Whether it waits for required sources without limit instead.
    pub wait_for_required: bool,
    /// Time after which an orphan is dropped: a fragment whose event is not requested although later ones are. No limit
    /// if `None`. The time does not run while nothing is requested, so that back-pressure loses nothing.
    pub orphan_timeout: Option<Nanos>,
    /// It answers with messages of at most this much payload (one super-fragment may be larger).
    pub message_bytes: ByteCount,
    /// It answers with at most this many super-fragments a message.
    pub message_events: usize,
    /// It takes at most this many events in one request message.
    pub request_events: usize,
    /// It reports its state at least this often.
    pub heartbeat: Nanos,
    /// Times of the channel to the event manager.
    pub channel: ChannelTimes,
}

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
    slots: Slots<P>,
    released: EventSet,
    /// The highest event that was released. Nearly all that come are above.
    highest_released: Option<EventId>,
    /// Of the released ones, events of which not all was asked for.
    passed_by: EventSet,
    /// Events of which fragments were dropped because nothing asked for them in time.
    expired: EventSet,
    sources: FxHashMap<SourceId, usize>,
    inputs: Vec<Input>,
    /// The place of the source that gave the last fragment: mostly the next one's, too.
    last_input: usize,
    /// Whether some source has ended.
    some_ended: bool,
    /// Builders that have asked once more for what is not there yet: they are told that they were heard.
    heard: VecDeque<u16>,
    /// Payload that is held of one source at most, where no builder has asked for it.
    share: u64,
    /// Super-fragments ready to go.
    ready: Ready,
    announcements: VecDeque<Announcement>,
    /// The event manager's clock, and when it last spoke on shaping by it.
    slot_clock: SlotClock,
    shaped_at: Timestamp,
    /// Waits for silent sources, by the part of the event that is asked for.
    merge_deadlines: EventDeadlines<u16>,
    /// Time for which the node was held up in all. Waits are measured in its own time, without it.
    held_up: Nanos,
    /// Events that a fragment opened and nobody has asked for, in the order of their age.
    unasked: VecDeque<Stretch>,
    next_age: u64,
    /// Events younger than this have been asked for: older ones that were not are passed over.
    passed: u64,
    /// Events passed over.
    orphan_deadlines: EventDeadlines<()>,
    status_at: Timestamp,
    refused_since_status: bool,
    books: Books,
    events: VecDeque<ReadoutEvent>,
    discarded: Vec<P>,
    /// The run was under way when this unit came: what its sources sent before is gone, and even where required sources
    /// are awaited without limit, `merge_timeout` ends the wait.
    joined_late: bool,
    closed: bool,
}

/// Fragments held of one source, and its progress.
#[derive(Clone, Debug)]
struct Input {
    id: SourceId,
    optional: bool,
    /// Whether its events are announced.
    announced: bool,
    ended: bool,
    held_events: usize,
    held: ByteCount,
    highest: Option<EventId>,
    /// Its data wait until they are taken: it is never silent, only not as far yet.
    keeps_data: bool,
    /// When it last gave a fragment, by the node's own time.
    gave_at: Timestamp,
    /// The event of the fragment that was refused for lack of room, until it is taken.
    held_back: Option<EventId>,
}

impl<P: Payload> ReadoutUnit<P> {
    /// A readout unit that holds nothing yet. It speaks first: its state is due at `now`.
    #[must_use]
    pub fn new(me: Identity, config: ReadoutConfig, now: Timestamp) -> Self {
        assert_eq!(me.node.role, Role::Readout, "{} is not a readout unit", me.node);
        let sources = config.sources.iter().enumerate().map(|(index, source)| (source.id, index)).collect();
        let input = |source: &SourceConfig| Input {
            id: source.id,
            optional: source.optional,
            announced: match config.announce {
                Announce::Never => false,
                Announce::All => true,
                Announce::Source(id) => id == source.id,
            },
            ended: false,
            held_events: 0,
            held: ByteCount::ZERO,
            highest: None,
            keeps_data: false,
            gave_at: now,
            held_back: None,
        };
        Self {
            me,
            channel: Channel::new(NodeId::MANAGER, config.channel),
            slots: Slots::new(config.sources.iter().map(|source| source.id)),
            released: EventSet::new(RELEASED_RANGES),
            highest_released: None,
            passed_by: EventSet::new(RELEASED_RANGES),
            expired: EventSet::new(EXPIRED_RANGES),
            sources,
            inputs: config.sources.iter().map(input).collect(),
            last_input: 0,
            some_ended: false,
            heard: VecDeque::new(),
            share: config.buffer.0 / (config.sources.len() as u64).max(1),
            ready: Ready::default(),
            announcements: VecDeque::new(),
            slot_clock: SlotClock::default(),
            shaped_at: Timestamp::ZERO,
            merge_deadlines: EventDeadlines::new(),
            held_up: Nanos::ZERO,
            unasked: VecDeque::new(),
            next_age: 0,
            passed: 0,
            orphan_deadlines: EventDeadlines::new(),
            status_at: now,
            refused_since_status: false,
            books: Books::default(),
            events: VecDeque::new(),
            discarded: Vec::new(),
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
        (ByteCount(self.inputs.iter().map(|input| input.held.0).sum()), self.slots.len())
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
        let Some(index) = self.input_of(fragment.source) else {
            self.books.receive(1, fragment.payload.len() as u64);
            self.drop_fragment(fragment, DropReason::UnknownSource);
            return Ok(());
        };
        let event = fragment.event;
        let bytes = fragment.payload.len();
        let known = self.slots.find(event);
        if !self.inputs[index].has_room(bytes, self.share, self.config.buffer_events)
            && !self.makes_way(now, index, bytes, known)
        {
            self.refused_since_status = true;
            self.inputs[index].held_back = Some(event);
            return Err(fragment);
        }
        self.books.receive(1, bytes as u64);
        let input = &mut self.inputs[index];
        let announced = input.announced;
        if input.note(Timestamp(now.0.saturating_sub(self.held_up.0)), event) {
            self.books.count(Counter::OutOfOrder);
        }
        let key = match known {
            Some(key) => key,
            None if self.released.contains(event) => {
                self.drop_released(fragment);
                return Ok(());
            }
            None => self.open_slot(event),
        };
        if announced {
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
        let Some(&index) = self.sources.get(&source) else {
            return;
        };
        if std::mem::replace(&mut self.inputs[index].ended, true) {
            return;
        }
        self.some_ended = true;
        self.status_at = now;
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
        if let Some(&index) = self.sources.get(&source) {
            self.inputs[index].keeps_data = true;
        }
    }

    /// Takes note that the node was held up itself for so long, and has not looked: no wait goes on meanwhile.
    pub fn handle_stall(&mut self, stall: Nanos) {
        self.held_up = self.held_up + stall;
    }

    /// The node's own time at `now`, without its stalls.
    fn own(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_sub(self.held_up.0))
    }

    /// Takes note of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: Link) {
        if peer == NodeId::MANAGER {
            self.channel.note_link(now, link);
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let own = self.own(now);
        while let Some((event, part)) =
            self.merge_deadlines.pop_due(own, |event, part| self.slots.is_merging(event, part))
        {
            self.give_up_waiting(now, event, part);
        }
        while let Some((event, ())) =
            self.orphan_deadlines.pop_due(own, |event, ()| self.slots.orphan(event).is_some())
        {
            self.expired.insert_range(event, 1);
            self.end_event(event, Ending::dropped(DropReason::UnknownEvent));
        }
    }

    /// The next message that is no answer. A driver that takes no more answers for now, because it is busy with those that
    /// it has, asks for this in place of [`Self::poll_transmit`]; requests then wait, as many as builder units have credit for.
    pub fn poll_control(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(builder) = self.heard.pop_front() {
            return Some(Transmit {
                to: NodeId::builder(builder),
                message: self.me.plain(Body::Acknowledge),
            });
        }
        self.fill_channel(now);
        let message = self.channel.poll_transmit(now, &self.me)?;
        Some(Transmit { to: NodeId::MANAGER, message })
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
        let merge = self.merge_deadlines.peek(|event, part| self.slots.is_merging(event, part));
        let everybodys = |own: Timestamp| Timestamp(own.0.saturating_add(self.held_up.0));
        let merge =
            merge.map(|(at, event, _)| Deadline { at: everybodys(at), why: Why::SourceSilent(event) });
        let orphan = self.orphan_deadlines.peek(|event, ()| self.slots.orphan(event).is_some());
        let orphan = orphan.map(|(at, event, ())| Deadline { at: everybodys(at), why: Why::Orphan(event) });
        // While the channel is full nothing can be said: the acknowledgement that opens it is the next chance.
        let may_speak = !self.closed && self.channel.is_open() && self.announcements.is_empty();
        let heartbeat = may_speak.then_some(Deadline { at: self.status_at, why: Why::Heartbeat });
        [merge, orphan, heartbeat].into_iter().fold(self.channel.poll_timeout(), Deadline::earliest)
    }

    // Fragments in.

    fn input_of(&mut self, source: SourceId) -> Option<usize> {
        if self.inputs.get(self.last_input).is_none_or(|input| input.id != source) {
            self.last_input = *self.sources.get(&source)?;
        }
        Some(self.last_input)
    }

    /// Whether a fragment that does not fit its source's share is taken all the same: one that a builder waits for must not wait
    /// for room that fragments take up which nobody asks for. Still there is a bound: events that are answered stay until they
    /// are released, and that news may be slow.
    fn makes_way(&mut self, now: Timestamp, index: usize, bytes: usize, known: Option<SlotKey>) -> bool {
        if !known.is_some_and(|key| self.slots.found(key).is_asked()) {
            return false;
        }
        // What fills the source's share came earlier, and the builders are further on.
        self.pass_over(now, self.next_age, Stretch::default());
        self.inputs[index].has_room(
            bytes,
            self.share.saturating_mul(2),
            self.config.buffer_events.saturating_mul(2),
        )
    }

    fn open_slot(&mut self, event: EventId) -> SlotKey {
        let key = self.slots.insert(event, self.next_age);
        self.next_age += 1;
        if self.config.orphan_timeout.is_some()
            && !self.unasked.back_mut().is_some_and(|last| last.join(Stretch::one(event)))
        {
            self.unasked.push_back(Stretch::one(event));
            if self.unasked.len() > 64 + 2 * self.slots.len() {
                let Self { unasked, slots, .. } = self;
                unasked.retain_mut(|stretch| {
                    let settled = stretch.events().take_while(|event| slots.orphan(*event).is_none());
                    stretch.take(settled.count() as u64);
                    !stretch.is_empty()
                });
            }
        }
        key
    }

    /// Notes that events were `asked` for, the youngest of which is `age` old: the time of older ones that were not begins to
    /// run.
    fn pass_over(&mut self, now: Timestamp, age: u64, asked: Stretch) {
        let Some(timeout) = self.config.orphan_timeout else {
            return;
        };
        self.passed = self.passed.max(age);
        let own = self.own(now);
        while let Some(oldest) = self.unasked.front_mut() {
            // Mostly just these are the oldest: there is no need to look at each.
            oldest.take(oldest.begins_within(asked));
            let Some(event) = oldest.first() else {
                self.unasked.pop_front();
                continue;
            };
            if let Some(slot) = self.slots.orphan(event) {
                if slot.age >= self.passed {
                    break;
                }
                let is_orphan = |event, ()| self.slots.orphan(event).is_some();
                self.orphan_deadlines.push(own + timeout, event, 1, (), is_orphan);
            }
            oldest.take(1);
        }
    }

    fn announce(&mut self, key: SlotKey, fragment: &Fragment<P>) {
        if !std::mem::replace(&mut self.slots.found_mut(key).announced, true) {
            self.announcements.push_back(Announcement { event: fragment.event, time: fragment.time });
        }
    }

    /// Takes fragments as long as they are as nearly all are: of the source that gave the last one, in order, with room for
    /// each and nothing to be said against it. Returns how many.
    fn take_regular(&mut self, now: Timestamp, fragments: &[Fragment<P>]) -> usize {
        let (share, buffer_events) = (self.share, self.config.buffer_events);
        let (mut taken, mut bytes) = (0, 0);
        let own = self.own(now);
        let index = self.last_input;
        let Some(input) = self.inputs.get(index).filter(|_| !self.closed) else {
            return 0;
        };
        let (source, announced) = (input.id, input.announced);
        for fragment in fragments {
            let (event, length) = (fragment.event, fragment.payload.len());
            let input = &self.inputs[index];
            if fragment.source != source
                || input.highest.is_some_and(|highest| event <= highest)
                || length as u64 > self.config.max_fragment.0
                || !input.has_room(length, share, buffer_events)
            {
                break;
            }
            let key = match self.slots.find(event) {
                Some(key) => key,
                None if Some(event) > self.highest_released => self.open_slot(event),
                None => break,
            };
            let Filled::Now(ready) = self.slots.fill(key, index, fragment) else {
                break;
            };
            if let Some(builder) = ready {
                self.ready.push(builder, Stretch::one(event));
            }
            if announced {
                self.announce(key, fragment);
            }
            let input = &mut self.inputs[index];
            input.highest = Some(event);
            input.hold(length);
            taken += 1;
            bytes += length as u64;
        }
        if taken > 0 {
            let input = &mut self.inputs[index];
            (input.gave_at, input.held_back) = (own, None);
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
            self.inputs[index].hold(fragment.payload.len());
            if let Some(builder) = ready {
                self.ready.push(builder, Stretch::one(key.event));
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
        if self.passed_by.contains(fragment.event) {
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

impl Input {
    /// Whether there is no room for the source's next fragment, and an event is still to come, or just that.
    fn is_held_back_before(&self, event: EventId) -> bool {
        !self.ended && self.held_back.is_some_and(|next| next <= event)
    }

    /// Whether a fragment of so many bytes fits where `most` bytes and `most_events` fragments may be held.
    fn has_room(&self, bytes: usize, most: u64, most_events: usize) -> bool {
        // The first fragment always fits, or a share smaller than a fragment would stop the source for ever.
        self.held_events == 0 || (self.held.0 + bytes as u64 <= most && self.held_events < most_events)
    }

    fn hold(&mut self, bytes: usize) {
        self.held_events += 1;
        self.held += ByteCount::from(bytes);
    }

    fn let_go(&mut self, bytes: usize) {
        self.held_events -= 1;
        self.held -= ByteCount::from(bytes);
    }

    /// Takes note of a fragment. Whether it came after one of a higher event.
    fn note(&mut self, now: Timestamp, event: EventId) -> bool {
        (self.gave_at, self.held_back) = (now, None);
        let before = self.highest.replace(event);
        let is_late = before.is_some_and(|before| event < before);
        if is_late {
            self.highest = before;
        }
        is_late
    }
}

#[cfg(test)]
mod tests;
