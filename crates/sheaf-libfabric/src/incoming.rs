//! From messages to frames: their order, and frames that arrive in parts. Independent of libfabric.

use super::wire::Kind;
use bytes::{Bytes, BytesMut};
use sheaf_transport::Frame;
use std::collections::BTreeMap;

/// A message without its header.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) body: Bytes,
}

/// A frame that is whole, or a part of one that was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A part; the frame is not whole yet.
    Part,
    /// The last message of a frame.
    Frame(Frame),
}

/// A message that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

/// Incoming messages of one link.
#[derive(Debug)]
pub(super) struct Incoming {
    max_frame_bytes: usize,
    /// The number of the next message.
    next: u64,
    /// Messages that came before their turn: providers keep the order in which messages are matched, not always that
    /// in which they are complete.
    early: BTreeMap<u64, Message>,
    part: Option<Part>,
    /// Bytes that were copied to put parts together.
    pub(super) bytes_copied: u64,
}

/// A frame that is not whole yet.
#[derive(Debug)]
struct Part {
    head_bytes: usize,
    frame_bytes: usize,
    bytes: BytesMut,
}

impl Incoming {
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        Self { max_frame_bytes, next: 0, early: BTreeMap::new(), part: None, bytes_copied: 0 }
    }

    /// Returns the number of messages that came in order and were taken.
    pub(super) fn taken(&self) -> u64 {
        self.next
    }

    /// Takes message `number`, which must be below `granted`.
    pub(super) fn accept(&mut self, number: u64, granted: u64, message: Message) -> Result<(), Violation> {
        if number < self.next || number >= granted {
            return Err(Violation);
        }
        match self.early.insert(number, message) {
            Some(_) => Err(Violation),
            None => Ok(()),
        }
    }

    /// Returns the number of messages that wait for one before them.
    pub(super) fn early(&self) -> usize {
        self.early.len()
    }

    /// Returns the next message, if it has arrived.
    pub(super) fn next(&mut self) -> Result<Option<Next>, Violation> {
        let Some(message) = self.early.remove(&self.next) else { return Ok(None) };
        self.next += 1;
        let Message { kind, body } = message;
        match (kind, self.part.take()) {
            (Kind::Begin { head_bytes, frame_bytes }, None) if frame_bytes <= self.max_frame_bytes => {
                if body.len() == frame_bytes {
                    return Ok(Some(Next::Frame(frame(body, head_bytes))));
                }
                let mut bytes = BytesMut::with_capacity(frame_bytes);
                bytes.extend_from_slice(&body);
                self.bytes_copied += body.len() as u64;
                self.part = Some(Part { head_bytes, frame_bytes, bytes });
                Ok(Some(Next::Part))
            }
            (Kind::More, Some(mut part)) if body.len() <= part.frame_bytes - part.bytes.len() => {
                part.bytes.extend_from_slice(&body);
                self.bytes_copied += body.len() as u64;
                if part.bytes.len() == part.frame_bytes {
                    return Ok(Some(Next::Frame(frame(part.bytes.freeze(), part.head_bytes))));
                }
                self.part = Some(part);
                Ok(Some(Next::Part))
            }
            _ => Err(Violation),
        }
    }
}

/// The frame of these bytes: head, and payload in one piece.
fn frame(mut bytes: Bytes, head_bytes: usize) -> Frame {
    let head = bytes.split_to(head_bytes);
    let payload = if bytes.is_empty() { None } else { Some(bytes) };
    Frame::new(head, payload)
}
