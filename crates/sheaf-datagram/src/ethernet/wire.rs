//! One rail's way to the network, whichever part of the kernel it goes through.

use rustix::event::PollFd;
use sheaf_transport::LinkStats;
use std::fmt;

/// Frames in and out of one interface. Nothing here blocks.
pub(super) trait Wire: Send + fmt::Debug {
    /// Goes on to the next frame that arrived; what [`frame`](Self::frame) gave before belongs to the kernel again. `false`:
    /// there is none.
    fn next(&mut self, stats: &mut LinkStats) -> bool;

    /// The frame of the last [`next`](Self::next) that said `true`.
    fn frame(&self) -> &[u8];

    /// Whether a frame has arrived that was not looked at.
    fn has_frame(&mut self) -> bool;

    /// Has `fill` write a frame of `bytes` bytes into a slot. `lane` tells frames apart that need not keep their order.
    /// `false`: all slots are full, and nothing was written.
    fn put(&mut self, lane: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Has the kernel send what was put in; as much of it as it takes now.
    fn flush(&mut self, stats: &mut LinkStats) -> Flushed;

    /// Adds what to wait for: descriptors that are readable when a frame has arrived.
    fn sockets<'a>(&'a self, list: &mut Vec<PollFd<'a>>);

    /// Lets the driver look for frames now, where it was asked to wait for that (busy polling).
    fn drive(&self, stats: &mut LinkStats);

    /// Returns the number of frames that the kernel dropped because the ring was not read in time.
    fn overruns(&self) -> u64;

    /// Describes the wire for people: `AF_XDP, native, copy, 1 queue`.
    fn describe(&self) -> String;
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// The kernel has everything.
    All,
    /// Some is left for the next flush.
    Part,
    /// The kernel says that the interface does not work.
    Refused,
}

/// Whether an error of sending means that the interface does not work, and not that it is busy.
pub(super) fn means_broken(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [Errno::NETDOWN, Errno::NXIO, Errno::NODEV, Errno::NETUNREACH].contains(&error)
}
