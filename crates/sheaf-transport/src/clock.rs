//! The clock of the nodes and endpoints of a process.

use sheaf_wire::{Nanos, Timestamp};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970 that never go back: the system's time when the clock was made, continued by its monotonic
/// clock. Copies show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Timestamp,
    start: Instant,
}

impl Clock {
    /// A clock that agrees with the system's time now.
    #[must_use]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Timestamp::ZERO + Nanos::from(since_epoch), start: Instant::now() }
    }

    /// The time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.origin + Nanos::from(self.start.elapsed())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
