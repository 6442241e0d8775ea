//! A builder unit on a thread: events in, judged and written.

mod following;
mod mishaps;
mod part_judging;
mod pipeline;
mod publishing;
mod tracing;
mod turn;

use crate::content::ContentCheck;
use crate::farm::{Farm, FarmReport};
use crate::filter::Filter;
use crate::forwarding::Forwarding;
use crate::handover::Handover;
use crate::link_handover::LinkHandover;
use crate::number_check::NumberCheck;
use crate::outbox::{Outbox, OutboxStats};
use crate::sink::EventSink;
use crate::stall::StallFree;
use crate::step::beside::StepsBeside;
use crate::step::{StepFilter, Steps};
use crate::storing::{Settled, Storing};
use crate::telemetry::{BuilderSeries, Telemetry};
use crate::traces::BuilderTrace;
use crate::vigil::Vigil;
use crate::worker::{NodeDriver, NodeError, Progress};
use bytes::Bytes;
use mishaps::Mishaps;
use pipeline::{EventPipeline, Fate, Outlet};
use sheaf_protocol::builder::{BuilderEvent, BuilderUnit, Built, Decision};
use sheaf_protocol::ledger::NodeBooks;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::output::Sender;
use sheaf_telemetry::log_as;
use sheaf_transport::Endpoint;
use sheaf_wire::message::{Readiness, Work};
use sheaf_wire::run_record::RunRecord;
use sheaf_wire::{EventId, MissingReason, Nanos, NodeId, Role, SourceId, Tags, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use turn::Turns;

/// Checks, filter and output of built events.
pub struct Judgement {
    /// Content check, done first.
    pub check: ContentCheck,
    /// Comparison of event numbers, done next.
    pub numbers: NumberCheck,
    /// Filter, asked next where there is no farm.
    pub filter: Box<dyn Filter>,
    /// Destination of accepted events. With output nodes, the consumers' door, which stores nothing.
    pub sink: Box<dyn EventSink>,
}

/// A builder unit with its filter, its output and its endpoint.
pub struct BuilderNode {
    role: BuilderUnit<Bytes>,
    outbox: Outbox,
    pipeline: EventPipeline,
    /// Judges the first steps of events, where they are built in steps.
    steps: Option<Steps>,
    turns: Turns,
    /// Turns of parts, with building in steps: the duration of a part says nothing about that of a whole event.
    part_turns: Turns,
    missing: BTreeMap<(SourceId, MissingReason), u64>,
    vigil: Vigil,
    time: StallFree,
    closed_at: Option<Timestamp>,
    failed: Option<NodeError>,
    step_failures: Mishaps,
    report: Option<Box<dyn FnOnce(BuilderReport) + Send>>,
    telemetry: Option<Telemetry<BuilderSeries>>,
    trace: Option<BuilderTrace>,
}

/// Results of a builder's checks and the counters of its links, in addition to the accounts that it reports to the
/// event manager.
#[derive(Clone, Debug)]
pub struct BuilderReport {
    /// The builder.
    pub node: NodeId,
    /// Events whose content differed from what the sources sent.
    pub bad_events: u64,
    /// Events that the builder unit's own filter had no verdict about, which are stored as they were built. Those of its farm
    /// are in the farm's counts.
    pub quarantined: u64,
    /// Counters of the filter, summed over workers that are threads.
    pub filter: Vec<(&'static str, u64)>,
    /// Report of its farm, if it had one.
    pub farm: Option<FarmReport>,
    /// Counters of the output.
    pub output: Vec<(String, u64)>,
    /// Number of events that were built without a required source, by source and reason.
    pub missing: BTreeMap<(SourceId, MissingReason), u64>,
    /// Mean time that an event took on the builder unit's own thread, where that judged without a pause.
    pub judging: Option<Nanos>,
    /// Counts of the sender to output nodes, if there are any.
    pub sender: NodeBooks,
    /// Parts of events for which the step filter failed: the rest was requested.
    pub step_failures: u64,
    /// Counters of the step filter.
    pub steps: Vec<(&'static str, u64)>,
    /// Messages that were not sent or not understood.
    pub outbox: OutboxStats,
}

impl BuilderNode {
    /// Makes a builder. It gives up if the event manager is silent for the time in `patience`.
    #[must_use]
    pub fn new(
        role: BuilderUnit<Bytes>,
        endpoint: Box<dyn Endpoint>,
        judgement: Judgement,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let outbox = Outbox::new(endpoint, role.identity().session);
        Self::with(role, outbox, judgement, patience, now)
    }

    fn with(
        role: BuilderUnit<Bytes>,
        outbox: Outbox,
        judgement: Judgement,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let Judgement { check, numbers, filter, sink } = judgement;
        let node = role.identity().node;
        let pipeline = EventPipeline {
            node,
            clock: now,
            check,
            numbers,
            disagrees: false,
            filter,
            outlet: Outlet::Here(Storing::new(node, sink)),
            farm: None,
            lacking: Vec::new(),
            bad_events: Mishaps::default(),
            quarantined: Mishaps::default(),
            is_quarantined: false,
        };
        Self {
            role,
            outbox,
            pipeline,
            steps: None,
            turns: Turns::default(),
            part_turns: Turns::default(),
            missing: BTreeMap::new(),
            vigil: Vigil::new(node, patience, now),
            time: StallFree::default(),
            closed_at: None,
            failed: None,
            step_failures: Mishaps::default(),
            report: None,
            telemetry: None,
            trace: None,
        }
    }

    /// Calls `report` once at the end.
    #[must_use]
    pub fn with_report(mut self, report: impl FnOnce(BuilderReport) + Send + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Has events judged by the workers of a farm instead of the filter.
    #[must_use]
    pub fn with_farm(mut self, farm: Farm) -> Self {
        self.pipeline.farm = Some(farm);
        self
    }

    /// Has accepted events stored by output nodes.
    #[must_use]
    pub fn with_outputs(mut self, sender: Sender<Bytes>) -> Self {
        self.pipeline.outlet = match self.pipeline.outlet {
            Outlet::Here(storing) => Outlet::There(Forwarding::new(sender, storing.into_sink())),
            there @ Outlet::There(_) => there,
        };
        self
    }

    /// Runs the step filter on this node's thread, with building in steps: the filter is known to be fast. Without a
    /// step filter, the rest of every event is requested.
    #[must_use]
    pub fn in_steps(mut self, filter: Box<dyn StepFilter>) -> Self {
        self.steps = Some(Steps::Here(filter));
        self
    }

    /// As [`Self::in_steps`], on a separate thread: the filter may be slow.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn in_steps_beside(mut self, filter: Box<dyn StepFilter>) -> std::io::Result<Self> {
        let waker = self.outbox.endpoint().waker();
        self.steps = Some(Steps::Beside(StepsBeside::start(filter, waker)?));
        Ok(self)
    }

    /// Takes built events from the role, and verdicts on earlier ones. Returns `true` if a worker did something, or if
    /// there may be more events.
    fn take_events(&mut self, now: Timestamp) -> bool {
        if let Outlet::Here(storing) = &mut self.pipeline.outlet
            && !storing.is_ready(self.pipeline.clock)
        {
            // Built events stay with the role; only news of the run's course must not wait behind them.
            return self.pipeline.farm.as_mut().is_some_and(|farm| farm.work(now));
        }
        self.take_built(now);
        let mut busy = self.pipeline.farm.as_mut().is_some_and(|farm| farm.work(now));
        busy |= self.take_judged_parts(now);
        self.take_verdicts(now);
        self.end_batch(now);
        busy || self.is_turn_over()
    }

    /// Returns whether there may be more events than this thread filters in one turn.
    fn is_turn_over(&self) -> bool {
        self.turns.is_over() || self.part_turns.is_over()
    }

    /// Takes everything that the role has for its driver. Events filtered on this thread are taken one turn at a time.
    fn take_built(&mut self, now: Timestamp) {
        if self.is_turn_over() {
            return;
        }
        let judges_here = self.pipeline.farm.is_none();
        while self.pipeline.farm.as_ref().is_none_or(Farm::has_room)
            && let Some(event) = self.role.poll_event()
        {
            match event {
                BuilderEvent::Started => {}
                BuilderEvent::Built(built) => {
                    let is_turn_over = judges_here && self.turns.take();
                    let goes_on = self.take_one(now, built);
                    if is_turn_over || !goes_on {
                        break;
                    }
                }
                BuilderEvent::Part(part) => {
                    let is_turn_over = self.part_turns.take();
                    self.judge_part(now, part);
                    if is_turn_over {
                        break;
                    }
                }
                BuilderEvent::Record(record) => self.record(record),
                BuilderEvent::Closed => self.closed_at = Some(now),
                BuilderEvent::Fenced => self.note_fence(),
                BuilderEvent::ManagerRestarted => {
                    self.failed = Some(NodeError::ManagerRestarted(self.role.identity().node));
                }
            }
        }
    }

    /// Writes a run record. Without an output of its own, a builder unit gets none.
    #[cold]
    fn record(&mut self, record: Arc<RunRecord>) {
        if let Outlet::Here(storing) = &mut self.pipeline.outlet {
            storing.record(self.pipeline.clock, record);
        }
    }

    /// Writes the run records that the role has, because an output that fails has kept them there.
    fn record_rest(&mut self) {
        while let Some(event) = self.role.poll_event() {
            if let BuilderEvent::Record(record) = event {
                self.record(record);
            }
        }
    }

    /// Takes a built event. Returns `false` if no other may follow. Every event passes here; inlined into its loop,
    /// this function would be too large for its callees to be inlined.
    #[inline(never)]
    fn take_one(&mut self, now: Timestamp, built: Built) -> bool {
        let mut incomplete = false;
        let event = built.event();
        if let Some(trace) = &mut self.trace {
            match self.pipeline.farm {
                None => trace.judged_here(event),
                Some(_) => trace.offered(event),
            }
        }
        let fate = self.role.lend(built, |event| {
            incomplete = event.incomplete;
            if incomplete {
                self.pipeline.lacking.clone_from(&event.missing);
            }
            self.pipeline.judge(event)
        });
        if incomplete {
            self.note_missing(event);
        }
        if self.pipeline.is_quarantined {
            self.note_quarantine(event);
        }
        if self.pipeline.disagrees {
            self.report_disagreements();
        }
        self.settle(now, event, fate)
    }

    /// Reports the fragments of the last event that disagree.
    #[cold]
    fn report_disagreements(&mut self) {
        self.pipeline.disagrees = false;
        let (compared, disagreements) = self.pipeline.numbers.disagreements();
        self.role.handle_disagreements(compared, disagreements);
    }

    /// The event manager has given this session up. Where it has closed the run before, as one that is cut short, no other session is
    /// wanted.
    fn note_fence(&mut self) {
        if !self.role.is_closed() {
            self.failed = Some(NodeError::Fenced(self.role.identity().node));
        }
    }

    /// Counts the required sources that the event which was just shown lacks. Those that an operator has excluded are not required.
    fn note_missing(&mut self, event: EventId) {
        for missing in &self.pipeline.lacking {
            let is_required = missing.reason.is_loss() && self.role.is_required(missing.source);
            if is_required {
                *self.missing.entry((missing.source, missing.reason)).or_default() += 1;
            }
            // An event that lacks what an operator has excluded is not remarkable.
            if let Some(trace) = self.trace.as_mut().filter(|_| missing.reason != MissingReason::Excluded) {
                trace.lacks(event, missing, is_required);
            }
        }
    }

    /// Handles the verdicts of the farm.
    fn take_verdicts(&mut self, now: Timestamp) {
        while let Some((mut event, verdict)) = self.pipeline.farm.as_mut().and_then(Farm::poll) {
            if let Some(trace) = &mut self.trace {
                trace.judged(event.id);
                if verdict.tags.contains(Tags::QUARANTINED) {
                    trace.quarantined(event.id);
                }
            }
            let fate = self.pipeline.follow(&mut event, &verdict);
            let goes_on = self.settle(now, event.id, fate);
            self.role.recycle(event);
            if !goes_on {
                break;
            }
        }
    }

    /// Records the fate of an event. Returns `false` if no other event may follow.
    #[inline]
    fn settle(&mut self, now: Timestamp, event: EventId, fate: Fate) -> bool {
        if let Fate::Decided(decision) = fate {
            self.trace_decision(event, decision);
            self.role.handle_decision(now, event, decision);
        }
        fate != Fate::Stuck
    }

    /// Ends a batch and passes decisions to the role. A stored event is passed only once it is as durable as
    /// configured.
    fn end_batch(&mut self, now: Timestamp) {
        self.role.note_unchecked(self.pipeline.numbers.take_unchecked());
        let is_pressed = self.is_output_behind() || self.role.is_half_full();
        match &mut self.pipeline.outlet {
            Outlet::Here(storing) => {
                if is_pressed {
                    storing.press();
                }
                storing.end_batch(self.pipeline.clock);
                while let Some(settled) = storing.poll() {
                    let (event, decision) = match settled {
                        Settled::Stored(event, _) => (event, Decision::Stored),
                        Settled::LeftOut(event) => (event, Decision::Rejected),
                    };
                    if let Some(trace) = &mut self.trace {
                        trace.decided(event);
                    }
                    self.role.handle_decision(now, event, decision);
                }
            }
            Outlet::There(forwarding) => {
                forwarding.tend(now);
                while let Some((event, decision)) = forwarding.poll() {
                    if let Some(trace) = &mut self.trace {
                        trace.decided(event.id);
                    }
                    self.role.handle_decision(now, event.id, decision);
                    self.role.recycle(event);
                }
            }
        }
    }

    /// Returns whether the output fails, or the builder unit is out of room because of events that wait for it.
    fn is_output_behind(&self) -> bool {
        let (in_trouble, waiting) = match &self.pipeline.outlet {
            Outlet::Here(storing) => (storing.is_in_trouble(), storing.waiting()),
            Outlet::There(forwarding) => (forwarding.is_held_up(), forwarding.waiting()),
        };
        in_trouble || self.role.is_filled_by(waiting)
    }

    /// The work on built events that is under way, for which the end of the run waits.
    fn work_under_way(&self) -> Work {
        let judges = self.pipeline.farm.as_ref().map_or(self.is_turn_over(), Farm::is_judging)
            || self.steps.as_ref().is_some_and(Steps::is_judging);
        let stores = match &self.pipeline.outlet {
            Outlet::Here(storing) => storing.waiting() > 0 && !storing.is_failing(),
            Outlet::There(forwarding) => forwarding.waiting() > 0 && !forwarding.is_held_up(),
        };
        match (judges, stores) {
            (true, _) => Work::Judging,
            (false, true) => Work::Storing,
            (false, false) => Work::None,
        }
    }

    fn is_over(&mut self, now: Timestamp) -> bool {
        self.failed = self.failed.take().or_else(|| self.vigil.leave(self.outbox.reason_to_leave()));
        if self.failed.is_some() {
            return true;
        }
        if self.role.is_fenced() && self.role.is_finished() {
            self.note_fence();
            return true;
        }
        if self.role.is_finished() {
            return self.vigil.may_end(now, self.outbox.may_be_asked(), self.role.manager_liveness());
        }
        if let Some(closed_at) = self.closed_at {
            return !self.vigil.lingers(now, closed_at, self.role.manager_liveness());
        }
        self.failed = self.vigil.end(now, self.role.manager_liveness());
        self.failed.is_some()
    }
}

impl NodeDriver for BuilderNode {
    fn node(&self) -> NodeId {
        self.role.identity().node
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        self.turns.begin(now);
        self.part_turns.begin(now);
        self.pipeline.clock = now;
        self.outbox.begin_round(now);
        if let Some(trace) = &mut self.trace {
            trace.begin_round(now);
        }
        let now = self.time.at(now);
        let mut busy = false;
        while let Some(message) = self.outbox.poll() {
            busy = true;
            if let Some(trace) = &mut self.trace {
                trace.take(&message);
            }
            match &mut self.pipeline.outlet {
                Outlet::There(forwarding) if message.header.sender.role == Role::Output => {
                    forwarding.sender.handle_input(now, message);
                }
                _ => self.role.handle_input(now, message),
            }
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            match &mut self.pipeline.outlet {
                Outlet::There(forwarding) if peer.role == Role::Output => {
                    forwarding.sender.handle_link(now, peer, link);
                }
                _ => self.role.handle_link(now, peer, link),
            }
        }
        let was_held_up = self.time.has_news();
        if was_held_up {
            self.role.handle_stall(now);
        }
        self.role.handle_timeout(now);
        if let Outlet::There(forwarding) = &mut self.pipeline.outlet {
            if was_held_up {
                forwarding.sender.handle_stall(now);
            }
            forwarding.sender.handle_timeout(now);
        }
        busy |= self.take_events(now);
        self.role.handle_output(now, self.is_output_behind());
        self.role.handle_work(self.work_under_way());
        self.role
            .handle_readiness(now, self.pipeline.farm.as_ref().map_or(Readiness::Ready, Farm::readiness));
        while let Some(transmit) = self.role.poll_transmit(now) {
            busy = true;
            self.outbox.send(transmit);
        }
        if let Outlet::There(forwarding) = &mut self.pipeline.outlet {
            while let Some(transmit) = forwarding.sender.poll_transmit(now) {
                busy = true;
                self.outbox.send(transmit);
            }
        }
        self.outbox.flush();
        busy |= self.trace.as_mut().is_some_and(BuilderTrace::end_round);
        if self.is_over(now) {
            return Progress::Finished;
        }
        if busy {
            return Progress::Busy;
        }
        if self.pipeline.farm.as_mut().is_some_and(|farm| !farm.lie_down()) {
            return Progress::Busy;
        }
        let farm = self.pipeline.farm.as_ref().map_or(Timestamp::MAX, Farm::poll_timeout);
        let deadline = self.role.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at).min(farm);
        let until = match &mut self.pipeline.outlet {
            Outlet::Here(storing) => self.time.everybodys(deadline).min(storing.due()),
            Outlet::There(forwarding) => self.time.everybodys(deadline.min(forwarding.due())),
        };
        self.time.rest_until(until);
        Progress::Idle(until)
    }

    fn publish(&mut self, now: Timestamp) {
        self.publish_figures(now);
    }

    fn wait(&mut self, timeout: Nanos) {
        self.outbox.endpoint().wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        let node = self.node();
        self.outbox.end_run(self.role.hands_over());
        self.record_rest();
        let (closed, output, books) = match &mut self.pipeline.outlet {
            Outlet::Here(storing) => (storing.finish(), storing.counters(), NodeBooks::default()),
            Outlet::There(forwarding) => (forwarding.finish(), Vec::new(), forwarding.sender.books()),
        };
        self.publish(Timestamp::ZERO);
        let farm = self.pipeline.farm.as_mut().map(Farm::finish);
        let steps = self.steps.as_mut().map(Steps::finish).unwrap_or_default();
        if let Some(report) = self.report.take() {
            let mut filter = self.pipeline.filter.counters();
            add_counters(&mut filter, farm.iter().flat_map(|farm| &farm.filter));
            report(BuilderReport {
                node,
                bad_events: self.pipeline.bad_events.0,
                quarantined: self.pipeline.quarantined.0,
                filter,
                farm,
                output,
                missing: std::mem::take(&mut self.missing),
                judging: self.turns.mean(),
                sender: books,
                step_failures: self.step_failures.0,
                steps,
                outbox: self.outbox.stats(),
            });
        }
        match (closed, self.failed.take()) {
            // Events that a fenced session has not stored are built elsewhere: the failure of its output loses nothing,
            // and the next session begins with a new output.
            (Err(error), Some(fenced @ NodeError::Fenced(_))) => {
                log_as!(
                    OUTPUT_ABANDONED, node = node;
                    "{node}: the output of a session that was given up: {error}"
                );
                Err(fenced)
            }
            (Err(error), _) => Err(NodeError::Output { node, error }),
            (Ok(()), Some(failed)) => Err(failed),
            (Ok(()), None) => Ok(()),
        }
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        let Self { role, outbox, .. } = *self;
        role.hands_over().then(|| -> Box<dyn Handover> { Box::new(LinkHandover { outbox }) })
    }
}

/// Adds counters to those of the same names.
fn add_counters<'a>(
    sums: &mut Vec<(&'static str, u64)>,
    counters: impl IntoIterator<Item = &'a (&'static str, u64)>,
) {
    for (name, value) in counters {
        match sums.iter_mut().find(|(other, _)| other == name) {
            Some((_, sum)) => *sum += value,
            None => sums.push((name, *value)),
        }
    }
}
