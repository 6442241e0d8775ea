//! The memory from which a node sends: payload is written there once, and other processes read it in place.
//!
//! A node has one arena. Sources write their fragments into blocks of it ([`Lender`]), and the transport copies payload
//! from elsewhere into it. Peers map it read-only. Ranges of it are handed out as [`Bytes`] like any other memory; the
//! transport recognises them by their address.

#![allow(unsafe_code, reason = "slices of shared memory, written and read in turns")]

use super::limbo::Limbo;
use super::segment::{self, Access, Mapping, PAGE_BYTES};
use super::shared::Entry;
use bytes::Bytes;
use rustix::io;
use sheaf_buffer::{Block, Memory, prefetch};
use sheaf_wire::ByteCount;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Memory that a node shares with its peers, of which they only read. Clones speak of the same.
#[derive(Clone, Debug)]
pub struct Arena(Arc<Own>);

#[derive(Debug)]
struct Own {
    /// Dropped before the mapping.
    _entry: Entry,
    mapping: Mapping,
    file: Arc<OwnedFd>,
    /// Offset of the range that was not handed out.
    next: AtomicUsize,
    /// Memory that peers of ended links still read.
    limbo: Limbo,
}

impl Arena {
    /// An arena of `bytes` bytes. That is address space: a block takes memory from when it is first handed out. `name` is
    /// for people, it stands in `/proc/PID/maps`. With `huge_pages` the kernel is asked for such.
    ///
    /// # Errors
    /// The operating system's, if it has no memory or file descriptors.
    pub fn new(name: &str, bytes: ByteCount, huge_pages: bool) -> std::io::Result<Self> {
        let bytes = bytes.as_usize().max(1).next_multiple_of(PAGE_BYTES);
        let file = segment::create(name, bytes)?;
        let mapping = Mapping::new(&file, bytes, Access::ReadWrite)?;
        segment::make_read_only_for_others(&file)?;
        if huge_pages {
            mapping.prefer_huge_pages();
        }
        let file = Arc::new(file);
        let entry = Entry::new(mapping.base().as_ptr() as usize, bytes, file.clone());
        let (next, limbo) = (AtomicUsize::new(0), Limbo::default());
        Ok(Self(Arc::new(Own { _entry: entry, mapping, file, next, limbo })))
    }

    /// Returns a supply of blocks for a pool. The blocks of all lenders together are at most those of the arena; a
    /// block dropped by its owner is not handed out again.
    #[must_use]
    pub fn lender(&self) -> Lender {
        Lender { arena: self.clone() }
    }

    /// The size of the arena.
    #[must_use]
    pub fn bytes(&self) -> ByteCount {
        ByteCount::from(self.0.mapping.bytes())
    }

    /// Returns the number of bytes handed out in blocks.
    #[must_use]
    pub fn handed_out(&self) -> ByteCount {
        ByteCount::from(self.0.next.load(Ordering::Relaxed))
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }

    pub(super) fn limbo(&self) -> &Limbo {
        &self.0.limbo
    }

    /// Returns the offset of `piece` in the arena, if it is there.
    pub(super) fn offset_of(&self, piece: &[u8]) -> Option<usize> {
        let at = (piece.as_ptr() as usize).checked_sub(self.0.mapping.base().as_ptr() as usize)?;
        (at < self.0.mapping.bytes() && piece.len() <= self.0.mapping.bytes() - at).then_some(at)
    }

    fn carve(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
        let end = |at: usize| at.checked_add(bytes).filter(|end| *end <= self.0.mapping.bytes());
        self.0.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()
    }
}

/// A supply of blocks of an [`Arena`].
#[derive(Clone, Debug)]
pub struct Lender {
    arena: Arena,
}

impl Memory for Lender {
    type Block = LentBlock;

    fn allocate(&mut self, bytes: usize) -> Option<LentBlock> {
        let at = self.arena.carve(bytes)?;
        // Small blocks at once. Large ones may never be used to their end.
        let populated = bytes.next_multiple_of(PAGE_BYTES).min(POPULATE_BYTES);
        self.arena.0.mapping.populate(at, populated).ok()?;
        let returned = Arc::new(AtomicBool::new(true));
        Some(LentBlock { arena: self.arena.clone(), at, bytes, start: 0, end: 0, whole: None, returned })
    }
}

