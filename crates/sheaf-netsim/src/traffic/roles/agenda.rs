//! Agenda of actions at given instants, in addition to those of the network.

use super::{picos, timestamp};
use crate::network::EndpointId;
use crate::traffic::Wake;
use crate::units::Picos;
use sheaf_protocol::Deadline;
use sheaf_wire::{NodeId, Timestamp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Action that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// The control network delivers a parcel.
    Arrival(u32),
    /// A machine's deadline. Void if it waits for another instant meanwhile.
    Wake(NodeId, Timestamp),
    /// A trigger comes.
    Trigger,
    /// The machines of an endpoint stop.
    Death(EndpointId),
    /// They begin a new life.
    Back(EndpointId),
}

/// Happenings in the order of their instants; those of one instant in the order in which they were planned.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Picos, u64, Happening)>>,
    planned: u64,
    /// The engine calls then.
    armed: Option<Picos>,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Picos, happening: Happening) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, happening)));
    }

    /// Plans that a node is woken at its deadline, unless it is woken before that anyway. `wake_at`: the node's next planned
    /// waking.
    pub(super) fn wake_by(
        &mut self,
        node: NodeId,
        deadline: Option<Deadline>,
        wake_at: &mut Option<Timestamp>,
        now: Picos,
    ) {
        let Some(deadline) = deadline else { return };
        let at = deadline.at.max(timestamp(now));
        if wake_at.is_none_or(|planned| at < planned) {
            *wake_at = Some(at);
            self.plan(picos(at).max(now), Happening::Wake(node, at));
        }
    }

    pub(super) fn pop_due(&mut self, now: Picos) -> Option<Happening> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, happening))| happening)
    }

    /// Asks the engine to call at the first instant, unless it calls before.
    pub(super) fn arm(&mut self, wake: &mut Wake) {
        if let Some(Reverse((at, ..))) = self.heap.peek()
            && self.armed.is_none_or(|armed| *at < armed)
        {
            self.armed = Some(*at);
            wake.timer(*at);
        }
    }

    /// The same after a call of the engine at `now`.
    pub(super) fn rearm(&mut self, now: Picos, wake: &mut Wake) {
        if self.armed.is_some_and(|armed| armed <= now) {
            self.armed = None;
        }
        self.arm(wake);
    }
}
