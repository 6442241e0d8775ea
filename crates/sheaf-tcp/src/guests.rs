//! Guests: callers that no configuration names, which join a host while it works, and leave again.
//!
//! A guest is not a node of the system: it greets with the node code 0 and the run 0, and takes part in the run of the
//! host that answers. Everything else is as between nodes: greeting, frames, goodbye, TLS, keep-alive, back-pressure. A
//! link to a guest has one connection.
//!
//! Inside an endpoint a guest needs a node id: it has that of the output node with the index of its place. Such an
//! endpoint has no other nodes, and the id never leaves this module.

use super::endpoint::{Stage, TcpEndpoint};
use super::framing::GREETING_BYTES;
use super::link::{Called, Link};
use super::manner::Manner;
use super::settings::{PeerAddress, TcpError, TcpOptions, TcpSettings};
use super::socket;
use super::tls::Tls;
use mio::net::TcpStream;
use sheaf_key::RunKey;
use sheaf_transport::greeting::Greeting;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, LinkStats, Refusal, SendError};
use sheaf_wire::{Nanos, NodeId, RunNumber, SessionId};
use socket2::SockRef;
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Returns the internal name of a guest.
fn name(place: usize) -> NodeId {
    // There are at most 65,536 places, see `TcpHost::new`.
    NodeId::output(place as u16)
}

impl TcpEndpoint {
    /// Checks the greeting of a caller, or of a node that was called, where callers have no names. Returns its place
    /// and greeting.
    pub(super) fn parse_without_names(
        &self,
        bytes: &[u8; GREETING_BYTES],
    ) -> Option<Result<(usize, Greeting), Refusal>> {
        match &self.manner {
            Manner::Node => None,
            Manner::Guest => Some(self.me.hear_host(self.version(), bytes).map(|said| (0, said))),
            Manner::Host { .. } => {
                let free = self.free_place_of_host().flatten();
                let greeting = self.me.parse_guest(self.version(), name(free.unwrap_or(0)), bytes);
                Some(greeting.and_then(|said| Ok((free.ok_or(Refusal::NoRoom)?, said))))
            }
        }
    }

    /// Returns the place of the next guest, if guests are admitted and a place is free.
    pub(super) fn free_place_of_host(&self) -> Option<Option<usize>> {
        match &self.manner {
            Manner::Host { taken, .. } => Some(taken.iter().position(|taken| !taken)),
            Manner::Node | Manner::Guest => None,
        }
    }

    pub(super) fn take_place(&mut self, place: usize) {
        if let Manner::Host { taken, .. } = &mut self.manner {
            taken[place] = true;
        }
    }

    fn free_place(&mut self, place: usize) {
        if let Manner::Host { taken, .. } = &mut self.manner {
            taken[place] = false;
        }
    }
}

/// A guest of a host: its place in the low 16 bits, and above them the number of guests admitted before. Values are
/// never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// Identity of a host, and its capacity for guests.
#[derive(Debug)]
pub struct HostOptions {
    /// The node that lets guests in.
    pub node: NodeId,
    /// Its run.
    pub run: RunNumber,
    /// Its session, not zero.
    pub session: SessionId,
    /// Listener for guests.
    pub listener: TcpListener,
    /// Maximum number of guests at a time.
    pub max_guests: u16,
    /// The bounds and times; a link to a guest has one rail, and `blocks` are at least two more than guests.
    pub settings: TcpSettings,
    /// TLS configuration, if guests must prove that they belong to the system.
    pub tls: Option<Tls>,
    /// For which of these names a guest's certificate must be, where guests need one.
    pub names: Vec<String>,
    /// The key of the run, if guests must prove that they have it.
    pub key: Option<RunKey>,
}

