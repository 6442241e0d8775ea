//! The event manager as one of two replicas: the active one, or its standby.
//!
//! A round is what is replicated: its time, the operator's orders, and all that has arrived. Triggers at a rate follow from the time. So
//! the standby has not only the same role but also the same report, and can end the run as the other replica would have.

use super::ManagerNode;
use crate::controls::RunControls;
use crate::outbox::Outbox;
use crate::report::RunReport;
use crate::telemetry::StandbyFigures;
use crate::worker::{NodeError, Progress};
use bytes::Bytes;
use sheaf_protocol::Identity;
use sheaf_protocol::liveness::LinkStatus;
use sheaf_protocol::manager::{EventManager, ManagerConfig};
use sheaf_protocol::standby::{Pair, PairEvent, Retirement, Round, StandbyConfig, Step};
use sheaf_telemetry::{log_as, muted};
use sheaf_wire::message::{Input, Message, Orders};
use sheaf_wire::{Nanos, NodeId, Role, SessionId, Timestamp};
use std::sync::atomic::Ordering;

/// Time for which a replica that has ended its run waits for the other one.
const LINGER: Nanos = Nanos::from_secs(2);

/// The part of an event manager in a pair of replicas.
pub(super) struct Replica {
    pair: Pair<Bytes>,
    me: Identity,
    /// Configuration of the role, until the standby knows the session of the event manager.
    config: ManagerConfig,
    /// Whether the role has the identity of the event manager.
    is_ready: bool,
    /// Whether this replica acts: it is active, and has repeated all rounds.
    pub(super) acts: bool,
    /// Orders that the other replica has.
    pub(super) orders: Orders,
    /// Time of this process, and time of the run at that moment.
    clock: (Timestamp, Timestamp),
    /// Time without an event manager before this replica took over, until the role knows of it.
    gap: Nanos,
    /// Latest time for the next round.
    due_at: Timestamp,
    /// Since when the run is over here.
    over_since: Option<Timestamp>,
    arrived: Vec<Message<Bytes>>,
    links: Vec<(NodeId, LinkStatus)>,
    options: ReplicaOptions,
}

/// Options of a replica of the event manager.
pub struct ReplicaOptions {
    /// Called when this replica takes over.
    pub took_over: Box<dyn FnMut() + Send>,
    /// Whether a standby leaves the run on a request to end it. Otherwise it ends the run if it takes over.
    pub leaves: bool,
    /// Whether the run has begun before, so that this replica joins, or retires.
    pub only_joins: bool,
}

impl Replica {
    pub(super) fn node(&self) -> NodeId {
        self.me.node
    }

    /// Returns whether the voters know the replicas.
    pub(super) fn is_founded(&self) -> bool {
        self.pair.is_founded()
    }

    /// Returns its account of the other replica at a time of the run, in which there were `take_overs`.
    pub(super) fn figures(&self, now: Timestamp, take_overs: u64) -> StandbyFigures {
        let waited = self.pair.held_since().map_or(Nanos::ZERO, |since| now.since(since));
        StandbyFigures {
            is_ready: self.pair.is_protected() && self.pair.has_majority(),
            take_overs,
            held: (self.pair.held() as u64, waited),
        }
    }

    /// Returns the time of the run. That of a standby goes on from the last round of the active replica.
    pub(super) fn time(&self, local: Timestamp) -> Timestamp {
        let (then, of_run) = self.clock;
        of_run + local.since(then)
    }

    /// Returns the time of this process at a time of the run.
    fn local(&self, of_run: Timestamp) -> Timestamp {
        let (then, at) = self.clock;
        Timestamp(then.0.saturating_add(of_run.since(at).0))
    }
}

impl ManagerNode {
    /// Listens to the mirrors of readout units that act for them.
    #[must_use]
    pub fn with_mirrors(mut self) -> Self {
        self.outbox.know_mirrors(*self.role.identity());
        self
    }

    /// Makes this event manager one of two replicas: `me` is the replica. The role of the first replica was made at `now`: that of the standby
    /// begins at the same time.
    #[must_use]
    pub fn replicated(
        mut self,
        me: Identity,
        (config, role): (StandbyConfig, ManagerConfig),
        now: Timestamp,
        options: ReplicaOptions,
    ) -> Self {
        let is_first = me.node == NodeId::MANAGER;
        let mut pair = Pair::new(me, config, now);
        if is_first {
            pair.take(|| Input::Round { now, stall: Nanos::ZERO });
            pair.end_round();
            if options.only_joins {
                pair.only_join();
            }
        }
        self.outbox.become_replica();
        self.replica = Some(Box::new(Replica {
            pair,
            me,
            config: role,
            is_ready: is_first,
            acts: is_first,
            orders: Orders::default(),
            clock: (now, now),
            gap: Nanos::ZERO,
            due_at: now,
            over_since: None,
            arrived: Vec::new(),
            links: Vec::new(),
            options,
        }));
        self
    }

