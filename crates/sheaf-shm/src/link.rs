//! One end of a link.

use super::arena::{Arena, PeerArena};
use super::bell::Bell;
use super::copies::Copies;
use super::cursor::{Taker, Writer};
use super::limbo::Departed;
use super::record::{self, Bounds, Extent, Intake, RingPlace};
use super::segment::Common;
use super::side::{End, Side};
use super::slots::{SLOTS, Slots};
use bytes::Bytes;
use rustix::io;
use sheaf_transport::{DownReason, Frame};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Payload up to this size is copied by the receiver: giving a slot back costs more.
const SMALL_PAYLOAD: usize = 256;

/// Number of free slots at and below which the sender requests receivers to copy.
const FEW_SLOTS: u32 = SLOTS / 8;

/// Largest part of the ring that a record may take; a larger record is reduced by copying its payload.
const RECORD_SHARE: usize = 8;

/// Result of two greetings: the agreed terms, and the memory that came with them.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) socket: OwnedFd,
    pub(super) side: Side,
    pub(super) common: Common,
    pub(super) ring_bytes: usize,
    pub(super) bell: Bell,
    pub(super) arena: PeerArena,
    /// Our end of the pipe that the peer keeps open while it may read our arena.
    pub(super) lease: OwnedFd,
    /// Our end of the pipe with which the peer does the same.
    pub(super) held: OwnedFd,
    pub(super) max_frame_bytes: usize,
    pub(super) queue_frames: u64,
    pub(super) queue_bytes: u64,
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    /// Whether the socket has ended: the peer has closed the link or died.
    pub(super) socket_ended: bool,
    /// Whether the peer has already reconnected with a new session.
    pub(super) replaced: bool,
    pub(super) max_frame_bytes: usize,
    side: Side,
    common: Arc<Common>,
    reading: Arc<Reading>,
    lease: OwnedFd,
    outgoing: RingPlace,
    incoming: RingPlace,
    writer: Writer,
    taker: Taker,
    queue_frames: u64,
    queue_bytes: u64,
    sent_frames: u64,
    sent_bytes: u64,
    taken_frames: u64,
    taken_bytes: u64,
    slots: Slots,
    /// Whether records were taken and the peer, which may want room, was not notified yet.
    made_room: bool,
    /// Whether records were sent and the peer's bell was not rung yet.
    sent: bool,
    /// Used again for every frame.
    extents: Vec<Extent>,
}

/// State for reading the peer's data and returning it. Lives as long as any payload of the link is held.
#[derive(Debug)]
struct Reading {
    common: Arc<Common>,
    side: Side,
    arena: PeerArena,
    bell: Bell,
    /// Closed with this value, which tells the peer that nothing in its arena is read here any more.
    _held: OwnedFd,
}

/// The payload of one received frame; all of its pieces share it.
struct Loan {
    reading: Arc<Reading>,
    slot: u32,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        self.reading.arena.as_slice()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.reading.give_back(self.slot);
    }
}

impl Reading {
    fn give_back(&self, slot: u32) {
        if self.side.give_back(&self.common, slot) {
            self.bell.ring();
        }
    }
}

/// Result of a poll of a link.
#[derive(Debug)]
pub(super) enum Look {
    Frame(Frame),
    Nothing,
    Ended(DownReason),
}

/// Reason why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lacks {
    /// Room in the queue.
    Room,
    /// Memory, or slots.
    Memory,
}

