//! Frames whose content identifies their link and their position in it.

use bytes::Bytes;
use sheaf_transport::Frame;
use sheaf_wire::NodeId;
use sheaf_wire::message::PayloadSource;
use sheaf_wire::mix::splitmix64;
use std::collections::BTreeSet;

/// Link and position of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePlace {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) number: u64,
}

/// Returns the frame at `place`: a head of `head_bytes` and pieces of these sizes.
pub(super) fn frame(place: FramePlace, head_bytes: usize, pieces: &[usize]) -> Frame {
    let mut seed = seed(place);
    let head = filler(&mut seed, head_bytes);
    Frame::new(head, pieces.iter().map(|bytes| filler(&mut seed, *bytes)))
}

/// Checks that `received` is the frame at `place` with these sizes, and that no piece is split.
pub(super) fn check(received: Frame, place: FramePlace, head_bytes: usize, pieces: &[usize]) {
    let expected = frame(place, head_bytes, pieces);
    assert_eq!(received.head, expected.head, "head of {place:?}");
    let mut payload = received.payload;
    assert_eq!(payload.total(), expected.payload_bytes() as u64, "payload bytes of {place:?}");
    for piece in expected.payload {
        let got = payload.take(piece.len()).expect("a piece is never split");
        assert!(got == piece, "{} bytes of the payload of {place:?} differ", piece.len());
    }
}

/// Returns whether `received` is the frame at `place` with these sizes.
fn is(received: &Frame, place: FramePlace, head_bytes: usize, pieces: &[usize]) -> bool {
    if received.head.len() != head_bytes || received.payload_bytes() != pieces.iter().sum::<usize>() {
        return false;
    }
    let expected = frame(place, head_bytes, pieces);
    let bytes = |frame: &Frame| frame.payload.iter().flatten().copied().collect::<Vec<u8>>();
    received.head == expected.head && bytes(received) == bytes(&expected)
}

/// Maximum number of frames that may overtake a frame, in a transport that does not preserve the order.
const MOST_OVERTAKEN: usize = 4096;

/// Frames of a link that have arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    from: NodeId,
    to: NodeId,
    /// All frames below this number have arrived.
    low: u64,
    /// Frames above it that have arrived, if the order is not preserved.
    beyond: BTreeSet<u64>,
    taken: u64,
}

impl Arrivals {
    /// Creates the state of a link on which nothing has arrived and whose first frame has the number `low`.
    pub(super) fn new(from: NodeId, to: NodeId, low: u64) -> Self {
        Self { from, to, low, beyond: BTreeSet::new(), taken: 0 }
    }

    /// Returns the sender of the link.
    pub(super) fn from(&self) -> NodeId {
        self.from
    }

    /// Returns the number of arrived frames.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Checks that `received` is a frame of the link that has not arrived before, and the next one if the order is preserved, and
    /// that no piece is split. `shape` returns the sizes of the frame with a given number.
    pub(super) fn take(
        &mut self,
        received: Frame,
        keeps_order: bool,
        shape: impl Fn(u64) -> (usize, Vec<usize>),
    ) {
        let place = |number| FramePlace { from: self.from, to: self.to, number };
        let is_it = |number: &u64| {
            let (head, pieces) = shape(*number);
            is(&received, place(*number), head, &pieces)
        };
        let missing = (self.low..).filter(|number| !self.beyond.contains(number)).take(MOST_OVERTAKEN);
        let found = if keeps_order { Some(self.low) } else { missing.into_iter().find(is_it) };
        let Some(number) = found else {
            panic!("{} received a frame twice, or one that {} did not send: {received:?}", self.to, self.from)
        };
        let (head, pieces) = shape(number);
        check(received, place(number), head, &pieces);
        self.beyond.insert(number);
        while self.beyond.remove(&self.low) {
            self.low += 1;
        }
        self.taken += 1;
    }
}

/// Returns the sizes of the frame with this number: small ones, empty ones, and sometimes a large one.
pub(super) fn sizes(number: u64) -> (usize, Vec<usize>) {
    let random = splitmix64(number);
    let head_bytes = (random % 600) as usize;
    let pieces = (0..random >> 10 & 7).map(|piece| {
        let random = splitmix64(random ^ piece);
        let most = if random >> 20 & 63 == 0 { 100_000 } else { 3_000 };
        (random % most) as usize
    });
    (head_bytes, pieces.collect())
}

fn seed(place: FramePlace) -> u64 {
    splitmix64(splitmix64(u64::from(place.from.to_code())) ^ u64::from(place.to.to_code()))
        ^ splitmix64(place.number)
}

fn filler(seed: &mut u64, bytes: usize) -> Bytes {
    let mut filler = Vec::with_capacity(bytes + 8);
    while filler.len() < bytes {
        *seed = splitmix64(*seed);
        filler.extend_from_slice(&seed.to_le_bytes());
    }
    filler.truncate(bytes);
    Bytes::from(filler)
}
