//! Accepting, calling and greeting: everything before a link is up.

use super::deframer::Deframer;
use super::endpoint::{Connection, Link, Stage, TcpEndpoint};
use super::framing::GREETING_BYTES;
use super::greeting::{Greeting, GreetingBuffer};
use super::outbox::Outbox;
use super::socket;
use crate::{DownReason, Event, Refusal};
use mio::net::TcpStream;
use sheaf_wire::NodeId;
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
use std::time::{Duration, Instant};

/// How many callers are accepted in one round.
const ACCEPTS_PER_ROUND: usize = 64;

/// How many callers beyond the number of peers may be about to greet; more are cut at once.
const STRANGERS: usize = 64;

/// The pause after the process ran out of file descriptors: callers wait in the listener's queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl TcpEndpoint {
    /// Does what is due: calls peers, gives up connections that take too long, accepts again after a pause.
    pub(super) fn run_timers(&mut self, now: Instant) {
        let due = self.next_timer.is_some_and(|at| at <= now);
        if !(self.notice.take_resolved() || due) {
            return;
        }
        self.next_timer = None;
        if self.closing {
            return;
        }
        if let Some(listener) = &mut self.listener {
            listener.not_before = listener.not_before.filter(|at| *at > now);
            if let Some(at) = listener.not_before {
                self.arm(at);
            }
        }
        for slot in 0..self.connections.len() {
            self.check_deadline(slot, now);
        }
        for place in 0..self.peers.len() {
            let notice = self.notice.clone();
            let dialer = &mut self.peers[place].dialer;
            if dialer.as_mut().is_some_and(|dialer| dialer.proceed(now, &notice)) {
                self.call(place, now);
            } else if let Some(at) = dialer.as_ref().and_then(super::dialer::Dialer::due) {
                self.arm(at);
            }
        }
    }

    fn check_deadline(&mut self, slot: usize, now: Instant) {
        let Some(connection) = &self.connections[slot] else {
            return;
        };
        match connection.stage {
            Stage::Up(_) => {}
            Stage::Connecting { deadline, .. } | Stage::Greeting { deadline, .. } if deadline > now => {
                self.arm(deadline)
            }
            Stage::Connecting { .. } => self.call_failed(slot),
            Stage::Greeting { peer, .. } => {
                let node = peer.map(|place| self.peers[place].node);
                self.refuse(slot, node, Refusal::NoGreeting);
            }
        }
    }

    /// Accepts callers.
    pub(super) fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_PER_ROUND {
            let Some(listener) = self.listener.as_mut().filter(|it| it.ready && it.not_before.is_none())
            else {
                return;
            };
            self.stats.system_calls += 1;
            match listener.socket.accept() {
                Ok((stream, _)) => self.answer(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => listener.ready = false,
                Err(error) if socket::concerns_only_the_caller(&error) => {}
                Err(_) => {
                    self.stats.accepts_failed += 1;
                    listener.not_before = Some(now + ACCEPT_PAUSE);
                    self.arm(now + ACCEPT_PAUSE);
                }
            }
        }
    }

    fn answer(&mut self, stream: TcpStream, now: Instant) {
        let is_stranger = |it: &&Connection| matches!(it.stage, Stage::Greeting { peer: None, .. });
        let strangers = self.connections.iter().flatten().filter(is_stranger).count();
        if strangers >= STRANGERS + self.peers.len()
            || socket::set_up(&SockRef::from(&stream), &self.settings).is_err()
        {
            self.stats.links_refused += 1;
            return;
        }
        let deadline = now + self.settings.greeting_timeout.to_std();
        let buffer = GreetingBuffer::default();
        if self.adopt(stream, Stage::Greeting { peer: None, buffer, deadline }).is_ok() {
            self.arm(deadline);
        }
    }

    /// Calls the next address of the attempt; at their end rests.
    fn call(&mut self, place: usize, now: Instant) {
        while let Some(address) = self.peers[place].dialer.as_mut().and_then(|dialer| dialer.next_address()) {
            self.stats.connects_begun += 1;
            self.stats.system_calls += 1;
            let deadline = now + self.settings.connect_timeout.to_std();
            let called = socket::connect(address, &self.settings)
                .and_then(|stream| self.adopt(stream, Stage::Connecting { peer: place, deadline }));
            match called {
                Ok(_) => return self.arm(deadline),
                Err(_) => self.stats.connects_failed += 1,
            }
        }
        self.rest(place, now);
    }

    /// Lets the calling side of a peer rest before it calls again, where this is the calling side.
    pub(super) fn rest(&mut self, place: usize, now: Instant) {
        let settings = self.settings;
        if let Some(dialer) = &mut self.peers[place].dialer {
            let until = dialer.rest(&settings, now);
            self.arm(until);
        }
    }

    /// Drops a connection that did not become a link; goes on with the peer's next address.
    fn call_failed(&mut self, slot: usize) {
        let Some(connection) = self.release(slot) else {
            return;
        };
        let peer = match connection.stage {
            Stage::Connecting { peer, .. } => Some(peer),
            Stage::Greeting { peer, .. } => peer,
            Stage::Up(_) => None,
        };
        drop(connection.stream);
        if let Some(place) = peer {
            self.stats.connects_failed += 1;
            self.call(place, Instant::now());
        }
    }

    /// The kernel has an answer to a call: greets if it is a good one.
    pub(super) fn finish_connect(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Stage::Connecting { peer, .. } = connection.stage else {
            return;
        };
        let failed = !matches!(connection.stream.take_error(), Ok(None));
        if !failed && connection.stream.peer_addr().is_err() {
            connection.writable = false;
            return;
        }
        if failed || self.greet(slot, None).is_err() {
            return self.call_failed(slot);
        }
        let deadline = Instant::now() + self.settings.greeting_timeout.to_std();
        if let Some(connection) = &mut self.connections[slot] {
            let buffer = GreetingBuffer::default();
            connection.stage = Stage::Greeting { peer: Some(peer), buffer, deadline };
        }
        self.arm(deadline);
    }

    /// Says who we are, and why we refuse if we do. The kernel's buffer of a new connection always has room for it.
    fn greet(&mut self, slot: usize, refusal: Option<Refusal>) -> io::Result<()> {
        let Some(connection) = &self.connections[slot] else {
            return Ok(());
        };
        let greeting = self.me.emit(refusal);
        self.stats.system_calls += 1;
        match socket::send(&connection.stream, &[IoSlice::new(&greeting)])? {
            GREETING_BYTES => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    /// Reads what the other side says of itself.
    pub(super) fn read_greeting(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Stage::Greeting { buffer, peer, .. } = &mut connection.stage else {
            return;
        };
        let called = *peer;
        self.stats.system_calls += 1;
        self.stats.reads += 1;
        match socket::receive_slice(&connection.stream, buffer.room()) {
            Ok(0) => self.call_failed(slot),
            Ok(bytes) => {
                if let Some(greeting) = buffer.filled(bytes).copied() {
                    self.heard(slot, called, &greeting);
                } else if buffer.is_hopeless() {
                    self.refuse(slot, None, Refusal::WrongMagic);
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => connection.readable = false,
                ErrorKind::Interrupted => {}
                _ => self.call_failed(slot),
            },
        }
    }

    fn heard(&mut self, slot: usize, called: Option<usize>, bytes: &[u8; GREETING_BYTES]) {
        let known = called.map(|place| self.peers[place].node);
        let admitted = match self.me.hear(bytes) {
            Ok(peer) => {
                self.admit(&peer, called).map(|place| (place, peer)).map_err(|it| (Some(peer.node), it))
            }
            Err(refusal) => Err((known, refusal)),
        };
        match admitted {
            Err((node, refusal)) => {
                if called.is_none() && refusal != Refusal::WrongMagic {
                    // If it cannot be said, the caller learns it from the closed connection.
                    let _ = self.greet(slot, Some(refusal));
                }
                self.refuse(slot, node, refusal);
            }
            Ok((place, peer)) => {
                if called.is_none() && self.greet(slot, None).is_err() {
                    return self.call_failed(slot);
                }
                self.bring_up(slot, place, &peer);
            }
        }
    }

    /// Whether `peer` may have a link here, and its place. `called` is whom we meant to reach.
    fn admit(&self, peer: &Greeting, called: Option<usize>) -> Result<usize, Refusal> {
        let unknown = Refusal::UnknownNode(peer.node.to_code());
        let place = self.index.place(peer.node).ok_or(unknown)?;
        match called {
            Some(meant) if meant != place => return Err(unknown),
            None if self.peers[place].dialer.is_some() => return Err(Refusal::BothInitiate),
            _ => {}
        }
        if peer.session < self.peers[place].last_session {
            return Err(Refusal::StaleSession(peer.session));
        }
        Ok(place)
    }

    fn refuse(&mut self, slot: usize, peer: Option<NodeId>, reason: Refusal) {
        self.stats.links_refused += 1;
        self.happened.push_back(Event::Refused { peer, reason });
        self.call_failed(slot);
    }

    fn bring_up(&mut self, slot: usize, place: usize, greeting: &Greeting) {
        if let Some(old) = self.peers[place].link {
            // A node calls again only when it has lost the old connection, even if that looks alive from here.
            let newer = greeting.session > self.peers[place].last_session;
            self.end(old, if newer { DownReason::Replaced } else { DownReason::Lost });
        }
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let settings = &self.settings;
        connection.stage = Stage::Up(Box::new(Link {
            peer: place,
            outbox: Outbox::new(settings.queue_frames, settings.queue_bytes.as_usize()),
            deframer: Deframer::new(self.me.max_frame_bytes),
            max_frame_bytes: self.me.max_frame_bytes.min(greeting.max_frame_bytes),
            starved: false,
            refused: false,
            peer_is_done: false,
            we_are_done: false,
            broken: false,
        }));
        connection.writable = true;
        let peer = &mut self.peers[place];
        peer.link = Some(slot);
        peer.last_session = greeting.session;
        if let Some(dialer) = &mut peer.dialer {
            dialer.succeeded();
        }
        self.stats.links_up += 1;
        self.happened.push_back(Event::PeerUp { peer: peer.node });
    }
}
