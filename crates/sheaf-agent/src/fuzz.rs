//! Entry point of the fuzz target `agent_link`.

use crate::exchange::Exchange;
use crate::frame::{Frame, Frames};

/// Room of the conversation.
const ROOM: usize = 1 << 10;

/// Takes any bytes as what the other end of a connection sends after the handshake.
///
/// # Panics
/// If a bound is broken.
pub fn take_bytes(bytes: &[u8]) {
    let mut exchange = Exchange::new(ROOM);
    let mut frames = Frames::default();
    frames.note_proven();
    for part in bytes.chunks(7) {
        // What is sent meanwhile may be acknowledged.
        let _ = exchange.send(&part[..part.len() / 2]);
        frames.extend(part);
        while exchange.has_inbox_room() {
            let Ok(frame) = frames.next() else { return };
            let Some(frame) = frame else { break };
            if exchange.take(frame).is_err() {
                return;
            }
        }
        while exchange.next_frame().is_some() {}
        if !exchange.has_inbox_room() {
            assert!(exchange.read().is_some(), "what takes room can be read");
        }
    }
}

/// Returns inputs that make sense.
#[must_use]
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let of = |frames: &[Frame]| {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        bytes
    };
    let message = |number| Frame::Message { number, content: vec![0; 20] };
    let whole = [
        message(1),
        message(2),
        Frame::Received(1),
        Frame::Ping,
        Frame::Received(3),
        Frame::Close { number: 3 },
    ];
    let call = Frame::Call { proof: [0; 32], name: [0; 16], is_first: true, received: 0 };
    let named = [
        ("whole", of(&whole)),
        ("gap", of(&[message(1), message(1), message(3)])),
        ("repeated", of(&[message(1), message(1), message(2), message(2)])),
        ("unsent", of(&[Frame::Received(9)])),
        ("acknowledged-twice", of(&[Frame::Received(1), Frame::Received(1), Frame::Received(2)])),
        ("call", of(&[call])),
        ("refusal", of(&[Frame::Refusal])),
        ("pings", of(&[Frame::Ping, Frame::Ping, message(1), Frame::Ping])),
        ("closed-at-once", of(&[Frame::Close { number: 1 }])),
        ("message-after-the-last", of(&[Frame::Close { number: 1 }, message(2)])),
        ("long", of(&[Frame::Message { number: 1, content: vec![7; 2 * ROOM] }, message(2)])),
    ];
    named.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}
