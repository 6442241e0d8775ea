//! A peer, the link to it, and the connections that the link has.

use super::deframer::Deframer;
use super::dialer::{self, Dialer};
use super::framing::{ACKNOWLEDGEMENT, FAREWELL, NUMBER_BYTES};
use super::outbox::Outbox;
use super::sequence::{Incoming, Outgoing, SequenceError, Window};
use super::settings::PeerAddress;
use bytes::{Buf, Bytes};
use sheaf_transport::Frame;
use sheaf_transport::greeting::Greeting;
use sheaf_wire::{NodeId, SessionId};
use std::time::Instant;

/// A node to talk to.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// For which of these its certificate has to be, where it is the one that calls: its name, and the hosts of its addresses.
    pub(super) names: Vec<String>,
    /// Dialers, one per rail, if this node is the caller.
    pub(super) dialers: Vec<Dialer>,
    pub(super) link: Option<Link>,
    pub(super) last_session: SessionId,
    /// Number of this link among those of the two sessions; the calling side counts. A rail joins only the link for
    /// which it was called, so that frames kept for an ended link never enter the next one.
    pub(super) epoch: u32,
}

impl Peer {
    pub(super) fn new(peer: PeerAddress, rails: usize, from: NodeId, now: Instant) -> Self {
        let PeerAddress { node, addresses, initiate } = peer;
        let names = addresses.iter().map(|address| dialer::host(address)).chain([node.to_string()]).collect();
        let dialer = |rail| Dialer::new(addresses.clone(), (rail, rails), from, node, now);
        let dialers = if initiate { (0..rails).map(dialer).collect() } else { Vec::new() };
        Self { node, names, dialers, link: None, last_session: SessionId(0), epoch: 0 }
    }

    /// Returns whether the peer calls this node.
    pub(super) fn is_called(&self) -> bool {
        !self.dialers.is_empty()
    }
}

/// The link for which a connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) peer: usize,
    pub(super) rail: usize,
    /// The peer's epoch when it was called.
    pub(super) epoch: u32,
}

/// The peer on a connection.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) place: usize,
    pub(super) greeting: Greeting,
    pub(super) rail: usize,
    pub(super) epoch: u32,
    /// Parts of a link that both sides lend.
    pub(super) window: Window,
}

/// State that all rails of a link share.
#[derive(Debug)]
pub(super) struct Link {
    /// The connection of each rail.
    pub(super) rails: Vec<Option<usize>>,
    /// The largest frame that both sides take.
    pub(super) max_frame_bytes: usize,
    /// Whether a frame was refused since there last was more room.
    pub(super) refused: bool,
    /// Whether the peer said goodbye; whether our goodbye was written.
    pub(super) peer_is_done: bool,
    pub(super) we_are_done: bool,
    /// Whether our goodbye is queued.
    pub(super) goodbye_is_queued: bool,
    /// Which rail is served first, in turn.
    pub(super) turn: usize,
    /// Of a link with several rails.
    pub(super) order: Option<Box<Order>>,
}

impl Link {
    /// A link of `rails` rails, none of which is up yet.
    pub(super) fn new(rails: usize, max_frame_bytes: usize, window: Window) -> Self {
        let order = || Box::new(Order { outgoing: Outgoing::new(window), incoming: Incoming::new(window) });
        Self {
            rails: vec![None; rails],
            max_frame_bytes,
            refused: false,
            peer_is_done: false,
            we_are_done: false,
            goodbye_is_queued: false,
            turn: 0,
            order: (rails > 1).then(order),
        }
    }

    /// The connection of the first rail.
    pub(super) fn only_rail(&self) -> Option<usize> {
        self.rails.first().copied().flatten()
    }

    /// The connections that are up.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.rails.iter().flatten().copied()
    }

    /// Returns whether frames wait for a missing one.
    pub(super) fn is_waiting(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.incoming.is_waiting())
    }

    /// Returns whether the end of the peer's stream must not end the link: both sides are closing, and the peer has
    /// finished first but still reads our data.
    pub(super) fn half_closed(&self, closing: bool, broken: bool) -> bool {
        // Of several rails each stays open both ways until the link has ended: acknowledgements must pass.
        self.order.is_none() && closing && self.peer_is_done && !self.we_are_done && !broken
    }

    /// Returns whether the end of a stream was expected.
    pub(super) fn ends_in_good_order(&self) -> bool {
        self.peer_is_done || self.we_are_done
    }
}

/// The order of frames over several rails.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
}

/// Result of taking a frame of a link with several rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A frame, now held until it is its turn.
    Held,
    /// A frame that had come before.
    InVain,
    /// An acknowledgement; whether there is more room now.
    Acknowledged(bool),
    /// The peer has sent all it had, and knows that it arrived.
    Farewell,
}

impl Order {
    /// Takes a frame from a rail: its number, and its content.
    pub(super) fn take(&mut self, mut frame: Frame) -> Result<Taken, SequenceError> {
        let number = number(&mut frame.head)?;
        if number == ACKNOWLEDGEMENT {
            let up_to = self::number(&mut frame.head)?;
            return self.outgoing.acknowledge(up_to).map(Taken::Acknowledged);
        }
        if number == FAREWELL {
            return Ok(Taken::Farewell);
        }
        Ok(if self.incoming.accept(number, frame)? { Taken::Held } else { Taken::InVain })
    }
}

/// Takes a number from the front of a head.
fn number(head: &mut Bytes) -> Result<u64, SequenceError> {
    if head.len() < NUMBER_BYTES {
        return Err(SequenceError::NoNumber);
    }
    Ok(head.get_u64_le())
}

/// One connection of a link.
#[derive(Debug)]
pub(super) struct Rail {
    pub(super) peer: usize,
    /// Which of the link's.
    pub(super) rail: usize,
    pub(super) outbox: Outbox,
    pub(super) deframer: Deframer,
    /// Whether reading stopped for lack of memory.
    pub(super) starved: bool,
    /// Whether writing has failed.
    pub(super) broken: bool,
    /// Whether data arrived since this was last read.
    pub(super) has_received: bool,
    /// Time since when another node asks for the place of this connection while it is silent.
    pub(super) rival_since: Option<Instant>,
}
