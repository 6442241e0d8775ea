//! Sources whose packets arrive at a UDP socket or by TCP connections.

use super::connections::{ConnectionSettings, Connections};
use super::decoder::{Decoder, Described, Limits, StreamBooks};
use super::deframer::PacketEnding;
use super::description::{Description, DescriptionError};
use super::kernel_drops;
use crate::outbox::Outbox;
use crate::{Batch, BatchEnd, Source, SourcePoll, SourceStats};
use sheaf_buffer::{Memory, Pool};
use sheaf_wire::{EventId, Nanos, SourceId, Timestamp};
use socket2::SockRef;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets that one poll reads at most, so that a source does not hold the thread of its readout unit.
const PACKETS_A_POLL: usize = 64;

/// The largest UDP payload.
const LARGEST_PACKET_BYTES: usize = 65_535;

/// Time after an empty poll until a source is polled again.
const LOOK_AGAIN: Nanos = Nanos(200_000);

/// Reason why no packets can be received.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The description.
    #[error("the packets of `source.stream` cannot be described so: {0}")]
    Description(#[from] DescriptionError),
    /// The socket.
    #[error("cannot listen for packets on {address}; is it in use, or does it belong to another host?")]
    Socket {
        /// Address.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Settings of a UDP socket that sources receive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Its address.
    pub address: SocketAddr,
    /// Bytes of packets that the operating system holds until they are read. It may grant less. `None`: its default.
    pub receive_buffer_bytes: Option<usize>,
}

/// The way that packets come to a readout unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketPath {
    /// One by one.
    Udp(Listen),
    /// In streams of bytes.
    Tcp(ConnectionSettings, PacketEnding),
}

/// Where packets come from.
#[derive(Debug)]
enum Receiver {
    Udp(UdpSocket, Vec<u8>),
    Tcp(Box<Connections>),
}

/// A fragment that waits for memory.
#[derive(Debug)]
struct Stuck {
    event: EventId,
    time: Timestamp,
    payload: Vec<u8>,
}

/// Packets that the front ends of a readout unit send, and their fragments.
#[derive(Debug)]
struct Inbox<M: Memory> {
    receiver: Receiver,
    decoder: Decoder,
    outboxes: BTreeMap<SourceId, Outbox<M>>,
    /// TCP: fragments of packets that were read when a source had no more memory: those of one packet of each connection, and of
    /// the packets that waited for an earlier one.
    stuck: BTreeMap<SourceId, VecDeque<Stuck>>,
    /// Time of the last poll.
    now: Timestamp,
    has_ended: bool,
    has_stopped: bool,
    /// Packets that the kernel had dropped when the run was stopped.
    kernel_drops: Option<u64>,
}