    /// Does a round as one of two replicas.
    pub(super) fn work_as(&mut self, replica: &mut Replica, local: Timestamp) -> Progress {
        let stall = self.time.note_round(local);
        let now = replica.time(local);
        if stall > Nanos::ZERO {
            replica.pair.handle_stall(now, stall);
        }
        replica.receive(now, &mut self.outbox);
        replica.pair.handle_timeout(now);
        let mut busy = self.repeat_rounds(replica, local);
        while let Some(event) = replica.pair.poll_event() {
            self.heed_pair(replica, local, event);
        }
        let now = replica.time(local);
        self.part_from_other(replica);
        // One that knows of no event manager may have been started as the run ended.
        let may_leave = replica.options.leaves || replica.pair.manager_session().is_none();
        if may_leave && !replica.acts && self.course.stop.load(Ordering::Relaxed) {
            replica.pair.leave();
        }
        if replica.acts {
            busy |= self.act(replica, now, stall);
        }
        while let Some(transmit) = replica.pair.poll_transmit(now) {
            busy = true;
            self.outbox.send(transmit);
        }
        self.outbox.flush();
        if let Some(progress) = self.ends(replica, now) {
            return progress;
        }
        if busy {
            return Progress::Busy;
        }
        let due = if replica.acts { replica.due_at } else { Timestamp::MAX };
        let next = due.min(replica.pair.poll_timeout().unwrap_or(Timestamp::MAX));
        let next = if next == Timestamp::MAX { next } else { replica.local(next) };
        self.time.rest_until(next);
        Progress::Idle(next)
    }

    /// Does a round as the active replica, if anything is to be done.
    fn act(&mut self, replica: &mut Replica, now: Timestamp, stall: Nanos) -> bool {
        if self.course.controls.step_down.swap(false, Ordering::Relaxed) && !replica.pair.step_down() {
            refuse_to_step_down(&self.course.controls, replica.me.node, "its standby is not ready");
        }
        // Nobody could heed time limits in the gap.
        let stall = stall.max(std::mem::take(&mut replica.gap));
        let orders = self.orders();
        let stop = self.course.stop.swap(false, Ordering::Relaxed);
        let changed = orders != replica.orders;
        let has_arrived = !replica.arrived.is_empty() || !replica.links.is_empty();
        let has_newcomer = replica.pair.wants_snapshot();
        if !(has_arrived || has_newcomer || changed || stop || stall > Nanos::ZERO || replica.due_at <= now) {
            return false;
        }
        self.begin_joining(replica, now);
        let pair = &mut replica.pair;
        pair.take(|| Input::Round { now, stall });
        if changed {
            pair.take(|| Input::Orders(orders.clone()));
            replica.orders = Orders { exclusions: None, ..orders.clone() };
        }
        self.begin_round(now, stall, orders);
        for message in replica.arrived.drain(..) {
            pair.take(|| Input::Message(Box::new(message.clone())));
            self.role.handle_input(now, message);
        }
        for (node, link) in replica.links.drain(..) {
            pair.take(|| Input::Link { node, up: link == LinkStatus::Up });
            self.role.handle_link(now, node, link);
        }
        if stop {
            pair.take(|| Input::Stop);
        }
        self.end_round(now, stop);
        while let Some(transmit) = self.role.poll_transmit(now) {
            if let Some(trace) = &mut self.trace {
                trace.send(&transmit);
            }
            pair.hold(now, transmit);
        }
        pair.end_round();
        self.take_events(now);
        self.show_round();
        replica.due_at = self.next_round(now);
        true
    }

    /// Repeats the rounds of the active replica that have arrived.
    fn repeat_rounds(&mut self, replica: &mut Replica, local: Timestamp) -> bool {
        let mut busy = false;
        while let Some(step) = replica.pair.poll_step() {
            busy = true;
            match step {
                Step::Aside => self.step_aside(replica),
                Step::Snapshot(state) => match self.restore(replica, &state) {
                    Some(now) => {
                        replica.clock = (local, now);
                        replica.is_ready = true;
                    }
                    None => replica.pair.refuse_snapshot(),
                },
                Step::Round(round) => {
                    replica.clock = (local, round.now);
                    match replica.pair.manager_session().filter(|_| !replica.is_ready) {
                        Some(session) => {
                            replica.is_ready = true;
                            self.become_manager(replica, session, round.now);
                        }
                        None => muted(|| self.repeat(replica, round)),
                    }
                }
            }
        }
        busy
    }

