//! Drives output nodes: the machine, and the disk that it stores on; and the senders beside builders.
//!
//! An event is written after some time, one at a time, and durable some time after that. What a crash leaves on the disk beyond
//! what is durable is for the session's number to decide: of every second session all that was written, else nothing of it.

use super::post::{Happening, Host};
use super::{Cluster, RUN, decide};
use crate::log::{Line, Reason, Step, Turn};
use crate::options::Options;
use crate::payload::SimPayload;
use sheaf_protocol::Identity;
use sheaf_protocol::builder::Decision;
use sheaf_protocol::output::{
    OutputConfig, OutputEvent, OutputNode, Sender, SenderConfig, SenderEvent, Ticket,
};
use sheaf_wire::message::Message;
use sheaf_wire::{Event, NodeId, SessionId, Tags, Timestamp, Verdict};
use std::collections::VecDeque;

/// An output node and its driver.
#[derive(Debug)]
pub(super) struct OutputSide {
    pub(super) host: Host,
    /// Nothing while it is down.
    pub(super) unit: Option<OutputNode<SimPayload>>,
    writing: VecDeque<(Ticket, Event<SimPayload>, Verdict)>,
    /// Written, not durable.
    syncing: VecDeque<Ticket>,
    disk_free_at: Timestamp,
    /// Number of events that this session has written, and the number of those that are durable.
    written: u64,
    durable: u64,
    has_begun: bool,
}

impl OutputSide {
    pub(super) fn new(index: u16) -> Self {
        Self {
            host: Host::new(NodeId::output(index)),
            unit: None,
            writing: VecDeque::new(),
            syncing: VecDeque::new(),
            disk_free_at: Timestamp::ZERO,
            written: 0,
            durable: 0,
            has_begun: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.unit.as_ref().map_or(self.host.is_gone, OutputNode::is_finished)
    }

    /// Forgets everything; false if there is nothing to forget.
    pub(super) fn crash(&mut self) -> bool {
        self.writing.clear();
        self.syncing.clear();
        self.unit.take_if(|unit| !unit.is_finished()).is_some()
    }

    /// Returns the number of events that are certainly on the disk after a crash.
    pub(super) fn durable(&self) -> u64 {
        if self.host.session.0.is_multiple_of(2) { self.durable } else { self.written }
    }
}

fn config(options: &Options) -> OutputConfig {
    OutputConfig {
        builders: options.system.builders,
        window_events: options.bounds.window_events,
        window: options.bounds.window,
        heartbeat: options.times.heartbeat,
        channel: options.channel_times(),
    }
}

/// The sender of a builder's session, where there are output nodes.
pub(super) fn sender(options: &Options, me: Identity, now: Timestamp) -> Option<Sender<SimPayload>> {
    let config = SenderConfig {
        outputs: options.system.outputs,
        message: options.bounds.message_bytes,
        peer_timeout: options.times.peer,
        heartbeat: options.times.heartbeat,
        channel: options.channel_times(),
    };
    (config.outputs > 0).then(|| Sender::new(me, config, now))
}

/// Returns the verdict for an output node, or `None` if its streams leave the event out.
pub(super) fn verdict_for(
    options: &Options,
    event: &Event<SimPayload>,
    decision: Decision,
) -> Option<Verdict> {
    match decision {
        Decision::Stored if decide(options, event.id) != Decision::Stored => Some(Verdict::quarantine()),
        Decision::Stored => Some(Verdict::accept().with_tags(Tags(event.id.0 % 8))),
        // Half of the events that are not wanted are accepted by the filter, and left out by the streams.
        Decision::Rejected if event.id.0 % 2 == 1 => Some(Verdict::accept()),
        _ => None,
    }
}

impl Cluster {
    pub(super) fn begin_output(&mut self, index: usize) {
        let now = self.post.now;
        let node = &mut self.outputs[index];
        if std::mem::replace(&mut node.has_begun, true) {
            node.host.session = SessionId(node.host.session.0 + 1);
        }
        (node.disk_free_at, node.written, node.durable) = (now, 0, 0);
        let (id, session) = (node.host.node, node.host.session);
        node.unit =
            Some(OutputNode::new(Identity { node: id, run: RUN, session }, config(&self.options), now));
        self.post.note(Line::Node { node: id, session, what: Turn::Began });
        self.post.open_links(&self.outputs[index].host);
        self.settle_output(index);
    }

    pub(super) fn arrive_at_output(&mut self, index: usize, message: Message<SimPayload>) {
        if let Some(unit) = &mut self.outputs[index].unit {
            unit.handle_input(self.post.now, message);
            self.settle_output(index);
        }
    }

