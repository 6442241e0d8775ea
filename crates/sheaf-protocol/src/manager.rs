//! The event manager: owns the trigger stream, assigns events to builders that have credit, books the end of every event,
//! and releases it at the readout units.
//!
//! Triggers come from one of four places ([`Triggers`]). A trigger that is accepted is booked as received; from then
//! on the event is queued, assigned, or ended, and its end is one bin of the [`Ledger`]. A trigger that finds the queue
//! full is vetoed: it is not an event. The time in which a trigger would be vetoed is dead time, by cause; live time and
//! dead time together are the time of the run ([`DeadTime`]).
//!
//! A builder that is silent for too long, or that returns with a new session, has lost the events that it had not returned.
//! Those go to other builders, first in the queue. Events that it had returned as stored count: their number is the valid
//! part of the session's output ([`ManagerEvent::BuilderLost`]). If output nodes store events, the valid part is the set of
//! places that builders report ([`EventManager::kept`], [`crate::output`]).
//!
//! Each concern has an owner: the events from trigger to end and their builders (`manager/flow.rs`), readout units and
//! output nodes, channels, the phase of the run, dead time, and others. This file coordinates them: `manager/starting.rs` and
//! `manager/draining.rs` at the start and at the end of a run, `manager/receiving.rs` when messages arrive, and
//! `manager/sending.rs` when messages follow from the owners' answers.

mod backlog;
mod builders;
mod config;
mod credit;
mod dead_time;
mod desertion;
mod draining;
mod entry;
mod events;
mod excluded_nodes;
mod excluding;
mod exclusions;
mod flow;
mod gate;
mod mirrors;
mod outputs;
mod pausing;
mod peers;
mod phase;
mod precedence;
mod readouts;
mod receiving;
mod recording;
mod records;
mod releases;
mod requirements;
mod rooms;
mod sending;
mod sessions;
mod shaping;
mod shifting;
mod shifts;
mod starting;
mod succession;
mod suspects;
mod taking_over;
mod totals;

pub use config::{ManagerConfig, Shaping, Triggers};
pub use dead_time::{DeadTime, DeadTimeAt, DeadTimeCause};
pub use draining::Awaited;
pub use events::{Ended, ManagerEvent, Tallies, Veto};
pub use requirements::{LossAction, Requirement};
pub use starting::AwaitedNodes;
pub use totals::StoredTotals;

use crate::channel::Received;
use crate::ledger::{Counter, Ledger, NodeBooks};
use crate::liveness::LinkStatus;
use crate::machine::{Deadline, Identity, Transmit, Why};
use crate::output::Places;
use builders::BuilderState;
use dead_time::Shut;
use desertion::Desertion;
use excluded_nodes::ExcludedNodes;
use exclusions::Exclusions;
use flow::{EventFlow, ManagerEvents};
use mirrors::Mirrors;
use outputs::Outputs;
use peers::Peers;
use phase::{Phase, RunPhase};
use readouts::Readouts;
use records::Records;
use requirements::Requirements;
use serde::{Deserialize, Serialize};
pub(crate) use shaping::DISPATCH_EVENTS;
use shaping::{Dispatches, Steering};
use sheaf_wire::message::{Body, Count, Message};
use sheaf_wire::{ByteCount, EventId, NodeId, SessionId, Timestamp, TriggerType};
use shifts::Shifts;
use std::collections::{BTreeMap, BTreeSet};