impl Link {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { side, ring_bytes, .. } = parts;
        let common = Arc::new(parts.common);
        let reading =
            Reading { common: common.clone(), side, arena: parts.arena, bell: parts.bell, _held: parts.held };
        Self {
            socket: parts.socket,
            socket_ended: false,
            replaced: false,
            max_frame_bytes: parts.max_frame_bytes,
            side,
            common,
            reading: Arc::new(reading),
            lease: parts.lease,
            outgoing: side.ring(ring_bytes),
            incoming: side.other().ring(ring_bytes),
            writer: Writer::new(ring_bytes as u64),
            taker: Taker::new(ring_bytes as u64),
            queue_frames: parts.queue_frames,
            queue_bytes: parts.queue_bytes,
            sent_frames: 0,
            sent_bytes: 0,
            taken_frames: 0,
            taken_bytes: 0,
            slots: Slots::new(),
            made_room: false,
            sent: false,
            extents: Vec::new(),
        }
    }

    /// Returns the memory of the link, for tests that corrupt it as a broken peer might.
    #[cfg(test)]
    pub(super) fn memory(&self) -> &Common {
        &self.common
    }

    fn peer(&self) -> Side {
        self.side.other()
    }

    /// Returns whether nothing can be sent any more.
    pub(super) fn is_over(&self) -> bool {
        self.socket_ended || self.replaced || self.peer().end(&self.common).is_some()
    }

    /// Lets go of payload that the peer has given back.
    pub(super) fn collect(&mut self) {
        self.peer().collect(&self.common, &mut self.slots);
    }

    /// Asks the peer to ring when it makes room or returns payload. A refused frame is tried again afterwards, because
    /// room may have appeared just before.
    pub(super) fn wish(&self) {
        self.side.wish(&self.common);
        fence(Ordering::SeqCst);
    }

    /// Writes `frame`, of `bytes` bytes, into the ring. On failure, returns it with the missing resource.
    pub(super) fn send(
        &mut self,
        frame: Frame,
        bytes: usize,
        arena: &Arena,
        copies: &mut Copies,
    ) -> Result<Sent, (Frame, Lacks)> {
        if !self.queue_has_room(bytes as u64) {
            return Err((frame, Lacks::Room));
        }
        let plan = self.plan(&frame, arena);
        let head_bytes = if plan.head_in_extent { 0 } else { frame.head.len() };
        let record = record::record_bytes(head_bytes, self.extents.len());
        let taken = self.side.other().taken(&self.common);
        if !record::has_room(self.outgoing, &mut self.writer, taken, record) {
            return Err((frame, Lacks::Room));
        }
        let payload_bytes = bytes - frame.head.len();
        let has_extents = !self.extents.is_empty();
        if has_extents && self.slots.free() == 0 {
            return Err((frame, Lacks::Memory));
        }
        let mut copy = payload_bytes <= SMALL_PAYLOAD || self.slots.free() <= FEW_SLOTS;
        let Frame { head, mut payload } = frame;
        if plan.copied_bytes > 0 {
            let Some(copied) = copies.copy(plan.copied_bytes, plan.pieces(&head, &payload, arena)) else {
                return Err((Frame { head, payload }, Lacks::Memory));
            };
            copy |= copied.relayed;
            let at = arena.offset_of(&copied.bytes).expect("copies lie in the arena");
            place_copies(&mut self.extents, at as u64);
            if plan.copy_all {
                payload.clear();
            } else {
                payload.retain(|piece| arena.offset_of(piece).is_some());
            }
            payload.push_back(copied.bytes);
        }
        let slot = if has_extents { self.slots.keep(&mut payload) } else { None };
        let outgoing = record::Outgoing {
            head: if plan.head_in_extent { &[] } else { &head },
            head_in_extent: plan.head_in_extent,
            extents: &self.extents,
            slot,
            copy,
            payload_bytes: payload_bytes as u64,
        };
        record::write(&self.common, self.outgoing, &mut self.writer, outgoing);
        self.writer.publish(self.side.written(&self.common));
        self.sent_frames += 1;
        self.sent_bytes += bytes as u64;
        self.sent = true;
        Ok(Sent { copied_bytes: plan.copied_bytes })
    }

    fn queue_has_room(&mut self, bytes: u64) -> bool {
        let has_room = |link: &Self| {
            link.sent_frames - link.taken_frames < link.queue_frames
                && link.sent_bytes - link.taken_bytes + bytes <= link.queue_bytes
        };
        if has_room(self) {
            return true;
        }
        // The peer may store any number there; it cannot have taken more than was sent.
        let (peer, common) = (self.peer(), self.common.clone());
        self.taken_frames = peer.taken_frames(&common).load(Ordering::Acquire).min(self.sent_frames);
        self.taken_bytes = peer.taken_bytes(&common).load(Ordering::Acquire).min(self.sent_bytes);
        has_room(self)
    }

    /// Locates the parts of the frame and collects the extents of its record; the offsets of parts that must be copied
    /// count from zero, with [`COPIED`] set.
    fn plan(&mut self, frame: &Frame, arena: &Arena) -> Plan {
        let most = self.outgoing.bytes / RECORD_SHARE;
        let head_in_extent = frame.head.len() > most / 2;
        let mut copied = 0;
        self.extents.clear();
        if head_in_extent {
            copied = frame.head.len();
            self.extents.push(Extent { at: COPIED, bytes: copied as u64 });
        }
        let own = self.extents.len();
        for piece in frame.payload.iter().filter(|piece| !piece.is_empty()) {
            let at = match arena.offset_of(piece) {
                Some(at) => at as u64,
                None => {
                    copied += piece.len();
                    COPIED + (copied - piece.len()) as u64
                }
            };
            match self.extents[own..].last_mut() {
                Some(last) if last.at + last.bytes == at => last.bytes += piece.len() as u64,
                _ => self.extents.push(Extent { at, bytes: piece.len() as u64 }),
            }
        }
        let head_bytes = if head_in_extent { 0 } else { frame.head.len() };
        if record::record_bytes(head_bytes, self.extents.len()) <= most {
            return Plan { head_in_extent, copied_bytes: copied, copy_all: false };
        }
        // More pieces than a record has room for: all are copied, and are one.
        self.extents.truncate(own);
        let payload = frame.payload_bytes();
        let head = if head_in_extent { frame.head.len() } else { 0 };
        self.extents.push(Extent { at: COPIED + head as u64, bytes: payload as u64 });
        Plan { head_in_extent, copied_bytes: head + payload, copy_all: true }
    }

    /// Takes the next record.
    pub(super) fn take(&mut self, bytes_copied: &mut u64) -> Look {
        match self.try_take(bytes_copied) {
            Ok(Some(frame)) => return Look::Frame(frame),
            Ok(None) => {}
            Err(violated) => return Look::Ended(violated),
        }
        let end = self.peer().end(&self.common);
        let reason = match end {
            Some(End::Closed) => DownReason::Closed,
            Some(End::Lost) => DownReason::Lost,
            None if self.socket_ended => DownReason::Lost,
            None if self.replaced => DownReason::Replaced,
            None => return Look::Nothing,
        };
        // The end is set after the last frame was published: no further frame can appear.
        match self.try_take(bytes_copied) {
            Ok(Some(frame)) => Look::Frame(frame),
            Ok(None) => Look::Ended(reason),
            Err(violated) => Look::Ended(violated),
        }
    }

    fn try_take(&mut self, bytes_copied: &mut u64) -> Result<Option<Frame>, DownReason> {
        let peer = self.peer();
        let bounds = Bounds {
            arena_bytes: self.reading.arena.bytes(),
            max_frame_bytes: self.max_frame_bytes,
            slots: SLOTS,
        };
        let intake = Intake {
            common: &self.common,
            ring: self.incoming,
            written: peer.written(&self.common),
            taken: self.side.taken(&self.common),
        };
        let record = record::take(intake, &mut self.taker, bounds, &mut self.extents)
            .map_err(|_| DownReason::Violated)?;
        let Some(record) = record else { return Ok(None) };
        let frame = self.unpack(record, bytes_copied);
        self.taken_frames_here(frame.bytes() as u64);
        Ok(Some(frame))
    }

    fn taken_frames_here(&mut self, bytes: u64) {
        // Only this end writes these two.
        let frames = self.side.taken_frames(&self.common);
        frames.store(frames.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        let total = self.side.taken_bytes(&self.common);
        total.store(total.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Release);
        self.made_room = true;
    }

    /// From a checked record to a frame: its payload in place, or copied where the sender asks for that.
    fn unpack(&self, record: record::Incoming, bytes_copied: &mut u64) -> Frame {
        let record::Incoming { head, head_extent, slot, copy, payload_bytes } = record;
        let Some(slot) = slot else {
            return Frame { head: head.unwrap_or_default(), payload: VecDeque::new() };
        };
        let loan = Loan { reading: self.reading.clone(), slot };
        if copy {
            let all = loan.as_ref();
            let head = head.or_else(|| head_extent.map(|range| Bytes::copy_from_slice(&all[range])));
            let mut payload = Vec::with_capacity(payload_bytes);
            for extent in &self.extents {
                payload.extend_from_slice(&all[range_of(extent)]);
            }
            *bytes_copied += payload_bytes as u64;
            let payload = if payload.is_empty() { VecDeque::new() } else { VecDeque::from([payload.into()]) };
            return Frame { head: head.unwrap_or_default(), payload };
        }
        let all = Bytes::from_owner(loan);
        let head = head.or_else(|| head_extent.map(|range| all.slice(range)));
        let payload = self.extents.iter().map(|extent| all.slice(range_of(extent))).collect();
        Frame { head: head.unwrap_or_default(), payload }
    }

    /// Rings the peer's bell for sent records, and for room if the peer waits for it. Returns the number of system
    /// calls.
    pub(super) fn notify(&mut self) -> u64 {
        let sent = std::mem::take(&mut self.sent);
        let room_wanted = std::mem::take(&mut self.made_room) && self.peer().wants_room(&self.common);
        u64::from((sent || room_wanted) && self.reading.bell.ring())
    }

    /// Marks this end as closed, in good order or not.
    pub(super) fn end(&mut self, end: End) {
        if self.side.end(&self.common).is_none() {
            self.side.say_end(&self.common, end);
            self.reading.bell.ring();
        }
    }

    /// Returns the number of frames that the peer has not taken.
    pub(super) fn not_taken(&self) -> u64 {
        self.sent_frames.saturating_sub(self.peer().taken_frames(&self.common).load(Ordering::Acquire))
    }

    /// Returns the remains of the link when it has ended.
    pub(super) fn depart(self) -> Departed {
        Departed { theirs: self.side.other(), common: self.common, slots: self.slots, lease: self.lease }
    }
}

