//! The port for lossy networks: the common interface of raw Ethernet and UDP, and the basis of recovery from loss.
//!
//! A [`DatagramPort`] guarantees little: a datagram arrives whole or not at all, perhaps late, twice, or after one that
//! was sent later. Everything else that frames need (sequence numbers, retransmission, a window, fragmentation and
//! reassembly) is written once, in `sheaf_recovery`, and combined with a port in [`lossy`](crate::lossy), where the two
//! become an [`Endpoint`](sheaf_transport::Endpoint).

use sheaf_transport::LinkStats;
use sheaf_wire::mix::{GOLDEN_GAMMA, splitmix64};
use sheaf_wire::{Nanos, NodeId};
use std::task::Waker;

/// One node's place on a network that may lose, repeat and reorder.
///
/// Every peer can be reached by each of the port's rails: interfaces, or addresses. A rail that is dead loses
/// everything; to find that out is the sender's part.
pub trait DatagramPort: Send {
    /// The node that this port belongs to.
    fn node(&self) -> NodeId;

    /// Returns the number of rails, at least one. Both ends of a link have as many.
    fn rails(&self) -> usize;

    /// The largest datagram in bytes, head and payload together.
    fn max_datagram_bytes(&self) -> usize;

    /// Returns the overhead of a datagram on the wire, in bytes: headers, preamble and gap. Used for pacing.
    fn wire_overhead_bytes(&self) -> usize;

    /// Returns the number of bytes of datagrams, each with its cost in memory, that may wait here for the next
    /// [`poll`](Self::poll), all peers together. Further datagrams are lost. Used for the flow control of the peers.
    fn receive_room_bytes(&self) -> usize;

    /// Takes a datagram for `to`: `head`, followed by the pieces of `payload`, which are copied (to a frame slot, or by
    /// the kernel). It may stay here until the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Why it was not taken. A datagram that is taken may be lost nevertheless.
    /// Why it was not taken. A datagram that is taken may still be lost.
    fn send(
        &mut self,
        to: NodeId,
        rail: usize,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused>;

    /// As [`send`](Self::send), to the address of a datagram of `to` that was [noted](Self::note_aside): an answer to a
    /// node that may be the peer, or a stranger. Lost if no address was noted.
    ///
    /// # Errors
    /// Why it was not taken.
    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused>;

    /// Remembers where the datagram came from that was polled last, for [`send_aside`](Self::send_aside).
    fn note_aside(&mut self);

    /// The datagram that was polled last is the peer's, surely: from now on datagrams to the peer go where it came from. A port
    /// on which that is configured does nothing.
    fn take_home(&mut self);

    /// Forgets that a peer is surely where it was: the link to it is down.
    fn leave_home(&mut self, peer: NodeId);

    /// Returns whether only one process can send from an address: a socket's, and not an interface's.
    fn has_own_addresses(&self) -> bool;

    /// Pushes what was taken toward the network, many datagrams with one system call.
    fn flush(&mut self);

    /// Returns the next datagram from a peer, valid until the next call. Datagrams of strangers, damaged ones and those
    /// of other runs are dropped and counted here. `None` at the end of a bounded turn.
    fn poll(&mut self) -> Option<Datagram<'_>>;

    /// Flushes, then sleeps until there may be something to [`poll`](Self::poll), there is room again after
    /// [`DatagramRefused::Full`], the waker was rung, or `timeout` has passed. May return early for no reason.
    fn wait(&mut self, timeout: Nanos);

    /// A handle with which another thread ends a wait, the present one or the next.
    fn waker(&self) -> Waker;

    /// Returns the counts since the port was made. Only the counters of system calls, sleeps and datagrams are used.
    fn stats(&self) -> LinkStats;
}

/// A datagram as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender, according to both its head and its address.
    pub from: NodeId,
    /// The rail that it came by.
    pub rail: usize,
    /// Whether it came from the address to which datagrams for the peer are sent.
    pub is_home: bool,
    /// Its bytes: head and payload as they were given to [`DatagramPort::send`].
    pub bytes: &'a [u8],
}

/// Returns the size of a datagram in bytes, head and payload together.
pub(crate) fn datagram_bytes(head: &[u8], payload: &[&[u8]]) -> usize {
    head.len() + payload.iter().map(|piece| piece.len()).sum::<usize>()
}

