//! Positions of the two ends of a ring: one writes and one takes, and neither blocks the other.
//!
//! Positions are bytes since the ring was made; the offset in the ring is the position modulo the ring's size. Each end
//! caches the last known position of the other, so that while enough room or records remain, the other's cache line is
//! not touched. Data written before [`Writer::publish`] are visible after [`Taker::available`] returns them, and data
//! read before [`Taker::give_back`] are not overwritten earlier. `cursor_model.rs` has loom try all interleavings of
//! this file.

use super::sync::{AtomicU64, Ordering};

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    size: u64,
    position: u64,
    known_taken: u64,
    /// Position from which data stay as they are, even where the other end has taken them.
    kept_from: u64,
}

impl Writer {
    /// For a ring of `size` bytes, a power of two, that is new.
    pub(crate) fn new(size: u64) -> Self {
        debug_assert!(size.is_power_of_two());
        Self { size, position: 0, known_taken: 0, kept_from: u64::MAX }
    }

    /// Returns the offset of the next byte in the ring.
    pub(crate) fn place(&self) -> u64 {
        self.position & (self.size - 1)
    }

    /// Returns the number of bytes written so far, and those of them that the other end is known to have taken.
    pub(crate) fn positions(&self) -> (u64, u64) {
        (self.position, self.known_taken)
    }

    /// Keeps the data from this position on; `None` keeps nothing.
    pub(crate) fn keep_from(&mut self, position: Option<u64>) {
        self.kept_from = position.unwrap_or(u64::MAX);
    }

    /// Returns whether there is room for `bytes` more.
    pub(crate) fn has_room(&mut self, taken: &AtomicU64, bytes: u64) -> bool {
        if self.room() < bytes {
            // The other end may store any number there; a position beyond what was written is invalid and ignored.
            let seen = taken.load(Ordering::Acquire);
            if seen > self.known_taken && seen <= self.position {
                self.known_taken = seen;
            }
        }
        self.room() >= bytes
    }

    fn room(&self) -> u64 {
        self.size - (self.position - self.known_taken.min(self.kept_from))
    }

    /// Passes over `bytes` that were written, or left out; not yet seen by the other end.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.position += bytes;
    }

    /// Lets the other end see all that was written.
    pub(crate) fn publish(&self, written: &AtomicU64) {
        written.store(self.position, Ordering::Release);
    }
}

/// The end that takes.
#[derive(Debug)]
pub(crate) struct Taker {
    size: u64,
    position: u64,
    known_written: u64,
}

/// The other end's position cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

impl Taker {
    /// For a ring of `size` bytes, a power of two, that is new.
    pub(crate) fn new(size: u64) -> Self {
        debug_assert!(size.is_power_of_two());
        Self { size, position: 0, known_written: 0 }
    }

    /// Returns the offset of the next byte in the ring.
    pub(crate) fn place(&self) -> u64 {
        self.position & (self.size - 1)
    }

    /// Returns the number of bytes that can be taken; at most the ring's size.
    ///
    /// # Errors
    /// If the other end's position is impossible.
    pub(crate) fn available(&mut self, written: &AtomicU64) -> Result<u64, Impossible> {
        if self.known_written == self.position {
            let seen = written.load(Ordering::Acquire);
            match seen.checked_sub(self.position) {
                Some(bytes) if bytes <= self.size => self.known_written = seen,
                _ => return Err(Impossible),
            }
        }
        Ok(self.known_written - self.position)
    }

    /// Returns `bytes` to the writer; at most the number available.
    pub(crate) fn give_back(&mut self, taken: &AtomicU64, bytes: u64) {
        debug_assert!(bytes <= self.known_written - self.position);
        self.position += bytes;
        taken.store(self.position, Ordering::Release);
    }
}
