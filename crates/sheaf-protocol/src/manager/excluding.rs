//! Coordination about sources and nodes that an operator has excluded: orders to nodes, the answers of readout units, and what event files say.

use super::exclusions::Answered;
use super::{EventManager, ManagerEvent};
use crate::ledger::Counter;
use sheaf_wire::exclusion_record::ExclusionRecord;
use sheaf_wire::message::{Body, Exclusion, ReadoutExclusion};
use sheaf_wire::{EventId, NodeId, Role, SourceId, Timestamp};

impl<P: Clone> EventManager<P> {
    /// Takes the sources that an operator wants to be excluded, as a whole: they are missing in further events, which are complete without
    /// them. A source that was excluded and is not among them is included again, from its next fragment on. Sources that no readout
    /// unit reads are left out.
    pub fn handle_exclusions(&mut self, sources: impl IntoIterator<Item = SourceId>) {
        self.exclusions.want(sources);
        self.exclude();
    }

    /// Returns the exclusions of the run so far, in the order in which they began.
    #[must_use]
    pub fn exclusions(&self) -> &[ExclusionRecord] {
        self.exclusions.listed()
    }

    /// Returns the sources that are excluded now, with the first event without each. A source that returns is excluded until its next
    /// fragment.
    pub fn excluded(&self) -> impl Iterator<Item = (SourceId, EventId)> {
        self.exclusions.lasting()
    }

    pub(super) fn handle_excluded(&mut self, now: Timestamp, answer: Exclusion) {
        match self.exclusions.note(answer) {
            Answered::Begun => {
                self.events
                    .push_back(ManagerEvent::SourceExcluded { source: answer.source, first: answer.event });
            }
            Answered::Ended => {
                self.events
                    .push_back(ManagerEvent::SourceIncluded { source: answer.source, first: answer.event });
            }
            Answered::Known => {}
            Answered::Unexpected => self.counters.count(Counter::UnexpectedMessages, 1),
        }
        self.record_exclusions(now);
    }

    /// Takes the readout units and builder units that an operator wants to be excluded, as a whole.
    ///
    /// Events are complete without a readout unit that is excluded, from the first event on that is above all in flight: builder units do not ask
    /// it. Whether it lives makes no difference. The run does not wait for it at the start, nor at the end if it is silent. Events in flight wait
    /// for it at most for [`BuilderConfig::event_timeout`](crate::builder::BuilderConfig::event_timeout) longer, and are incomplete then.
    ///
    /// A builder unit that is excluded gets no further events as long as another one lives.
    ///
    /// If these are all nodes of a role, none of the role is excluded.
    pub fn handle_excluded_nodes(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.excluded_nodes.want(nodes, [self.config.readouts, self.config.builders]);
    }

    /// Returns the nodes that are excluded now.
    pub fn excluded_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.excluded_nodes.iter()
    }

    /// Returns whether a node is excluded now.
    #[must_use]
    pub fn is_excluded(&self, node: NodeId) -> bool {
        self.excluded_nodes.has(node)
    }

    /// Returns whether a node is excluded and has never been there, so that it has no books.
    #[must_use]
    pub fn is_left_out(&self, node: NodeId) -> bool {
        self.excluded_nodes.has(node) && self.peers.absent().contains(&node)
    }

    /// Returns whether a node is excluded and silent: nobody waits for it.
    pub(super) fn is_excluded_and_silent(&self, node: NodeId, now: Timestamp) -> bool {
        self.excluded_nodes.has(node) && self.peers.is_silent(node, now, self.config.patience.absence)
    }

    /// Begins and ends exclusions of nodes.
    pub(super) fn exclude_nodes(&mut self, now: Timestamp) {
        if !self.excluded_nodes.is_due() || self.phase.is_over() {
            return;
        }
        for (node, excluded) in self.excluded_nodes.change() {
            match node.role {
                Role::Builder => self.flow.set_aside(node.index, excluded),
                _ => self.exclude_readout(node.index, excluded),
            }
            self.events.push_back(ManagerEvent::NodeExcluded { node, excluded, from: self.flow.above_all() });
        }
        self.record_exclusions(now);
        self.steering.check_at_once();
    }

    fn exclude_readout(&mut self, readout: u16, excluded: bool) {
        let event = self.flow.above_all();
        let order = ReadoutExclusion { readout, excluded, event };
        match excluded {
            true => self.exclusions.begin_readout(readout, event),
            false => self.exclusions.end_readout(readout, event),
        }
        let floor = self.flow.floor();
        self.flow.exclude_readout(readout, self.excluded_nodes.note(order, floor));
        let builders = self.peers.present().into_iter().filter(|node| node.role == Role::Builder);
        for builder in builders {
            self.peers.push(builder, Body::ExcludeReadout(order));
        }
    }

    fn record_exclusions(&mut self, now: Timestamp) {
        while let Some(exclusion) = self.exclusions.next_to_record() {
            // Events may lack these fragments nevertheless, if the answer took longer than they did. Their files cannot have this
            // record any more; the list of the run has it.
            if self.records.is_closed() {
                self.counters.count(Counter::StaleMessages, 1);
            } else {
                self.records.keep_own(exclusion.to_run_record(now));
            }
        }
    }

    /// Sends orders to readout units.
    pub(super) fn exclude(&mut self) {
        let Self { exclusions, peers, flow, .. } = self;
        while let Some((readout, order)) = exclusions.next_order(
            |index| peers.is_open(NodeId::readout(index)),
            |has_restarted| {
                if has_restarted { flow.ceiling() } else { flow.floor() }
            },
        ) {
            peers.push(NodeId::readout(readout), Body::Exclude(order));
        }
    }
}
