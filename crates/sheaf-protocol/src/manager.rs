//! The event manager: owns the trigger stream, assigns events to builders that have credit, books every event's end,
//! and tells the readout units to release it.
//!
//! Triggers come from one of three places ([`Triggers`]). A trigger that is accepted is booked as received; from then
//! on the event is queued, assigned, or ended, and its end is one bin of the [`Ledger`]. A trigger that finds the queue
//! full is vetoed: it is not an event. The time in which a trigger would be vetoed is dead time, by cause; live time and
//! dead time together are the time of the run ([`DeadTime`]).
//!
//! A builder that is silent for too long, or that comes back with a new session, has lost what it had not returned:
//! those events go to other builders, first in the queue. What it had returned as stored counts: the number of stored
//! events of each session is the part of its output that is valid ([`ManagerEvent::BuilderLost`]). Where output nodes store,
//! the places that builders name are the part that is valid ([`EventManager::kept`], [`crate::output`]).

mod assigning;
mod backlog;
mod builders;
mod config;
mod credit;
mod dead_time;
mod desertion;
mod draining;
mod ending;
mod news;
mod outputs;
mod peers;
mod phase;
mod precedence;
mod releases;
mod shaping;
mod suspects;
mod totals;

pub use config::{ManagerConfig, Shaping, Triggers};
pub use dead_time::{DeadTime, DeadTimeCause};
pub use draining::Awaited;
pub use news::{Ended, ManagerEvent, Tallies, Veto};
pub use totals::StoredTotals;

use crate::channel::Received;
use crate::event_set::EventSet;
use crate::event_window::EventWindow;
use crate::ledger::{Counter, Ledger, NodeBooks};
use crate::liveness::LinkStatus;
use crate::machine::{Deadline, Identity, Transmit, Why};
use backlog::Backlog;
use builders::{BuilderState, Builders, EndedSession};
use dead_time::Shut;
use desertion::Desertion;
use outputs::Outputs;
use peers::Peers;
use phase::{Phase, RunPhase};
use precedence::Precedence;
use releases::Releases;
pub(crate) use shaping::DISPATCH_EVENTS;
use shaping::{Dispatches, Steering};
use sheaf_wire::message::{Announcement, Assignment, Body, Command, Message, ReadoutStatus, Request};
use sheaf_wire::{ByteCount, DropReason, EventId, NodeId, Role, SessionId, Timestamp, TriggerType};
use std::collections::{BTreeMap, VecDeque};
use totals::Totals;

/// Number of separate ranges of ended events that the event manager remembers. Older gaps count as ended.
const ENDED_RANGES: usize = 65_536;

/// The window of events may have more than this many places for each event: builders differ in pace.
const SPREAD: usize = 2;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The event's time, in the time base of whoever triggered it.
    time: Timestamp,
    /// When it became an event, on the clock of this machine.
    began: Timestamp,
    trigger_type: TriggerType,
    /// Number of builders that have been given the event, including the present one.
    attempt: u16,
    /// Number of those that could not build it, or died of it as far as can be known, without those that gave it back to make way for
    /// others.
    failures: u16,
    /// Number of those that died while they had it, for whatever reason.
    deaths: u8,
    /// The present builder, or the last.
    builder: Option<u16>,
    assigned: bool,
}

impl Entry {
    /// An event that no builder has had.
    fn waiting(time: Timestamp, began: Timestamp, trigger_type: TriggerType) -> Self {
        Self { time, began, trigger_type, attempt: 0, failures: 0, deaths: 0, builder: None, assigned: false }
    }

    /// Whether a builder has it, in this attempt.
    fn is_at(&self, builder: u16, attempt: u16) -> bool {
        self.assigned && self.builder == Some(builder) && self.attempt == attempt
    }

    /// Gives it to a builder; what that is told.
    fn assign_to(&mut self, builder: u16, event: EventId, charged: u32) -> Assignment {
        self.attempt += 1;
        self.builder = Some(builder);
        self.assigned = true;
        let Self { time, trigger_type, attempt, .. } = *self;
        Assignment { event, time, trigger_type, attempt, charged }
    }
}

