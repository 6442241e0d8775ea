//! The event manager on a thread: triggers in, the run's course, the books at the end.

mod succession;

pub use succession::ManagerHandover;

use crate::busy_signal::BusySignal;
use crate::controls::{Exclusions, Pauses, RunControls};
use crate::handover::Handover;
use crate::outbox::Outbox;
use crate::programs::ProgramView;
use crate::report::{Gauges, RunReport};
use crate::stall::StallFree;
use crate::supervised::Supervised;
use crate::telemetry::{ManagerFigures, ManagerSeries, Telemetry};
use crate::traces::{ManagerTrace, Tracing};
use crate::trigger::{TriggerClock, TriggerRate};
use crate::trigger_input::TriggerInput;
use crate::worker::{NodeDriver, NodeError, Progress, list, word};
use bytes::Bytes;
use sheaf_protocol::manager::{EventManager, ManagerEvent};
use sheaf_protocol::numbering::Shift;
use sheaf_telemetry::stamps::StampLabels;
use sheaf_telemetry::{SeriesList, log_as};
use sheaf_transport::Endpoint;
use sheaf_wire::{EventId, Nanos, NodeId, Role, Timestamp, TriggerType};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use succession::Left;

/// Maximum number of due triggers that are handed over in one round, so that a trigger rate beyond the processor's
/// capacity does not delay messages. The next round continues with the others: these triggers are late, not lost.
const TRIGGERS_PER_ROUND: usize = 65_536;

/// Limits of the run, for its event manager.
pub struct Course {
    /// Triggers at a rate, or `None` where they come from elsewhere.
    pub triggers: Option<(TriggerRate, TriggerType)>,
    /// Whether the times of these triggers count from the start of the run.
    pub from_start: bool,
    /// Time during which triggers are taken, from the start of the run and without its pauses; no limit if `None`.
    pub duration: Option<Nanos>,
    /// Part of that time before rates and latencies count.
    pub warm_up: Nanos,
    /// Set by a signal handler: end the run in good order.
    pub stop: Arc<AtomicBool>,
    /// Requests of an operator.
    pub controls: Arc<RunControls>,
}

fn log_node_excluded(node: NodeId, excluded: bool, from: EventId) {
    let what = match (node.role, excluded) {
        (Role::Builder, true) => {
            format!("{node} is excluded: it gets no further events, and completes those that it has")
        }
        (Role::Builder, false) => format!("{node} is included again, and gets events"),
        (_, true) => {
            format!("{node} is excluded from event {from} on: events are complete without its sources")
        }
        (_, false) => format!("{node} is included again from event {from} on"),
    };
    match excluded {
        true => log_as!(NODE_EXCLUDED, node = NodeId::MANAGER, event = from, peer = node; "{what}"),
        false => log_as!(NODE_INCLUDED, node = NodeId::MANAGER, event = from, peer = node; "{what}"),
    }
}

/// Logs that a source is off, or that it is renumbered.
fn log_shift(Shift { source, first, shift, repaired_from, .. }: &Shift, is_repaired: bool) {
    if is_repaired {
        let from = repaired_from.unwrap_or(*first);
        log_as!(
            SOURCE_RENUMBERED, node = NodeId::MANAGER, event = from, source = source;
            "source {source}, off by {shift:+} from event {first} on, is renumbered from event {from} on"
        );
    } else {
        log_as!(
            SOURCE_SHIFTED, node = NodeId::MANAGER, event = first, source = source;
            "source {source} is off by {shift:+} from event {first} on: {}",
            explain_shift(*shift)
        );
    }
}

/// Returns the fault of a source that is off by so many events.
fn explain_shift(shift: i64) -> String {
    let noun = if shift.unsigned_abs() == 1 { "trigger" } else { "triggers" };
    let count = shift.unsigned_abs();
    if shift > 0 {
        format!("it has missed {count} {noun}")
    } else {
        format!("it has counted {count} {noun} too many")
    }
}

