//! The port: the interface of every transport, and its guarantees.

use crate::{LinkStats, Refusal};
use bytes::Bytes;
use sheaf_wire::{ByteCount, Nanos, NodeId, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;

/// A message as a transport carries it.
///
/// A transport may leave out empty payload pieces and may merge neighbouring pieces, but never splits one: one piece at
/// the sender can be taken as one piece at the receiver (see [`sheaf_wire::message::PayloadSource`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Encoded head of the message.
    pub head: Bytes,
    /// Payload of the message, in pieces that are sent without copies.
    pub payload: VecDeque<Bytes>,
}

impl Frame {
    /// A frame of a head and the pieces of a payload.
    pub fn new(head: Bytes, payload: impl IntoIterator<Item = Bytes>) -> Self {
        Self { head, payload: payload.into_iter().collect() }
    }

    /// The bytes of the payload.
    #[must_use]
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }

    /// Returns the number of bytes of head and payload together, to which limits apply.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.payload_bytes()
    }
}

/// One node's place in a network.
///
/// # Guarantees of a transport
/// - If it [keeps the order](Endpoint::keeps_order), frames from one node to another arrive in the order in which they
///   were sent, whole and once, until the link goes down. Then the receiver gets the frames that arrived (the first
///   ones sent, without a gap), then one [`Event::PeerDown`]; frames that were accepted and did not arrive are lost,
///   and counted if that is known. If it does not keep the order, frames arrive whole and once, each as soon as it is
///   complete; when the link goes down there may be gaps.
/// - [`Event::Received`] and [`Event::PeerDown`] of a peer come only after its [`Event::PeerUp`]. A peer that
///   reconnects is announced with a new `PeerUp`.
/// - No method blocks, except [`Endpoint::wait`] and [`Endpoint::close`], up to their time limits.
/// - Every queue is bounded, in frames and in bytes. A full queue refuses ([`SendError::Full`]) and returns the frame;
///   [`Endpoint::wait`] ends when there is room again.
/// - Dropping an endpoint is the death of its node: the others see [`DownReason::Lost`].
///
/// # The duty cycle
/// One thread drives an endpoint:
/// ```
/// # use sheaf_transport::{Endpoint, Event, Frame};
/// # use sheaf_wire::Nanos;
/// fn cycle(endpoint: &mut impl Endpoint, mut handle: impl FnMut(Event) -> Vec<(sheaf_wire::NodeId, Frame)>) {
///     let mut idle = true;
///     while let Some(event) = endpoint.poll() {
///         idle = false;
///         for (to, frame) in handle(event) {
///             endpoint.send(to, frame).expect("a real node keeps what is refused");
///         }
///     }
///     endpoint.flush();
///     if idle {
///         endpoint.wait(Nanos::from_millis(10)); // after spinning a little
///     }
/// }
/// ```
pub trait Endpoint: Send {
    /// The node that this endpoint belongs to.
    fn node(&self) -> NodeId;

    /// Returns whether frames of one peer arrive in the order in which they were sent. A transport that retransmits is
    /// faster without order: a complete frame need not wait for an incomplete one. The protocol needs no order.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Takes `frame` for `to`. It may stay here until the next [`Endpoint::flush`].
    ///
    /// # Errors
    /// A [`SendError`], which returns the frame.
    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError>;

    /// Pushes accepted frames toward the network, many at a time. To be called once in every duty cycle, even if
    /// nothing was sent: a network that could not take everything the last time is served here.
    fn flush(&mut self);

    /// The next thing that happened, or `None` at the end of a round over all peers. Every peer gets one bounded
    /// turn in a round, so that none keeps the others waiting and a driver that drains until `None` comes back to its
    /// other work; if a round leaves something behind, the next [`Endpoint::wait`] returns at once.
    fn poll(&mut self) -> Option<Event>;

    /// Flushes, then sleeps until there may be something to [`poll`](Endpoint::poll), there is room in a queue that
    /// had refused, the waker was rung (since the last wait), or `timeout` has passed. May return early for no reason.
    fn wait(&mut self, timeout: Nanos);

    /// A handle with which another thread ends a wait, the present one or the next. Ringing it while the endpoint's
    /// thread is busy costs no system call.
    fn waker(&self) -> Waker;

    /// Sets the time slots in which this node sends from now on, for endpoints that cut frames and pace their
    /// datagrams; others ignore it.
    fn set_time_slots(&mut self, _now: Timestamp, _slots: TimeSlots) {}

    /// Returns the counts since the endpoint was made.
    fn stats(&self) -> LinkStats;

    /// Ends all links in good order: frames that [`Endpoint::send`] accepted are delivered, then peers see
    /// [`DownReason::Closed`]. Takes at most about `linger`; frames not delivered by then are lost and counted.
    /// Afterwards [`Endpoint::send`] refuses everything, and [`Endpoint::poll`] still returns what had arrived.
    fn close(&mut self, linger: Nanos);
}

/// Time slots in which a node sends, a peer in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSlots {
    /// Whether they are in force; otherwise all peers are served at any time.
    pub in_force: bool,
    /// The instant from which they are counted, on this node's clock.
    pub epoch: Timestamp,
}

/// Event at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame arrived.
    Received {
        /// The sender.
        from: NodeId,
        /// The frame.
        frame: Frame,
    },
    /// A link is up: frames can be sent and will come.
    PeerUp {
        /// The node at its other end.
        peer: NodeId,
    },
    /// A link went down. Frames accepted for it and not delivered are lost.
    PeerDown {
        /// The node at its other end.
        peer: NodeId,
        /// Reason.
        reason: DownReason,
    },
    /// A link was refused before it came up, by this side or by the other, because of a wrong configuration or a
    /// foreign caller. For the log: the transport continues as before, and tries again if it is the caller.
    Refused {
        /// The node, where it is known.
        peer: Option<NodeId>,
        /// Reason.
        reason: Refusal,
    },
}

/// Reason why a link went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownReason {
    /// The other node closed it in good order: everything that it had sent was received.
    Closed,
    /// The connection broke, or the other node died.
    Lost,
    /// A newer life of the same node took the link over.
    Replaced,
    /// The other node broke the rules of the transport; the connection was cut.
    Violated,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed by the peer",
            Self::Lost => "connection lost",
            Self::Replaced => "replaced by a newer session of the peer",
            Self::Violated => "peer violated the framing",
        })
    }
}

/// Reason why a frame was not taken; every variant returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue to the peer is full: back-pressure. Send again after a [`Endpoint::wait`].
    #[error("queue to the peer is full")]
    Full(Frame),
    /// The peer is known and not connected now.
    #[error("peer is not connected")]
    NotConnected(Frame),
    /// The node is not a peer of this endpoint.
    #[error("node is not a peer of this endpoint")]
    UnknownPeer(Frame),
    /// The frame is larger than the link takes; it never will be sent.
    #[error("frame of {} bytes is larger than the link's maximum of {limit}", .frame.bytes())]
    TooLarge {
        /// The frame.
        frame: Frame,
        /// The largest frame on this link, head and payload together.
        limit: ByteCount,
    },
}

impl SendError {
    /// The frame that was not taken.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        match self {
            Self::Full(frame)
            | Self::NotConnected(frame)
            | Self::UnknownPeer(frame)
            | Self::TooLarge { frame, .. } => frame,
        }
    }
}
