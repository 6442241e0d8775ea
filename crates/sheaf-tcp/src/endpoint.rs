//! The endpoint: rounds over the connections, sleep, and the port.

use super::blocks::Blocks;
use super::greeting::GreetingBuffer;
use super::link::{Called, Guest, Peer, Rail};
use super::manner::Manner;
use super::notice::Notice;
use super::proving::{CalledWords, CallerWords, ProofBuffer};
use super::settings::{TcpError, TcpOptions, TcpSettings};
use super::socket;
use super::tls::{Session, Tls};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use sheaf_key::RunKey;
use sheaf_transport::greeting::Greeting;
use sheaf_transport::mixed::PollableEndpoint;
use sheaf_transport::peers::PeerIndex;
use sheaf_transport::{Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId};
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

const WAKER: Token = Token(0);
const FIRST_LISTENER: usize = 1;
const MAX_LISTENERS: usize = 64;
const FIRST_CONNECTION: usize = FIRST_LISTENER + MAX_LISTENERS;

/// Maximum number of readiness events taken from the kernel at once; the others follow with the next poll.
const EVENTS_PER_LOOK: usize = 256;

/// Duration of a sleep after reading stopped for lack of memory: nothing signals that the node drops a frame.
const MEMORY_PAUSE: Duration = Duration::from_millis(1);

/// Sleeps of this length and longer may end a millisecond late.
const COARSE_SLEEP: Duration = Duration::from_millis(20);

/// The kernel's interface counts milliseconds in 32 bits.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// A node's place in a network of TCP connections.
#[derive(Debug)]
pub struct TcpEndpoint {
    pub(super) me: Greeting,
    pub(super) settings: TcpSettings,
    pub(super) poll: Poll,
    events: Events,
    pub(super) notice: Arc<Notice>,
    pub(super) listeners: Vec<Listener>,
    pub(super) index: PeerIndex,
    pub(super) peers: Vec<Peer>,
    /// By their tokens, less [`FIRST_CONNECTION`].
    pub(super) connections: Vec<Option<Connection>>,
    pub(super) blocks: Blocks,
    /// Events that were not handed out yet, apart from frames.
    pub(super) happened: VecDeque<Event>,
    /// The connections that are still to be served in this round, and the one whose frames are being handed out.
    round: VecDeque<usize>,
    pub(super) turn: Option<usize>,
    in_round: bool,
    /// Whether the kernel was asked for readiness since the last round began.
    looked: bool,
    /// Whether a queue that had refused a frame has room: the sender must not sleep on it.
    pub(super) room_made: bool,
    /// The earliest time at which something is to be done.
    pub(super) next_timer: Option<Instant>,
    /// Time of the next check whether the peers' machines answer.
    pub(super) machines_at: Instant,
    pub(super) closing: bool,
    pub(super) tls: Option<Tls>,
    pub(super) key: Option<RunKey>,
    pub(super) manner: Manner,
    pub(super) stats: LinkStats,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    /// Whether there may be a connection to accept.
    pub(super) ready: bool,
    /// Not before then: the process was out of file descriptors.
    pub(super) not_before: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// TLS session, if the endpoint's links are secure, from the time when the connection is up.
    pub(super) tls: Option<Box<Session>>,
    pub(super) stage: Stage,
    /// Readiness as the kernel reported it last; it reports changes only.
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the end of the stream was signalled: after a short read, more may follow.
    pub(super) end_in_sight: bool,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Called, no answer from the kernel yet.
    Connecting { called: Called, deadline: Instant },
    /// The other side has yet to greet. `called`: the peer, if this side called; `said`: the caller's greeting, if
    /// there is a key.
    Greeting { called: Option<Called>, said: Option<CallerWords>, buffer: GreetingBuffer, deadline: Instant },
    /// A caller that was answered has to prove that it has the key.
    Proving { guest: Guest, said: CalledWords, buffer: ProofBuffer, deadline: Instant },
    /// A link's only connection, or one of its rails.
    Up(Box<Rail>),
}

impl TcpEndpoint {
    /// An endpoint; it begins to call its peers when it is first polled.
    ///
    /// # Errors
    /// Options that cannot work, or no file descriptors.
    pub fn new(options: TcpOptions) -> Result<Self, TcpError> {
        options.check()?;
        Self::unchecked(options)
    }

