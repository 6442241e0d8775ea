//! A readout unit on a thread: sources in, super-fragments out.

mod follower;
mod input;
mod mirrored;
mod standstill;

use crate::handover::Handover;
use crate::outbox::{Outbox, OutboxStats};
use crate::parcels::Parcels;
use crate::preprocessing::{
    NextPreprocessors, Preprocessing, PreprocessingCounts, PreprocessingError, PreprocessingSetup,
};
use crate::stall::StallFree;
use crate::telemetry::{BufferLimits, ReadoutSeries, SourceFigures, Telemetry};
use crate::traces::{ReadoutTrace, Tracing};
use crate::vigil::Vigil;
use crate::worker::{NodeDriver, NodeError, Progress};
use follower::Follower;
use input::Input;
use mirrored::Guard;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::readout::{ReadoutEvent, ReadoutUnit, WindowOrder};
use sheaf_shaping::ShaperConfig;
use sheaf_source::{Source, SourceEvent, SourceStats};
use sheaf_telemetry::stamps::StampLabels;
use sheaf_telemetry::{Hub, SeriesList, log_as};
use sheaf_transport::Endpoint;
use sheaf_wire::{EventId, Nanos, NodeId, SourceId, Span, Timestamp};
use standstill::Standstill;
use std::task::Waker;

/// A readout unit with its sources and its endpoint.
pub struct ReadoutNode {
    role: ReadoutUnit<Span>,
    outbox: Outbox,
    parcels: Parcels,
    inputs: Vec<Input>,
    preprocessing: Option<Preprocessing>,
    vigil: Vigil,
    standstill: Standstill,
    time: StallFree,
    running: bool,
    closed_at: Option<Timestamp>,
    failed: Option<NodeError>,
    /// Its part where a mirror follows it.
    guard: Option<Box<Guard>>,
    /// Whether its mirror acts for it.
    is_superseded: bool,
    /// Whether it is a mirror that acts for its readout unit.
    stands_in: bool,
    /// Its part where it is a mirror.
    follower: Option<Box<Follower>>,
    /// Since when the run is over here, and the mirror is to know.
    over_since: Option<Timestamp>,
    report: Option<Box<dyn FnOnce(ReadoutReport) + Send>>,
    telemetry: Option<Telemetry<ReadoutSeries>>,
    trace: Option<ReadoutTrace>,
}

/// Parts of a readout unit that the next run in its node goes on with.
pub struct ReadoutHandover {
    outbox: Outbox,
    parcels: Parcels,
    inputs: Vec<Input>,
    preprocessing: Option<Preprocessing>,
    /// First event of the next run.
    next_event: EventId,
}

impl Handover for ReadoutHandover {
    fn abandon(mut self: Box<Self>) {
        self.inputs.iter_mut().for_each(|input| input.source.stop());
        self.preprocessing.iter_mut().for_each(Preprocessing::close);
        self.outbox.end_run(false);
    }

    fn waker(&mut self) -> Waker {
        self.outbox.endpoint().waker()
    }
}

/// Counters of a readout unit's sources and links, in addition to the accounts that it reports to the event manager.
#[derive(Clone, Debug)]
pub struct ReadoutReport {
    /// The readout unit.
    pub node: NodeId,
    /// Each source's own counts.
    pub sources: Vec<(SourceId, SourceStats)>,
    /// Messages that were not sent or not understood.
    pub outbox: OutboxStats,
    /// Counts of fragments to be processed, if the unit is an active one.
    pub preprocessing: Option<PreprocessingCounts>,
}

impl ReadoutNode {
    /// Makes a readout unit that begins with the run. It gives up if the event manager is silent for the time in
    /// `patience`.
    #[must_use]
    pub fn new(
        role: ReadoutUnit<Span>,
        endpoint: Box<dyn Endpoint>,
        sources: Vec<Box<dyn Source>>,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let inputs = sources.into_iter().map(Input::new).collect();
        let outbox = Outbox::new(endpoint, role.identity().session);
        let parcels = Parcels::default();
        Self::with(role, (outbox, parcels, inputs), patience, now)
    }

