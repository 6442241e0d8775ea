//! Shared memory: unnamed files, mapped, and read and written within their bounds.
//!
//! A segment is a `memfd`: it lives while any process has it open or mapped, and disappears with the last of them. So a
//! crash leaves nothing behind that a later start could mistake for its own. The size of a segment is sealed when it is
//! made: no process can truncate it under a reader, which would end that reader with `SIGBUS`.

#![allow(unsafe_code, reason = "mapping memory, and copying to and from what other processes may change")]

use bytes::Bytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use sheaf_transport::doorbell::DoorbellState;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The unit of the kernel's mappings here.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Makes a segment of `bytes` zero bytes, not yet in memory. `name` is for people: it appears in `/proc/PID/maps`. Its
/// size cannot change.
pub(crate) fn create(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Seals the file against writing through new mappings and against further seals: processes that receive it can only
/// read.
pub(crate) fn make_read_only_for_others(file: impl AsFd) -> io::Result<()> {
    rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
}

/// Returns the size of a segment made by another process, if the size is sealed.
pub(crate) fn sealed_bytes(file: impl AsFd) -> Option<usize> {
    let seals = rustix::fs::fcntl_get_seals(&file).ok()?;
    let size = rustix::fs::fstat(&file).ok()?.st_size;
    seals.contains(SealFlags::SHRINK).then(|| usize::try_from(size).ok())?
}

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A segment in this process's memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: A mapping is plain memory, valid from any thread until it is dropped. The methods define which concurrent
// accesses are allowed.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a segment that has at least as many, and cannot shrink.
    pub(crate) fn new(file: impl AsFd, bytes: usize, access: Access) -> io::Result<Self> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: The kernel chooses an address that nothing uses.
        let base =
            unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::Errno::NOMEM)?;
        Ok(Self { base, bytes })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the start of the mapping, for callers that hand out slices of it (see `arena`).
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Asks for huge pages. A kernel that has none to give leaves things as they are.
    pub(crate) fn prefer_huge_pages(&self) {
        // SAFETY: The range is this mapping, and the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxHugepage) };
    }

    /// Brings a range of whole pages into memory, so that first writes do not fault page by page.
    ///
    /// # Errors
    /// If there is no memory; writing there would end the process.
    pub(crate) fn populate(&self, at: usize, length: usize) -> io::Result<()> {
        assert!(at.is_multiple_of(PAGE_BYTES) && at.checked_add(length).is_some_and(|end| end <= self.bytes));
        // SAFETY: The range lies in this mapping, and the advice changes no content.
        unsafe { rustix::mm::madvise(self.base.as_ptr().add(at).cast(), length, Advice::LinuxPopulateWrite) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The range was mapped by `new`, and everything that points into it holds the mapping.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A segment that several processes write to: references are given out only to atomics, and to payload.
///
/// The copies rely on the guarantee of the rings' positions: a range is read only after its writer has published it,
/// and written only after its reader has returned it. Another process that breaks this can make a copy have any
/// content, and content is checked after it was copied.
#[derive(Debug)]
pub(crate) struct Common(Mapping);

impl Common {
    pub(crate) fn new(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        Mapping::new(file, bytes, Access::ReadWrite).map(Self)
    }

    /// The address of a range of this mapping.
    fn range(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.0.bytes), "within the mapping");
        // SAFETY: `at` is within the mapping, or one past it.
        unsafe { self.0.base.as_ptr().add(at) }
    }

    pub(crate) fn u64(&self, at: usize) -> &AtomicU64 {
        let pointer = self.range(at, size_of::<AtomicU64>());
        assert!(at.is_multiple_of(align_of::<AtomicU64>()), "aligned");
        // SAFETY: In bounds and aligned (mappings begin at pages); every bit pattern is a value; atomics may change at
        // any time; the reference does not outlive the mapping.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }
    }

    pub(crate) fn u32(&self, at: usize) -> &AtomicU32 {
        let pointer = self.range(at, size_of::<AtomicU32>());
        assert!(at.is_multiple_of(align_of::<AtomicU32>()), "aligned");
        // SAFETY: As in `u64`.
        unsafe { AtomicU32::from_ptr(pointer.cast()) }
    }

    pub(crate) fn token(&self, at: usize) -> &DoorbellState {
        let atomic: *const AtomicU32 = self.u32(at);
        // SAFETY: A token is an atomic, and has no other layout.
        unsafe { &*atomic.cast::<DoorbellState>() }
    }

    /// Returns bytes in place. Only payload may be read so, and only before it is returned to its writer.
    pub(crate) fn payload(&self, at: usize, length: usize) -> &[u8] {
        let from = self.range(at, length);
        // SAFETY: The range is within the mapping, which lives as long as the reference. A correct peer does not write to what it
        // has published until it is returned. An incorrect one can change bytes while they are read: payload is only bytes to
        // this program, of which every value is valid, and no memory access depends on them; lengths are copied and checked
        // before.
        unsafe { std::slice::from_raw_parts(from, length) }
    }

    /// Returns bytes in place, to be written before they are published.
    pub(crate) fn payload_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        let from = self.range(at, length);
        // SAFETY: The range is within the mapping, which lives as long as the reference, and no other reference into it exists
        // meanwhile. A correct peer does not touch what was not published. What an incorrect one writes is payload of its own run,
        // as in `payload`.
        unsafe { std::slice::from_raw_parts_mut(from, length) }
    }

    /// Copies `from` to offset `at`.
    pub(crate) fn write(&self, at: usize, from: &[u8]) {
        let to = self.range(at, from.len());
        // SAFETY: Both ranges are valid, and `from` is memory of this process outside this mapping: no references into
        // the mapping are given out.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies from offset `at` to `to`.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) {
        let from = self.range(at, to.len());
        // SAFETY: As in `write`.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// A copy of `length` bytes at offset `at`.
    pub(crate) fn copy(&self, at: usize, length: usize) -> Bytes {
        let from = self.range(at, length);
        let mut copy = Vec::<u8>::with_capacity(length);
        // SAFETY: Both ranges are valid for `length`, and do not overlap: one was allocated just now. All bytes up to the
        // new length are written.
        unsafe {
            ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), length);
            copy.set_len(length);
        }
        copy.into()
    }
}
