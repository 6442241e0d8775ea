//! The entry point of the fuzz target for what peers send.

use super::Blocks;
use super::deframer::{Deframer, FrameError, Item};
use super::framing::PREFIX_BYTES;
use crate::Frame;
use bytes::Bytes;
use std::convert::Infallible;

const BLOCK_BYTES: usize = 256;
const BLOCKS: usize = 8;
const MAX_FRAME_BYTES: usize = 1024;

/// Feeds `bytes` to a [`Deframer`] in pieces of sizes that the first of them decide, and checks what comes out against a
/// plain reading of the whole stream: same frames, same end, bounded memory.
///
/// # Panics
/// If the deframer is wrong.
pub fn fuzz_tcp_stream(bytes: &[u8]) {
    let (sizes, stream) = bytes.split_at(bytes.len().min(4));
    let mut blocks = Blocks::new(BLOCK_BYTES, BLOCKS);
    let mut deframer = Deframer::new(MAX_FRAME_BYTES);
    let mut expected = Reference { stream, at: 0, ended: false };
    let mut held: Vec<(Frame, Frame)> = Vec::new();
    let mut fed = 0;
    for turn in 0.. {
        let size = 1 + sizes.get(turn % sizes.len().max(1)).map_or(0, |size| usize::from(*size));
        let rest = &stream[fed..];
        let room = deframer.fill(&mut blocks, |room| -> Result<_, Infallible> {
            let filled = size.min(rest.len()).min(room.len());
            Ok(room[..filled].write_copy_of_slice(&rest[..filled]))
        });
        match room {
            Some(Ok(filled)) => fed += filled,
            None => assert!(!held.is_empty(), "there is room when no frame is held"),
        }
        loop {
            let found = deframer.next(&mut blocks);
            assert_eq!(found, expected.next(fed), "the plain reading finds the same");
            match found {
                Ok(Some(Item::Frame(frame))) => held.push((frame.clone(), copy(&frame))),
                Ok(Some(Item::Goodbye)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert_eq!(deframer.unfinished_bytes(), fed - expected.at, "no byte is lost");
        deframer.rest(&mut blocks);
        assert!(blocks.allocated_bytes() <= BLOCK_BYTES * BLOCKS);
        if room.is_none() || held.len() > 64 {
            for (frame, copy) in held.drain(..) {
                assert_eq!(frame, copy, "what was handed out does not change");
            }
        }
        if fed == stream.len() {
            return;
        }
    }
}

fn copy(frame: &Frame) -> Frame {
    let bytes = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    Frame::new(bytes(&frame.head), frame.payload.iter().map(bytes))
}

/// A reading of the stream that has all of it at hand.
struct Reference<'a> {
    stream: &'a [u8],
    at: usize,
    ended: bool,
}

impl Reference<'_> {
    /// Returns the next item, as far as the first `fed` bytes contain it.
    fn next(&mut self, fed: usize) -> Result<Option<Item>, FrameError> {
        let rest = &self.stream[self.at..fed];
        if self.ended {
            return if rest.is_empty() { Ok(None) } else { Err(FrameError::AfterGoodbye(rest.len())) };
        }
        let Some((prefix, body)) = rest.split_at_checked(PREFIX_BYTES) else {
            return Ok(None);
        };
        let word =
            |at: usize| u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]);
        let (head_bytes, payload_bytes) = (word(0), word(4));
        if (head_bytes, payload_bytes) == (u32::MAX, u32::MAX) {
            self.at += PREFIX_BYTES;
            self.ended = true;
            return Ok(Some(Item::Goodbye));
        }
        let limit = MAX_FRAME_BYTES;
        if u64::from(head_bytes) + u64::from(payload_bytes) > limit as u64 {
            return Err(FrameError::TooLarge { head_bytes, payload_bytes, limit });
        }
        let (head_bytes, payload_bytes) = (head_bytes as usize, payload_bytes as usize);
        let Some(body) = body.get(..head_bytes + payload_bytes) else {
            return Ok(None);
        };
        self.at += PREFIX_BYTES + body.len();
        let (head, payload) = body.split_at(head_bytes);
        let payload = (!payload.is_empty()).then(|| Bytes::copy_from_slice(payload));
        Ok(Some(Item::Frame(Frame::new(Bytes::copy_from_slice(head), payload))))
    }
}
