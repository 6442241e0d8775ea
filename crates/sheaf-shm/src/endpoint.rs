//! The endpoint: rounds over the links, sleep, and the port.

use super::arena::Arena;
use super::bell::Bell;
use super::copies::Copies;
use super::dial::{Dial, Who};
use super::link::{self, Lacks, Link, Look};
use super::settings::{ShmError, ShmOptions, ShmSettings};
use super::side::End;
use super::socket;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io;
use sheaf_transport::greeting::Greeting;
use sheaf_transport::kernel_polls::KernelPolls;
use sheaf_transport::mixed::PollableEndpoint;
use sheaf_transport::peers::PeerIndex;
use sheaf_transport::round::Round;
use sheaf_transport::{DownReason, Endpoint, Event, Frame, LinkStats, SendError};
use sheaf_wire::{ByteCount, Nanos, NodeId, SessionId};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Sleeps of this length and longer may end a millisecond late.
const COARSE_SLEEP: Duration = Duration::from_millis(20);

/// Maximum number of readiness events taken from the kernel at once; the others follow with the next poll.
const EVENTS_PER_LOOK: usize = 64;

/// Subject of a kernel event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch(u64);

pub(super) const LISTENER: Watch = Watch(0);
const BELL: Watch = Watch(1);

/// A node's place in a network of processes that share memory.
#[derive(Debug)]
pub struct ShmEndpoint {
    pub(super) me: Greeting,
    pub(super) settings: ShmSettings,
    pub(super) listener: Option<OwnedFd>,
    /// Not before then are callers accepted, and the listener is not watched: the process was out of file descriptors.
    pub(super) accepts_again: Option<Instant>,
    pub(super) index: PeerIndex,
    pub(super) peers: Vec<Peer>,
    /// Connections that are no links yet.
    pub(super) guests: Vec<Guest>,
    pub(super) bell: Arc<Bell>,
    pub(super) arena: Arena,
    copies: Copies,
    epoll: OwnedFd,
    /// Latest events of the kernel; the list is reused.
    seen: Vec<Watch>,
    last_watch: u64,
    kernel_polls: KernelPolls,
    /// Events that were not handed out yet, apart from links and frames.
    pub(super) happened: VecDeque<Event>,
    round: Round,
    /// The peers to be notified at the next flush.
    to_notify: Vec<usize>,
    /// The earliest deadline.
    pub(super) next_timer: Option<Instant>,
    pub(super) closed: bool,
    pub(super) stats: LinkStats,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// State of calls, if this node is the caller.
    pub(super) dial: Option<Dial>,
    /// The current link, and links that later sessions of the peer have made since, in order.
    pub(super) links: VecDeque<(Watch, Link)>,
    pub(super) last_session: SessionId,
    /// Whether `PeerUp` was reported for the current link.
    announced: bool,
    listed: bool,
}

/// A connection that is no link yet.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) connection: OwnedFd,
    pub(super) watch: Watch,
    pub(super) who: Who,
    pub(super) deadline: Instant,
}

