//! The readout unit: merges the fragments of its sources into one super-fragment per event, and holds them until the
//! event manager releases the event.
//!
//! Outcomes of a fragment in the readout unit, and the names under which they are booked:
//!
//! | the fragment | outcome |
//! |---|---|
//! | is the first of its source for an event that is not released | held |
//! | finds its source's share of the buffer full | refused without loss: the driver offers it again (back-pressure) |
//! | ... and is for an event that a builder has requested | held, up to twice the share; without limit for the first such event |
//! | ... and is of a source that gives on request | held, without limit: builders request no more than they have slots for |
//! | has an id lower than the one before it | held; counted as `out_of_order` |
//! | repeats an id that is held | dropped, `duplicate` |
//! | is for an event that was released, or answered without it | dropped, `late` |
//! | is larger than allowed | dropped, `too_large`; its source is missing in the event at once |
//! | is of a source that this unit does not read | dropped, `unknown_source` |
//! | is of a source that an operator has excluded | dropped, `excluded` |
//! | is of an event that ended without a request for it, or arrives after that end | dropped, `not_requested` |
//! | is passed over: later events are requested, but its event is not requested within the orphan timeout | dropped, `unknown_event`; if the event is requested later, the wait for the fragment has a limit |
//! | is still held when the run closes | dropped, `never_triggered` |
//! | ... and is for an event of the next run in this node | handed over, and not in the books of this run |
//!
//! The unit itself handles the communication: its channel, its reports, the commands of the event manager. The merger handles
//! fragments, and owns them together with sources, requests, timeouts and books (`readout/merger.rs`).

mod books;
mod config;
mod delay;
mod inputs;
mod merger;
mod orphans;
mod own_time;
mod reached;
mod ready;
mod records;
mod released;
mod renumbering;
mod reports;
mod room;
mod shape_clock;
mod slots;
mod windows;

pub use config::{Announce, ReadoutConfig, SourceConfig};
pub use windows::WindowOrder;

use crate::channel::{Channel, Received};
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::{LinkStatus, Liveness};
use crate::machine::{Deadline, Identity, Transmit, Why};
use crate::manager::DISPATCH_EVENTS;
use inputs::DriverState;
use merger::{Merger, Wanted};
use records::Records;
use renumbering::{Moved, Renumbering};
use reports::Reports;
use shape_clock::ShapeClock;
use sheaf_wire::checksum::crc32c_append;
use sheaf_wire::message::{Body, Command, Count, Destination, Message, Recorded};
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{
    ByteCount, EventId, Fragment, MissingReason, Nanos, NodeId, Payload, Role, SourceId, Timestamp,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Event for the driver of a readout unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadoutEvent {
    /// All nodes are connected: sources may send.
    Started {
        /// An event below which all have ended, if the run had begun before.
        floor: Option<EventId>,
    },
    /// The run is paused: no new events follow. Sources may send.
    Paused,
    /// The run is resumed.
    Resumed,
    /// The run closes: stop the sources, unless the unit [hands over](ReadoutUnit::hands_over) to another run.
    Closed,
    /// An operator has excluded a source, or includes it again.
    Excluded {
        /// The source.
        source: SourceId,
        /// Whether it is excluded. Its program is not awaited.
        excluded: bool,
    },
    /// The event manager has answered a run record.
    Recorded(Recorded),
    /// The event manager has restarted and has lost the state of this run.
    ManagerRestarted,
    /// New parameters of traffic shaping. With a barrel shifter this event is repeated, because the clocks of the two nodes drift
    /// apart.
    Shape {
        /// Whether the barrel shifter is active.
        turning: bool,
        /// Epoch of its time slots, on this node's clock.
        epoch: Timestamp,
    },
}

/// A source for whose next fragment there is no room, and what its unit waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blockage {
    /// The source.
    pub source: SourceId,
    /// Event of the fragment without room.
    pub event: EventId,
    /// Number of fragments held of the source.
    pub held_fragments: usize,
    /// Their payload.
    pub held: ByteCount,
    /// The oldest requested event that is not complete, and the sources that it waits for.
    pub awaited: Option<(EventId, Vec<SourceId>)>,
}

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct ReadoutUnit<P> {
    me: Identity,
    channel: Channel<P>,
    merger: Merger<P>,
    reports: Reports,
    shape_clock: ShapeClock,
    renumbering: Renumbering,
    records: Records,
    driver: DriverState,
    /// First event of the next run, once this one has closed and another one follows.
    next: Option<EventId>,
    events: VecDeque<ReadoutEvent>,
}

