//! The system calls of meeting: sockets of one host, which carry whole messages and open files.

use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The most files that a message carries.
const MAX_FILES: usize = 8;

/// Number of callers that wait to be accepted. A further caller is refused and calls again.
const BACKLOG: i32 = 128;

/// Maximum length of the name of a meeting place, in bytes: an address has room for 107, including the prefix of the
/// name.
pub const MAX_NAME_BYTES: usize = 80;

/// Returns the address of a meeting place: a name in the kernel, which is free again when its socket is closed for any
/// reason. It includes the user; [`is_ours`] checks that other users cannot take part.
pub(super) fn address(name: &str) -> io::Result<SocketAddrUnix> {
    let user = rustix::process::geteuid().as_raw();
    SocketAddrUnix::new_abstract_name(format!("sheaf/{user}/{name}").as_bytes())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// A socket that waits for callers.
pub(super) fn listen(name: &str) -> io::Result<OwnedFd> {
    listen_at(&address(name)?)
}

pub(super) fn listen_at(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects. The connection succeeds at once or fails.
pub(super) fn connect(name: &str) -> io::Result<OwnedFd> {
    connect_to(&address(name)?)
}

pub(super) fn connect_to(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::connect(&socket, address)?;
    Ok(socket)
}

/// Returns the address of a meeting place that is a file: relative to its directory, so that the length of its path
/// does not matter. The directory stays open as long as the address is used.
fn file_address(path: &Path) -> io::Result<(OwnedFd, SocketAddrUnix)> {
    let name = path.file_name().ok_or(io::Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = rustix::fs::open(
        parent.unwrap_or(Path::new(".")),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    let address = SocketAddrUnix::new(&short)?;
    Ok((directory, address))
}

/// Makes a socket at `path` that accepts connections. The caller removes the file; the remains of a killed process are
/// replaced.
pub(crate) fn listen_path(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (_directory, address) = file_address(path)?;
    match rustix::net::bind(&socket, &address) {
        Err(io::Errno::ADDRINUSE)
            if connect_path(path).is_err_and(|error| error == io::Errno::CONNREFUSED) =>
        {
            rustix::fs::unlink(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to the socket at `path`.
pub(crate) fn connect_path(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let (_directory, address) = file_address(path)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// The process at the other end.
pub(crate) fn peer_process(socket: &OwnedFd) -> Option<u32> {
    socket_peercred(socket).ok().and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok())
}

/// The next caller.
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

/// Returns whether the process at the other end runs as the same user.
pub(crate) fn is_ours(socket: &OwnedFd) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Sends one message. The first messages on a new connection always have room.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Errno::TOOBIG);
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message of at most `bytes.len()` bytes, and the files that came with it. `Ok(0)`: the other end is closed.
pub(crate) fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(bytes)],
        &mut control,
        RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    Ok((received.bytes, files))
}
