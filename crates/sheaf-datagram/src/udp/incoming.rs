//! Datagrams that the kernel had.

use super::framing::PREFIX_BYTES;
use super::sys::{self, BATCH, Received};
use sheaf_transport::LinkStats;
use std::net::UdpSocket;

/// Slots for one socket, and what is in them.
#[derive(Debug)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    slot_bytes: usize,
    received: Vec<Received>,
    /// The slot that is looked at next.
    next: usize,
}

impl Incoming {
    /// Slots for datagrams of at most `datagram_bytes`.
    pub(super) fn new(datagram_bytes: usize) -> Self {
        // One byte more than can be, so that the kernel says of a larger one that it was cut.
        let slot_bytes = (PREFIX_BYTES + datagram_bytes + 1).next_multiple_of(64);
        Self { buffer: vec![0; slot_bytes * BATCH], slot_bytes, received: Vec::with_capacity(BATCH), next: 0 }
    }

    /// Takes what the kernel has, when all slots were looked at; `true` if it may have more.
    pub(super) fn fill(&mut self, socket: &UdpSocket, stats: &mut LinkStats) -> bool {
        self.next = 0;
        self.received.clear();
        stats.system_calls += 1;
        stats.reads += 1;
        let Self { buffer, received, slot_bytes, .. } = self;
        // An error is that of a datagram sent earlier (nobody listened there), or a signal; none says anything about what
        // arrives, and it is gone by being told.
        match sys::receive(socket, buffer, *slot_bytes, |it| received.push(it)) {
            Ok(count) => count == BATCH,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// The next slot with something in it.
    pub(super) fn next(&mut self) -> Option<usize> {
        (self.next < self.received.len()).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Returns the datagram in a slot.
    pub(super) fn slot(&self, slot: usize) -> (Received, &[u8]) {
        let (received, start) = (self.received[slot], slot * self.slot_bytes);
        (received, &self.buffer[start..start + received.bytes])
    }
}