impl<P: Payload> ReadoutUnit<P> {
    /// Creates an empty readout unit. It sends the first message: its status is due at `now`.
    #[must_use]
    pub fn new(me: Identity, config: ReadoutConfig, now: Timestamp) -> Self {
        assert_eq!(me.node.role, Role::Readout, "{} is not a readout unit", me.node);
        Self {
            me,
            channel: Channel::new(NodeId::MANAGER, config.channel),
            reports: Reports::new(&config, now),
            merger: Merger::new(config, now),
            shape_clock: ShapeClock::default(),
            renumbering: Renumbering::default(),
            records: Records::default(),
            driver: DriverState::default(),
            next: None,
            events: VecDeque::new(),
        }
    }

    /// Returns the unit's identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// Returns whether the run has closed and the event manager has this unit's books.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.records.is_reported() && self.channel.is_settled()
    }

    /// Returns the signs of life of the event manager.
    #[must_use]
    pub fn manager_liveness(&self) -> &Liveness {
        self.channel.liveness()
    }

    /// Returns the payload bytes and the number of events currently held.
    #[must_use]
    pub fn held(&self) -> (ByteCount, usize) {
        self.merger.held()
    }

    /// Returns whether an operator has excluded a source, and it has delivered nothing since.
    #[must_use]
    pub fn is_excluded(&self, source: SourceId) -> bool {
        self.merger.is_excluded(source)
    }

    /// Returns, in the order of the configuration, whether each source is behind: a fragment of it is requested that it has not given. A source
    /// that no trigger asks for is not behind, nor is one that is excluded or has ended.
    pub fn behind(&self) -> impl Iterator<Item = bool> {
        self.merger.behind()
    }

    /// Returns the first source for whose next fragment there is no room. This is the usual back-pressure, unless it lasts.
    #[must_use]
    pub fn blockage(&self) -> Option<Blockage> {
        self.merger.blockage()
    }

    /// Returns the current books. Held fragments count as in flight.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.merger.books();
        books.count(Counter::RepeatedMessages, self.channel.repeats());
        books
    }

    /// Returns a digest of the books, by which a mirror is compared with its unit.
    #[must_use]
    pub fn digest(&self) -> u32 {
        let mut digest = 0;
        self.each_count(&mut |Count { code, reason, value }| {
            let line = (u64::from(code) << 16 | u64::from(reason), value);
            digest = crc32c_append(crc32c_append(digest, &line.0.to_le_bytes()), &line.1.to_le_bytes());
        });
        digest
    }

    /// Returns the highest event of which a source has delivered a fragment.
    #[must_use]
    pub fn highest_delivered(&self, source: SourceId) -> Option<EventId> {
        self.merger.delivered(source).highest
    }

    /// Passes the current books to `line`, as the lines of a report, without allocation. Counts that are 0 may be absent.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.merger.each_count(line);
        line(Counter::RepeatedMessages.count(self.channel.repeats()));
    }

    /// Takes a fragment from a source.
    ///
    /// # Errors
    /// Returns the fragment if the source's share of the buffer is full, or the run has closed. The driver keeps it and
    /// offers it again. This is the back-pressure, which loses nothing.
    pub fn handle_fragment(&mut self, now: Timestamp, fragment: Fragment<P>) -> Result<(), Fragment<P>> {
        if self.renumbering.concerns(fragment.source) {
            return self.handle_renumbered_fragment(now, fragment);
        }
        let taken = self.merger.handle_fragment(now, fragment, &mut self.reports);
        self.merger.note_room_after_fragments();
        taken
    }

    /// Takes fragments one after another, as [`Self::handle_fragment`], until one is refused. Returns the number taken; the
    /// driver offers the others again.
    pub fn handle_fragments(&mut self, now: Timestamp, fragments: &[Fragment<P>]) -> usize {
        let concerned = |fragment: &Fragment<P>| self.renumbering.concerns(fragment.source);
        if !self.renumbering.is_empty() && fragments.iter().any(concerned) {
            let takes = |fragment: &&Fragment<P>| self.handle_fragment(now, (*fragment).clone()).is_ok();
            return fragments.iter().take_while(takes).count();
        }
        let taken = self.merger.handle_fragments(now, fragments, &mut self.reports);
        self.merger.note_room_after_fragments();
        taken
    }

    /// Takes a fragment of a source whose event numbers are repaired.
    fn handle_renumbered_fragment(
        &mut self,
        now: Timestamp,
        fragment: Fragment<P>,
    ) -> Result<(), Fragment<P>> {
        if self.merger.is_closed() {
            return Err(fragment);
        }
        let (source, event) = (fragment.source, fragment.event);
        while self.renumbering.is_ordered(source)
            && let Some(seam) = self.renumbering.begin(source, event, self.merger.delivered(source))
        {
            self.merger.leave_out(source, seam.answer.first, seam.left_out);
            self.reports.renumbered(seam.answer);
        }
        match self.renumbering.apply(fragment.clone()) {
            Moved::To(moved) => {
                self.merger.handle_fragment(now, moved, &mut self.reports).map_err(|_| fragment)?;
                self.merger.books_mut().count(Counter::RenumberedFragments);
            }
            Moved::Taken => self.merger.refuse_repeated(now, fragment),
        }
        Ok(())
    }

    /// Records that a source will send nothing more.
    pub fn handle_source_end(&mut self, now: Timestamp, source: SourceId) {
        let answer = self.merger.end_return(now, source);
        answer.into_iter().for_each(|answer| self.reports.excluded(answer));
        if self.merger.handle_source_end(source) {
            self.reports.report_at(now);
        }
    }

    /// Handles a message.
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        if header.run != self.me.run {
            self.merger.books_mut().count(Counter::StaleMessages);
            return;
        }
        match (header.sender.role, message.body) {
            (Role::Builder, Body::FragmentRequest(ranges)) => {
                self.merger.handle_requests(now, header.sender.index, &ranges, Wanted::All);
            }
            (Role::Builder, Body::PartRequest(request)) => {
                self.merger.handle_part_request(now, header.sender.index, &request);
            }
            (Role::Builder, Body::WindowRequest(request)) => {
                self.merger.handle_window_request(now, header.sender.index, &request);
            }
            (Role::Manager, body) => {
                match self.channel.handle(now, &self.me, &header, body) {
                    Received::Stale => self.merger.books_mut().count(Counter::StaleMessages),
                    Received::PeerRestarted { .. } => self.events.push_back(ReadoutEvent::ManagerRestarted),
                    Received::Taken | Received::Duplicate | Received::BeyondWindow => {}
                }
                while let Some(body) = self.channel.poll_deliver() {
                    self.handle_manager(now, body);
                }
            }
            _ => self.merger.books_mut().count(Counter::UnexpectedMessages),
        }
    }

    /// Records that the data of a source wait until they are taken, as recorded data do. Such a source has no timeout: it is missing
    /// in an event only if it has ended or delivered a later one.
    pub fn wait_for_source(&mut self, source: SourceId) {
        self.merger.keep_data(source);
    }

    /// Records that a source gives its hits on request: it has no fragment unless a builder requests a window of time, and
    /// [`Self::poll_window`] has the requests.
    pub fn answer_on_request(&mut self, source: SourceId) {
        self.merger.answer_on_request(source);
    }

    /// Returns the next order for sources that give their hits on request.
    pub fn poll_window(&mut self) -> Option<WindowOrder> {
        self.merger.poll_window()
    }

    /// Records that a source has no fragment of an event that was requested of it, for this reason.
    pub fn handle_missing(&mut self, source: SourceId, event: EventId, reason: MissingReason) {
        self.merger.handle_missing(source, event, reason);
    }

    /// Returns whether the run has closed and another one follows in this node: sources go on, and [`Self::take_held`] has the first fragments
    /// of the next run.
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the first event of the next run, if this one has closed and another one follows in this node.
    #[must_use]
    pub fn next_event(&self) -> Option<EventId> {
        self.next
    }

    /// Records that the run begins with the event `first`, because another run in this node has ended with the event before. Late fragments of
    /// that run are dropped.
    pub fn begin_with(&mut self, first: EventId) {
        self.merger.begin_with(first);
    }

    /// Returns the fragments of the next run that this unit held when it closed, in the order of their events. They are not in its books.
    pub fn take_held(&mut self) -> Vec<Fragment<P>> {
        self.merger.take_held()
    }

    /// Takes note that the program that feeds a source has gone or is not there yet, or that it is back. While it is gone, its events
    /// wait only as long as for a source that is silent. So do they once it is back, until its first fragment, unless it came before
    /// the run began: it may lack events that were triggered before.
    pub fn handle_source_gone(&mut self, now: Timestamp, source: SourceId, gone: bool) {
        self.merger.note_gone(now, source, gone);
    }

    /// Records that the node itself was stalled for this time. Timeouts do not run during a stall.
    pub fn handle_stall(&mut self, stall: Nanos) {
        self.merger.note_stall(stall);
    }

    /// Records the state of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        if peer == NodeId::MANAGER {
            self.channel.note_link(now, link);
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.merger.handle_timeout(now);
    }

    /// Returns the next message that is not an answer. A driver that is busy with earlier answers calls this instead of
    /// [`Self::poll_transmit`]. Requests then wait; their number is limited by the credit of builder units.
    pub fn poll_control(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if let Some(builder) = self.merger.next_requester() {
            return Some(Transmit {
                to: NodeId::builder(builder),
                message: self.me.plain(Body::Acknowledge),
            });
        }
        self.fill_channel(now);
        let message = self.channel.poll_transmit(now, &self.me)?;
        Some(Transmit { to: NodeId::MANAGER, message })
    }

    /// Records whether the driver processes fragments before they are sent. It is sent to the event manager
    /// with the next status. Only the end of a run depends on it.
    pub fn handle_processing(&mut self, processing: bool) {
        self.driver.processing = processing;
    }

    /// Records whether programs that feed its sources are awaited. The event manager does not start the run meanwhile, without any
    /// time limit.
    pub fn handle_waiting(&mut self, now: Timestamp, waiting: bool) {
        if std::mem::replace(&mut self.driver.waiting, waiting) != waiting {
            self.reports.report_at(now);
        }
    }

    /// Takes a run record of a program, of which the event manager is asked. [`ReadoutEvent::Recorded`] has the answer. Each source may
    /// have one record without an answer.
    pub fn handle_record(&mut self, record: Arc<RunRecord>) {
        self.records.push(record);
    }

    /// Records whether programs may send further run records. The end of the run waits for these, for ten seconds at most.
    pub fn handle_recording(&mut self, more: bool) {
        self.records.note_more(more);
    }

    /// Records that a program that feeds its sources declines the start of the run, which then does not take place.
    pub fn handle_decline(&mut self, now: Timestamp) {
        self.driver.declines = true;
        self.reports.report_at(now);
    }

    /// Records the bytes by which the driver's processing has reduced the data sent.
    pub fn note_saved(&mut self, bytes: u64) {
        self.merger.books_mut().save(bytes);
    }

    /// Records the bytes by which the driver's processing has increased the data sent.
    pub fn note_added(&mut self, bytes: u64) {
        self.merger.books_mut().send(bytes);
    }

    /// Returns the next message to send, by a driver that keeps nothing back.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.poll_transmit_if(now, |_| true)
    }

    /// Returns the next message to send. It is an answer only to a builder unit that `has_room`.
    ///
    /// A driver in which answers wait, for their time slot or for a full link, limits them by this. An event that waits in the
    /// unit is answered once, however often the builder unit repeats its request meanwhile, and not at all after its end. An
    /// answer that waits in the driver is sent in any case: if requests were repeated faster than answers leave, copies would fill the
    /// line, and the event that all wait for would be behind them.
    pub fn poll_transmit_if(
        &mut self,
        now: Timestamp,
        has_room: impl Fn(u16) -> bool,
    ) -> Option<Transmit<P>> {
        if let Some(control) = self.poll_control(now) {
            return Some(control);
        }
        // A queue may hold nothing but events that were released or given to another builder meanwhile.
        while let Some(builder) = self.merger.next_builder(&has_room) {
            if let Some(parts) = self.merger.compose(builder) {
                let message = self.me.plain(Body::SuperFragments(parts));
                return Some(Transmit { to: NodeId::builder(builder), message });
            }
        }
        None
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<ReadoutEvent> {
        self.events.pop_front()
    }

    /// Returns the payloads that the unit has freed since the last call, because their events ended or they were dropped. If
    /// [`Payload::IS_COUNTED_ELSEWHERE`], drain it after every call; it is empty for other payloads.
    pub fn discarded(&mut self) -> std::vec::Drain<'_, P> {
        self.merger.discarded()
    }

    /// Returns when to call [`Self::handle_timeout`] and [`Self::poll_transmit`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        // Nothing can be sent while the channel is full. The acknowledgement that opens it triggers the next
        // attempt.
        let heartbeat = self.reports.due_at().filter(|_| self.channel.is_open());
        let heartbeat = heartbeat.map(|at| Deadline { at, why: Why::Heartbeat });
        let [merge, orphan] = self.merger.deadlines();
        let records = self.records.due_at().map(|at| Deadline { at, why: Why::Drain });
        [merge, orphan, heartbeat, records].into_iter().fold(self.channel.poll_timeout(), Deadline::earliest)
    }

    // Communication with the event manager.

    /// Passes reports that are due to the channel, as far as it has room.
    fn fill_channel(&mut self, now: Timestamp) {
        self.report_if_due(now);
        let Self { channel, reports, merger, driver, records, .. } = self;
        // At most one status is on its way: the next one follows when this one is acknowledged.
        if merger.is_room_due() && !channel.awaits(|body| matches!(body, Body::ReadoutStatus(_))) {
            reports.report_at(now);
        }
        if reports.is_status_due(now)
            && !reports.owes_division()
            && channel.awaits(|body| matches!(body, Body::ReadoutStatus(_)))
        {
            // A slow event manager would have to read all of them before anything else.
            reports.skip_status(now);
            channel.acknowledge_now();
        }
        while channel.is_open()
            && let Some(body) = reports.next(now, || merger.take_status(*driver))
        {
            channel.push(body);
        }
        while channel.is_open()
            && let Some(record) = records.next()
        {
            channel.push(Body::Record(record));
        }
    }

    /// Reports the books once the run has closed and no further run record is awaited.
    fn report_if_due(&mut self, now: Timestamp) {
        if self.records.is_report_due(now) {
            self.reports.close();
            self.channel.push(Body::Report(self.books().to_counts()));
        }
    }

    fn handle_manager(&mut self, now: Timestamp, body: Body<P>) {
        match body {
            Body::Release(releases) => {
                for release in releases {
                    self.merger.handle_release(release);
                }
                self.merger.note_room();
            }
            Body::Command(Command::Start) => self.begin(now, None),
            Body::Command(Command::Join { floor }) => self.begin(now, Some(floor)),
            Body::Command(Command::Pause) => self.events.push_back(ReadoutEvent::Paused),
            Body::Command(Command::Resume) => self.events.push_back(ReadoutEvent::Resumed),
            Body::Command(Command::Divide) => self.reports.divide(now),
            Body::Command(Command::Close) => self.close(now, None),
            Body::Command(Command::HandOver { first }) => self.close(now, Some(first)),
            Body::Dispatch(destinations) => self.handle_dispatch(now, &destinations),
            Body::Shape(shape) => self.events.extend(self.shape_clock.note(now, shape)),
            Body::Renumber(order)
                if self.merger.reads(order.source) && self.renumbering.order(order.source, order.shift) => {}
            Body::Exclude(order) => {
                let answer = self.merger.handle_exclusion(now, order);
                answer.into_iter().for_each(|answer| self.reports.excluded(answer));
                self.merger.note_room();
                self.reports.report_at(now);
                self.events
                    .push_back(ReadoutEvent::Excluded { source: order.source, excluded: order.excluded });
            }
            Body::Recorded(answer) if self.records.handle_answer(&answer) => {
                self.events.push_back(ReadoutEvent::Recorded(answer));
            }
            _ => self.merger.books_mut().count(Counter::UnexpectedMessages),
        }
    }

    /// Sends events to a builder without a request, as if it had requested them. The event manager limits
    /// their number.
    fn handle_dispatch(&mut self, now: Timestamp, destinations: &[Destination]) {
        let mut left = DISPATCH_EVENTS;
        for Destination { events, builder } in destinations {
            let Some(rest) = left.checked_sub(u64::from(events.count)) else {
                self.merger.books_mut().count(Counter::UnexpectedMessages);
                return;
            };
            left = rest;
            self.merger.handle_range(now, *builder, events, u64::MAX, Wanted::All);
        }
    }

    /// Lets sources send. If the run had begun before the unit connected, all events below `floor` have ended.
    fn begin(&mut self, now: Timestamp, floor: Option<EventId>) {
        self.events.push_back(ReadoutEvent::Started { floor });
        self.merger.begin(now, floor);
    }

    /// Closes the run at this unit. The books are reported once no further run record is awaited.
    /// Fragments from the event `next` on are those of the next run in this node.
    fn close(&mut self, now: Timestamp, next: Option<EventId>) {
        if self.merger.close(next) {
            self.records.close(now);
            self.next = next;
            self.events.push_back(ReadoutEvent::Closed);
        }
    }
}

#[cfg(test)]
mod tests;
