//! The port: what every transport offers and promises.

use crate::LinkStats;
use bytes::Bytes;
use sheaf_wire::{ByteCount, Nanos, NodeId, RunNumber, SessionId, Timestamp};
use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;

/// A message as a transport carries it.
///
/// A transport may leave out empty payload pieces and may merge neighbouring pieces, but never splits one: what was
/// one piece at the sender can be taken as one piece at the receiver (see [`sheaf_wire::message::PayloadSource`]).
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
    pub fn payload_bytes(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }

    /// The bytes of head and payload together: what limits speak of.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.payload_bytes()
    }
}

/// One node's place in a network.
///
/// # What a transport promises
/// - Where it [keeps the order](Endpoint::keeps_order), frames from one node to another arrive in the order in which they
///   were sent, whole and once, until the link goes down. Then the receiver gets what arrived (a beginning of what was
///   sent, without a gap), then one [`Event::PeerDown`]; frames that were accepted and did not arrive are lost, and counted
///   where that is known. Where it does not keep the order, frames arrive whole and once, each as soon as it is there; when
///   the link goes down there may be gaps.
/// - [`Event::Received`] and [`Event::PeerDown`] of a peer come only after its [`Event::PeerUp`]. A peer that comes
///   back is announced with a new `PeerUp`.
/// - Nothing here blocks, except [`Endpoint::wait`] and [`Endpoint::close`] for as long as they are told to.
/// - Every queue is bounded, in frames and in bytes. A full queue refuses ([`SendError::Full`]) and gives the frame
///   back; [`Endpoint::wait`] ends when there is room again.
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

    /// Whether frames of one peer come in the order in which they were sent. A transport that repeats what a network lost
    /// does better without: a frame that is whole need not wait for another that is not. The protocol needs no order.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Takes `frame` for `to`. It may stay here until the next [`Endpoint::flush`].
    ///
    /// # Errors
    /// A [`SendError`], which gives the frame back.
    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError>;

    /// Pushes accepted frames toward the network, many at a time. To be called once in every duty cycle, also when
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

    /// Takes note of how the event manager wants the traffic of all senders shaped from now on: whether the barrel shifter
    /// turns, and from when its slots are counted on this node's clock. For endpoints that cut frames and pace what they
    /// send; others have no use for it, and their users shape whole frames.
    fn shape(&mut self, _now: Timestamp, _turning: bool, _epoch: Timestamp) {}

    /// Returns the counts since the endpoint was made.
    fn stats(&self) -> LinkStats;

    /// Ends all links in good order: what [`Endpoint::send`] accepted is delivered, then peers see
    /// [`DownReason::Closed`]. Takes at most about `linger`; what could not be delivered by then is lost and counted.
    /// Afterwards [`Endpoint::send`] refuses everything, and [`Endpoint::poll`] still hands out what had arrived.
    fn close(&mut self, linger: Nanos);
}

/// Event at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame arrived.
    Received {
        /// From whom.
        from: NodeId,
        /// The frame.
        frame: Frame,
    },
    /// A link is up: frames can be sent and will come.
    PeerUp {
        /// The node at its other end.
        peer: NodeId,
    },
    /// A link went down. What had been accepted for it and is not delivered is lost.
    PeerDown {
        /// The node at its other end.
        peer: NodeId,
        /// Why.
        reason: DownReason,
    },
    /// A link was refused before it came up, by this side or by the other; a mistake in somebody's configuration, or a
    /// stranger. For the log: the transport goes on as if it had not happened, and tries again where it is the one
    /// that calls.
    Refused {
        /// The node, where it is known.
        peer: Option<NodeId>,
        /// Why.
        reason: Refusal,
    },
}

/// Why a link went down.
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