impl<M: Memory> Inbox<M> {
    /// Decodes the packets that have arrived, up to a bound.
    fn receive(&mut self, now: Timestamp) {
        self.now = now;
        match &mut self.receiver {
            Receiver::Udp(socket, buffer) => {
                let (decoder, outboxes) = (&mut self.decoder, &mut self.outboxes);
                let mut take = |found: Described<'_>| {
                    if let Some(outbox) = outboxes.get_mut(&found.source) {
                        outbox.put(found.event, found.time, found.payload);
                    }
                };
                for _ in 0..PACKETS_A_POLL {
                    // Errors of a UDP socket concern single packets (such as a refused answer) or are temporary.
                    let Ok(bytes) = socket.recv(buffer) else { break };
                    decoder.handle_packet(now, &buffer[..bytes], &mut take);
                }
                decoder.handle_timeout(now, &mut take);
            }
            Receiver::Tcp(_) => self.receive_streams(now),
        }
    }

    fn receive_streams(&mut self, now: Timestamp) {
        let Self { receiver: Receiver::Tcp(connections), decoder, outboxes, stuck, .. } = self else {
            return;
        };
        release(outboxes, stuck);
        let is_stuck = RefCell::new(stuck);
        let description = decoder.description();
        let mut take = |packet: &[u8]| {
            let mut has_no_room = None;
            decoder.handle_packet(now, packet, &mut |found| {
                if !put_or_keep(outboxes, &mut is_stuck.borrow_mut(), found) {
                    has_no_room = Some(found.source);
                }
            });
            has_no_room
        };
        let has_room = |source| !is_stuck.borrow().contains_key(&source);
        connections.receive(now, &description, &has_room, &mut take);
        let mut keep = |found: Described<'_>| {
            put_or_keep(outboxes, &mut is_stuck.borrow_mut(), found);
        };
        if connections.has_ended() {
            decoder.finish(now, &mut keep);
            self.has_ended = true;
        } else {
            decoder.handle_timeout(now, &mut keep);
        }
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.has_stopped, true) {
            return;
        }
        match &mut self.receiver {
            Receiver::Udp(socket, _) => {
                self.kernel_drops = socket.local_addr().ok().and_then(kernel_drops::at);
            }
            Receiver::Tcp(connections) => connections.close(),
        }
        // Nobody takes them any more. They are counted.
        let outboxes = &mut self.outboxes;
        for (source, stuck) in std::mem::take(&mut self.stuck) {
            if let Some(outbox) = outboxes.get_mut(&source) {
                stuck.iter().for_each(|_| outbox.count_after_stop());
            }
        }
        self.decoder.finish(self.now, &mut |found| {
            if let Some(outbox) = outboxes.get_mut(&found.source) {
                outbox.count_after_stop();
            }
        });
    }

    /// Adds what is not of a single source.
    fn add_common(&self, books: &mut StreamBooks) {
        match &self.receiver {
            Receiver::Udp(socket, _) => {
                let drops = || kernel_drops::at(socket.local_addr().ok()?);
                books.packets_dropped_by_kernel = self.kernel_drops.or_else(drops).unwrap_or_default();
            }
            Receiver::Tcp(connections) => {
                let counts = connections.counts();
                books.connections = counts.made;
                books.connections_closed = counts.closed;
                books.connections_lost = counts.lost;
                books.connections_refused = counts.refused;
                books.connection_attempts_failed = counts.attempts_failed;
                books.resynchronisations = counts.streams.resynchronisations;
                books.bytes_skipped = counts.streams.bytes_skipped;
                books.packets_cut = counts.streams.packets_cut;
            }
        }
    }
}

type Outboxes<M> = BTreeMap<SourceId, Outbox<M>>;
type AllStuck = BTreeMap<SourceId, VecDeque<Stuck>>;

/// Takes a copy of a fragment, or keeps it until there is memory. Returns whether there was.
fn put_or_keep<M: Memory>(outboxes: &mut Outboxes<M>, stuck: &mut AllStuck, found: Described<'_>) -> bool {
    let Some(outbox) = outboxes.get_mut(&found.source) else { return true };
    // Those that wait come first.
    if !stuck.contains_key(&found.source) && outbox.try_put(found.event, found.time, found.payload) {
        return true;
    }
    let kept = Stuck { event: found.event, time: found.time, payload: found.payload.to_vec() };
    stuck.entry(found.source).or_default().push_back(kept);
    false
}

/// Moves fragments that wait to their outboxes as far as there is memory.
fn release<M: Memory>(outboxes: &mut Outboxes<M>, stuck: &mut AllStuck) {
    stuck.retain(|source, stuck| {
        let Some(outbox) = outboxes.get_mut(source) else { return false };
        while let Some(Stuck { event, time, payload }) = stuck.front() {
            if !outbox.try_put(*event, *time, payload) {
                return true;
            }
            stuck.pop_front();
        }
        false
    });
}

/// A source whose packets arrive with those of the other sources of its readout unit.
#[derive(Debug)]
pub struct StreamSource<M: Memory> {
    id: SourceId,
    is_first: bool,
    /// Only the thread of the readout unit locks it.
    inbox: Arc<Mutex<Inbox<M>>>,
}

