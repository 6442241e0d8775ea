//! An output node on a thread: accepted events in, files out.

use crate::handover::Handover;
use crate::link_handover::LinkHandover;
use crate::outbox::{Outbox, OutboxStats};
use crate::sink::EventSink;
use crate::stall::StallFree;
use crate::storing::{Settled, Storing};
use crate::telemetry::{BufferLimits, OutputFigures, OutputSeries, Telemetry};
use crate::traces::{OutputTrace, Tracing};
use crate::vigil::Vigil;
use crate::worker::{NodeDriver, NodeError, Progress};
use bytes::Bytes;
use sheaf_protocol::liveness::Patience;
use sheaf_protocol::output::{OutputEvent, OutputUnit, Ticket};
use sheaf_telemetry::{Hub, SeriesList};
use sheaf_transport::Endpoint;
use sheaf_wire::{EventId, Nanos, NodeId, Timestamp};

/// An output node with its files and its endpoint.
pub struct OutputNode {
    role: OutputUnit<Bytes>,
    outbox: Outbox,
    /// The ticket and the event of each.
    storing: Storing<(Ticket, EventId)>,
    vigil: Vigil,
    time: StallFree,
    closed_at: Option<Timestamp>,
    failed: Option<NodeError>,
    report: Option<Box<dyn FnOnce(OutputReport) + Send>>,
    telemetry: Option<Telemetry<OutputSeries>>,
    trace: Option<OutputTrace>,
}

/// Counters of an output node's files and links, in addition to the accounts that it reports to the event manager.
#[derive(Clone, Debug)]
pub struct OutputReport {
    /// The output node.
    pub node: NodeId,
    /// Counters of its files.
    pub output: Vec<(String, u64)>,
    /// Messages that were not sent or not understood.
    pub outbox: OutboxStats,
}

impl OutputNode {
    /// Makes an output node that stores in `sink`. It gives up if the event manager is silent for the time in
    /// `patience`.
    #[must_use]
    pub fn new(
        role: OutputUnit<Bytes>,
        endpoint: Box<dyn Endpoint>,
        sink: Box<dyn EventSink>,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let outbox = Outbox::new(endpoint, role.identity().session);
        Self::with(role, outbox, sink, patience, now)
    }

    /// Makes an output node of the run that follows another one in this node.
    #[must_use]
    pub fn following(
        role: OutputUnit<Bytes>,
        handover: LinkHandover,
        sink: Box<dyn EventSink>,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        Self::with(role, handover.begin_run(), sink, patience, now)
    }

    fn with(
        role: OutputUnit<Bytes>,
        outbox: Outbox,
        sink: Box<dyn EventSink>,
        patience: Patience,
        now: Timestamp,
    ) -> Self {
        let node = role.identity().node;
        Self {
            role,
            outbox,
            storing: Storing::new(node, sink),
            vigil: Vigil::new(node, patience, now),
            time: StallFree::default(),
            closed_at: None,
            failed: None,
            report: None,
            telemetry: None,
            trace: None,
        }
    }

    /// Publishes its metrics under this name. `limits` are those of the events of all builder units.
    #[must_use]
    pub fn publishing(mut self, hub: &Hub, name: &str, limits: BufferLimits) -> Self {
        let list = |list: &mut SeriesList| OutputSeries::list(list, name, limits);
        self.telemetry = Some(Telemetry::begin(hub, name, list));
        self
    }

    /// Stamps its events under this name.
    #[must_use]
    pub fn traced(mut self, tracing: &Tracing, name: &str) -> Self {
        self.trace = Some(OutputTrace::begin(tracing, name));
        self
    }

