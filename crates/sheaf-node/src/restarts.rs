//! Decides whether and when a process that died is started again.

use sheaf_wire::Nanos;

/// Rules for restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Pause after a death: the first of a row, and at most. It doubles with every death of the row.
    pub pause: (Nanos, Nanos),
    /// A process that has run for this time works: its death is the first of a new row.
    pub works_after: Nanos,
    /// Maximum number of restarts in a row; `None`: no limit.
    pub in_a_row: Option<u32>,
}

/// Restarts of one process. A run of days outlives any number of deaths, a process that dies at its start does not die
/// for ever.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    pause: Nanos,
    in_a_row: u32,
}

impl Restarts {
    /// Returns the state of a process that has not died.
    #[must_use]
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, pause: policy.pause.0, in_a_row: 0 }
    }

    /// Takes note of a death `lived` after the start. Returns the pause before the process is started again, or `None` if
    /// it is given up.
    pub fn died(&mut self, lived: Nanos) -> Option<Nanos> {
        if lived >= self.policy.works_after {
            (self.pause, self.in_a_row) = (self.policy.pause.0, 0);
        }
        if self.policy.in_a_row == Some(self.in_a_row) {
            return None;
        }
        let pause = self.pause;
        self.pause = Nanos(pause.0.saturating_mul(2)).min(self.policy.pause.1);
        self.in_a_row = self.in_a_row.saturating_add(1);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RestartPolicy =
        RestartPolicy { pause: (Nanos(10), Nanos(70)), works_after: Nanos(1_000), in_a_row: Some(5) };

    #[test]
    fn a_process_that_dies_at_its_start_is_given_up_after_longer_and_longer_pauses() {
        let mut restarts = Restarts::new(POLICY);
        let pauses: Vec<u64> = std::iter::from_fn(|| restarts.died(Nanos(1))).map(|pause| pause.0).collect();
        assert_eq!(pauses, [10, 20, 40, 70, 70]);
        assert_eq!(restarts.died(Nanos(1)), None, "it stays given up");
    }

    #[test]
    fn a_process_that_works_between_its_deaths_is_always_started_again() {
        let mut restarts = Restarts::new(POLICY);
        for death in 0..1_000 {
            assert_eq!(restarts.died(POLICY.works_after), Some(Nanos(10)), "after {death} deaths");
        }
    }

    #[test]
    fn without_a_limit_no_process_is_given_up() {
        let mut restarts = Restarts::new(RestartPolicy { in_a_row: None, ..POLICY });
        assert!((0..1_000).all(|_| restarts.died(Nanos(1)).is_some()));
    }
}