/// The event manager with its endpoint.
pub struct ManagerNode {
    role: EventManager<Bytes>,
    outbox: Outbox,
    course: Course,
    triggers: Option<TriggerClock>,
    supervised: Option<Supervised>,
    signal: Option<BusySignal>,
    started_at: Option<Timestamp>,
    /// When the operator asked for the end.
    stopped_at: Option<Timestamp>,
    /// When the operator asked for the next run.
    next_at: Option<Timestamp>,
    /// Remains of the run before, until this one starts.
    left: Option<Left>,
    /// Zero of the times of triggers that count from the start.
    zero: Timestamp,
    /// Whether no run can follow, because there are no more triggers.
    is_last: bool,
    pauses: Pauses,
    /// Number of changes of the exclusions that were heeded.
    exclusions_seen: u64,
    gauges: Arc<Gauges>,
    report: RunReport,
    done: Option<Box<dyn FnOnce(RunReport) + Send>>,
    failed: Option<NodeError>,
    time: StallFree,
    telemetry: Telemetry<ManagerSeries>,
    trace: Option<ManagerTrace>,
}

impl ManagerNode {
    /// An event manager. It publishes its metrics at the hub of `gauges`, which show the run while it lasts; `done` is given its report at the end.
    #[must_use]
    pub fn new(
        role: EventManager<Bytes>,
        endpoint: Box<dyn Endpoint>,
        course: Course,
        gauges: Arc<Gauges>,
        done: impl FnOnce(RunReport) + Send + 'static,
    ) -> Self {
        Self::with(role, Outbox::new(endpoint), course, gauges, Box::new(done))
    }

    fn with(
        role: EventManager<Bytes>,
        outbox: Outbox,
        course: Course,
        gauges: Arc<Gauges>,
        done: Box<dyn FnOnce(RunReport) + Send>,
    ) -> Self {
        let list = |list: &mut SeriesList| ManagerSeries::list(list, &role, gauges.nodes());
        let telemetry = Telemetry::begin(gauges.hub(), &gauges.nodes().manager, list);
        Self {
            role,
            outbox,
            course,
            triggers: None,
            supervised: None,
            signal: None,
            started_at: None,
            stopped_at: None,
            next_at: None,
            left: None,
            zero: Timestamp::ZERO,
            is_last: false,
            pauses: Pauses::default(),
            exclusions_seen: 0,
            gauges,
            report: RunReport::default(),
            done: Some(done),
            failed: None,
            time: StallFree::default(),
            telemetry,
            trace: None,
        }
    }

    /// Stamps its events, and makes remarks about those that are to be traced.
    #[must_use]
    pub fn traced(mut self, tracing: Tracing) -> Self {
        let names = self.gauges.nodes();
        let labels = StampLabels { builders: names.builders.clone(), ..StampLabels::default() };
        self.trace = Some(ManagerTrace::begin(tracing, &names.manager, labels));
        self
    }

    /// Takes its triggers from a trigger supervisor; `program` is the one that this run has started.
    #[must_use]
    pub fn triggered_by(mut self, input: Box<dyn TriggerInput>, program: Option<ProgramView>) -> Self {
        self.supervised = Some(Supervised::new(input, program));
        self
    }

