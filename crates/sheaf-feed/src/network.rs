//! Clients of other hosts: a thread carries frames between their links and the readout unit's thread.
//!
//! The thread admits clients, reports their end, and does the reading and writing, so that the readout unit's thread makes no
//! system call for them. Two lock-free rings connect the two threads. While the ring to the readout unit is full, nothing is read.

use bytes::Bytes;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use sheaf_tcp::{GuestId, HostEvent, HostOptions, TcpError, TcpHost};
use sheaf_transport::{Frame, SendError};
use sheaf_wire::{Nanos, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of slots in the rings between the two threads.
const RING: usize = 4096;

/// Maximum number of messages of a client that are under way to its link. What is due beyond that is composed when there is room, so that a
/// client that does not read costs no memory.
const MAX_UNDER_WAY: usize = 16;

/// Longest sleep of the thread. Work wakes it earlier.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(200);

/// Pause during which the thread reads no links, while the readout unit does not take what has arrived.
const FULL_PAUSE: Duration = Duration::from_micros(200);

/// Time that the last messages have to leave when the run is over.
const FAREWELL: Nanos = Nanos::from_secs(2);

/// Reason why clients of other hosts cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The links.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The thread.
    #[error("a thread for them cannot be started")]
    Thread(#[source] std::io::Error),
}

/// Number of messages of a client between the two threads and in front of its link.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    /// Returns whether another message may follow.
    pub(crate) fn has_room(&self) -> bool {
        self.0.load(Ordering::Acquire) < MAX_UNDER_WAY
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a message. Returns whether there was no room before.
    fn remove(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == MAX_UNDER_WAY
    }
}

/// Message to the readout unit's thread.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A client has connected.
    Connected(GuestId, UnderWay),
    /// A message of a client.
    Message(GuestId, Frame),
    /// A client has gone. Its messages came before.
    Gone(GuestId),
    /// A caller was refused before it became a client.
    Refused(String),
}

/// Order to the thread.
#[derive(Debug)]
enum Order {
    Send(GuestId, Bytes),
    /// Closes the connection after the messages before.
    End(GuestId),
}

/// The readout unit's end of the connections to clients of other hosts.
#[derive(Debug)]
pub(crate) struct Network {
    orders: Producer<Order>,
    /// Orders that found no room in the ring.
    backlog: VecDeque<Order>,
    arrivals: Consumer<Arrival>,
    /// Whether something was ordered since the thread was woken.
    ordered: bool,
    waker: Waker,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    /// Accepts clients; `waker` wakes the readout unit's thread.
    pub(crate) fn open(node: NodeId, options: HostOptions, waker: Waker) -> Result<Self, ListenError> {
        let host = TcpHost::new(options)?;
        let its_waker = host.waker();
        let ((orders, its_orders), (its_arrivals, arrivals)) = (RingBuffer::new(RING), RingBuffer::new(RING));
        let is_over = Arc::new(AtomicBool::new(false));
        let carrier = Carrier {
            host,
            orders: its_orders,
            arrivals: its_arrivals,
            waker,
            must_wake: false,
            held: None,
            unsent: BTreeMap::new(),
            is_over: is_over.clone(),
        };
        let thread = std::thread::Builder::new().name(format!("{node}.feed.net")).spawn(|| carrier.run());
        Ok(Self {
            orders,
            backlog: VecDeque::new(),
            arrivals,
            ordered: false,
            waker: its_waker,
            is_over,
            thread: Some(thread.map_err(ListenError::Thread)?),
        })
    }

    /// Returns the next event.
    pub(crate) fn poll(&mut self) -> Option<Arrival> {
        self.arrivals.pop().ok()
    }

