//! Workers that join over a network: a thread carries frames between their links and the builder unit's thread.
//!
//! The thread admits workers, detects their end, and does the reading and writing, so that the builder unit's thread
//! makes no system call for them. Two lock-free rings connect the two threads.
//!
//! The dispatcher bounds the data in flight to a worker (`filter.ahead` events); the receive blocks of the link bound
//! those in flight from it. While the ring to the builder unit is full, nothing is read.

use super::give::GiveError;
use super::said::{Said, said};
use super::{Farm, Line, Member};
use crate::judging::WorkerTimes;
use crate::processor::frame_of;
use bytes::{Bytes, BytesMut};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use sheaf_protocol::farm::{Departure, Seat, Ticket};
use sheaf_tcp::{GuestId, HostEvent, HostOptions, TcpError, TcpHost};
use sheaf_telemetry::log_as;
use sheaf_transport::{Frame, SendError};
use sheaf_wire::farm::{CLOSE_RECORD, Hello, Welcome, WordReader, explain, split_words};
use sheaf_wire::{ByteCount, Event, Nanos, NodeId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of slots in the rings between the two threads. If the ring to the network thread is full, messages wait in
/// the builder unit, bounded by the number of events that processors have requested.
const RING: usize = 4096;

/// Longest sleep of the thread. Work wakes it earlier; the limit bounds the time until a silent caller is disconnected.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(200);

/// Pause during which the thread reads no links, while the builder unit does not take what has arrived.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// Time that an accepted connection has for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that the last messages have to leave when the run is over.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Listener for processors of other hosts.
pub struct ListenSetup {
    /// The listening socket, and the bounds of links.
    pub host: HostOptions,
    /// Welcome that joining processes receive.
    pub welcome: Welcome,
}

/// A processor that joined over a network.
pub(super) struct RemoteLine {
    guest: GuestId,
    hello: Hello,
    address: Option<SocketAddr>,
    reader: WordReader,
    times: WorkerTimes,
}

impl RemoteLine {
    pub(super) fn describe(&self) -> String {
        let Hello { process, host } = &self.hello;
        match self.address {
            Some(address) => format!("process {process} of {host}, {address}"),
            None => format!("process {process} of {host}"),
        }
    }

    pub(super) fn times(&self) -> WorkerTimes {
        self.times
    }
}

/// Order from the builder unit's thread.
enum Order {
    Send(GuestId, Frame),
    Dismiss(GuestId),
}

/// Message to the builder unit's thread.
enum News {
    Entered(GuestId, Hello, Option<SocketAddr>),
    Said(GuestId, Bytes),
    Left(GuestId),
    Refused(String),
}

/// The builder unit's end of the way to processors on other hosts.
pub(super) struct Remote {
    orders: Producer<Order>,
    /// Orders that find no room in `orders`.
    backlog: VecDeque<Order>,
    news: Consumer<News>,
    /// Something was ordered and the thread was not woken.
    ordered: bool,
    waker: Waker,
    max_frame: ByteCount,
    record: Vec<u8>,
    heads: BytesMut,
    over: Arc<Over>,
    thread: Option<JoinHandle<()>>,
}

/// Requests to the thread to end.
#[derive(Default)]
struct Over {
    /// Whether to say goodbye, deliver pending messages, and end.
    politely: AtomicBool,
    /// End.
    at_once: AtomicBool,
}

/// Error when setting up the listener for processors of other hosts.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The links.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The thread.
    #[error("a thread for them cannot be started")]
    Thread(#[source] std::io::Error),
}

impl Remote {
    /// Lets processors in; `waker` wakes the builder unit's thread.
    pub(super) fn open(setup: ListenSetup, node: NodeId, waker: Waker) -> Result<Self, ListenError> {
        let max_frame = setup.host.settings.max_frame_bytes;
        let host = TcpHost::new(setup.host)?;
        let its_waker = host.waker();
        let ((orders, its_orders), (its_news, news)) = (RingBuffer::new(RING), RingBuffer::new(RING));
        let over = Arc::new(Over::default());
        let porter = Porter {
            host,
            orders: its_orders,
            news: its_news,
            must_wake: false,
            held: VecDeque::new(),
            waker,
            over: over.clone(),
            welcome: setup.welcome.emit().into(),
            callers: BTreeMap::new(),
            pending: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name(format!("{node}.farm.net")).spawn(|| porter.run());
        Ok(Self {
            orders,
            backlog: VecDeque::new(),
            news,
            ordered: false,
            waker: its_waker,
            max_frame,
            record: Vec::new(),
            heads: BytesMut::new(),
            over,
            thread: Some(thread.map_err(ListenError::Thread)?),
        })
    }

    fn order(&mut self, order: Order) {
        self.ordered = true;
        if !self.backlog.is_empty() {
            return self.backlog.push_back(order);
        }
        if let Err(PushError::Full(order)) = self.orders.push(order) {
            self.backlog.push_back(order);
        }
    }

    /// Sends a processor an event.
    ///
    /// # Errors
    /// Why it cannot have this event.
    pub(super) fn give(
        &mut self,
        line: &RemoteLine,
        ticket: Ticket,
        event: &Event<Bytes>,
    ) -> Result<(), GiveError> {
        let frame = frame_of(ticket.0, event, &mut self.record, &mut self.heads);
        if frame.bytes() > self.max_frame.as_usize() {
            return Err(GiveError::TooLarge { bytes: frame.bytes().into(), limit: self.max_frame });
        }
        self.order(Order::Send(line.guest, frame));
        Ok(())
    }

    /// Makes the network thread carry out the queued orders.
    pub(super) fn flush(&mut self) {
        while let Some(order) = self.backlog.pop_front() {
            if let Err(PushError::Full(order)) = self.orders.push(order) {
                self.backlog.push_front(order);
                break;
            }
        }
        if std::mem::take(&mut self.ordered) || !self.backlog.is_empty() {
            self.waker.wake_by_ref();
        }
    }

    /// Cuts the link to a processor.
    pub(super) fn dismiss(&mut self, line: &RemoteLine) {
        self.order(Order::Dismiss(line.guest));
    }

    /// Tells a processor that no more verdicts are needed.
    fn farewell(&mut self, line: &RemoteLine) {
        self.order(Order::Send(line.guest, Frame::new(Bytes::from_static(&CLOSE_RECORD), None)));
    }

    /// Ends all links in good order.
    fn close(&mut self) {
        let start = Instant::now();
        while !self.backlog.is_empty() && start.elapsed() < FAREWELL.to_std() {
            self.flush();
            std::thread::sleep(FULL_PAUSE);
        }
        self.flush();
        self.over.politely.store(true, Ordering::Release);
        self.end();
    }

    fn end(&mut self) {
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            // If this fails, the thread has panicked and printed a message.
            let _ = thread.join();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.over.at_once.store(true, Ordering::Release);
        self.end();
    }
}

impl Farm {
    /// Takes the messages of processors of other hosts. Returns `true` if there were any.
    pub(super) fn hear_remote(&mut self, now: Timestamp) -> bool {
        let mut busy = false;
        while let Some(news) = self.remote.as_mut().and_then(|remote| remote.news.pop().ok()) {
            busy = true;
            match news {
                News::Entered(guest, hello, address) => self.remote_entered(now, guest, hello, address),
                News::Said(guest, frame) => self.remote_said(now, guest, &frame),
                News::Left(guest) => self.remote_left(now, guest),
                News::Refused(why) => self.note_refused(why),
            }
        }
        busy
    }

    fn remote_entered(&mut self, now: Timestamp, guest: GuestId, hello: Hello, address: Option<SocketAddr>) {
        let (reader, times) = (WordReader::default(), WorkerTimes::default());
        let line = Box::new(RemoteLine { guest, hello, address, reader, times });
        match self.dispatcher.join(now) {
            Some(seat) => {
                log_as!(
                    PROCESSOR_JOINED, node = self.node;
                    "{}: {} judges events as processor {seat}", self.node, line.describe()
                );
                self.members.push(Member::new(seat, Line::Remote(line)));
            }
            None => {
                if let Some(remote) = &mut self.remote {
                    remote.dismiss(&line);
                }
            }
        }
    }

    /// Returns the index of a processor among the members. Messages of a processor whose seat has ended have none and
    /// are ignored.
    fn remote_place(&self, guest: GuestId) -> Option<usize> {
        let is_it = |member: &Member| matches!(&member.line, Line::Remote(line) if line.guest == guest);
        self.members.iter().position(is_it)
    }

    fn remote_said(&mut self, now: Timestamp, guest: GuestId, frame: &[u8]) {
        let Some(place) = self.remote_place(guest) else { return };
        let Member { seat, line: Line::Remote(line), .. } = &mut self.members[place] else { return };
        let (seat, mut rest) = (*seat, frame);
        while !rest.is_empty() {
            let word = split_words(rest).and_then(|(record, behind)| {
                rest = behind;
                line.reader.read(record)
            });
            match word.map(|word| word.map(said)) {
                Ok(Some(Said::Word(word))) => self.dispatcher.handle_input(now, seat, word),
                Ok(Some(Said::Times(times))) => line.times = times,
                Ok(None) => {}
                Err(_) => return self.remote_ended(now, place, seat, Departure::Nonsense),
            }
        }
    }

    fn remote_left(&mut self, now: Timestamp, guest: GuestId) {
        if let Some(place) = self.remote_place(guest) {
            let seat = self.members[place].seat;
            self.remote_ended(now, place, seat, Departure::Died);
        }
    }

    /// A link is over, or is to be. Where the processor has left in good order before, its seat is.
    fn remote_ended(&mut self, now: Timestamp, place: usize, seat: Seat, departure: Departure) {
        let present = self.dispatcher.present();
        self.dispatcher.handle_end(now, seat, departure);
        if self.dispatcher.present() < present {
            let who = self.members[place].line.describe();
            self.note(&format!("processor {seat} ({who}) {departure}; its events are judged elsewhere"));
        }
        self.dismiss(place);
    }

    /// Says goodbye to processors of other hosts, and takes their last messages.
    pub(super) fn close_remote(&mut self, now: Timestamp) {
        let Some(mut remote) = self.remote.take() else { return };
        for member in &self.members {
            if let Line::Remote(line) = &member.line {
                remote.farewell(line);
            }
        }
        remote.close();
        // They were told to close their links.
        while let Ok(news) = remote.news.pop() {
            if let News::Said(guest, frame) = news {
                self.remote_said(now, guest, &frame);
            }
        }
    }
}

/// The thread between the links and the builder unit's thread.
struct Porter {
    host: TcpHost,
    orders: Consumer<Order>,
    news: Producer<News>,
    /// Whether the builder unit has unread messages and was not woken.
    must_wake: bool,
    /// Messages for which the ring to the builder unit had no room. Links are not read until these are gone.
    held: VecDeque<News>,
    waker: Waker,
    over: Arc<Over>,
    welcome: Bytes,
    /// Callers that were admitted and have not identified themselves.
    callers: BTreeMap<GuestId, (Option<SocketAddr>, Instant)>,
    /// Frames for which links have no room. A guest has an entry from its hello until it has left.
    pending: BTreeMap<GuestId, VecDeque<Frame>>,
}

impl Porter {
    fn run(mut self) {
        while !self.over.at_once.load(Ordering::Acquire) {
            // In this order, so that earlier orders are carried out before the end.
            let over = self.over.politely.load(Ordering::Acquire);
            let mut busy = self.take_orders();
            self.send_pending();
            busy |= self.take_news();
            self.cut_the_silent();
            self.host.flush();
            if std::mem::take(&mut self.must_wake) {
                self.waker.wake_by_ref();
            }
            if over {
                self.host.close(FAREWELL);
                while self.held.is_empty() && self.take_news() {}
                return;
            }
            if !self.held.is_empty() {
                std::thread::sleep(FULL_PAUSE);
            } else if !busy {
                self.host.wait(LONGEST_SLEEP);
            }
        }
    }

    fn take_orders(&mut self) -> bool {
        let mut busy = false;
        while let Ok(order) = self.orders.pop() {
            busy = true;
            match order {
                Order::Send(guest, frame) => {
                    if let Some(pending) = self.pending.get_mut(&guest) {
                        pending.push_back(frame);
                    }
                }
                Order::Dismiss(guest) => self.host.dismiss(guest),
            }
        }
        busy
    }

    fn send_pending(&mut self) {
        let Self { host, pending, .. } = self;
        for (guest, frames) in pending {
            while let Some(frame) = frames.pop_front() {
                match host.send(*guest, frame) {
                    Ok(()) => {}
                    Err(SendError::Full(frame)) => {
                        frames.push_front(frame);
                        break;
                    }
                    // Its end is on its way to the dispatcher, which has the events still.
                    Err(SendError::NotConnected(_) | SendError::UnknownPeer(_)) => frames.clear(),
                    // It takes less than this run's events.
                    Err(SendError::TooLarge { .. }) => host.dismiss(*guest),
                }
            }
        }
    }

    /// One round over the links.
    fn take_news(&mut self) -> bool {
        while let Some(news) = self.held.pop_front() {
            if !self.tell(news) {
                return true;
            }
        }
        let mut busy = false;
        while self.held.is_empty()
            && let Some(event) = self.host.poll()
        {
            busy = true;
            match event {
                HostEvent::Entered { guest, address } => {
                    // The queue of a new link has room for it.
                    let _ = self.host.send(guest, Frame::new(self.welcome.clone(), None));
                    self.callers.insert(guest, (address, Instant::now()));
                }
                HostEvent::Received { guest, frame } => self.received(guest, frame),
                HostEvent::Left { guest, .. } => {
                    if self.callers.remove(&guest).is_none() {
                        self.pending.remove(&guest);
                        self.tell(News::Left(guest));
                    }
                }
                HostEvent::Refused(reason) => {
                    self.tell(News::Refused(reason.to_string()));
                }
            }
        }
        busy
    }

    fn received(&mut self, guest: GuestId, frame: Frame) {
        let Some((address, _)) = self.callers.remove(&guest) else {
            self.tell(News::Said(guest, frame.head));
            return;
        };
        match Hello::read(&frame.head) {
            Ok(hello) => {
                self.pending.insert(guest, VecDeque::new());
                self.tell(News::Entered(guest, hello, address));
            }
            Err(error) => self.turn_away(guest, address, &explain(&error)),
        }
    }

    /// Closes the link of an admitted caller that is not a processor of this run.
    fn turn_away(&mut self, guest: GuestId, address: Option<SocketAddr>, why: &str) {
        self.host.dismiss(guest);
        // Its end is not reported.
        self.callers.insert(guest, (address, Instant::now()));
        let who = address.map_or_else(|| "somebody".to_owned(), |address| address.to_string());
        self.tell(News::Refused(format!("{who}: {why}")));
    }

    fn cut_the_silent(&mut self) {
        let late =
            |(_, (_, since)): &(&GuestId, &(Option<SocketAddr>, Instant))| since.elapsed() > HELLO_TIMEOUT;
        let late = self.callers.iter().find(late).map(|(guest, (address, _))| (*guest, *address));
        if let Some((guest, address)) = late {
            self.turn_away(guest, address, "it says nothing");
        }
    }

    /// Returns `false` if there is no room now; the message is kept for later.
    fn tell(&mut self, news: News) -> bool {
        self.must_wake = true;
        match self.news.push(news) {
            Ok(()) => true,
            Err(PushError::Full(news)) => {
                self.held.push_front(news);
                false
            }
        }
    }
}
