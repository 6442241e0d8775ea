//! Liveness of the peer's machine, as known by the local kernel.
//!
//! A machine without power, or that cannot be reached, answers nothing. One whose process is stopped or starved still
//! acknowledges data and, once its receive buffer is full, zero-window probes. `TCP_USER_TIMEOUT` does not distinguish
//! the two; the counts of unanswered retransmissions and probes do.
#![allow(unsafe_code, reason = "getsockopt fills a structure")]

use mio::net::TcpStream;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Retransmissions and probes without an answer that count as silence: fewer may be lost on the way.
const UNANSWERED: u32 = 3;

/// Time for which a peer's machine has answered nothing, although the kernel has asked several times; `None` where it answers, or
/// nothing is asked.
pub(super) fn unanswered_for(stream: &TcpStream) -> Option<Duration> {
    let info = info(stream)?;
    let asked = u32::from(info.tcpi_retransmits) + u32::from(info.tcpi_probes);
    (asked >= UNANSWERED).then(|| Duration::from_millis(info.tcpi_last_ack_recv.into()))
}

fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    // An older kernel fills only part of it: the rest is zero.
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`, which lives until the call is over.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: all zeros are a valid value of this plain structure, and so are the bytes written by the kernel.
    (result == 0).then(|| unsafe { info.assume_init() })
}
