//! Drives output nodes, each a machine with a disk, and the senders of builders.
//!
//! An event is written after some time, one at a time, and durable some time after that. The session number decides which events
//! beyond the durable ones survive a crash: all of them in every second session, otherwise none.

use super::Cluster;
use super::post::{Happening, Host};
use super::shelf::Shelf;
use crate::filter::decide;
use crate::log::{Line, Step, Turn};
use crate::options::Options;
use crate::payload::SimPayload;
use sheaf_protocol::Identity;
use sheaf_protocol::builder::Decision;
use sheaf_protocol::output::{
    OutputConfig, OutputEvent, OutputUnit, Sender, SenderConfig, SenderEvent, Ticket,
};
use sheaf_wire::{Event, NodeId, SessionId, Tags, Timestamp, Verdict};
use std::collections::VecDeque;

/// An output node and its driver.
#[derive(Debug)]
pub(super) struct OutputSide {
    pub(super) host: Host,
    /// The machine; `None` while the node is down.
    pub(super) unit: Option<OutputUnit<SimPayload>>,
    writing: VecDeque<(Ticket, Event<SimPayload>, Verdict)>,
    /// Events that are written but not durable.
    syncing: VecDeque<Ticket>,
    /// Files being uploaded to an object store, if there is one.
    pub(super) shelf: Option<Shelf<Ticket>>,
    disk_free_at: Timestamp,
    /// Number of events that this session has written, and number of durable ones.
    written: u64,
    durable: u64,
}

impl OutputSide {
    pub(super) fn new(index: u16) -> Self {
        Self {
            host: Host::new(NodeId::output(index)),
            unit: None,
            writing: VecDeque::new(),
            syncing: VecDeque::new(),
            shelf: None,
            disk_free_at: Timestamp::ZERO,
            written: 0,
            durable: 0,
        }
    }

    /// Returns the number of events that the disk has accepted and that are not durable.
    fn at_disk(&self) -> usize {
        self.writing.len() + self.syncing.len() + self.shelf.as_ref().map_or(0, Shelf::held)
    }

    pub(super) fn is_over(&self) -> bool {
        self.unit.as_ref().map_or(self.host.is_gone, OutputUnit::is_finished)
    }

    /// Loses all state. Returns false if there is none.
    pub(super) fn crash(&mut self) -> bool {
        self.writing.clear();
        self.syncing.clear();
        self.shelf = None;
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

/// The sender of a builder's session, if there are output nodes.
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
pub(super) fn verdict_for(event: &Event<SimPayload>, decision: Decision, tags: Tags) -> Option<Verdict> {
    match decision {
        Decision::Stored => Some(Verdict::accept().with_tags(tags)),
        // Half of the unwanted events are accepted by the filter and omitted by the streams.
        Decision::Rejected if event.id.0 % 2 == 1 => Some(Verdict::accept()),
        _ => None,
    }
}

impl Cluster {
    /// Creates the machine of an output node's next life.
    pub(super) fn make_output(&mut self, index: usize, me: Identity) {
        let (node, now) = (&mut self.outputs[index], self.post.now);
        (node.disk_free_at, node.written, node.durable) = (now, 0, 0);
        node.shelf = self.options.uploads.map(Shelf::new);
        node.unit = Some(OutputUnit::new(me, config(&self.options), now));
    }

    /// Drains the output node, as its contract requires.
    pub(super) fn settle_output(&mut self, index: usize) {
        let Self { post, outputs, watch, options, .. } = self;
        let node = &mut outputs[index];
        let session = node.host.session;
        // Events for which the disk has no room stay with the machine.
        while options.storage.has_room(node.at_disk())
            && let Some(event) = node.unit.as_mut().and_then(OutputUnit::poll_event)
        {
            let what = match event {
                OutputEvent::Store(ticket, event, verdict) => {
                    watch.see_taken_up(node.host.node, ticket.builder(), event.id);
                    let write = options.storage.write + post.lateness(&options.storage);
                    node.disk_free_at = node.disk_free_at.max(post.now) + write;
                    post.plan(node.disk_free_at, Happening::OutputWritten(index, session));
                    node.writing.push_back((ticket, event, verdict));
                    continue;
                }
                OutputEvent::Record(record) => {
                    watch.see_record((node.host.node, session), &record);
                    continue;
                }
                OutputEvent::Started => Turn::Started,
                OutputEvent::Closed => {
                    watch.records.see_closed((node.host.node, session));
                    Turn::Closed
                }
                OutputEvent::ManagerRestarted => return watch.see_manager_restart(node.host.node),
            };
            post.turn(&node.host, what);
        }
        let is_behind = !options.storage.has_room(node.at_disk());
        let Some(unit) = &mut node.unit else {
            return;
        };
        unit.handle_trouble(is_behind);
        post.carry_all(unit);
        // Each session of a builder sends up to its window, and one event of any size. Events of an earlier session may still be in the
        // process of being written.
        let largest = options.sources.largest.0 * u64::from(options.source_count());
        let sessions =
            u64::from(options.system.builders) + watch.faults.builder_crashes + watch.faults.fences;
        let most = sessions * (options.bounds.window.0 + largest);
        let held = unit.held().1;
        if held.0 > most {
            watch.fail(format!("{} holds {held}, its windows let {most} B in", node.host.node));
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
        let from = ticket.builder();
        let is_wanted =
            verdict.tags == Tags::QUARANTINED || decide(&self.options, event.id) == Decision::Stored;
        let wanted = is_wanted && !self.disks.routing().route(event.id, verdict.tags).is_empty();
        if wanted {
            let id = node.host.node;
            self.post.note(Line::built(id, session, &event, Step::Written));
            node.written += 1;
            self.watch.see_order(&self.options, (id, session), from, event.id);
            self.write_to_disk(id, session, &event);
            if let Some(shelf) = &mut self.outputs[index].shelf {
                let at = shelf.put(self.post.now, ticket);
                self.post.plan(at, Happening::CloseFile(id, session));
                return;
            }
            self.report_output_soon(index, ticket);
        } else {
            unit.handle_left_out(ticket);
        }
        self.settle_output(index);
    }

    /// Handles a written event, which becomes durable after a while.
    pub(super) fn report_output_soon(&mut self, index: usize, ticket: Ticket) {
        let node = &mut self.outputs[index];
        node.syncing.push_back(ticket);
        let at = self.post.now + self.options.storage.report;
        self.post.plan(at, Happening::OutputDurable(index, node.host.session));
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

    /// Drains the sender of a builder, as its contract requires.
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
            post.note(Line::built(id, session, &event, step));
            unit.handle_decision(post.now, event.id, decision);
            unit.recycle(event);
        }
        post.carry_all(sender);
        post.carry_all(unit);
        let deadlines = [sender.poll_timeout(), unit.poll_timeout()];
        deadlines.into_iter().for_each(|deadline| post.arm(&mut node.host, deadline));
    }
}
