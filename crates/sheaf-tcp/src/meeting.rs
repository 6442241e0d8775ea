//! Accepting, calling and greeting: everything before a link is up.

use super::deframer::Deframer;
use super::dialer::Dialer;
use super::endpoint::{self, Connection, Stage, TcpEndpoint};
use super::framing::{GREETING_BYTES, KEYED, NUMBER_BYTES, RAIL_GREETING_BYTES, RAILS_VERSION, VERSION};
use super::greeting::{GreetingBuffer, RailGreeting};
use super::link::{Called, Guest, Link, Rail};
use super::manner::Manner;
use super::outbox::Outbox;
use super::proving::{CalledWords, CallerWords, ProofBuffer};
use super::sequence::Window;
use super::socket;
use super::standing::Standing;
use super::tls::Tls;
use mio::net::TcpStream;
use sheaf_transport::{DownReason, Event, Refusal, TlsProblem};
use sheaf_wire::NodeId;
use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
use std::time::{Duration, Instant};

/// Maximum number of callers accepted in one round.
const ACCEPTS_PER_ROUND: usize = 64;

/// Maximum number of callers without a greeting beyond the number of peers; more are disconnected at once.
const STRANGERS: usize = 64;

/// The pause after the process ran out of file descriptors: callers wait in the listener's queue meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Number of checks of a peer's machine within the time for which it may be silent.
const LOOKS_AT_MACHINES: u32 = 4;

impl TcpEndpoint {
    /// Runs the due timers: calls peers, gives up connections that take too long, accepts again after a pause.
    pub(super) fn run_timers(&mut self, now: Instant) {
        let due = self.next_timer.is_some_and(|at| at <= now);
        if !(self.notice.take_resolved() || due) {
            return;
        }
        self.next_timer = None;
        if self.closing {
            return;
        }
        for listener in &mut self.listeners {
            listener.not_before = listener.not_before.filter(|at| *at > now);
        }
        if let Some(at) = self.listeners.iter().filter_map(|listener| listener.not_before).min() {
            self.arm(at);
        }
        for slot in 0..self.connections.len() {
            self.check_deadline(slot, now);
        }
        if self.machines_at <= now {
            self.machines_at = now + self.settings.silent_machine.to_std() / LOOKS_AT_MACHINES;
            self.end_unanswered();
        }
        self.arm(self.machines_at);
        for place in 0..self.peers.len() {
            for rail in 0..self.peers[place].dialers.len() {
                let dialer = &mut self.peers[place].dialers[rail];
                if dialer.proceed(now, &self.notice) {
                    self.call(place, rail, now);
                } else if let Some(at) = dialer.due() {
                    self.arm(at);
                }
            }
        }
    }

    fn check_deadline(&mut self, slot: usize, now: Instant) {
        let Some(connection) = &self.connections[slot] else {
            return;
        };
        match connection.stage {
            Stage::Up(_) => {}
            Stage::Connecting { deadline, .. }
            | Stage::Greeting { deadline, .. }
            | Stage::Proving { deadline, .. }
                if deadline > now =>
            {
                self.arm(deadline)
            }
            Stage::Connecting { .. } => self.call_failed(slot),
            Stage::Greeting { called, .. } => {
                let node = called.map(|called| self.peers[called.peer].node);
                self.refuse(slot, node, Refusal::NoGreeting);
            }
            Stage::Proving { ref guest, .. } => {
                let node = Some(guest.greeting.node);
                self.refuse(slot, node, Refusal::WrongKey);
            }
        }
    }

    /// Accepts callers.
    pub(super) fn accept(&mut self, now: Instant) {
        for place in 0..self.listeners.len() {
            self.accept_at(place, now);
        }
    }