/// Why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Whoever it is does not speak Sheaf's framing.
    #[error("peer does not speak this transport's framing (wrong magic)")]
    WrongMagic,
    /// Another version of the framing.
    #[error(
        "peer speaks version {0} of the framing; run the same release, with one number of rails, on all nodes"
    )]
    WrongVersion(u16),
    /// A node of another run.
    #[error("peer is of run {0}")]
    WrongRun(RunNumber),
    /// A node that the configuration does not name as a peer, or another than the one that was called.
    #[error("node code {0:#010x} is not a peer that is expected here; check the configuration's addresses")]
    UnknownNode(u32),
    /// An earlier life of a node of which a later one is known.
    #[error("session {0} of the peer is older than the one last seen")]
    StaleSession(SessionId),
    /// A session that lies further ahead than clocks of two hosts differ: once accepted, it would shut out the node itself.
    #[error(
        "session {0} of the peer lies more than a day ahead of this host's clock; a session is the time at which a node \
         started, in nanoseconds since 1970: set the clocks of both hosts"
    )]
    FutureSession(SessionId),
    /// The node has a link that is alive.
    #[error(
        "the node has a live link already, and keeps it; if the node was started twice, end one of the two, else the link \
         is replaced as soon as it is proven dead"
    )]
    InUse,
    /// The peer calls this node although this node is configured to call the peer.
    #[error("both nodes are configured to initiate the connection; exactly one must be")]
    BothInitiate,
    /// A field of the greeting has a value without meaning.
    #[error("peer's greeting is malformed")]
    Malformed,
    /// The peer's links have another number of connections.
    #[error("peer has links of another number of rails; all nodes need the same `transport.rails`")]
    WrongRails,
    /// There are as many guests as may be.
    #[error("the maximum number of guests has been reached")]
    NoRoom,
    /// One of the two has the key of the run, and the other has none.
    #[error(
        "one of the two nodes has the key of the run and the other has none; give both the same `transport.key_file` (a processor: \
         `--key`)"
    )]
    KeyOnOneSide,
    /// The peer did not prove that it has the key of the run.
    #[error(
        "peer has another key than this node, or is a stranger; give all nodes copies of one file as `transport.key_file`"
    )]
    WrongKey,
    /// The peer sends through another provider of libfabric.
    #[error("peer uses another provider of libfabric; all nodes need the same `transport.provider`")]
    WrongProvider,
    /// The peer's datagrams have another size.
    #[error("peer uses datagrams of another size; all nodes need the same `transport.mtu_bytes`")]
    WrongDatagramBytes,
    /// Small datagrams reach the peer, those of full size do not.
    #[error(
        "datagrams of {bytes} bytes do not reach the peer by rail {rail}, smaller ones do; raise the MTU of every interface and \
         switch on the way, or lower `transport.mtu_bytes`"
    )]
    NarrowPath {
        /// The rail.
        rail: usize,
        /// The size.
        bytes: usize,
    },
    /// The connection could not be made secure.
    #[error("{0}")]
    Tls(TlsProblem),
    /// No greeting came in time.
    #[error("no greeting arrived in time")]
    NoGreeting,
    /// The peer refused this node and gave a reason that this release does not know.
    #[error("peer refused the connection with the unknown code {0}")]
    Other(u16),
}

/// Why a connection could not be made secure. "This node" is the one that says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The peer's certificate is not of an authority that this node trusts.
    #[error(
        "peer's certificate was signed by none of the authorities in `transport.tls.authority`; give all nodes \
         certificates of one authority"
    )]
    UnknownAuthority,
    /// The peer's certificate is not valid any more.
    #[error("peer's certificate has expired; issue a new one, or set this host's clock")]
    Expired,
    /// The peer's certificate is not valid yet.
    #[error("peer's certificate is not valid yet; set the clocks of both hosts")]
    NotValidYet,
    /// The peer's certificate is for other hosts than the one that was called.
    #[error(
        "peer's certificate is not for the host in its address; name that host, or its IP address, among the \
         certificate's subject alternative names"
    )]
    WrongName,
    /// The certificate is of another node than the one that its holder says it is.
    #[error(
        "the caller's certificate is not of the node that it says it is; name the node, or the host in its address, among the \
         certificate's subject alternative names (of a processor that joins: one of `filter.guest_names`)"
    )]
    WrongNode,
    /// The peer has none.
    #[error("peer presented no certificate; set `transport.tls` on all nodes")]
    NoCertificate,
    /// There is something else about the peer's certificate.
    #[error("peer's certificate cannot be used; issue one with `openssl` as docs/howto/tls.md shows")]
    BadCertificate,
    /// The peer does not speak TLS.
    #[error("peer does not speak TLS and this node does; set `transport.tls` on all nodes or on none")]
    PeerHasNone,
    /// The peer speaks TLS and this node does not.
    #[error("peer speaks TLS and this node does not; set `transport.tls` on all nodes or on none")]
    OnlyPeerHas,
    /// The peer does not trust the authority of this node's certificate.
    #[error(
        "peer does not know the authority of this node's certificate; give all nodes certificates of one authority"
    )]
    UnknownThere,
    /// To the peer, this node's certificate has expired.
    #[error("this node's certificate has expired, says the peer; issue a new one, or set the peer's clock")]
    ExpiredThere,
    /// The peer refuses this node for another reason.
    #[error("peer refused this node's certificate or the connection; its own log says why")]
    RefusedThere,
    /// Anything else.
    #[error("TLS handshake failed; run the same release on all nodes")]
    Failed,
}

/// Why a frame was not taken; every variant gives it back.
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
