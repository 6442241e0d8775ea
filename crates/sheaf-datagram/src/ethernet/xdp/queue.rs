//! One queue of an interface: a socket, frame slots registered with the kernel, and the rings.

#![allow(unsafe_code, reason = "slices of chunks that the rings say are ours")]

use super::super::region::Region;
use super::super::sys;
use super::super::wire::{Flushed, means_broken};
use super::Copying;
use super::ring::{Descriptor, Entries, FromKernel, ToKernel};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use sheaf_transport::LinkStats;
use sheaf_wire::Nanos;
use sheaf_wire::ethernet::ETHERNET_HEADER_BYTES;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that the kernel leaves free in front of the data in a chunk (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: usize = 256;

/// Chunks are given back to the kernel in batches: a ring's position is a cache line that both sides use.
const RETURN_BATCH: u32 = 32;

/// Options of `linux/if_xdp.h` and `asm-generic/socket.h` that the C library's header does not have.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;

/// Frames that one system call sends where they are copied. The kernel's own limit is 32.
const SEND_BUDGET: i32 = 256;

/// System calls of one flush that send nothing before it gives up for now.
const TRIES: usize = 4;

/// Division of a queue's memory: chunks to receive into, then frames to send from, each of some consecutive chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    frame_bytes: usize,
    chunk_bytes: usize,
    receive_chunks: u32,
    frames: u32,
    chunks_of_frame: u32,
}

impl Layout {
    pub(super) fn new(mtu: usize, frame_slots: u32) -> Self {
        let frame_bytes = ETHERNET_HEADER_BYTES + mtu;
        // The kernel takes chunks of 2 or 4 KiB.
        let chunk_bytes = if frame_bytes + HEADROOM_BYTES <= 2048 { 2048 } else { 4096 };
        let chunks = |bytes: usize, of: usize| bytes.div_ceil(of) as u32;
        let receive_chunks = frame_slots * chunks(frame_bytes, chunk_bytes - HEADROOM_BYTES);
        let chunks_of_frame = chunks(frame_bytes, chunk_bytes);
        Self { frame_bytes, chunk_bytes, receive_chunks, frames: frame_slots, chunks_of_frame }
    }

    /// Returns whether a frame may need several chunks.
    pub(super) fn has_fragments(&self) -> bool {
        self.frame_bytes > self.chunk_bytes - HEADROOM_BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunk_bytes * (self.receive_chunks + self.frames * self.chunks_of_frame) as usize
    }

    fn receive_bytes(&self) -> usize {
        self.chunk_bytes * self.receive_chunks as usize
    }

    /// Returns the offset of the frame `index` to be sent.
    fn frame_place(&self, index: u32) -> usize {
        self.receive_bytes() + index as usize * self.chunks_of_frame as usize * self.chunk_bytes
    }

    /// The frame to be sent that a chunk belongs to, if that is one.
    fn frame_at(&self, address: u64) -> Option<usize> {
        let behind = usize::try_from(address).ok()?.checked_sub(self.receive_bytes())?;
        let index = behind / self.chunk_bytes / self.chunks_of_frame as usize;
        (index < self.frames as usize).then_some(index)
    }

    fn receive_ring(&self) -> u32 {
        self.receive_chunks.next_power_of_two()
    }

    /// The kernel shows a frame before it gives back the place in this ring that the frame's chunk had: a chunk may come back
    /// while its old place is still taken.
    fn fill_ring(&self) -> u32 {
        self.receive_ring() * 2
    }

    fn send_ring(&self) -> u32 {
        (self.frames * self.chunks_of_frame).next_power_of_two()
    }
}

/// Position of the current frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    /// Nowhere.
    None,
    /// In a chunk.
    Chunk { at: usize, bytes: usize },
    /// Put together from several.
    Joined,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    socket: OwnedFd,
    memory: Region,
    layout: Layout,
    fill: ToKernel,
    received: FromKernel,
    send: ToKernel,
    sent: FromKernel,
    /// Frames to be sent that are free, and of the others how many chunks the kernel still has.
    free: Vec<u32>,
    in_flight: Vec<u32>,
    current: Current,
    /// The pieces of a frame of several chunks, one behind the other; kept between calls while the last one is missing.
    joined: Vec<u8>,
    /// Chunks put into `fill` and not published.
    returned: u32,
    zero_copy: bool,
}

impl Queue {
    pub(super) fn open(interface: u32, queue: u32, layout: Layout, copying: Copying) -> io::Result<Self> {
        if let Ok(opened) = Self::bind(interface, queue, layout, true) {
            return Ok(opened);
        }
        // The reason is in the second answer: that a driver has no zero copy is the usual one, and none if copies are allowed.
        Self::bind(interface, queue, layout, copying == Copying::Refused)
    }

