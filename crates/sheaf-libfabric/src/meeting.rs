//! Beginning and end of links: the messages over TCP.

use super::endpoint::LibfabricEndpoint;
use super::incoming::Incoming;
use super::link::{Farewell, Link, Ready, Remote};
use super::outgoing::Outgoing;
use super::wire::{Hello, Word, WordError};
use bytes::Bytes;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, Refusal};
use sheaf_wire::NodeId;
use sheaf_wire::mix::splitmix64;
use std::time::Instant;

impl LibfabricEndpoint {
    /// Something happened on the TCP side.
    pub(super) fn handle_event(&mut self, event: Event) {
        match event {
            Event::Refused { .. } => self.happened.push_back(event),
            Event::PeerUp { peer } => {
                if let Some(place) = self.index.place(peer) {
                    self.peers[place].is_met = true;
                    if !self.closing {
                        self.begin(place);
                    }
                }
            }
            Event::PeerDown { peer, reason } => {
                if let Some(place) = self.index.place(peer) {
                    // Messages that arrived before the end are returned before it.
                    self.advance();
                    self.answer_farewell(place);
                    let peer = &mut self.peers[place];
                    peer.is_met = false;
                    peer.again_at = None;
                    // A farewell of an incomplete link does not count.
                    let kept = self.closing && peer.link.as_ref().is_some_and(Link::is_done);
                    let closed = reason == DownReason::Closed && !kept;
                    self.end(place, if closed { DownReason::Lost } else { reason });
                }
            }
            Event::Received { from, frame } => {
                if let Some(place) = self.index.place(from) {
                    match Word::read(&frame.head) {
                        Ok(word) => self.handle_word(place, word),
                        Err(WordError::Version(version)) => {
                            self.refuse(place, Refusal::WrongVersion(version as u16))
                        }
                        Err(WordError::Malformed) => self.refuse(place, Refusal::Malformed),
                    }
                }
            }
        }
    }

    fn refuse(&mut self, place: usize, reason: Refusal) {
        self.stats.count_refusal(reason);
        let peer = Some(self.peers[place].node);
        self.happened.push_back(Event::Refused { peer, reason });
    }

    fn handle_word(&mut self, place: usize, word: Word) {
        match word {
            Word::Hello(hello) => self.greeted(place, hello),
            Word::Farewell { messages } => {
                if let Some(link) = &mut self.peers[place].link {
                    link.farewell.messages = Some(messages);
                }
                self.advance();
                self.answer_farewell(place);
            }
            Word::Thanks { closing } => {
                if let Some(link) = &mut self.peers[place].link {
                    link.farewell.thanked = true;
                    link.farewell.peer_closes = closing;
                }
            }
        }
    }

    /// Begins a link: sends this node's address to the peer.
    fn begin(&mut self, place: usize) {
        self.links_made += 1;
        // Differs from that of any other link to this node, in this life and, but for a chance of 2^-64, in others.
        let token = splitmix64(self.session ^ splitmix64(self.links_made));
        let settings = &self.settings;
        let peer = &mut self.peers[place];
        let window = (self.window - peer.unposted - peer.held) as u64;
        let max_frame_bytes = settings.max_frame_bytes.as_usize();
        peer.again_at = None;
        peer.link = Some(Link {
            token,
            remote: None,
            is_up: false,
            probing: false,
            outgoing: Outgoing::new(settings.queue_frames, settings.queue_bytes.as_usize()),
            stuck: None,
            in_flight: 0,
            incoming: Incoming::new(max_frame_bytes),
            granted: window,
            announced: window,
            parts_held: 0,
            farewell: Farewell::default(),
        });
        let hello = Hello {
            token,
            window,
            max_frame_bytes,
            message_bytes: self.memory.buffer_bytes(),
            provider: self.provider.clone(),
            name: self.name.clone(),
        };
        self.say(place, &Word::Hello(hello));
    }

