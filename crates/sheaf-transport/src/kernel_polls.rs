//! When an endpoint that polls memory asks the kernel for new connections and dead peers.

use std::time::{Duration, Instant};

/// Maximum number of rounds between two polls of the kernel. Each is a system call, so there is none in most rounds.
const ROUNDS: u32 = 64;

/// Maximum time between two polls of the kernel. A round takes long where a driver has much to do for each frame, or
/// where many programs share its processor: without this limit, callers would give up in the meantime.
const LONGEST: Duration = Duration::from_millis(20);

/// Schedule of an endpoint's polls of the kernel. The first is due at once.
#[derive(Debug, Default)]
pub struct KernelPolls {
    /// Rounds since the last poll.
    rounds: u32,
    /// `None` if the next poll is due in the next round.
    last: Option<Instant>,
}

impl KernelPolls {
    /// Counts a round. Returns whether a poll is due in it.
    #[inline]
    pub fn are_due(&mut self) -> bool {
        self.are_due_at(Instant::now())
    }

    #[inline]
    fn are_due_at(&mut self, now: Instant) -> bool {
        self.rounds += 1;
        self.rounds >= ROUNDS || self.last.is_none_or(|last| now.saturating_duration_since(last) >= LONGEST)
    }

    /// Makes a poll due in the next round.
    pub fn hasten(&mut self) {
        self.last = None;
    }

    /// Notes that the endpoint polls the kernel now.
    pub fn note(&mut self) {
        self.note_at(Instant::now());
    }

    fn note_at(&mut self, now: Instant) {
        *self = Self { rounds: 0, last: Some(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rounds_are_counted_and_long_ones_timed() {
        let (mut polls, start) = (KernelPolls::default(), Instant::now());
        assert!(polls.are_due_at(start), "the first");
        polls.note_at(start);
        assert!((1..ROUNDS).all(|_| !polls.are_due_at(start)));
        assert!(polls.are_due_at(start));
        polls.note_at(start);
        assert!(!polls.are_due_at(start + LONGEST / 2));
        assert!(polls.are_due_at(start + LONGEST));
        polls.note_at(start);
        polls.hasten();
        assert!(polls.are_due_at(start));
    }
}
