//! The entry points of the fuzz targets for received bytes: greetings, then frames.

use super::Blocks;
use super::deframer::{Deframer, FrameError, Item};
use super::framing::{GREETING_BYTES, KEYED, PREFIX_BYTES, RAILS_VERSION, VERSION};
use super::greeting::{GreetingBuffer, RailGreeting};
use super::proving::CallerWords;
use super::sequence::Window;
use bytes::Bytes;
use sheaf_key::{NONCE_BYTES, PROOF_BYTES, Purpose, RunKey};
use sheaf_transport::greeting::Greeting;
use sheaf_transport::{Frame, Refusal};
use sheaf_wire::{NodeId, RunNumber, SessionId};
use std::convert::Infallible;

const BLOCK_BYTES: usize = 256;
const BLOCKS: usize = 8;
const MAX_FRAME_BYTES: usize = 1024;

/// Feeds `bytes` to a [`Deframer`] in pieces whose sizes are given by the first bytes, and compares the result with a
/// plain decoder of the whole stream: same frames, same end, bounded memory.
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

/// The versions of greetings that are spoken.
const VERSIONS: [u16; 4] = [VERSION, RAILS_VERSION, VERSION | KEYED, RAILS_VERSION | KEYED];

/// The node that receives the fuzzed bytes.
fn host() -> Greeting {
    let (node, run, session) = (NodeId::readout(0), RunNumber(1), SessionId(5));
    Greeting { node, run, session, max_frame_bytes: MAX_FRAME_BYTES }
}

/// The key that proofs are asked for.
fn key() -> RunKey {
    RunKey::new(&[5; 32])
}

/// Decodes `bytes` as the other side's greeting: the first byte selects the version, the role, and the sizes of pieces.
/// A decoded greeting is unchanged by encoding, and an accepted proof is correct.
///
/// # Panics
/// If the decoder of greetings is wrong.
pub fn fuzz_tcp_greeting(bytes: &[u8]) {
    let Some((how, said)) = bytes.split_first() else { return };
    let version = VERSIONS[usize::from(how & 3)];
    let is_call = how & 4 == 0;
    let size = 1 + usize::from(how >> 3);
    let mut buffer =
        if is_call { GreetingBuffer::of_call(version) } else { GreetingBuffer::of_answer(version) };
    let mut rest = said;
    let whole = loop {
        let room = buffer.room();
        assert!(!room.is_empty(), "a greeting that is not whole has room");
        let bytes = size.min(room.len()).min(rest.len());
        if bytes == 0 {
            return;
        }
        room[..bytes].copy_from_slice(&rest[..bytes]);
        rest = &rest[bytes..];
        let whole = buffer.filled(bytes).map(<[u8]>::to_vec);
        if let Some(whole) = whole {
            break whole;
        }
        if buffer.is_hopeless().is_some() {
            return;
        }
    };
    let Some((fixed, behind)) = whole.split_first_chunk::<GREETING_BYTES>() else { return };
    if let Ok(parsed) = host().parse_as(version, fixed) {
        assert_eq!(
            host().parse_as(version, &parsed.emit_as(version, None)),
            Ok(parsed),
            "it says the same again"
        );
    }
    let _ = host().parse_guest(version, NodeId::readout(1), fixed);
    let _ = host().hear_host(version, fixed);
    if let Some(rail) = RailGreeting::parse(behind) {
        assert_eq!(RailGreeting::parse(&rail.emit()), Some(rail), "and so does its rail");
    }
    if version & KEYED != 0 && !is_call {
        let words = CallerWords::new(key(), &host().emit_as(version, None), &[1; NONCE_BYTES]);
        assert_eq!(
            words.verify(&whole).is_ok(),
            is_proven(version, &whole),
            "a proof is believed where it is right"
        );
    }
}

/// Returns whether an answer ends with its correct proof.
fn is_proven(version: u16, answer: &[u8]) -> bool {
    let Some((said, proof)) = answer.split_last_chunk::<PROOF_BYTES>() else { return false };
    let call = [&host().emit_as(version, None)[..], &[1; NONCE_BYTES]].concat();
    key().prove(Purpose::TcpCalled, &[&call, said]) == *proof
}

/// Greetings for the fuzzer to begin with: name and bytes.
#[must_use]
pub fn tcp_greeting_seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (place, version) in (0_u8..).zip(VERSIONS) {
        for (side, name) in [(0, "call"), (4, "answer")] {
            for (refusal, ending) in [(None, ""), (Some(Refusal::WrongKey), "-refused")] {
                let mut said = host().emit_as(version, refusal).to_vec();
                if version & !KEYED == RAILS_VERSION {
                    let window = Window { frames: 8, bytes: 4_096 };
                    said.extend(RailGreeting { rail: 0, rails: 2, epoch: 1, window }.emit());
                }
                if version & KEYED != 0 {
                    said.extend([2; NONCE_BYTES]);
                    if side == 4 {
                        let call = [&host().emit_as(version, None)[..], &[1; NONCE_BYTES]].concat();
                        let proof = key().prove(Purpose::TcpCalled, &[&call, &said]);
                        said.extend(proof);
                    }
                }
                seeds.push((
                    format!("{name}-{version:x}{ending}"),
                    [&[place | side | 0x78], &said[..]].concat(),
                ));
            }
        }
    }
    seeds
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