    /// Makes a snapshot for a replica that joins.
    fn begin_joining(&self, replica: &mut Replica, now: Timestamp) {
        if replica.pair.wants_snapshot() {
            let state = self.snapshot(replica, now);
            replica.pair.give_snapshot(now, state);
        }
    }

    /// Leaves the event manager to the other replica, which was active already when this one was started.
    fn step_aside(&mut self, replica: &mut Replica) {
        let node = replica.me.node;
        log_as!(
            REPLICA_JOINS, node = node;
            "{} is the event manager already: {node} joins as its standby", node.other_replica()
        );
        replica.acts = false;
        replica.is_ready = false;
        replica.arrived.clear();
        replica.links.clear();
        self.report = RunReport::default();
        (self.triggers, self.started_at) = (None, None);
    }

    /// Gives the role the identity of the event manager: that of the replica which was active first. The first round says when it began.
    fn become_manager(&mut self, replica: &Replica, session: SessionId, begun: Timestamp) {
        let identity = Identity { node: NodeId::MANAGER, session, ..replica.me };
        self.role = EventManager::new(identity, replica.config.clone(), begun);
    }

    fn repeat(&mut self, replica: &mut Replica, round: Round<Bytes>) {
        let Round { now, stall, inputs } = round;
        let mut stop = false;
        let mut inputs = inputs.into_iter().peekable();
        let changed = inputs.next_if(|input| matches!(input, Input::Orders(_)));
        let orders = match changed {
            Some(Input::Orders(orders)) => orders,
            _ => replica.orders.clone(),
        };
        replica.orders = Orders { exclusions: None, ..orders.clone() };
        self.begin_round(now, stall, orders);
        for input in inputs {
            match input {
                Input::Message(message) => self.role.handle_input(now, *message),
                Input::Link { node, up } => {
                    let link = if up { LinkStatus::Up } else { LinkStatus::Down };
                    self.role.handle_link(now, node, link);
                }
                Input::Stop => stop = true,
                // Orders come first, and the pair has taken the others.
                Input::Orders(_)
                | Input::Round { .. }
                | Input::Digest(_)
                | Input::Snapshot { .. }
                | Input::Admitted
                | Input::StepsDown
                | Input::Dismissed => {}
            }
        }
        self.end_round(now, stop);
        while let Some(transmit) = self.role.poll_transmit(now) {
            replica.pair.note_repeated(&transmit);
        }
        self.take_events(now);
    }

    fn heed_pair(&mut self, replica: &mut Replica, local: Timestamp, event: PairEvent) {
        let node = replica.me.node;
        match event {
            PairEvent::Founded { protected: true } => {
                log_as!(STANDBY_READY, node = node; "{node} has a standby, {}", node.other_replica());
            }
            PairEvent::Founded { protected: false } => {
                log_as!(
                    RUN_UNPROTECTED, node = node;
                    "{} has not appeared: the run starts without a standby of its event manager", node.other_replica()
                );
            }
            PairEvent::Protected(_) => {
                log_as!(STANDBY_READY, node = node; "{node} has a standby again, {}", node.other_replica());
            }
            PairEvent::Unprotected(_) => {
                self.report.unprotected = true;
                log_as!(
                    RUN_UNPROTECTED, node = node;
                    "{} has ended, is unreachable or too slow: the run goes on without a standby of its event manager",
                    node.other_replica()
                );
            }
            PairEvent::TookOver { term, was_called } => self.take_over(replica, local, (term.0, was_called)),
            PairEvent::StayedStandby => {
                let why = "a majority of the voters does not answer";
                log_as!(
                    STEP_DOWN_REFUSED, node = node;
                    "{node} has not taken over: {why}; {} goes on", node.other_replica()
                );
                self.course.controls.refuse_to_step_down(why);
            }
            PairEvent::Retired(why) => self.retire(replica, why),
        }
    }