impl ShmEndpoint {
    /// An endpoint; it begins to call its peers when it is first polled.
    ///
    /// # Errors
    /// Options that cannot work, a name that is in use, or no memory or file descriptors.
    pub fn new(options: ShmOptions) -> Result<Self, ShmError> {
        options.check()?;
        let ShmOptions { node, run, session, name, peers, arena, settings } = options;
        let io = |what| move |source: io::Errno| ShmError::Io { what, source: source.into() };
        let index = PeerIndex::new(peers.iter().map(|peer| peer.node)).map_err(ShmError::NamedTwice)?;
        let bell = Bell::new(&format!("sheaf.run{run}.{node}.bell")).map_err(io("make a bell"))?;
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("create the readiness queue (epoll)"))?;
        let watch = |file: &dyn AsFd, watch: Watch, flags| {
            epoll::add(&epoll, file.as_fd(), epoll::EventData::new_u64(watch.0), flags)
        };
        watch(&bell.event(), BELL, epoll::EventFlags::IN | epoll::EventFlags::ET)
            .map_err(io("watch the bell"))?;
        let listener = match name {
            None => None,
            Some(name) => {
                let socket = socket::listen(&name).map_err(|error| match error {
                    io::Errno::ADDRINUSE => ShmError::NameInUse(name.clone()),
                    source => ShmError::Io { what: "listen for callers", source: source.into() },
                })?;
                watch(&socket, LISTENER, epoll::EventFlags::IN).map_err(io("watch for callers"))?;
                Some(socket)
            }
        };
        let now = Instant::now();
        let peer = |peer: super::ShmPeer| Peer {
            node: peer.node,
            dial: peer.call.map(|name| Dial::new(name, now)),
            links: VecDeque::new(),
            last_session: SessionId(0),
            announced: false,
            listed: false,
        };
        let max_frame_bytes = settings.max_frame_bytes.as_usize();
        let copies = Copies::new(&arena, settings.block_bytes.as_usize(), settings.blocks, max_frame_bytes);
        Ok(Self {
            me: Greeting { node, run, session, max_frame_bytes },
            settings,
            listener,
            accepts_again: None,
            index,
            peers: peers.into_iter().map(peer).collect(),
            guests: Vec::new(),
            bell: Arc::new(bell),
            arena,
            copies,
            epoll,
            seen: Vec::with_capacity(EVENTS_PER_LOOK),
            last_watch: BELL.0,
            kernel_polls: KernelPolls::default(),
            happened: VecDeque::new(),
            round: Round::default(),
            to_notify: Vec::new(),
            next_timer: Some(now),
            closed: false,
            stats: LinkStats::default(),
        })
    }

    pub(super) fn next_watch(&mut self) -> Watch {
        self.last_watch += 1;
        Watch(self.last_watch)
    }

    /// Removes a file from the kernel's watch list.
    pub(super) fn unwatch(&self, file: impl AsFd) {
        // Cannot fail for a file that is watched.
        let _ = epoll::delete(&self.epoll, file);
    }

    pub(super) fn watch(&self, file: impl AsFd, watch: Watch) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, file, epoll::EventData::new_u64(watch.0), flags)
    }

    /// Makes sure that the timers run by then.
    pub(super) fn arm(&mut self, at: Instant) {
        self.next_timer = Some(self.next_timer.map_or(at, |timer| timer.min(at)));
    }

    /// Asks the kernel for new connections, dead peers and the bell, for up to `timeout` (`None`: without limit).
    /// Returns `true` if there was something.
    fn look(&mut self, timeout: Option<Duration>) -> bool {
        self.stats.system_calls += 1;
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = [MaybeUninit::uninit(); EVENTS_PER_LOOK];
        self.seen.clear();
        // Fails with a signal: the caller comes back. Nothing else can be wrong with an open readiness queue.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            self.seen.extend(events.iter().map(|event| Watch(event.data.u64())));
        }
        // After the sleep, which may have been long.
        self.kernel_polls.note();
        for index in 0..self.seen.len() {
            match self.seen[index] {
                BELL => {}
                LISTENER => self.accept(),
                watch if self.guests.iter().any(|guest| guest.watch == watch) => self.handle_caller(watch),
                watch => self.check_link(watch),
            }
        }
        let something = !self.seen.is_empty();
        self.run_timers(Instant::now());
        self.arena.limbo().reap();
        something
    }

    /// Announces a sleep of at most `timeout`; returns how long it may last (inner `None`: without limit), or `None` if
    /// there is something to do first.
    fn announce_sleep(&mut self, timeout: Nanos) -> Option<Option<Duration>> {
        if self.bell.answer() || timeout == Nanos::ZERO {
            return None;
        }
        if !self.bell.lie_down() {
            self.bell.answer();
            return None;
        }
        let timeout = (timeout != Nanos::MAX).then(|| timeout.to_std());
        let timer = self.next_timer.map(|timer| timer.saturating_duration_since(Instant::now()));
        Some(match (timeout, timer) {
            (Some(timeout), Some(timer)) => Some(timeout.min(timer)),
            (timeout, timer) => timeout.or(timer),
        })
    }

    /// Sleeps until the kernel has something, or the time is over. `true` if there was something.
    fn sleep(&mut self, timeout: Option<Duration>) -> bool {
        let Some(timeout) = timeout.filter(|timeout| *timeout < COARSE_SLEEP) else {
            return self.look(timeout);
        };
        // The readiness queue's own waits end at whole milliseconds, which is far too late for the next trigger.
        self.stats.system_calls += 1;
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        // A signal ends the sleep early; the following poll finds nothing.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timeout));
        self.look(Some(Duration::ZERO))
    }

    /// A link's socket has become readable: that is its end.
    fn check_link(&mut self, watch: Watch) {
        let mut links = self.peers.iter_mut().flat_map(|peer| &mut peer.links);
        let Some((_, link)) = links.find(|(it, _)| *it == watch) else { return };
        if link::socket_is_over(&link.socket) {
            link.socket_ended = true;
            // It stays readable forever. Cannot fail for a socket that is watched.
            let _ = epoll::delete(&self.epoll, &link.socket);
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
        let peer = &mut self.peers[place];
        let node = peer.node;
        let (_, link) = peer.links.front_mut()?;
        if !peer.announced {
            peer.announced = true;
            self.stats.links_up += 1;
            return Some(Event::PeerUp { peer: node });
        }
        if self.round.is_first_of_turn() {
            link.collect();
        }
        match link.take(&mut self.stats.bytes_copied) {
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
                self.stats.links_violated += u64::from(reason == DownReason::Violated);
                // If both sides close, the peer can still take what is in the ring.
                if !self.closed || reason != DownReason::Closed {
                    self.stats.frames_lost += link.not_taken();
                }
                link.end(End::Lost);
                peer.announced = false;
                if let Some((_, link)) = peer.links.pop_front() {
                    self.arena.limbo().take(link.depart());
                }
                if peer.links.is_empty() && !self.closed {
                    self.rest(place);
                }
                Some(Event::PeerDown { peer: node, reason })
            }
        }
    }

    /// Sends a frame over a link: the rest of [`Endpoint::send`].
    fn push(&mut self, place: usize, frame: Frame) -> Result<(), SendError> {
        let bytes = frame.bytes();
        let Self { peers, arena, copies, .. } = self;
        let Some((_, link)) = peers[place].links.front_mut() else {
            return Err(SendError::NotConnected(frame));
        };
        let sent = match link.send(frame, bytes, arena, copies) {
            Ok(sent) => Ok(sent),
            Err((frame, _)) => {
                // Try to obtain what this node lacks: take back returned payload, and set a wish for the rest; then
                // check once more.
                for (_, link) in peers.iter_mut().flat_map(|peer| &mut peer.links) {
                    link.wish();
                    link.collect();
                }
                arena.limbo().reap();
                match peers[place].links.front_mut() {
                    Some((_, link)) => link.send(frame, bytes, arena, copies),
                    None => Err((frame, Lacks::Room)),
                }
            }
        };
        match sent {
            Ok(sent) => {
                self.stats.frames_sent += 1;
                self.stats.bytes_sent += bytes as u64;
                self.stats.bytes_copied += sent.copied_bytes as u64;
                self.note(place);
                Ok(())
            }
            Err((frame, lacks)) => {
                // A driver that repeats its calls must not wait for a receiver that was never woken.
                if let Some((_, link)) = self.peers[place].links.front_mut() {
                    self.stats.system_calls += link.notify();
                }
                self.stats.refused_full += 1;
                self.stats.memory_exhausted += u64::from(lacks == Lacks::Memory);
                Err(SendError::Full(frame))
            }
        }
    }
}

