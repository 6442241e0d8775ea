//! Blocks to segments.

use crate::books::SpoolBooks;
use crate::catalog::{Catalog, SegmentContent, file_name};
use crate::disk::SpoolDisk;
use crate::gathering::SpoolBlock;
use crate::ring::{Ring, RingLimits, RingStep};
use sheaf_store::event_file::PartFile as _;
use sheaf_telemetry::log_as;
use sheaf_wire::spool_file::{
    FOOTER_BYTES, INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, SegmentHeader, emit_index,
};
use sheaf_wire::times::Times;
use sheaf_wire::{Nanos, RunNumber, SessionId, Timestamp};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes between two looks at the free space of the disk.
const LOOK_BYTES: u64 = 16 << 20;

/// Options of a writer.
#[derive(Clone, Debug)]
pub struct SegmentOptions {
    /// The run.
    pub run: RunNumber,
    /// The recording: its start, since 1970.
    pub session: SessionId,
    /// A JSON object as text, kept in every segment.
    pub metadata: String,
    /// Limits of the ring.
    pub limits: RingLimits,
    /// Number of bytes that stay free on the disk: the ring gives way to others.
    pub keep_free_bytes: u64,
    /// Whether a closed segment is on the disk before the next one is begun.
    pub sync: bool,
}

/// Writes blocks to a ring of segments, and enters them in the catalog.
#[derive(Debug)]
pub struct SegmentWriter<D: SpoolDisk> {
    disk: D,
    options: SegmentOptions,
    ring: Ring,
    catalog: Arc<RwLock<Catalog>>,
    open: Option<OpenSegment<D::File>>,
    books: SpoolBooks,
    /// Bytes until the next look at the free space.
    unseen_bytes: u64,
    failures: u64,
}

#[derive(Debug)]
struct OpenSegment<F> {
    number: u64,
    file: F,
    end: u64,
    sources: BTreeSet<sheaf_wire::SourceId>,
}

/// Reason why a block was dropped.
enum Dropped {
    DiskFull,
    Failed,
}

