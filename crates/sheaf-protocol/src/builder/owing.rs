//! State of a readout unit with unanswered requests.

use crate::liveness::{Liveness, Patience};
use sheaf_wire::Timestamp;

/// State of a readout unit from a builder's view. A readout unit answers a request when it has the fragments, but a
/// repeated request at once. So its silence counts from a repeated request that has left, not from its last answer and
/// not from the first request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owing {
    pub(super) liveness: Liveness,
    born: Timestamp,
    /// When it was first asked a second time after its last word.
    asked_again_at: Option<Timestamp>,
}

impl Owing {
    pub(super) fn new(born: Timestamp) -> Self {
        Self { liveness: Liveness::default(), born, asked_again_at: None }
    }

    /// Takes note of a message of the readout unit.
    #[inline]
    pub(super) fn note_word(&mut self, now: Timestamp) {
        self.liveness.note_word(now);
        self.asked_again_at = None;
    }

    /// Takes note of a repeated question that leaves.
    pub(super) fn note_asked_again(&mut self, now: Timestamp) {
        self.asked_again_at.get_or_insert(now);
    }

    /// Since when there is no sign of it.
    pub(super) fn quiet_since(&self) -> Timestamp {
        self.liveness.quiet_since(self.born)
    }

    /// Whether it is given up. One whose link is up or that has spoken has the longer time, from the repeated question on.
    pub(super) fn is_lost(&self, now: Timestamp, patience: Patience) -> bool {
        let lost_at = self.liveness.lost_at(self.born, patience);
        if self.liveness.is_down() {
            return lost_at <= now;
        }
        let was_there = self.liveness.sign_at().is_some();
        let limit = if was_there { patience.silence } else { patience.absence };
        self.asked_again_at.is_some_and(|at| lost_at.max(at + limit) <= now)
    }
}
