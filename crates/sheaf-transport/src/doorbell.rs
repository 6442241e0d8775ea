//! Protocol between a thread that is about to sleep and threads that have work for it: no missed wake-up, and no system
//! call while the thread is busy.
//!
//! A ringer first publishes its frame (any store that the sleeper's check will read), then calls
//! [`DoorbellState::ring`]. The sleeper checks for frames; if it finds none it calls [`DoorbellState::answer`]. If that
//! returns that the bell was rung, it checks again; otherwise it calls [`DoorbellState::lie_down`] and, if that
//! succeeds, sleeps in a way that a ringer that finds it asleep can end.
//!
//! # Why no wake-up is missed
//! The state is one atomic, so all changes to it have one order. Let `A` be the last answer before a sleep (it returned
//! `false`) and `L` the `lie_down` that follows. A ring either changes the state or finds `RUNG` and only reads:
//! - It changes the state after `L`: it replaces `ASLEEP` and therefore wakes the sleeper.
//! - It changes the state between `A` and `L`: `L` finds `RUNG`, fails, and there is no sleep.
//! - It changes the state before `A`, or reads a `RUNG` from before `A`: since `A` found `QUIET`, an earlier answer `B`
//!   cleared that notice, and a check followed `B`. The ringer published, executed a fence, then met a state from
//!   before `B`; the sleeper changed the state in `B`, executed a fence, then checked: with two sequentially consistent
//!   fences the check sees the published frame.
//!
//! The case "only reads" is what keeps a busy receiver's cache line from moving between cores at every ring.
//! `doorbell_model.rs` has loom try all interleavings of this file.

use super::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, PoisonError, fence};
use std::time::Duration;

const QUIET: u32 = 0;
const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// The agreement of one sleeper with any number of ringers. It may lie in memory that processes share.
#[derive(Debug)]
#[repr(transparent)]
pub struct DoorbellState(AtomicU32);

impl DoorbellState {
    /// An agreement of a sleeper that is awake, with no notice.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(QUIET))
    }

    /// Leaves a notice for the sleeper. `true` if it lies asleep, and the caller has to wake it.
    #[inline]
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) == RUNG {
            return false;
        }
        self.0.swap(RUNG, Ordering::AcqRel) == ASLEEP
    }

    /// Clears the notice. Returns `true` if there was one: check again before lying down.
    #[inline]
    pub fn answer(&self) -> bool {
        let rung = self.0.swap(QUIET, Ordering::AcqRel) == RUNG;
        fence(Ordering::SeqCst);
        rung
    }

    /// Announces a sleep. Returns `false` if the bell was rung meanwhile: do not sleep.
    #[inline]
    pub fn lie_down(&self) -> bool {
        self.0.compare_exchange(QUIET, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns whether the sleeper is lying down and the bell was not rung since.
    fn asleep(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASLEEP
    }
}

impl Default for DoorbellState {
    fn default() -> Self {
        Self::new()
    }
}

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The bell was already rung: no sleep, no system call.
    NotAtAll,
    /// Slept until the bell was rung.
    UntilRung,
    /// Slept until the time was over.
    UntilTimeout,
}

/// A [`DoorbellState`] whose sleeper sleeps on a condition variable.
#[derive(Debug)]
pub(crate) struct Bell {
    token: DoorbellState,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Bell {
    /// Makes a bell that was not rung.
    pub(crate) fn new() -> Self {
        Self { token: DoorbellState::new(), lock: Mutex::new(()), woken: Condvar::new() }
    }

    /// Leaves a notice, and wakes the sleeper if it sleeps. `true` if that took a system call.
    pub(crate) fn ring(&self) -> bool {
        if !self.token.ring() {
            return false;
        }
        // The sleeper holds the lock from lying down until the condition variable has it: taking the lock once means
        // that the notification cannot fall in between.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.woken.notify_all();
        true
    }

    /// Sleeps until the bell is rung or `timeout` has passed (`None`: no limit), unless it was rung since the last
    /// wait. To be called by one thread.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Waited {
        if self.token.answer() || timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Waited::NotAtAll;
        }
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.token.lie_down() {
            self.token.answer();
            return Waited::NotAtAll;
        }
        self.sleep(guard, timeout);
        if self.token.answer() { Waited::UntilRung } else { Waited::UntilTimeout }
    }

    fn sleep<'a>(&'a self, mut guard: MutexGuard<'a, ()>, timeout: Option<Duration>) {
        match timeout {
            // A condition variable may wake for no reason; without a limit that must not end the wait early.
            None => {
                while self.token.asleep() {
                    guard = self.woken.wait(guard).unwrap_or_else(PoisonError::into_inner);
                }
            }
            // With a limit it may: waits are allowed to return early, and one less clock is read.
            Some(timeout) => {
                if self.token.asleep() {
                    drop(self.woken.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }
}