/// Event at a host.
#[derive(Debug)]
pub enum HostEvent {
    /// A guest was admitted.
    Entered {
        /// Its number.
        guest: GuestId,
        /// Its remote address, if it is still connected.
        address: Option<SocketAddr>,
    },
    /// A frame arrived.
    Received {
        /// The guest.
        guest: GuestId,
        /// The frame.
        frame: Frame,
    },
    /// A guest has left or its link is lost.
    Left {
        /// The guest.
        guest: GuestId,
        /// Reason.
        reason: DownReason,
    },
    /// A caller was refused.
    Refused(Refusal),
}

/// A node that lets guests in over TCP. Its duty cycle is that of an [`Endpoint`].
#[derive(Debug)]
pub struct TcpHost {
    endpoint: TcpEndpoint,
    /// The guest of each place.
    guests: Vec<Option<GuestId>>,
    last: u64,
}

impl TcpHost {
    /// A host whose guests may call from now on.
    ///
    /// # Errors
    /// Options that cannot work, or no file descriptors.
    pub fn new(options: HostOptions) -> Result<Self, TcpError> {
        let HostOptions { node, run, session, listener, max_guests, settings, tls, names, key } = options;
        let places = usize::from(max_guests);
        let settings = TcpSettings { rails: 1, blocks: settings.blocks.max(places + 2), ..settings };
        let place = |place| PeerAddress { node: name(place), addresses: Vec::new(), initiate: false };
        let peers = (0..places).map(place).collect();
        let options = TcpOptions { node, run, session, listener: Some(listener), peers, settings };
        if has_the_name_of_a_place(node) {
            return Err(TcpError::NamedTwice(node));
        }
        let mut endpoint = TcpEndpoint::new(options)?;
        endpoint.manner = Manner::Host { taken: vec![false; places], names };
        (endpoint.tls, endpoint.key) = (tls, key);
        Ok(Self { endpoint, guests: vec![None; places], last: 0 })
    }

    /// The next thing that happened; see [`Endpoint::poll`].
    pub fn poll(&mut self) -> Option<HostEvent> {
        loop {
            match self.endpoint.poll()? {
                Event::PeerUp { peer } => {
                    let place = usize::from(peer.index);
                    self.last += 1;
                    let guest = GuestId(self.last << u16::BITS | u64::from(peer.index));
                    self.guests[place] = Some(guest);
                    return Some(HostEvent::Entered { guest, address: self.address(place) });
                }
                Event::Received { from, frame } => {
                    if let Some(guest) = self.guests[usize::from(from.index)] {
                        return Some(HostEvent::Received { guest, frame });
                    }
                }
                Event::PeerDown { peer, reason } => {
                    let place = usize::from(peer.index);
                    self.endpoint.free_place(place);
                    if let Some(guest) = self.guests[place].take() {
                        return Some(HostEvent::Left { guest, reason });
                    }
                }
                Event::Refused { reason, .. } => return Some(HostEvent::Refused(reason)),
            }
        }
    }

    fn address(&self, place: usize) -> Option<SocketAddr> {
        let slot = self.endpoint.peers[place].link.as_ref().and_then(Link::only_rail)?;
        self.endpoint.connections[slot].as_ref()?.stream.peer_addr().ok()
    }

    fn place(&self, guest: GuestId) -> Option<usize> {
        let place = usize::from(guest.0 as u16);
        (*self.guests.get(place)? == Some(guest)).then_some(place)
    }

    /// Takes a frame for a guest; see [`Endpoint::send`].
    ///
    /// # Errors
    /// As there; [`SendError::UnknownPeer`] when the guest has left.
    pub fn send(&mut self, guest: GuestId, frame: Frame) -> Result<(), SendError> {
        match self.place(guest) {
            Some(place) => self.endpoint.send(name(place), frame),
            None => Err(SendError::UnknownPeer(frame)),
        }
    }

    /// Cuts the link to a guest. Data in flight are lost; [`HostEvent::Left`] follows.
    pub fn dismiss(&mut self, guest: GuestId) {
        if let Some(place) = self.place(guest) {
            self.endpoint.end(place, DownReason::Closed);
        }
    }

