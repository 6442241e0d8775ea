//! Memory shared with the kernel: frame slots, and the rings that define their owners.

#![allow(unsafe_code, reason = "mapping memory, and slices of it that the rings' protocol gives to one side")]

use rustix::io;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A mapping that lives as long as this value.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: A region is plain memory, valid from any thread until it is dropped.
unsafe impl Send for Region {}

impl Region {
    /// Memory of this process, all zero and all there from the start: a first touch would be a page fault in mid-run.
    pub(super) fn anonymous(bytes: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: The kernel chooses an address that nothing uses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(io::Errno::NOMEM)?, bytes })
    }

    /// Maps memory that a socket shares, at `offset` of it.
    pub(super) fn of_socket(socket: impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: The kernel chooses an address that nothing uses.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                socket,
                offset,
            )?
        };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(io::Errno::NOMEM)?, bytes })
    }

    /// Returns its address, for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.base.as_ptr().addr() as u64
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn range(&self, at: usize, length: usize) -> *mut u8 {
        assert!(
            at.checked_add(length).is_some_and(|end| end <= self.bytes),
            "{length} bytes at {at} are beyond the {} of the mapping",
            self.bytes
        );
        // SAFETY: `at` is within the mapping, or one past it.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// A number that both sides may change.
    pub(super) fn u32(&self, at: usize) -> &AtomicU32 {
        let pointer = self.range(at, size_of::<AtomicU32>());
        assert!(at.is_multiple_of(align_of::<AtomicU32>()), "aligned");
        // SAFETY: In bounds and aligned (mappings begin at pages); every bit pattern is a value; atomics may change at any
        // time; the reference does not outlive the mapping.
        unsafe { AtomicU32::from_ptr(pointer.cast()) }
    }

    /// A number that both sides may change.
    pub(super) fn u64(&self, at: usize) -> &AtomicU64 {
        let pointer = self.range(at, size_of::<AtomicU64>());
        assert!(at.is_multiple_of(align_of::<AtomicU64>()), "aligned");
        // SAFETY: As in `u32`.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }
    }

    /// The bytes at `at`.
    ///
    /// # Safety
    /// Until the slice is dropped they are this side's by the protocol of the rings: the kernel does not write there, and
    /// there is no other slice that could.
    pub(super) unsafe fn slice(&self, at: usize, length: usize) -> &[u8] {
        // SAFETY: In bounds and initialised (mappings begin as zeros); not written concurrently, as the caller
        // guarantees.
        unsafe { std::slice::from_raw_parts(self.range(at, length), length) }
    }

    /// The bytes at `at`, to be written.
    ///
    /// # Safety
    /// As for [`slice`](Self::slice), and the kernel does not read there either.
    pub(super) unsafe fn slice_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        // SAFETY: As in `slice`; the exclusive borrow of the region keeps other slices of it away.
        unsafe { std::slice::from_raw_parts_mut(self.range(at, length), length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: The range was mapped by this value, and everything that points into it borrows it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
