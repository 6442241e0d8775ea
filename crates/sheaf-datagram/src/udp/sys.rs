//! Many datagrams with one system call.
#![allow(unsafe_code, reason = "sendmmsg and recvmmsg take addresses of addresses")]

use socket2::SockAddr;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Maximum number of datagrams moved by one call.
pub const BATCH: usize = 64;

/// A datagram to be sent: where to, and where in a buffer its bytes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) to: SocketAddr,
    pub(super) start: usize,
    pub(super) bytes: usize,
}

/// Sends the first of `entries`, whose bytes are in `buffer`; returns the number that the kernel took.
pub(super) fn send(socket: &UdpSocket, buffer: &[u8], entries: &[Entry]) -> io::Result<usize> {
    let entries = &entries[..entries.len().min(BATCH)];
    // SAFETY: all zeros are valid values of these plain structures: null pointers with lengths of zero.
    let (mut pieces, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    let mut addresses: [MaybeUninit<SockAddr>; BATCH] = [const { MaybeUninit::uninit() }; BATCH];
    for (place, entry) in entries.iter().enumerate() {
        let bytes = &buffer[entry.start..entry.start + entry.bytes];
        let address = addresses[place].write(SockAddr::from(entry.to));
        // The kernel only reads through these pointers.
        pieces[place] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let head = &mut messages[place].msg_hdr;
        head.msg_name = address.as_ptr().cast_mut().cast();
        head.msg_namelen = address.len();
        head.msg_iov = &raw mut pieces[place];
        head.msg_iovlen = 1;
    }
    // SAFETY: `messages` has the given number of entries, each with an address and a piece that live until the call
    // returns, in arrays that are not moved; the pieces are in `buffer`.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            entries.len() as libc::c_uint,
            // The C libraries disagree on the sign of flags.
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A datagram that was received into a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) from: Option<SocketAddr>,
    pub(super) bytes: usize,
    /// It was larger than the slot.
    pub(super) is_cut: bool,
}

/// Receives into the slots of `slot_bytes` each in `buffer`, at most [`BATCH`]; calls `received` for each.
pub(super) fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
    slot_bytes: usize,
    mut received: impl FnMut(Received),
) -> io::Result<usize> {
    // SAFETY: all zeros are valid values of these plain structures.
    let (mut pieces, mut messages, mut addresses): (
        [libc::iovec; BATCH],
        [libc::mmsghdr; BATCH],
        [libc::sockaddr_storage; BATCH],
    ) = unsafe { (zeroed(), zeroed(), zeroed()) };
    let mut slots = 0;
    for (place, slot) in buffer.chunks_exact_mut(slot_bytes).take(BATCH).enumerate() {
        pieces[place] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        let head = &mut messages[place].msg_hdr;
        head.msg_name = (&raw mut addresses[place]).cast();
        head.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        head.msg_iov = &raw mut pieces[place];
        head.msg_iovlen = 1;
        slots += 1;
    }
    // SAFETY: `messages` has the given number of entries; each points to a slot of `buffer`, which is borrowed
    // exclusively during the call, and to an address structure of the full size. No timeout is given.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            slots,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    for (message, address) in messages.iter().zip(&addresses).take(count) {
        received(Received {
            from: address_of(address),
            bytes: (message.msg_len as usize).min(slot_bytes),
            is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        });
    }
    Ok(count)
}

/// The address that the kernel wrote.
fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family shows that it is a `sockaddr_in`, which is smaller than the storage and has no
            // stricter alignment.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = u32::from_be(address.sin_addr.s_addr);
            Some(SocketAddr::from((std::net::Ipv4Addr::from(ip), u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a `sockaddr_in6`.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::V6(std::net::SocketAddrV6::new(
                address.sin6_addr.s6_addr.into(),
                u16::from_be(address.sin6_port),
                address.sin6_flowinfo,
                address.sin6_scope_id,
            )))
        }
        _ => None,
    }
}