    /// Signals outside whether triggers are taken.
    #[must_use]
    pub fn signalling(mut self, signal: BusySignal) -> Self {
        self.signal = Some(signal);
        self
    }

    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.role.poll_event() {
            match event {
                ManagerEvent::Ended(ended) => {
                    if let Some(trace) = &mut self.trace {
                        trace.ended(&ended);
                    }
                    self.report.end_events(now, &ended);
                }
                ManagerEvent::Started { absent } => {
                    if !absent.is_empty() {
                        log_as!(NODES_ABSENT, node = NodeId::MANAGER; "the run starts without {}", list(&absent));
                    }
                    self.begin(now, absent);
                }
                ManagerEvent::StartDeclined { node } => {
                    self.failed = Some(NodeError::start_declined(node));
                }
                ManagerEvent::StartFailed { absent, requirement } => {
                    let requirement = requirement.map(|index| self.requirement(index).to_owned());
                    self.failed = Some(NodeError::StartFailed { absent, requirement });
                }
                ManagerEvent::RequirementUnmet { requirement, missing } => {
                    self.note_unmet(now, requirement, &missing);
                }
                ManagerEvent::RequirementMet { requirement } => {
                    log_as!(
                        REQUIREMENT_MET, node = NodeId::MANAGER;
                        "requirement {} is met again", self.requirement(requirement)
                    );
                    self.pauses.follow(now, self.role.is_paused());
                }
                ManagerEvent::BuilderLost { builder, session, committed, reassigned } => {
                    log_as!(
                        BUILDER_LOST, node = NodeId::MANAGER, peer = builder;
                        "{builder} (session {session:x}) is lost: {committed} of its events are stored, \
                         {reassigned} go to others",
                        session = session.0
                    );
                    self.report.lost_builders += 1;
                }
                ManagerEvent::Deserted { role, limit } => {
                    log_as!(
                        NO_UNIT_LEFT, node = NodeId::MANAGER;
                        "no {} unit is left: the run takes no triggers, and ends in {limit} unless one is restarted",
                        word(role)
                    );
                }
                ManagerEvent::GivenUp { role, limit } => {
                    self.failed = Some(NodeError::Deserted { role, limit });
                }
                ManagerEvent::ReadoutRestarted { readout } => {
                    log_as!(
                        READOUT_RESTARTED, node = NodeId::MANAGER, peer = readout;
                        "{readout} restarted; the fragments that it held are lost"
                    );
                    self.report.restarted_readouts += 1;
                }
                ManagerEvent::OutputRestarted { output } => {
                    log_as!(
                        OUTPUT_RESTARTED, node = NodeId::MANAGER, peer = output;
                        "{output} restarted; events that it had not stored are stored elsewhere or by its new session"
                    );
                    self.report.restarted_outputs += 1;
                }
                ManagerEvent::ShiftFound(shift) => log_shift(&shift, false),
                ManagerEvent::ShiftRepaired(shift) => log_shift(&shift, true),
                ManagerEvent::SourceExcluded { source, first } => {
                    log_as!(
                        SOURCE_EXCLUDED, node = NodeId::MANAGER, event = first, source = source;
                        "source {source} is excluded from event {first} on: events are complete without it"
                    );
                }
                ManagerEvent::SourceIncluded { source, first } => {
                    log_as!(
                        SOURCE_INCLUDED, node = NodeId::MANAGER, event = first, source = source;
                        "source {source} is included again from event {first} on"
                    );
                }
                ManagerEvent::NodeExcluded { node, excluded, from } => {
                    log_node_excluded(node, excluded, from)
                }
                ManagerEvent::Reported { node, books } => {
                    self.report.nodes.insert(node, *books);
                }
                ManagerEvent::Closed => self.gauges.set_phase("closed"),
            }
        }
    }

    fn requirement(&self, index: usize) -> &str {
        self.role.requirement_name(index).unwrap_or_default()
    }

    /// Says that too many nodes are missing, and what follows.
    fn note_unmet(&mut self, now: Timestamp, requirement: usize, missing: &[NodeId]) {
        let name = self.requirement(requirement).to_owned();
        let why = format!("requirement {name} is not met without {}", list(missing));
        let then = if !self.role.is_running() {
            self.report.ended_by_requirement = Some(why.clone());
            "the run ends"
        } else if self.role.is_paused() {
            "the run takes no triggers until enough nodes are back"
        } else {
            "the run goes on"
        };
        log_as!(REQUIREMENT_UNMET, node = NodeId::MANAGER; "{why}: {then}");
        *self.report.unmet_requirements.entry(name).or_default() += 1;
        self.pauses.follow(now, self.role.is_paused());
    }

    /// Hands over the triggers that are due, with their times. The role books vetoes.
    ///
    /// Runs before messages are read: the content of these messages, such as credit, was not known when the triggers
    /// happened.
    fn take_triggers(&mut self, now: Timestamp) {
        let end = self.end_of_triggers();
        if self.supervised.is_none() {
            self.role.expect_end_of_triggers(end);
        }
        let until = end.into_iter().chain(self.pauses.asked_at).fold(now, Timestamp::min);
        let (Some(clock), Some((_, kind))) = (&mut self.triggers, self.course.triggers) else { return };
        for _ in 0..TRIGGERS_PER_ROUND {
            if !self.role.takes_triggers() {
                break;
            }
            let Some(time) = clock.pop_due(until) else { break };
            *self.report.offered.get_or_insert_default() += 1;
            let _ = self.role.handle_trigger(now, time, kind);
        }
    }

    /// Holds the start of the run, pauses it or resumes it, and excludes sources and nodes, as the operator requests.
    fn heed_controls(&mut self, now: Timestamp) {
        let RunControls { hold, pause, excluded, .. } = &*self.course.controls;
        if let Some(Exclusions { sources, nodes }) = excluded.news(&mut self.exclusions_seen) {
            self.role.handle_exclusions(sources);
            self.role.handle_excluded_nodes(nodes);
        }
        self.role.handle_hold(now, hold.load(Ordering::Relaxed));
        let wanted = pause.load(Ordering::Relaxed);
        let ends = self.end_of_triggers().is_some_and(|end| end <= now);
        if ends || !self.role.is_running() || wanted == self.role.is_paused_by_operator() {
            self.pauses.asked_at = None;
        } else if !self.role.can_pause() {
            if !std::mem::replace(&mut self.pauses.is_refusal_told, true) {
                log_as!(
                    PAUSE_REFUSED, node = NodeId::MANAGER;
                    "the run cannot be paused: its data announce the triggers, and each readout unit would stop at another \
                     event; it goes on. Stop it instead, and start another run"
                );
            }
        } else {
            let at = *self.pauses.asked_at.get_or_insert(now);
            if !self.has_trigger_until(at) {
                self.role.handle_pause(at, wanted);
                self.pauses.asked_at = None;
                self.pauses.follow(at, self.role.is_paused());
                log_as!(
                    RUN_PAUSED, node = NodeId::MANAGER;
                    "the run is {}", if wanted { "paused: no triggers are taken" } else { "resumed" }
                );
            }
        }
    }

    /// Ends the run when its time is over, or when it is asked to end.
    fn steer(&mut self, now: Timestamp) {
        if self.report.warm_at.is_none()
            && self.course.warm_up > Nanos::ZERO
            && self.time_after(self.course.warm_up).is_some_and(|end| now >= end)
        {
            self.report.end_warm_up(now);
        }
        if self.course.stop.swap(false, Ordering::Relaxed) {
            self.hear_stop(now);
        }
        if self.supervised.is_some() {
            self.steer_supervised(now);
            return;
        }
        if let Some(end) = self.end_of_triggers()
            && end <= now
            && self.role.is_running()
            && !self.has_trigger_until(end)
        {
            self.role.handle_end_of_triggers(now, end);
            if self.stopped_at.is_some() {
                self.role.handle_stop(now);
            }
        }
    }

    /// Ends the run when the supervisor has no more triggers. At the end of the run's time, asks the supervisor to stop and waits for
    /// its last triggers.
    fn steer_supervised(&mut self, now: Timestamp) {
        let end = self.end_of_triggers().filter(|end| *end <= now);
        let Some(supervised) = &mut self.supervised else { return };
        // The supervisor goes on, unless it has no more triggers.
        if self.role.hands_over() && self.role.is_running() {
            if supervised.has_no_more(now) {
                self.is_last = true;
                self.role.set_handover(false);
            } else {
                if end.is_some() {
                    self.role.handle_end_of_triggers(now, now);
                }
                return;
            }
        }
        if self.role.is_running() && supervised.has_ended(now, end) {
            self.role.handle_end_of_triggers(now, now);
            if self.stopped_at.is_some() {
                self.role.handle_stop(now);
            }
        }
    }

    /// Takes the triggers of the supervisor, and tells it the state of the run. Returns whether there was anything.
    fn serve_supervisor(&mut self, now: Timestamp) -> bool {
        let has_started = self.started_at.is_some();
        // Between two runs, triggers wait where they arrive.
        let is_between =
            self.left.is_some() || (self.role.hands_over() && has_started && !self.role.is_running());
        let Some(supervised) = self.supervised.as_mut().filter(|_| !is_between) else { return false };
        let is_busy = supervised.exchange(now, has_started, &mut self.role, TRIGGERS_PER_ROUND);
        for (cause, triggers) in supervised.take_vetoes() {
            self.role.add_vetoes(cause, triggers);
        }
        is_busy
    }

    fn hear_stop(&mut self, now: Timestamp) {
        let again = self.stopped_at.is_some();
        let next = if again {
            "dropping in-flight events as stopped"
        } else {
            "finishing in-flight events; a second Ctrl-C drops them"
        };
        log_as!(RUN_STOPS, node = NodeId::MANAGER; "stopping: {next}");
        self.report.interrupted = true;
        self.stopped_at.get_or_insert(now);
        // Triggers that are due are handed over before a run stops: `steer` does that. Cutting a run takes a stop before.
        let stops = match (self.role.is_running(), again) {
            (true, false) => 0,
            (false, _) => 1,
            (true, true) => 2,
        };
        for _ in 0..stops {
            self.role.handle_stop(now);
        }
    }

    /// Returns whether a trigger that happened before `end` has not been handed over.
    fn has_trigger_until(&self, end: Timestamp) -> bool {
        self.role.takes_triggers() && self.triggers.as_ref().is_some_and(|clock| clock.next() <= end)
    }

    fn end_of_triggers(&self) -> Option<Timestamp> {
        let by_duration = self.course.duration.and_then(|duration| self.time_after(duration));
        by_duration.into_iter().chain(self.stopped_at).chain(self.next_at).min()
    }

    /// Returns the time at which the run will have lasted this long, without its pauses. `None` before its start and during a pause.
    fn time_after(&self, lasted: Nanos) -> Option<Timestamp> {
        self.started_at.and_then(|start| self.pauses.reached(start, lasted))
    }

    fn state(&self, now: Timestamp) -> &'static str {
        if self.role.is_finished() {
            "closed"
        } else if self.started_at.is_none() {
            if self.role.is_ready(now) { "ready" } else { "starting" }
        } else if self.role.is_running() {
            if self.role.is_paused() { "paused" } else { "running" }
        } else if self.role.awaited().is_some() {
            "finishing"
        } else {
            "closing"
        }
    }
}

