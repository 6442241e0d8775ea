//! What waits to be written to one connection.

use super::framing::{GOODBYE, PrefixBytes};
use crate::Frame;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;
use zerocopy::IntoBytes;

/// How many pieces one write may have: `IOV_MAX` of Linux, the BSDs and macOS.
const PIECES_PER_WRITE: usize = 1024;

/// How many bytes one write is offered. In `benches/stream.rs`, 128 KiB took a quarter more processor time a frame, 2 MiB no
/// less; what is offered beyond the kernel's free room is gathered for nothing.
const BYTES_PER_WRITE: usize = 512 << 10;

/// A bounded queue of frames, and how much of the first is written.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<Queued>,
    /// Bytes of the queued frames, without prefixes; the first counts whole until it is written.
    bytes: usize,
    max_frames: usize,
    max_bytes: usize,
    /// Bytes of the first frame's next piece that are written.
    written: usize,
}

#[derive(Debug)]
struct Queued {
    prefix: PrefixBytes,
    frame: Frame,
    /// How many pieces are written: the prefix, the head, then the payload's.
    pieces_written: usize,
    bytes: usize,
}

impl Queued {
    fn piece(&self, piece: usize) -> Option<&[u8]> {
        match piece {
            0 => Some(self.prefix.as_bytes()),
            1 => Some(&self.frame.head),
            _ => self.frame.payload.get(piece - 2).map(Bytes::as_ref),
        }
    }

    /// Lets go of payload as soon as it is written.
    fn forget(&mut self, piece: usize) {
        if let Some(payload) = piece.checked_sub(2).and_then(|piece| self.frame.payload.get_mut(piece)) {
            *payload = Bytes::new();
        }
    }
}

impl Outbox {
    /// A queue of at most `max_frames` frames with at most `max_bytes` bytes.
    pub(super) fn new(max_frames: usize, max_bytes: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, max_frames, max_bytes, written: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Queues a frame of `bytes` bytes; gives it back where there is no room.
    pub(super) fn push(&mut self, frame: Frame, bytes: usize) -> Result<(), Frame> {
        if self.queue.len() >= self.max_frames || self.bytes + bytes > self.max_bytes {
            return Err(frame);
        }
        // Both lengths are below the limit for frames, which is below 2^32.
        let head_bytes = frame.head.len() as u32;
        let prefix =
            PrefixBytes { head_bytes: head_bytes.into(), payload_bytes: (bytes as u32 - head_bytes).into() };
        self.put(prefix, frame, bytes);
        Ok(())
    }

    /// Queues the goodbye, whatever the bounds.
    pub(super) fn push_goodbye(&mut self) {
        self.put(GOODBYE, Frame::default(), 0);
    }

    fn put(&mut self, prefix: PrefixBytes, frame: Frame, bytes: usize) {
        self.bytes += bytes;
        self.queue.push_back(Queued { prefix, frame, pieces_written: 0, bytes });
    }

    /// The next bytes to write, in order, for one vectored write, and how many there are.
    pub(super) fn gather(&self) -> (Vec<IoSlice<'_>>, usize) {
        let mut slices = Vec::with_capacity(PIECES_PER_WRITE);
        let mut total = 0;
        let mut skip = self.written;
        for queued in &self.queue {
            for piece in queued.pieces_written.. {
                let Some(bytes) = queued.piece(piece) else {
                    break;
                };
                let rest = &bytes[std::mem::take(&mut skip)..];
                if rest.is_empty() {
                    continue;
                }
                slices.push(IoSlice::new(rest));
                total += rest.len();
                if slices.len() == PIECES_PER_WRITE || total >= BYTES_PER_WRITE {
                    return (slices, total);
                }
            }
        }
        (slices, total)
    }

    /// Takes note that `bytes` of what [`Outbox::gather`] gave are written. `true` if a frame left the queue.
    pub(super) fn advance(&mut self, mut bytes: usize) -> bool {
        let before = self.queue.len();
        while let Some(first) = self.queue.front_mut() {
            while let Some(piece) = first.piece(first.pieces_written) {
                let rest = piece.len() - self.written;
                if bytes < rest {
                    self.written += bytes;
                    return self.queue.len() < before;
                }
                bytes -= rest;
                self.written = 0;
                first.forget(first.pieces_written);
                first.pieces_written += 1;
            }
            self.bytes -= first.bytes;
            self.queue.pop_front();
        }
        debug_assert_eq!(bytes, 0, "no more is written than was gathered");
        self.queue.len() < before
    }

    /// How many frames are not completely written (the goodbye is none).
    pub(super) fn frames(&self) -> u64 {
        self.queue.iter().filter(|queued| queued.prefix != GOODBYE).count() as u64
    }
}
