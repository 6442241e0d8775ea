//! The four rings of an AF_XDP socket, as they lie in memory shared with the kernel.

use super::super::cursor::{Consumer, Producer};
use super::super::region::Region;
use rustix::io;
use rustix::net::xdp::XdpRingOffset;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bit of a ring's flags: the kernel continues only when it is called.
const NEED_WAKEUP: u32 = 1;

/// An entry of the rings to receive and to send: where bytes of a frame lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) at: u64,
    pub(super) bytes: u32,
    /// The frame continues in the next entry.
    pub(super) continued: bool,
}

/// Bit of an entry's options (`XDP_PKT_CONTD`).
const CONTINUED: u32 = 1;

const DESCRIPTOR_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;

/// Entries of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entries {
    /// Slots: free ones to receive into, and those whose frames were sent.
    Addresses,
    /// Frames: to be sent, and arrived.
    Frames,
}

/// Offsets of the parts of a ring.
#[derive(Debug)]
struct Shared {
    memory: Region,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
}

impl Shared {
    fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
        entries: Entries,
    ) -> io::Result<Self> {
        let entry_bytes = match entries {
            Entries::Addresses => ADDRESS_BYTES,
            Entries::Frames => DESCRIPTOR_BYTES,
        };
        let bytes = offsets.desc as usize + size as usize * entry_bytes;
        let memory = Region::of_socket(socket, bytes, page)?;
        Ok(Self {
            memory,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags.map(|at| at as usize),
            entries: offsets.desc as usize,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        self.memory.u32(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.memory.u32(self.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        self.flags.is_none_or(|at| self.memory.u32(at).load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }

    fn address(&self, place: usize) -> u64 {
        self.memory.u64(self.entries + place * ADDRESS_BYTES).load(Ordering::Relaxed)
    }

    fn set_address(&self, place: usize, address: u64) {
        self.memory.u64(self.entries + place * ADDRESS_BYTES).store(address, Ordering::Relaxed);
    }

    fn descriptor(&self, place: usize) -> Descriptor {
        let at = self.entries + place * DESCRIPTOR_BYTES;
        let word = |offset| self.memory.u32(at + offset).load(Ordering::Relaxed);
        Descriptor {
            at: self.memory.u64(at).load(Ordering::Relaxed),
            bytes: word(8),
            continued: word(12) & CONTINUED != 0,
        }
    }

    fn set_descriptor(&self, place: usize, descriptor: Descriptor) {
        let at = self.entries + place * DESCRIPTOR_BYTES;
        self.memory.u64(at).store(descriptor.at, Ordering::Relaxed);
        self.memory.u32(at + 8).store(descriptor.bytes, Ordering::Relaxed);
        self.memory.u32(at + 12).store(u32::from(descriptor.continued), Ordering::Relaxed);
    }
}

/// A ring that this side puts entries in.
#[derive(Debug)]
pub(super) struct ToKernel {
    shared: Shared,
    cursor: Producer,
}

impl ToKernel {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
        entries: Entries,
    ) -> io::Result<Self> {
        Ok(Self {
            shared: Shared::map(socket, page, offsets, size, entries)?,
            cursor: Producer::new(size, 0),
        })
    }

    pub(super) fn has_room(&mut self, entries: u32) -> bool {
        self.cursor.has_room(self.shared.consumer(), entries)
    }

    /// There must be room.
    pub(super) fn put_address(&mut self, address: u64) {
        let place = self.cursor.next_place();
        self.shared.set_address(place, address);
    }

    /// There must be room.
    pub(super) fn put_frame(&mut self, descriptor: Descriptor) {
        let place = self.cursor.next_place();
        self.shared.set_descriptor(place, descriptor);
    }

    pub(super) fn publish(&self) {
        self.cursor.publish(self.shared.producer());
    }

    /// Returns the number of entries that the kernel has not taken.
    pub(super) fn pending(&mut self) -> u32 {
        self.cursor.pending(self.shared.consumer())
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring that the kernel puts entries in.
#[derive(Debug)]
pub(super) struct FromKernel {
    shared: Shared,
    cursor: Consumer,
}

impl FromKernel {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
        entries: Entries,
    ) -> io::Result<Self> {
        Ok(Self {
            shared: Shared::map(socket, page, offsets, size, entries)?,
            cursor: Consumer::new(size, 0),
        })
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.cursor.available(self.shared.producer()) == 0
    }

    pub(super) fn take_address(&mut self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let place = self.cursor.next_place();
        Some(self.shared.address(place))
    }

    pub(super) fn take_frame(&mut self) -> Option<Descriptor> {
        if self.is_empty() {
            return None;
        }
        let place = self.cursor.next_place();
        Some(self.shared.descriptor(place))
    }

    pub(super) fn give_back(&self) {
        self.cursor.give_back(self.shared.consumer());
    }
}