    pub(super) fn wake_output(&mut self, index: usize) {
        let now = self.post.now;
        let node = &mut self.outputs[index];
        let Some(unit) = &mut node.unit else {
            return;
        };
        let due = unit.poll_timeout().filter(|deadline| deadline.at <= now);
        let id = node.host.node;
        if let Some(deadline) = due {
            self.post.note(Line::Woken { node: id, why: Reason(deadline.why) });
            unit.handle_timeout(now);
        }
        self.settle_output(index);
        if due.is_some()
            && let Some(unit) = &mut self.outputs[index].unit
        {
            self.watch.see_no_spin(id, now, unit.poll_timeout());
        }
    }

    /// Drains the output node, as its contract demands.
    fn settle_output(&mut self, index: usize) {
        let Self { post, outputs, watch, options, .. } = self;
        let node = &mut outputs[index];
        let Some(unit) = &mut node.unit else {
            return;
        };
        let (id, session) = (node.host.node, node.host.session);
        while let Some(transmit) = unit.poll_transmit(post.now) {
            post.carry(transmit);
        }
        while let Some(event) = unit.poll_event() {
            let what = match event {
                OutputEvent::Store(ticket, event, verdict) => {
                    node.disk_free_at = node.disk_free_at.max(post.now) + options.storage.write;
                    post.plan(node.disk_free_at, Happening::OutputWritten(index, session));
                    node.writing.push_back((ticket, event, verdict));
                    continue;
                }
                OutputEvent::Started => Turn::Started,
                OutputEvent::Closed => Turn::Closed,
                OutputEvent::ManagerRestarted => {
                    watch.fail(format!("{id} believes that the event manager restarted"));
                    return;
                }
            };
            post.note(Line::Node { node: id, session, what });
        }
        let deadline = unit.poll_timeout();
        post.arm(&mut node.host, deadline);
    }

    pub(super) fn happen_output_written(&mut self, index: usize, session: SessionId) {
        let node = &mut self.outputs[index];
        if node.host.session != session {
            return;
        }
        let (Some(unit), Some((ticket, event, verdict))) = (&mut node.unit, node.writing.pop_front()) else {
            return;
        };
        let wanted = verdict.tags == Tags::QUARANTINED || decide(&self.options, event.id) == Decision::Stored;
        if wanted {
            let id = node.host.node;
            self.post.note(super::builders::built_line(id, session, &event, Step::Written));
            node.syncing.push_back(ticket);
            node.written += 1;
            self.disks.write(id, session, event);
            let at = self.post.now + self.options.storage.report;
            self.post.plan(at, Happening::OutputDurable(index, session));
        } else {
            unit.handle_left_out(ticket);
        }
        self.settle_output(index);
    }

    pub(super) fn happen_output_durable(&mut self, index: usize, session: SessionId) {
        let node = &mut self.outputs[index];
        if node.host.session != session {
            return;
        }
        if let (Some(unit), Some(ticket)) = (&mut node.unit, node.syncing.pop_front()) {
            unit.handle_stored(ticket, node.durable);
            node.durable += 1;
            self.settle_output(index);
        }
    }

    pub(super) fn wake_sender(&mut self, index: usize) {
        let now = self.post.now;
        let node = &mut self.builders[index];
        let (Some(sender), Some(_)) = (&mut node.sender, &node.unit) else {
            return;
        };
        if let Some(deadline) = sender.poll_timeout().filter(|deadline| deadline.at <= now) {
            self.post.note(Line::Woken { node: node.host.node, why: Reason(deadline.why) });
            sender.handle_timeout(now);
        }
        self.settle_sender(index);
        let node = &mut self.builders[index];
        if let Some(sender) = &mut node.sender {
            self.watch.see_no_spin(node.host.node, now, sender.poll_timeout());
        }
    }

    /// Drains the sender of a builder, as its contract demands.
    pub(super) fn settle_sender(&mut self, index: usize) {
        let Self { post, builders, .. } = self;
        let node = &mut builders[index];
        let (Some(unit), Some(sender)) = (&mut node.unit, &mut node.sender) else {
            return;
        };
        let (id, session) = (node.host.node, node.host.session);
        while let Some(event) = sender.poll_event() {
            let (event, decision, step) = match event {
                SenderEvent::Stored(event, place) => (event, Decision::StoredAt(place), Step::Stored),
                SenderEvent::LeftOut(event) => (event, Decision::Rejected, Step::Rejected),
            };
            post.note(super::builders::built_line(id, session, &event, step));
            unit.handle_decision(post.now, event.id, decision);
            unit.recycle(event);
        }
        while let Some(transmit) = sender.poll_transmit(post.now) {
            post.carry(transmit);
        }
        while let Some(transmit) = unit.poll_transmit(post.now) {
            post.carry(transmit);
        }
        let deadlines = [sender.poll_timeout(), unit.poll_timeout()];
        deadlines.into_iter().for_each(|deadline| post.arm(&mut node.host, deadline));
    }
}
