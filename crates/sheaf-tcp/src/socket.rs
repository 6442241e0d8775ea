//! The system calls, and how sockets are set up.

use super::settings::TcpSettings;
use mio::net::TcpStream;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::time::Duration;

/// Writing to a connection that the peer has closed is an error here, never a signal: this may run inside a program
/// that does not ignore `SIGPIPE`.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();

/// Keep-alive probes within the time after which a peer's machine counts as dead.
const PROBES: u32 = 3;

/// Begins to connect. The connection is up, or has failed, when the socket becomes writable.
pub(super) fn connect(address: SocketAddr, settings: &TcpSettings) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // The window scale is agreed upon with the first packet: buffer sizes come before.
    set_up(&SockRef::from(&socket), settings)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// Sets the options of a connection, on a new or accepted socket.
pub(super) fn set_up(socket: &SockRef<'_>, settings: &TcpSettings) -> io::Result<()> {
    set_buffers(socket, settings)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = settings.congestion {
        rustix::net::sockopt::set_tcp_congestion(&**socket, name)
            .map_err(|error| no_congestion(name, error))?;
    }
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_vendor = "apple")]
    socket.set_nosigpipe(true)?;
    let probe = (settings.silent_machine.to_std() / (PROBES + 1)).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(probe).with_interval(probe);
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    let keepalive = keepalive.with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(settings.stalled_peer.max(settings.dead_peer).to_std()))?;
    Ok(())
}

/// The kernel's error only says that a file does not exist.
#[cfg(target_os = "linux")]
fn no_congestion(name: &str, error: Errno) -> io::Error {
    let known =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let error = io::Error::from(error);
    let text =
        format!("the kernel does not offer congestion control {name} ({error}); it has {}", known.trim());
    io::Error::new(error.kind(), text)
}

/// Sets the kernel's buffer sizes; accepted connections inherit a listener's.
pub(super) fn set_buffers(socket: &SockRef<'_>, settings: &TcpSettings) -> io::Result<()> {
    if let Some(bytes) = settings.send_buffer {
        socket.set_send_buffer_size(bytes.as_usize())?;
    }
    if let Some(bytes) = settings.receive_buffer {
        socket.set_recv_buffer_size(bytes.as_usize())?;
    }
    Ok(())
}

/// Returns whether a connection leads to itself. If a local port in the kernel's ephemeral range is called repeatedly
/// and no process listens there, a call may eventually be assigned that port as its own, and TCP connects the socket to
/// itself (a simultaneous open). There is no peer, and the intended listener finds the port taken.
pub(super) fn leads_to_itself(socket: &SockRef<'_>) -> bool {
    let ends = (socket.local_addr(), socket.peer_addr());
    matches!(ends, (Ok(own), Ok(other)) if own.as_socket() == other.as_socket())
}

/// Receives into `room`; gives the part that was filled.
pub(super) fn receive<'a>(stream: &TcpStream, room: &'a mut [MaybeUninit<u8>]) -> io::Result<&'a mut [u8]> {
    // Not in a loop over EINTR, because the room is lent only once: the caller comes back.
    let ((filled, _), _) = rustix::net::recv(stream, room, RecvFlags::empty())?;
    Ok(filled)
}

/// Receives into `room`; gives the number of bytes.
pub(super) fn receive_slice(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(stream, room, RecvFlags::empty())?.1)
}

/// Sends as much as fits into the kernel's buffer; returns the number of bytes.
pub(super) fn send(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| rustix::net::sendmsg(stream, pieces, &mut control, SEND_FLAGS))?)
}

/// Returns whether the error of an accept concerns that one connection, or no connection, and not this process.
pub(super) fn concerns_only_the_caller(error: &io::Error) -> bool {
    // Linux hands pending network errors of the new connection to accept, see accept(2).
    let of_the_connection = [
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::PROTO,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTUNREACH,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::TIMEDOUT,
        Errno::CONNRESET,
        Errno::PERM,
    ];
    of_the_connection.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error()))
}