    pub(super) fn unchecked(options: TcpOptions) -> Result<Self, TcpError> {
        let TcpOptions { node, run, session, listener, peers, settings } = options;
        let io = |what| move |source| TcpError::Io { what, source };
        let index = PeerIndex::new(peers.iter().map(|peer| peer.node)).map_err(TcpError::NamedTwice)?;
        let poll = Poll::new().map_err(io("create the readiness queue (epoll)"))?;
        let waker = mio::Waker::new(poll.registry(), WAKER).map_err(io("create the waker"))?;
        let now = Instant::now();
        let peers: Vec<Peer> =
            peers.into_iter().map(|peer| Peer::new(peer, settings.rails, node, now)).collect();
        let mut endpoint = Self {
            me: Greeting { node, run, session, max_frame_bytes: settings.max_frame_bytes.as_usize() },
            settings,
            poll,
            events: Events::with_capacity(EVENTS_PER_LOOK),
            notice: Arc::new(Notice::new(waker)),
            listeners: Vec::new(),
            index,
            peers,
            connections: Vec::new(),
            blocks: Blocks::new(settings.block_bytes.as_usize(), settings.blocks),
            happened: VecDeque::new(),
            round: VecDeque::new(),
            turn: None,
            in_round: false,
            looked: false,
            room_made: false,
            next_timer: Some(now),
            machines_at: now,
            closing: false,
            tls: None,
            key: None,
            manner: Manner::Node,
            stats: LinkStats::default(),
        };
        if let Some(listener) = listener {
            endpoint.listen_too(listener)?;
        }
        Ok(endpoint)
    }

    /// Answers also at this socket, at most 64 in all: where a node has several addresses, one for each of its rails.
    ///
    /// # Errors
    /// If the operating system refuses, or it is one too many.
    pub fn listen_too(&mut self, listener: std::net::TcpListener) -> Result<(), TcpError> {
        let token = Token(FIRST_LISTENER + self.listeners.len());
        let listener = if self.listeners.len() < MAX_LISTENERS {
            listen(listener, token, &self.poll, &self.settings)
        } else {
            Err(std::io::Error::other("there are 64 already"))
        };
        let failed = |source| TcpError::Io { what: "set up the listener", source };
        self.listeners.push(listener.map_err(failed)?);
        Ok(())
    }

    /// Makes all links secure: only peers with a certificate of the system are accepted. To be called before the first
    /// poll.
    pub fn secure(&mut self, tls: Tls) {
        self.tls = Some(tls);
    }

    /// Also accepts a certificate for `name` from a calling peer, if links are secure: its name in the configuration.
    pub fn also_named(&mut self, peer: NodeId, name: &str) {
        if let Some(place) = self.index.place(peer) {
            self.peers[place].names.push(name.to_owned());
        }
    }

    /// Has all peers prove that they have the key of the run, as this node proves it to them. To be called before the first
    /// poll.
    pub fn authenticate(&mut self, key: RunKey) {
        self.key = Some(key);
    }

    /// Changes the addresses of a peer that this node calls, from the next attempt to connect on. An existing link
    /// stays. Does nothing for any other node.
    pub fn set_addresses(&mut self, peer: NodeId, addresses: Vec<String>) {
        let place = self.index.place(peer);
        if let Some(place) = place {
            self.peers[place].dialers.iter_mut().for_each(|dialer| dialer.set_addresses(addresses.clone()));
        }
    }

    /// The receive memory in use, at most `blocks` times `block_bytes` of the settings; frames larger than a block, and
    /// small ones that were copied, come on top until they are dropped.
    #[must_use]
    pub fn receive_memory(&self) -> ByteCount {
        ByteCount::from(self.blocks.allocated_bytes())
    }

    /// Watches `stream` under a free token.
    pub(super) fn adopt(
        &mut self,
        mut stream: TcpStream,
        tls: Option<Box<Session>>,
        stage: Stage,
    ) -> std::io::Result<usize> {
        let free = self.connections.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.connections.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(slot + FIRST_CONNECTION), interest)?;
        let connection =
            Connection { stream, tls, stage, readable: false, writable: false, end_in_sight: false };
        match free {
            Some(slot) => self.connections[slot] = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        Ok(slot)
    }

    /// Stops watching a connection and gives it out to be dropped.
    pub(super) fn release(&mut self, slot: usize) -> Option<Connection> {
        let mut connection = self.connections.get_mut(slot)?.take()?;
        // Cannot fail for a stream that is registered; closing it would do the same.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        Some(connection)
    }

    /// Makes sure that the timers run by then.
    pub(super) fn arm(&mut self, at: Instant) {
        self.next_timer = Some(self.next_timer.map_or(at, |timer| timer.min(at)));
    }

