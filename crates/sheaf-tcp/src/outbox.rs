//! Frames that wait to be written to one connection.

use super::framing::{ACKNOWLEDGEMENT, FAREWELL, GOODBYE, NUMBER_BYTES, PREFIX_BYTES, PrefixBytes};
use bytes::Bytes;
use sheaf_transport::Frame;
use std::collections::VecDeque;
use std::io::IoSlice;
use zerocopy::IntoBytes;

/// Maximum number of pieces of one write: `IOV_MAX` of Linux, the BSDs and macOS.
const PIECES_PER_WRITE: usize = 1024;

/// Maximum number of bytes offered to one write. In `benches/stream.rs`, 128 KiB took a quarter more processor time per
/// frame, and 2 MiB no less; bytes beyond the kernel's free room are gathered for nothing.
pub(super) const BYTES_PER_WRITE: usize = 512 << 10;

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
    front: Front,
    frame: Frame,
    /// Number of pieces written: the prefix, the head, then the payload's.
    pieces_written: usize,
    bytes: usize,
}

/// Bytes before a frame: the prefix, and the addition of a link with several rails to the head.
#[derive(Debug)]
enum Front {
    Frame(PrefixBytes),
    Numbered([u8; PREFIX_BYTES + NUMBER_BYTES]),
    Acknowledgement([u8; PREFIX_BYTES + 2 * NUMBER_BYTES]),
    Farewell([u8; PREFIX_BYTES + NUMBER_BYTES]),
    Goodbye,
}

impl Front {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Frame(prefix) => prefix.as_bytes(),
            Self::Numbered(bytes) | Self::Farewell(bytes) => bytes,
            Self::Acknowledgement(bytes) => bytes,
            Self::Goodbye => GOODBYE.as_bytes(),
        }
    }
}

impl Queued {
    fn piece(&self, piece: usize) -> Option<&[u8]> {
        match piece {
            0 => Some(self.front.bytes()),
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
        let prefix = prefix(frame.head.len(), bytes - frame.head.len());
        self.put(Front::Frame(prefix), frame, bytes);
        Ok(())
    }

    /// Queues a frame of `bytes` bytes of a link of several rails, whatever the bounds: the link has its own.
    pub(super) fn push_numbered(&mut self, number: u64, frame: Frame, bytes: usize) {
        let prefix = prefix(NUMBER_BYTES + frame.head.len(), bytes - frame.head.len());
        let mut front = [0; PREFIX_BYTES + NUMBER_BYTES];
        front[..PREFIX_BYTES].copy_from_slice(prefix.as_bytes());
        front[PREFIX_BYTES..].copy_from_slice(&number.to_le_bytes());
        self.put(Front::Numbered(front), frame, bytes);
    }

    /// Queues an acknowledgement of all frames below `number`.
    pub(super) fn push_acknowledgement(&mut self, number: u64) {
        let mut front = [0; PREFIX_BYTES + 2 * NUMBER_BYTES];
        front[..PREFIX_BYTES].copy_from_slice(prefix(2 * NUMBER_BYTES, 0).as_bytes());
        front[PREFIX_BYTES..PREFIX_BYTES + NUMBER_BYTES].copy_from_slice(&ACKNOWLEDGEMENT.to_le_bytes());
        front[PREFIX_BYTES + NUMBER_BYTES..].copy_from_slice(&number.to_le_bytes());
        self.put(Front::Acknowledgement(front), Frame::default(), 0);
    }

    /// Queues the farewell of a link of several rails.
    pub(super) fn push_farewell(&mut self) {
        let mut front = [0; PREFIX_BYTES + NUMBER_BYTES];
        front[..PREFIX_BYTES].copy_from_slice(prefix(NUMBER_BYTES, 0).as_bytes());
        front[PREFIX_BYTES..].copy_from_slice(&FAREWELL.to_le_bytes());
        self.put(Front::Farewell(front), Frame::default(), 0);
    }

    /// Bytes that wait, without prefixes; the first frame counts whole until it is written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues the goodbye, whatever the bounds.
    pub(super) fn push_goodbye(&mut self) {
        self.put(Front::Goodbye, Frame::default(), 0);
    }

    fn put(&mut self, front: Front, frame: Frame, bytes: usize) {
        self.bytes += bytes;
        self.queue.push_back(Queued { front, frame, pieces_written: 0, bytes });
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

    /// Records that `bytes` of the data from [`Outbox::gather`] were written. Returns `true` if a frame left the queue.
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

    /// Returns the number of frames that are not completely written (the goodbye does not count).
    pub(super) fn frames(&self) -> u64 {
        self.queue
            .iter()
            .filter(|queued| matches!(queued.front, Front::Frame(_) | Front::Numbered(_)))
            .count() as u64
    }
}

/// The prefix of a frame; both lengths are below the limit for frames, which is below 2^32.
fn prefix(head_bytes: usize, payload_bytes: usize) -> PrefixBytes {
    PrefixBytes { head_bytes: (head_bytes as u32).into(), payload_bytes: (payload_bytes as u32).into() }
}