#[derive(Debug, Default)]
struct ReadoutState {
    status: Option<ReadoutStatus>,
    /// It was told to close, after everything that it was to release.
    told_to_close: bool,
    reported: bool,
}

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct EventManager<P> {
    me: Identity,
    config: ManagerConfig,
    phase: RunPhase,
    peers: Peers<P>,
    builders: Builders,
    readouts: Vec<ReadoutState>,
    outputs: Outputs,
    /// Events that have not ended.
    table: EventWindow<Entry>,
    backlog: Backlog,
    precedence: Precedence,
    next_event: EventId,
    ended: EventSet,
    releases: Releases,
    dispatches: Dispatches,
    steering: Option<Steering>,
    totals: Totals,
    dead_time: DeadTime,
    /// Nobody is left of a role.
    desertion: Option<Desertion>,
    counters: NodeBooks,
    events: VecDeque<ManagerEvent>,
}

impl<P: Clone> EventManager<P> {
    /// An event manager that waits for its nodes.
    #[must_use]
    pub fn new(me: Identity, config: ManagerConfig, now: Timestamp) -> Self {
        assert_eq!(me.node, NodeId::MANAGER, "{} is not the event manager", me.node);
        let nodes = (0..config.readouts)
            .map(NodeId::readout)
            .chain((0..config.builders).map(NodeId::builder))
            .chain((0..config.outputs).map(NodeId::output));
        Self {
            me,
            phase: RunPhase::new(&config, now),
            peers: Peers::new(nodes, &config, now),
            builders: Builders::new(config.builders, config.expected_event),
            readouts: (0..config.readouts).map(|_| ReadoutState::default()).collect(),
            outputs: Outputs::new(config.outputs),
            table: EventWindow::new(0, SPREAD),
            backlog: Backlog::default(),
            precedence: Precedence::default(),
            next_event: config.first_event,
            ended: EventSet::new(ENDED_RANGES),
            releases: Releases::new(usize::from(config.readouts)),
            dispatches: Dispatches::new(match config.shaping {
                Shaping::Push => usize::from(config.readouts),
                Shaping::Pull | Shaping::Barrel { .. } => 0,
            }),
            steering: match config.shaping {
                Shaping::Barrel { tick } => Some(Steering::new(tick, now)),
                Shaping::Pull | Shaping::Push => None,
            },
            totals: Totals::default(),
            dead_time: DeadTime::default(),
            desertion: None,
            counters: NodeBooks::default(),
            events: VecDeque::new(),
            config,
        }
    }