    /// Returns whether nothing has arrived.
    pub(crate) fn is_quiet(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Sends a message to a client, for which there must be [room](UnderWay::has_room).
    pub(crate) fn send(&mut self, guest: GuestId, under_way: &UnderWay, message: Vec<u8>) {
        under_way.add();
        self.order(Order::Send(guest, message.into()));
    }

    /// Closes the connection to a client, after the messages that were sent to it.
    pub(crate) fn end(&mut self, guest: GuestId) {
        self.order(Order::End(guest));
    }

    fn order(&mut self, order: Order) {
        self.ordered = true;
        self.backlog.push_back(order);
    }

    /// Makes the thread carry out the orders.
    pub(crate) fn flush(&mut self) {
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
}

impl Drop for Network {
    fn drop(&mut self) {
        self.flush();
        self.is_over.store(true, Ordering::Release);
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            // If this fails, the thread has panicked and printed a message.
            let _ = thread.join();
        }
    }
}

/// The thread between the links and the readout unit's thread.
struct Carrier {
    host: TcpHost,
    orders: Consumer<Order>,
    arrivals: Producer<Arrival>,
    waker: Waker,
    must_wake: bool,
    /// Event for which the ring had no room. Links are not read until it is gone.
    held: Option<Arrival>,
    /// Messages for which links have no room, and `None` for the end of the connection; and their number.
    unsent: BTreeMap<GuestId, (VecDeque<Option<Bytes>>, UnderWay)>,
    is_over: Arc<AtomicBool>,
}

impl Carrier {
    fn run(mut self) {
        loop {
            // In this order, so that earlier orders are carried out before the end.
            let is_over = self.is_over.load(Ordering::Acquire);
            let mut busy = self.take_orders();
            self.send();
            if is_over {
                return self.host.close(FAREWELL);
            }
            busy |= self.take_events();
            self.host.flush();
            if std::mem::take(&mut self.must_wake) {
                self.waker.wake_by_ref();
            }
            if self.held.is_some() {
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
            let (guest, message) = match order {
                Order::Send(guest, message) => (guest, Some(message)),
                Order::End(guest) => (guest, None),
            };
            if let Some((unsent, _)) = self.unsent.get_mut(&guest) {
                unsent.push_back(message);
            }
        }
        busy
    }

    fn send(&mut self) {
        let Self { host, unsent, must_wake, .. } = self;
        for (guest, (messages, under_way)) in unsent {
            while let Some(message) = messages.pop_front() {
                let Some(message) = message else {
                    // What is in the queue of the link leaves first.
                    host.flush();
                    host.dismiss(*guest);
                    break;
                };
                match host.send(*guest, Frame::new(message, None)) {
                    // The readout unit may have more to say.
                    Ok(()) => *must_wake |= under_way.remove(),
                    Err(SendError::Full(frame)) => {
                        messages.push_front(Some(frame.head));
                        break;
                    }
                    Err(SendError::NotConnected(_) | SendError::UnknownPeer(_)) => messages.clear(),
                    // It takes less than a message of control.
                    Err(SendError::TooLarge { .. }) => host.dismiss(*guest),
                }
            }
        }
    }

    /// Makes one round over the links. Returns whether there was anything.
    fn take_events(&mut self) -> bool {
        if let Some(held) = self.held.take() {
            self.report(held);
        }
        let mut busy = false;
        while self.held.is_none()
            && let Some(event) = self.host.poll()
        {
            busy = true;
            match event {
                HostEvent::Entered { guest, .. } => {
                    let under_way = UnderWay::default();
                    self.unsent.insert(guest, (VecDeque::new(), under_way.clone()));
                    self.report(Arrival::Connected(guest, under_way));
                }
                HostEvent::Received { guest, frame } => self.report(Arrival::Message(guest, frame)),
                HostEvent::Left { guest, .. } => {
                    self.unsent.remove(&guest);
                    self.report(Arrival::Gone(guest));
                }
                HostEvent::Refused(reason) => self.report(Arrival::Refused(reason.to_string())),
            }
        }
        busy
    }

    fn report(&mut self, arrival: Arrival) {
        self.must_wake = true;
        if let Err(PushError::Full(arrival)) = self.arrivals.push(arrival) {
            self.held = Some(arrival);
        }
    }
}
