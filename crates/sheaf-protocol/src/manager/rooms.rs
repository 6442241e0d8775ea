//! Room for triggers of a trigger supervisor, in the queue of events and in the readout units.

use super::dead_time::Shut;
use super::{DeadTimeCause, EventManager};
use crate::trigger_link::{Buffer, Gate, Receiver, Room};
use sheaf_wire::trigger_link::{BusyCause, BusyReason};
use sheaf_wire::{Nanos, NodeId, Timestamp};

/// Readout units with room for fewer events do not hold triggers back. An event may wait for a source until this source delivers a
/// later one, and that needs further triggers.
const FEWEST_EVENTS: u32 = 8;

/// Time after the last trigger and the last growth of its room after which a readout unit that is at most half full does not hold
/// triggers back. Its events may wait for a source until this source delivers a later one, and that needs a trigger.
const STUCK_AFTER: Nanos = Nanos::from_secs(1);

impl<P: Clone> EventManager<P> {
    /// Returns the room for further triggers in the queue, and in each readout unit that is connected and has stated its room.
    ///
    /// The room of a readout unit is the distance from the last trigger to the highest event for which it has room, by its
    /// last status. Fragments that are still to come are thereby counted, and a status that is old states too little room.
    pub fn rooms(&self, now: Timestamp) -> impl Iterator<Item = Room> {
        let queue = Room {
            buffer: Buffer::Queue,
            free: self.flow.queue_room(),
            accepts: self.flow.queue_accepts(),
            capacity: self.config.queue_events as u64,
            reason: self.busy_reason(),
        };
        // A readout unit that died takes no part until it is back. One that is only silent may hold its sources back.
        let is_here = move |node: NodeId| !self.peers.is_lost(node, now) && !self.peers.is_down(node);
        let has_part = move |node: &NodeId| is_here(*node) && !self.excluded_nodes.has(*node);
        let readouts = self.readouts.nodes().filter(has_part);
        std::iter::once(queue).chain(readouts.filter_map(move |node| self.readout_room(now, node)))
    }

    /// Books the changes of a receiver's gate since the last call, at the times at which they were. The driver calls this
    /// before anything that may end the time of the run.
    pub fn handle_turns(&mut self, receiver: &mut Receiver) {
        while let Some((at, gate)) = receiver.poll_turn() {
            let shut = match gate {
                Gate::Open => None,
                Gate::Busy(BusyReason { cause, culprit }) => Some(Shut { cause: cause.into(), culprit }),
                Gate::NoSupervisor => Some(Shut { cause: DeadTimeCause::NoSupervisor, culprit: None }),
            };
            self.held_back = shut;
            self.dead_time.turn(at, shut);
        }
    }

    fn readout_room(&self, now: Timestamp, node: NodeId) -> Option<Room> {
        let (until, events) = self.readouts.stated_room(node.index)?;
        if events < FEWEST_EVENTS {
            return None;
        }
        let next = self.flow.last_given().map_or(self.config.first_event.0, |last| last.0.saturating_add(1));
        let reason = BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(node) };
        let free = until.0.saturating_add(1).saturating_sub(next);
        let moved_at = self.readouts.room_moved_at(node.index).max(self.flow.last_given_at());
        if moved_at + STUCK_AFTER <= now && free >= u64::from(events / 2) {
            return None;
        }
        Some(Room {
            buffer: Buffer::Readout(node.index),
            free,
            accepts: free,
            capacity: u64::from(events),
            reason,
        })
    }
}
