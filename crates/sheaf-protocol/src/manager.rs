//! The event manager: owns the trigger stream, assigns events to builders that have credit, books every event's end,
//! and tells the readout units to release it.
//!
//! Triggers come from one of four places ([`Triggers`]). A trigger that is accepted is booked as received; from then
//! on the event is queued, assigned, or ended, and its end is one bin of the [`Ledger`]. A trigger that finds the queue
//! full is vetoed: it is not an event. The time in which a trigger would be vetoed is dead time, by cause; live time and
//! dead time together are the time of the run ([`DeadTime`]).
//!
//! A builder that is silent for too long, or that comes back with a new session, has lost what it had not returned:
//! those events go to other builders, first in the queue. What it had returned as stored counts: the number of stored
//! events of each session is the part of its output that is valid ([`ManagerEvent::BuilderLost`]). Where output nodes store,
//! the places that builders name are the part that is valid ([`EventManager::kept`], [`crate::output`]).
//!
//! Each concern has an owner: the events from trigger to end and the builders that have them (`manager/flow.rs`), readout
//! units and output nodes, channels, the phase of the run, dead time, and so on. This file is the coordination between them:
//! it tells nodes what follows from the owners' answers. So is `manager/draining.rs`, for the end of a run.

mod backlog;
mod builders;
mod config;
mod credit;
mod dead_time;
mod desertion;
mod draining;
mod entry;
mod flow;
mod news;
mod outputs;
mod peers;
mod phase;
mod precedence;
mod readouts;
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
use crate::ledger::{Counter, Ledger, NodeBooks};
use crate::liveness::LinkStatus;
use crate::machine::{Deadline, Identity, Transmit, Why};
use crate::output::Places;
use builders::BuilderState;
use dead_time::Shut;
use desertion::Desertion;
use flow::{EventFlow, LostSession, News};
use outputs::Outputs;
use peers::Peers;
use phase::{Phase, RunPhase};
use readouts::Readouts;
pub(crate) use shaping::DISPATCH_EVENTS;
use shaping::{Dispatches, Steering, Turn};
use sheaf_wire::message::{Announcement, Body, Command, Message, Request, Work};
use sheaf_wire::trigger_link::{BusyCause, BusyReason};
use sheaf_wire::{ByteCount, EventId, NodeId, Role, SessionId, Timestamp, TriggerType};
use std::collections::BTreeMap;

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug)]
pub struct EventManager<P> {
    me: Identity,
    config: ManagerConfig,
    phase: RunPhase,
    peers: Peers<P>,
    flow: EventFlow,
    readouts: Readouts,
    outputs: Outputs,
    dispatches: Dispatches,
    steering: Steering,
    dead_time: DeadTime,
    /// Why the trigger supervisor holds triggers back, where one gives them.
    held_back: Option<Shut>,
    desertion: Desertion,
    counters: NodeBooks,
    events: News,
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
            flow: EventFlow::new(config.clone()),
            readouts: Readouts::new(config.readouts),
            outputs: Outputs::new(config.outputs),
            dispatches: Dispatches::new(config.shaping, config.readouts),
            steering: Steering::new(config.shaping, now),
            dead_time: DeadTime::default(),
            held_back: None,
            desertion: Desertion::new(&config),
            counters: NodeBooks::default(),
            events: News::new(),
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
        self.is_running() && !self.flow.is_full()
    }

    /// The books of all triggers, as they stand.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.flow.ledger()
    }

    /// Totals of the events booked as stored.
    #[must_use]
    pub fn stored(&self) -> StoredTotals {
        self.flow.stored()
    }

    /// The numbers of the books that change while the run goes, without making a ledger.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        self.flow.tallies(self.dead_time.vetoed_total())
    }

    /// Payload bytes that the readout units hold, as they last said.
    #[must_use]
    pub fn buffered(&self) -> ByteCount {
        self.readouts.buffered()
    }

    /// Returns the number of events in each builder session's own files that count as stored, including living
    /// sessions. Empty where output nodes store.
    #[must_use]
    pub fn committed(&self) -> BTreeMap<(NodeId, SessionId), u64> {
        if self.outputs.is_empty() { self.flow.builders().committed() } else { BTreeMap::new() }
    }

    /// Which events of each session of an output node count, living sessions included.
    #[must_use]
    pub fn kept(&self) -> &BTreeMap<(NodeId, SessionId), Places> {
        self.outputs.kept()
    }

    /// Whether a barrel shifter turns now.
    #[must_use]
    pub fn is_barrel_turning(&self) -> bool {
        self.steering.is_turning()
    }

    /// Returns the slots and bytes that a living builder unit has granted and that no event has taken.
    #[must_use]
    pub fn credit(&self, builder: u16) -> Option<(u64, ByteCount)> {
        self.flow.builders().credit(builder)
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
        if self.flow.is_queue_full() {
            let shut = self.dead_time.shut().unwrap_or_else(|| self.busy());
            self.dead_time.veto(at, shut);
            return Err(Veto::Busy(shut.cause));
        }
        let event = self.flow.accept_next(time, kind);
        if self.flow.is_full() {
            self.dead_time.end(at);
        } else if let Some(shut) = self.shut() {
            self.dead_time.turn(at, Some(shut));
        }
        Ok(event)
    }

    /// Takes a trigger of a trigger supervisor ([`Triggers::External`]): the event `event` that happened at `time`, on the
    /// supervisor's clock. The driver has raised busy before the queue was full; a trigger that comes all the same is taken.
    ///
    /// # Errors
    /// The run takes no triggers, or has this event: the trigger is no event.
    pub fn handle_external_trigger(
        &mut self,
        now: Timestamp,
        event: EventId,
        time: Timestamp,
        kind: TriggerType,
    ) -> Result<(), Veto> {
        if !self.takes_triggers() || !self.flow.accept_given(now, event, time, kind) {
            return Err(Veto::NotRunning);
        }
        if self.flow.is_full() {
            self.dead_time.end(now);
        }
        Ok(())
    }

    /// Returns the number of triggers for which the queue has room.
    #[must_use]
    pub fn queue_room(&self) -> u64 {
        self.flow.queue_room()
    }

    /// Returns the reason that a full queue would have now.
    #[must_use]
    pub fn busy_reason(&self) -> BusyReason {
        let Shut { cause, culprit } = self.busy();
        let cause = match cause {
            DeadTimeCause::NoBuilder => BusyCause::NoBuilder,
            DeadTimeCause::NoReadout => BusyCause::NoReadout,
            DeadTimeCause::BuilderCredit => BusyCause::BuilderCredit,
            DeadTimeCause::Output => BusyCause::Output,
            DeadTimeCause::EventManager | DeadTimeCause::NoSupervisor => BusyCause::EventManager,
        };
        BusyReason { cause, culprit }
    }

    /// Takes note why the trigger supervisor holds triggers back from `at` on, or that it does not.
    pub fn handle_busy(&mut self, at: Timestamp, reason: Option<(DeadTimeCause, Option<NodeId>)>) {
        self.held_back = reason.map(|(cause, culprit)| Shut { cause, culprit });
        self.dead_time.turn(at, self.held_back);
    }

    /// Counts triggers that the trigger supervisor has vetoed.
    pub fn add_vetoes(&mut self, cause: DeadTimeCause, triggers: u64) {
        self.dead_time.add_vetoes(cause, triggers);
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
        if self.flow.builders().is_fenced(sender, header.session) {
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
        let batch = self.flow.releases_due_at().map(|at| Deadline { at, why: Why::Batch });
        let tick = self.steering.due_at().filter(|_| self.phase.builds());
        let tick = tick.map(|at| Deadline { at, why: Why::Tick });
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
                if let Some(readout) = self.readouts.declining() {
                    self.events.push_back(ManagerEvent::StartDeclined { readout });
                    self.phase.give_up(now);
                } else if self.readouts.some_wait(|node| self.peers.is_lost(node, now)) {
                    // Somebody starts these programs, and may take any time. Other nodes have theirs after that.
                    self.phase.wait_again(now);
                } else if absent.is_empty() || until <= now {
                    self.start(now, absent);
                }
            }
            Phase::Running => {
                if self.flow.is_full() || self.all_sources_ended(now) {
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
        let nobody = missing(Role::Builder) == self.flow.builders().len()
            || missing(Role::Readout) == self.readouts.len();
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
        self.steering.look_again();
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

    fn all_reported(&self, now: Timestamp) -> bool {
        let lost = |node| self.peers.is_lost(node, now);
        self.readouts.have_reported(lost) && self.builders_reported(now) && self.outputs.have_reported(lost)
    }

    fn builders_reported(&self, now: Timestamp) -> bool {
        let builder = |(node, state): (NodeId, &BuilderState)| {
            state.has_reported() || !state.lives() || self.peers.is_lost(node, now)
        };
        self.flow.builders().iter().all(builder)
    }

    // Peers come and go.

    /// A peer speaks for the first time, or in a new life.
    fn meet(&mut self, now: Timestamp, node: NodeId, session: SessionId) {
        match node.role {
            Role::Builder => {
                self.lose_builder(now, node);
                self.flow.begin_session(node.index, session);
            }
            Role::Readout => {
                if self.readouts.meet(node.index) {
                    self.events.push_back(ManagerEvent::ReadoutRestarted { readout: node });
                }
                self.flow.tell_history(usize::from(node.index));
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
                if let Some(shape) = self.steering.shape(now).filter(|_| node.role != Role::Output) {
                    self.peers.push(node, Body::Shape(shape));
                    self.steering.look_again();
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
            let state = self.flow.builders().get(index);
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
        let Some(lost) = self.flow.end_session(now, node.index, has_died, &mut self.events) else {
            return;
        };
        self.steering.look_again();
        if lost.some_ended {
            self.phase.prolong_draining(now);
        }
        let LostSession { session, committed, reassigned, .. } = lost;
        if reassigned > 0 {
            self.phase.drain_again(now);
        }
        self.events.push_back(ManagerEvent::BuilderLost { builder: node, session, committed, reassigned });
    }

    /// Looks whether somebody is left of each role that a run needs, and ends the run when nobody has come for long enough.
    fn look_for_deserters(&mut self, now: Timestamp) {
        let role = if self.phase.is_running() { self.deserted_role(now) } else { None };
        let news = self.desertion.look(now, role);
        if matches!(news, Some(ManagerEvent::GivenUp { .. })) {
            self.dead_time.end(now);
            self.phase.give_up(now);
        }
        self.events.extend(news);
    }

    fn deserted_role(&self, now: Timestamp) -> Option<Role> {
        if self.flow.builders().iter().all(|(_, builder)| !builder.lives()) {
            Some(Role::Builder)
        } else {
            self.readouts.nodes().all(|node| self.is_gone(node, now)).then_some(Role::Readout)
        }
    }

    /// Returns whether a node was never there, or has died and was given up. One whose link is up may be frozen, and resume.
    fn is_gone(&self, node: NodeId, now: Timestamp) -> bool {
        self.peers.is_lost(node, now) && !self.peers.is_up(node)
    }

    /// Returns whether the sources of all remaining readout units have ended.
    fn all_sources_ended(&self, now: Timestamp) -> bool {
        // Sources that know how many events there are to be run ahead of the triggers, and end before the last of them.
        if self.config.triggers != Triggers::Announced && self.config.max_events.is_some() {
            return false;
        }
        self.readouts.have_ended(|node| self.is_gone(node, now))
    }

    // What peers say.

    fn handle_body(&mut self, now: Timestamp, from: NodeId, body: Body<P>) {
        // A node that says anything new lives, and its report may be behind it.
        self.phase.prolong_closing(now);
        match (from.role, body) {
            (Role::Readout, Body::Announce(announcements)) => self.handle_announcements(now, &announcements),
            (Role::Readout, Body::ReadoutStatus(status)) => {
                if self.readouts.note_status(from.index, status) {
                    self.phase.prolong_draining(now);
                }
                if status.declines && self.phase.is_running() {
                    // The readout unit had not heard of the start when a program declined it.
                    self.events.push_back(ManagerEvent::StartDeclined { readout: from });
                    self.dead_time.end(now);
                    self.phase.give_up(now);
                }
            }
            (Role::Builder, Body::Request(request)) => self.handle_request(now, from.index, &request),
            (_, Body::Report(counts)) => {
                match from.role {
                    Role::Readout => self.readouts.note_report(from.index),
                    Role::Builder => self.flow.note_report(from.index),
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
        self.flow.accept_announced(now, announcements);
    }

    fn handle_request(&mut self, now: Timestamp, builder: u16, request: &Request) {
        let state = self.flow.builders().get(builder);
        let works = [state.work(), request.work].into_iter().any(|work| work != Work::None);
        let has_worked = works && state.outstanding() > 0;
        let returned = self.flow.handle_request(now, builder, request, &mut self.events);
        if has_worked || returned.some_ended {
            // As long as somebody works, or until now, or events end, the others may yet.
            self.phase.prolong_draining(now);
        }
        if returned.stale > 0 {
            self.counters.count(Counter::StaleMessages, returned.stale);
        }
        self.outputs.keep(&request.kept);
    }

    // Messages to nodes.

    /// Gives what waits to builders that have credit, in turn, a batch at a time.
    fn assign(&mut self, now: Timestamp) {
        if !self.phase.builds() {
            return;
        }
        let mut idle_builders = 0;
        while idle_builders < self.flow.builders().len() {
            let builder = self.flow.next_in_turn();
            let takes =
                self.flow.builders().get(builder).lives() && self.peers.is_open(NodeId::builder(builder));
            let batch =
                if takes { self.flow.next_batch(now, builder, self.phase.is_running()) } else { Vec::new() };
            if batch.is_empty() {
                idle_builders += 1;
            } else {
                idle_builders = 0;
                self.dispatches.add(builder, &batch);
                self.peers.push(NodeId::builder(builder), Body::Assign(batch));
            }
        }
        if let Some(builder) = self.flow.make_way(now) {
            self.peers.push(NodeId::builder(builder), Body::Command(Command::GiveWay));
        }
        self.dead_time.turn(now, self.shut());
    }

    /// Tells readout units who builds what, where they send unasked.
    fn dispatch(&mut self) {
        for index in 0..self.dispatches.readouts() {
            let node = readout_node(index);
            if !self.readouts.is_present(index) {
                self.dispatches.forget(index);
            }
            while self.dispatches.has_some(index) && self.peers.is_open(node) {
                self.peers.push(node, Body::Dispatch(self.dispatches.take(index)));
            }
        }
    }

    /// Lets a barrel shifter turn while all nodes are there, and tells readout units the time.
    fn steer(&mut self, now: Timestamp) {
        if !self.phase.builds() {
            return;
        }
        let Self { steering, peers, flow, readouts, config, .. } = self;
        let speaks = |node: NodeId| !peers.is_silent(node, now, config.patience.absence);
        let is_whole = || {
            flow.builders().iter().all(|(node, state)| state.lives() && speaks(node))
                && readouts.are_present()
                && readouts.nodes().all(speaks)
        };
        let Some(Turn { shape, is_news }) = steering.turn(now, is_whole) else {
            return;
        };
        for node in self.peers.present() {
            if is_news && node.role != Role::Output {
                self.peers.push(node, Body::Shape(shape));
            } else if node.role == Role::Readout {
                self.peers.say(node, self.me.plain(Body::Shape(shape)));
            }
        }
    }

    /// Output nodes close when no builder speaks to them any more, or when the time is `over`.
    fn close_outputs(&mut self, now: Timestamp, over: bool) {
        if self.outputs.is_empty() || !(over || self.builders_reported(now)) {
            return;
        }
        for node in self.outputs.close(|node| self.peers.is_open(node)) {
            self.peers.push(node, Body::Command(Command::Close));
        }
    }

    /// Tells readout units which events have ended, and to close when that was the last.
    fn release(&mut self, now: Timestamp) {
        self.flow.close_releases(now);
        let closes = self.phase.is_over();
        for index in 0..self.readouts.len() {
            let node = readout_node(index);
            while self.flow.has_releases(index) && self.peers.is_open(node) {
                self.peers.push(node, Body::Release(self.flow.take_releases(index)));
            }
            if closes
                && !self.flow.has_releases(index)
                && self.peers.is_open(node)
                && self.readouts.tell_to_close(index)
            {
                self.peers.push(node, Body::Command(Command::Close));
            }
        }
    }

    // Causes of dead time.

    /// The cause by which a trigger would be vetoed, if it would.
    ///
    /// Free triggers follow credit: to wait for it is their pace, and dead time only where something is missing or behind.
    /// Announced ones are never refused; their sources are held back by the readout units. External ones are held back by the
    /// trigger supervisor.
    #[must_use]
    pub fn gate(&self) -> Option<DeadTimeCause> {
        self.shut().map(|shut| shut.cause)
    }

    fn shut(&self) -> Option<Shut> {
        match self.config.triggers {
            Triggers::Driven => self.flow.is_queue_full().then(|| self.busy()),
            Triggers::Free => {
                let cause = self.busy_cause();
                let is_pace = matches!(cause, DeadTimeCause::BuilderCredit | DeadTimeCause::EventManager);
                (!is_pace).then(|| self.blame(cause))
            }
            Triggers::External => self.held_back,
            Triggers::Announced => None,
        }
    }

    /// Whether a builder could be given an event.
    fn has_credit(&self) -> bool {
        self.flow.builders().some_have_credit(|builder| self.peers.is_open(builder))
    }

    /// Why no event can be given to a builder, and whose fault it is where that is one node's alone.
    fn busy(&self) -> Shut {
        self.blame(self.busy_cause())
    }

    fn busy_cause(&self) -> DeadTimeCause {
        let has_any =
            |wanted: fn(&BuilderState) -> bool| self.flow.builders().iter().any(|(_, state)| wanted(state));
        if self.has_credit() {
            DeadTimeCause::EventManager
        } else if !has_any(BuilderState::lives) {
            DeadTimeCause::NoBuilder
        } else if !self.readouts.are_present() {
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
            DeadTimeCause::NoBuilder => self.flow.builders().the_only(|_| true),
            DeadTimeCause::NoReadout => self.readouts.the_only_absent(),
            DeadTimeCause::Output => self.flow.builders().the_only(BuilderState::is_output_behind),
            DeadTimeCause::BuilderCredit => self.flow.builders().the_only(BuilderState::lives),
            DeadTimeCause::NoSupervisor => None,
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
