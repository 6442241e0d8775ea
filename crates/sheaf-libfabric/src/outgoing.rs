//! From frames to messages: the send queue of one link. Independent of libfabric.

use super::wire::Kind;
use bytes::{Buf, Bytes};
use sheaf_transport::Frame;
use std::collections::VecDeque;

/// Frames that wait, within bounds.
#[derive(Debug)]
pub(super) struct Outgoing {
    max_frames: usize,
    max_bytes: usize,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// The number of the next message.
    pub(super) next: u64,
    /// Number of messages that the peer lets us send in all.
    pub(super) granted: u64,
}

/// A frame, or the rest of it.
#[derive(Debug)]
struct Waiting {
    head_bytes: usize,
    frame_bytes: usize,
    left: usize,
    pieces: VecDeque<Bytes>,
}

/// A message: its first part is in the caller's buffer.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    /// Number of bytes put into the buffer.
    pub(super) bytes: usize,
    /// Payload among them.
    pub(super) payload_copied: usize,
    /// Pieces that are sent from where they lie.
    pub(super) pieces: VecDeque<Bytes>,
    /// Whether a frame has left the queue with it.
    pub(super) ends_frame: bool,
}

impl Outgoing {
    pub(super) fn new(max_frames: usize, max_bytes: usize) -> Self {
        Self { max_frames, max_bytes, waiting: VecDeque::new(), bytes: 0, next: 0, granted: 0 }
    }

    /// Frames that wait.
    pub(super) fn frames(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether there is something to send, and credit for it.
    pub(super) fn may_send(&self) -> bool {
        !self.waiting.is_empty() && self.next < self.granted
    }

    /// Takes a frame, or gives it back.
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        let bytes = frame.bytes();
        let full = self.waiting.len() >= self.max_frames || self.bytes + bytes > self.max_bytes;
        if full {
            return Err(frame);
        }
        let Frame { head, payload } = frame;
        let head_bytes = head.len();
        let mut pieces = payload;
        pieces.retain(|piece| !piece.is_empty());
        pieces.push_front(head);
        self.bytes += bytes;
        self.waiting.push_back(Waiting { head_bytes, frame_bytes: bytes, left: bytes, pieces });
        Ok(())
    }

    /// The next message, with room for all its bytes in `room`. At most `in_place` pieces stay where they are; a frame with
    /// more, or in several messages, is copied. Small pieces are cheaper copied than described.
    pub(super) fn take(&mut self, room: &mut [u8], in_place: usize) -> Option<Part> {
        let frame = self.waiting.front_mut()?;
        let begins = frame.left == frame.frame_bytes;
        let (head_bytes, frame_bytes) = (frame.head_bytes, frame.frame_bytes);
        let kind = if begins { Kind::Begin { head_bytes, frame_bytes } } else { Kind::More };
        self.next += 1;
        let large = |pieces: &VecDeque<Bytes>| pieces.iter().skip(1).all(|piece| piece.len() >= COPY_BYTES);
        if begins
            && frame_bytes <= room.len()
            && (2..=in_place + 1).contains(&frame.pieces.len())
            && large(&frame.pieces)
        {
            let mut frame = self.waiting.pop_front()?;
            self.bytes -= frame_bytes;
            let head = frame.pieces.pop_front()?;
            room[..head_bytes].copy_from_slice(&head);
            let pieces = frame.pieces;
            return Some(Part { kind, bytes: head_bytes, payload_copied: 0, pieces, ends_frame: true });
        }
        let bytes = frame.left.min(room.len());
        let mut filled = 0;
        while filled < bytes {
            let piece = frame.pieces.front_mut()?;
            let some = piece.len().min(bytes - filled);
            room[filled..filled + some].copy_from_slice(&piece[..some]);
            piece.advance(some);
            filled += some;
            if piece.is_empty() {
                frame.pieces.pop_front();
            }
        }
        frame.left -= bytes;
        let ends_frame = frame.left == 0;
        if ends_frame {
            self.waiting.pop_front();
            self.bytes -= frame_bytes;
        }
        let of_head = if begins { head_bytes.min(bytes) } else { 0 };
        Some(Part { kind, bytes, payload_copied: bytes - of_head, pieces: VecDeque::new(), ends_frame })
    }
}

/// Pieces below this are copied. `tcp;ofi_rxm` and `shm` copy messages of this size themselves.
const COPY_BYTES: usize = 512;