/// See the [module](self) and the contract in the [crate documentation](crate).
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "P: sheaf_wire::Payload")]
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
    /// Reason for which the trigger supervisor holds triggers back. `None` if it does not.
    held_back: Option<Shut>,
    desertion: Desertion,
    /// Where check values are compared.
    shifts: Option<Shifts>,
    exclusions: Exclusions,
    excluded_nodes: ExcludedNodes,
    mirrors: Mirrors,
    requirements: Requirements,
    records: Records,
    /// Builder units whose current sessions were closed.
    closed_builders: BTreeSet<NodeId>,
    /// Whether another run follows in the same nodes.
    hands_over: bool,
    /// First event of the next run, from the end of the triggers on. `None` before, and where the data do not announce the triggers.
    next_event: Option<EventId>,
    /// Whether the data have ended, so that no run follows.
    is_exhausted: bool,
    /// When the triggers of the run begin, if that is before its start: at the end of the run before it.
    begins_at: Option<Timestamp>,
    /// Time until which there was no event manager: earlier triggers of the driver are vetoed.
    gap_until: Timestamp,
    counters: NodeBooks,
    events: ManagerEvents,
}

impl<P: Clone> EventManager<P> {
    /// Creates an event manager that waits for its nodes.
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
            shifts: config.shifts.clone().map(|shifts| Shifts::new(shifts, config.readout_of.clone())),
            exclusions: Exclusions::new(config.readout_of.clone()),
            excluded_nodes: ExcludedNodes::default(),
            mirrors: Mirrors::default(),
            requirements: Requirements::new(config.requirements.clone()),
            records: Records::default(),
            closed_builders: BTreeSet::new(),
            hands_over: false,
            next_event: None,
            is_exhausted: false,
            begins_at: None,
            gap_until: Timestamp::ZERO,
            counters: NodeBooks::default(),
            events: ManagerEvents::new(),
            config,
        }
    }

    /// Returns whether the run is closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.phase.is_closed()
    }

    /// Returns whether the run has begun and its triggers have not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase.is_running()
    }

    /// Returns whether a trigger would belong to the run: it would be accepted, or vetoed and counted.
    #[must_use]
    pub fn takes_triggers(&self) -> bool {
        self.is_running() && !self.flow.is_full()
    }

    /// Returns the identity of this event manager.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.me
    }

    /// Returns the current ledger of all triggers.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.flow.ledger()
    }

    /// Returns totals of the events booked as stored.
    #[must_use]
    pub fn stored(&self) -> StoredTotals {
        self.flow.stored()
    }

    /// Returns the counters that change during the run. Cheaper than a [`Ledger`].
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        self.flow.tallies(self.dead_time.vetoed_total())
    }

    /// Returns the payload bytes that the readout units hold, by their last status.
    #[must_use]
    pub fn buffered(&self) -> ByteCount {
        self.readouts.buffered()
    }

    /// Returns the number of events in each builder session's own files that count as stored, including living
    /// sessions. Empty if output nodes store events.
    #[must_use]
    pub fn committed(&self) -> BTreeMap<(NodeId, SessionId), u64> {
        if self.outputs.is_empty() { self.flow.builders().committed() } else { BTreeMap::new() }
    }

    /// Returns the events of each session of an output node that count, including living sessions.
    #[must_use]
    pub fn kept(&self) -> &BTreeMap<(NodeId, SessionId), Places> {
        self.outputs.kept()
    }

    /// Returns whether a barrel shifter is running.
    #[must_use]
    pub fn is_barrel_turning(&self) -> bool {
        self.steering.is_turning()
    }

    /// Returns the slots and bytes that a living builder unit has granted and that no event has taken.
    #[must_use]
    pub fn credit(&self, builder: u16) -> Option<(u64, ByteCount)> {
        self.flow.builders().credit(builder)
    }

    /// Returns live time and dead time by cause, up to `now` or the end of triggers.
    #[must_use]
    pub fn dead_time(&self, now: Timestamp) -> DeadTime {
        self.dead_time.up_to(now)
    }

    /// Returns the event manager's own counters.
    #[must_use]
    pub fn books(&self) -> NodeBooks {
        let mut books = self.counters.clone();
        books.count(Counter::RepeatedMessages, self.peers.repeats());
        books.count(Counter::KeptRecords, self.records.all().len() as u64);
        books
    }

    /// Passes the ledger of triggers to `line`, as lines of a report, without allocation.
    pub fn each_trigger_count(&self, line: &mut dyn FnMut(Count)) {
        self.flow.each_count(line);
    }

    /// Passes the event manager's own counters to `line`, as lines of a report, without allocation. Counts that are 0 may be absent.
    pub fn each_count(&self, line: &mut dyn FnMut(Count)) {
        self.counters.each_counter(line);
        line(Counter::RepeatedMessages.count(self.peers.repeats()));
        line(Counter::KeptRecords.count(self.records.all().len() as u64));
    }

    /// Returns live time and dead time up to `now` or the end of triggers, without allocation.
    #[must_use]
    pub fn dead_time_at(&self, now: Timestamp) -> DeadTimeAt<'_> {
        self.dead_time.at(now)
    }

    /// Takes a trigger from the driver ([`Triggers::Driven`]). `time` is the time at which it happened, on the clock of `now`.
    /// A driver that was stalled passes all triggers of that time, in order, before it drains this machine. The queue is then
    /// as it was when they happened, and dead time begins with the trigger that fills it.
    ///
    /// # Errors
    /// The trigger is vetoed and does not become an event.
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
        if self.is_in_gap(at) {
            return Err(Veto::Busy(DeadTimeCause::TakeOver));
        }
        if self.phase.is_paused() || self.flow.is_queue_full() {
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

    /// Counts the times of triggers from `start` on, for [`Self::handle_trigger`]. Otherwise they count from the zero of the clock.
    pub fn count_times_from(&mut self, start: Timestamp) {
        self.flow.count_times_from(start);
    }

    /// Takes the trigger of event `event` from a trigger supervisor ([`Triggers::External`]). `time` is on the supervisor's
    /// clock. The driver raises busy before the queue is full; a trigger that arrives nevertheless is accepted.
    ///
    /// # Errors
    /// The run takes no triggers, or already has this event.
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

    /// Counts triggers that the trigger supervisor has vetoed.
    pub fn add_vetoes(&mut self, cause: DeadTimeCause, triggers: u64) {
        self.dead_time.add_vetoes(cause, triggers);
    }

    /// Takes note of when the triggers end, as far as that is known: the time of the run does not go beyond. `None` takes it back, as in a pause.
    pub const fn expect_end_of_triggers(&mut self, at: Option<Timestamp>) {
        self.dead_time.expect_end(at);
    }

    /// Ends the triggers without a request to stop: none came after `at`, which may be in the past. The time of the run ends
    /// at `at`, and the run closes when all events in flight have ended. The first stop after that does not cut it short.
    pub fn handle_end_of_triggers(&mut self, now: Timestamp, at: Timestamp) {
        if self.phase.is_running() {
            self.dead_time.end(at.min(now));
            self.phase.drain(now);
        }
    }

    /// Ends the run: it takes no more triggers, events in flight may finish, then all nodes close. A second call closes the
    /// run at once, and events in flight end as `stopped`.
    pub fn handle_stop(&mut self, now: Timestamp) {
        self.dead_time.end(now);
        self.phase.stop(now);
    }

    /// Takes a message.
    // Not inlined: within a driver's loop, the work for each event would no longer be inlined into this function.
    #[inline(never)]
    pub fn handle_input(&mut self, now: Timestamp, message: Message<P>) {
        let header = message.header;
        let sender = header.sender;
        if header.run != self.me.run {
            self.counters.count(Counter::StaleMessages, 1);
            return;
        }
        if let Body::Mirror(step) = message.body {
            self.handle_mirror(now, &header, step);
            return;
        }
        if self.flow.builders().is_fenced(sender, header.session) {
            self.counters.count(Counter::StaleMessages, 1);
            self.peers.send_plain(sender, self.me.plain(Body::Fence(header.session)));
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
        // Also if the message itself was stale: the first message of a session begins it.
        if channel.peer_session() != before {
            self.meet(now, sender, header.session);
        }
        while let Some(body) = self.peers.poll_deliver(sender) {
            self.handle_body(now, sender, body);
        }
    }

    /// Records the state of the link to a node.
    pub fn handle_link(&mut self, now: Timestamp, peer: NodeId, link: LinkStatus) {
        self.peers.note_link(now, peer, link);
    }

    /// Handles all timeouts that are due at `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.peers.touch_due(now);
        if self.peers.is_check_due(now) {
            self.give_up_lost_builders(now);
            self.check_desertion(now);
            self.check_requirements(now);
        }
        self.peers.send_heartbeats(now);
        self.advance(now);
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit<P>> {
        self.advance(now);
        self.exclude_nodes(now);
        self.assign(now);
        self.dispatch();
        self.announce_pause();
        self.steer(now);
        self.renumber();
        self.exclude();
        self.send_records();
        self.release(now);
        self.peers.poll_transmit(now, &self.me)
    }

    /// Returns the next event for the driver.
    pub fn poll_event(&mut self) -> Option<ManagerEvent> {
        self.events.pop_front()
    }

    /// Returns the latest time for the next call of [`Self::handle_timeout`] and [`Self::poll_transmit`].
    pub fn poll_timeout(&mut self) -> Option<Deadline> {
        let batch = self.flow.releases_due_at().map(|at| Deadline { at, why: Why::Batch });
        let tick = self.steering.due_at().filter(|_| self.phase.builds());
        let tick = tick.map(|at| Deadline { at, why: Why::Tick });
        let peers = if self.phase.is_closed() { [None; 2] } else { self.peers.check_timeouts().map(Some) };
        let [silent, beat] = peers;
        let deadlines = [self.phase.deadline(), silent, beat, batch, tick];
        deadlines.into_iter().fold(self.peers.poll_timeout(), Deadline::earliest)
    }

    // Phases of the run.

    fn advance(&mut self, now: Timestamp) {
        self.peers.excuse_after_stall(now);
        match self.phase.get() {
            Phase::Waiting { until } => {
                let absent = self.awaited_absent();
                if let Some(node) = self.declining() {
                    self.events.push_back(ManagerEvent::StartDeclined { node });
                    self.phase.give_up(now);
                } else if self.phase.is_held() {
                    self.phase.wait_again(now);
                } else if self.some_wait(now) {
                    // The time limit for other nodes counts after that.
                    self.phase.wait_again(now);
                } else if until <= now || (absent.is_empty() && self.unmet_at_start(now).is_none()) {
                    self.start(now, absent);
                }
            }
            Phase::Running => {
                let is_full = self.flow.is_full();
                if is_full || self.all_sources_ended(now) {
                    if !is_full {
                        self.note_end_of_data();
                    }
                    self.dead_time.end(now);
                    self.phase.drain(now);
                }
            }
            Phase::Draining { until } => self.drain(now, until),
            Phase::Closing { until } => self.finish(now, until),
            Phase::Closed => self.close_late(now),
        }
    }

    fn all_reported(&self, now: Timestamp) -> bool {
        let lost = |node| self.peers.is_lost(node, now) || self.is_excluded_and_silent(node, now);
        self.readouts.have_reported(lost) && self.writers_reported(now)
    }

    fn writers_reported(&self, now: Timestamp) -> bool {
        self.builders_reported(now) && self.outputs.have_reported(|node| self.peers.is_lost(node, now))
    }

    fn builders_reported(&self, now: Timestamp) -> bool {
        let builder = |(node, state): (NodeId, &BuilderState)| {
            state.has_reported() || !state.lives() || self.peers.is_lost(node, now)
        };
        self.flow.builders().iter().all(builder)
    }
}

/// Returns the index of the only element that satisfies `matches`. `None` if there is none or several.
fn the_only<T>(all: &[T], matches: impl Fn(&T) -> bool) -> Option<usize> {
    let mut found = all.iter().enumerate().filter(|(_, one)| matches(one)).map(|(index, _)| index);
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