    /// Makes a readout unit of the run that follows another one in this node. If it processes fragments, `preprocessors` are those of its
    /// run.
    #[must_use]
    pub fn following(
        mut role: ReadoutUnit<Span>,
        handover: ReadoutHandover,
        preprocessors: Option<NextPreprocessors>,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let ReadoutHandover { mut outbox, parcels, inputs, preprocessing, next_event } = handover;
        outbox.begin_run();
        role.begin_with(next_event);
        let mut node = Self::with(role, (outbox, parcels, inputs), patience, now);
        node.preprocessing = preprocessing;
        if let (Some(preprocessing), Some(next)) = (&mut node.preprocessing, preprocessors) {
            preprocessing.go_on(next);
        }
        for input in &mut node.inputs {
            input.go_on(&mut node.role, now);
        }
        node
    }

    fn with(
        role: ReadoutUnit<Span>,
        (outbox, parcels, inputs): (Outbox, Parcels, Vec<Input>),
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let node = role.identity().node;
        let mut node = Self {
            role,
            outbox,
            parcels,
            inputs,
            preprocessing: None,
            vigil: Vigil::new(node, patience, now),
            standstill: Standstill::default(),
            time: StallFree::default(),
            running: false,
            closed_at: None,
            failed: None,
            guard: None,
            is_superseded: false,
            stands_in: false,
            follower: None,
            over_since: None,
            report: None,
            telemetry: None,
            trace: None,
        };
        node.know_sources();
        node
    }

    /// Tells the role which of its sources wait, or give on request.
    fn know_sources(&mut self) {
        for source in self.inputs.iter().map(|input| &input.source) {
            if source.answers_windows() {
                self.role.answer_on_request(source.id());
            } else if source.keeps_data() {
                self.role.wait_for_source(source.id());
            }
        }
    }

    /// Publishes its metrics under this name. `limits` are those of its buffer.
    #[must_use]
    pub fn publishing(mut self, hub: &Hub, name: &str, limits: BufferLimits) -> Self {
        match &mut self.follower {
            Some(follower) => follower.publishes = Some((hub.clone(), name.to_owned(), limits)),
            None => self.begin_telemetry(hub, name, limits),
        }
        self
    }

    fn begin_telemetry(&mut self, hub: &Hub, name: &str, limits: BufferLimits) {
        let sources = self.inputs.iter().map(|input| input.source.id());
        let list = |list: &mut SeriesList| ReadoutSeries::list(list, name, sources, limits);
        self.telemetry = Some(Telemetry::begin(hub, name, list));
    }

    /// Stamps its events under this name. `builders` are the names of the builder units.
    #[must_use]
    pub fn traced(mut self, tracing: &Tracing, name: &str, builders: Vec<String>) -> Self {
        let sources = self.inputs.iter().map(|input| input.source.id().0).collect();
        let labels = StampLabels { sources, builders, ..StampLabels::default() };
        self.trace = Some(ReadoutTrace::begin(tracing, name, labels));
        self
    }