    /// Acts as the event manager from now on.
    fn take_over(&mut self, replica: &mut Replica, local: Timestamp, (term, was_called): (u64, bool)) {
        let (node, from) = (replica.me.node, replica.clock.1);
        let now = replica.time(local);
        replica.acts = true;
        replica.due_at = now;
        replica.gap = now.since(from);
        self.report.take_overs += 1;
        self.report.unprotected = true;
        let (other, gap) = (node.other_replica(), replica.gap);
        if was_called {
            log_as!(
                STEPPED_DOWN, node = node;
                "{other} has stepped down, and {node} takes over in term {term}, {gap} after its last round"
            );
        } else {
            log_as!(
                TOOK_OVER, node = node;
                "{node} takes over from {other} in term {term}, {gap} after its last sign of life"
            );
        }
        // What the operator wants is what the other replica knew, until news of it comes here.
        let controls = &self.course.controls;
        controls.hold.store(replica.orders.hold, Ordering::Relaxed);
        controls.pause.store(replica.orders.pause, Ordering::Relaxed);
        // A request to a standby is void: it was meant for the event manager of that time.
        controls.step_down.store(false, Ordering::Relaxed);
        self.role.handle_take_over(now, from, |node| replica.pair.is_up(node));
        (replica.options.took_over)();
    }

    fn retire(&mut self, replica: &mut Replica, why: Retirement) {
        let node = replica.me.node;
        let reason = match why {
            Retirement::Superseded(term) => format!("{} has taken over in term {term}", node.other_replica()),
            Retirement::StruckOff(_) => {
                format!(
                    "{} goes on without it: it was too slow, or could not be reached",
                    node.other_replica()
                )
            }
            Retirement::Diverged => {
                "it has other messages than the active replica: this is a bug in sheaf".to_owned()
            }
            Retirement::Unreadable => {
                "the state that it was sent cannot be read: both must be the same version of sheaf".to_owned()
            }
            Retirement::OtherRelease => "the two are of different releases of sheaf".to_owned(),
            Retirement::RunExists => {
                "the run has begun before, and no event manager of it answers".to_owned()
            }
            Retirement::Unfounded => "the event manager ended before the run began".to_owned(),
            Retirement::Left => "it leaves as requested".to_owned(),
            Retirement::NoQuorum => "a majority of the voters does not answer".to_owned(),
        };
        log_as!(REPLICA_RETIRED, node = node; "{node} has no more part in the run: {reason}");
        if replica.acts && why == Retirement::NoQuorum {
            self.failed = Some(NodeError::NoQuorum);
        }
        replica.acts = false;
        self.report.retired = Some(why);
    }

    /// Ends a standby that cannot talk to the event manager, because the two are of different releases.
    fn part_from_other(&mut self, replica: &mut Replica) {
        let other = replica.me.node.other_replica();
        if !replica.acts && self.report.retired.is_none() && self.outbox.is_parted_from(other) {
            let (node, why) =
                (replica.me.node, self.outbox.reason_against(other).unwrap_or_default().to_owned());
            self.failed = Some(NodeError::NoCommonVersion { node, why });
            self.retire(replica, Retirement::OtherRelease);
        }
    }

    /// Returns how the worker goes on, if the part of this replica in the run is over.
    fn ends(&mut self, replica: &mut Replica, now: Timestamp) -> Option<Progress> {
        if self.report.retired.is_some() {
            return Some(Progress::Finished);
        }
        if !self.role.is_finished() {
            return None;
        }
        let since = *replica.over_since.get_or_insert(now);
        let waits = if replica.acts {
            replica.pair.held() > 0
        } else {
            // The other one may wait for an acknowledgement.
            replica.pair.conclude();
            replica.pair.is_up(replica.me.node.other_replica())
        };
        // As long as somebody has to confirm its last messages, an active replica does not know whether it has ended the run: the other
        // one may have done so. The pair finds out, or gives up.
        let is_undecided = replica.acts && replica.pair.is_founded();
        let is_over = !waits || (!is_undecided && now.since(since) >= LINGER);
        self.report.stood_by = is_over && !replica.acts;
        is_over.then_some(Progress::Finished)
    }
}

/// Tells the operator why the event manager goes on.
pub(super) fn refuse_to_step_down(controls: &RunControls, node: NodeId, why: &str) {
    log_as!(STEP_DOWN_REFUSED, node = node; "{node} does not step down: {why}");
    controls.refuse_to_step_down(why);
}

impl Replica {
    /// Takes what has arrived: what is for the pair, and what is for the role.
    fn receive(&mut self, now: Timestamp, outbox: &mut Outbox) {
        while let Some(message) = outbox.poll() {
            let from = message.header.sender;
            self.arrived.extend(self.pair.handle_message(now, from, message));
        }
        while let Some((peer, link)) = outbox.poll_link() {
            self.pair.handle_link(now, peer, link);
            if self.acts && peer.role != Role::Manager {
                self.links.push((peer, link));
            }
        }
        if !self.acts {
            self.arrived.clear();
        }
    }
}
