//! Whole pieces that wait for their turn: a queue for each peer, and a [`Shaper`] that says which of them is next.
//!
//! For senders that do not cut what they send: messages over a transport that takes them whole. A sender that cuts asks the
//! shaper itself.

use super::{Shaper, ShaperConfig};
use sheaf_wire::{ByteCount, Timestamp};
use std::collections::VecDeque;

/// See the [module](self). Bounds are the user's: it knows how much it has to say.
#[derive(Clone, Debug)]
pub struct Lanes<T> {
    shaper: Shaper,
    lanes: Vec<Lane<T>>,
    waiting: usize,
}

#[derive(Clone, Debug)]
struct Lane<T> {
    pieces: VecDeque<(T, u64)>,
    bytes: u64,
}

impl<T> Lanes<T> {
    /// Nothing waits. See [`Shaper::new`].
    #[must_use]
    pub fn new(config: ShaperConfig, peers: usize, me: usize) -> Self {
        let lane = |_| Lane { pieces: VecDeque::new(), bytes: 0 };
        Self { shaper: Shaper::new(config, peers, me), lanes: (0..peers).map(lane).collect(), waiting: 0 }
    }

    /// How many pieces wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many pieces wait for a peer.
    #[must_use]
    pub fn len_of(&self, peer: usize) -> usize {
        self.lanes[peer].pieces.len()
    }

    /// Takes a piece that occupies `wire` bytes.
    pub fn push(&mut self, now: Timestamp, peer: usize, piece: T, wire: ByteCount) {
        self.lanes[peer].pieces.push_back((piece, wire.0));
        self.changed(now, peer, wire.0, true);
    }

    /// The next piece that may go, with its bytes. The user says what became of it: [`Self::sent`] or [`Self::put_back`].
    pub fn pop(&mut self, now: Timestamp) -> Option<(usize, T, ByteCount)> {
        let peer = self.shaper.turn(now)?.peer;
        let (piece, wire) = self.lanes[peer].pieces.pop_front()?;
        self.changed(now, peer, wire, false);
        Some((peer, piece, ByteCount(wire)))
    }

    /// A piece that was popped has gone.
    pub fn sent(&mut self, now: Timestamp, peer: usize, wire: ByteCount) {
        self.shaper.spent(now, peer, wire);
    }

    /// A piece that was popped could not go: it is the first again, and the peer's lane is closed until
    /// [`Self::open_all`].
    pub fn put_back(&mut self, now: Timestamp, peer: usize, piece: T, wire: ByteCount) {
        self.lanes[peer].pieces.push_front((piece, wire.0));
        self.shaper.back_pressure(now, peer, true);
        self.changed(now, peer, wire.0, true);
    }

    /// Lanes that were closed may be tried again.
    pub fn open_all(&mut self, now: Timestamp) {
        (0..self.lanes.len()).for_each(|peer| self.shaper.back_pressure(now, peer, false));
    }

    /// Gives up what waits for a peer; says how many pieces that were.
    pub fn clear(&mut self, peer: usize) -> usize {
        let lane = &mut self.lanes[peer];
        let pieces = std::mem::take(&mut lane.pieces).len();
        lane.bytes = 0;
        self.waiting -= pieces;
        // That nothing waits any more has no time: only what begins to wait has.
        self.shaper.offer(Timestamp::ZERO, peer, ByteCount::ZERO);
        pieces
    }

    /// The shaper, to be told how traffic is to be shaped.
    pub fn shaper(&mut self) -> &mut Shaper {
        &mut self.shaper
    }

    /// See [`Shaper::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.shaper.poll_timeout()
    }

    fn changed(&mut self, now: Timestamp, peer: usize, wire: u64, more: bool) {
        let lane = &mut self.lanes[peer];
        if more {
            lane.bytes += wire;
            self.waiting += 1;
        } else {
            lane.bytes -= wire;
            self.waiting -= 1;
        }
        // Something waits as long as there is a piece, even one without bytes.
        let bytes = if lane.pieces.is_empty() { 0 } else { lane.bytes.max(1) };
        self.shaper.offer(now, peer, ByteCount(bytes));
    }
}
