//! Disks that are full, and disks that fail.

use crate::recording::{SLICE_PS, TestSlice, ask, filter, found, options};
use sheaf_spool::disk::{SpoolDirectory, SpoolDisk};
use sheaf_spool::{Archive, Spool};
use sheaf_store::event_file::{DirectoryFile, PartFile};
use sheaf_wire::HitInterval;
use sheaf_wire::spool_link::GapReason;
use sheaf_wire::{Hit, SourceId};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A disk with a limited number of bytes, whose files fail with an error for some time.
struct SmallDisk {
    directory: SpoolDirectory,
    state: Arc<DiskState>,
}

#[derive(Default)]
struct DiskState {
    capacity: AtomicU64,
    files: Mutex<BTreeMap<String, u64>>,
    /// Appends that fail from now on, by another error than that of a full disk.
    failures: AtomicU64,
}

impl DiskState {
    fn used(&self) -> u64 {
        self.files.lock().unwrap().values().sum()
    }
}

struct SmallFile {
    file: DirectoryFile,
    name: String,
    state: Arc<DiskState>,
}

impl SpoolDisk for SmallDisk {
    type File = SmallFile;

    fn create(&mut self, name: &str) -> io::Result<SmallFile> {
        let file = self.directory.create(name)?;
        self.state.files.lock().unwrap().insert(name.to_owned(), 0);
        Ok(SmallFile { file, name: name.to_owned(), state: self.state.clone() })
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.directory.remove(name)?;
        self.state.files.lock().unwrap().remove(name);
        Ok(())
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.directory.sync_names()
    }

    fn free_bytes(&self) -> Option<u64> {
        Some(self.state.capacity.load(Ordering::Relaxed).saturating_sub(self.state.used()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }
}

impl PartFile for SmallFile {
    /// Writes what there is room for, as file systems do, and fails when there is none.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.state.failures.load(Ordering::Relaxed) > 0 {
            self.state.failures.fetch_sub(1, Ordering::Relaxed);
            return Err(ErrorKind::PermissionDenied.into());
        }
        let free = self.state.capacity.load(Ordering::Relaxed).saturating_sub(self.state.used());
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let some = &all[..all.len().min(free as usize)];
        if some.is_empty() {
            return Err(ErrorKind::StorageFull.into());
        }
        let written = self.file.append(&[IoSlice::new(some)])?;
        *self.state.files.lock().unwrap().get_mut(&self.name).unwrap() += written as u64;
        Ok(written)
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)?;
        self.state.files.lock().unwrap().insert(self.name.clone(), bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn write_again(&mut self, range: Range<u64>, checksum: u32) -> io::Result<u32> {
        self.file.write_again(range, checksum)
    }
}

fn slices(count: u64) -> Vec<TestSlice> {
    let slice = |number| {
        let hit = |at| Hit { time_ps: number * SLICE_PS + at, channel: 1, value: number as u16, extra: 0 };
        TestSlice { source: SourceId(1), number, hits: (0..10).map(hit).collect() }
    };
    (0..count).map(slice).collect()
}

fn open(directory: &Path, capacity: u64, segment: u64) -> (Spool, Arc<DiskState>) {
    let state = Arc::new(DiskState::default());
    state.capacity.store(capacity, Ordering::Relaxed);
    let disk = SmallDisk { directory: SpoolDirectory::new(directory).unwrap(), state: state.clone() };
    let mut options = options(directory, 1, 1 << 20);
    options.segment = sheaf_wire::ByteCount(segment);
    let (spool, _) = Spool::open_on(disk, options).unwrap();
    (spool, state)
}

fn take(spool: &mut Spool, slices: &[TestSlice]) {
    for slice in slices {
        spool.take(slice.source, slice.interval(), &slice.payload(), sheaf_wire::Timestamp(1)).unwrap();
    }
}

const ALL: HitInterval = HitInterval { from_ps: 0, until_ps: 1_000 * SLICE_PS };

#[test]
fn a_disk_that_is_smaller_than_the_ring_keeps_the_latest_hits() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, state) = open(directory.path(), 5_000, 1_000);
    let slices = slices(200);
    take(&mut spool, &slices);
    let books = spool.finish(sheaf_wire::Timestamp(1));
    assert!(books.is_balanced() && books.lost() == 0, "{books:?}");
    assert!(books.segments_deleted_early > 0, "{books:?}");
    assert!(state.used() <= 5_000);
    let answer = ask(&Archive::open(directory.path()).unwrap().0, ALL, &[1]);
    let (kept, all) = (found(&answer), filter(&slices, ALL, &[]));
    let kept = &kept[&SourceId(1)];
    assert!(kept.len() >= 100 && all[&SourceId(1)].ends_with(kept), "{} hits", kept.len());
    assert_eq!(answer.gaps[0].reason, GapReason::Deleted);
}

#[test]
fn hits_for_which_a_disk_has_no_room_at_all_are_counted_and_a_gap_says_so_when_there_is_room_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, state) = open(directory.path(), 1 << 20, 1 << 20);
    let slices = slices(60);
    let wait = |spool: &Spool| {
        while spool.books().waiting > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    };
    // Whole blocks: two slices each.
    take(&mut spool, &slices[..20]);
    wait(&spool);
    state.capacity.store(0, Ordering::Relaxed);
    take(&mut spool, &slices[20..40]);
    wait(&spool);
    state.capacity.store(1 << 20, Ordering::Relaxed);
    take(&mut spool, &slices[40..]);
    let books = spool.finish(sheaf_wire::Timestamp(1));
    assert!(books.is_balanced(), "{books:?}");
    assert_eq!((books.disk_full, books.spooled), (200, 400));
    let answer = ask(&Archive::open(directory.path()).unwrap().0, ALL, &[1]);
    let kept = [&slices[..20], &slices[40..]].concat();
    assert_eq!(found(&answer), filter(&kept, ALL, &[]));
    let lost = HitInterval { from_ps: 20 * SLICE_PS, until_ps: 40 * SLICE_PS };
    let gaps: Vec<_> = answer.gaps.iter().map(|gap| (gap.interval, gap.reason)).collect();
    assert_eq!(gaps[0], (lost, GapReason::Lost));
}

#[test]
fn hits_that_a_failing_disk_does_not_take_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spool, state) = open(directory.path(), 1 << 20, 1 << 20);
    state.failures.store(2, Ordering::Relaxed);
    let slices = slices(20);
    take(&mut spool, &slices);
    let books = spool.finish(sheaf_wire::Timestamp(1));
    assert!(books.is_balanced(), "{books:?}");
    assert_eq!((books.write_failed, books.spooled), (40, 160));
}
