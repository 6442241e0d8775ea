//! State of a readout unit with unanswered requests.

use crate::liveness::{Liveness, Patience};
use sheaf_wire::{ByteCount, Timestamp};

/// State of a readout unit from a builder's view. A readout unit answers a request when it has the fragments, but a
/// repeated request at once. Its silence therefore counts from a repeated request that was sent, not from its last answer
/// or from the first request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owing {
    pub(super) liveness: Liveness,
    born: Timestamp,
    /// Time of the first repeated request since its last message.
    asked_again_at: Option<Timestamp>,
    /// Payload of its answers that were used.
    pub(super) received: ByteCount,
}

impl Owing {
    pub(super) fn new(born: Timestamp) -> Self {
        Self { liveness: Liveness::default(), born, asked_again_at: None, received: ByteCount::ZERO }
    }

    /// Records a message of the readout unit.
    #[inline]
    pub(super) fn note_message(&mut self, now: Timestamp) {
        self.liveness.note_message(now);
        self.asked_again_at = None;
    }

    /// Records that a repeated request is sent.
    pub(super) fn note_asked_again(&mut self, now: Timestamp) {
        self.asked_again_at.get_or_insert(now);
    }

    /// Returns the time of its last sign of life.
    pub(super) fn quiet_since(&self) -> Timestamp {
        self.liveness.quiet_since(self.born)
    }

    /// Returns the time at which it is given up if its link stays down.
    pub(super) fn lost_at(&self, patience: Patience) -> Timestamp {
        self.liveness.lost_at(self.born, patience)
    }

    /// Returns whether it is given up. The longer time applies, from the repeated request on, if its link is up or it has
    /// ever sent a message.
    pub(super) fn is_lost(&self, now: Timestamp, patience: Patience) -> bool {
        let lost_at = self.lost_at(patience);
        if self.liveness.is_down() {
            return lost_at <= now;
        }
        let was_there = self.liveness.sign_at().is_some();
        let limit = if was_there { patience.silence } else { patience.absence };
        self.asked_again_at.is_some_and(|at| lost_at.max(at + limit) <= now)
    }
}
