//! Datagrams that the kernel had.

use super::framing::PREFIX_BYTES;
use super::sys::{self, BATCH, Received};
use sheaf_transport::LinkStats;
use std::net::UdpSocket;

/// Slots for one socket, and the datagrams in them.
#[derive(Debug)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    slot_bytes: usize,
    received: Vec<Received>,
    /// The next slot to read.
    next: usize,
}

impl Incoming {
    /// Slots for datagrams of at most `datagram_bytes`.
    pub(super) fn new(datagram_bytes: usize) -> Self {
        // One byte more than the largest datagram, so that the kernel reports a larger one as truncated.
        let slot_bytes = (PREFIX_BYTES + datagram_bytes + 1).next_multiple_of(64);
        Self { buffer: vec![0; slot_bytes * BATCH], slot_bytes, received: Vec::with_capacity(BATCH), next: 0 }
    }

    /// Receives from the kernel, when all slots were read; returns `true` if the kernel may have more.
    pub(super) fn fill(&mut self, socket: &UdpSocket, stats: &mut LinkStats) -> bool {
        self.next = 0;
        self.received.clear();
        stats.system_calls += 1;
        stats.reads += 1;
        let Self { buffer, received, slot_bytes, .. } = self;
        // The error of a datagram sent earlier (its port was closed), or a signal: it says nothing about received
        // datagrams, and reporting it clears it.
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