    /// Whether the run is closed and nothing is left to say.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.phase.is_closed()
    }

    /// Whether the run goes on: it has begun, and its triggers have not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase.is_running()
    }

    /// Whether a trigger would be offered to the run: accepted, or vetoed and counted.
    #[must_use]
    pub fn takes_triggers(&self) -> bool {
        self.is_running() && !self.is_full()
    }

    /// The books of all triggers, as they stand.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.totals.ledger(self.table.len())
    }

    /// Totals of the events booked as stored.
    #[must_use]
    pub fn stored(&self) -> StoredTotals {
        self.totals.stored()
    }

    /// The numbers of the books that change while the run goes, without making a ledger.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        self.totals.tallies(self.table.len(), self.dead_time.vetoed_total())
    }

    /// Payload bytes that the readout units hold, as they last said.
    #[must_use]
    pub fn buffered(&self) -> ByteCount {
        let status = |readout: &ReadoutState| readout.status.map_or(0, |status| status.buffered.0);
        ByteCount(self.readouts.iter().map(status).sum())
    }

    /// Returns the number of events in each builder session's own files that count as stored, including living
    /// sessions. Empty where output nodes store.
    #[must_use]
    pub fn committed(&self) -> BTreeMap<(NodeId, SessionId), u64> {
        if self.outputs.is_empty() { self.builders.committed() } else { BTreeMap::new() }
    }

    /// Live time and dead time by cause, up to `now` or the end of triggers.
    #[must_use]
    pub fn dead_time(&self, now: Timestamp) -> DeadTime {
        self.dead_time.up_to(now)
    }

    /// The event manager's own counters.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.counters.clone();
        books.count(Counter::RepeatedMessages, self.peers.repeats());
        books
    }

    /// Takes a trigger from the driver ([`Triggers::Driven`]). `time` is when it happened, on the clock of `now`: a driver that
    /// was held up hands over all triggers of that time, in order, before it drains this machine. They find the queue as it was
    /// when they happened, and dead time begins with the trigger that fills it.
    ///
    /// # Errors
    /// The trigger is vetoed, and no event.
    pub fn handle_trigger(
        &mut self,
        now: Timestamp,
        time: Timestamp,
        kind: TriggerType,
    ) -> Result<EventId, Veto> {
        if !self.takes_triggers() {
            return Err(Veto::NotRunning);
        }
        let at = time.min(now);
        if self.backlog.len() >= self.config.queue_events {
            let shut = self.dead_time.shut().unwrap_or_else(|| self.busy());
            self.dead_time.veto(at, shut);
            return Err(Veto::Busy(shut.cause));
        }
        let event = self.accept_next(time, kind);
        self.backlog.push(event);
        if self.is_full() {
            self.dead_time.end(at);
        } else if let Some(shut) = self.shut() {
            self.dead_time.turn(at, Some(shut));
        }
        Ok(event)
    }

    /// Ends the triggers by themselves: none came after `at`, which may be past. The time of the run ends there, and the run
    /// closes when what is in flight is done. The first stop after that cuts nothing short.
    pub fn handle_end_of_triggers(&mut self, now: Timestamp, at: Timestamp) {
        if self.phase.is_running() {
            self.dead_time.end(at.min(now));
            self.phase.drain(now);
        }
    }

    /// Ends the run: no more triggers, what is in flight may finish, then all close. Asked again, it closes at once, and what is in
    /// flight ends as `stopped`.
    pub fn handle_stop(&mut self, now: Timestamp) {
        self.dead_time.end(now);
        self.phase.stop(now);
    }

    /// Takes a message.
    // A function of its own: as part of a driver's loop it would leave no room to inline what it does for each event.
    #[inline(never)]
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        let sender = header.sender;
        if header.run != self.me.run {
            self.counters.count(Counter::StaleMessages, 1);
            return;
        }
        if self.builders.is_fenced(sender, header.session) {
            self.counters.count(Counter::StaleMessages, 1);
            self.peers.say(sender, self.me.plain(Body::Fence(header.session)));
            return;
        }
        let Some(channel) = self.peers.touch(sender) else {
            self.counters.count(Counter::UnexpectedMessages, 1);
            return;
        };
        let before = channel.peer_session();
        if channel.handle(now, &self.me, &header, message.body) == Received::Stale {
            self.counters.count(Counter::StaleMessages, 1);
        }
        // Whatever became of the message: a session that speaks for the first time is met.
        if channel.peer_session() != before {
            self.meet(now, sender, header.session);
        }
        while let Some(body) = self.peers.poll_deliver(sender) {
            self.handle_body(now, sender, body);
        }
    }

    /// Takes note of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        self.peers.note_link(now, peer, link);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.peers.wake(now);
        self.peers.wake(now);
        if self.peers.look(now) {
            self.give_up_lost_builders(now);
            self.look_for_deserters(now);
        }
        self.peers.beat(now);
        self.advance(now);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.advance(now);
        self.assign(now);
        self.dispatch();
        self.steer(now);
        self.release(now);
        self.peers.poll_transmit(now, &self.me)
    }

    /// The next thing for the driver to know.
    pub fn poll_event(&mut self) -> Option<ManagerEvent> {
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_transmit`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        let batch = self.releases.due_at().map(|at| Deadline { at, why: Why::Batch });
        let tick = self.steering.as_ref().filter(|_| self.phase.builds());
        let tick = tick.map(|steering| Deadline { at: steering.due_at(), why: Why::Tick });
        let peers = if self.phase.is_closed() { [None; 2] } else { self.peers.care_timeouts().map(Some) };
        let [silent, beat] = peers;
        let deadlines = [self.phase.deadline(), silent, beat, batch, tick];
        deadlines.into_iter().fold(self.peers.poll_timeout(), Deadline::earliest)
    }

    // The course of the run.

    fn advance(&mut self, now: Timestamp) {
        match self.phase.get() {
            Phase::Waiting { until } => {
                let absent = self.peers.absent();
                if absent.is_empty() || until <= now {
                    self.start(now, absent);
                }
            }
            Phase::Running => {
                if self.is_full() || self.all_sources_ended(now) {
                    self.dead_time.end(now);
                    self.phase.drain(now);
                }
            }
            Phase::Draining { until } => self.drain(now, until),
            Phase::Closing { until } => {
                self.close_outputs(now, until <= now);
                if until <= now || self.all_reported(now) {
                    self.phase.close();
                    self.peers.acknowledge_all();
                    self.events.push_back(ManagerEvent::Closed);
                }
            }
            Phase::Closed => {}
        }
    }

    fn start(&mut self, now: Timestamp, absent: Vec<NodeId>) {
        let missing = |role: Role| absent.iter().filter(|node| node.role == role).count();
        let nobody =
            missing(Role::Builder) == self.builders.len() || missing(Role::Readout) == self.readouts.len();
        if nobody {
            self.events.push_back(ManagerEvent::StartFailed { absent });
            self.phase.give_up(now);
            return;
        }
        self.phase.start();
        self.dead_time.begin(now);
        for node in self.peers.present() {
            self.peers.push(node, Body::Command(Command::Start));
        }
        if let Some(steering) = &mut self.steering {
            steering.look_again();
        }
        self.events.push_back(ManagerEvent::Started { absent });
    }

    /// Builders have nothing more to do. Readout units are told to close by [`Self::release`], last of all.
    fn close_builders(&mut self) {
        for node in self.peers.present() {
            if node.role == Role::Builder {
                self.peers.push(node, Body::Command(Command::Close));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.config.max_events.is_some_and(|limit| self.totals.received() >= limit)
    }

    fn all_reported(&self, now: Timestamp) -> bool {
        let lost = |node| self.peers.is_lost(node, now);
        let readout = |(index, state): (usize, &ReadoutState)| state.reported || lost(readout_node(index));
        self.readouts.iter().enumerate().all(readout)
            && self.builders_reported(now)
            && self.outputs.have_reported(lost)
    }

    fn builders_reported(&self, now: Timestamp) -> bool {
        let builder = |(node, state): (NodeId, &BuilderState)| {
            state.has_reported() || !state.lives() || self.peers.is_lost(node, now)
        };
        self.builders.iter().all(builder)
    }

    // Peers come and go.

    /// A peer speaks for the first time, or in a new life.
    fn meet(&mut self, now: Timestamp, node: NodeId, session: SessionId) {
        match node.role {
            Role::Builder => {
                self.lose_builder(now, node);
                self.builders.begin_session(node.index, session);
            }
            Role::Readout => {
                let readout = &mut self.readouts[usize::from(node.index)];
                if std::mem::take(readout).status.is_some() {
                    self.events.push_back(ManagerEvent::ReadoutRestarted { readout: node });
                }
                self.releases.replace_with_history(usize::from(node.index), &self.ended);
            }
            Role::Output => {
                if self.outputs.meet(node) {
                    self.events.push_back(ManagerEvent::OutputRestarted { output: node });
                }
            }
            Role::Manager => {}
        }
        match self.phase.get() {
            Phase::Running | Phase::Draining { .. } => {
                let late = if node.role == Role::Readout { Command::Join } else { Command::Start };
                self.peers.push(node, Body::Command(late));
                if let Some(steering) = self.steering.as_mut().filter(|_| node.role != Role::Output) {
                    self.peers.push(node, Body::Shape(steering.shape(now)));
                    steering.look_again();
                }
            }
            Phase::Closing { .. } | Phase::Closed if node.role == Role::Builder => {
                self.peers.push(node, Body::Command(Command::Close));
            }
            // It may have been waited for in vain.
            Phase::Closed if node.role == Role::Output => self.close_outputs(now, true),
            Phase::Closing { .. } | Phase::Closed | Phase::Waiting { .. } => {}
        }
    }

    /// Gives up builders that are lost. Returns whether one of them had events.
    fn give_up_lost_builders(&mut self, now: Timestamp) -> bool {
        let mut had_events = false;
        for index in 0..self.config.builders {
            let node = NodeId::builder(index);
            let state = self.builders.get(index);
            // A builder that has reported has nothing more to say, and closes its link.
            if state.lives() && !state.has_reported() && self.peers.is_lost(node, now) {
                // A process that exists and says nothing is frozen or starved: that is no event's doing.
                let has_died = self.peers.is_down(node);
                had_events |= state.outstanding() > 0;
                self.end_session(now, node, has_died);
                self.peers.reset(node);
            }
        }
        had_events
    }

    /// Ends the session of a builder that has died: an event that it had may have been the cause.
    fn lose_builder(&mut self, now: Timestamp, node: NodeId) {
        self.end_session(now, node, true);
    }

    /// Ends a builder's session: its output counts as far as it was returned, the rest is built elsewhere. One that `has_died` makes
    /// its events suspects.
    fn end_session(&mut self, now: Timestamp, node: NodeId, has_died: bool) {
        let Some(EndedSession { session, committed }) = self.builders.end_session(node.index) else {
            return;
        };
        self.precedence.note_news(node.index);
        if let Some(steering) = &mut self.steering {
            steering.look_again();
        }
        let lost = self.events_where(|entry| entry.assigned && entry.builder == Some(node.index));
        let reassigned = lost.len();
        let cause = if has_died { self.suspect(&lost) } else { None };
        for event in lost {
            self.try_again(now, event, (cause == Some(event)).then_some(DropReason::BuilderLost));
        }
        if reassigned > 0 {
            self.phase.drain_again(now);
        }
        self.events.push_back(ManagerEvent::BuilderLost { builder: node, session, committed, reassigned });
    }

    /// The events whose entries are wanted, ascending.
    fn events_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<EventId> {
        let wanted = |(event, entry): (EventId, &Entry)| wanted(entry).then_some(event);
        let mut events: Vec<_> = self.table.iter().filter_map(wanted).collect();
        events.sort_unstable();
        events
    }

    // What peers say.

    fn handle_body(&mut self, now: Timestamp, from: NodeId, body: Body<P>) {
        // A node that says anything new lives, and its report may be behind it.
        self.phase.prolong_closing(now);
        match (from.role, body) {
            (Role::Readout, Body::Announce(announcements)) => self.handle_announcements(now, &announcements),
            (Role::Readout, Body::ReadoutStatus(status)) => {
                self.readouts[usize::from(from.index)].status = Some(status);
            }
            (Role::Builder, Body::Request(request)) => self.handle_request(now, from.index, request),
            (_, Body::Report(counts)) => {
                match from.role {
                    Role::Readout => self.readouts[usize::from(from.index)].reported = true,
                    Role::Builder => self.builders.note_report(from.index),
                    Role::Output => self.outputs.note_report(from),
                    Role::Manager => {}
                }
                let books = Box::new(NodeBooks::from_counts(&counts));
                self.events.push_back(ManagerEvent::Reported { node: from, books });
            }
            _ => self.counters.count(Counter::UnexpectedMessages, 1),
        }
    }

    fn handle_announcements(&mut self, now: Timestamp, announcements: &[Announcement]) {
        if self.config.triggers != Triggers::Announced || !self.phase.is_running() {
            return;
        }
        for Announcement { event, time } in announcements {
            if self.is_full() || self.table.get(*event).is_some() || self.ended.contains(*event) {
                continue;
            }
            self.accept(*event, *time, now, self.config.trigger_type);
            self.backlog.push(*event);
        }
    }

    fn handle_request(&mut self, now: Timestamp, builder: u16, request: Request) {
        self.precedence.note_news(builder);
        self.builders.note_request(builder, &request);
        for absent in &request.absent {
            let entry = self.table.get(absent.event);
            if entry.is_some_and(|entry| entry.assigned && entry.builder == Some(builder)) {
                self.releases.note_absent(absent);
            }
        }
        self.handle_finished(now, builder, &request.finished);
        self.outputs.keep(&request.kept);
    }

    // Events begin. How they are assigned and end is in modules of their own.

    fn accept_next(&mut self, time: Timestamp, kind: TriggerType) -> EventId {
        let event = self.next_event;
        self.next_event = EventId(event.0 + 1);
        self.accept(event, time, time, kind);
        event
    }

    fn accept(&mut self, event: EventId, time: Timestamp, began: Timestamp, trigger_type: TriggerType) {
        self.totals.receive(1);
        let trigger_type = self.config.trigger_mix.of(event).unwrap_or(trigger_type);
        self.table.insert(event, Entry::waiting(time, began, trigger_type));
    }

    fn release(&mut self, now: Timestamp) {
        if self.table.is_empty() {
            self.releases.flush();
        }
        self.releases.close_batch(now);
        let closes = self.phase.is_over();
        for index in 0..self.readouts.len() {
            let node = readout_node(index);
            while self.releases.has_pending(index) && self.peers.is_open(node) {
                let releases = self.releases.take(index, &self.ended);
                self.peers.push(node, Body::Release(releases));
            }
            let state = &mut self.readouts[index];
            if closes && !state.told_to_close && !self.releases.has_pending(index) && self.peers.is_open(node)
            {
                state.told_to_close = true;
                self.peers.push(node, Body::Command(Command::Close));
            }
        }
    }

    /// The cause by which a trigger would be vetoed, if it would.
    ///
    /// Free triggers follow credit: to wait for it is their pace, and dead time only where something is missing or behind.
    /// Announced ones are never refused; their sources are held back by the readout units.
    #[must_use]
    pub fn gate(&self) -> Option<DeadTimeCause> {
        self.shut().map(|shut| shut.cause)
    }

    fn shut(&self) -> Option<Shut> {
        match self.config.triggers {
            Triggers::Driven => (self.backlog.len() >= self.config.queue_events).then(|| self.busy()),
            Triggers::Free => {
                let cause = self.busy_cause();
                let is_pace = matches!(cause, DeadTimeCause::BuilderCredit | DeadTimeCause::EventManager);
                (!is_pace).then(|| self.blame(cause))
            }
            Triggers::Announced => None,
        }
    }

    /// Whether a builder could be given an event.
    fn has_credit(&self) -> bool {
        self.builders.some_have_credit(|builder| self.peers.is_open(builder))
    }

    /// Why no event can be given to a builder, and whose fault it is where that is one node's alone.
    fn busy(&self) -> Shut {
        self.blame(self.busy_cause())
    }

    fn busy_cause(&self) -> DeadTimeCause {
        let has_any =
            |wanted: fn(&BuilderState) -> bool| self.builders.iter().any(|(_, state)| wanted(state));
        if self.has_credit() {
            DeadTimeCause::EventManager
        } else if !has_any(BuilderState::lives) {
            DeadTimeCause::NoBuilder
        } else if self.readouts.iter().any(|readout| readout.status.is_none()) {
            DeadTimeCause::NoReadout
        } else if has_any(BuilderState::is_output_behind) {
            DeadTimeCause::Output
        } else {
            DeadTimeCause::BuilderCredit
        }
    }

    /// A cause of dead time, with the node whose fault it is where that is one node's alone.
    fn blame(&self, cause: DeadTimeCause) -> Shut {
        let culprit = match cause {
            DeadTimeCause::EventManager => Some(NodeId::MANAGER),
            DeadTimeCause::NoBuilder => self.builders.the_only(|_| true),
            DeadTimeCause::NoReadout => {
                the_only(&self.readouts, |readout| readout.status.is_none()).map(readout_node)
            }
            DeadTimeCause::Output => self.builders.the_only(BuilderState::is_output_behind),
            DeadTimeCause::BuilderCredit => self.builders.the_only(BuilderState::lives),
        };
        Shut { cause, culprit }
    }
}

/// The index of the one that is so, if there is only one.
fn the_only<T>(all: &[T], is_so: impl Fn(&T) -> bool) -> Option<usize> {
    let mut found = all.iter().enumerate().filter(|(_, one)| is_so(one)).map(|(index, _)| index);
    found.next().filter(|_| found.next().is_none())
}

fn index_u16(index: usize) -> u16 {
    u16::try_from(index).expect("the configuration has at most 65,535 nodes of a role")
}

fn readout_node(index: usize) -> NodeId {
    NodeId::readout(index_u16(index))
}

fn builder_node(index: usize) -> NodeId {
    NodeId::builder(index_u16(index))
}

#[cfg(test)]
mod tests;
