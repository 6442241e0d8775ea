//! Whole pieces that wait for their turn: a queue for each peer, and a [`Shaper`] that selects the next.
//!
//! For senders that do not cut: messages over a transport that takes them whole. A sender that cuts uses the shaper
//! itself.

use super::{Shaper, ShaperConfig};
use sheaf_wire::{ByteCount, Timestamp};
use std::collections::VecDeque;

/// See the [module](self). The user must bound the queues: it knows its data.
#[derive(Clone, Debug)]
pub struct Lanes<T> {
    shaper: Shaper,
    lanes: Vec<VecDeque<(T, u64)>>,
    waiting: usize,
}

impl<T> Lanes<T> {
    /// Nothing waits. See [`Shaper::new`].
    #[must_use]
    pub fn new(config: ShaperConfig, peers: usize, me: usize) -> Self {
        let lanes = (0..peers).map(|_| VecDeque::new()).collect();
        Self { shaper: Shaper::new(config, peers, me), lanes, waiting: 0 }
    }

    /// Returns the number of waiting pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the number of pieces that wait for a peer.
    #[must_use]
    pub fn len_of(&self, peer: usize) -> usize {
        self.lanes[peer].len()
    }

    /// Takes a piece that occupies `wire` bytes.
    pub fn push(&mut self, now: Timestamp, peer: usize, piece: T, wire: ByteCount) {
        self.lanes[peer].push_back((piece, wire.0));
        self.waiting += 1;
        self.offer(now, peer);
    }

    /// Returns the next piece that may be sent, with its bytes. The user reports the outcome: [`Self::sent`] or
    /// [`Self::put_back`].
    pub fn pop(&mut self, now: Timestamp) -> Option<(usize, T, ByteCount)> {
        let peer = self.shaper.turn(now)?.peer;
        let (piece, wire) = self.lanes[peer].pop_front()?;
        self.waiting -= 1;
        self.offer(now, peer);
        Some((peer, piece, ByteCount(wire)))
    }

    /// Records that a popped piece was sent.
    pub fn sent(&mut self, now: Timestamp, peer: usize, wire: ByteCount) {
        self.shaper.spent(now, peer, wire);
    }

    /// A piece that was popped could not go: it is the first again, and the peer's lane is closed until
    /// [`Self::open_all`].
    pub fn put_back(&mut self, now: Timestamp, peer: usize, piece: T, wire: ByteCount) {
        self.lanes[peer].push_front((piece, wire.0));
        self.waiting += 1;
        self.shaper.back_pressure(now, peer, true);
        self.offer(now, peer);
    }

    /// Lanes that were closed may be tried again.
    pub fn open_all(&mut self, now: Timestamp) {
        (0..self.lanes.len()).for_each(|peer| self.shaper.back_pressure(now, peer, false));
    }

    /// Returns the number of peers.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.lanes.len()
    }

    /// Takes out all that waits for a peer.
    pub fn take(&mut self, peer: usize) -> impl ExactSizeIterator<Item = T> + use<T> {
        let pieces = std::mem::take(&mut self.lanes[peer]);
        self.waiting -= pieces.len();
        // The end of waiting needs no time; only its beginning does.
        self.shaper.offer(Timestamp::ZERO, peer, ByteCount::ZERO);
        pieces.into_iter().map(|(piece, _)| piece)
    }

    /// Returns the shaper, to change its settings.
    pub fn shaper(&mut self) -> &mut Shaper {
        &mut self.shaper
    }

    /// See [`Shaper::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.shaper.poll_timeout()
    }

    /// Offers a peer to the shaper by its next piece, which is sent as a whole.
    fn offer(&mut self, now: Timestamp, peer: usize) {
        let next = self.lanes[peer].front().map_or(0, |(_, wire)| (*wire).max(1));
        self.shaper.offer(now, peer, ByteCount(next));
    }
}