    /// See [`Endpoint::flush`].
    pub fn flush(&mut self) {
        self.endpoint.flush();
    }

    /// See [`Endpoint::wait`].
    pub fn wait(&mut self, timeout: Nanos) {
        self.endpoint.wait(timeout);
    }

    /// See [`Endpoint::waker`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.endpoint.waker()
    }

    /// See [`Endpoint::stats`].
    #[must_use]
    pub fn stats(&self) -> LinkStats {
        self.endpoint.stats()
    }

    /// Admits no more guests, delivers queued frames and says goodbye; see [`Endpoint::close`].
    pub fn close(&mut self, linger: Nanos) {
        self.endpoint.close(linger);
    }
}

/// Returns whether a node id is one that guests use internally: output nodes have no guests.
fn has_the_name_of_a_place(node: NodeId) -> bool {
    node.role == name(0).role
}

/// Options of a guest.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// This life of the guest, not zero.
    pub session: SessionId,
    /// The bounds and times; a link has one rail.
    pub settings: TcpSettings,
    /// Its certificate, where the host asks for one.
    pub tls: Option<Tls>,
    /// The key of the run, where it has one.
    pub key: Option<RunKey>,
}

/// Reason why a guest was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The address cannot be resolved.
    #[error("cannot resolve {address}: {error}; an address is host:port, 1.2.3.4:port or [::1]:port")]
    NoSuchHost {
        /// As it was given.
        address: String,
        /// The system's answer, which is in the text.
        error: std::io::Error,
    },
    /// No process accepts connections there.
    #[error(
        "cannot connect to {address}: {error}; check that the run is in progress and that this is its address for \
         programs that join (filter.listen, source.feed.listen)"
    )]
    NobodyThere {
        /// As it was given.
        address: String,
        /// The system's answer, which is in the text.
        error: std::io::Error,
    },
    /// A node of the system answers that expects other nodes there.
    #[error("{0} is the port of a run's nodes, not one for programs that join; use another port")]
    NoDoor(String),
    /// The caller is refused.
    #[error("{address} refuses: {reason}")]
    Refused {
        /// As it was given.
        address: String,
        /// Reason.
        reason: Refusal,
    },
    /// The connection ended before a greeting.
    #[error("{0} closed the connection without a greeting")]
    Closed(String),
    /// The endpoint could not be made.
    #[error(transparent)]
    SetUp(#[from] TcpError),
}

/// A guest's end of a link.
#[derive(Debug)]
pub struct TcpGuest {
    endpoint: TcpEndpoint,
    ended: Option<DownReason>,
    /// Frames that came along with the greeting.
    early: VecDeque<Frame>,
}

/// Internal name of the host at a guest.
const HOST: NodeId = NodeId::builder(0);

impl TcpGuest {
    /// Connects to the host at `address` and greets it. Waits for the connection and the answer as long as the settings
    /// allow.
    ///
    /// # Errors
    /// Why it is not admitted.
    pub fn meet(address: &str, options: GuestOptions) -> Result<Self, GuestError> {
        let GuestOptions { session, settings, tls, key } = options;
        let settings = TcpSettings { rails: 1, ..settings };
        let stream = call(address, &settings)?;
        let host = PeerAddress { node: HOST, addresses: Vec::new(), initiate: false };
        let (node, run) = (name(0), RunNumber(0));
        let options = TcpOptions { node, run, session, listener: None, peers: vec![host], settings };
        let mut endpoint = TcpEndpoint::unchecked(options)?;
        endpoint.manner = Manner::Guest;
        let deadline = Instant::now() + settings.greeting_timeout.to_std();
        let refused = |reason| GuestError::Refused { address: address.to_owned(), reason };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let secure = tls.as_ref().map(|tls| tls.call(host)).transpose();
        let secure = secure.map_err(|problem| refused(Refusal::Tls(problem)))?.map(Box::new);
        (endpoint.tls, endpoint.key) = (tls, key);
        let called = Called { peer: 0, rail: 0, epoch: 0 };
        let stage = Stage::Connecting { called, deadline };
        let io = |source| TcpError::Io { what: "watch the connection", source };
        endpoint.adopt(TcpStream::from_std(stream), secure, stage).map_err(io)?;
        endpoint.arm(deadline);
        let mut guest = Self { endpoint, ended: None, early: VecDeque::new() };
        guest.greet(address, deadline)?;
        Ok(guest)
    }

