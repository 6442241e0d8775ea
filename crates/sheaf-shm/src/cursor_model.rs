//! The cursors' own source, compiled with loom's atomics: a writer and a taker of a small ring, every interleaving that
//! the memory model allows. The ring's bytes are loom cells, so that a byte that is read while it may be written, or
//! written while it may be read, is an error however it comes out.

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "cursor.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the point of this file; the model keeps nothing")]
mod cursor;

use cursor::{Taker, Writer};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;

const RING: usize = 2;

struct Ring {
    bytes: [UnsafeCell<u64>; RING],
    written: AtomicU64,
    taken: AtomicU64,
    /// The writer's wish for room, and its bell: a minimal doorbell.
    wish: AtomicU32,
    bell: AtomicU32,
}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: [UnsafeCell::new(0), UnsafeCell::new(0)],
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            wish: AtomicU32::new(0),
            bell: AtomicU32::new(0),
        })
    }

    /// Writes a number into the ring, if there is room.
    #[allow(unsafe_code, reason = "loom checks that nobody else is at the cell")]
    fn put(&self, writer: &mut Writer, number: u64) -> bool {
        if !writer.has_room(&self.taken, 1) {
            return false;
        }
        // SAFETY: The cursors keep the other end away from this place; loom checks that they do.
        self.bytes[writer.place() as usize].with_mut(|byte| unsafe { *byte = number });
        writer.advance(1);
        writer.publish(&self.written);
        true
    }

    /// Takes a number out of the ring, if there is one, and rings if room was wished for.
    #[allow(unsafe_code, reason = "loom checks that nobody else is at the cell")]
    fn get(&self, taker: &mut Taker) -> Option<u64> {
        if taker.available(&self.written).unwrap() == 0 {
            return None;
        }
        // SAFETY: As in `put`.
        let number = self.bytes[taker.place() as usize].with(|byte| unsafe { *byte });
        taker.give_back(&self.taken, 1);
        fence(Ordering::SeqCst);
        if self.wish.load(Ordering::Relaxed) != 0 && self.wish.swap(0, Ordering::AcqRel) != 0 {
            self.bell.store(1, Ordering::Release);
        }
        Some(number)
    }
}

#[test]
fn numbers_arrive_in_order_and_no_byte_is_touched_by_both() {
    loom::model(|| {
        let ring = Ring::new();
        let taker = thread::spawn({
            let ring = ring.clone();
            move || {
                let mut taker = Taker::new(RING as u64);
                let mut got = Vec::new();
                for _ in 0..2 {
                    got.extend(ring.get(&mut taker));
                }
                (taker, got)
            }
        });
        let mut writer = Writer::new(RING as u64);
        let mut put = 0;
        for number in 1..=3 {
            put += u64::from(ring.put(&mut writer, number));
        }
        let (mut taker, mut got) = taker.join().unwrap();
        got.extend(std::iter::from_fn(|| ring.get(&mut taker)));
        assert!(put >= RING as u64);
        // Where the third found no room nothing came after it: it was the last.
        assert_eq!(got, (1..=put).collect::<Vec<_>>());
    });
}

/// A writer that was refused sets its wish, executes a fence and checks again; then it sleeps. Either it sees the room
/// made by the taker, or the taker must ring.
#[test]
fn a_refused_writer_finds_room_or_is_rung() {
    loom::model(|| {
        let ring = Ring::new();
        let mut writer = Writer::new(RING as u64);
        for number in 0..RING as u64 {
            assert!(ring.put(&mut writer, number));
        }
        let taker = thread::spawn({
            let ring = ring.clone();
            move || ring.get(&mut Taker::new(RING as u64))
        });
        let mut sleeps = false;
        if !ring.put(&mut writer, 7) {
            ring.wish.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            sleeps = !ring.put(&mut writer, 7);
        }
        assert_eq!(taker.join().unwrap(), Some(0));
        assert!(!sleeps || ring.bell.load(Ordering::Acquire) == 1, "asleep, with room and without a ring");
    });
}
