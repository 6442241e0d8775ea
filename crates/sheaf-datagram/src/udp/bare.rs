//! Batches of packets without framing, ports and recovery: the limit of a socket, for measurements.

use super::sys::{self, Entry};
use std::io;
use std::net::{SocketAddr, UdpSocket};

pub use super::sys::BATCH;

/// Opens a socket on loopback that does not block, and for which the kernel holds this many bytes, if it grants as many.
///
/// # Errors
/// Of the system.
pub fn open(receive_buffer_bytes: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(receive_buffer_bytes)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Receives at most [`BATCH`] packets, each into a slot of `slot_bytes` of `buffer`, without waiting. Returns their number.
///
/// # Errors
/// Of the system, also if there is no packet.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8], slot_bytes: usize) -> io::Result<usize> {
    sys::receive(socket, buffer, slot_bytes, |_| {})
}

/// Sends packets, each a slot of `slot_bytes` of `buffer`, at most [`BATCH`]. Returns the number that the kernel took.
///
/// # Errors
/// Of the system.
pub fn send(socket: &UdpSocket, to: SocketAddr, buffer: &[u8], slot_bytes: usize) -> io::Result<usize> {
    let slots = (buffer.len() / slot_bytes.max(1)).min(BATCH);
    let entry = |slot: usize| Entry { to, start: slot * slot_bytes, bytes: slot_bytes };
    let entries: Vec<Entry> = (0..slots).map(entry).collect();
    sys::send(socket, buffer, &entries)
}
