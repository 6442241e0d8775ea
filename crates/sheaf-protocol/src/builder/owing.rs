//! State of a readout unit with unanswered requests.

use crate::liveness::{Liveness, Patience};
use sheaf_wire::Timestamp;

/// State of a readout unit from a builder's view. A readout unit only sends on request: so its silence counts from an
/// unanswered request, not from its last answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owing {
    pub(super) liveness: Liveness,
    born: Timestamp,
    /// When the first question was put to it.
    first_asked_at: Option<Timestamp>,
    /// When it was first asked a second time after its last word.
    asked_again_at: Option<Timestamp>,
}

impl Owing {
    pub(super) fn new(born: Timestamp) -> Self {
        Self { liveness: Liveness::default(), born, first_asked_at: None, asked_again_at: None }
    }

    /// Takes note of a message of the readout unit.
    #[inline]
    pub(super) fn note_word(&mut self, now: Timestamp) {
        self.liveness.note_word(now);
        self.asked_again_at = None;
    }

    /// Takes note of a question that leaves.
    pub(super) fn note_asked(&mut self, now: Timestamp) {
        self.first_asked_at.get_or_insert(now);
    }

    /// Takes note of a repeated question that leaves.
    pub(super) fn note_asked_again(&mut self, now: Timestamp) {
        self.asked_again_at.get_or_insert(now);
    }

    /// Since when there is no sign of it.
    pub(super) fn quiet_since(&self) -> Timestamp {
        self.liveness.quiet_since(self.born)
    }

    /// Whether it is given up.
    pub(super) fn is_lost(&self, now: Timestamp, patience: Patience) -> bool {
        let lost_at = self.liveness.lost_at(self.born, patience);
        if self.liveness.is_down() {
            return lost_at <= now;
        }
        if self.liveness.sign_at().is_none() {
            // It had nothing to answer before the first question, which may have waited for credit.
            return self.first_asked_at.is_some_and(|at| lost_at.max(at + patience.absence) <= now);
        }
        self.asked_again_at.is_some_and(|at| lost_at.max(at + patience.silence) <= now)
    }
}
