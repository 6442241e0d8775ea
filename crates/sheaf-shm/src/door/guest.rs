//! A guest, as its host sees it.

use super::ring::{GAUGES, In, Out, Record, Rings, Way};
use super::socket;
use super::words::{Hello, SegmentBytes};
use crate::bell::Bell;
use crate::segment::Common;
use crate::{SharedMemory, SharedSegment};
use rustix::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A guest of a door. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub u64);

/// A guest that was admitted.
#[derive(Debug)]
pub struct Guest {
    /// Its number.
    pub id: GuestId,
    /// Hello of the guest.
    pub hello: Hello,
    /// Its process id, from the kernel.
    pub pid: u32,
    socket: Arc<OwnedFd>,
    common: Common,
    out: Out,
    into: In,
    bell: Bell,
    /// Record that is read in place.
    peeked: Option<Record>,
    /// The segments whose files it has: a few.
    has: Vec<u32>,
}

/// Number of values that a guest may show its host, see [`Guest::gauge`].
pub(super) const GAUGES_COUNT: usize = 8;

impl Guest {
    pub(super) fn new(
        (id, hello, pid): (GuestId, Hello, u32),
        socket: Arc<OwnedFd>,
        common: Common,
        rings: Rings,
        bell: Bell,
    ) -> Self {
        let (out, into) = (Out::new(rings, Way::Down), In::new(rings, Way::Up));
        Self { id, hello, pid, socket, common, out, into, bell, peeked: None, has: Vec::new() }
    }

    /// Writes a record of these parts, one behind the other. `false` if there is no room.
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        self.out.push(&self.common, parts)
    }

    /// The longest record.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.out.longest()
    }

    /// Makes written records visible to the guest, and wakes it.
    pub fn flush(&mut self) {
        if self.out.publish(&self.common) {
            self.bell.ring();
        }
    }

    /// Copies the next record of the guest to `content`. Returns `Some(false)` if there is none, and `None` if the data
    /// are not a record: the guest is broken.
    pub fn take(&mut self, content: &mut Vec<u8>) -> Option<bool> {
        self.into.take(&self.common, content).ok()
    }

    /// Returns the length of the next record of the guest, which stays in the ring until it is [released](Self::release).
    /// Returns `Some(None)` if there is none, and `None` if the data are not a record: the guest is broken.
    pub fn peek(&mut self) -> Option<Option<usize>> {
        if self.peeked.is_none() {
            self.peeked = self.into.peek(&self.common).ok()?;
        }
        Some(self.peeked.map(|record| record.length))
    }

    /// Copies a part of the record that was peeked at.
    ///
    /// # Panics
    /// If there is no such record, or the part is not within it.
    pub fn copy(&self, offset: usize, to: &mut [u8]) {
        let at = self.place(offset, to.len());
        self.common.read(at, to);
    }

    /// Returns a part of the record that was peeked at, in place. The guest may change it at any time: nothing may depend on its
    /// content, and it must be copied before it is checked.
    ///
    /// # Panics
    /// As [`Self::copy`].
    #[must_use]
    pub fn payload(&self, offset: usize, length: usize) -> &[u8] {
        self.common.payload(self.place(offset, length), length)
    }

    /// Returns the memory of the record that was peeked at.
    pub fn release(&mut self) {
        if let Some(record) = self.peeked.take() {
            self.into.release(&self.common, record);
        }
    }

    fn place(&self, offset: usize, length: usize) -> usize {
        let record = self.peeked.as_ref().expect("a record was peeked at");
        assert!(offset.checked_add(length).is_some_and(|end| end <= record.length), "within the record");
        record.at + offset
    }

    /// Returns a number that the guest publishes about its own work. It remains after the guest's death.
    #[must_use]
    pub fn gauge(&self, index: usize) -> u64 {
        assert!(index < GAUGES_COUNT, "there are {GAUGES_COUNT} gauges");
        self.common.u64(GAUGES + 8 * index).load(Ordering::Relaxed)
    }

    /// Returns whether the guest has the file of a segment.
    #[must_use]
    pub fn has(&self, segment: u32) -> bool {
        self.has.contains(&segment)
    }

    /// Sends the guest the file of a segment, unless it has it, before it reads from the segment.
    ///
    /// # Errors
    /// The error of the system: the guest has died, or has not read earlier messages.
    pub fn share(&mut self, segment: &SharedSegment, memory: &mut SharedMemory) -> std::io::Result<()> {
        if self.has.contains(&segment.id) {
            return Ok(());
        }
        let living: Vec<u32> = memory.segments().iter().map(|segment| segment.id).collect();
        self.has.retain(|id| living.contains(id));
        self.has.push(segment.id);
        let message = SegmentBytes::emit(segment.id, segment.bytes, &living);
        Ok(socket::send(&self.socket, &message, &[segment.file()])?)
    }

    /// Ends the visit: the guest's socket closes. Records that it has written can still be taken.
    pub fn end(&mut self) {
        // Fails where it has ended already.
        let _: io::Result<()> = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        self.bell.ring();
    }
}