impl Endpoint for ShmEndpoint {
    fn node(&self) -> NodeId {
        self.me.node
    }

    fn send(&mut self, to: NodeId, frame: Frame) -> Result<(), SendError> {
        let Some(place) = self.index.place(to) else {
            self.stats.refused_unknown_peer += 1;
            return Err(SendError::UnknownPeer(frame));
        };
        let peer = &self.peers[place];
        let link = peer.links.front().filter(|(_, link)| peer.announced && !link.is_over());
        let Some((_, link)) = link.filter(|_| !self.closed) else {
            self.stats.refused_not_connected += 1;
            return Err(SendError::NotConnected(frame));
        };
        if frame.bytes() > link.max_frame_bytes {
            let limit = ByteCount::from(link.max_frame_bytes);
            self.stats.refused_too_large += 1;
            return Err(SendError::TooLarge { frame, limit });
        }
        self.push(place, frame)
    }

    fn flush(&mut self) {
        // Frames that arrived since the last round have rung the bell. Only this endpoint knows the frames that an
        // unfinished round left.
        if self.round.is_in_progress() {
            self.bell.ring();
        }
        while let Some(place) = self.to_notify.pop() {
            let peer = &mut self.peers[place];
            peer.listed = false;
            if let Some((_, link)) = peer.links.front_mut() {
                self.stats.system_calls += link.notify();
            }
        }
    }

    fn poll(&mut self) -> Option<Event> {
        if self.round.begin() && self.kernel_polls.are_due() {
            self.look(Some(Duration::ZERO));
        }
        if let Some(event) = self.happened.pop_front() {
            return Some(event);
        }
        while let Some(place) = self.round.turn(self.peers.len()) {
            if let Some(event) = self.poll_peer(place) {
                return Some(event);
            }
            self.round.pass();
        }
        if self.round.end() {
            self.bell.ring();
        }
        None
    }

    fn wait(&mut self, timeout: Nanos) {
        self.flush();
        if let Some(longest) = self.announce_sleep(timeout) {
            self.stats.sleeps += 1;
            self.stats.wake_ups += u64::from(self.sleep(longest));
            self.bell.answer();
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }

    fn close(&mut self, _linger: Nanos) {
        // Sent data stay in memory that the peers have mapped, even after this process has ended: there is nothing to
        // wait for.
        self.flush();
        self.closed = true;
        self.listener = None;
        self.guests.clear();
        self.next_timer = None;
        for (_, link) in self.peers.iter_mut().flat_map(|peer| &mut peer.links) {
            link.end(End::Closed);
        }
    }
}

impl Drop for ShmEndpoint {
    fn drop(&mut self) {
        for (_, mut link) in self.peers.iter_mut().flat_map(|peer| peer.links.drain(..)) {
            link.end(End::Lost);
            self.arena.limbo().take(link.depart());
        }
    }
}

impl PollableEndpoint for ShmEndpoint {
    fn peers(&self) -> Vec<NodeId> {
        self.peers.iter().map(|peer| peer.node).collect()
    }

    fn lie_down(&mut self, timeout: Nanos) -> Option<Duration> {
        self.announce_sleep(timeout).map(|longest| longest.unwrap_or(Duration::MAX))
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn get_up(&mut self) {
        self.look(Some(Duration::ZERO));
        self.bell.answer();
    }
}
