//! The builder unit: requests events from the event manager, gathers a super-fragment of every readout unit, passes the
//! built event to its driver, and returns it when the driver has stored or rejected it.
//!
//! | what happens | what the builder does |
//! |---|---|
//! | all readout units have answered | the event is built |
//! | some have not, and are alive | it waits for as long as they are alive |
//! | those that have not are given up ([`crate::liveness`]) | by policy: waits on, builds with the available ones, or
//! drops |
//! | a readout unit has not answered for a while | repeats the request, at intervals that double; a second answer is
//! harmless |
//! | a super-fragment of an event that is not (or no longer) built here | ignored, counted `stale_super_fragments` |
//! | a second super-fragment of the same unit | ignored, counted `duplicate_super_fragments` |
//! | the events would exceed the memory bound | the youngest goes back to the event manager; one that exceeds it alone,
//! as `builder_out_of_memory` |
//! | an older event waits for a slot in a readout unit | the youngest goes back to the event manager |
//! | events are built in steps, and a part has all answers | the driver filters it: reject, enough, or more ([`Scope`])
//! |
//! | requests would exceed the credit | they wait ([`Asking`]) |
//! | a super-fragment arrives unrequested, before its event is assigned | kept, within a bound |
//! | the event manager has given this session up | all state is discarded; the driver starts a new session |

mod absent;
mod answered;
mod arrivals;
mod asks;
mod assembly;
mod config;
mod disagreements;
mod driver;
mod early;
mod owing;
mod pairs;
mod parts;
mod pull;
mod ranges;
mod returns;
mod room;
mod scope;
mod silence;
mod steps;
mod waits;
mod windows;

pub use config::{Asking, BuilderConfig, IncompletePolicy};
pub use driver::{BuilderEvent, Built, Decision};
pub use scope::{More, PartDecision, ReadoutSources, Scope};
pub use windows::{TriggerWindows, WindowExtent};

use crate::channel::{Channel, Received};
use crate::ledger::{Counter, NodeBooks};
use crate::liveness::{LinkStatus, Liveness};
use crate::machine::{Deadline, Identity, Transmit, Why};
use absent::AbsentReadouts;
use asks::Asks;
use assembly::{Assemblies, AssemblyKey};
use disagreements::Disagreements;
use driver::QueuedEvent;
use early::Early;
use owing::Owing;
use parts::{Parts, name_unasked};
pub(crate) use ranges::to_ranges;
use ranges::{append, to_ids};
use returns::Returns;
use scope::Question;
use sheaf_wire::message::{Assignment, Body, Command, Count, Disagreement, Message, Readiness, Work};
use sheaf_wire::{
    ByteCount, DropReason, Event, EventId, NodeId, Outcome, Payload, Role, SourceId, Timestamp,
};
use std::collections::VecDeque;
use waits::Waits;

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct BuilderUnit<P> {
    me: Identity,
    config: BuilderConfig,
    channel: Channel<P>,
    assemblies: Assemblies<P>,
    /// Bytes of all events in `assemblies`, under construction or built and not decided.
    held: ByteCount,
    returns: Returns,
    disagreements: Disagreements,
    asks: Asks,
    parts: Parts,
    /// Super-fragments that arrived before their event was assigned. Present only if readout units send without a
    /// request.
    early: Option<Early<P>>,
    /// Liveness of the readout units.
    readouts: Vec<Owing>,
    absent: AbsentReadouts,
    waits: Waits,
    books: NodeBooks,
    /// Events queued for the driver.
    queued: VecDeque<QueuedEvent<P>>,
    closed: bool,
    hands_over: bool,
    fenced: bool,
}

impl<P: Payload> BuilderUnit<P> {
    /// Creates a builder that requests events for all its slots at once.
    #[must_use]
    pub fn new(me: Identity, config: BuilderConfig, now: Timestamp) -> Self {
        assert_eq!(me.node.role, Role::Builder, "{} is not a builder unit", me.node);
        assert!(
            config.asking != Asking::Unasked || config.scope.is_everything(),
            "{}: readout units that send without a request send whole events",
            me.node
        );
        Self {
            me,
            channel: Channel::new(NodeId::MANAGER, config.channel),
            assemblies: Assemblies::new(
                config.readouts.len(),
                config.slots as usize,
                config.asking.is_bounded(),
            ),
            held: ByteCount::ZERO,
            returns: Returns::new(&config, now),
            disagreements: Disagreements::default(),
            asks: Asks::new(&config, me.node.index),
            parts: Parts::new(&config),
            early: (config.asking == Asking::Unasked).then(|| {
                let parts = (config.slots as usize).saturating_mul(config.readouts.len());
                Early::new(config.memory.0 / 4, parts)
            }),
            readouts: vec![Owing::new(now); config.readouts.len()],
            absent: AbsentReadouts::default(),
            waits: Waits::new(&config),
            books: NodeBooks::default(),
            queued: VecDeque::new(),
            closed: false,
            hands_over: false,
            fenced: false,
            config,
        }
    }