impl NodeDriver for ManagerNode {
    fn node(&self) -> NodeId {
        NodeId::MANAGER
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        if let Some(trace) = &mut self.trace {
            trace.begin_round(now);
        }
        let stall = self.time.note_round(now);
        self.role.handle_stall(stall);
        self.supervised.iter_mut().for_each(|supervised| supervised.handle_stall(stall));
        self.take_triggers(now);
        self.heed_controls(now);
        self.heed_succession(now);
        let mut busy = self.has_trigger_until(now);
        busy |= self.serve_supervisor(now);
        while let Some(message) = self.outbox.poll() {
            busy = true;
            self.role.handle_input(now, message);
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            self.role.handle_link(now, peer, link);
        }
        self.role.handle_timeout(now);
        self.steer(now);
        while let Some(transmit) = self.role.poll_transmit(now) {
            busy = true;
            if let Some(trace) = &mut self.trace {
                trace.send(&transmit);
            }
            self.outbox.send(transmit);
        }
        self.take_events(now);
        if let Some(trace) = &mut self.trace {
            trace.end_round();
        }
        if let Some(signal) = &mut self.signal {
            signal.set(!self.role.takes_triggers() || self.role.gate().is_some());
        }
        self.outbox.flush();
        if self.role.is_finished() {
            let hands_over = self.role.hands_over();
            let supervised = self.supervised.as_mut().filter(|_| !hands_over);
            let waits = supervised.and_then(|supervised| supervised.wait_at_end(now));
            return waits.map_or(Progress::Finished, Progress::Idle);
        }
        if busy {
            return Progress::Busy;
        }
        let deadline = self.role.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        let trigger = self.triggers.as_ref().map_or(Timestamp::MAX, TriggerClock::next);
        let trigger = if self.role.is_running() { trigger } else { Timestamp::MAX };
        let end = self.end_of_triggers().filter(|end| *end > now).unwrap_or(Timestamp::MAX);
        let link = self.supervised.as_ref().and_then(Supervised::poll_timeout).unwrap_or(Timestamp::MAX);
        let next = deadline.min(trigger).min(end).min(link);
        self.time.rest_until(next);
        Progress::Idle(next)
    }

