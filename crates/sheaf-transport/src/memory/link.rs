//! One end of a link: a ring each way, and the state that the two ends share in addition to the frames.

use super::MemoryLimits;
use crate::doorbell::Bell;
use crate::{DownReason, Frame};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

const LIVE: u8 = 0;
const CLOSED: u8 = 1;
const LOST: u8 = 2;

/// State that one end of a link writes and the other reads. Padded to two cache lines (the unit of prefetching), so
/// that the two ends do not write to the same line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Side {
    /// Number of bytes that this side has taken from the other's ring since the link was made.
    taken_bytes: AtomicU64,
    /// Whether this side has ended, and how.
    end: AtomicU8,
    /// Whether this side was refused for lack of room, and wants its bell rung when there is some.
    wants_room: AtomicBool,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct Link {
    sides: Arc<[Side; 2]>,
    /// Which of the two this end is.
    own: usize,
    outgoing: Producer<Frame>,
    incoming: Consumer<Frame>,
    peer_bell: Arc<Bell>,
    limit_bytes: u64,
    sent_bytes: u64,
    /// The last that was seen of the other side's `taken_bytes`.
    known_taken_bytes: u64,
    taken_bytes: u64,
    /// Whether frames were taken and the other side, which may want room, was not notified yet.
    made_room: bool,
    /// Whether frames were sent and the other side's bell was not rung yet.
    sent: bool,
}

/// The two ends of a new link between the nodes with these bells.
pub(super) fn pair(limits: &MemoryLimits, first: &Arc<Bell>, second: &Arc<Bell>) -> (Link, Link) {
    let sides = Arc::new([Side::default(), Side::default()]);
    let (to_second, at_second) = RingBuffer::new(limits.link_frames);
    let (to_first, at_first) = RingBuffer::new(limits.link_frames);
    let end = |own, outgoing, incoming, peer_bell: &Arc<Bell>| Link {
        sides: sides.clone(),
        own,
        outgoing,
        incoming,
        peer_bell: peer_bell.clone(),
        limit_bytes: limits.link_bytes.0,
        sent_bytes: 0,
        known_taken_bytes: 0,
        taken_bytes: 0,
        made_room: false,
        sent: false,
    };
    (end(0, to_second, at_first, second), end(1, to_first, at_second, first))
}

/// Result of a poll of a link.
pub(super) enum Look {
    Frame(Frame),
    Nothing,
    Ended(DownReason),
}

impl Link {
    fn ours(&self) -> &Side {
        &self.sides[self.own]
    }

    fn theirs(&self) -> &Side {
        &self.sides[1 - self.own]
    }

    /// Returns whether the other end has ended.
    pub(super) fn ended(&self) -> bool {
        self.theirs().end.load(Ordering::Acquire) != LIVE
    }

    /// Puts `frame`, which has `bytes` bytes, into the ring; gives it back where it has no room.
    pub(super) fn push(&mut self, frame: Frame, bytes: u64) -> Result<(), Frame> {
        let frame = match self.try_push(frame, bytes) {
            Ok(()) => return Ok(()),
            Err(frame) => frame,
        };
        // Announce that room is wanted, then check once more: either this check finds the room that was made, or the
        // side that makes it afterwards finds the wish (`tell_room`). The fences make one of the two certain.
        self.ours().wants_room.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.try_push(frame, bytes)
    }

    fn try_push(&mut self, frame: Frame, bytes: u64) -> Result<(), Frame> {
        if self.sent_bytes - self.known_taken_bytes + bytes > self.limit_bytes {
            self.known_taken_bytes = self.theirs().taken_bytes.load(Ordering::Acquire);
            if self.sent_bytes - self.known_taken_bytes + bytes > self.limit_bytes {
                return Err(frame);
            }
        }
        self.outgoing.push(frame).map_err(|rtrb::PushError::Full(frame)| frame)?;
        self.sent_bytes += bytes;
        self.sent = true;
        Ok(())
    }

    /// Takes the next frame.
    pub(super) fn pop(&mut self) -> Look {
        if let Ok(frame) = self.incoming.pop() {
            return self.took(frame);
        }
        let reason = match self.theirs().end.load(Ordering::Acquire) {
            LIVE => return Look::Nothing,
            CLOSED => DownReason::Closed,
            _ => DownReason::Lost,
        };
        // The end is set after the last frame was pushed: no further frame can appear.
        match self.incoming.pop() {
            Ok(frame) => self.took(frame),
            Err(_) => Look::Ended(reason),
        }
    }

    fn took(&mut self, frame: Frame) -> Look {
        self.taken_bytes += frame.bytes() as u64;
        self.ours().taken_bytes.store(self.taken_bytes, Ordering::Release);
        self.made_room = true;
        Look::Frame(frame)
    }

    /// Rings for sent frames, and for room if the other side waits for it. Returns the number of system calls.
    pub(super) fn notify(&mut self) -> u64 {
        let sent = std::mem::take(&mut self.sent);
        let room_wanted = std::mem::take(&mut self.made_room) && self.room_is_wanted();
        u64::from((sent || room_wanted) && self.peer_bell.ring())
    }

    fn room_is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        let wish = &self.theirs().wants_room;
        wish.load(Ordering::Relaxed) && wish.swap(false, Ordering::AcqRel)
    }

    /// Marks this end as closed, in good order or not.
    pub(super) fn end(&mut self, in_good_order: bool) {
        let end = if in_good_order { CLOSED } else { LOST };
        if self.ours().end.load(Ordering::Relaxed) == LIVE {
            self.ours().end.store(end, Ordering::Release);
            self.peer_bell.ring();
        }
    }

    /// Returns the number of frames that the other side has not taken.
    pub(super) fn not_taken(&self) -> u64 {
        (self.outgoing.buffer().capacity() - self.outgoing.slots()) as u64
    }
}
