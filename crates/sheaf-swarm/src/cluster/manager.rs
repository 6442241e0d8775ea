//! Drives the event manager, its triggers, and the operator.

use super::builders::BuilderNode;
use super::post::{Happening, Host};
use super::{Cluster, RUN};
use crate::log::{Line, Turn};
use crate::options::{Options, PLAIN_TYPE, TriggerOptions};
use crate::payload::SimPayload;
use crate::source::FIRST_EVENT;
use sheaf_protocol::Identity;
use sheaf_protocol::channel::ChannelTimes;
use sheaf_protocol::manager::{EventManager, ManagerConfig, ManagerEvent, Triggers, Veto};
use sheaf_protocol::numbering::ShiftConfig;
use sheaf_wire::message::Readiness;
use sheaf_wire::{DropReason, Nanos, NodeId, SessionId, SourceId, Timestamp, TriggerType};
use std::collections::BTreeMap;

/// The event manager and its driver.
#[derive(Debug)]
pub(super) struct ManagerNode {
    pub(super) host: Host,
    pub(super) machine: EventManager<SimPayload>,
    /// Times at which driven triggers were accepted, in order of event id.
    pub(super) accepted: Vec<Timestamp>,
    has_started: bool,
    /// Whether the trigger process has ended.
    pub(super) triggers_end: bool,
    /// Whether the operator holds the start.
    pub(super) is_held: bool,
    /// Number of pauses of the operator that last.
    pub(super) pauses: usize,
    /// Number of exclusions of each source that last.
    pub(super) excluded: BTreeMap<SourceId, usize>,
    /// Number of exclusions of each node that last.
    pub(super) excluded_nodes: BTreeMap<NodeId, usize>,
    /// Number of events when the present pause began.
    pub(super) paused_after: Option<u64>,
}

impl ManagerNode {
    pub(super) fn new(options: &Options) -> Self {
        let me = Identity { node: NodeId::MANAGER, run: RUN, session: SessionId(1) };
        let mut machine = EventManager::new(me, config(options), Timestamp::ZERO);
        let is_held = options.held_until.is_some();
        machine.handle_hold(Timestamp::ZERO, is_held);
        Self {
            host: Host::new(NodeId::MANAGER),
            machine,
            accepted: Vec::new(),
            has_started: false,
            triggers_end: false,
            is_held,
            pauses: 0,
            excluded: BTreeMap::new(),
            excluded_nodes: BTreeMap::new(),
            paused_after: None,
        }
    }

    /// Returns whether the run has begun.
    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }
}

fn config(options: &Options) -> ManagerConfig {
    let (triggers, max_events) = match options.triggers {
        TriggerOptions::Free => (Triggers::Free, Some(options.events)),
        TriggerOptions::Driven { .. } if options.supervisor.is_some() => {
            (Triggers::External, Some(options.events))
        }
        TriggerOptions::Driven { .. } => (Triggers::Driven, Some(options.events)),
        // The sources end, and with them the run.
        TriggerOptions::Announced { .. } => (Triggers::Announced, None),
    };
    ManagerConfig {
        readouts: options.system.readouts,
        builders: options.system.builders,
        outputs: options.system.outputs,
        readout_of: (0..options.source_count())
            .map(|number| SourceId(u32::from(number)))
            .map(|source| (source, options.readout_of(source).index))
            .collect(),
        triggers,
        first_event: FIRST_EVENT,
        max_events,
        trigger_type: TriggerType(7),
        trigger_mix: options.trigger_mix(),
        queue_events: options.bounds.queue_events,
        batch_events: options.bounds.batch_events,
        max_attempts: options.bounds.max_attempts,
        expected_event: options.bounds.expected_event,
        requirements: options.requirements.clone(),
        start_timeout: options.times.start,
        stop_timeout: options.times.stop,
        desertion_timeout: Nanos::from_secs(20),
        patience: options.times.patience(),
        heartbeat: options.times.heartbeat,
        batch_time: options.times.batch,
        shaping: options.gathering.shaping(),
        channel: options.channel_times(),
        shifts: shifts(options),
    }
}

