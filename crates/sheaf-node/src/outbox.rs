//! The way between a role's messages and a transport's frames.

use bytes::Bytes;
use sheaf_protocol::Transmit;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal, SendError};
use sheaf_wire::NodeId;
use sheaf_wire::message::Message;
use std::collections::{BTreeMap, VecDeque};

/// How many frames are kept for one peer whose link is full or not up yet. What a role has to say is bounded by
/// credit, so this is reached only for a peer that stays away; then the oldest frame is dropped and counted: requests
/// are repeated, and messages of channels too.
const BACKLOG_FRAMES: usize = 4096;

/// Bytes of a message head beside its fragments, and for each of these, so that a head is mostly allocated once.
const HEAD_BYTES: usize = 512;
const HEAD_BYTES_A_FRAGMENT: usize = 48;

/// What was not sent, or not understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Messages that arrived and could not be read, or whose sender was not the peer that they came from.
    pub bad_messages: u64,
    /// Frames dropped for peers that stayed away, or when their link went down.
    pub dropped_frames: u64,
    /// Frames larger than the transport takes.
    pub too_large_frames: u64,
    /// Links refused before they came up: strangers, other runs, other releases.
    pub refused_links: u64,
}

/// An endpoint, with a place for frames that it cannot take now. A slow peer holds up only its own frames.
pub struct Outbox {
    endpoint: Box<dyn Endpoint>,
    backlog: BTreeMap<NodeId, VecDeque<Frame>>,
    /// Who was refused last, and why.
    refused: Option<(Option<NodeId>, Refusal)>,
    stats: OutboxStats,
}

impl Outbox {
    /// An outbox on `endpoint`.
    #[must_use]
    pub fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self { endpoint, backlog: BTreeMap::new(), refused: None, stats: OutboxStats::default() }
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut dyn Endpoint {
        &mut *self.endpoint
    }

    /// What went wrong so far.
    #[must_use]
    pub fn stats(&self) -> OutboxStats {
        self.stats
    }

    /// Sends a message, or keeps it for later.
    pub fn send(&mut self, transmit: Transmit<Bytes>) {
        let pieces = transmit.message.body.payload_pieces();
        let mut head = Vec::with_capacity(HEAD_BYTES + pieces * HEAD_BYTES_A_FRAGMENT);
        let mut payload = VecDeque::with_capacity(pieces);
        transmit.message.encode(&mut head, |piece| payload.push_back(piece));
        let frame = Frame { head: head.into(), payload };
        match self.backlog.get_mut(&transmit.to) {
            Some(waiting) if !waiting.is_empty() => keep(waiting, frame, &mut self.stats),
            _ => self.send_frame(transmit.to, frame),
        }
    }

    fn send_frame(&mut self, to: NodeId, frame: Frame) {
        match self.endpoint.send(to, frame) {
            Ok(()) => {}
            Err(SendError::Full(frame) | SendError::NotConnected(frame)) => {
                keep(self.backlog.entry(to).or_default(), frame, &mut self.stats);
            }
            Err(error @ SendError::TooLarge { .. }) => {
                self.stats.too_large_frames += 1;
                log::error!("{}: to {to}: {error}; raise transport.max_frame_bytes", self.endpoint.node());
            }
            Err(SendError::UnknownPeer(_)) => self.stats.dropped_frames += 1,
        }
    }

    /// Offers kept frames again and pushes everything toward the network.
    pub fn flush(&mut self) {
        for (to, waiting) in &mut self.backlog {
            while let Some(frame) = waiting.pop_front() {
                if let Err(error) = self.endpoint.send(*to, frame) {
                    waiting.push_front(error.into_frame());
                    break;
                }
            }
        }
        self.endpoint.flush();
    }

    /// The next message that arrived, if it can be read.
    pub fn poll(&mut self) -> Option<Message<Bytes>> {
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Received { from, frame } => {
                    if let Some(message) = self.read(from, frame) {
                        return Some(message);
                    }
                }
                Event::PeerUp { peer } => log::debug!("{}: link to {peer} is up", self.endpoint.node()),
                Event::PeerDown { peer, reason } => self.peer_down(peer, reason),
                Event::Refused { peer, reason } => self.refused(peer, reason),
            }
        }
        None
    }

    fn read(&mut self, from: NodeId, mut frame: Frame) -> Option<Message<Bytes>> {
        match Message::decode(&frame.head, &mut frame.payload) {
            Ok(message) if message.header.sender == from => return Some(message),
            Ok(message) => {
                let (node, claimed) = (self.endpoint.node(), message.header.sender);
                log::warn!("{node}: a message of {from} says that it is of {claimed}; dropped");
            }
            Err(error) => log::warn!("{}: a message of {from} was dropped: {error}", self.endpoint.node()),
        }
        self.stats.bad_messages += 1;
        None
    }

    fn peer_down(&mut self, peer: NodeId, reason: DownReason) {
        if reason != DownReason::Closed {
            log::warn!("{}: link to {peer} is down: {reason}", self.endpoint.node());
        }
        let waiting = self.backlog.remove(&peer).unwrap_or_default();
        self.stats.dropped_frames += waiting.len() as u64;
    }

    /// Whoever is refused mostly tries again at once: it is told once, and counted.
    fn refused(&mut self, peer: Option<NodeId>, reason: Refusal) {
        self.stats.refused_links += 1;
        if self.refused.as_ref() == Some(&(peer, reason)) {
            return;
        }
        let name = peer.map_or_else(|| "a stranger".to_owned(), |peer| peer.to_string());
        log::warn!("{}: no link with {name}: {reason}", self.endpoint.node());
        self.refused = Some((peer, reason));
    }
}

fn keep(waiting: &mut VecDeque<Frame>, frame: Frame, stats: &mut OutboxStats) {
    if waiting.len() >= BACKLOG_FRAMES {
        waiting.pop_front();
        stats.dropped_frames += 1;
    }
    waiting.push_back(frame);
}