    /// Calls `report` once at the end.
    #[must_use]
    pub fn with_report(mut self, report: impl FnOnce(ReadoutReport) + Send + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Listens to whichever of two replicas of the event manager is active, and votes on which it is if `vote` is given: the silence after
    /// which the active one may be succeeded. A mirror votes when it acts for its readout unit.
    #[must_use]
    pub fn with_replicas(mut self, vote: Option<Nanos>) -> Self {
        match &mut self.follower {
            Some(follower) => Self::join_replicas(&mut self.outbox, follower, vote),
            None => self.outbox.join(*self.role.identity(), vote),
        }
        self
    }

    /// Shapes the super-fragments for the `builders` builder units as `config` says, whole messages at a time: for
    /// transports that do not shape themselves.
    #[must_use]
    pub fn shaped(mut self, config: ShaperConfig, builders: usize) -> Self {
        let me = usize::from(self.role.identity().node.index);
        self.outbox.shape_frames(config, builders, me);
        self
    }

    /// Processes fragments before they are sent. The workers are started here.
    ///
    /// # Errors
    /// If the preprocessor cannot be made, or a worker cannot be started.
    pub fn active(mut self, setup: PreprocessingSetup) -> Result<Self, PreprocessingError> {
        let waker = self.outbox.endpoint().waker();
        self.preprocessing = Some(Preprocessing::new(self.role.identity().node, setup, waker)?);
        Ok(self)
    }

    /// Sends the role's messages. Returns whether there were any.
    fn transmit(&mut self, now: Timestamp) -> bool {
        if self.preprocessing.is_some() {
            return self.transmit_processed(now);
        }
        if self.guard.is_some() {
            return self.transmit_guarded(now);
        }
        let mut some = false;
        while let Some(transmit) = self.role.poll_transmit_if(now, |builder| self.outbox.has_room(builder)) {
            some = true;
            if let Some(trace) = &mut self.trace {
                trace.send(transmit.to.index, &transmit.message.body);
            }
            self.outbox.send_from(now, &self.parcels, transmit);
        }
        some
    }

    /// The same where answers are processed before.
    fn transmit_processed(&mut self, now: Timestamp) -> bool {
        let Self { role, outbox, parcels, preprocessing: Some(preprocessing), trace, .. } = self else {
            return false;
        };
        let mut some = preprocessing.work(now);
        loop {
            let transmit = match preprocessing.has_room() {
                true => role.poll_transmit_if(now, |builder| outbox.has_room(builder)),
                false => role.poll_control(now),
            };
            let Some(transmit) = transmit else { break };
            some = true;
            if let Some(other) = preprocessing.take(parcels, transmit) {
                outbox.send_from(now, parcels, other);
            }
        }
        preprocessing.flush();
        while let Some(transmit) = preprocessing.poll_transmit() {
            some = true;
            if let Some(trace) = trace {
                trace.send(transmit.to.index, &transmit.message.body);
            }
            outbox.send_shaped(now, transmit);
        }
        let (saved, added) = preprocessing.take_difference();
        role.note_saved(saved);
        role.note_added(added);
        role.handle_processing(preprocessing.is_busy());
        some
    }

    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.role.poll_event() {
            match event {
                ReadoutEvent::Started { floor } => {
                    self.running = true;
                    for input in self.inputs.iter_mut().filter(|input| !input.has_started) {
                        input.has_started = true;
                        floor.into_iter().for_each(|floor| input.source.skip_to(floor));
                        input.source.start();
                    }
                }
                ReadoutEvent::Paused | ReadoutEvent::Resumed => {
                    let paused = event == ReadoutEvent::Paused;
                    self.inputs.iter_mut().for_each(|input| input.source.handle_pause(paused));
                }
                ReadoutEvent::Closed if self.role.hands_over() => {
                    self.running = false;
                    self.closed_at = Some(now);
                    self.hold_for_next();
                }
                ReadoutEvent::Closed => {
                    self.running = false;
                    self.closed_at = Some(now);
                    for input in &mut self.inputs {
                        input.source.stop();
                        for fragment in input.rest() {
                            self.parcels.release(fragment.payload);
                        }
                        input.had = input.batch.fragments.len();
                    }
                }
                ReadoutEvent::Excluded { source, excluded } => {
                    for input in self.inputs.iter_mut().filter(|input| input.source.id() == source) {
                        input.excluded = excluded;
                        input.wake();
                    }
                }
                ReadoutEvent::Recorded(answer) => {
                    let asked = self.inputs.iter_mut().find(|input| input.source.id() == answer.source);
                    if let Some(input) = asked {
                        input.source.handle_recorded(answer);
                    }
                }
                ReadoutEvent::Shape { turning, epoch } => self.outbox.shape(now, turning, epoch),
                ReadoutEvent::ManagerRestarted => {
                    self.failed = Some(NodeError::ManagerRestarted(self.role.identity().node));
                }
            }
        }
    }

    /// Keeps the fragments of the next run that the role has had.
    fn hold_for_next(&mut self) {
        for fragment in self.role.take_held() {
            let input = self.inputs.iter_mut().find(|input| input.source.id() == fragment.source);
            input.expect("the role has fragments of its sources").held.push_back(fragment);
        }
    }

