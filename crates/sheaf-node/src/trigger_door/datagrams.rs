//! Supervisors over UDP: the socket, and the thread that reads from it.

use super::{LONGEST_WAIT, Shared};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sheaf_protocol::trigger_link::Receiver;
use sheaf_protocol::trigger_link::datagram::{Datagram, DatagramDoor};
use sheaf_wire::message::DecodeError;
use sheaf_wire::trigger_link::{FromSupervisor, MAX_DATAGRAM_BYTES, read_datagram};
use sheaf_wire::{Nanos, Timestamp};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Receive buffer that the kernel is asked for. Triggers wait in it while there is no room for them.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Maximum number of datagrams that are read before the machine handles them.
const BATCH: usize = 64;

/// Pause while triggers wait for room, or a message for its acknowledgement.
const PAUSE: Nanos = Nanos(500_000);

/// The machine for datagrams, and the socket to which it writes.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) door: DatagramDoor<SocketAddr>,
    socket: Arc<UdpSocket>,
}

impl Datagrams {
    /// Listens at `address`.
    pub(super) fn bind(address: &str, door: DatagramDoor<SocketAddr>) -> std::io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        // Less is a matter of the system's limits, and costs triggers only while the run is behind.
        if let Err(error) = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER) {
            log::debug!("receive buffer for triggers: {error}");
        }
        Ok(Self { door, socket: Arc::new(socket) })
    }

    pub(super) fn socket(&self) -> Arc<UdpSocket> {
        self.socket.clone()
    }

    /// Sends what is due. What the socket does not take is lost, and sent again if it must arrive.
    pub(super) fn transmit(&mut self, now: Timestamp, receiver: &mut Receiver) {
        while let Some((address, datagram)) = self.door.poll_transmit(now, receiver) {
            let bytes = datagram.head.emit(&datagram.messages);
            if let Err(error) = self.socket.send_to(&bytes, address) {
                log::debug!("a datagram to the trigger supervisor at {address}: {error}");
            }
        }
    }
}

/// The thread that waits for datagrams.
pub(super) struct DatagramServer {
    socket: Arc<UdpSocket>,
    shared: Arc<Shared>,
    room: Vec<u8>,
}

/// A datagram as it has arrived.
type Arrival = (SocketAddr, Result<Datagram<FromSupervisor>, DecodeError>);

impl DatagramServer {
    pub(super) fn new(socket: Arc<UdpSocket>, shared: Arc<Shared>) -> Self {
        Self { socket, shared, room: vec![0; MAX_DATAGRAM_BYTES + 1] }
    }

    pub(super) fn run(mut self) {
        let mut holds = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.wait(holds);
            // While there is no room, the kernel keeps what arrives.
            let (arrivals, is_drained) = if holds { (Vec::new(), false) } else { self.receive() };
            let has_news = !arrivals.is_empty() || holds;
            holds = self.handle(arrivals, is_drained);
            if has_news {
                self.shared.waker.wake_by_ref();
            }
        }
    }

    /// Handles datagrams. Returns whether triggers wait for room.
    fn handle(&self, arrivals: Vec<Arrival>, is_drained: bool) -> bool {
        let now = self.shared.clock.now();
        let mut links = self.shared.lock();
        let links = &mut *links;
        let Some(Datagrams { door, .. }) = &mut links.datagrams else { return false };
        door.hand_over(now, &mut links.receiver);
        for (from, datagram) in arrivals {
            match datagram {
                Ok(datagram) => door.handle_input(now, from, datagram, &mut links.receiver),
                Err(error) => {
                    door.note_invalid();
                    log::debug!("datagram of {from} at the trigger address: {error}");
                }
            }
        }
        // Nobody is silent whose datagrams were not read.
        if is_drained {
            door.handle_timeout(now, &mut links.receiver);
        }
        let holds = door.holds();
        links.transmit(now);
        holds
    }

    fn wait(&self, holds: bool) {
        let now = self.shared.clock.now();
        let due = self.shared.lock().datagrams.as_ref().and_then(|datagrams| datagrams.door.poll_timeout());
        let longest = Nanos(u64::try_from(LONGEST_WAIT.tv_nsec).unwrap_or(0));
        let limit = match due {
            _ if holds => PAUSE,
            Some(due) => due.since(now).clamp(Nanos(100_000), longest),
            None => longest,
        };
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::try_from(limit.0).unwrap_or(0) };
        let socket = PollFd::new(&*self.socket, PollFlags::IN);
        // An interruption is as good as a wake-up.
        let _ = if holds { poll(&mut [], Some(&limit)) } else { poll(&mut [socket], Some(&limit)) };
    }

    /// Reads datagrams, and whether these were all.
    fn receive(&mut self) -> (Vec<Arrival>, bool) {
        let mut arrivals = Vec::new();
        while arrivals.len() < BATCH {
            match self.socket.recv_from(&mut self.room) {
                Ok((length, from)) => {
                    let read = read_datagram(&self.room[..length]);
                    arrivals.push((from, read.map(|(head, messages)| Datagram { head, messages })));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return (arrivals, true),
                // It is that of a datagram that was sent, or an interruption.
                Err(_) => {}
            }
        }
        (arrivals, false)
    }
}