    /// Sends a message over TCP. The queue of a connection that has just come up, or that carries only these messages,
    /// has room.
    fn say(&mut self, place: usize, word: &Word) {
        let frame = Frame::new(Bytes::from(word.emit()), []);
        // A connection that is down now will come up again, and then a hello is sent anew.
        let _ = self.meeting.send(self.peers[place].node, frame);
        self.meeting.flush();
    }

    /// Handles the peer's address.
    fn greeted(&mut self, place: usize, hello: Hello) {
        if hello.provider != self.provider {
            return self.refuse(place, Refusal::WrongProvider);
        }
        if self.peers[place].link.as_ref().is_none_or(|link| link.remote.is_some()) {
            // The peer begins another link over the same connection: it has lost the old one.
            self.end(place, DownReason::Lost);
            if self.closing {
                return;
            }
            self.begin(place);
        }
        let Ok(address) = self.port.insert(&hello.name) else {
            return self.refuse(place, Refusal::Malformed);
        };
        let own = self.settings.max_frame_bytes.as_usize();
        let peer = &mut self.peers[place];
        let Some(link) = &mut peer.link else { return };
        link.outgoing.granted = link.outgoing.granted.max(hello.window);
        link.remote = Some(Remote {
            address,
            token: hello.token,
            message_bytes: hello.message_bytes,
            max_frame_bytes: own.min(hello.max_frame_bytes),
        });
    }

    /// Handles the completion of the first message: the link is up.
    pub(super) fn bring_up(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        let Some(link) = &mut peer.link else { return };
        link.probing = false;
        link.is_up = true;
        peer.ready.push_back(Ready::Up);
        self.take_early(place);
    }

    /// Ends a link whose connection lives on, and begins another one after a while.
    pub(super) fn end_and_begin_again(&mut self, place: usize, reason: DownReason) {
        self.end(place, reason);
        let peer = &mut self.peers[place];
        if peer.is_met && !self.closing {
            peer.again_at = Some(Instant::now() + self.settings.retry_max.to_std());
        }
    }

    /// Begins links anew for which it is time.
    pub(super) fn begin_again(&mut self) {
        for place in 0..self.peers.len() {
            let due = self.peers[place].again_at.is_some_and(|at| at <= Instant::now());
            if due && self.peers[place].link.is_none() {
                self.begin(place);
            }
        }
    }

    /// Ends a link, if there is one.
    pub(super) fn end(&mut self, place: usize, reason: DownReason) {
        let peer = &mut self.peers[place];
        let Some(mut link) = peer.link.take() else { return };
        self.stats.frames_lost += link.not_sent();
        self.stats.bytes_copied += link.incoming.bytes_copied;
        peer.give_back(link.parts_held + link.incoming.early());
        peer.refused = false;
        if let Some(stuck) = link.stuck.take() {
            self.unused.push(stuck.buffer);
        }
        if let Some(remote) = link.remote {
            self.port.remove(remote.address);
        }
        if link.is_up {
            peer.ready.push_back(Ready::Down(reason));
        }
    }

    /// Sends a farewell when all accepted frames have been sent.
    pub(super) fn say_farewell(&mut self) {
        for place in 0..self.peers.len() {
            let Some(link) = &mut self.peers[place].link else { continue };
            if link.is_up && link.is_idle() && !link.farewell.said {
                link.farewell.said = true;
                let messages = link.outgoing.next;
                self.say(place, &Word::Farewell { messages });
            }
        }
    }

    /// Confirms a farewell when everything that the peer had announced has arrived. Unless this node closes too, its
    /// link then ends.
    pub(super) fn answer_farewell(&mut self, place: usize) {
        let closing = self.closing;
        let Some(link) = &mut self.peers[place].link else { return };
        if !link.has_all() || link.farewell.answered {
            return;
        }
        link.farewell.answered = true;
        self.say(place, &Word::Thanks { closing });
        if !closing {
            self.end(place, DownReason::Closed);
        }
    }

    /// The nodes that this one may talk to.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.peers.iter().map(|peer| peer.node)
    }
}