    /// Asks the kernel what has changed, for up to `timeout` (`None`: without limit).
    fn look(&mut self, timeout: Option<Duration>) -> bool {
        self.looked = true;
        self.stats.system_calls += 1;
        let Self { poll, events, connections, listeners, .. } = self;
        if poll.poll(events, timeout).is_err() {
            // A signal: the caller comes back. Nothing else can be wrong with an open readiness queue.
            return false;
        }
        for event in events.iter() {
            match event.token() {
                WAKER => {}
                Token(token @ FIRST_LISTENER..FIRST_CONNECTION) => {
                    listeners.get_mut(token - FIRST_LISTENER).into_iter().for_each(|it| it.ready = true);
                }
                Token(token) => {
                    let connection = connections.get_mut(token - FIRST_CONNECTION).and_then(Option::as_mut);
                    if let Some(connection) = connection {
                        connection.note(event);
                    }
                }
            }
        }
        !events.is_empty()
    }

    fn begin_round(&mut self) {
        self.in_round = true;
        if !self.looked {
            self.look(Some(Duration::ZERO));
        }
        self.looked = false;
        let now = Instant::now();
        self.run_timers(now);
        self.accept(now);
        let ready = |(slot, connection): (usize, &Option<Connection>)| {
            connection.as_ref().is_some_and(Connection::is_ready).then_some(slot)
        };
        self.round.extend(self.connections.iter().enumerate().filter_map(ready));
    }

    fn serve(&mut self, slot: usize) {
        match self.connections[slot].as_ref().map(|connection| &connection.stage) {
            None => {}
            Some(Stage::Connecting { .. }) => self.finish_connect(slot),
            Some(Stage::Greeting { .. }) => self.read_greeting(slot),
            Some(Stage::Proving { .. }) => self.read_proof(slot),
            Some(Stage::Up(_)) => self.read_frames(slot),
        }
    }

    /// Returns whether a round would find work without asking the kernel, and could do it.
    fn work_is_left(&self) -> bool {
        let accepting = |listener: &Listener| listener.ready && listener.not_before.is_none();
        self.in_round
            || !self.happened.is_empty()
            || self.listeners.iter().any(accepting)
            || self.connections.iter().flatten().any(|it| it.is_ready() && !it.is_starved())
    }

    /// Returns the longest sleep: until the next timer, and only briefly while reading has stopped.
    fn longest_sleep(&self, timeout: Duration) -> Duration {
        let timer = self.next_timer.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
        let starved = self.connections.iter().flatten().any(Connection::is_starved);
        timeout.min(timer).min(if starved { MEMORY_PAUSE } else { timeout })
    }

    fn sleep(&mut self, timeout: Duration) {
        self.stats.sleeps += 1;
        let timeout = timeout.min(LONGEST_SLEEP);
        let woken = if timeout < COARSE_SLEEP { self.doze(timeout) } else { self.look(Some(timeout)) };
        self.stats.wake_ups += u64::from(woken);
    }

    /// A sleep that ends in time: the readiness queue's own waits end at whole milliseconds, which is far too late for
    /// the next trigger.
    fn doze(&mut self, timeout: Duration) -> bool {
        self.stats.system_calls += 1;
        let queue = self.poll.registry();
        let nanoseconds = timeout.subsec_nanos().into();
        let timeout = Timespec { tv_sec: 0, tv_nsec: nanoseconds };
        // A signal ends the sleep early; the following poll finds nothing.
        let _ = rustix::event::poll(&mut [PollFd::new(queue, PollFlags::IN)], Some(&timeout));
        self.look(Some(Duration::ZERO))
    }

    /// Queues a frame for a peer: the rest of [`Endpoint::send`].
    fn queue(&mut self, place: usize, frame: Frame) -> Result<(), SendError> {
        let Some(link) = self.peers[place].link.as_mut().filter(|_| !self.closing) else {
            self.stats.refused_not_connected += 1;
            return Err(SendError::NotConnected(frame));
        };
        let bytes = frame.bytes();
        if bytes > link.max_frame_bytes {
            self.stats.refused_too_large += 1;
            let limit = ByteCount::from(link.max_frame_bytes);
            return Err(SendError::TooLarge { frame, limit });
        }
        let only =
            link.only_rail().and_then(|slot| self.connections[slot].as_mut()).and_then(Connection::rail);
        let taken = match (&mut link.order, only) {
            (Some(order), _) => order.outgoing.push(frame, bytes),
            (None, Some(rail)) => rail.outbox.push(frame, bytes),
            (None, None) => Err(frame),
        };
        if let Err(frame) = taken {
            link.refused = true;
            self.stats.refused_full += 1;
            return Err(SendError::Full(frame));
        }
        self.stats.frames_sent += 1;
        self.stats.bytes_sent += bytes as u64;
        Ok(())
    }
}

fn listen(
    listener: std::net::TcpListener,
    token: Token,
    poll: &Poll,
    settings: &TcpSettings,
) -> std::io::Result<Listener> {
    listener.set_nonblocking(true)?;
    socket::set_buffers(&SockRef::from(&listener), settings)?;
    let mut socket = TcpListener::from_std(listener);
    poll.registry().register(&mut socket, token, Interest::READABLE)?;
    Ok(Listener { socket, ready: true, not_before: None })
}