    /// Calls `report` once at the end.
    #[must_use]
    pub fn with_report(mut self, report: impl FnOnce(OutputReport) + Send + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// Listens to whichever of two replicas of the event manager is active, and votes on which it is if `vote` is given: the silence after
    /// which the active one may be succeeded.
    #[must_use]
    pub fn with_replicas(mut self, vote: Option<Nanos>) -> Self {
        self.outbox.join(*self.role.identity(), vote);
        self
    }

    /// Writes the events that have arrived and reports those that are stored. Events that the disk does not take stay
    /// with the role.
    ///
    /// A slow disk is not the silence of a peer: files use the actual time, `clock`.
    fn store(&mut self, now: Timestamp, clock: Timestamp) {
        if !self.storing.is_ready(clock) {
            return;
        }
        while let Some(event) = self.role.poll_event() {
            match event {
                OutputEvent::Store(ticket, mut event, verdict) => {
                    if let Some(trace) = &mut self.trace {
                        trace.writing(event.id);
                    }
                    let ticket = (ticket, event.id);
                    if !self.storing.write(clock, ticket, &mut event, &verdict) {
                        break;
                    }
                }
                OutputEvent::Record(record) => self.storing.record(clock, record),
                OutputEvent::Started => {}
                OutputEvent::Closed => self.closed_at = Some(now),
                OutputEvent::ManagerRestarted => {
                    self.failed = Some(NodeError::ManagerRestarted(self.role.identity().node));
                }
            }
        }
        if self.role.is_half_full() {
            self.storing.press();
        }
        self.storing.end_batch(clock);
    }

    fn tell(&mut self) {
        while let Some(settled) = self.storing.poll() {
            match settled {
                Settled::Stored((ticket, event), number) => {
                    if let Some(trace) = &mut self.trace {
                        trace.written(event);
                    }
                    self.role.handle_stored(ticket, number);
                }
                Settled::LeftOut((ticket, _)) => self.role.handle_left_out(ticket),
            }
        }
        self.role.handle_trouble(self.storing.is_in_trouble());
    }

    fn is_over(&mut self, now: Timestamp) -> bool {
        self.failed = self.failed.take().or_else(|| self.vigil.leave(self.outbox.reason_to_leave()));
        if self.failed.is_some() {
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

impl NodeDriver for OutputNode {
    fn node(&self) -> NodeId {
        self.role.identity().node
    }

    fn work(&mut self, clock: Timestamp) -> Progress {
        if let Some(trace) = &mut self.trace {
            trace.begin_round(clock);
        }
        let now = self.time.at(clock);
        self.outbox.begin_round(clock);
        let mut busy = false;
        while let Some(message) = self.outbox.poll() {
            busy = true;
            self.role.handle_input(now, message);
        }
        while let Some((peer, link)) = self.outbox.poll_link() {
            self.role.handle_link(now, peer, link);
        }
        if self.time.has_news() {
            self.role.handle_stall(now);
        }
        self.role.handle_timeout(now);
        self.store(now, clock);
        self.tell();
        while let Some(transmit) = self.role.poll_transmit(now) {
            busy = true;
            self.outbox.send(transmit);
        }
        self.outbox.flush();
        if let Some(trace) = &mut self.trace {
            trace.end_round();
        }
        if self.is_over(now) {
            return Progress::Finished;
        }
        if busy {
            return Progress::Busy;
        }
        let deadline = self.role.poll_timeout().map_or(Timestamp::MAX, |deadline| deadline.at);
        let until = self.time.everybodys(deadline).min(self.storing.due());
        self.time.rest_until(until);
        Progress::Idle(until)
    }

    fn publish(&mut self, now: Timestamp) {
        let Some(Telemetry { publisher, series }) = &mut self.telemetry else { return };
        let outbox = self.outbox.stats();
        let figures = OutputFigures {
            unwritten: self.storing.waiting(),
            output_failing: self.storing.is_in_trouble(),
            outbox: &outbox,
        };
        publisher.publish(now.0, |to| series.write(to, &self.role, &figures));
    }

    fn wait(&mut self, timeout: Nanos) {
        self.outbox.endpoint().wait(timeout);
    }

    fn finish(&mut self) -> Result<(), NodeError> {
        let node = self.node();
        self.outbox.end_run(self.role.hands_over());
        // An output that fails has kept these.
        while let Some(event) = self.role.poll_event() {
            if let OutputEvent::Record(record) = event {
                self.storing.record(Timestamp::ZERO, record);
            }
        }
        let closed = self.storing.finish();
        self.publish(Timestamp::ZERO);
        if let Some(report) = self.report.take() {
            report(OutputReport { node, output: self.storing.counters(), outbox: self.outbox.stats() });
        }
        match (closed, self.failed.take()) {
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