/// Recognition of sources that are off.
fn shifts(options: &Options) -> Option<ShiftConfig> {
    let numbers = options.numbers.as_ref()?;
    Some(ShiftConfig {
        quantities: vec![numbers.quantity],
        names: vec!["number".to_owned()],
        on_shift: numbers.on_shift,
        events: numbers.events,
        longest: numbers.longest,
    })
}

impl Options {
    pub(super) fn channel_times(&self) -> ChannelTimes {
        ChannelTimes { retransmit: self.times.retransmit, acknowledge: self.times.acknowledge }
    }
}

impl Cluster {
    /// Drains the event manager, as its contract requires.
    pub(super) fn settle_manager(&mut self) {
        let (had_started, mut has_closed) = (self.manager.has_started, false);
        self.exchange_triggers();
        let Self { post, manager, builders, watch, options, .. } = self;
        watch.lives.see_turn(post.now, options);
        post.carry_all(&mut manager.machine);
        while let Some(event) = manager.machine.poll_event() {
            watch.see_manager_event(post.now, &event);
            if let ManagerEvent::BuilderLost { builder, session, .. } = &event
                && let Err(what) = watch.lives.see_given_up(post.now, options, *builder, *session)
                // When the time limit of a run expires, builders are given up together with their events.
                && !manager.machine.ledger().dropped.contains_key(&DropReason::Stopped)
            {
                watch.fail(what);
            }
            match event {
                ManagerEvent::Started { absent } => {
                    manager.has_started = true;
                    let loads = |node: &&BuilderNode| node.readiness() == Readiness::Loading;
                    let is_excluded =
                        |node: &NodeId| manager.excluded_nodes.get(node).is_some_and(|lasting| *lasting > 0);
                    let is_awaited = |node: &&BuilderNode| {
                        !absent.contains(&node.host.node) && !is_excluded(&node.host.node)
                    };
                    if options.faults.is_empty()
                        && watch.faults.given_up == 0
                        && let Some(node) = builders.iter().filter(is_awaited).find(loads)
                    {
                        watch.fail(format!(
                            "the run starts while processors of {} load their filter",
                            node.host.node
                        ));
                    }
                }
                ManagerEvent::Ended(ended) => {
                    for event in ended.events() {
                        post.note(Line::Ended { event, outcome: ended.outcome });
                    }
                }
                ManagerEvent::BuilderLost { builder, session, committed, .. } => {
                    post.note(Line::Node { node: builder, session, what: Turn::GivenUp(committed) });
                }
                ManagerEvent::ReadoutRestarted { readout } => {
                    let triggers = manager.machine.ledger().received;
                    watch.numbers.see_restart(readout.index, manager.machine.shifts().len(), triggers);
                }
                ManagerEvent::Closed => {
                    let session = manager.host.session;
                    post.note(Line::Node { node: NodeId::MANAGER, session, what: Turn::Closed });
                    has_closed = true;
                }
                ManagerEvent::RequirementUnmet { requirement, missing } => {
                    watch.operator.ended_paused = None;
                    watch.see_unmet(post.now, options, requirement, &missing);
                }
                ManagerEvent::RequirementMet { requirement } => {
                    // The last triggers may come in this moment, after the change is announced.
                    watch.operator.ended_paused = None;
                    watch.see_met(post.now, options, requirement);
                }
                ManagerEvent::SourceExcluded { .. } => watch.operator.excluded += 1,
                ManagerEvent::SourceIncluded { .. } => watch.operator.included += 1,
                ManagerEvent::NodeExcluded { node, excluded, from } => {
                    watch.operator.excluded_nodes += u64::from(excluded);
                    if excluded {
                        watch.operator.excluded_now.insert(node);
                    } else {
                        watch.operator.excluded_now.remove(&node);
                    }
                    watch.built_sources.see_node_excluded(node, excluded, from);
                }
                ManagerEvent::MirrorTookOver { .. }
                | ManagerEvent::MirrorLost { .. }
                | ManagerEvent::StartDeclined { .. }
                | ManagerEvent::StartFailed { .. }
                | ManagerEvent::Deserted { .. }
                | ManagerEvent::GivenUp { .. }
                | ManagerEvent::OutputRestarted { .. }
                | ManagerEvent::ShiftFound(_)
                | ManagerEvent::ShiftRepaired(_)
                | ManagerEvent::Reported { .. } => {}
            }
        }
        self.look_at_gate();
        self.look_at_operator(had_started);
        if has_closed {
            self.check_unanswered();
        }
        let Self { post, manager, .. } = self;
        let deadline = manager.machine.poll_timeout();
        post.arm(&mut manager.host, deadline);
        if self.manager.has_started && !had_started {
            self.check_start();
        }
    }

