//! The endpoint of a memory network.

use super::link::{Link, Look};
use super::{Desk, Shared};
use crate::doorbell::Waited;
use crate::round::Round;
use crate::{DownReason, Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{Nanos, NodeId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// A node's place in a [`MemoryNetwork`](super::MemoryNetwork).
#[derive(Debug)]
pub struct MemoryEndpoint {
    shared: Arc<Shared>,
    place: usize,
    desk: Arc<Desk>,
    /// By the nodes' places in the network; our own stays empty.
    peers: Vec<Peer>,
    round: Round,
    /// The peers to be notified at the next flush.
    to_notify: Vec<usize>,
    closed: bool,
    stats: LinkStats,
}

#[derive(Debug, Default)]
struct Peer {
    /// The current link, and links that later sessions of the peer have made since, in order.
    links: VecDeque<Link>,
    /// Whether `PeerUp` was reported for the current link.
    announced: bool,
    listed: bool,
}

impl MemoryEndpoint {
    pub(super) fn new(shared: Arc<Shared>, place: usize, desk: Arc<Desk>, links: Vec<Option<Link>>) -> Self {
        let peers = links
            .into_iter()
            .map(|link| Peer { links: link.into_iter().collect(), ..Peer::default() })
            .collect();
        Self {
            shared,
            place,
            desk,
            peers,
            round: Round::default(),
            to_notify: Vec::new(),
            closed: false,
            stats: LinkStats::default(),
        }
    }

    fn take_new_links(&mut self) {
        for (place, mut link) in self.desk.take() {
            if self.closed {
                link.end(true);
            }
            self.peers[place].links.push_back(link);
        }
    }

    fn note(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        if !peer.listed {
            peer.listed = true;
            self.to_notify.push(place);
        }
    }

    /// Polls a peer once.
    fn poll_peer(&mut self, place: usize) -> Option<Event> {
        let node = self.shared.nodes[place];
        let peer = &mut self.peers[place];
        let link = peer.links.front_mut()?;
        if !peer.announced {
            peer.announced = true;
            self.stats.links_up += 1;
            return Some(Event::PeerUp { peer: node });
        }
        match link.pop() {
            Look::Nothing => None,
            Look::Frame(frame) => {
                self.stats.frames_received += 1;
                self.stats.bytes_received += frame.bytes() as u64;
                self.round.note_frame();
                self.note(place);
                Some(Event::Received { from: node, frame })
            }
            Look::Ended(reason) => {
                self.stats.links_down += 1;
                // If both sides close, the peer can still take what is in the ring.
                if !self.closed || reason != DownReason::Closed {
                    self.stats.frames_lost += link.not_taken();
                }
                peer.links.pop_front();
                peer.announced = false;
                Some(Event::PeerDown { peer: node, reason })
            }
        }
    }
}

impl Endpoint for MemoryEndpoint {
    fn node(&self) -> NodeId {
        self.shared.nodes[self.place]
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let place = self.shared.index.place(to).filter(|place| *place != self.place);
        let Some(place) = place else {
            self.stats.refused_unknown_peer += 1;
            return Err(SendError::UnknownPeer(frame));
        };
        let peer = &mut self.peers[place];
        let link = peer.links.front_mut().filter(|link| peer.announced && !link.ended());
        let Some(link) = link.filter(|_| !self.closed) else {
            self.stats.refused_not_connected += 1;
            return Err(SendError::NotConnected(frame));
        };
        let (bytes, limit) = (frame.bytes() as u64, self.shared.limits.max_frame_bytes);
        if bytes > limit.0 {
            self.stats.refused_too_large += 1;
            return Err(SendError::TooLarge { frame, limit });
        }
        if let Err(frame) = link.push(frame, bytes) {
            // A driver that repeats its calls must not wait for a receiver that was never woken.
            self.stats.system_calls += link.notify();
            self.stats.refused_full += 1;
            return Err(SendError::Full(frame));
        }
        self.stats.frames_sent += 1;
        self.stats.bytes_sent += bytes;
        self.note(place);
        Ok(())
    }

    fn flush(&mut self) {
        // Frames that arrived since the last round have rung the bell. Only this endpoint knows the frames that an
        // unfinished round left, and the next wait may be on another endpoint of the same thread.
        if self.round.is_in_progress() {
            self.desk.bell.ring();
        }
        while let Some(place) = self.to_notify.pop() {
            let peer = &mut self.peers[place];
            peer.listed = false;
            if let Some(link) = peer.links.front_mut() {
                self.stats.system_calls += link.notify();
            }
        }
    }

    fn poll(&mut self) -> Option<Event> {
        if self.round.begin() {
            self.take_new_links();
        }
        while let Some(place) = self.round.turn(self.peers.len()) {
            if let Some(event) = self.poll_peer(place) {
                return Some(event);
            }
            self.round.pass();
        }
        if self.round.end() {
            self.desk.bell.ring();
        }
        None
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        let timeout = (timeout != Nanos::MAX).then(|| timeout.to_std());
        match self.desk.bell.wait(timeout) {
            Waited::NotAtAll => return,
            Waited::UntilRung => self.stats.wake_ups += 1,
            Waited::UntilTimeout => {}
        }
        self.stats.sleeps += 1;
        self.stats.system_calls += 1;
    }

    fn waker(&self) -> Waker {
        Waker::from(self.desk.bell.clone())
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }

    fn close(&mut self, _linger: Nanos) {
        // Sent frames stay in the rings until the peers have taken them: there is nothing to wait for.
        self.flush();
        self.closed = true;
        self.take_new_links();
        for link in self.peers.iter_mut().flat_map(|peer| &mut peer.links) {
            link.end(true);
        }
    }
}

impl Drop for MemoryEndpoint {
    fn drop(&mut self) {
        self.shared.lock()[self.place] = None;
        // No new links arrive from here on; those that wait on the desk end with the others.
        self.take_new_links();
        for link in self.peers.iter_mut().flat_map(|peer| &mut peer.links) {
            link.end(false);
        }
    }
}
