//! Decides whether a process that died is started again.

use std::time::{Duration, Instant};

/// Maximum number of restarts after deaths that follow each other quickly.
const QUICK_RESTARTS_MAX: u32 = 100;

/// A process that has run for this time works: its death is the first of a new series.
const WORKS_AFTER: Duration = Duration::from_secs(5);

/// Restarts of one process. A run of days outlives any number of deaths, a process that dies at its start does not
/// die for ever.
#[derive(Debug)]
pub(super) struct Restarts {
    started: Instant,
    quick: u32,
}

impl Restarts {
    /// Returns the state of a process that was started at this time.
    pub(super) fn new(started: Instant) -> Self {
        Self { started, quick: 0 }
    }

    /// Takes note of a death, and returns whether the process is to be started again now.
    pub(super) fn died(&mut self, now: Instant) -> bool {
        if now.duration_since(self.started) >= WORKS_AFTER {
            self.quick = 0;
        }
        if self.quick == QUICK_RESTARTS_MAX {
            return false;
        }
        (self.started, self.quick) = (now, self.quick + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_dies_at_its_start_is_given_up() {
        let now = Instant::now();
        let mut restarts = Restarts::new(now);
        let count = (0..1_000).take_while(|_| restarts.died(now)).count();
        assert_eq!(count, QUICK_RESTARTS_MAX as usize);
        assert!(!restarts.died(now), "it stays given up");
    }

    #[test]
    fn a_process_that_works_between_its_deaths_is_always_started_again() {
        let mut now = Instant::now();
        let mut restarts = Restarts::new(now);
        for death in 0..1_000 {
            now += WORKS_AFTER;
            assert!(restarts.died(now), "after {death} deaths");
        }
    }
}
