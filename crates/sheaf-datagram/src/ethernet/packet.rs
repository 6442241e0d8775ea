//! Rings of a packet socket (AF_PACKET, version 2), which every driver supports.
//!
//! A ring is a row of slots, each with a status word that defines its owner; both sides use them in order. Sent frames
//! are not copied: the driver reads them from the slot. The kernel copies received frames into their slots.
//!
//! Version 3 is not used: it hands out received frames in blocks, and a block that is not full waits for a timer of at
//! least a millisecond. A builder that waits for an answer would pay that every time.

#![allow(unsafe_code, reason = "slices of slots whose status says that they are ours")]

use super::interface::Interface;
use super::program;
use super::region::Region;
use super::settings::EthernetError;
use super::sys;
use super::wire::{Flushed, Wire, means_broken};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use sheaf_transport::LinkStats;
use sheaf_wire::NodeId;
use sheaf_wire::ethernet::ETHERNET_HEADER_BYTES;
use std::cell::Cell;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Slots lie in blocks of this size, none across the end of one. Larger ones are hard to find for a kernel that has run for
/// months.
const BLOCK_BYTES: usize = 64 << 10;

/// Offset of a frame in a slot to be sent: after the slot's head.
const SEND_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Maximum number of bytes in front of a received frame in its slot: its head, and padding by the kernel.
const RECEIVE_HEAD_BYTES: usize = 96;

/// System calls of one flush that send nothing before it gives up for now.
const TRIES: usize = 4;

/// Positions of slots: a number in each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slots {
    slot_bytes: usize,
    block_bytes: usize,
    in_block: usize,
    blocks: usize,
}

impl Slots {
    /// At least `slots` of them, each for a frame of `frame_bytes`.
    fn new(frame_bytes: usize, slots: usize) -> Self {
        let slot_bytes = (RECEIVE_HEAD_BYTES + frame_bytes).next_multiple_of(64);
        let block_bytes = slot_bytes.next_power_of_two().max(BLOCK_BYTES);
        let in_block = block_bytes / slot_bytes;
        Self { slot_bytes, block_bytes, in_block, blocks: slots.div_ceil(in_block) }
    }

    fn count(&self) -> usize {
        self.in_block * self.blocks
    }

    fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    /// Returns the offset of slot `index`.
    fn place(&self, index: usize) -> usize {
        index / self.in_block * self.block_bytes + index % self.in_block * self.slot_bytes
    }

    fn request(&self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.count() as u32,
        }
    }
}

/// The current frame.
#[derive(Clone, Copy, Debug)]
struct Current {
    slot: usize,
    at: usize,
    bytes: usize,
}

/// A packet socket with its rings: first the slots to receive into, behind them those to send from.
#[derive(Debug)]
pub(super) struct PacketWire {
    socket: OwnedFd,
    memory: Region,
    slots: Slots,
    /// The next slot to check.
    receive_next: usize,
    current: Option<Current>,
    /// The next slot to write to.
    send_next: usize,
    /// Whether slots were filled that the kernel may not know of.
    unsent: bool,
    overruns: Cell<u64>,
}

impl PacketWire {
    pub(super) fn open(
        interface: &Interface,
        node: NodeId,
        ethertype: u16,
        mtu: usize,
        frame_slots: u32,
    ) -> Result<Self, EthernetError> {
        let failed = |what, source: std::io::Error| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => EthernetError::NoPermission {
                what: "open a packet socket",
                name: interface.name.clone(),
                capabilities: "cap_net_raw",
            },
            _ => EthernetError::Io { what, name: interface.name.clone(), source },
        };
        let socket = sys::packet_socket().map_err(|error| failed("open a packet socket", error))?;
        let slots = Slots::new(ETHERNET_HEADER_BYTES + mtu, frame_slots as usize);
        let set = |what, name, value: i32| {
            sys::set_option(&socket, libc::SOL_PACKET, name, &value).map_err(|error| failed(what, error))
        };
        set(
            "choose version 2 of the rings",
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        // A frame that the kernel cannot send is dropped, and does not stop those behind it.
        set("have bad frames dropped", libc::PACKET_LOSS, 1)?;
        // No queueing discipline: the sender does the pacing, and its queue would hide losses.
        set("leave out the queueing discipline", libc::PACKET_QDISC_BYPASS, 1)?;
        // Other sockets' frames on their way out are not for us. Since Linux 4.20; without it they are dropped by address.
        let _ = sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        // Frames that the driver has not sent count against this buffer; the slots are the bound, and the buffer must
        // not be another.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &send_buffer(&slots));
        let filter = program::only_for(node);
        sys::set_filter(&socket, &filter).map_err(|error| failed("set the filter", error))?;
        for (what, name) in [
            ("make the ring to receive", libc::PACKET_RX_RING),
            ("make the ring to send", libc::PACKET_TX_RING),
        ] {
            sys::set_option(&socket, libc::SOL_PACKET, name, &slots.request())
                .map_err(|error| failed(what, error))?;
        }
        let memory = Region::of_socket(&socket, slots.bytes() * 2, 0)
            .map_err(|error| failed("map the rings", error.into()))?;
        sys::bind_packet(&socket, interface.index, ethertype).map_err(|error| failed("bind to", error))?;
        Ok(Self {
            socket,
            memory,
            slots,
            receive_next: 0,
            current: None,
            send_next: 0,
            unsent: false,
            overruns: Cell::new(0),
        })
    }