    /// Returns the identity of this builder unit.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// Returns whether events are incomplete without this source.
    #[must_use]
    pub fn is_required(&self, source: SourceId) -> bool {
        !self.config.optional.contains(&source)
    }

    /// Returns the liveness of the event manager.
    #[must_use]
    pub fn manager_liveness(&self) -> &Liveness {
        self.channel.liveness()
    }

    /// Returns the number of events under construction, the number of events that wait for a decision, and the payload
    /// bytes of both.
    #[must_use]
    pub fn held(&self) -> (usize, usize, ByteCount) {
        (self.assemblies.len(), self.assemblies.built(), self.held)
    }

    /// Returns the requested bytes that have not been answered. Counted only if a bound is configured.
    #[must_use]
    pub fn in_flight(&self) -> ByteCount {
        self.asks.in_flight()
    }

    /// Returns the current counters.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.books.clone();
        books.count(Counter::RepeatedMessages, self.channel.repeats());
        books
    }

    /// Passes the current counters to `line`, as the lines of a report, without allocation. Counts that are 0 may be absent.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.books.each_counter(line);
        line(Counter::RepeatedMessages.count(self.channel.repeats()));
    }

    /// Takes a message.
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        if header.run != self.me.run || self.fenced {
            self.books.count(Counter::StaleMessages, 1);
            return;
        }
        if let (Role::Readout, Some(readout)) =
            (header.sender.role, self.readouts.get_mut(usize::from(header.sender.index)))
        {
            readout.note_message(now);
            self.absent.note_message(header.sender.index);
        }
        match (header.sender.role, message.body) {
            // Answer to a repeated request: the readout unit is alive but does not have the fragments yet.
            (Role::Readout, Body::Acknowledge) => {}
            (Role::Readout, Body::SuperFragments(parts)) => {
                self.handle_super_fragments(now, header.sender.index, parts);
            }
            (Role::Manager, body) => {
                self.excuse_absent_readouts(now);
                match self.channel.handle(now, &self.me, &header, body) {
                    Received::Stale => self.books.count(Counter::StaleMessages, 1),
                    Received::PeerRestarted { .. } => self.notify(BuilderEvent::ManagerRestarted),
                    Received::Taken | Received::Duplicate | Received::BeyondWindow => {}
                }
                while let Some(body) = self.channel.poll_deliver() {
                    self.handle_manager(now, body);
                }
            }
            _ => self.books.count(Counter::UnexpectedMessages, 1),
        }
    }

    /// Returns whether events under construction and events that wait for a decision hold half of the payload memory.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        2 * self.held.0 >= self.config.memory.0
    }

    /// Returns whether `events` of the builder's events are the reason that it is full. They are if they occupy half of
    /// the slots, or if half of the memory is in use and they are half of all events.
    #[must_use]
    pub fn is_filled_by(&self, events: usize) -> bool {
        let is_memory_used = 2 * self.returns.taken().0 >= self.config.memory.0;
        let here = self.assemblies.len() + self.assemblies.built();
        2 * events >= self.config.slots as usize || (is_memory_used && events > 0 && 2 * events >= here)
    }

    /// Records whether the output delays the builder, so that the event manager can name the cause of dead
    /// time. The node decides this: it sees output errors and the number of events that wait for output.
    pub fn handle_output(&mut self, now: Timestamp, behind: bool) {
        self.returns.note_output(now, behind);
    }

    /// Records the work in progress on built events. It is sent to the event manager with the next request,
    /// at the latest with the next heartbeat. Only the end of a run depends on it, and the end waits for at
    /// least that long.
    pub fn handle_work(&mut self, work: Work) {
        self.returns.note_work(work);
    }

    /// Records whether built events can be judged. [`Readiness::Ready`] until the first call. While workers load their filters, the
    /// run does not start, and in a run in progress this builder gets no events.
    pub fn handle_readiness(&mut self, now: Timestamp, readiness: Readiness) {
        self.returns.note_readiness(now, readiness);
    }

    /// Records that fragments of a built event have check values that disagree with that of the event, before the decision on it:
    /// one entry for each fragment. It is the last of the `compared` events that the driver has compared so far. Not all are
    /// reported to the event manager; those that are, before the event's end.
    pub fn handle_disagreements(&mut self, compared: u64, disagreements: &[Disagreement]) {
        self.books.count(Counter::DisagreeingEvents, 1);
        self.books.count(Counter::DisagreeingFragments, disagreements.len() as u64);
        for disagreement in disagreements {
            self.disagreements.add(compared, *disagreement);
        }
    }

    /// Counts fragments of built events that have no check value.
    pub fn note_unchecked(&mut self, fragments: u64) {
        self.books.count(Counter::UncheckedFragments, fragments);
    }

    /// Records the decision on a built event. Events may be decided in any order. [`Decision::Stored`] must
    /// be given in the order of the events in this session's output, because the event manager derives the
    /// valid part of the output from their number. [`Decision::StoredAt`] carries its place and may be given
    /// in any order.
    ///
    /// # Panics
    /// If `event` is not built here, or is decided already.
    pub fn handle_decision(&mut self, now: Timestamp, event: EventId, decision: Decision) {
        let (outcome, reason) = match decision {
            Decision::Stored => (Outcome::Stored, None),
            Decision::StoredAt(place) => {
                self.returns.note_kept(place);
                (Outcome::Stored, None)
            }
            Decision::Rejected => (Outcome::Rejected, None),
            Decision::Dropped(reason) => (Outcome::Dropped, Some(reason)),
        };
        let assembly = self.assemblies.decide(event).expect("a decision follows a built event");
        self.held -= self.returns.finish(now, assembly, outcome, reason);
        assembly.clear_event();
    }

    /// Records the decision on a part of an event, and takes back the part that [`BuilderEvent::Part`] has given out.
    /// Parts may be decided in any order, also before earlier whole events.
    ///
    /// An event that is continued keeps its fragments. A readout unit that was silent in an earlier part receives no
    /// further requests; its sources are listed as missing.
    ///
    /// # Panics
    /// If no such part was given out.
    pub fn handle_part_decision(&mut self, now: Timestamp, part: Event<P>, decision: PartDecision) {
        if self.fenced {
            return;
        }
        let key = self.assemblies.find(part.id).expect("a decision follows a part");
        let assembly = &mut self.assemblies[key];
        assert!(assembly.at_driver && assembly.attempt == part.attempt, "event {}: no part is out", part.id);
        assembly.at_driver = false;
        (assembly.fragments, assembly.missing) = (part.fragments, part.missing);
        self.books.count(Counter::JudgedParts, 1);
        let (outcome, reason) = match decision {
            PartDecision::Rejected => {
                self.books.count(Counter::RejectedParts, 1);
                (Outcome::Rejected, None)
            }
            PartDecision::Dropped(reason) => (Outcome::Dropped, Some(reason)),
            PartDecision::More(more) if self.build_on(now, key, &more) => return,
            PartDecision::Enough | PartDecision::More(_) => {
                self.assemblies[key].is_last = true;
                self.complete(now, key);
                return;
            }
        };
        let assembly = &mut self.assemblies[key];
        let incomplete = assembly.is_incomplete(&self.config.optional);
        name_unasked(assembly, &self.config.readouts);
        self.finish(now, key, outcome, reason, incomplete);
    }

    /// Takes back the vectors of an event, so that the next event does not allocate.
    #[inline]
    pub fn recycle(&mut self, event: Event<P>) {
        self.assemblies.recycle(event);
    }

    /// Records the state of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        match peer.role {
            Role::Manager => {
                self.excuse_absent_readouts(now);
                self.channel.note_link(now, link);
            }
            Role::Readout => {
                if let Some(readout) = self.readouts.get_mut(usize::from(peer.index)) {
                    let is_back = readout.liveness.is_down() && link == LinkStatus::Up;
                    readout.liveness.note_link(now, link);
                    self.absent.note_link(peer.index, link);
                    if is_back {
                        self.ask_for_all_again(peer.index);
                    }
                }
            }
            Role::Builder | Role::Output | Role::Mirror => {}
        }
    }

    /// Records that the node itself was stalled and has been silent for longer than this machine's time
    /// shows.
    pub fn handle_stall(&mut self, now: Timestamp) {
        self.returns.send_heartbeat_at_once(now);
    }

    /// Handles all timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.give_up_the_lost(now);
        while let Some(event) = self.waits.pop_life_check(now, &self.assemblies) {
            self.give_up_waiting(now, event);
        }
        while let Some(event) = self.waits.pop_retry(now, &self.assemblies) {
            self.ask_again(now, event);
        }
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        if self.fenced {
            return None;
        }
        while let Some(Question { readout, ask, is_repeat, ranges }) =
            self.asks.next(now, &mut self.assemblies)
        {
            let windows = self.config.windows.as_ref();
            let body = if windows.is_none() && ask.part < 2 {
                Some(ask.into_body(ranges))
            } else {
                windows::request(windows, ask, ranges, &self.assemblies)
            };
            let Some(body) = body else { continue };
            if is_repeat {
                // Recorded when it is sent: a request that still waits for credit cannot be answered.
                self.readouts[usize::from(readout)].note_asked_again(now);
            }
            return Some(Transmit { to: NodeId::readout(readout), message: self.me.plain(body) });
        }
        self.fill_channel(now);
        let message = self.channel.poll_transmit(now, &self.me)?;
        Some(Transmit { to: NodeId::MANAGER, message })
    }

    /// Returns the next event for the driver.
    // Each event passes here, and a driver has a second caller at its end, so that the compiler would not inline it by itself.
    #[allow(clippy::inline_always)]
    #[inline(always)]
    pub fn poll_event(&mut self) -> Option<BuilderEvent<P>> {
        Some(match self.queued.pop_front()? {
            QueuedEvent::Built(key) => BuilderEvent::Built(Built(key)),
            QueuedEvent::Part(key) => BuilderEvent::Part(self.assemblies.at(key).take_event()),
            QueuedEvent::Other(event) => *event,
        })
    }

    /// Lends a built event to `see`, which may move fragments out of it ([`Event::take`]). The others are dropped. The
    /// event is not moved, and its vectors are reused.
    #[inline]
    pub fn lend<R>(&mut self, built: Built, see: impl FnOnce(&mut Event<P>) -> R) -> R {
        self.assemblies.lend(built.0, see)
    }

    /// Takes a built event, which the caller may keep longer than [`Self::lend`] allows.
    #[must_use]
    pub fn take(&mut self, built: Built) -> Event<P> {
        self.assemblies.at(built.0).take_event()
    }

    fn notify(&mut self, event: BuilderEvent<P>) {
        self.queued.push_back(QueuedEvent::Other(Box::new(event)));
    }

    /// Returns the latest time for the next call of [`Self::handle_timeout`] and [`Self::poll_transmit`].
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        if self.fenced {
            return None;
        }
        let [event, retry] = self.waits.deadlines(&self.assemblies);
        // Nothing can be sent while the channel is full. The acknowledgement that opens it triggers the next
        // attempt.
        let [batch, heartbeat] = self.returns.due_at().map(|at| at.filter(|_| self.channel.is_open()));
        let batch = batch.map(|at| Deadline { at, why: Why::Batch });
        let heartbeat = heartbeat.map(|at| Deadline { at, why: Why::Heartbeat });
        let lost = self.next_loss().map(|at| Deadline { at, why: Why::PeersSilent });
        let all = [event, retry, batch, heartbeat, lost];
        all.into_iter().fold(self.channel.poll_timeout(), Deadline::earliest)
    }

    // Messages from and to the event manager.

    fn handle_manager(&mut self, now: Timestamp, body: Body<P>) {
        match body {
            Body::Assign(assignments) => self.handle_assignments(now, &assignments),
            Body::Command(Command::Start) => self.notify(BuilderEvent::Started),
            Body::Command(Command::Close) => self.close(),
            Body::Command(Command::HandOver { .. }) => {
                self.hands_over = true;
                self.close();
            }
            Body::Command(Command::GiveWay) => self.give_way(now),
            Body::Fence(session) if session == self.me.session => {
                self.fenced = true;
                self.notify(BuilderEvent::Fenced);
            }
            Body::Fence(_) => self.books.count(Counter::StaleMessages, 1),
            Body::Shape(shape) => self.asks.note_shape(shape),
            Body::ExcludeReadout(order) => self.handle_exclusion(now, order),
            Body::Record(record) => self.notify(BuilderEvent::Record(record)),
            _ => self.books.count(Counter::UnexpectedMessages, 1),
        }
    }

    fn handle_assignments(&mut self, now: Timestamp, assignments: &[Assignment]) {
        for assignment in assignments {
            self.absent.note_assigned(assignment.event);
            if self.assemblies.open(now, assignment).is_some() {
                self.returns.charge(assignment.charged);
            } else {
                // Assigned twice: the event manager never does that within a session.
                self.books.count(Counter::UnexpectedMessages, 1);
            }
        }
        if !self.config.scope.is_everything() {
            self.asks.expect(expected_size(assignments));
            self.begin_in_parts(now, assignments);
            return;
        }
        let ranges = to_ranges(assignments);
        for range in &ranges {
            self.waits.begin_all(now, range, &self.assemblies);
        }
        let some_absent = ranges.iter().any(|range| self.absent.concern(to_ids(range)));
        if self.early.is_some() {
            if some_absent {
                // First: an event does not have what an excluded readout unit has sent.
                self.build_without_absent(now, assignments);
            }
            self.take_early(now, assignments);
        } else {
            let Self { asks, absent, .. } = self;
            let is_excluded =
                |readout: u16| ranges.iter().all(|range| absent.exclude_all(readout, to_ids(range)));
            asks.ask_all(&ranges, expected_size(assignments), is_excluded);
            if some_absent {
                self.build_without_absent(now, assignments);
            }
        }
    }

    fn fill_channel(&mut self, now: Timestamp) {
        let idle = self.assemblies.len() == 0 && self.assemblies.built() == 0;
        while self.channel.is_open()
            && let Some(reports) = self.disagreements.take()
        {
            self.channel.push(Body::Disagreements(reports));
        }
        if !self.channel.is_open() {
            return;
        }
        let awaits_answer = || self.channel.awaits(|body| matches!(body, Body::Request(_)));
        if self.returns.is_mere_heartbeat(now, idle) && awaits_answer() {
            // A slow event manager would have to read all unanswered heartbeats before anything else.
            self.returns.skip_heartbeat(now);
            self.channel.acknowledge_now();
        } else if let Some(request) = self.returns.next(now, idle) {
            self.channel.push(Body::Request(request));
        }
    }

    /// Ends an event that is not passed to the driver, or not passed on again.
    fn finish(
        &mut self,
        now: Timestamp,
        key: AssemblyKey,
        outcome: Outcome,
        reason: Option<DropReason>,
        incomplete: bool,
    ) {
        self.asks.give_up_all(&mut self.assemblies[key]);
        let assembly = self.assemblies.close(key);
        assembly.sum_up(incomplete);
        self.held -= self.returns.finish(now, assembly, outcome, reason);
        assembly.clear();
    }

    fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.returns.close();
        self.channel.push(Body::Report(self.books().to_counts()));
        self.notify(BuilderEvent::Closed);
    }

    fn give_back(&mut self, now: Timestamp, key: AssemblyKey, reason: Option<DropReason>) {
        self.books.count(Counter::GivenBack, 1);
        self.assemblies[key].clear();
        self.finish(now, key, Outcome::GivenBack, reason, false);
    }

    fn complete(&mut self, now: Timestamp, key: AssemblyKey) {
        if key.part() > 0 {
            if self.hand_over_part(key) {
                return;
            }
            name_unasked(&mut self.assemblies[key], &self.config.readouts);
        }
        if let Some(early) = &mut self.early {
            early.end(key.event);
        }
        let assembly = &mut self.assemblies[key];
        self.asks.give_up_all(assembly);
        let incomplete = assembly.is_incomplete(&self.config.optional);
        assembly.sort();
        if incomplete && self.config.incomplete == IncompletePolicy::Drop {
            self.finish(now, key, Outcome::Dropped, Some(DropReason::Incomplete), true);
            return;
        }
        assembly.sum_up(incomplete);
        self.assemblies.hand_over(key);
        self.queued.push_back(QueuedEvent::Built(key));
    }
}

/// Maximum number of events in one message of repeated requests, or of requests for parts.
const MESSAGE_EVENTS: u64 = 256;

fn index_u16(index: usize) -> u16 {
    u16::try_from(index).expect("the configuration has at most 65,535 readout units")
}

/// Returns the expected size of the events.
fn expected_size(assignments: &[Assignment]) -> u64 {
    assignments.first().map_or(0, |assignment| u64::from(assignment.charged))
}

#[cfg(test)]
mod tests;
