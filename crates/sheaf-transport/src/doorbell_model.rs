//! The doorbell's own source, compiled with loom's atomics, mutex and condition variable in place of the standard ones:
//! every interleaving that the memory model allows is tried.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

#[path = "doorbell.rs"]
#[allow(clippy::duplicate_mod, reason = "the point of this file")]
#[allow(dead_code, unreachable_pub, reason = "only the model uses it, and only in part")]
mod doorbell;

use doorbell::Bell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

/// A sleeper that checks, answers and sleeps without a limit: if a wake-up is missed it never wakes, and loom reports a
/// deadlock.
fn sleep_until(bell: &Bell, mut there: impl FnMut() -> bool) {
    while !there() {
        bell.wait(None);
    }
}

/// Publishes a frame in a ring: a store that a poll can see, ordered by nothing but the doorbell.
fn publish(frames: &AtomicU32) {
    frames.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn one_ringer_is_never_missed() {
    loom::model(|| {
        let (bell, frames) = (Arc::new(Bell::new()), Arc::new(AtomicU32::new(0)));
        let ringer = thread::spawn({
            let (bell, frames) = (bell.clone(), frames.clone());
            move || {
                publish(&frames);
                bell.ring();
            }
        });
        sleep_until(&bell, || frames.load(Ordering::Relaxed) == 1);
        ringer.join().unwrap();
    });
}

#[test]
fn two_rings_of_one_thread_are_never_missed() {
    loom::model(|| {
        let (bell, frames) = (Arc::new(Bell::new()), Arc::new(AtomicU32::new(0)));
        let ringer = thread::spawn({
            let (bell, frames) = (bell.clone(), frames.clone());
            move || {
                for _ in 0..2 {
                    publish(&frames);
                    bell.ring();
                }
            }
        });
        sleep_until(&bell, || frames.load(Ordering::Relaxed) == 2);
        ringer.join().unwrap();
    });
}

#[test]
fn two_ringers_are_never_missed() {
    let mut builder = loom::model::Builder::new();
    // All interleavings with up to three forced switches: more take minutes.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (bell, frames) = (Arc::new(Bell::new()), Arc::new(AtomicU32::new(0)));
        let ringers = [0, 1].map(|_| {
            let (bell, frames) = (bell.clone(), frames.clone());
            thread::spawn(move || {
                publish(&frames);
                bell.ring();
            })
        });
        sleep_until(&bell, || frames.load(Ordering::Relaxed) == 2);
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}

/// The same agreement the other way round: a sender that was refused, and a receiver that makes room.
#[test]
fn a_wish_for_room_is_never_missed() {
    loom::model(|| {
        let bell = Arc::new(Bell::new());
        let (full, wish) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
        let receiver = thread::spawn({
            let (bell, full, wish) = (bell.clone(), full.clone(), wish.clone());
            move || {
                full.store(0, Ordering::Relaxed);
                loom::sync::atomic::fence(Ordering::SeqCst);
                if wish.load(Ordering::Relaxed) == 1 && wish.swap(0, Ordering::AcqRel) == 1 {
                    bell.ring();
                }
            }
        });
        sleep_until(&bell, || {
            if full.load(Ordering::Relaxed) == 0 {
                return true;
            }
            wish.store(1, Ordering::Relaxed);
            loom::sync::atomic::fence(Ordering::SeqCst);
            full.load(Ordering::Relaxed) == 0
        });
        receiver.join().unwrap();
    });
}
