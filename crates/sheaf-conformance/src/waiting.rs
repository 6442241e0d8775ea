//! Sleeping and being woken.
//!
//! The sleeps here have no time limit, so a missed wake-up shows as a test that does not end.

use super::world::{Actor, World};
use super::{Lab, Limits, amount};
use bytes::Bytes;
use sheaf_transport::{Endpoint, Frame, SendError};
use sheaf_wire::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Waits without limit until the condition holds.
fn sleep_until<E: Endpoint>(actor: &mut Actor<E>, mut holds: impl FnMut(&mut Actor<E>) -> bool) {
    actor.step();
    while !holds(actor) {
        actor.endpoint.wait(Nanos::MAX);
        actor.step();
    }
}

/// A wait without any event ends after its time limit.
pub fn a_wait_ends_when_its_time_is_over<L: Lab>() {
    let (_lab, mut first, _second) = World::<L>::pair(Limits::default()).two();
    for _ in 0..5 {
        first.endpoint.wait(Nanos::from_millis(1));
        first.endpoint.wait(Nanos::ZERO);
        first.step();
    }
}

/// The arrival of a frame ends a wait.
pub fn a_wait_ends_by_a_frame<L: Lab>() {
    let (_lab, mut sender, mut receiver) = World::<L>::pair(Limits::default()).two();
    let to = receiver.node();
    let sleeper = thread::spawn(move || {
        for frames in 1..=20 {
            sleep_until(&mut receiver, |receiver| receiver.received.len() >= frames);
        }
        receiver
    });
    for _ in 0..20 {
        // Sometimes the receiver already sleeps, sometimes it does not yet.
        thread::yield_now();
        sender.send_patiently(to, Frame::new(Bytes::from_static(b"wake up"), []));
        sender.step();
    }
    // The sender retransmits lost frames only while it is stepped.
    while !sleeper.is_finished() {
        sender.endpoint.wait(Nanos::from_millis(1));
        sender.step();
    }
    let receiver = sleeper.join().expect("the receiver gets its frames");
    assert_eq!(receiver.received.len(), 20);
}

/// A waker ends the current wait, or the next one.
pub fn a_wait_ends_by_the_waker_before_and_during_it<L: Lab>() {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let (_lab, mut first, _second) = World::<L>::pair(Limits::default()).two();
    let waker = first.endpoint.waker();
    waker.wake_by_ref();
    first.endpoint.wait(Nanos::MAX);
    let ringer = thread::spawn(move || {
        STOP.store(true, Ordering::Release);
        waker.wake();
    });
    sleep_until(&mut first, |_| STOP.load(Ordering::Acquire));
    ringer.join().expect("ringing does not panic");
}

/// A sender whose frame was refused sleeps until there is room.
pub fn a_wait_ends_when_a_queue_that_refused_has_room<L: Lab>() {
    let frames_sent = amount(600, 3_000) as usize;
    let limits = Limits { queue_frames: 4, ..Limits::default() };
    let (_lab, mut sender, mut receiver) = World::<L>::pair(limits).two();
    let to = receiver.node();
    let piece = Bytes::from(vec![9; 20_000]);
    let sleeper = thread::spawn(move || {
        for _ in 0..frames_sent {
            let mut frame = Frame::new(Bytes::new(), [piece.clone()]);
            while let Err(error) = sender.endpoint.send(to, frame) {
                assert!(matches!(error, SendError::Full(_)), "{error}");
                frame = error.into_frame();
                sender.endpoint.wait(Nanos::MAX);
                sender.step();
            }
        }
        sender.endpoint.flush();
        sender
    });
    // The sender may stop with frames in its queue. It is stepped again below.
    let mut frames = 0;
    let mut finished = None;
    receiver.until("all frames", |receiver| {
        frames += receiver.received.drain(..).count();
        if let Some(sender) = &mut finished {
            Actor::step(sender);
        }
        frames == frames_sent || sleeper.is_finished() && finished.is_none()
    });
    if finished.is_none() {
        let mut sender = sleeper.join().expect("the sender ends");
        sender.step();
        finished = Some(sender);
        receiver.until("the rest", |receiver| {
            frames += receiver.received.drain(..).count();
            finished.iter_mut().for_each(Actor::step);
            frames == frames_sent
        });
    }
}

/// Two threads, each asleep while idle, exchange a frame back and forth.
pub fn no_wake_up_is_missed_in_a_ping_pong_of_sleepers<L: Lab>() {
    let rounds = amount(500, 2_000);
    let (_lab, first, second) = World::<L>::pair(Limits::default()).two();
    let nodes = [first.node(), second.node()];
    let playing = Arc::new(AtomicUsize::new(2));
    let play = |mut actor: Actor<L::Endpoint>, to, begins: bool| {
        let playing = Arc::clone(&playing);
        thread::spawn(move || {
            for _ in 0..rounds {
                if begins {
                    actor.send_patiently(to, Frame::default());
                }
                sleep_until(&mut actor, |actor| actor.received.pop_front().is_some());
                if !begins {
                    actor.send_patiently(to, Frame::default());
                }
                actor.step();
            }
            // The last frame may be lost: its sender continues stepping until the other has received it.
            playing.fetch_sub(1, Ordering::Release);
            while playing.load(Ordering::Acquire) > 0 {
                actor.endpoint.wait(Nanos::from_millis(1));
                actor.step();
            }
            actor
        })
    };
    let players = [play(first, nodes[1], true), play(second, nodes[0], false)];
    // Both must exist until both have finished: dropping one ends the other's link.
    let actors = players.map(|player| player.join().expect("the game ends"));
    for actor in &actors {
        assert_eq!(actor.endpoint.stats().frames_received, rounds);
    }
}
