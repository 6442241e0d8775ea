//! The memory of this process that others may map, by address, so that the location of any slice can be determined.
//!
//! Arenas are registered when they are made or mapped, this node's own and those of its peers, and are removed before
//! their addresses can be reused. A third process that receives segment and offset reads a fragment where its source
//! wrote it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A piece of memory that other processes may map for reading.
#[derive(Clone, Debug)]
pub struct SharedSegment {
    /// Its number in this process. Numbers are never used again.
    pub id: u32,
    /// Its size.
    pub bytes: usize,
    base: usize,
    file: Arc<OwnedFd>,
}

impl SharedSegment {
    /// The file to map.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the offset of `piece` in it, if it is there.
    fn offset_of(&self, piece: &[u8]) -> Option<usize> {
        let at = (piece.as_ptr() as usize).checked_sub(self.base)?;
        (at < self.bytes && piece.len() <= self.bytes - at).then_some(at)
    }
}

static SEGMENTS: Mutex<Vec<SharedSegment>> = Mutex::new(Vec::new());
/// Changes with `SEGMENTS`, within its lock.
static CHANGES: AtomicU64 = AtomicU64::new(0);
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// A segment's place in the list, until it is dropped; to be dropped before the memory is unmapped.
#[derive(Debug)]
pub(super) struct Entry(u32);

impl Entry {
    /// Enters `bytes` bytes from address `base` on, of this file.
    pub(super) fn new(base: usize, bytes: usize, file: Arc<OwnedFd>) -> Self {
        let id = u32::try_from(LAST_ID.fetch_add(1, Ordering::Relaxed)).expect("fewer than 2^32 segments");
        let mut segments = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        segments.push(SharedSegment { id, bytes, base, file });
        CHANGES.fetch_add(1, Ordering::Release);
        Self(id)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut segments = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        segments.retain(|segment| segment.id != self.0);
        CHANGES.fetch_add(1, Ordering::Release);
    }
}

/// A copy of the list that is read without a lock. While a slice of a segment exists, the segment is in the list, and a
/// later read finds it: the slice was made after the segment was registered.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory {
    segments: Vec<SharedSegment>,
    seen: Option<u64>,
    /// The segment of the last answer: mostly that of the next one too.
    last: usize,
}

impl SharedMemory {
    /// In which segment `piece` lies, and where there.
    pub fn locate(&mut self, piece: &[u8]) -> Option<(&SharedSegment, usize)> {
        self.refresh();
        let found = |segment: &SharedSegment| segment.offset_of(piece);
        let here = self.segments.get(self.last).and_then(found);
        let at = match here {
            Some(at) => at,
            None => {
                let (place, at) = self
                    .segments
                    .iter()
                    .enumerate()
                    .find_map(|(place, segment)| Some((place, found(segment)?)))?;
                self.last = place;
                at
            }
        };
        Some((&self.segments[self.last], at))
    }

    /// The segments that there are.
    pub fn segments(&mut self) -> &[SharedSegment] {
        self.refresh();
        &self.segments
    }

    fn refresh(&mut self) {
        let now = CHANGES.load(Ordering::Acquire);
        if self.seen == Some(now) {
            return;
        }
        let segments = SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen = Some(CHANGES.load(Ordering::Acquire));
        self.segments.clone_from(&segments);
        self.last = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arena;
    use super::*;
    use sheaf_buffer::Pool;
    use sheaf_wire::ByteCount;

    #[test]
    fn a_slice_of_an_arena_is_found_by_its_address_and_the_heap_is_not() {
        let arenas: Vec<_> =
            (0..3).map(|_| Arena::new("sheaf.test", ByteCount::kib(64), false).expect("memory")).collect();
        let mut memory = SharedMemory::default();
        let mut ids = Vec::new();
        for arena in &arenas {
            let mut pool = Pool::with_memory(arena.lender(), 4096, 4);
            let mut block = pool.take().expect("the arena is new");
            sheaf_buffer::Block::append(&mut block, &[7; 100]);
            let slice = sheaf_buffer::Block::cut(&mut block);
            let (segment, at) = memory.locate(&slice[10..]).expect("it lies there");
            assert_eq!((segment.bytes, at), (64 << 10, 10));
            ids.push(segment.id);
        }
        ids.dedup();
        assert_eq!(ids.len(), 3, "each has a number of its own");
        assert!(memory.locate(&[1, 2, 3]).is_none());
        drop(arenas);
        assert!(memory.segments().iter().all(|segment| !ids.contains(&segment.id)));
    }
}
