//! Tests without libfabric: layouts, order, parts.

use super::incoming::{Incoming, Message, Next};
use super::outgoing::Outgoing;
use super::wire::{HEADER_BYTES, Header, Hello, Kind, Word};
use bytes::Bytes;
use proptest::prelude::*;
use sheaf_transport::Frame;

/// A frame of these sizes with a content of its own.
fn frame(number: u8, head: usize, pieces: &[usize]) -> Frame {
    let piece = |bytes: &usize| (0..*bytes).map(|at| (at as u8).wrapping_mul(31) ^ number).collect::<Bytes>();
    Frame::new(piece(&head), pieces.iter().map(piece))
}

fn all(frame: &Frame) -> (Bytes, Vec<u8>) {
    (frame.head.clone(), frame.payload.iter().flatten().copied().collect())
}

proptest! {
    /// Frames of any shape, in messages of any size, that arrive in any order: they come out as they were, in order.
    #[test]
    fn frames_survive_being_cut_and_shuffled(
        shapes in prop::collection::vec((0_usize..300, prop::collection::vec(0_usize..2000, 0..5)), 1..12),
        room in 64_usize..3000,
        in_place in 0_usize..4,
        order in any::<prop::sample::Index>(),
    ) {
        let mut outgoing = Outgoing::new(100, 1 << 20);
        let frames: Vec<Frame> =
            (0..).zip(&shapes).map(|(number, (head, pieces))| frame(number, *head, pieces)).collect();
        for frame in &frames {
            outgoing.push(frame.clone()).unwrap();
        }
        let mut buffer = vec![0; room];
        let mut messages = Vec::new();
        while let Some(part) = outgoing.take(&mut buffer, in_place) {
            let mut body = buffer[..part.bytes].to_vec();
            part.pieces.iter().for_each(|piece| body.extend_from_slice(piece));
            prop_assert!(body.len() <= room && part.pieces.len() <= in_place);
            messages.push(Message { kind: part.kind, body: body.into() });
        }
        prop_assert_eq!(outgoing.next, messages.len() as u64);
        let count = messages.len();
        let mut numbered: Vec<_> = (0..).zip(messages).collect();
        numbered.rotate_left(order.index(count));
        let mut incoming = Incoming::new(1 << 20);
        let mut got = Vec::new();
        for (number, message) in numbered {
            incoming.accept(number, count as u64, message).unwrap();
            while let Some(next) = incoming.next().unwrap() {
                if let Next::Frame(frame) = next {
                    got.push(all(&frame));
                }
            }
        }
        prop_assert_eq!(got, frames.iter().map(all).collect::<Vec<_>>());
    }

    /// Whatever bytes come, reading them gives something or nothing, and never panics.
    #[test]
    fn any_bytes_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Header::read(&bytes);
        let _ = Word::read(&bytes);
    }

    #[test]
    fn headers_survive_the_wire(token: u64, number: u64, granted: u64, head in 0_usize..9, more in 0_usize..9) {
        for kind in [Kind::Credit, Kind::More, Kind::Begin { head_bytes: head, frame_bytes: head + more }] {
            let header = Header { token, number, granted, kind };
            let mut bytes = [0; HEADER_BYTES];
            header.emit(&mut bytes);
            prop_assert_eq!(Header::read(&bytes), Some(header));
        }
    }
}

#[test]
fn words_survive_the_wire() {
    let hello = Hello {
        token: 1,
        window: 2,
        max_frame_bytes: 3 << 20,
        message_bytes: 4096,
        provider: "shm".into(),
        name: b"fi_shm://1:0:0".to_vec(),
    };
    for word in [Word::Hello(hello), Word::Farewell { messages: 9 }, Word::Thanks { closing: true }] {
        assert_eq!(Word::read(&word.emit()), Ok(word));
    }
}

#[test]
fn messages_beyond_the_credit_twice_or_too_large_are_violations() {
    let begin = |bytes: usize| Message {
        kind: Kind::Begin { head_bytes: 0, frame_bytes: bytes },
        body: Bytes::from(vec![0; bytes]),
    };
    let mut incoming = Incoming::new(100);
    assert!(incoming.accept(4, 4, begin(1)).is_err(), "no credit for a fifth message");
    incoming.accept(1, 4, begin(1)).unwrap();
    assert!(incoming.accept(1, 4, begin(1)).is_err(), "the same number again");
    incoming.accept(0, 4, begin(101)).unwrap();
    assert!(incoming.next().is_err(), "a frame above the limit");
}