    /// Returns the offset of the head of the next slot.
    fn receive_place(&self) -> usize {
        self.slots.place(self.receive_next)
    }

    fn send_place(&self) -> usize {
        self.slots.bytes() + self.slots.place(self.send_next)
    }

    fn status(&self, place: usize) -> &AtomicU32 {
        self.memory.u32(place + offset_of!(libc::tpacket2_hdr, tp_status))
    }

    /// A field of the slot's head, which is this side's.
    fn field(&self, place: usize) -> u32 {
        self.memory.u32(place).load(Ordering::Relaxed)
    }

    fn release(&mut self) {
        if let Some(current) = self.current.take() {
            self.status(current.slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }
}

/// Returns the size of all slots as the kernel counts them, including its own data for each frame.
fn send_buffer(slots: &Slots) -> i32 {
    i32::try_from(slots.count() * (slots.slot_bytes + 1024)).unwrap_or(i32::MAX)
}

impl Wire for PacketWire {
    fn next(&mut self, stats: &mut LinkStats) -> bool {
        self.release();
        loop {
            let slot = self.receive_place();
            if self.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            self.receive_next = (self.receive_next + 1) % self.slots.count();
            let length = self.field(slot + offset_of!(libc::tpacket2_hdr, tp_len));
            let stored = self.field(slot + offset_of!(libc::tpacket2_hdr, tp_snaplen));
            // `tp_mac` is the lower half of a word that is read as a whole.
            let word = self.field(slot + offset_of!(libc::tpacket2_hdr, tp_mac));
            let [low, high, ..] = word.to_ne_bytes();
            let begin = usize::from(u16::from_ne_bytes([low, high]));
            let current = Current { slot, at: slot + begin, bytes: stored as usize };
            self.current = Some(current);
            if stored == length && begin + current.bytes <= self.slots.slot_bytes {
                return true;
            }
            stats.datagrams_truncated += 1;
            self.release();
        }
    }

    fn frame(&self) -> &[u8] {
        let Some(Current { at, bytes, .. }) = self.current else { return &[] };
        // SAFETY: The slot's status defines it as ours, and only `release` resets it, which takes an exclusive borrow;
        // slots to be written are different ones.
        unsafe { self.memory.slice(at, bytes) }
    }

    fn has_frame(&mut self) -> bool {
        self.status(self.receive_place()).load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0
    }

    fn put(&mut self, _lane: usize, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        let slot = self.send_place();
        if self.status(slot).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return false;
        }
        debug_assert!(SEND_AT + bytes <= self.slots.slot_bytes);
        // SAFETY: The status shows that the kernel has finished with the slot, and it does not read the slot again
        // before the status is changed below.
        fill(unsafe { self.memory.slice_mut(slot + SEND_AT, bytes) });
        self.memory.u32(slot + offset_of!(libc::tpacket2_hdr, tp_len)).store(bytes as u32, Ordering::Relaxed);
        self.status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.send_next = (self.send_next + 1) % self.slots.count();
        self.unsent = true;
        true
    }

    fn flush(&mut self, stats: &mut LinkStats) -> Flushed {
        for _ in 0..TRIES {
            if !self.unsent {
                return Flushed::All;
            }
            fence(Ordering::SeqCst);
            stats.writes += 1;
            stats.system_calls += 1;
            match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => self.unsent = false,
                Err(error) if means_broken(error) => return Flushed::Refused,
                // A frame that the interface had no room for is lost, and later ones wait for the next call; or memory
                // is exhausted at the moment.
                Err(_) => {}
            }
        }
        if self.unsent { Flushed::Part } else { Flushed::All }
    }

    fn sockets<'a>(&'a self, list: &mut Vec<PollFd<'a>>) {
        list.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
    }

    fn drive(&self, stats: &mut LinkStats) {
        // A packet socket is filled by interrupts; there is nothing to drive. An error left by an interface that was down is
        // taken, so that a sleep does not end because of it.
        let _ = stats;
        let _ = rustix::net::recv(&self.socket, &mut [0_u8; 0], RecvFlags::DONTWAIT);
    }

    fn overruns(&self) -> u64 {
        let more = sys::packet_drops(&self.socket).unwrap_or(0);
        self.overruns.set(self.overruns.get() + u64::from(more));
        self.overruns.get()
    }

    fn describe(&self) -> String {
        format!("packet rings, {} slots each way", self.slots.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_lie_side_by_side_in_blocks_and_none_across_two(
            frame_bytes in 590_usize..65_600,
            wanted in 1_usize..5_000,
        ) {
            let slots = Slots::new(frame_bytes, wanted);
            prop_assert!(slots.count() >= wanted);
            prop_assert!(slots.block_bytes.is_multiple_of(4096) && slots.slot_bytes.is_multiple_of(16));
            prop_assert!(slots.slot_bytes >= frame_bytes + RECEIVE_HEAD_BYTES);
            let mut end = 0;
            for index in 0..slots.count() {
                let begin = slots.place(index);
                prop_assert!(begin >= end, "slot {} begins behind the one before", index);
                end = begin + slots.slot_bytes;
                prop_assert_eq!(begin / slots.block_bytes, (end - 1) / slots.block_bytes);
            }
            prop_assert!(end <= slots.bytes());
        }
    }
}
