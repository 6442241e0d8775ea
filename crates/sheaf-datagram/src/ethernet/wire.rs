//! One rail's way to the network, whichever part of the kernel it goes through.

use rustix::event::PollFd;
use sheaf_transport::LinkStats;
use std::fmt;

/// Frames in and out of one interface. No method blocks.
pub(super) trait Wire: Send + fmt::Debug {
    /// Advances to the next received frame; the previous [`frame`](Self::frame) belongs to the kernel again. Returns
    /// `false` if there is none.
    fn next(&mut self, stats: &mut LinkStats) -> bool;

    /// Returns the frame of the last [`next`](Self::next) that returned `true`.
    fn frame(&self) -> &[u8];

    /// Returns whether a frame has arrived that was not read.
    fn has_frame(&mut self) -> bool;

    /// Lets `fill` write a frame of `bytes` bytes into a slot. Frames of different `lane`s need not keep their order.
    /// Returns `false`, and writes nothing, if all slots are full.
    fn put(&mut self, lane: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Makes the kernel send queued frames, as many as it takes now.
    fn flush(&mut self, stats: &mut LinkStats) -> Flushed;

    /// Adds the descriptors that are readable when a frame has arrived.
    fn sockets<'a>(&'a self, list: &mut Vec<PollFd<'a>>);

    /// Makes the driver poll for frames now, if it was configured to wait for that (busy polling).
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
    /// The kernel reports that the interface does not work.
    Refused,
}

/// Returns whether a send error means that the interface does not work, instead of being busy.
pub(super) fn means_broken(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    [Errno::NETDOWN, Errno::NXIO, Errno::NODEV, Errno::NETUNREACH].contains(&error)
}
