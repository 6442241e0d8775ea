//! Fair shares of bytes: deficit round robin.
//!
//! Peers with waiting data stand in a queue. The first is given a quantum in addition to its remainder, sends, and goes
//! to the end of the queue when the next piece does not fit any more; the excess of a piece is taken from its next
//! quantum. So peers get equal shares of bytes, whatever the sizes of their pieces, at a constant cost per turn.

use std::collections::VecDeque;

/// A peer's quantum, if that is more than a unit: several datagrams share the cost of a turn.
const QUANTUM_BYTES: u64 = 16 << 10;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Fair {
    unit: u64,
    quantum: u64,
    /// Peers with waiting data, or that had some when they came to the end of the queue.
    queue: VecDeque<usize>,
    is_queued: Vec<bool>,
    /// Bytes that each peer may send before it goes to the end of the queue; below zero if it exceeded them.
    left: Vec<i64>,
}

impl Fair {
    /// Starts without waiting peers. `unit`: the largest piece in bytes.
    #[must_use]
    pub fn new(peers: usize, unit: u64) -> Self {
        Self {
            unit,
            quantum: unit.max(QUANTUM_BYTES),
            queue: VecDeque::with_capacity(peers),
            is_queued: vec![false; peers],
            left: vec![0; peers],
        }
    }

    /// Something waits for `peer`.
    pub fn join(&mut self, peer: usize) {
        if !std::mem::replace(&mut self.is_queued[peer], true) {
            self.left[peer] = self.left[peer].min(0);
            self.queue.push_back(peer);
        }
    }

    /// Returns the peer that is served now, and the rest of its share in bytes. `waiting` returns the waiting bytes of
    /// a peer that can be served, and 0 for others.
    pub fn choose(&mut self, waiting: impl Fn(usize) -> u64) -> Option<(usize, u64)> {
        while let Some(&peer) = self.queue.front() {
            let waits = waiting(peer);
            if waits == 0 {
                self.queue.pop_front();
                self.is_queued[peer] = false;
                continue;
            }
            let needed = waits.min(self.unit);
            match u64::try_from(self.left[peer]) {
                Ok(left) if left >= needed => return Some((peer, left)),
                _ => {
                    self.left[peer] = self.left[peer].saturating_add_unsigned(self.quantum);
                    self.queue.rotate_left(1);
                }
            }
        }
        None
    }

    /// Takes note that `bytes` went to `peer`.
    pub fn spent(&mut self, peer: usize, bytes: u64) {
        self.left[peer] = self.left[peer].saturating_sub_unsigned(bytes);
    }
}