/// Number of bytes of a new block that are brought into memory at once.
const POPULATE_BYTES: usize = 1 << 20;

/// A block of an arena.
///
/// All slices of a block share one count, which costs an allocation for each time that the block is filled and
/// none for a slice.
#[derive(Debug)]
pub struct LentBlock {
    arena: Arena,
    /// Its offset in the arena and its size.
    at: usize,
    bytes: usize,
    /// Bytes appended since the last cut: from `start` to `end`.
    start: usize,
    end: usize,
    /// The slice of all that was or will be written, from the first cut to the next reclaim.
    whole: Option<Bytes>,
    /// Set when the last slice is dropped.
    returned: Arc<AtomicBool>,
}

impl LentBlock {
    /// The room that is left, for writing.
    fn free(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.bytes - self.end, "{length} bytes fit the block");
        // SAFETY: The range is the block's, which was carved from the arena for this block alone, and lies behind all
        // that was cut off: no slice of it is read before it is cut (`cut`), and none is left when `reclaim` starts
        // anew. `whole` covers it, but is never read as such.
        unsafe {
            let base = self.arena.0.mapping.base().as_ptr();
            slice::from_raw_parts_mut(base.add(self.at + self.end), length)
        }
    }

    #[inline]
    fn expect_another(&mut self, written: usize) {
        let room = self.room();
        prefetch::expect_another(written, self.free(room).as_ptr(), room);
    }
}

impl Block for LentBlock {
    fn room(&self) -> usize {
        self.bytes - self.end
    }

    fn appended(&self) -> usize {
        self.end - self.start
    }

    fn append(&mut self, bytes: &[u8]) {
        self.free(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
        self.expect_another(bytes.len());
    }

    fn append_fill(&mut self, value: u8, length: usize) {
        self.free(length).fill(value);
        self.end += length;
        self.expect_another(length);
    }

    fn cut(&mut self) -> Bytes {
        let (arena, at, bytes) = (&self.arena, self.at, self.bytes);
        let returned = &self.returned;
        let whole = self.whole.get_or_insert_with(|| {
            returned.store(false, Ordering::Relaxed);
            Bytes::from_owner(Whole { arena: arena.clone(), at, bytes, returned: returned.clone() })
        });
        let cut = whole.slice(self.start..self.end);
        self.start = self.end;
        cut
    }

    fn reclaim(&mut self, bytes: usize) -> bool {
        self.whole = None;
        if bytes > self.bytes || !self.returned.load(Ordering::Acquire) {
            return false;
        }
        (self.start, self.end) = (0, 0);
        true
    }
}

/// Memory that all slices of a block hold.
struct Whole {
    arena: Arena,
    at: usize,
    bytes: usize,
    returned: Arc<AtomicBool>,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: The range is in the mapping, which lives as long as this value. `Bytes::from_owner` calls this once,
        // for address and length; slices are read only where they were written before, and are not written again while
        // they live.
        unsafe { slice::from_raw_parts(self.arena.0.mapping.base().as_ptr().add(self.at), self.bytes) }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.returned.store(true, Ordering::Release);
    }
}

/// A peer's arena: only for reading.
#[derive(Debug)]
pub(crate) struct PeerArena {
    /// Dropped before the mapping.
    _entry: Entry,
    mapping: Mapping,
}

impl PeerArena {
    /// Maps `bytes` bytes of a peer's file. The file stays open: a third process may be handed it.
    pub(crate) fn new(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let mapping = Mapping::new(&file, bytes, Access::Read)?;
        let entry = Entry::new(mapping.base().as_ptr() as usize, bytes, Arc::new(file));
        Ok(Self { _entry: entry, mapping })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes()
    }

    /// Returns all of it. Callers must read only the ranges of a frame, and only before they return the frame.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: The mapping lives as long as the reference. A correct peer does not write to data that it has sent
        // until they are returned, and only such data are read. An incorrect one can change bytes while they are read:
        // payload is only bytes to this program, of which every value is valid, and no memory access depends on them;
        // the length of every piece was copied and checked before.
        unsafe { slice::from_raw_parts(self.mapping.base().as_ptr(), self.mapping.bytes()) }
    }
}
