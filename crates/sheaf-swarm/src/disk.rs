//! The simulated disks: what each builder session has stored, in order.
//!
//! A session's output is what a real builder's event file is. Of it, only the first so many events count as the event
//! manager has booked as stored; what lies behind was assigned to another builder. Of an output node's session those events
//! count whose places the event manager was told.

use crate::payload::SimPayload;
use sheaf_wire::{Event, NodeId, SessionId};
use std::collections::BTreeMap;

/// The disks of all builders and output nodes.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    sessions: BTreeMap<(NodeId, SessionId), Vec<Event<SimPayload>>>,
    written: u64,
}

impl Disks {
    /// Appends an event to a session's output.
    pub fn write(&mut self, builder: NodeId, session: SessionId, event: Event<SimPayload>) {
        self.written += 1;
        self.sessions.entry((builder, session)).or_default().push(event);
    }

    /// The output of a session.
    #[must_use]
    pub fn output(&self, builder: NodeId, session: SessionId) -> &[Event<SimPayload>] {
        self.sessions.get(&(builder, session)).map_or(&[], Vec::as_slice)
    }

    /// The output of a session, for tests that damage it.
    pub fn output_mut(&mut self, builder: NodeId, session: SessionId) -> &mut Vec<Event<SimPayload>> {
        self.sessions.entry((builder, session)).or_default()
    }

    /// Cuts a session's output to its first `events` events, as a crash does.
    pub fn cut(&mut self, node: NodeId, session: SessionId, events: u64) {
        if let Some(output) = self.sessions.get_mut(&(node, session)) {
            output.truncate(usize::try_from(events).unwrap_or(usize::MAX));
        }
    }

    /// Sessions that have stored something.
    pub fn sessions(&self) -> impl Iterator<Item = (NodeId, SessionId)> {
        self.sessions.keys().copied()
    }

    /// Events written, whether they count or not.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }
}
