//! Datagrams that wait for the kernel.

use super::sys::{self, BATCH, Entry};
use sheaf_transport::LinkStats;
use std::net::{SocketAddr, UdpSocket};

/// Maximum number of datagrams that wait for one rail.
const WAITING: usize = 2 * BATCH;

/// Datagrams for one socket, side by side.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    buffer: Vec<u8>,
    entries: Vec<Entry>,
    /// Whether the kernel takes no more now.
    pub(super) is_full: bool,
}

impl Outgoing {
    /// Adds a datagram: some pieces. `false` if there is no room.
    pub(super) fn push(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        pieces: &[&[u8]],
        rest: &[&[u8]],
        stats: &mut LinkStats,
    ) -> bool {
        if self.entries.len() >= WAITING {
            self.flush(socket, stats);
            if self.entries.len() >= WAITING {
                return false;
            }
        }
        let start = self.buffer.len();
        for piece in pieces.iter().chain(rest) {
            self.buffer.extend_from_slice(piece);
        }
        self.entries.push(Entry { to, start, bytes: self.buffer.len() - start });
        true
    }

    /// Passes datagrams to the kernel, as many as it takes.
    pub(super) fn flush(&mut self, socket: &UdpSocket, stats: &mut LinkStats) {
        let mut sent = 0;
        self.is_full = false;
        while sent < self.entries.len() {
            stats.system_calls += 1;
            stats.writes += 1;
            match sys::send(socket, &self.buffer, &self.entries[sent..]) {
                Ok(0) => break,
                Ok(count) => sent += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.is_full = true;
                    break;
                }
                // The error of an earlier datagram (its port was closed), or a missing route: this one is lost, as any
                // may be.
                Err(_) => sent += 1,
            }
        }
        if sent == self.entries.len() {
            self.entries.clear();
            self.buffer.clear();
        } else {
            self.entries.drain(..sent);
        }
    }
}