impl<D: SpoolDisk> SegmentWriter<D> {
    /// Begins with the segments of a catalog, whose files have these sizes.
    #[must_use]
    pub fn new(
        disk: D,
        options: SegmentOptions,
        catalog: Arc<RwLock<Catalog>>,
        sizes: impl IntoIterator<Item = (u64, u64)>,
    ) -> Self {
        let ring = Ring::new(options.limits, sizes);
        let books = SpoolBooks::default();
        Self { disk, options, ring, catalog, open: None, books, unseen_bytes: 0, failures: 0 }
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn books(&self) -> SpoolBooks {
        self.books
    }

    /// Writes a block, or drops it and counts its hits.
    pub fn write(&mut self, block: &SpoolBlock) {
        let hits = u64::from(block.header.hits);
        match self.try_write(block) {
            Ok(()) => self.books.spooled += hits,
            Err(Dropped::DiskFull) => self.books.disk_full += hits,
            Err(Dropped::Failed) => self.books.write_failed += hits,
        }
    }

    fn try_write(&mut self, block: &SpoolBlock) -> Result<(), Dropped> {
        loop {
            let begin_bytes = self.begin_bytes();
            match self.ring.next(self.growth(block), begin_bytes) {
                RingStep::TooLarge => return Err(Dropped::DiskFull),
                RingStep::Delete(number) => self.delete(number, false)?,
                RingStep::Close => self.close(),
                RingStep::Begin(number) => match self.begin(number, block.header.written) {
                    Ok(()) => self.ring.begun(begin_bytes),
                    Err(error) => self.give_way(&error, number)?,
                },
                RingStep::Append => {
                    if self.is_disk_full(block.bytes.len() as u64) {
                        self.give_way(&ErrorKind::StorageFull.into(), 0)?;
                        continue;
                    }
                    let Some(number) = self.open.as_ref().map(|open| open.number) else {
                        return Err(Dropped::Failed);
                    };
                    match self.append(block) {
                        Ok(()) => return Ok(()),
                        Err(error) => self.give_way(&error, number)?,
                    }
                }
            }
        }
    }

    /// Returns the size of a segment without blocks, index included.
    fn begin_bytes(&self) -> u64 {
        let header = sheaf_wire::spool_file::SEGMENT_HEADER_BYTES + self.options.metadata.len();
        (header + INDEX_HEADER_BYTES + FOOTER_BYTES) as u64
    }

    /// Returns the bytes by which a block lengthens its segment, index included.
    fn growth(&self, block: &SpoolBlock) -> u64 {
        let is_new = |source: &sheaf_wire::SourceId| {
            self.open.as_ref().is_none_or(|open| !open.sources.contains(source))
        };
        let new = block.sources.iter().filter(|(source, ..)| is_new(source)).count();
        (block.bytes.len() + (1 + new) * INDEX_ENTRY_BYTES) as u64
    }

    fn is_disk_full(&mut self, bytes: u64) -> bool {
        if let Some(left) = self.unseen_bytes.checked_sub(bytes) {
            self.unseen_bytes = left;
            return false;
        }
        let keep = self.options.keep_free_bytes;
        let is_full = keep > 0 && self.disk.free_bytes().is_some_and(|free| free < keep + bytes);
        // While it is full, each block looks again.
        self.unseen_bytes = if is_full { 0 } else { LOOK_BYTES };
        is_full
    }

    fn begin(&mut self, number: u64, now: Timestamp) -> io::Result<()> {
        let options = &self.options;
        // The first segment of a recording is recognised by this time.
        let start = Timestamp(options.session.0);
        let created = if self.books.segments == 0 { start } else { now.max(start + Nanos(1)) };
        let header = SegmentHeader { run: options.run, number, session: options.session, created };
        let bytes = header.emit(&options.metadata).map_err(io::Error::other)?;
        let name = file_name(number);
        let mut file = self.disk.create(&name)?;
        if let Err(error) = write_all(&mut file, &bytes) {
            drop(file);
            // A header without content, which the next recovery removes if this fails.
            let _ = self.disk.remove(&name);
            return Err(error);
        }
        let end = bytes.len() as u64;
        self.catalog().insert(SegmentContent::new(header, options.metadata.clone(), end));
        self.open = Some(OpenSegment { number, file, end, sources: BTreeSet::new() });
        self.books.segments += 1;
        self.books.bytes += end;
        Ok(())
    }

    fn append(&mut self, block: &SpoolBlock) -> io::Result<()> {
        let growth = self.growth(block);
        let Some(open) = &mut self.open else { return Err(ErrorKind::NotFound.into()) };
        if let Err(error) = write_all(&mut open.file, &block.bytes) {
            // Whatever was written of it is overwritten, or is a torn end of the segment.
            if open.file.truncate(open.end).is_err() {
                self.abandon();
            }
            return Err(error);
        }
        let (number, offset) = (open.number, open.end);
        open.end += block.bytes.len() as u64;
        open.sources.extend(block.sources.iter().map(|(source, ..)| *source));
        self.ring.appended(growth);
        self.books.blocks += 1;
        self.books.bytes += block.bytes.len() as u64;
        self.catalog().add(number, offset, block);
        Ok(())
    }

    /// Closes the open segment: writes its index and waits until it is on the disk.
    pub fn close(&mut self) {
        let Some(open) = &mut self.open else { return };
        let index = {
            let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
            let content = catalog.get(open.number);
            let index = content.map(|content| {
                let sources: Vec<_> = content.sources.values().copied().collect();
                emit_index(open.end, &content.blocks, sources.into_iter()).map_err(io::Error::other)
            });
            index.unwrap_or_else(|| Err(ErrorKind::NotFound.into()))
        };
        let written = index.and_then(|index| {
            write_all(&mut open.file, &index)?;
            open.file.trim();
            if self.options.sync {
                open.file.sync()?;
                self.disk.sync_names()?;
            }
            Ok(index.len() as u64)
        });
        match written {
            Ok(bytes) => {
                let end = open.end + bytes;
                self.books.bytes += bytes;
                self.open = None;
                self.ring.closed(end);
            }
            Err(error) => {
                log_as!(
                    SPOOL_INCOMPLETE;
                    "{} has no index, which takes longer to read: {error}",
                    self.disk.path(&file_name(open.number)).display()
                );
                // Whole blocks are found without an index.
                let _ = open.file.truncate(open.end);
                self.abandon();
            }
        }
    }

    /// Leaves the open segment without an index.
    fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            self.books.segments_unindexed += 1;
            self.ring.closed(open.end);
        }
    }

    fn delete(&mut self, number: u64, is_early: bool) -> Result<(), Dropped> {
        // Readers stop using it before it is gone.
        self.catalog().remove(number);
        let name = file_name(number);
        match self.disk.remove(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.report(&format!("cannot delete {}: {error}", self.disk.path(&name).display()));
                Err(Dropped::Failed)
            }
            _ => {
                self.ring.deleted(number);
                self.books.segments_deleted += 1;
                self.books.segments_deleted_early += u64::from(is_early);
                Ok(())
            }
        }
    }

    /// After an error of writing: deletes the oldest segment if the disk is full.
    fn give_way(&mut self, error: &io::Error, number: u64) -> Result<(), Dropped> {
        if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            let path = self.disk.path(&file_name(number));
            self.report(&format!("cannot write {}: {error}; hits are dropped", path.display()));
            return Err(Dropped::Failed);
        }
        let Some(oldest) = self.ring.oldest() else {
            self.report("the disk is full, and the spool has no other segment to delete: hits are dropped");
            return Err(Dropped::DiskFull);
        };
        self.report(&format!("the disk is full: {} is deleted to make room", file_name(oldest)));
        self.delete(oldest, true)
    }

    fn report(&mut self, what: &str) {
        self.failures += 1;
        if let Some(times) = Times::to_log(self.failures) {
            log_as!(SPOOL_INCOMPLETE; "{what}{times}");
        }
    }

    fn catalog(&self) -> std::sync::RwLockWriteGuard<'_, Catalog> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_all(file: &mut impl sheaf_store::event_file::PartFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