/// Result of sending a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) copied_bytes: usize,
}

/// Set in the offset of an extent whose content is not in the arena yet. No arena is as large.
const COPIED: u64 = 1 << 63;

fn place_copies(extents: &mut [Extent], at: u64) {
    for extent in extents.iter_mut().filter(|extent| extent.at >= COPIED) {
        extent.at = extent.at - COPIED + at;
    }
}

fn range_of(extent: &Extent) -> std::ops::Range<usize> {
    extent.at as usize..(extent.at + extent.bytes) as usize
}

/// Way in which a frame is sent.
#[derive(Clone, Copy, Debug)]
struct Plan {
    head_in_extent: bool,
    /// Bytes that have to be copied into the arena.
    copied_bytes: usize,
    /// Whether payload in the arena is copied as well.
    copy_all: bool,
}

impl Plan {
    /// Returns the pieces to copy, in order.
    fn pieces<'a>(
        self,
        head: &'a Bytes,
        payload: &'a VecDeque<Bytes>,
        arena: &'a Arena,
    ) -> impl Iterator<Item = &'a [u8]> {
        let head = self.head_in_extent.then_some(head.as_ref());
        let foreign = move |piece: &&Bytes| self.copy_all || arena.offset_of(piece).is_none();
        head.into_iter().chain(payload.iter().filter(foreign).map(Bytes::as_ref))
    }
}

/// Returns whether a link's socket is readable. Nothing is written to it after the greetings, so the link is over.
pub(super) fn socket_is_over(socket: &OwnedFd) -> bool {
    !matches!(rustix::io::read(socket, &mut [0_u8; 1]), Err(io::Errno::AGAIN | io::Errno::INTR))
}