    fn greet(&mut self, address: &str, deadline: Instant) -> Result<(), GuestError> {
        loop {
            match self.endpoint.poll() {
                Some(Event::PeerUp { .. }) => return Ok(()),
                Some(Event::Refused { reason, .. }) => {
                    return Err(match reason {
                        Refusal::WrongRun(_) | Refusal::UnknownNode(_) => {
                            GuestError::NoDoor(address.to_owned())
                        }
                        reason => GuestError::Refused { address: address.to_owned(), reason },
                    });
                }
                Some(Event::Received { frame, .. }) => self.early.push_back(frame),
                Some(Event::PeerDown { .. }) => return Err(GuestError::Closed(address.to_owned())),
                None if self.endpoint.connections.iter().all(Option::is_none) => {
                    return Err(GuestError::Closed(address.to_owned()));
                }
                None => {
                    // The endpoint itself gives up at the deadline and reports it.
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.endpoint.wait(Nanos::from(left.max(Duration::from_millis(1))));
                }
            }
        }
    }

    /// The next frame of the host.
    pub fn take(&mut self) -> Option<Frame> {
        if let Some(frame) = self.early.pop_front() {
            return Some(frame);
        }
        loop {
            match self.endpoint.poll()? {
                Event::Received { frame, .. } => return Some(frame),
                Event::PeerDown { reason, .. } => self.ended = Some(reason),
                Event::PeerUp { .. } | Event::Refused { .. } => {}
            }
        }
    }

    /// Returns the number of reads from the network. A poll that raises it has done work, even if no frame is whole
    /// yet.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.endpoint.stats().reads
    }

    /// Returns the end of the link, if it has ended; frames that came before can still be taken.
    #[must_use]
    pub fn ended(&self) -> Option<DownReason> {
        self.ended
    }

    /// Takes a frame for the host; see [`Endpoint::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, frame: Frame) -> Result<(), SendError> {
        self.endpoint.send(HOST, frame)
    }

    /// See [`Endpoint::flush`].
    pub fn flush(&mut self) {
        self.endpoint.flush();
    }

    /// See [`Endpoint::wait`].
    pub fn wait(&mut self, timeout: Nanos) {
        self.endpoint.wait(timeout);
    }

    /// Delivers queued frames and says goodbye; see [`Endpoint::close`].
    pub fn close(&mut self, linger: Nanos) {
        self.endpoint.close(linger);
    }
}

/// Connects to the first of the addresses that answers.
fn call(address: &str, settings: &TcpSettings) -> Result<std::net::TcpStream, GuestError> {
    let no_host = |error| GuestError::NoSuchHost { address: address.to_owned(), error };
    let nobody = |error| GuestError::NobodyThere { address: address.to_owned(), error };
    let mut last = std::io::Error::other("the name has no address");
    for target in address.to_socket_addrs().map_err(no_host)? {
        match std::net::TcpStream::connect_timeout(&target, settings.connect_timeout.to_std()) {
            Ok(stream) if socket::leads_to_itself(&SockRef::from(&stream)) => {
                last = std::io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => {
                stream.set_nonblocking(true).map_err(nobody)?;
                socket::set_up(&SockRef::from(&stream), settings).map_err(nobody)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(nobody(last))
}
