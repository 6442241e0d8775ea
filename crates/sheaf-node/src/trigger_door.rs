//! Triggers of a trigger supervisor, over TCP or UDP.
//!
//! | module | holds |
//! |---|---|
//! | `access` | the evidence that a supervisor must show, and the options of a door |
//! | `streams` | the thread for TCP: connections, keys and certificates |
//! | `datagrams` | the thread for UDP |
//! | `links` | what these threads share with that of the event manager |
//! | `payloads` | payloads of triggers on their way to a readout unit |
//!
//! A thread of its own waits for connections and messages and answers at once, so that busy reaches the supervisor even
//! while the event manager's thread is held up. The event manager's thread takes the triggers and states the room in its queue.
//! Both hold the lock only to move what is there; neither waits for the network.

mod access;
mod datagrams;
mod links;
mod payloads;
mod streams;

pub use access::{TriggerAccess, TriggerDoorOptions, TriggerTransport};
pub use payloads::PayloadSource;

use crate::Clock;
use crate::trigger_input::{self, LinkState, TriggerInput, TriggerLink};
use access::MeetingKey;
use bytes::Bytes;
use datagrams::{DatagramServer, Datagrams};
use links::Links;
use payloads::{Payload, Payloads};
use rustix::event::Timespec;
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::trigger_link::datagram::{DatagramDoor, DoorKey};
use sheaf_protocol::trigger_link::{Buffer, LinkReport, Receiver, Room};
use sheaf_wire::trigger_link::{BusyCause, BusyReason, Phase, Trigger};
use sheaf_wire::{NodeId, TimeBase, Timestamp};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use streams::StreamServer;

/// The longest wait of the thread, which bounds the delay of its end.
const LONGEST_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Its longest wait while triggers wait for room, or a message waits for the other side.
const SHORT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// Door for a trigger supervisor.
#[derive(Debug)]
pub struct TriggerDoor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    payloads: Option<Payloads>,
    /// Unit and epoch of the times of triggers.
    time_base: TimeBase,
}

#[derive(Debug)]
struct Shared {
    links: Mutex<Links>,
    stop: AtomicBool,
    waker: Waker,
    clock: Clock,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TriggerDoor {
    /// Listens for a supervisor. `waker` wakes the thread of the event manager.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn open(options: TriggerDoorOptions, waker: Waker, clock: Clock) -> io::Result<Self> {
        let TriggerDoorOptions { listen, transport, access, run, receiver, time_base } = options;
        let idle = BusyReason { cause: BusyCause::EventManager, culprit: Some(NodeId::MANAGER) };
        let receiver = Receiver::new(receiver, run, idle);
        let share = |datagrams| {
            let links = Mutex::new(Links::new(receiver, datagrams));
            Arc::new(Shared { links, stop: AtomicBool::new(false), waker, clock })
        };
        let thread = std::thread::Builder::new().name("triggers".into());
        let (shared, address, thread) = match transport {
            TriggerTransport::Tcp => {
                let listener = TcpListener::bind(listen)?;
                listener.set_nonblocking(true)?;
                let (address, shared) = (listener.local_addr()?, share(None));
                let server = StreamServer::new(listener, access, shared.clone());
                (shared, address, thread.spawn(move || server.run())?)
            }
            TriggerTransport::Udp { silence } => {
                let key = access.key.map(MeetingKey::new).transpose().map_err(io::Error::other)?;
                let key = key.map(|key| Box::new(key) as Box<dyn DoorKey>);
                let datagrams = Datagrams::bind(&listen, DatagramDoor::new(key, silence))?;
                let socket = datagrams.socket();
                let (address, shared) = (socket.local_addr()?, share(Some(datagrams)));
                let server = DatagramServer::new(socket, shared.clone());
                (shared, address, thread.spawn(move || server.run())?)
            }
        };
        Ok(Self { shared, thread: Some(thread), address, payloads: None, time_base })
    }

    /// Gives the payload of each trigger that becomes an event to a readout unit, as a fragment. A trigger without a payload
    /// gives an empty fragment.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn feeding(mut self, source: PayloadSource) -> io::Result<Self> {
        self.payloads = Some(Payloads::start(source, self.shared.waker.clone())?);
        Ok(self)
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl TriggerInput for TriggerDoor {
    fn exchange(
        &mut self,
        now: Timestamp,
        phase: Phase,
        role: &mut EventManager<Bytes>,
        most: usize,
    ) -> LinkState {
        let (links, payloads) = (self.shared.lock(), self.payloads.as_ref());
        let time_base = self.time_base;
        trigger_input::exchange(&mut OpenDoor { links, payloads, time_base }, now, phase, role, most)
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.shared.lock().receiver.poll_timeout()
    }

    fn report(&self, now: Timestamp) -> LinkReport {
        self.shared.lock().report(now)
    }

    fn address(&self) -> String {
        self.address.to_string()
    }
}

/// The door while the event manager's thread has the lock.
struct OpenDoor<'door> {
    links: MutexGuard<'door, Links>,
    payloads: Option<&'door Payloads>,
    time_base: TimeBase,
}

impl TriggerLink for OpenDoor<'_> {
    fn receiver(&mut self) -> &mut Receiver {
        &mut self.links.receiver
    }

    fn transmit(&mut self, now: Timestamp) {
        self.links.transmit(now);
    }

    fn is_flushed(&self) -> bool {
        self.links.is_flushed()
    }

    fn take(&mut self, trigger: Trigger, time: Timestamp) {
        if let Some(payloads) = self.payloads {
            payloads.push(Payload { event: trigger.id, time, bytes: trigger.payload });
        }
    }

    fn end(&mut self) {
        if let Some(payloads) = self.payloads {
            payloads.end();
        }
    }

    fn time_base(&self) -> TimeBase {
        self.time_base
    }

    fn room(&self) -> Option<Room> {
        let payloads = self.payloads?;
        let reason = BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(payloads.readout()) };
        let (free, capacity) = (payloads.room(), payloads.capacity());
        Some(Room { buffer: Buffer::Payloads, free, accepts: free, capacity, reason })
    }
}

impl Drop for TriggerDoor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
