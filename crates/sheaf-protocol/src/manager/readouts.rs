//! State of the readout units at the event manager: their last status, and whether they are done.

use super::readout_node;
use serde::{Deserialize, Serialize};
use sheaf_wire::message::ReadoutStatus;
use sheaf_wire::{ByteCount, EventId, NodeId, Timestamp};

#[derive(Debug, Default, Serialize, Deserialize)]
struct ReadoutState {
    status: Option<ReadoutStatus>,
    /// When the stated room changed.
    room_moved_at: Timestamp,
    /// Whether the close command was sent, after all releases.
    close_sent: bool,
    /// Whether it was told that another run follows.
    divide_sent: bool,
    reported: bool,
    /// Whether the unit was last told that the run is paused.
    knows_pause: bool,
}

impl ReadoutState {
    fn has_ended(&self) -> bool {
        self.status.is_some_and(|status| status.sources_ended >= status.sources)
    }
}

/// See the [module](self).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Readouts {
    states: Vec<ReadoutState>,
}

impl Readouts {
    pub(super) fn new(count: u16) -> Self {
        Self { states: (0..count).map(|_| ReadoutState::default()).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    fn iter(&self) -> impl Iterator<Item = (NodeId, &ReadoutState)> {
        self.states.iter().enumerate().map(|(index, state)| (readout_node(index), state))
    }

    /// Returns all readout units, connected or not.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.states.len()).map(readout_node)
    }

    /// Records the first message of a readout unit, or of a new session of it. Returns whether it is a new session of a known unit.
    pub(super) fn meet(&mut self, readout: u16) -> bool {
        std::mem::take(&mut self.states[usize::from(readout)]).status.is_some()
    }

    /// Records a status. Returns whether the readout unit processes fragments, or did so until now.
    pub(super) fn note_status(&mut self, now: Timestamp, readout: u16, status: ReadoutStatus) -> bool {
        let state = &mut self.states[usize::from(readout)];
        let before = state.status.replace(status);
        if before.is_none_or(|before| before.room_until != status.room_until) {
            state.room_moved_at = now;
        }
        status.processing || before.is_some_and(|before| before.processing)
    }

    pub(super) fn note_report(&mut self, readout: u16) {
        self.states[usize::from(readout)].reported = true;
    }

    /// Marks the close command as sent. Returns false if it was sent before.
    pub(super) fn mark_close_sent(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.states[index].close_sent, true)
    }

    /// Marks the command to divide the runs as sent. Returns false if it was sent before.
    pub(super) fn mark_divide_sent(&mut self, index: usize) -> bool {
        !std::mem::replace(&mut self.states[index].divide_sent, true)
    }

    /// Returns whether all readout units that are not `lost` have announced the events of this run.
    pub(super) fn have_divided(&self, lost: impl Fn(NodeId) -> bool) -> bool {
        let has_divided = |state: &ReadoutState| state.status.is_some_and(|status| status.has_divided);
        self.iter().all(|(node, state)| has_divided(state) || lost(node))
    }

    /// Records the pause state that is sent to a readout unit. Returns whether it differs from the one sent before.
    pub(super) fn tell_pause(&mut self, index: usize, paused: bool) -> bool {
        std::mem::replace(&mut self.states[index].knows_pause, paused) != paused
    }

    /// Returns whether a readout unit has sent its status in its current session.
    pub(super) fn is_present(&self, index: usize) -> bool {
        self.states[index].status.is_some()
    }

    /// Returns whether all readout units that are not `excluded` have sent their status in their current sessions.
    pub(super) fn are_present(&self, excluded: impl Fn(NodeId) -> bool) -> bool {
        self.iter().all(|(node, state)| state.status.is_some() || excluded(node))
    }

    /// Returns the only readout unit that is not `excluded` and has no status, if there is exactly one.
    pub(super) fn the_only_absent(&self, excluded: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let mut absent = self.iter().filter(|(node, state)| state.status.is_none() && !excluded(*node));
        let (first, _) = absent.next()?;
        absent.next().is_none().then_some(first)
    }

    /// Returns the payload bytes that the readout units hold, by their last status.
    pub(super) fn buffered(&self) -> ByteCount {
        let status = |readout: &ReadoutState| readout.status.map_or(0, |status| status.buffered.0);
        ByteCount(self.states.iter().map(status).sum())
    }

    /// Returns the highest event for which a readout unit has room, and the number of events for which it has room when it holds
    /// nothing, by its last status. `None` if nothing limits its room.
    pub(super) fn stated_room(&self, readout: u16) -> Option<(EventId, u32)> {
        let status = self.states[usize::from(readout)].status?;
        let is_limited = status.room_events > 0 && status.room_until != EventId(u64::MAX);
        is_limited.then_some((status.room_until, status.room_events))
    }

    /// Returns when the stated room of a readout unit changed.
    pub(super) fn room_moved_at(&self, readout: u16) -> Timestamp {
        self.states[usize::from(readout)].room_moved_at
    }

    /// Returns the readout units of which a program declines the start.
    pub(super) fn declining(&self) -> impl Iterator<Item = NodeId> {
        let declines = |state: &ReadoutState| state.status.is_some_and(|status| status.declines);
        self.iter().filter(move |(_, state)| declines(state)).map(|(node, _)| node)
    }

    /// Returns whether a readout unit that is not `lost` waits for the programs that feed its sources, by its last status, or may
    /// wait: its first status was lost, and another message was not.
    pub(super) fn some_wait(&self, lost: impl Fn(NodeId) -> bool) -> bool {
        self.iter().any(|(node, state)| state.status.is_none_or(|status| status.waiting) && !lost(node))
    }

    /// Returns the readout units that wait for the programs that feed their sources, by their last status.
    pub(super) fn unfed(&self) -> impl Iterator<Item = NodeId> {
        let waits = |state: &ReadoutState| state.status.is_some_and(|status| status.waiting);
        self.iter().filter(move |(_, state)| waits(state)).map(|(node, _)| node)
    }

    /// Returns whether all readout units that are not `lost` have reported their books.
    pub(super) fn have_reported(&self, lost: impl Fn(NodeId) -> bool) -> bool {
        self.iter().all(|(node, state)| state.reported || lost(node))
    }

    /// Returns whether the sources of all readout units that are not `gone` have ended. Returns false if no
    /// sources have ended at all.
    pub(super) fn have_ended(&self, gone: impl Fn(NodeId) -> bool) -> bool {
        self.states.iter().any(ReadoutState::has_ended)
            && self.iter().all(|(node, state)| state.has_ended() || gone(node))
    }

    #[cfg(test)]
    pub(super) fn status(&self, readout: u16) -> Option<ReadoutStatus> {
        self.states[usize::from(readout)].status
    }
}