    /// Shows the state of the gate to the independent account of live time. A supervisor is held back from the moment at which it was
    /// sent busy, whenever the event manager receives that.
    pub(super) fn look_at_gate(&mut self) {
        let Self { post, manager, watch, supervision, .. } = self;
        let gate = match supervision {
            Some(supervision) => supervision.held_back(),
            None => manager.machine.gate(),
        };
        watch.live_time.look(post.now, manager.machine.is_running(), gate);
    }

    pub(super) fn begin_triggers(&mut self) {
        if let TriggerOptions::Driven { period, .. } = self.options.triggers {
            self.post.plan(self.post.now + period, Happening::Trigger);
        }
    }

    pub(super) fn happen_trigger(&mut self) {
        if let (Some(_), TriggerOptions::Driven { period, poisson }) =
            (self.options.supervisor, &self.options.triggers)
        {
            return self.happen_supervised_trigger(*period, *poisson);
        }
        let now = self.post.now;
        let event = match self.manager.machine.handle_trigger(now, now, PLAIN_TYPE) {
            Ok(event) => Some(event),
            // The run accepts no more triggers. Before its start, the trigger process continues.
            Err(Veto::NotRunning) if self.manager.has_started || self.manager.machine.is_finished() => {
                self.manager.triggers_end = true;
                self.schedule_sources();
                return;
            }
            // The trigger does not belong to the run yet.
            Err(Veto::NotRunning) => None,
            Err(Veto::Busy(cause)) => {
                self.watch.see_veto(cause);
                None
            }
        };
        self.watch.offered += u64::from(self.manager.has_started);
        self.post.note(Line::Trigger { event });
        if let Some(event) = event {
            self.watch.windows.see_trigger(event, now);
            self.manager.accepted.push(now);
            self.watch.see_queue(&self.options, self.manager.machine.ledger().in_flight);
            self.schedule_sources();
        }
        self.settle_manager();
        if let TriggerOptions::Driven { period, poisson } = self.options.triggers {
            let wait = if poisson { self.post.dice.exponential(period) } else { period };
            self.post.plan(now + wait, Happening::Trigger);
        }
    }

    pub(super) fn schedule_sources(&mut self) {
        for source in 0..self.sources.len() {
            self.schedule_source(source);
        }
    }

    pub(super) fn happen_stop(&mut self) {
        self.post.note(Line::Stop);
        self.watch.faults.stops += 1;
        self.watch.operator.see_stop(&self.manager.machine, self.manager.is_held);
        self.book_busy();
        self.manager.machine.handle_stop(self.post.now);
        self.settle_manager();
        let in_flight = self.manager.machine.ledger().in_flight;
        if self.watch.faults.stops > 1 && in_flight > 0 {
            self.watch.fail(format!("the run was stopped twice, and {in_flight} events are in flight"));
        }
    }
}
