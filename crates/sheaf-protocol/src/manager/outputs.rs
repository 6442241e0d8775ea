//! State of the output nodes at the event manager: their connections, and the events that count. Builders detect dead output
//! nodes; nothing is decided here.

use super::index_u16;
use crate::output::Places;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::Kept;
use sheaf_wire::{NodeId, SessionId};
use std::collections::BTreeMap;

#[derive(Debug, Default, Serialize, Deserialize)]
struct OutputState {
    /// Whether a message of the node has been received.
    is_met: bool,
    close_sent: bool,
    reported: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outputs {
    nodes: Vec<OutputState>,
    kept: BTreeMap<(NodeId, SessionId), Places>,
}

impl Outputs {
    pub(super) fn new(count: u16) -> Self {
        Self { nodes: (0..count).map(|_| OutputState::default()).collect(), kept: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Records the first message of an output node, or of a new session of it. Returns whether it is a new session of a known node.
    pub(super) fn meet(&mut self, node: NodeId) -> bool {
        let fresh = OutputState { is_met: true, ..OutputState::default() };
        std::mem::replace(&mut self.nodes[usize::from(node.index)], fresh).is_met
    }

    pub(super) fn note_report(&mut self, node: NodeId) {
        self.nodes[usize::from(node.index)].reported = true;
    }

    /// Returns whether all output nodes that ever connected have reported, or are silent.
    pub(super) fn have_reported(&self, silent: impl Fn(NodeId) -> bool) -> bool {
        let done = |(index, state): (usize, &OutputState)| {
            state.reported || !state.is_met || silent(NodeId::output(index_u16(index)))
        };
        self.nodes.iter().enumerate().all(done)
    }

    /// Adds events that count.
    pub(super) fn keep(&mut self, all: &[Kept]) {
        for kept in all {
            let places = self.kept.entry((NodeId::output(kept.output), kept.session)).or_default();
            places.insert(kept.first, kept.count);
        }
    }

    /// Returns the events that count, by session, including live sessions.
    pub(super) fn kept(&self) -> &BTreeMap<(NodeId, SessionId), Places> {
        &self.kept
    }

    /// Returns the connected nodes that are `open` and have not been sent the close command. Marks them as
    /// sent.
    pub(super) fn close(&mut self, open: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut to_close = Vec::new();
        for (index, output) in self.nodes.iter_mut().enumerate() {
            let node = NodeId::output(index_u16(index));
            if output.is_met && !output.close_sent && open(node) {
                output.close_sent = true;
                to_close.push(node);
            }
        }
        to_close
    }
}