impl<M: Memory> StreamSource<M> {
    /// Returns the sources whose front ends send in this way, each with the pool that it writes to; and the address at which
    /// packets or connections arrive, with the port that the system chose where it was 0.
    ///
    /// # Errors
    /// A [`ListenError`].
    ///
    /// # Panics
    /// If there are no sources.
    pub fn open(
        path: PacketPath,
        description: Description,
        limits: Limits,
        sources: Vec<(SourceId, Pool<M>)>,
    ) -> Result<(Vec<Self>, Option<SocketAddr>), ListenError> {
        let ids: Vec<SourceId> = sources.iter().map(|(id, _)| *id).collect();
        let (receiver, bound) = match path {
            PacketPath::Udp(listen) => {
                let socket = bind(listen)?;
                let bound = socket.local_addr().ok();
                (Receiver::Udp(socket, vec![0; LARGEST_PACKET_BYTES]), bound)
            }
            PacketPath::Tcp(connect, ending) => {
                ending.check(&description)?;
                let address = connect.listen;
                let connections = Connections::open(connect, ending).map_err(|source| {
                    let address = address.unwrap_or(SocketAddr::from(([0; 4], 0)));
                    ListenError::Socket { address, source }
                })?;
                let bound = connections.address();
                (Receiver::Tcp(Box::new(connections)), bound)
            }
        };
        let inbox = Arc::new(Mutex::new(Inbox {
            receiver,
            decoder: Decoder::new(description, limits, &ids)?,
            outboxes: sources.into_iter().map(|(id, pool)| (id, Outbox::new(id, pool))).collect(),
            stuck: BTreeMap::new(),
            now: Timestamp::ZERO,
            has_ended: false,
            has_stopped: false,
            kernel_drops: None,
        }));
        let source = |(index, id): (usize, &SourceId)| Self {
            id: *id,
            is_first: index == 0,
            inbox: Arc::clone(&inbox),
        };
        Ok((ids.iter().enumerate().map(source).collect(), bound))
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<M>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bind(listen: Listen) -> Result<UdpSocket, ListenError> {
    let error = |source| ListenError::Socket { address: listen.address, source };
    let socket = UdpSocket::bind(listen.address).map_err(error)?;
    socket.set_nonblocking(true).map_err(error)?;
    if let Some(bytes) = listen.receive_buffer_bytes {
        SockRef::from(&socket).set_recv_buffer_size(bytes).map_err(error)?;
    }
    Ok(socket)
}

impl<M: Memory> Source for StreamSource<M> {
    fn id(&self) -> SourceId {
        self.id
    }

    fn poll(&mut self, now: Timestamp) -> SourcePoll {
        crate::poll_one(self, now)
    }

    fn poll_batch(&mut self, now: Timestamp, most: usize, batch: &mut Batch) -> BatchEnd {
        let mut inbox = self.inbox();
        if inbox.has_stopped {
            return BatchEnd::Ended;
        }
        let take = |inbox: &mut Inbox<M>, batch: &mut Batch| {
            inbox.outboxes.get_mut(&self.id).is_some_and(|outbox| outbox.take(most, batch))
        };
        if take(&mut inbox, batch) {
            return BatchEnd::More;
        }
        inbox.receive(now);
        if take(&mut inbox, batch) {
            BatchEnd::More
        } else if inbox.stuck.contains_key(&self.id) {
            BatchEnd::OutOfMemory
        } else if inbox.has_ended {
            BatchEnd::Ended
        } else {
            BatchEnd::NotBefore(now + LOOK_AGAIN)
        }
    }

    fn stop(&mut self) {
        self.inbox().stop();
    }

    fn stats(&self) -> SourceStats {
        let inbox = self.inbox();
        let stats = inbox.outboxes.get(&self.id).map(|outbox| outbox.stats().clone()).unwrap_or_default();
        let (no_memory, after_stop) =
            inbox.outboxes.get(&self.id).map(|outbox| outbox.dropped()).unwrap_or_default();
        let mut books = StreamBooks {
            fragments_no_memory: no_memory,
            fragments_after_stop: after_stop,
            ..inbox.decoder.books(self.id)
        };
        let mut last_error = inbox.decoder.last_error(self.id);
        if self.is_first {
            inbox.add_common(&mut books);
            if let Receiver::Tcp(connections) = &inbox.receiver {
                last_error = connections.last_error().or(last_error);
            }
        }
        SourceStats { last_error, stream: Some(books), ..stats }
    }
}

#[cfg(test)]
mod tests;
