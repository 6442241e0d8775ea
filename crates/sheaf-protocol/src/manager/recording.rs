//! Coordination about run records, and the end of the run, which waits for them.
//!
//! Readout units are closed first and report when no further record is awaited. Nodes that write event files are closed after all
//! records were sent to them.

use super::records::Records;
use super::{EventManager, Phase};
use crate::ledger::Counter;
use sheaf_wire::message::Body;
use sheaf_wire::run_record::{RecordAnswer, RunRecord};
use sheaf_wire::{NodeId, Role, Timestamp};
use std::sync::Arc;

impl<P: Clone> EventManager<P> {
    /// Returns the run records so far, in the order in which they arrived.
    #[must_use]
    pub fn records(&self) -> &[Arc<RunRecord>] {
        self.records.all()
    }

    /// Returns whether nodes of this role write event files.
    fn writes(&self, role: Role) -> bool {
        role == if self.outputs.is_empty() { Role::Builder } else { Role::Output }
    }

    pub(super) fn handle_record(&mut self, from: NodeId, record: Arc<RunRecord>) {
        if self.records.take(from, record) != RecordAnswer::Kept {
            self.counters.count(Counter::RefusedRecords, 1);
        }
    }

    /// Begins a session of a node.
    pub(super) fn meet_for_records(&mut self, node: NodeId) {
        if node.role == Role::Readout {
            self.records.meet_readout(node);
        } else if self.writes(node.role) {
            self.records.meet_writer(node);
        }
    }

    /// Sends answers to readout units, and records to writers.
    pub(super) fn send_records(&mut self) {
        let Self { records, peers, .. } = self;
        while let Some((readout, answer)) = records.next_answer(|readout| peers.is_open(readout)) {
            peers.push(readout, Body::Recorded(answer));
        }
        let behind: Vec<NodeId> = records.behind().collect();
        for writer in behind {
            while let Some(channel) = peers.open_channel(writer)
                && let Some(record) = next(records, writer, channel.unsettled())
            {
                peers.push(writer, Body::Record(record));
            }
        }
    }

    /// Closes builder units and output nodes that need not wait any longer, or all when the time is `over`. Returns whether there were
    /// any.
    pub(super) fn close_writers(&mut self, now: Timestamp, over: bool) -> bool {
        let records_ended = over || self.phase.is_closed() || self.readouts_reported(now);
        let mut some = false;
        if records_ended || !self.writes(Role::Builder) {
            some |= self.close_builders(over);
        }
        if records_ended && (over || self.phase.is_closed() || self.builders_reported(now)) {
            some |= self.close_outputs(over);
        }
        some
    }

    fn close_builders(&mut self, over: bool) -> bool {
        let command = self.closing_command();
        let Self { peers, records, closed_builders, .. } = self;
        let may_close = |node: &NodeId| {
            node.role == Role::Builder && peers.is_open(*node) && (over || !records.is_behind(*node))
        };
        let to_close: Vec<NodeId> = peers.present().into_iter().filter(may_close).collect();
        let mut some = false;
        for node in to_close {
            if closed_builders.insert(node) {
                // None may follow, and when the time is over, some may not have been sent.
                records
                    .close_writer(node)
                    .into_iter()
                    .for_each(|record| peers.push(node, Body::Record(record)));
                peers.push(node, Body::Command(command));
                some = true;
            }
        }
        some
    }

    fn close_outputs(&mut self, over: bool) -> bool {
        let command = self.closing_command();
        let Self { peers, records, outputs, .. } = self;
        let to_close = outputs.close(|node| peers.is_open(node) && (over || !records.is_behind(node)));
        for node in &to_close {
            records
                .close_writer(*node)
                .into_iter()
                .for_each(|record| peers.push(*node, Body::Record(record)));
            peers.push(*node, Body::Command(command));
        }
        !to_close.is_empty()
    }

    /// Returns whether all readout units have reported or are lost: no further records come.
    fn readouts_reported(&self, now: Timestamp) -> bool {
        self.readouts.have_reported(|node| self.peers.is_lost(node, now))
    }

    /// Continues with the end of the run after the last event, which is limited to `until` unless nodes send messages.
    pub(super) fn finish(&mut self, now: Timestamp, until: Timestamp) {
        let over = until <= now;
        let some = self.close_writers(now, over);
        if over && some && !self.writers_reported(now) && !self.phase.is_cut() {
            // Those that are closed only now have time to report, too.
            self.phase.begin_closing(now);
        } else if over || self.all_reported(now) {
            self.phase.close();
            self.records.close();
            self.peers.acknowledge_all();
            self.events.push_back(super::ManagerEvent::Closed);
        }
    }

    /// Continues after a new session of a builder unit or output node has begun.
    pub(super) fn reopen(&mut self, node: NodeId) {
        self.closed_builders.remove(&node);
    }

    /// Closes writers that have begun since the run closed.
    pub(super) fn close_late(&mut self, now: Timestamp) {
        if self.phase.get() == Phase::Closed {
            self.close_writers(now, false);
        }
    }
}

fn next<'a, P: 'a>(
    records: &mut Records,
    writer: NodeId,
    unsettled: impl Iterator<Item = &'a Body<P>>,
) -> Option<Arc<RunRecord>> {
    let unsettled = unsettled.filter_map(|body| match body {
        Body::Record(record) => Some(record),
        _ => None,
    });
    records.next(writer, unsettled)
}
