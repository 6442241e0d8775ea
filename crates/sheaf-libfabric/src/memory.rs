//! The memory that messages are sent from and received into: one region of equal buffers.
#![allow(unsafe_code)]

use bytes::Bytes;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// One owned buffer: there is at most one for each place of the region, so that its owner may write there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Buffer(u32);

impl Buffer {
    pub(super) fn place(&self) -> usize {
        self.0 as usize
    }
}

/// The region. Pages are the kernel's until they are first touched.
#[derive(Debug)]
pub(super) struct Memory {
    base: NonNull<c_void>,
    buffer_bytes: usize,
    buffers: usize,
    /// Buffers whose last slice was dropped, wherever that was.
    returned: Mutex<Vec<Buffer>>,
}

// SAFETY: the region belongs to this value alone and is freed with it; possession of a `Buffer` decides which part of
// it may be accessed, and the list is behind a lock.
unsafe impl Send for Memory {}
// SAFETY: as above: through a shared reference only bytes of an owned `Buffer` are reached, and the list.
unsafe impl Sync for Memory {}

impl Memory {
    /// A region of `buffers` times `buffer_bytes`, and all its buffers, the first one last.
    pub(super) fn new(buffers: usize, buffer_bytes: usize) -> rustix::io::Result<(Arc<Self>, Vec<Buffer>)> {
        let bytes = buffers.checked_mul(buffer_bytes).ok_or(rustix::io::Errno::NOMEM)?;
        let places = u32::try_from(buffers).map_err(|_| rustix::io::Errno::NOMEM)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address that the kernel chooses; nothing else can be there.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
        let base = NonNull::new(base).ok_or(rustix::io::Errno::NOMEM)?;
        let memory = Self { base, buffer_bytes, buffers, returned: Mutex::new(Vec::new()) };
        Ok((Arc::new(memory), (0..places).rev().map(Buffer).collect()))
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffers * self.buffer_bytes
    }

    pub(super) fn base(&self) -> *mut c_void {
        self.base.as_ptr()
    }

    pub(super) fn start(&self, buffer: &Buffer) -> *mut u8 {
        debug_assert!(buffer.place() < self.buffers);
        // SAFETY: a buffer's place is below the number of buffers, all within the mapping.
        unsafe { self.base.as_ptr().cast::<u8>().add(buffer.place() * self.buffer_bytes) }
    }

    /// The first `bytes` of a buffer, at most its size.
    pub(super) fn read<'a>(&'a self, buffer: &'a Buffer, bytes: usize) -> &'a [u8] {
        assert!(bytes <= self.buffer_bytes, "a slice lies within its buffer");
        // SAFETY: within the buffer, which is mapped and was zeroed by the kernel; its owner lends it to us, and
        // neither the provider nor any other code writes there while this side owns the `Buffer`.
        unsafe { std::slice::from_raw_parts(self.start(buffer), bytes) }
    }

    /// The whole of a buffer, to be written.
    pub(super) fn write<'a>(&'a self, buffer: &'a mut Buffer) -> &'a mut [u8] {
        // SAFETY: as in `read`; the owner lends it exclusively, and there is one `Buffer` for each place.
        unsafe { std::slice::from_raw_parts_mut(self.start(buffer), self.buffer_bytes) }
    }

    /// Lends the first `bytes` of a buffer, which returns automatically when the last slice of them is dropped.
    pub(super) fn lend(self: &Arc<Self>, buffer: Buffer, bytes: usize) -> Bytes {
        assert!(bytes <= self.buffer_bytes, "a slice lies within its buffer");
        Bytes::from_owner(Lent { memory: self.clone(), buffer: Some(buffer), bytes })
    }

    /// Moves the buffers that came back into `free`.
    pub(super) fn collect(&self, free: &mut Vec<Buffer>) {
        free.append(&mut self.returned.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping was made in `new` and is unmapped once; no buffer is lent any more, because every
        // borrower shares this value, and a port closes its endpoint before it drops its share.
        let unmapped = unsafe { munmap(self.base.as_ptr(), self.bytes()) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// A received message that the node reads.
struct Lent {
    memory: Arc<Memory>,
    buffer: Option<Buffer>,
    bytes: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| self.memory.read(buffer, self.bytes))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.memory.returned.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
    }
}
