//! A peer, and the link to it.

use super::incoming::Incoming;
use super::memory::Buffer;
use super::outgoing::Outgoing;
use super::port::Address;
use super::wire::Kind;
use bytes::Bytes;
use sheaf_transport::{DownReason, Event, Frame};
use sheaf_wire::NodeId;
use std::collections::VecDeque;
use std::time::Instant;

/// A node to talk to.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// Whether the TCP connection is up.
    pub(super) is_met: bool,
    pub(super) link: Option<Link>,
    /// When to begin another link over a connection that outlived one.
    pub(super) again_at: Option<Instant>,
    /// Arrived messages that were not handed out yet.
    pub(super) ready: VecDeque<Ready>,
    /// Bytes of the frames there.
    pub(super) ready_bytes: usize,
    /// Buffers of this peer's window that hold messages which were not handed out.
    pub(super) held: usize,
    /// Buffers of this peer's window that are to be posted.
    pub(super) unposted: usize,
    /// Whether a frame was refused since there last was room.
    pub(super) refused: bool,
}

/// Something to hand out.
#[derive(Debug)]
pub(super) enum Ready {
    /// A frame, and how many messages of credit go back with it.
    Frame(Frame, usize),
    Up,
    Down(DownReason),
}

impl Peer {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            is_met: false,
            link: None,
            again_at: None,
            ready: VecDeque::new(),
            ready_bytes: 0,
            held: 0,
            unposted: 0,
            refused: false,
        }
    }

    /// The next thing to hand out.
    pub(super) fn hand_out(&mut self) -> Option<Event> {
        let (peer, from) = (self.node, self.node);
        Some(match self.ready.pop_front()? {
            Ready::Up => Event::PeerUp { peer },
            Ready::Down(reason) => Event::PeerDown { peer, reason },
            Ready::Frame(frame, messages) => {
                self.ready_bytes -= frame.bytes();
                self.give_back(messages);
                Event::Received { from, frame }
            }
        })
    }

    /// Records that a number of held messages were released.
    pub(super) fn give_back(&mut self, messages: usize) {
        self.held -= messages;
        self.unposted += messages;
    }
}

/// A link, from the first hello on.
#[derive(Debug)]
pub(super) struct Link {
    /// Token that the peer's messages begin with.
    pub(super) token: u64,
    /// Address to which messages are sent; known from the peer's hello on.
    pub(super) remote: Option<Remote>,
    /// Whether a message was sent there: some providers connect with the first one, and need both sides for that.
    pub(super) is_up: bool,
    /// Whether the first message is in flight.
    pub(super) probing: bool,
    pub(super) outgoing: Outgoing,
    /// A message that the provider had no room for.
    pub(super) stuck: Option<Stuck>,
    /// Messages under way.
    pub(super) in_flight: usize,
    pub(super) incoming: Incoming,
    /// Total number of messages that the peer may send, and the number last announced to it.
    pub(super) granted: u64,
    pub(super) announced: u64,
    /// Parts of the frame that is being put together whose credit goes back with the frame.
    pub(super) parts_held: usize,
    pub(super) farewell: Farewell,
}

/// The other end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) address: Address,
    pub(super) token: u64,
    pub(super) message_bytes: usize,
    pub(super) max_frame_bytes: usize,
}

/// A message that is ready to be sent.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) buffer: Buffer,
    pub(super) kind: Kind,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) pieces: VecDeque<Bytes>,
}

/// Progress of a link's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Farewell {
    /// Whether we have announced that no more follow.
    pub(super) said: bool,
    /// The peer has all that we sent.
    pub(super) thanked: bool,
    /// The peer closes too.
    pub(super) peer_closes: bool,
    /// Number of messages that the peer has sent in all.
    pub(super) messages: Option<u64>,
    /// Whether we have received everything from the peer, and have reported it.
    pub(super) answered: bool,
}

impl Link {
    /// Returns whether both sides have everything.
    pub(super) fn is_done(&self) -> bool {
        self.farewell.thanked && (!self.farewell.peer_closes || self.farewell.answered)
    }

    /// Returns whether nothing waits to be sent, and nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.outgoing.frames() == 0 && self.stuck.is_none() && self.in_flight == 0
    }

    /// Returns whether everything that the peer has announced has arrived.
    pub(super) fn has_all(&self) -> bool {
        self.farewell.messages.is_some_and(|messages| self.incoming.taken() >= messages)
    }

    /// Returns the number of messages that the peer may still send, as far as it knows.
    pub(super) fn credit_of_peer(&self) -> u64 {
        self.announced.saturating_sub(self.incoming.taken() + self.incoming.early() as u64)
    }

    /// Returns whether a message of its own should announce credit to the peer. See [`super::settings::RESERVE`].
    pub(super) fn owes_credit(&self, window: usize) -> bool {
        let more = self.granted - self.announced;
        more > 0 && (more * 2 >= window as u64 || self.credit_of_peer() == 0)
    }
}
