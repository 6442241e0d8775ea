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
use access::MeetingKey;
use bytes::Bytes;
use datagrams::{DatagramServer, Datagrams};
use links::Links;
use payloads::{Payload, Payloads};
use rustix::event::Timespec;
use sheaf_protocol::manager::EventManager;
use sheaf_protocol::trigger_link::datagram::{DatagramDoor, DoorKey};
use sheaf_protocol::trigger_link::{Buffer, LinkReport, Receiver, ReceiverEvent, Room};
use sheaf_wire::trigger_link::{BusyCause, BusyReason, Phase};
use sheaf_wire::{NodeId, Timestamp};
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

/// The state of the link after a round of the event manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkState {
    /// Number of triggers taken.
    pub(crate) taken: usize,
    /// Events of the receiver.
    pub(crate) events: Vec<ReceiverEvent>,
    /// Whether a supervisor is connected.
    pub(crate) has_supervisor: bool,
    /// Whether the supervisor may send more triggers.
    pub(crate) expects_triggers: bool,
    /// Whether nothing more is awaited of the supervisor.
    pub(crate) is_settled: bool,
}

/// Door for a trigger supervisor.
#[derive(Debug)]
pub struct TriggerDoor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    payloads: Option<Payloads>,
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
        let TriggerDoorOptions { listen, transport, access, run, receiver } = options;
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
        Ok(Self { shared, thread: Some(thread), address, payloads: None })
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

    /// Gives the triggers that have arrived to the event manager, and states its phase and room.
    pub(crate) fn exchange(
        &self,
        now: Timestamp,
        phase: Phase,
        role: &mut EventManager<Bytes>,
        most: usize,
    ) -> LinkState {
        let mut links = self.shared.lock();
        let mut state = LinkState::default();
        // The thread of the door has sent some, and the next trigger may be the last of the run, whose time then ends.
        role.handle_turns(&mut links.receiver);
        while state.taken < most
            && let Some(trigger) = links.receiver.poll_trigger()
        {
            let time = if trigger.time == Timestamp::ZERO { now } else { trigger.time };
            let taken = role.handle_external_trigger(now, trigger.id, time, trigger.kind);
            links.receiver.handle_taken(taken.is_ok());
            if let Some(payloads) = self.payloads.as_ref().filter(|_| taken.is_ok()) {
                payloads.push(Payload { event: trigger.id, time, bytes: trigger.payload });
            }
            state.taken += 1;
        }
        links.receiver.handle_phase(phase);
        if let Some(payloads) = self.payloads.as_ref().filter(|_| phase == Phase::Ended) {
            payloads.end();
        }
        links.receiver.handle_rooms(now, role.rooms(now).chain(self.payload_room()));
        links.transmit(now);
        role.handle_turns(&mut links.receiver);
        state.events.extend(std::iter::from_fn(|| links.receiver.poll_event()));
        state.has_supervisor = links.receiver.has_supervisor();
        state.expects_triggers = links.receiver.expects_triggers();
        state.is_settled = links.receiver.is_settled() && links.is_flushed();
        state
    }

    /// Returns the room in the queue of payloads.
    fn payload_room(&self) -> Option<Room> {
        let payloads = self.payloads.as_ref()?;
        let reason = BusyReason { cause: BusyCause::ReadoutMemory, culprit: Some(payloads.readout()) };
        let (free, capacity) = (payloads.room(), payloads.capacity());
        Some(Room { buffer: Buffer::Payloads, free, accepts: free, capacity, reason })
    }

    /// Returns when the event manager must look again at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.shared.lock().receiver.poll_timeout()
    }

    /// Returns the account of the run.
    pub(crate) fn report(&self, now: Timestamp) -> LinkReport {
        self.shared.lock().report(now)
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