    /// Passes the requests for windows of hits to their sources.
    fn pass_window_orders(&mut self) {
        while let Some(order) = self.role.poll_window() {
            match order {
                WindowOrder::Give { event, sources, windows } => {
                    for input in self.inputs.iter_mut().filter(|input| sources.contains(&input.source.id())) {
                        input.source.handle_windows(event, &windows);
                        input.wake();
                    }
                }
                WindowOrder::Cancel(event) => {
                    self.inputs.iter_mut().for_each(|input| input.source.cancel_windows(event));
                }
            }
        }
    }

    /// Takes events of sources that depend on programs of the user.
    fn take_source_events(&mut self, now: Timestamp) {
        for input in &mut self.inputs {
            let source = input.source.id();
            while let Some(event) = input.source.poll_event() {
                match event {
                    SourceEvent::Gone | SourceEvent::Back => {
                        input.is_gone = event == SourceEvent::Gone;
                        self.role.handle_source_gone(now, source, input.is_gone);
                    }
                    SourceEvent::Missing { event, reason } => self.role.handle_missing(source, event, reason),
                    SourceEvent::Warning(text) => {
                        log_as!(
                            SOURCE_ERROR, node = self.role.identity().node, source = source;
                            "{}: source {source}: {text}", self.role.identity().node
                        );
                    }
                    SourceEvent::Record(record) => self.role.handle_record(record),
                    SourceEvent::Declined { name, reason } => {
                        let node = self.role.identity().node;
                        let late =
                            if self.running { ", which is in progress: this has no effect" } else { "" };
                        log_as!(
                            START_DECLINED, node = node, peer = name;
                            "{node}: {name} declines the start of the run{late}: {reason}"
                        );
                        if !self.running {
                            self.role.handle_decline(now);
                        }
                    }
                }
            }
        }
        self.role.handle_recording(self.inputs.iter_mut().any(|input| input.source.is_recording()));
        if !self.running && self.closed_at.is_none() {
            // Each source is asked, since that lets it go on.
            let waiting = self
                .inputs
                .iter_mut()
                .filter_map(|input| (!input.source.is_ready()).then_some(input.excluded));
            let waits = waiting.fold(false, |waits, excluded| waits | !excluded);
            self.role.handle_waiting(now, waits);
        }
    }

    /// Announces to all sources that the thread is about to sleep. Returns `false` if one has something new.
    fn prepare_sources_to_sleep(&mut self) -> bool {
        let mut quiet = true;
        for input in &mut self.inputs {
            // Each source is notified, even if an earlier one has something new.
            quiet &= input.source.prepare_to_sleep();
        }
        quiet
    }

    /// Takes fragments from all sources. Returns whether there were any, and when to check again.
    fn take_fragments(&mut self, now: Timestamp) -> (bool, Timestamp) {
        let mut busy = false;
        let mut until = Timestamp::MAX;
        if self.running {
            for (source, input) in self.inputs.iter_mut().enumerate() {
                let trace = self.trace.as_mut().map(|trace| (trace, source));
                let guard =
                    self.guard.as_deref_mut().map(|guard| (guard, u16::try_from(source).unwrap_or(u16::MAX)));
                let (taken, some, again) =
                    input.take(&mut self.role, (&mut self.parcels, guard), (now, trace));
                self.standstill.note_taken(taken);
                busy |= some;
                until = until.min(again);
            }
        }
        (busy, until)
    }

    fn is_over(&mut self, now: Timestamp) -> bool {
        self.failed = self.failed.take().or_else(|| self.vigil.leave(self.outbox.reason_to_leave()));
        if self.failed.is_some() || self.is_superseded {
            return true;
        }
        if self.role.is_finished() {
            return !self.owes_mirror(now)
                && self.vigil.may_end(now, self.outbox.may_be_asked(), self.role.manager_liveness());
        }
        if let Some(closed_at) = self.closed_at {
            return !self.vigil.lingers(now, closed_at, self.role.manager_liveness());
        }
        self.failed = self.vigil.end(now, self.role.manager_liveness());
        self.failed.is_some()
    }

