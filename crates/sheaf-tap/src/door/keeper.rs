//! The door's thread.

use super::visitor::{Ended, Visitor, VisitorSocket};
use super::{Books, DoorCounts, DoorOptions, News, Seat, Shared, called};
use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};
use sheaf_key::{DoorProof, DoorPurposes};
use sheaf_protocol::sampler::{ConsumerId, Selection};
use sheaf_telemetry::log_as;
use sheaf_wire::NodeId;
use sheaf_wire::tap::{EndReason, emit_end};
use sheaf_wire::times::Times;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which queues are read while consumers are connected. The builder's thread wakes no thread for a
/// consumer: that would be a system call.
const TICK: Duration = Duration::from_millis(5);

/// Interval at which silent visitors are checked.
const SLOW_TICK: Duration = Duration::from_millis(100);

/// Time for which a closing door waits for consumers to take their last events.
const FAREWELL: Duration = Duration::from_secs(1);

/// Remedy for a consumer without the key.
const REMEDY: &str = "; give it a copy of `transport.key_file` (`sheaf tap --key`, `key` in Python)";

const WAKER: Token = Token(0);
const SOCKET: Token = Token(1);
const LISTEN: Token = Token(2);
const FIRST_VISITOR: usize = 3;

/// Serves a door.
pub(super) struct Keeper {
    options: DoorOptions,
    node: NodeId,
    welcome: bytes::Bytes,
    news: rtrb::Producer<News>,
    shared: Arc<Shared>,
    socket: Option<UnixListener>,
    listen: Option<TcpListener>,
    poll: Poll,
    /// The builder's end may be dropped before the wake-up is noticed; without a waker it would be lost.
    _waker: Arc<Waker>,
    visitors: Vec<Visitor>,
    /// The number of the next visitor; numbers are never used again.
    next: u32,
    /// Number of consumers introduced to the builder's thread.
    introduced: u64,
    counts: DoorCounts,
}

/// Ends of the queue and the state that the keeper shares with the builder's thread.
pub(super) struct BuilderLink {
    pub(super) news: rtrb::Producer<News>,
    pub(super) shared: Arc<Shared>,
}

/// Sockets at which consumers join.
pub(super) struct Sockets {
    pub(super) socket: Option<UnixListener>,
    pub(super) listen: Option<TcpListener>,
}

impl Keeper {
    pub(super) fn new(
        options: DoorOptions,
        node: NodeId,
        welcome: Vec<u8>,
        builder: BuilderLink,
        sockets: Sockets,
    ) -> io::Result<(Self, Arc<Waker>)> {
        let (BuilderLink { news, shared }, Sockets { mut socket, mut listen }) = (builder, sockets);
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        if let Some(socket) = &mut socket {
            poll.registry().register(socket, SOCKET, Interest::READABLE)?;
        }
        if let Some(listen) = &mut listen {
            poll.registry().register(listen, LISTEN, Interest::READABLE)?;
        }
        let (visitors, counts) = (Vec::new(), DoorCounts::default());
        let keeper = Self {
            options,
            node,
            welcome: welcome.into(),
            news,
            shared,
            socket,
            listen,
            poll,
            _waker: waker.clone(),
            visitors,
            next: 0,
            introduced: 0,
            counts,
        };
        Ok((keeper, waker))
    }

    /// Until the builder closes the door.
    pub(super) fn run(mut self) -> DoorCounts {
        let mut events = Events::with_capacity(64);
        let mut deadline: Option<Instant> = None;
        loop {
            if let Err(error) = self.poll.poll(&mut events, self.timeout())
                && error.kind() != ErrorKind::Interrupted
            {
                log_as!(
                    CONSUMERS_UNAVAILABLE, node = self.node;
                    "{}: the door for consumers closes: {error}", self.node
                );
                break;
            }
            let now = Instant::now();
            let over = self.shared.over.load(Ordering::Acquire);
            if !over {
                self.accept(now);
            }
            self.pump(now, over);
            if over {
                let until = *deadline.get_or_insert(now + FAREWELL);
                if self.visitors.is_empty() || now >= until {
                    break;
                }
            }
        }
        self.close()
    }

    fn timeout(&self) -> Option<Duration> {
        if self.visitors.iter().any(Visitor::is_listening) || self.shared.over.load(Ordering::Acquire) {
            Some(TICK)
        } else if self.visitors.is_empty() {
            None
        } else {
            Some(SLOW_TICK)
        }
    }

    fn accept(&mut self, now: Instant) {
        loop {
            let next = self.socket.as_ref().map(UnixListener::accept);
            match next.map(|accepted| accepted.map(|(stream, _)| VisitorSocket::Unix(stream))) {
                Some(Ok(socket)) => self.admit(socket, now),
                other => break self.note(other),
            }
        }
        loop {
            let next = self.listen.as_ref().map(TcpListener::accept);
            match next.map(|accepted| accepted.map(|(stream, _)| VisitorSocket::Tcp(stream))) {
                Some(Ok(socket)) => self.admit(socket, now),
                other => break self.note(other),
            }
        }
    }

