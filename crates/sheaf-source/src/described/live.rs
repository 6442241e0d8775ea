//! Sources whose packets arrive at a UDP socket.

use super::decoder::{Decoder, Described, Limits, StreamBooks};
use super::description::{Description, DescriptionError};
use super::kernel_drops;
use crate::outbox::Outbox;
use crate::{Batch, BatchEnd, Source, SourcePoll, SourceStats};
use sheaf_buffer::{Memory, Pool};
use sheaf_wire::{Nanos, SourceId, Timestamp};
use socket2::SockRef;
use std::collections::BTreeMap;
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

/// A socket that the front ends of a readout unit send to.
#[derive(Debug)]
struct Inbox<M: Memory> {
    socket: UdpSocket,
    decoder: Decoder,
    outboxes: BTreeMap<SourceId, Outbox<M>>,
    buffer: Vec<u8>,
    /// Time of the last poll.
    now: Timestamp,
    has_stopped: bool,
    /// Packets that the kernel had dropped when the run was stopped.
    kernel_drops: Option<u64>,
}

impl<M: Memory> Inbox<M> {
    /// Decodes the packets that have arrived, up to a bound.
    fn receive(&mut self, now: Timestamp) {
        let Self { socket, decoder, outboxes, buffer, .. } = self;
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
        self.now = now;
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.has_stopped, true) {
            return;
        }
        self.kernel_drops = self.socket.local_addr().ok().and_then(kernel_drops::at);
        // Nobody takes them any more. They are counted.
        let outboxes = &mut self.outboxes;
        self.decoder.finish(self.now, &mut |found| {
            if let Some(outbox) = outboxes.get_mut(&found.source) {
                outbox.count_after_stop();
            }
        });
    }
}

/// A source whose packets arrive at a socket that it shares with the other sources of its readout unit.
#[derive(Debug)]
pub struct StreamSource<M: Memory> {
    id: SourceId,
    is_first: bool,
    /// Only the thread of the readout unit locks it.
    inbox: Arc<Mutex<Inbox<M>>>,
}

impl<M: Memory> StreamSource<M> {
    /// Returns the sources whose front ends send to an address, each with the pool that it writes to; and the address, with
    /// the port that the system chose where it was 0.
    ///
    /// # Errors
    /// A [`ListenError`].
    ///
    /// # Panics
    /// If there are no sources.
    pub fn listen(
        listen: Listen,
        description: Description,
        limits: Limits,
        sources: Vec<(SourceId, Pool<M>)>,
    ) -> Result<(Vec<Self>, SocketAddr), ListenError> {
        let ids: Vec<SourceId> = sources.iter().map(|(id, _)| *id).collect();
        let decoder = Decoder::new(description, limits, &ids)?;
        let error = |source| ListenError::Socket { address: listen.address, source };
        let socket = UdpSocket::bind(listen.address).map_err(error)?;
        socket.set_nonblocking(true).map_err(error)?;
        if let Some(bytes) = listen.receive_buffer_bytes {
            SockRef::from(&socket).set_recv_buffer_size(bytes).map_err(error)?;
        }
        let bound = socket.local_addr().map_err(error)?;
        let inbox = Arc::new(Mutex::new(Inbox {
            socket,
            decoder,
            outboxes: sources.into_iter().map(|(id, pool)| (id, Outbox::new(id, pool))).collect(),
            buffer: vec![0; LARGEST_PACKET_BYTES],
            now: Timestamp::ZERO,
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
        if take(&mut inbox, batch) { BatchEnd::More } else { BatchEnd::NotBefore(now + LOOK_AGAIN) }
    }

    fn stop(&mut self) {
        self.inbox().stop();
    }

    fn stats(&self) -> SourceStats {
        let inbox = self.inbox();
        let stats = inbox.outboxes.get(&self.id).map(|outbox| outbox.stats().clone()).unwrap_or_default();
        let (no_memory, after_stop) =
            inbox.outboxes.get(&self.id).map(|outbox| outbox.dropped()).unwrap_or_default();
        let drops = || inbox.kernel_drops.or_else(|| kernel_drops::at(inbox.socket.local_addr().ok()?));
        let books = StreamBooks {
            fragments_no_memory: no_memory,
            fragments_after_stop: after_stop,
            packets_dropped_by_kernel: if self.is_first { drops().unwrap_or_default() } else { 0 },
            ..inbox.decoder.books(self.id)
        };
        SourceStats { last_error: inbox.decoder.last_error(self.id), stream: Some(books), ..stats }
    }
}

#[cfg(test)]
mod tests;