    /// Does a round of a readout unit.
    fn work_as_unit(&mut self, now: Timestamp) -> Progress {
        if let Some(trace) = &mut self.trace {
            trace.begin_round(now);
        }
        self.outbox.begin_round(now);
        let stall = self.time.note_round(now);
        self.begin_guarded(now, stall);
        self.vigil.handle_stall(now, stall);
        let mut busy = false;
        while let Some(message) = self.outbox.poll() {
            busy = true;
            let Some(message) = self.admit(now, message) else { continue };
            if let Some(trace) = &mut self.trace {
                trace.take(&message);
            }
            self.role.handle_input(now, message);
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            if self.admit_link(now, peer, link) {
                self.role.handle_link(now, peer, link);
            }
        }
        self.take_events(now);
        self.pass_window_orders();
        self.take_source_events(now);
        let (some, until) = self.take_fragments(now);
        busy |= some;
        self.role.handle_timeout(now);
        busy |= self.transmit(now);
        busy |= self.end_guarded(now);
        for span in self.role.discarded() {
            self.parcels.release(span);
        }
        self.outbox.flush_slots(now);
        self.outbox.flush();
        busy |= self.outbox.take_room_made();
        if let Some(trace) = &mut self.trace {
            trace.end_round();
        }
        if self.is_over(now) {
            return Progress::Finished;
        }
        if busy {
            return Progress::Busy;
        }
        if let Some(report) = self.standstill.report(now, &self.role) {
            log_as!(NO_PROGRESS, node = self.node(); "{report}");
        }
        if !self.prepare_sources_to_sleep() {
            return Progress::Busy;
        }
        let deadline = self.role.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        let slot = self.outbox.poll_timeout().unwrap_or(Timestamp::MAX);
        let worker = self.preprocessing.as_ref().and_then(Preprocessing::poll_timeout);
        let guard = self.guard.as_ref().and_then(|guard| guard.poll_timeout());
        let until = [worker, guard].into_iter().flatten().fold(until.min(deadline).min(slot), Timestamp::min);
        self.time.rest_until(until);
        Progress::Idle(until)
    }
}

impl NodeDriver for ReadoutNode {
    fn node(&self) -> NodeId {
        self.node_here()
    }

    fn work(&mut self, now: Timestamp) -> Progress {
        self.work_in_turn(now)
    }

    fn publish(&mut self, now: Timestamp) {
        let now = self.follower.as_ref().map_or(now, |follower| follower.time_at(now));
        let Some(Telemetry { publisher, series }) = &mut self.telemetry else { return };
        let (outbox, running, role) = (self.outbox.stats(), self.running, &self.role);
        let sources = self.inputs.iter_mut().zip(role.behind()).map(|(input, behind)| {
            let (fragments, age) = input.watch.at(now, running);
            let excluded = role.is_excluded(input.source.id());
            let held_back = !excluded && input.had < input.batch.fragments.len();
            SourceFigures { fragments, age, held_back, behind, excluded }
        });
        publisher.publish(now.0, |to| series.write(to, role, sources, &outbox));
    }

    fn wait(&mut self, timeout: Nanos) {
        self.outbox.endpoint().wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        if let Some(preprocessing) = self.preprocessing.as_mut().filter(|_| !self.role.hands_over()) {
            preprocessing.close();
        }
        self.outbox.end_run(self.role.hands_over());
        let sources: Vec<_> = self.inputs.iter().map(|input| (input.source.id(), input.stats())).collect();
        for (source, stats) in &sources {
            if let Some(error) = &stats.last_error {
                log_as!(
                    SOURCE_ERROR, node = self.node(), source = source;
                    "{}: the last loss of source {source}: {error}", self.node()
                );
            }
        }
        if let Some(report) = self.report.take().filter(|_| !self.has_no_account()) {
            let preprocessing = self.preprocessing.as_ref().map(Preprocessing::counts);
            let outbox = self.outbox.stats();
            report(ReadoutReport { node: self.node(), sources, outbox, preprocessing });
        }
        self.publish(Timestamp::ZERO);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn hand_over(self: Box<Self>) -> Option<Box<dyn Handover>> {
        let Self { role, outbox, parcels, inputs, preprocessing, .. } = *self;
        let next_event = role.next_event()?;
        Some(Box::new(ReadoutHandover { outbox, parcels, inputs, preprocessing, next_event }))
    }
}

#[cfg(test)]
mod tests;