    fn note(&self, accepted: Option<io::Result<VisitorSocket>>) {
        if let Some(Err(error)) = accepted
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted)
        {
            log_as!(CONSUMER_REFUSED, node = self.node; "{}: a consumer cannot join: {error}", self.node);
        }
    }

    fn admit(&mut self, mut socket: VisitorSocket, now: Instant) {
        // A consumer that has left keeps its place until the builder's thread has noticed.
        let leaving = self.introduced - self.shared.left.load(Ordering::Acquire);
        let listening = self.visitors.iter().filter(|visitor| visitor.is_listening()).count() as u64;
        let taken = self.visitors.len() + leaving.saturating_sub(listening) as usize;
        if taken >= self.options.consumers {
            self.counts.refused += 1;
            // The socket's buffer is empty; a visitor that does not get this message finds the connection closed.
            let _ = socket.write(&emit_end(EndReason::Full, &Default::default()));
            return;
        }
        let token = Token(FIRST_VISITOR + self.next as usize);
        if let Err(error) = socket.register(self.poll.registry(), token) {
            log_as!(CONSUMER_REFUSED, node = self.node; "{}: a consumer cannot join: {error}", self.node);
            return;
        }
        let proof = match &socket {
            VisitorSocket::Tcp(_) => {
                let key = self.options.key.clone();
                key.map(|key| DoorProof::new(key, DoorPurposes::CONSUMERS)).transpose()
            }
            VisitorSocket::Unix(_) => Ok(None),
        };
        let proof = match proof {
            Ok(proof) => proof,
            Err(error) => {
                return log_as!(
                    CONSUMER_REFUSED, node = self.node;
                    "{}: a consumer cannot join: {error}", self.node
                );
            }
        };
        self.visitors.push(Visitor::new(ConsumerId(self.next), socket, self.welcome.clone(), proof, now));
        self.next = self.next.wrapping_add(1);
    }

    /// Reads and writes all sockets that are ready, and drops those that have ended.
    fn pump(&mut self, now: Instant, over: bool) {
        let mut visitors = std::mem::take(&mut self.visitors);
        visitors.retain_mut(|visitor| match visitor.pump(now, &self.options, over) {
            None => {
                if let Some(selection) = visitor.take_selection() {
                    self.introduce(visitor, selection);
                }
                true
            }
            Some(ended) => {
                if let Ended::WrongKey = ended {
                    visitor.turn_away();
                }
                self.part(visitor, ended);
                false
            }
        });
        self.visitors = visitors;
    }

    /// Announces a new consumer to the builder's thread.
    fn introduce(&mut self, visitor: &mut Visitor, selection: Selection) {
        let places = usize::try_from(self.options.bounds.queue_events).unwrap_or(usize::MAX);
        let (producer, queue) = rtrb::RingBuffer::new(places);
        let books = Arc::new(Books::default());
        let seat =
            Seat { id: visitor.id, queue: producer, books: books.clone(), known_events: 0, known_bytes: 0 };
        visitor.sit_down(queue, books);
        self.tell(News::Joined(seat, selection));
        self.introduced += 1;
        self.counts.joined += 1;
        log_as!(
            CONSUMER_JOINED, node = self.node, peer = visitor.name;
            "{} joined", called(self.node, &visitor.name)
        );
    }

    fn part(&mut self, visitor: &Visitor, ended: Ended) {
        let (counts, sent) = visitor.books();
        self.counts.sent += sent;
        self.counts.missed += counts.missed();
        if visitor.is_listening() {
            self.tell(News::Left(visitor.id));
        }
        let who = called(self.node, &visitor.name);
        let missed = counts.missed();
        let books = format!("{sent} events sent, {missed} missed of {} accepted", counts.seen);
        match ended {
            Ended::WrongKey => {
                self.counts.wrong_key += 1;
                self.warn(
                    self.counts.wrong_key,
                    "a consumer was turned away: it did not prove that it has the key of the run",
                    REMEDY,
                );
            }
            Ended::Left if visitor.is_unproven() => {
                self.counts.wrong_key += 1;
                self.warn(
                    self.counts.wrong_key,
                    "a consumer left when it was asked for the key of the run",
                    REMEDY,
                );
            }
            Ended::Left if visitor.is_listening() => log_as!(
                CONSUMER_LEFT, node = self.node, peer = visitor.name;
                "{who} left: {books}"
            ),
            Ended::Left => log::debug!("{who} looked in and left"),
            Ended::Slow => {
                self.counts.slow += 1;
                log_as!(
                    CONSUMER_DROPPED, node = self.node, peer = visitor.name;
                    "{who} read nothing and was dropped: {books}"
                );
            }
            Ended::Silent => {
                self.counts.silent += 1;
                self.warn(self.counts.silent, "a consumer never sent its subscription and was dropped", "");
            }
            Ended::Nonsense(error) => {
                self.counts.nonsense += 1;
                self.warn(
                    self.counts.nonsense,
                    &format!("consumer {:?} was dropped: {error}", visitor.name),
                    "",
                );
            }
        }
    }

    /// Logs events that anyone who can reach the door can cause at any rate.
    fn warn(&self, count: u64, what: &str, remedy: &str) {
        match Times::to_log(count) {
            Some(times) => log_as!(
                CONSUMER_REFUSED, node = self.node;
                "{}: {what}{remedy}{times}", self.node
            ),
            None => log::debug!("{}: {what}", self.node),
        }
    }

    /// There is room: each consumer joins once and leaves once, and takes a place until its leave is known.
    fn tell(&mut self, news: News) {
        if self.news.push(news).is_err() {
            debug_assert!(self.news.is_abandoned(), "the ring has room for all consumers twice");
        }
        self.shared.news.store(true, Ordering::SeqCst);
    }

    /// No visitor waits any longer.
    fn close(mut self) -> DoorCounts {
        for visitor in std::mem::take(&mut self.visitors) {
            self.part(&visitor, Ended::Left);
        }
        if let (Some(_), Some(path)) = (self.socket.take(), &self.options.socket)
            && let Err(error) = std::fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            log_as!(FILE_NOT_REMOVED, node = self.node; "cannot remove {}: {error}", path.display());
        }
        self.counts
    }
}