    fn publish(&mut self, now: Timestamp) {
        let state = self.state(now);
        self.gauges.show(now, state, &self.role);
        let outbox = self.outbox.stats();
        let report = &self.report;
        let figures = ManagerFigures {
            state,
            started_at: self.started_at,
            offered: report.offered,
            fragments: report.fragments,
            bytes: report.bytes,
            incomplete: report.incomplete,
            latency: &report.latency_buckets,
            mishaps: [report.lost_builders, report.restarted_readouts, report.restarted_outputs],
            outbox: &outbox,
        };
        let Telemetry { publisher, series } = &mut self.telemetry;
        publisher.publish(now.0, |to| series.write(to, now, &self.role, &figures));
    }

    fn wait(&mut self, timeout: Nanos) {
        self.outbox.endpoint().wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        self.outbox.end_run(self.role.hands_over());
        self.report.switched = self.next_at.is_some() && self.stopped_at.is_none();
        self.report.close(&self.role, self.outbox.stats());
        if let Some(supervised) = &self.supervised {
            self.report.close_link(supervised.report());
        }
        // No time passes for the books any more.
        self.publish(self.report.last_end_at.unwrap_or_default());
        if let Some(done) = self.done.take() {
            done(std::mem::take(&mut self.report));
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        self.leave()
    }
}