    fn accept_at(&mut self, place: usize, now: Instant) {
        for _ in 0..ACCEPTS_PER_ROUND {
            let listener = &mut self.listeners[place];
            if !listener.ready || listener.not_before.is_some() {
                return;
            }
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
        let is_stranger = |it: &&Connection| {
            matches!(it.stage, Stage::Greeting { called: None, .. } | Stage::Proving { .. })
        };
        let strangers = self.connections.iter().flatten().filter(is_stranger).count();
        if strangers >= STRANGERS + self.peers.len() * self.settings.rails
            || socket::set_up(&SockRef::from(&stream), &self.settings).is_err()
        {
            self.stats.links_refused += 1;
            return;
        }
        let deadline = now + self.settings.greeting_timeout.to_std();
        let buffer = GreetingBuffer::of_call(self.version());
        let Ok(tls) = self.tls.as_ref().map(Tls::answer).transpose() else {
            self.stats.links_refused += 1;
            return;
        };
        let tls = tls.map(Box::new);
        if self.adopt(stream, tls, Stage::Greeting { called: None, said: None, buffer, deadline }).is_ok() {
            self.arm(deadline);
        }
    }

    /// Calls the next address of the attempt; at their end rests.
    fn call(&mut self, place: usize, rail: usize, now: Instant) {
        let called = Called { peer: place, rail, epoch: self.peers[place].epoch };
        while let Some(target) = self.peers[place].dialers.get_mut(rail).and_then(Dialer::next_address) {
            self.stats.connects_begun += 1;
            self.stats.system_calls += 1;
            let deadline = now + self.settings.connect_timeout.to_std();
            let tls = match self.tls.as_ref().map(|tls| tls.call(&target.host)).transpose() {
                Ok(tls) => tls.map(Box::new),
                Err(problem) => {
                    let peer = Some(self.peers[place].node);
                    self.happened.push_back(Event::Refused { peer, reason: Refusal::Tls(problem) });
                    self.stats.connects_failed += 1;
                    continue;
                }
            };
            let connecting = socket::connect(target.address, &self.settings)
                .and_then(|stream| self.adopt(stream, tls, Stage::Connecting { called, deadline }));
            match connecting {
                Ok(_) => return self.arm(deadline),
                Err(_) => self.stats.connects_failed += 1,
            }
        }
        self.rest(place, rail, now);
    }

    /// Lets the calling side of a rail rest before it calls again, where this is the calling side.
    pub(super) fn rest(&mut self, place: usize, rail: usize, now: Instant) {
        let settings = self.settings;
        if let Some(dialer) = self.peers[place].dialers.get_mut(rail) {
            let until = dialer.rest(&settings, now);
            self.arm(until);
        }
    }

    /// Drops a connection that did not become a link; continues with the peer's next address.
    fn call_failed(&mut self, slot: usize) {
        let Some(connection) = self.release(slot) else {
            return;
        };
        let called = match connection.stage {
            Stage::Connecting { called, .. } => Some(called),
            Stage::Greeting { called, .. } => called,
            Stage::Proving { .. } | Stage::Up(_) => None,
        };
        drop(connection.stream);
        if let Some(Called { peer, rail, .. }) = called {
            self.stats.connects_failed += 1;
            self.call(peer, rail, Instant::now());
        }
    }

    /// The kernel has an answer to a call: greets if it is a good one.
    pub(super) fn finish_connect(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Stage::Connecting { called, .. } = connection.stage else {
            return;
        };
        let failed = !matches!(connection.stream.take_error(), Ok(None))
            || socket::leads_to_itself(&SockRef::from(&connection.stream));
        if !failed && connection.stream.peer_addr().is_err() {
            connection.writable = false;
            return;
        }
        if failed {
            return self.call_failed(slot);
        }
        let Ok(said) = self.say_first(slot, called) else { return self.call_failed(slot) };
        let deadline = Instant::now() + self.settings.greeting_timeout.to_std();
        let buffer = GreetingBuffer::of_answer(self.version());
        if let Some(connection) = &mut self.connections[slot] {
            connection.stage = Stage::Greeting { called: Some(called), said, buffer, deadline };
        }
        self.arm(deadline);
    }

    /// Sends the caller's greeting; returns it if it must be proven.
    fn say_first(&mut self, slot: usize, called: Called) -> io::Result<Option<CallerWords>> {
        let greeting = self.greeting(None, called.rail, called.epoch);
        let Some(key) = self.key.clone() else { return self.say(slot, &greeting).map(|()| None) };
        let nonce = sheaf_key::nonce().map_err(io::Error::other)?;
        let words = CallerWords::new(key, &greeting, &nonce);
        self.say(slot, words.bytes())?;
        Ok(Some(words))
    }

    /// The version of the framing that this endpoint's links have.
    pub(super) fn version(&self) -> u16 {
        let version = if self.settings.rails == 1 { VERSION } else { RAILS_VERSION };
        if self.key.is_some() { version | KEYED } else { version }
    }

    /// Returns the window of a link: memory that this endpoint lends to frames that come out of order, and that it
    /// keeps of those that it sent.
    fn window(&self) -> Window {
        Window { frames: self.settings.queue_frames, bytes: self.settings.queue_bytes.as_usize() }
    }

    /// Returns this node's greeting, with the reason of a refusal.
    fn greeting(&self, refusal: Option<Refusal>, rail: usize, epoch: u32) -> Vec<u8> {
        let version = self.version();
        let mut greeting = match self.manner {
            Manner::Guest => self.me.emit_as_guest(version, refusal).to_vec(),
            Manner::Node | Manner::Host { .. } => self.me.emit_as(version, refusal).to_vec(),
        };
        if self.settings.rails > 1 && refusal.is_none() {
            let own = RailGreeting { rail, rails: self.settings.rails, epoch, window: self.window() };
            greeting.extend(own.emit());
        }
        greeting
    }

    /// Sends the reason of a refusal. On failure, the caller sees the connection close.
    fn say_no(&mut self, slot: usize, refusal: Refusal) {
        let greeting = self.greeting(Some(refusal), 0, 0);
        let _ = self.say(slot, &greeting);
    }

    /// Sends bytes before the link is up. The kernel's buffer of a new connection always has room for them.
    fn say(&mut self, slot: usize, bytes: &[u8]) -> io::Result<()> {
        let Some(connection) = &mut self.connections[slot] else {
            return Ok(());
        };
        self.stats.system_calls += 1;
        match connection.send(&[IoSlice::new(bytes)])? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    /// Reads the other side's greeting.
    pub(super) fn read_greeting(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, tls, stage: Stage::Greeting { buffer, called, .. }, readable, .. } =
            connection
        else {
            return;
        };
        let called = *called;
        self.stats.system_calls += 1;
        self.stats.reads += 1;
        match endpoint::receive_slice(stream, tls.as_deref_mut(), buffer.room()) {
            Ok(0) => self.call_failed(slot),
            Ok(bytes) => {
                let greeting = buffer.filled(bytes).map(<[u8]>::to_vec);
                if let Some(refusal) = buffer.is_hopeless() {
                    let known = called.map(|called| self.peers[called.peer].node);
                    self.refuse(slot, known, refusal);
                } else if let Some(greeting) = greeting {
                    self.handle_greeting(slot, called, &greeting);
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => *readable = false,
                ErrorKind::Interrupted => {}
                _ => match tls.as_ref().and_then(|tls| tls.problem()) {
                    Some(problem) => {
                        let known = called.map(|called| self.peers[called.peer].node);
                        self.refuse(slot, known, Refusal::Tls(problem));
                    }
                    None => self.call_failed(slot),
                },
            },
        }
    }

    fn handle_greeting(&mut self, slot: usize, called: Option<Called>, bytes: &[u8]) {
        let known = called.map(|called| self.peers[called.peer].node);
        match self.identify(bytes, called) {
            Err((node, refusal)) => {
                if called.is_none() && refusal != Refusal::WrongMagic {
                    self.say_no(slot, refusal);
                }
                self.refuse(slot, node.or(known), refusal);
            }
            Ok(guest) if called.is_none() && !self.certificate_names(slot, &guest) => {
                let refusal = Refusal::Tls(TlsProblem::WrongNode);
                self.say_no(slot, refusal);
                self.refuse(slot, Some(guest.greeting.node), refusal);
            }
            Ok(guest) => match (self.standing(&guest, called), called) {
                // The caller will notice that this link is over, and begin another.
                (Standing::Over, _) => self.call_failed(slot),
                (Standing::InUse, _) => {
                    if called.is_none() {
                        self.say_no(slot, Refusal::InUse);
                    }
                    self.refuse(slot, Some(guest.greeting.node), Refusal::InUse);
                }
                (_, None) => self.answer_call(slot, guest, bytes),
                (standing, Some(_)) => self.take_answer(slot, guest, standing, bytes),
            },
        }
    }

    /// Answers a caller that may have a link. Where there is a key, the caller has to prove that it has it before that.
    fn answer_call(&mut self, slot: usize, guest: Guest, call: &[u8]) {
        let greeting = self.greeting(None, guest.rail, guest.epoch);
        let Some(key) = self.key.clone() else {
            return match self.say(slot, &greeting) {
                Ok(()) => self.let_in(slot, guest),
                Err(_) => self.call_failed(slot),
            };
        };
        let Ok(nonce) = sheaf_key::nonce() else { return self.call_failed(slot) };
        let said = CalledWords::new(key, call, &greeting, &nonce);
        if self.say(slot, &said.bytes()).is_err() {
            return self.call_failed(slot);
        }
        if let Some(connection) = &mut self.connections[slot]
            && let Stage::Greeting { deadline, .. } = connection.stage
        {
            connection.stage = Stage::Proving { guest, said, buffer: ProofBuffer::default(), deadline };
        }
    }

    /// Handles the answer to this node's call; if there is a key, proves that it has the key, provided the other side
    /// has.
    fn take_answer(&mut self, slot: usize, guest: Guest, standing: Standing, answer: &[u8]) {
        let connection = self.connections[slot].as_ref();
        if let Some(Connection { stage: Stage::Greeting { said: Some(said), .. }, .. }) = connection {
            match said.verify(answer) {
                Ok(proof) if self.say(slot, &proof).is_ok() => {}
                Ok(_) => return self.call_failed(slot),
                Err(refusal) => return self.refuse(slot, Some(guest.greeting.node), refusal),
            }
        }
        if standing == Standing::New {
            self.begin_link(&guest);
        }
        self.bring_up(slot, &guest);
    }

    /// Reads a caller's proof.
    pub(super) fn read_proof(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        let Connection { stream, tls, stage: Stage::Proving { guest, said, buffer, .. }, readable, .. } =
            connection
        else {
            return;
        };
        self.stats.system_calls += 1;
        self.stats.reads += 1;
        let node = Some(guest.greeting.node);
        match endpoint::receive_slice(stream, tls.as_deref_mut(), buffer.room()) {
            // It also hangs up where the answer did not prove anything to it, because it has another key.
            Ok(0) => self.refuse(slot, node, Refusal::NoProof),
            Ok(bytes) => match buffer.filled(bytes).map(|proof| said.verify(proof)) {
                None => {}
                Some(Ok(())) => {
                    let guest = guest.clone();
                    self.let_in(slot, guest);
                }
                Some(Err(refusal)) => {
                    self.say_no(slot, refusal);
                    self.refuse(slot, node, refusal);
                }
            },
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => *readable = false,
                ErrorKind::Interrupted => {}
                _ => self.refuse(slot, node, Refusal::NoProof),
            },
        }
    }

    /// Makes a link, or a rail of one, of a caller's connection.
    fn let_in(&mut self, slot: usize, mut guest: Guest) {
        // The situation may have changed between the answer and the proof: other connections may have arrived.
        let node = Some(guest.greeting.node);
        let place = match self.free_place_of_host() {
            Some(free) => free.ok_or(Refusal::NoRoom),
            None => self.admit(&guest.greeting, None),
        };
        match place {
            Ok(place) => guest.place = place,
            Err(refusal) => return self.refuse(slot, node, refusal),
        }
        match self.standing(&guest, None) {
            Standing::Over => return self.call_failed(slot),
            Standing::InUse => return self.refuse(slot, node, Refusal::InUse),
            Standing::New => self.begin_link(&guest),
            Standing::Joins => {}
        }
        self.bring_up(slot, &guest);
    }

    /// Returns the peer, if it may have a link here; otherwise its node id, if known, and the reason of the refusal.
    fn identify(&self, bytes: &[u8], called: Option<Called>) -> Result<Guest, (Option<NodeId>, Refusal)> {
        let version = self.version();
        let malformed = (None, Refusal::Malformed);
        let (fixed, more) = bytes.split_first_chunk::<GREETING_BYTES>().ok_or(malformed)?;
        if let Some(greeting_of_rail) = self.parse_without_names(fixed) {
            let (place, greeting) = greeting_of_rail.map_err(|refusal| (None, refusal))?;
            return Ok(Guest { place, greeting, rail: 0, epoch: 0, window: self.window() });
        }
        let more = more.get(..RAIL_GREETING_BYTES - GREETING_BYTES).unwrap_or(more);
        let greeting = self.me.parse_as(version, fixed).map_err(|refusal| (None, refusal))?;
        let refused = |refusal| (Some(greeting.node), refusal);
        let place = self.admit(&greeting, called.map(|called| called.peer)).map_err(refused)?;
        if self.settings.rails == 1 {
            return Ok(Guest { place, greeting, rail: 0, epoch: 0, window: self.window() });
        }
        let said = RailGreeting::parse(more).ok_or(refused(Refusal::Malformed))?;
        if said.rails != self.settings.rails {
            return Err(refused(Refusal::WrongRails));
        }
        let is_answer = called.is_none_or(|called| (called.rail, called.epoch) == (said.rail, said.epoch));
        if said.rail >= said.rails || !is_answer {
            return Err(refused(Refusal::Malformed));
        }
        let own = self.window();
        let window =
            Window { frames: own.frames.min(said.window.frames), bytes: own.bytes.min(said.window.bytes) };
        Ok(Guest { place, greeting, rail: said.rail, epoch: said.epoch, window })
    }

    fn refuse(&mut self, slot: usize, peer: Option<NodeId>, reason: Refusal) {
        self.stats.count_refusal(reason);
        self.happened.push_back(Event::Refused { peer, reason });
        self.call_failed(slot);
    }

    /// Begins a link; one that there is still is over.
    fn begin_link(&mut self, guest: &Guest) {
        let Guest { place, greeting, epoch, window, .. } = guest;
        let newer = greeting.session > self.peers[*place].last_session;
        self.take_place(*place);
        self.end(*place, if newer { DownReason::Replaced } else { DownReason::Lost });
        let max_frame_bytes = self.me.max_frame_bytes.min(greeting.max_frame_bytes);
        let peer = &mut self.peers[*place];
        peer.link = Some(Link::new(self.settings.rails, max_frame_bytes, *window));
        peer.last_session = greeting.session;
        peer.epoch = *epoch;
        self.stats.links_up += 1;
        self.happened.push_back(Event::PeerUp { peer: peer.node });
    }

    /// Makes a connection a rail of its peer's link.
    fn bring_up(&mut self, slot: usize, guest: &Guest) {
        let Guest { place, rail: number, .. } = *guest;
        let old = self.peers[place].link.as_ref().and_then(|link| link.rails[number]);
        if old.is_some() {
            // The other side calls a rail again only when it has lost it, even if the rail seems alive here.
            self.lose_rail(place, number);
        }
        let (Some(connection), Some(link)) = (&mut self.connections[slot], &mut self.peers[place].link)
        else {
            return;
        };
        let settings = &self.settings;
        let of_number = if link.order.is_some() { NUMBER_BYTES } else { 0 };
        self.stats.rails_up += u64::from(link.order.is_some() && link.slots().next().is_some());
        connection.stage = Stage::Up(Box::new(Rail {
            peer: place,
            rail: number,
            outbox: Outbox::new(settings.queue_frames, settings.queue_bytes.as_usize()),
            deframer: Deframer::new(self.me.max_frame_bytes + of_number),
            starved: false,
            broken: false,
            has_received: false,
            rival_since: None,
        }));
        connection.writable = true;
        link.rails[number] = Some(slot);
        if let Some(dialer) = self.peers[place].dialers.get_mut(number) {
            dialer.succeeded();
        }
    }
}
