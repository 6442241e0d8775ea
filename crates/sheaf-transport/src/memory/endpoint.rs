//! The endpoint of a memory network.

use super::link::{Link, Look};
use super::{Desk, Shared};
use crate::doorbell::Waited;
use crate::{DownReason, Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{Nanos, NodeId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// Maximum number of frames that one peer may hand over before the next one's turn.
const FRAMES_PER_TURN: usize = 64;

/// A node's place in a [`MemoryNetwork`](super::MemoryNetwork).
#[derive(Debug)]
pub struct MemoryEndpoint {
    shared: Arc<Shared>,
    place: usize,
    desk: Arc<Desk>,
    /// By the nodes' places in the network; our own stays empty.
    peers: Vec<Peer>,
    /// Whose turn it is, how many frames the turn has given, and whether a turn of this round was cut short.
    turn: usize,
    turn_frames: usize,
    cut_short: bool,
    /// Whether the driver stopped before the end of the round.
    unfinished: bool,
    /// The peers to be notified at the next flush.
    to_tell: Vec<usize>,
    closed: bool,
    stats: LinkStats,
}

#[derive(Debug, Default)]
struct Peer {
    /// The present link, and links that the peer's later lives have made since, in order.
    links: VecDeque<Link>,
    /// Whether `PeerUp` was reported for the present link.
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
            turn: 0,
            turn_frames: 0,
            cut_short: false,
            unfinished: false,
            to_tell: Vec::new(),
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
            self.to_tell.push(place);
        }
    }

    /// Polls the peer whose turn it is once.
    fn look(&mut self) -> Option<Event> {
        let (place, node) = (self.turn, self.shared.nodes[self.turn]);
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
                self.turn_frames += 1;
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
            self.stats.system_calls += link.tell();
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
        if self.unfinished {
            self.desk.bell.ring();
        }
        while let Some(place) = self.to_tell.pop() {
            let peer = &mut self.peers[place];
            peer.listed = false;
            if let Some(link) = peer.links.front_mut() {
                self.stats.system_calls += link.tell();
            }
        }
    }

    fn poll(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.unfinished, true) {
            self.take_new_links();
        }
        while self.turn < self.peers.len() {
            if self.turn_frames < FRAMES_PER_TURN {
                if let Some(event) = self.look() {
                    return Some(event);
                }
            } else {
                self.cut_short = true;
            }
            self.turn += 1;
            self.turn_frames = 0;
        }
        self.turn = 0;
        self.unfinished = false;
        if std::mem::take(&mut self.cut_short) {
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
