//! Frames whose content tells where they come from and where they go.

use bytes::Bytes;
use sheaf_transport::Frame;
use sheaf_wire::NodeId;
use sheaf_wire::message::PayloadSource;
use sheaf_wire::mix::splitmix64;
use std::collections::BTreeSet;

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

/// Whether `received` is the frame at `place`, made of these sizes.
fn is(received: &Frame, place: Place, head_bytes: usize, pieces: &[usize]) -> bool {
    if received.head.len() != head_bytes || received.payload_bytes() != pieces.iter().sum::<usize>() {
        return false;
    }
    let expected = frame(place, head_bytes, pieces);
    let bytes = |frame: &Frame| frame.payload.iter().flatten().copied().collect::<Vec<u8>>();
    received.head == expected.head && bytes(received) == bytes(&expected)
}

/// A transport that does not keep the order lets no frame be overtaken by more than this.
const MOST_OVERTAKEN: usize = 4096;

/// Which frames of a link have arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    from: NodeId,
    to: NodeId,
    /// All below have.
    low: u64,
    /// Some above, where the order is not kept.
    beyond: BTreeSet<u64>,
    taken: u64,
}

impl Arrivals {
    /// Of a link on which nothing has arrived; its first frame has the number `low`.
    pub(super) fn new(from: NodeId, to: NodeId, low: u64) -> Self {
        Self { from, to, low, beyond: BTreeSet::new(), taken: 0 }
    }

    /// Who sends on the link.
    pub(super) fn from(&self) -> NodeId {
        self.from
    }

    /// Returns the number of arrived frames.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Checks that `received` is a frame of the link that has not arrived before, with every piece to be had in one: the next
    /// one, where the order is kept. `shape` gives the sizes of the frame with a number.
    pub(super) fn take(
        &mut self,
        received: Frame,
        keeps_order: bool,
        shape: impl Fn(u64) -> (usize, Vec<usize>),
    ) {
        let place = |number| Place { from: self.from, to: self.to, number };
        let is_it = |number: &u64| {
            let (head, pieces) = shape(*number);
            is(&received, place(*number), head, &pieces)
        };
        let missing = (self.low..).filter(|number| !self.beyond.contains(number)).take(MOST_OVERTAKEN);
        let found = if keeps_order { Some(self.low) } else { missing.into_iter().find(is_it) };
        let Some(number) = found else {
            panic!("{} got a frame that {} did not send, or twice: {received:?}", self.to, self.from)
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

/// Sizes for the frame with this number: small ones, empty ones, and a large one at times.
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

fn seed(place: Place) -> u64 {
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
