//! When an endpoint that polls memory asks the kernel for new connections and dead peers.

use std::time::{Duration, Instant};

/// Maximum number of rounds between two looks. Each is a system call, so there is none in every round.
const ROUNDS: u32 = 64;

/// Maximum time between two looks of an endpoint that is polled. A round takes long where a driver has much to do for each frame, or
/// where many programs share its processor: without this limit, callers would give up in the meantime.
const LONGEST: Duration = Duration::from_millis(20);

/// Schedule of an endpoint's looks. The first is due at once.
#[derive(Debug, Default)]
pub struct Looks {
    /// Rounds since the last look.
    rounds: u32,
    /// `None` if the next look is due in the next round.
    last: Option<Instant>,
}

impl Looks {
    /// Counts a round. Returns whether a look is due in it.
    #[inline]
    pub fn are_due(&mut self) -> bool {
        self.are_due_at(Instant::now())
    }

    #[inline]
    fn are_due_at(&mut self, now: Instant) -> bool {
        self.rounds += 1;
        self.rounds >= ROUNDS || self.last.is_none_or(|last| now.saturating_duration_since(last) >= LONGEST)
    }

    /// Makes a look due in the next round.
    pub fn hasten(&mut self) {
        self.last = None;
    }

    /// Notes that the endpoint looks now.
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
        let (mut looks, start) = (Looks::default(), Instant::now());
        assert!(looks.are_due_at(start), "the first");
        looks.note_at(start);
        assert!((1..ROUNDS).all(|_| !looks.are_due_at(start)));
        assert!(looks.are_due_at(start));
        looks.note_at(start);
        assert!(!looks.are_due_at(start + LONGEST / 2));
        assert!(looks.are_due_at(start + LONGEST));
        looks.note_at(start);
        looks.hasten();
        assert!(looks.are_due_at(start));
    }
}