/// Sends as much as the kernel takes, in records if the connection is secure; returns the number of bytes.
pub(super) fn send(
    stream: &TcpStream,
    tls: Option<&mut Session>,
    pieces: &[IoSlice<'_>],
) -> std::io::Result<usize> {
    match tls {
        Some(tls) => tls.send(stream, pieces),
        None => socket::send(stream, pieces),
    }
}

/// Receives into `room`; gives the number of bytes.
pub(super) fn receive_slice(
    stream: &TcpStream,
    tls: Option<&mut Session>,
    room: &mut [u8],
) -> std::io::Result<usize> {
    match tls {
        Some(tls) => tls.receive_slice(stream, room),
        None => socket::receive_slice(stream, room),
    }
}

impl Connection {
    fn note(&mut self, event: &mio::event::Event) {
        let over = event.is_read_closed() || event.is_error();
        self.end_in_sight |= over;
        self.readable |= over || event.is_readable();
        if let (Some(tls), true) = (&mut self.tls, event.is_readable()) {
            tls.note_readable();
        }
        self.writable |= over || event.is_writable();
    }

    /// Sends as much as the kernel takes; returns the number of bytes.
    pub(super) fn send(&mut self, pieces: &[IoSlice<'_>]) -> std::io::Result<usize> {
        send(&self.stream, self.tls.as_deref_mut(), pieces)
    }

    fn is_ready(&self) -> bool {
        match self.stage {
            Stage::Connecting { .. } => self.writable,
            Stage::Greeting { .. } | Stage::Proving { .. } | Stage::Up(_) => self.readable,
        }
    }

    fn is_starved(&self) -> bool {
        matches!(&self.stage, Stage::Up(rail) if rail.starved)
    }

    pub(super) fn rail(&mut self) -> Option<&mut Rail> {
        match &mut self.stage {
            Stage::Up(rail) => Some(rail),
            Stage::Connecting { .. } | Stage::Greeting { .. } | Stage::Proving { .. } => None,
        }
    }
}

impl Endpoint for TcpEndpoint {
    fn node(&self) -> NodeId {
        self.me.node
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let Some(place) = self.index.place(to) else {
            self.stats.refused_unknown_peer += 1;
            return Err(SendError::UnknownPeer(frame));
        };
        self.queue(place, frame)
    }

    fn flush(&mut self) {
        for place in 0..self.peers.len() {
            self.flush_link(place);
        }
    }

    fn poll(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.happened.pop_front() {
                return Some(event);
            }
            if let Some(slot) = self.turn {
                if let Some(event) = self.next_frame(slot) {
                    return Some(event);
                }
            } else if let Some(slot) = self.round.pop_front() {
                self.serve(slot);
            } else if std::mem::take(&mut self.in_round) {
                return None;
            } else {
                self.begin_round();
            }
        }
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        if let Some(longest) = self.lie_down(timeout) {
            self.sleep(longest);
            self.notice.agreement.answer();
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.notice.clone())
    }

    fn stats(&self) -> LinkStats {
        LinkStats { bytes_copied: self.blocks.bytes_copied(), ..self.stats }
    }

    fn close(&mut self, linger: Nanos) {
        self.say_goodbye();
        let deadline = Instant::now().checked_add(linger.to_std());
        let mut arrived = VecDeque::new();
        loop {
            arrived.extend(std::iter::from_fn(|| self.poll()));
            // Peers may wait for what has arrived: an acknowledgement is sent before a sleep, not after.
            self.flush();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if self.peers.iter().all(|peer| peer.link.is_none()) || left == Some(Duration::ZERO) {
                break;
            }
            if !self.work_is_left() {
                self.sleep(self.longest_sleep(left.unwrap_or(Duration::MAX)));
            }
        }
        self.give_up_links();
        arrived.append(&mut self.happened);
        self.happened = arrived;
    }
}

impl PollableEndpoint for TcpEndpoint {
    fn peers(&self) -> Vec<NodeId> {
        self.peers.iter().map(|peer| peer.node).collect()
    }

    fn lie_down(&mut self, timeout: Nanos) -> Option<Duration> {
        if std::mem::take(&mut self.room_made)
            || self.work_is_left()
            || self.notice.agreement.answer()
            || timeout == Nanos::ZERO
        {
            return None;
        }
        if !self.notice.agreement.lie_down() {
            self.notice.agreement.answer();
            return None;
        }
        Some(self.longest_sleep(timeout.to_std()))
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.poll.registry().as_fd()
    }

    fn get_up(&mut self) {
        self.look(Some(Duration::ZERO));
        self.notice.agreement.answer();
    }
}
