//! Data sent over ended links that may still be read at their other ends.
//!
//! A link ends when its peer closes it, restarts or dies; the peer's process may live on and use frames. Their memory
//! must not be overwritten before it has released them. It releases them slot by slot, or by closing its lease: a pipe
//! whose other end closes with the last handle, or with the process.

use super::segment::Common;
use super::side::Side;
use super::slots::Slots;
use rustix::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Links that are over, of one arena.
#[derive(Debug, Default)]
pub(super) struct Limbo {
    /// Avoids the lock in a system in which no link has ended.
    occupied: AtomicBool,
    departed: Mutex<Vec<Departed>>,
}

/// Rest of one link that has ended.
#[derive(Debug)]
pub(super) struct Departed {
    pub(super) common: Arc<Common>,
    /// The receiver's side.
    pub(super) theirs: Side,
    pub(super) slots: Slots,
    /// Our end of the pipe whose other end the receiver has open while it may read.
    pub(super) lease: OwnedFd,
}

impl Departed {
    fn is_over(&mut self) -> bool {
        self.theirs.collect(&self.common, &mut self.slots);
        self.slots.is_empty() || lease_is_over(&self.lease)
    }
}

/// Returns whether the other end of a lease was closed: nothing is ever written to it.
fn lease_is_over(lease: &OwnedFd) -> bool {
    !matches!(rustix::io::read(lease, &mut [0_u8; 1]), Err(io::Errno::AGAIN | io::Errno::INTR))
}

impl Limbo {
    /// Takes the payload of an ended link that is still in use.
    pub(super) fn take(&self, mut departed: Departed) {
        if departed.is_over() {
            return;
        }
        self.departed.lock().unwrap_or_else(PoisonError::into_inner).push(departed);
        self.occupied.store(true, Ordering::Release);
    }

    /// Releases payload that is no longer read.
    pub(super) fn reap(&self) {
        if !self.occupied.load(Ordering::Acquire) {
            return;
        }
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        departed.retain_mut(|departed| !departed.is_over());
        self.occupied.store(!departed.is_empty(), Ordering::Release);
    }
}
