//! Frames whose content tells where they come from and where they go.

use crate::Frame;
use bytes::Bytes;
use sheaf_wire::NodeId;
use sheaf_wire::message::PayloadSource;

/// The link and the place in it that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) number: u64,
}

/// The frame at `place`: a head of `head_bytes` and pieces of these sizes.
pub(super) fn frame(place: Place, head_bytes: usize, pieces: &[usize]) -> Frame {
    let mut seed = seed(place);
    let head = filler(&mut seed, head_bytes);
    Frame::new(head, pieces.iter().map(|bytes| filler(&mut seed, *bytes)))
}

/// Checks that `received` is the frame at `place`, made of these sizes, with every piece to be had in one.
pub(super) fn check(received: Frame, place: Place, head_bytes: usize, pieces: &[usize]) {
    let expected = frame(place, head_bytes, pieces);
    assert_eq!(received.head, expected.head, "head of {place:?}");
    let mut payload = received.payload;
    assert_eq!(payload.total(), expected.payload_bytes() as u64, "payload bytes of {place:?}");
    for piece in expected.payload {
        let got = payload.take(piece.len()).expect("a piece is never split");
        assert!(got == piece, "{} bytes of the payload of {place:?} differ", piece.len());
    }
}

/// Sizes for the frame with this number: small ones, empty ones, and a large one at times.
pub(super) fn sizes(number: u64) -> (usize, Vec<usize>) {
    let random = mix(number);
    let head_bytes = (random % 600) as usize;
    let pieces = (0..random >> 10 & 7).map(|piece| {
        let random = mix(random ^ piece);
        let most = if random >> 20 & 63 == 0 { 100_000 } else { 3_000 };
        (random % most) as usize
    });
    (head_bytes, pieces.collect())
}

/// The finaliser of SplitMix64 after a step: a different number for every number, all bits of it about random.
pub(super) fn mix(number: u64) -> u64 {
    let value = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn seed(place: Place) -> u64 {
    mix(mix(u64::from(place.from.to_code())) ^ u64::from(place.to.to_code())) ^ mix(place.number)
}

fn filler(seed: &mut u64, bytes: usize) -> Bytes {
    let mut filler = Vec::with_capacity(bytes + 8);
    while filler.len() < bytes {
        *seed = mix(*seed);
        filler.extend_from_slice(&seed.to_le_bytes());
    }
    filler.truncate(bytes);
    Bytes::from(filler)
}
