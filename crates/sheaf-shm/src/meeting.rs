//! Accepting, calling and greeting.

use super::dial::Who;
use super::endpoint::{Guest, LISTENER, Peer, ShmEndpoint, Watch};
use super::greeting::{Caller, Home, MESSAGE_BYTES, Said};
use super::link::{self, Link};
use super::side::End;
use super::socket;
use rustix::io;
use sheaf_transport::session::is_too_far_ahead;
use sheaf_transport::{Event, Refusal};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The pause after the process ran out of file descriptors: callers wait in the listener's queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl ShmEndpoint {
    pub(super) fn home(&self) -> Home<'_> {
        Home { me: &self.me, arena: &self.arena, bell: &self.bell, settings: &self.settings }
    }

    /// Accepts all pending connections.
    pub(super) fn accept(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            self.stats.system_calls += 1;
            match socket::accept(listener) {
                // A stranger learns nothing.
                Ok(connection) if !socket::is_ours(&connection) => self.stats.links_refused += 1,
                Ok(connection) => self.admit(connection, Who::Unknown),
                Err(io::Errno::INTR | io::Errno::CONNABORTED) => {}
                Err(io::Errno::AGAIN) => return,
                Err(_) => {
                    // No file descriptors or memory. The listener stays readable: watched, it would end every sleep.
                    self.stats.accepts_failed += 1;
                    self.unwatch(listener);
                    let again = Instant::now() + ACCEPT_PAUSE;
                    self.accepts_again = Some(again);
                    self.arm(again);
                    return;
                }
            }
        }
    }

    /// Watches for callers again after a pause. The next poll sees those that wait.
    fn accept_again(&mut self, now: Instant) {
        match (self.accepts_again, &self.listener) {
            (Some(at), Some(listener)) if at <= now => {
                let watched = self.watch(listener, LISTENER).is_ok();
                self.accepts_again = (!watched).then(|| now + ACCEPT_PAUSE);
            }
            _ => {}
        }
        if let Some(at) = self.accepts_again {
            self.arm(at);
        }
    }

    /// Watches a connection until its peer has identified itself.
    fn admit(&mut self, connection: OwnedFd, who: Who) {
        let deadline = Instant::now() + self.settings.greeting_timeout.to_std();
        let watch = self.next_watch();
        if self.watch(&connection, watch).is_err() {
            self.stats.accepts_failed += 1;
            self.call_again_later(&who);
            return;
        }
        self.arm(deadline);
        self.guests.push(Guest { connection, watch, who, deadline });
    }

    fn call_again_later(&mut self, who: &Who) {
        if let Who::Called { place, .. } = who {
            self.rest(*place);
        }
    }

    /// Before the next call to a peer. Does nothing where the peer is the one that calls.
    pub(super) fn rest(&mut self, place: usize) {
        let settings = self.settings;
        let Some(dial) = &mut self.peers[place].dial else { return };
        dial.rest(&settings, Instant::now());
        if let Some(next) = dial.next {
            self.arm(next);
        }
    }

    /// Runs the timers that are due.
    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.closed || self.next_timer.is_none_or(|timer| timer > now) {
            return;
        }
        self.next_timer = None;
        self.accept_again(now);
        for index in (0..self.guests.len()).rev() {
            if self.guests[index].deadline <= now {
                let guest = self.guests.swap_remove(index);
                self.refused(&guest.who, Refusal::NoGreeting);
            } else {
                self.arm(self.guests[index].deadline);
            }
        }
        for place in 0..self.peers.len() {
            let due = self.peers[place].dial.as_ref().and_then(|dial| dial.next);
            match due {
                Some(due) if due <= now => self.call(place),
                Some(due) => self.arm(due),
                None => {}
            }
        }
    }

    fn call(&mut self, place: usize) {
        let Some(dial) = &mut self.peers[place].dial else { return };
        dial.next = None;
        self.stats.connects_begun += 1;
        self.stats.system_calls += 1;
        let called = socket::connect(&dial.name).and_then(|connection| {
            // A process of another user that took the name gets no information.
            if !socket::is_ours(&connection) {
                return Err(io::Errno::PERM);
            }
            let call = self.home().call(&connection)?;
            Ok((connection, call))
        });
        match called {
            Ok((connection, call)) => self.admit(connection, Who::Called { place, call }),
            Err(_) => {
                self.stats.connects_failed += 1;
                self.rest(place);
            }
        }
    }

    fn refused(&mut self, who: &Who, reason: Refusal) {
        self.stats.count_refusal(reason);
        let peer = match who {
            Who::Called { place, .. } => Some(self.peers[*place].node),
            Who::Unknown => None,
        };
        self.happened.push_back(Event::Refused { peer, reason });
        self.call_again_later(who);
    }

    /// Handles a message on a connection that is not a link yet.
    pub(super) fn handle_caller(&mut self, watch: Watch) {
        let Some(index) = self.guests.iter().position(|guest| guest.watch == watch) else { return };
        let mut message = [0; MESSAGE_BYTES];
        self.stats.system_calls += 1;
        let received = socket::receive(&self.guests[index].connection, &mut message);
        if matches!(received, Err(io::Errno::AGAIN | io::Errno::INTR)) {
            return;
        }
        let Guest { connection, watch, who, .. } = self.guests.swap_remove(index);
        match received {
            Ok((bytes, files)) if bytes > 0 => {
                if let Err((who, reason)) = self.meet(connection, watch, who, &message[..bytes], files) {
                    self.refused(&who, reason);
                }
            }
            // It no longer exists: the peer ended, or was still starting.
            _ => {
                self.stats.connects_failed += u64::from(matches!(who, Who::Called { .. }));
                self.call_again_later(&who);
            }
        }
    }

    fn meet(
        &mut self,
        connection: OwnedFd,
        watch: Watch,
        who: Who,
        message: &[u8],
        files: Vec<OwnedFd>,
    ) -> Result<(), (Who, Refusal)> {
        let refuse = |who: Who, reason| Err((who, reason));
        let (greeting, offer) = match self.home().parse(message) {
            Ok(greeting) => greeting,
            Err(reason) => {
                self.say_no(&connection, &who, reason);
                return refuse(who, reason);
            }
        };
        let unknown = Refusal::UnknownNode(greeting.node.to_code());
        let place = self.index.place(greeting.node);
        let reason = match (place, &who) {
            (None, _) => Some(unknown),
            (Some(place), Who::Called { place: expected, .. }) if place != *expected => Some(unknown),
            (Some(place), Who::Unknown) if self.peers[place].dial.is_some() => Some(Refusal::BothInitiate),
            (Some(place), _) if greeting.session < self.peers[place].last_session => {
                Some(Refusal::StaleSession(greeting.session))
            }
            _ if is_too_far_ahead(greeting.session) => Some(Refusal::FutureSession(greeting.session)),
            (Some(place), Who::Unknown) if self.peers[place].is_alive() => Some(Refusal::InUse),
            _ => None,
        };
        let (Some(place), None) = (place, reason) else {
            let reason = reason.unwrap_or(unknown);
            self.say_no(&connection, &who, reason);
            return refuse(who, reason);
        };
        let parts = match who {
            Who::Called { call, place } => match Said::new(&greeting, offer, files) {
                Some(said) => self.home().answered(connection, call, said),
                None => return refuse(Who::Called { place, call }, Refusal::Malformed),
            },
            Who::Unknown => {
                let Some(caller) = Caller::new(&greeting, offer, files) else {
                    self.say_no(&connection, &Who::Unknown, Refusal::Malformed);
                    return refuse(Who::Unknown, Refusal::Malformed);
                };
                match self.home().answer(&connection, &caller) {
                    Ok(lease) => self.home().called(connection, caller, lease),
                    // It has closed already.
                    Err(_) => return Ok(()),
                }
            }
        };
        let peer = &mut self.peers[place];
        peer.last_session = greeting.session;
        peer.begin(Link::new(parts), watch);
        Ok(())
    }

    /// Only the called side sends the reason of a refusal: a caller just closes the connection.
    fn say_no(&self, connection: &OwnedFd, who: &Who, reason: Refusal) {
        if matches!(who, Who::Unknown) {
            self.home().refuse(connection, reason);
        }
    }
}

impl Peer {
    /// Returns whether there is a link whose other end has neither ended it nor died: the kernel closes the socket of a
    /// process that ends for any reason.
    fn is_alive(&self) -> bool {
        self.links.back().is_some_and(|(_, link)| !link.is_over() && !link::socket_is_over(&link.socket))
    }

    /// Starts a link. An existing one ends when all of its frames have been taken.
    fn begin(&mut self, link: Link, watch: Watch) {
        if let Some(dial) = &mut self.dial {
            dial.attempts = 0;
        }
        for (_, old) in &mut self.links {
            old.replaced = true;
            old.end(End::Lost);
        }
        self.links.push_back((watch, link));
    }
}
