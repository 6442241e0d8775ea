//! A line's rate, kept by the sender.
//!
//! A token bucket of bytes that fills at the line's rate. It is stored as the instant at which the line will have
//! carried all bytes at that rate: one number, exact (fractions of a nanosecond are carried over), and nothing needs to
//! happen in between.

use sheaf_wire::{ByteCount, ByteRate, Nanos, Timestamp};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    rate: ByteRate,
    /// Time by which the line may be given work in advance.
    ahead: Nanos,
    /// When the line is through with everything, in whole nanoseconds ...
    through: Timestamp,
    /// ... and in parts of one: this many of as many as the rate has bytes per second.
    rest: u64,
}

impl Pace {
    /// A line that has been idle: `burst` may leave at once.
    #[must_use]
    pub fn new(rate: ByteRate, burst: ByteCount) -> Self {
        Self { rate, ahead: rate.time_for(burst), through: Timestamp::ZERO, rest: 0 }
    }

    /// Returns the number of bytes that may leave at `now`.
    #[must_use]
    pub fn room(&self, now: Timestamp) -> u64 {
        // The fraction makes the line busy a little longer than `through`.
        let fraction = u64::from(self.rest > 0 && self.through >= now);
        let busy = self.through.since(now) + Nanos(fraction);
        self.rate.bytes_in(Nanos(self.ahead.0.saturating_sub(busy.0))).0
    }

    /// From when on `bytes` may leave, if nothing leaves before. Never, strictly, where that is more than the burst: then
    /// from when the whole burst may.
    #[must_use]
    pub fn has_room_at(&self, bytes: ByteCount) -> Timestamp {
        let needed = self.rate.time_for(bytes).0.min(self.ahead.0);
        let spare = self.ahead.0 - needed;
        Timestamp((self.through.0 + u64::from(self.rest > 0)).saturating_sub(spare))
    }

    /// Records that `bytes` are sent at `now`. An excess makes the line busy for correspondingly longer.
    pub fn take(&mut self, now: Timestamp, bytes: ByteCount) {
        if self.through < now {
            (self.through, self.rest) = (now, 0);
        }
        let rate = u128::from(self.rate.per_second());
        let parts = u128::from(bytes.0) * 1_000_000_000 + u128::from(self.rest);
        self.through += Nanos(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.rest = u64::try_from(parts % rate).unwrap_or(0);
    }
}