/// Reason why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramRefused {
    /// The way out is full: try again after a flush or a wait.
    #[error("the queue of datagrams is full")]
    Full,
    /// The node is not a peer of this port.
    #[error("node is not a peer of this port")]
    UnknownPeer,
    /// It is larger than [`DatagramPort::max_datagram_bytes`].
    #[error("a datagram of {bytes} bytes is larger than the port's maximum of {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The largest datagram.
        limit: usize,
    },
    /// The rail does not work now: its interface is down or was removed.
    #[error("rail {0} is down")]
    RailDown(usize),
}

/// Methods of a port that another one answers: `self` with the first path where it is read, with the second where it is changed.
macro_rules! forwarded {
    ([$($read:tt)*], [$($change:tt)*]) => {
        fn node(&self) -> NodeId {
            self $($read)*.node()
        }

        fn rails(&self) -> usize {
            self $($read)*.rails()
        }

        fn max_datagram_bytes(&self) -> usize {
            self $($read)*.max_datagram_bytes()
        }

        fn wire_overhead_bytes(&self) -> usize {
            self $($read)*.wire_overhead_bytes()
        }

        fn receive_room_bytes(&self) -> usize {
            self $($read)*.receive_room_bytes()
        }

        fn note_aside(&mut self) {
            self $($change)*.note_aside();
        }

        fn take_home(&mut self) {
            self $($change)*.take_home();
        }

        fn leave_home(&mut self, peer: NodeId) {
            self $($change)*.leave_home(peer);
        }

        fn has_own_addresses(&self) -> bool {
            self $($read)*.has_own_addresses()
        }

        fn flush(&mut self) {
            self $($change)*.flush();
        }

        fn poll(&mut self) -> Option<Datagram<'_>> {
            self $($change)*.poll()
        }

        fn wait(&mut self, timeout: Nanos) {
            self $($change)*.wait(timeout);
        }

        fn waker(&self) -> Waker {
            self $($read)*.waker()
        }
    };
}

/// A port of any kind: code that uses ports of several kinds is compiled once.
impl DatagramPort for Box<dyn DatagramPort> {
    forwarded! { [.as_ref()], [.as_mut()] }

    fn send(
        &mut self,
        to: NodeId,
        rail: usize,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        self.as_mut().send(to, rail, head, payload)
    }

    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused> {
        self.as_mut().send_aside(to, rail, head)
    }

    fn stats(&self) -> LinkStats {
        self.as_ref().stats()
    }
}

/// A port that loses some of the datagrams that it sends: for tests, and to study the effects of a lossy network.
///
/// The seed and the number of the datagram alone decide which are lost.
#[derive(Debug)]
pub struct Dropping<D> {
    port: D,
    /// A datagram is lost where 64 random bits are less.
    threshold: u64,
    state: u64,
    dropped: u64,
}

impl<D> Dropping<D> {
    /// A port that loses each datagram with this probability, from 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "saturates"
    )]
    pub fn new(port: D, probability: f64, seed: u64) -> Self {
        let threshold = (probability.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        Self { port, threshold, state: seed, dropped: 0 }
    }

    /// Returns whether the next datagram is lost; counts it.
    fn loses_next(&mut self) -> bool {
        let is_lost = self.threshold > 0 && self.roll() < self.threshold;
        self.dropped += u64::from(is_lost);
        is_lost
    }

    /// Returns the next number of SplitMix64.
    fn roll(&mut self) -> u64 {
        let value = splitmix64(self.state);
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        value
    }
}

impl<D: DatagramPort> DatagramPort for Dropping<D> {
    forwarded! { [.port], [.port] }

    fn send(
        &mut self,
        to: NodeId,
        rail: usize,
        head: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), DatagramRefused> {
        if self.loses_next() { Ok(()) } else { self.port.send(to, rail, head, payload) }
    }

    fn send_aside(&mut self, to: NodeId, rail: usize, head: &[u8]) -> Result<(), DatagramRefused> {
        if self.loses_next() { Ok(()) } else { self.port.send_aside(to, rail, head) }
    }

    fn stats(&self) -> LinkStats {
        let mut stats = self.port.stats();
        stats.datagrams_dropped += self.dropped;
        stats
    }
}