    fn bind(interface: u32, queue: u32, layout: Layout, zero_copy: bool) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        let memory = Region::anonymous(layout.bytes())?;
        let registration = XdpUmemReg {
            addr: memory.address(),
            len: memory.bytes() as u64,
            chunk_size: layout.chunk_bytes as u32,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, registration)?;
        let (fill, receive, send) = (layout.fill_ring(), layout.receive_ring(), layout.send_ring());
        sockopt::set_xdp_umem_fill_ring_size(&socket, fill)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, send)?;
        sockopt::set_xdp_rx_ring_size(&socket, receive)?;
        sockopt::set_xdp_tx_ring_size(&socket, send)?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let at = socket.as_fd();
        let mut fill = ToKernel::map(at, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, fill, Entries::Addresses)?;
        let sent =
            FromKernel::map(at, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, send, Entries::Addresses)?;
        let received = FromKernel::map(at, XDP_PGOFF_RX_RING, &offsets.rx, receive, Entries::Frames)?;
        let to_send = ToKernel::map(at, XDP_PGOFF_TX_RING, &offsets.tx, send, Entries::Frames)?;
        for chunk in 0..layout.receive_chunks {
            fill.put_address(u64::from(chunk) * layout.chunk_bytes as u64);
        }
        fill.publish();
        // Bytes that are copied on their way out count against this buffer; the slots are the bound, and the buffer
        // must not be another.
        let buffer = i32::try_from(layout.bytes() * 2).unwrap_or(i32::MAX);
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer);
        // Since Linux 6.17.
        let _ = sys::set_option(&socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &SEND_BUDGET);
        let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        flags |= if zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
        if layout.has_fragments() {
            flags |= SocketAddrXdpFlags::XDP_USE_SG;
        }
        rustix::net::bind(&socket, &SocketAddrXdp::new(flags, interface, queue))?;
        let zero_copy = sockopt::xdp_options(&socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        Ok(Self {
            socket,
            memory,
            layout,
            fill,
            received,
            send: to_send,
            sent,
            free: (0..layout.frames).rev().collect(),
            in_flight: vec![0; layout.frames as usize],
            current: Current::None,
            joined: Vec::with_capacity(if layout.has_fragments() { layout.frame_bytes } else { 0 }),
            returned: 0,
            zero_copy,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Makes the driver poll for frames when this process asks for it, instead of by interrupts. Options that the
    /// kernel lacks are left out.
    pub(super) fn prefer_busy_poll(&self, span: Nanos) {
        let microseconds = i32::try_from(span.to_std().as_micros()).unwrap_or(i32::MAX).max(1);
        let options =
            [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, microseconds), (SO_BUSY_POLL_BUDGET, 64)];
        for (name, value) in options {
            let _ = sys::set_option(&self.socket, libc::SOL_SOCKET, name, &value);
        }
    }

    pub(super) fn drive(&self, stats: &mut LinkStats) {
        stats.reads += 1;
        stats.system_calls += 1;
        let _ = rustix::net::recv(&self.socket, &mut [0_u8; 0], RecvFlags::DONTWAIT);
    }

    /// Gives a chunk to the kernel to receive into.
    fn return_chunk(&mut self, address: u64) {
        let has_room = self.fill.has_room(1);
        debug_assert!(has_room, "there are twice as many places as chunks");
        self.fill.put_address(address & !(self.layout.chunk_bytes as u64 - 1));
        self.returned += 1;
    }

    fn publish_returned(&mut self) {
        if self.returned > 0 {
            self.returned = 0;
            self.fill.publish();
            self.received.give_back();
        }
    }

    /// The place of a descriptor of a received frame, if it lies in one chunk of those to receive into.
    fn place(&self, descriptor: Descriptor) -> Option<(usize, usize)> {
        let (at, bytes) = (usize::try_from(descriptor.at).ok()?, descriptor.bytes as usize);
        let room = self.layout.chunk_bytes - at % self.layout.chunk_bytes;
        (at < self.layout.receive_bytes() && bytes <= room).then_some((at, bytes))
    }

    fn chunk(&self, at: usize, bytes: usize) -> &[u8] {
        // SAFETY: `place` has checked the descriptor, with which the kernel gave the chunk to this side; it is returned only
        // through an exclusive borrow, and frames to be written lie elsewhere.
        unsafe { self.memory.slice(at, bytes) }
    }

    /// See [`super::super::wire::Wire::next`].
    pub(super) fn next(&mut self, stats: &mut LinkStats) -> bool {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None => {}
            Current::Chunk { at, .. } => self.return_chunk(at as u64),
            Current::Joined => self.joined.clear(),
        }
        if self.returned >= RETURN_BATCH {
            self.publish_returned();
        }
        while let Some(descriptor) = self.received.take_frame() {
            let Some((at, bytes)) = self.place(descriptor) else {
                debug_assert!(false, "the kernel gives chunks that it was given: {descriptor:?}");
                continue;
            };
            if !descriptor.continued && self.joined.is_empty() {
                self.current = Current::Chunk { at, bytes };
                return true;
            }
            // Bytes beyond the size of a frame are dropped; the head will not match the rest.
            if self.joined.len() + bytes <= self.layout.frame_bytes {
                // SAFETY: As in `chunk`; the region and the vector are different fields.
                self.joined.extend_from_slice(unsafe { self.memory.slice(at, bytes) });
                stats.bytes_copied += bytes as u64;
            }
            self.return_chunk(descriptor.at);
            if !descriptor.continued {
                self.current = Current::Joined;
                return true;
            }
        }
        self.publish_returned();
        if self.fill.needs_wakeup() && self.zero_copy {
            // The driver has run out of chunks and stopped; a call makes it continue.
            self.drive(stats);
        }
        false
    }

    pub(super) fn frame(&self) -> &[u8] {
        match self.current {
            Current::None => &[],
            Current::Chunk { at, bytes } => self.chunk(at, bytes),
            Current::Joined => &self.joined,
        }
    }

    pub(super) fn has_frame(&mut self) -> bool {
        !self.received.is_empty()
    }

    /// Takes back the frames that were sent.
    fn reclaim(&mut self) {
        let mut any = false;
        while let Some(address) = self.sent.take_address() {
            any = true;
            let Some(frame) = self.layout.frame_at(address) else {
                debug_assert!(false, "the kernel returns what it was given: {address:#x}");
                continue;
            };
            self.in_flight[frame] = self.in_flight[frame].saturating_sub(1);
            if self.in_flight[frame] == 0 {
                self.free.push(frame as u32);
            }
        }
        if any {
            self.sent.give_back();
        }
    }

    /// See [`super::super::wire::Wire::put`].
    pub(super) fn put(&mut self, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        debug_assert!(bytes > 0 && bytes <= self.layout.frame_bytes);
        if self.free.is_empty() {
            self.reclaim();
        }
        let chunks = bytes.div_ceil(self.layout.chunk_bytes) as u32;
        if !self.send.has_room(chunks) {
            return false;
        }
        let Some(frame) = self.free.pop() else { return false };
        let begin = self.layout.frame_place(frame);
        // SAFETY: The frame was free: never given to the kernel, or all of its chunks came back.
        fill(unsafe { self.memory.slice_mut(begin, bytes) });
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + self.layout.chunk_bytes);
            let (place, part) = ((begin + at) as u64, (end - at) as u32);
            self.send.put_frame(Descriptor { at: place, bytes: part, continued: end < bytes });
            at = end;
        }
        self.in_flight[frame as usize] = chunks;
        true
    }

    /// See [`super::super::wire::Wire::flush`].
    pub(super) fn flush(&mut self, stats: &mut LinkStats) -> Flushed {
        self.send.publish();
        let mut pending = self.send.pending();
        let mut tries = 0;
        while pending > 0 && tries < TRIES && (self.send.needs_wakeup() || !self.zero_copy) {
            stats.writes += 1;
            stats.system_calls += 1;
            // An error that means "busy" shows that the call has sent its maximum number of frames, or that memory is
            // exhausted.
            if let Err(error) = rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT)
                && means_broken(error)
            {
                return Flushed::Refused;
            }
            let left = self.send.pending();
            tries = if left < pending { 0 } else { tries + 1 };
            pending = left;
        }
        self.reclaim();
        if pending == 0 || self.zero_copy { Flushed::All } else { Flushed::Part }
    }

    pub(super) fn overruns(&self) -> u64 {
        let Ok(statistics) = sockopt::xdp_statistics(&self.socket) else { return 0 };
        // A frame for which there was no chunk is counted as dropped where it is copied, by the driver where it is not.
        statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_and_chunks_lie_side_by_side_and_each_chunk_leads_back_to_its_frame(
            mtu in 576_usize..65_535,
            slots_log in 4_u32..9,
        ) {
            let layout = Layout::new(mtu, 1 << slots_log);
            prop_assert!(layout.chunk_bytes == 2048 || layout.chunk_bytes == 4096);
            prop_assert!(layout.receive_ring() >= layout.receive_chunks, "all chunks fit the ring");
            let of_frame = layout.chunks_of_frame as usize;
            prop_assert!(of_frame * layout.chunk_bytes >= mtu + ETHERNET_HEADER_BYTES);
            prop_assert_eq!(layout.has_fragments(), mtu + ETHERNET_HEADER_BYTES > layout.chunk_bytes - HEADROOM_BYTES);
            let mut end = layout.receive_bytes();
            prop_assert_eq!(layout.frame_at(end as u64 - 1), None);
            for index in 0..layout.frames {
                let begin = layout.frame_place(index);
                prop_assert_eq!(begin, end);
                prop_assert!(begin.is_multiple_of(layout.chunk_bytes));
                end = begin + of_frame * layout.chunk_bytes;
                for chunk in 0..of_frame {
                    let at = (begin + chunk * layout.chunk_bytes) as u64;
                    prop_assert_eq!(layout.frame_at(at), Some(index as usize));
                }
            }
            prop_assert_eq!(end, layout.bytes());
            prop_assert_eq!(layout.frame_at(end as u64), None);
        }
    }
}
